//! Where files of tables are: a folder of this machine, or an object store.
//!
//! Files have names that nothing else has, and are created whole or not at all: so a name that exists is never written again.

use crate::error::Error;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tapedb_engine::{ObjectError, ObjectFault, ObjectStore, OpenObjectStore};

/// A folder or a bucket, by the beginning of a URL.
#[derive(Debug, Clone)]
pub enum Place {
    /// Files of this machine.
    Folder,
    /// Objects; the URL of the bucket, which keys are relative to.
    Store(Arc<dyn ObjectStore>, String),
}

/// What opens stores of other machines.
static STORES: Mutex<Option<OpenObjectStore>> = Mutex::new(None);

/// Makes object stores known to this process, by what opens the URL of a bucket: `tapedb_tier::open`.
pub fn register_stores(open: OpenObjectStore) {
    *STORES.lock().unwrap_or_else(PoisonError::into_inner) = Some(open);
}

/// Largest file of metadata that is read.
const METADATA_BYTES_MAX: u64 = 1 << 30;

impl Place {
    /// The place of a URL such as `file:///folder/table`, `/folder/table` or `s3://bucket/prefix`. It makes no request.
    ///
    /// # Errors
    /// When the URL is not valid, or this program has no store of its scheme.
    pub fn of(url: &str) -> Result<Self, Error> {
        let Some((scheme, rest)) = url.split_once("://") else { return Ok(Self::Folder) };
        if scheme == "file" {
            return Ok(Self::Folder);
        }
        let scheme = if scheme == "s3a" || scheme == "s3n" { "s3" } else { scheme };
        let bucket = rest.split('/').next().unwrap_or_default();
        let url = format!("{scheme}://{bucket}");
        let opener = *STORES.lock().unwrap_or_else(PoisonError::into_inner);
        let opener = opener.ok_or_else(|| {
            Error::Settings(format!(
                "{url}: this program has no object stores; the `tapedb` command has them (feature `tier`)"
            ))
        })?;
        let store = opener(&url).map_err(|error| Error::Settings(format!("{url}: {error}")))?;
        Ok(Self::Store(store, url))
    }

    /// The content of a file; `None`: there is none.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(&self, url: &str) -> Result<Option<Vec<u8>>, Error> {
        match self {
            Self::Folder => {
                let path = local(url);
                let mut bytes = Vec::new();
                let read =
                    File::open(&path).and_then(|file| file.take(METADATA_BYTES_MAX).read_to_end(&mut bytes));
                match read {
                    Ok(_) => Ok(Some(bytes)),
                    Err(error) if is_missing(&error) => Ok(None),
                    Err(error) => Err(failed("read", &path, &error)),
                }
            }
            Self::Store(store, _) => {
                let key = key_of(url);
                let failed = |error| refused("read", url, error);
                let Some(size) = store.size(key).map_err(failed)? else { return Ok(None) };
                store.get_range(key, 0..size.min(METADATA_BYTES_MAX)).map(Some).map_err(failed)
            }
        }
    }

    /// Creates a file; `false`: there is one of that name, which stays as it is.
    ///
    /// # Errors
    /// When it cannot be written. It may exist all the same.
    pub fn create(&self, url: &str, content: &[u8]) -> Result<bool, Error> {
        match self {
            Self::Folder => {
                let path = local(url);
                create_file(&path, content).map_err(|error| failed("create", &path, &error))
            }
            Self::Store(store, _) => {
                store.put_if_absent(key_of(url), content).map_err(|error| refused("create", url, error))
            }
        }
    }

    /// Begins a file that is written piece by piece.
    ///
    /// # Errors
    /// When its folder cannot be created.
    pub fn draft(&self, url: &str) -> Result<Draft, Error> {
        Ok(match self {
            Self::Folder => {
                let path = local(url);
                let failed = |error| failed("create", &path, &error);
                let folder = path.parent().unwrap_or(Path::new("/"));
                fs::create_dir_all(folder).map_err(failed)?;
                let file = OpenOptions::new().write(true).create_new(true).open(&path).map_err(failed)?;
                Draft {
                    url: url.into(),
                    place: self.clone(),
                    file: Some(file),
                    bytes: Vec::new(),
                    is_whole: false,
                }
            }
            Self::Store(..) => {
                Draft { url: url.into(), place: self.clone(), file: None, bytes: Vec::new(), is_whole: false }
            }
        })
    }

    /// Replaces a small file that others only read as a hint; what fails is left.
    pub fn replace_hint(&self, url: &str, content: &[u8]) {
        match self {
            Self::Folder => {
                let path = local(url);
                let draft = path.with_extension(format!("{}.tmp", std::process::id()));
                let _ = fs::write(&draft, content).and_then(|()| fs::rename(&draft, &path));
            }
            // Stores of the engine have no replacing; readers look for the newest version without a hint.
            Self::Store(..) => {}
        }
    }

    /// Replaces a small file that readers can do without; what fails is left. In a store there is none for a moment.
    pub fn replace(&self, url: &str, content: &[u8]) {
        match self {
            Self::Folder => self.replace_hint(url, content),
            Self::Store(store, _) => {
                let key = key_of(url);
                let _ = store.delete(key).and_then(|()| store.put_if_absent(key, content));
            }
        }
    }

    /// Names of the files in a folder, not below it.
    ///
    /// # Errors
    /// When it cannot be listed; there is no error where it does not exist.
    pub fn list(&self, url: &str) -> Result<Vec<String>, Error> {
        match self {
            Self::Folder => {
                let path = local(url);
                match fs::read_dir(&path) {
                    Ok(entries) => {
                        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
                        Ok(names.collect())
                    }
                    Err(error) if is_missing(&error) => Ok(Vec::new()),
                    Err(error) => Err(failed("list", &path, &error)),
                }
            }
            Self::Store(store, _) => {
                let prefix = format!("{}/", key_of(url).trim_end_matches('/'));
                let keys = store.list(&prefix).map_err(|error| refused("list", url, error))?;
                let names = keys.iter().filter_map(|key| key.strip_prefix(&*prefix));
                Ok(names.filter(|name| !name.contains('/')).map(str::to_string).collect())
            }
        }
    }

    /// Removes a file that nothing names; what fails is left, for it is named nowhere.
    pub fn remove(&self, url: &str) {
        match self {
            Self::Folder => drop(fs::remove_file(local(url))),
            Self::Store(store, _) => drop(store.delete(key_of(url))),
        }
    }
}

