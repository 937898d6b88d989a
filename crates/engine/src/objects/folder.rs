//! A folder as an object store: `file:///folder`. For a disk of another machine that is mounted, and for tests.

use crate::objects::store::{ObjectError, ObjectFault, ObjectStore};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Objects as files. Each is written under another name and then linked, which fails where there is one.
#[derive(Debug)]
pub(crate) struct FolderStore {
    root: PathBuf,
}

/// Files that are being written begin with it; they are no objects.
const DRAFT: &str = ".new-";

impl FolderStore {
    pub fn open(url: &str) -> Result<Self, ObjectError> {
        match url.strip_prefix("file://") {
            Some(path) if path.starts_with('/') => Ok(Self { root: path.into() }),
            _ => Err(ObjectError::new(
                ObjectFault::Wrong,
                format!(
                    "{url}: write three slashes and the path of the folder from the root, as in file:///mnt/history"
                ),
            )),
        }
    }

    /// The file of an object.
    fn path(&self, key: &str) -> Result<PathBuf, ObjectError> {
        let is_plain = |segment: &str| !segment.is_empty() && !segment.starts_with('.');
        if key.split('/').all(is_plain) {
            return Ok(self.root.join(key));
        }
        Err(ObjectError::new(ObjectFault::Wrong, format!("{key:?} is no name of an object")))
    }
}

fn failed<'a>(operation: &'a str, path: &'a Path) -> impl FnOnce(io::Error) -> ObjectError + 'a {
    move |error| {
        let fault = match error.kind() {
            io::ErrorKind::NotFound => ObjectFault::Missing,
            io::ErrorKind::PermissionDenied => ObjectFault::Denied,
            io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => ObjectFault::Wrong,
            _ => ObjectFault::Unavailable,
        };
        ObjectError::new(fault, format!("cannot {operation} {}: {error}", path.display()))
    }
}

impl ObjectStore for FolderStore {
    fn put_if_absent(&self, key: &str, content: &[u8]) -> Result<bool, ObjectError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let path = self.path(key)?;
        if path.exists() {
            return Ok(false);
        }
        let folder = path.parent().unwrap_or(&self.root);
        fs::create_dir_all(folder).map_err(failed("create", folder))?;
        let unique = format!("{DRAFT}{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let draft = folder.join(unique);
        let written = File::create(&draft).and_then(|mut file| {
            file.write_all(content)?;
            file.sync_data()
        });
        let linked =
            written.map_err(failed("write", &draft)).and_then(|()| match fs::hard_link(&draft, &path) {
                Ok(()) => Ok(true),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
                Err(error) => Err(failed("create", &path)(error)),
            });
        let _ = fs::remove_file(&draft);
        if linked.as_ref().is_ok_and(|created| *created) {
            // So that the names survive a power cut: the local copy goes next.
            for folder in folder.ancestors().take_while(|folder| folder.starts_with(&self.root)) {
                File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed("sync", folder))?;
            }
        }
        linked
    }

    fn get_range(&self, key: &str, range: Range<u64>) -> Result<Vec<u8>, ObjectError> {
        let path = self.path(key)?;
        let mut file = File::open(&path).map_err(failed("open", &path))?;
        let have = file.metadata().map_err(failed("open", &path))?.len();
        if range.start >= have {
            let what = format!("{} ends at byte {have}, before {}", path.display(), range.start);
            return Err(ObjectError::new(ObjectFault::Wrong, what));
        }
        let mut bytes = Vec::with_capacity((range.end.min(have) - range.start) as usize);
        file.seek(SeekFrom::Start(range.start)).map_err(failed("read", &path))?;
        file.take(range.end - range.start).read_to_end(&mut bytes).map_err(failed("read", &path))?;
        Ok(bytes)
    }

    fn size(&self, key: &str) -> Result<Option<u64>, ObjectError> {
        let path = self.path(key)?;
        match fs::metadata(&path) {
            Ok(found) => Ok(Some(found.len())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed("look for", &path)(error)),
        }
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>, ObjectError> {
        let mut keys = Vec::new();
        let mut folders = vec![prefix.trim_end_matches('/').to_string()];
        while let Some(folder) = folders.pop() {
            let path = if folder.is_empty() { self.root.clone() } else { self.path(&folder)? };
            let entries = match fs::read_dir(&path) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(failed("list", &path)(error)),
            };
            for entry in entries {
                let entry = entry.map_err(failed("list", &path))?;
                let Ok(name) = entry.file_name().into_string() else { continue };
                if name.starts_with('.') {
                    continue;
                }
                let key = if folder.is_empty() { name } else { format!("{folder}/{name}") };
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => folders.push(key),
                    Ok(_) => keys.push(key),
                    Err(error) => return Err(failed("list", &path)(error)),
                }
            }
        }
        keys.sort();
        Ok(keys)
    }

    fn delete(&self, key: &str) -> Result<(), ObjectError> {
        let path = self.path(key)?;
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", &path)(error)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_created_once_and_read_in_ranges() {
        let folder = tempfile::tempdir().unwrap();
        let store = FolderStore::open(&format!("file://{}/deep/er", folder.path().display())).unwrap();
        assert!(store.list("streams/").unwrap().is_empty());
        assert!(store.put_if_absent("streams/a/1", b"hello").unwrap());
        assert!(!store.put_if_absent("streams/a/1", b"other").unwrap());
        assert_eq!(store.get_range("streams/a/1", 1..99).unwrap(), b"ello");
        assert_eq!(store.get_range("streams/a/1", 5..6).unwrap_err().fault, ObjectFault::Wrong);
        assert_eq!(store.get_range("streams/a/2", 0..6).unwrap_err().fault, ObjectFault::Missing);
        assert_eq!((store.size("streams/a/1").unwrap(), store.size("x").unwrap()), (Some(5), None));
        assert!(store.put_if_absent("streams/b", b"1").unwrap());
        assert_eq!(store.list("streams/").unwrap(), ["streams/a/1", "streams/b"]);
        assert_eq!(store.list("streams/a/").unwrap(), ["streams/a/1"]);
        store.delete("streams/b").unwrap();
        store.delete("streams/b").unwrap();
        for key in ["../x", "a//b", ".new-1", ""] {
            assert!(store.put_if_absent(key, b"").is_err(), "{key:?}");
        }
        assert!(FolderStore::open("file://relative").is_err());
    }
}