/// A file while it is written; removed unless it becomes whole.
#[derive(Debug)]
pub struct Draft {
    url: String,
    place: Place,
    /// The file, where it is one of this machine; otherwise all bytes are in memory, and become one object.
    file: Option<File>,
    bytes: Vec<u8>,
    is_whole: bool,
}

impl Draft {
    /// Ends the file: it is on the disk, or in the store.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(&mut self) -> Result<(), Error> {
        match (&self.file, &self.place) {
            (Some(file), _) => {
                let path = local(&self.url);
                let synced = file.sync_all().and_then(|()| sync_folders(&path));
                synced.map_err(|error| failed("write", &path, &error))?;
            }
            (None, Place::Store(store, _)) => {
                let created = store.put_if_absent(key_of(&self.url), &self.bytes);
                if !created.map_err(|error| refused("create", &self.url, error))? {
                    return Err(Error::File(format!("{}: another program has created this file", self.url)));
                }
            }
            (None, Place::Folder) => {}
        }
        self.is_whole = true;
        Ok(())
    }
}

impl Write for Draft {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.file {
            Some(file) => file.write(bytes),
            None => self.bytes.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_whole && self.file.is_some() {
            self.place.remove(&self.url);
        }
    }
}

/// The path of a file of this machine.
pub(crate) fn local(url: &str) -> PathBuf {
    let path = url.strip_prefix("file://").or_else(|| url.strip_prefix("file:")).unwrap_or(url);
    PathBuf::from(path)
}

/// The name of an object in its bucket.
fn key_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split_once('/').map_or("", |(_, key)| key)
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn failed(operation: &str, path: &Path, error: &io::Error) -> Error {
    let what = format!("cannot {operation} {}: {error}", path.display());
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidInput => Error::File(what),
        _ => Error::Away(format!("{what}; put that in order and publish again, nothing is lost")),
    }
}

fn refused(operation: &str, url: &str, error: ObjectError) -> Error {
    let what = format!("cannot {operation} {url}: {error}");
    match error.fault {
        ObjectFault::Unavailable => Error::Away(what),
        _ => Error::File(what),
    }
}

/// Creates a file under another name and links it, which fails where there is one.
fn create_file(path: &Path, content: &[u8]) -> io::Result<bool> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let folder = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder)?;
    let draft = folder.join(format!(".new-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
    let written = File::create(&draft).and_then(|mut file| {
        file.write_all(content)?;
        file.sync_data()
    });
    let linked = written.and_then(|()| match fs::hard_link(&draft, path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    });
    let _ = fs::remove_file(&draft);
    if linked.as_ref().is_ok_and(|created| *created) {
        sync_folders(path)?;
    }
    linked
}

/// Syncs the folder of a file and the one above it, so that new names survive a power cut.
fn sync_folders(path: &Path) -> io::Result<()> {
    path.ancestors()
        .skip(1)
        .take(3)
        .filter(|folder| !folder.as_os_str().is_empty())
        .try_for_each(|folder| File::open(folder)?.sync_all())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_created_once() {
        let directory = tempfile::tempdir().unwrap();
        let url = format!("file://{}/a/b", directory.path().display());
        let place = Place::of(&url).unwrap();
        assert_eq!(place.read(&url).unwrap(), None);
        assert!(place.create(&url, b"one").unwrap());
        assert!(!place.create(&url, b"two").unwrap());
        assert_eq!(place.read(&url).unwrap().as_deref(), Some(&b"one"[..]));
        let folder = format!("{}/a", directory.path().display());
        assert_eq!(place.list(&folder).unwrap(), ["b"]);
        let mut draft = place.draft(&format!("{folder}/c/d")).unwrap();
        draft.write_all(b"three").unwrap();
        drop(draft);
        assert_eq!(place.list(&format!("{folder}/c")).unwrap(), Vec::<String>::new());
        assert_eq!(place.list(&format!("{folder}/none")).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn urls_are_paths_or_keys() {
        for (url, path) in [("/a/b", "/a/b"), ("file:///a/b", "/a/b"), ("file:/a/b", "/a/b")] {
            assert_eq!(local(url), Path::new(path));
        }
        assert_eq!(key_of("s3://bucket/a/b"), "a/b");
        assert!(matches!(Place::of("nonsense://bucket"), Err(Error::Settings(_))));
    }
}
