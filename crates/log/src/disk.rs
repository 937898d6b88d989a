//! Files on the disk of this machine.

use crate::lock::LockedFile;
use crate::preallocation::GrowingFile;
use crate::storage::{Entry, FileId, Kind, Storage, StorageFile, StorageLock};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

/// The file system of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiskStorage;

impl Storage for DiskStorage {
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        Ok(Arc::new(GrowingFile::new(file)))
    }

    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        Ok(Arc::new(File::open(path)?))
    }

    fn open_write(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        Ok(Arc::new(GrowingFile::new(OpenOptions::new().read(true).write(true).open(path)?)))
    }

    fn entries(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let kind = match kind_of(&entry) {
                // It was removed after the directory was read.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                kind => kind?,
            };
            entries.extend(entry.file_name().into_string().ok().map(|name| Entry { name, kind }));
        }
        Ok(entries)
    }

    #[cfg(target_os = "linux")]
    fn list_where(&self, dir: &Path, is_wanted: &mut dyn FnMut(&str) -> bool) -> io::Result<Vec<String>> {
        use rustix::fs::{FileType, RawDir};
        let directory = File::open(dir)?;
        let mut buffer = vec![std::mem::MaybeUninit::uninit(); LIST_BYTES];
        let mut entries = RawDir::new(&directory, &mut buffer);
        let mut names = Vec::new();
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            if [".", ".."].contains(&name) || !is_wanted(name) {
                continue;
            }
            let is_file = match entry.file_type() {
                FileType::Directory => false,
                FileType::Symlink | FileType::Unknown => is_file(&dir.join(name))?,
                _ => true,
            };
            names.extend(is_file.then(|| name.to_string()));
        }
        Ok(names)
    }

    fn kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => Ok(Some(Kind::Directory)),
            Ok(_) => Ok(Some(Kind::File)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        fs::create_dir(dir)
    }

    fn create_private_dir(&self, dir: &Path) -> io::Result<()> {
        DirBuilder::new().mode(0o700).create(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        fs::create_dir_all(dir)
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        fs::remove_dir_all(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<StorageLock>> {
        let locked = LockedFile::lock(path)?;
        Ok(locked.map(StorageLock::of_file))
    }

    fn size(&self, path: &Path) -> io::Result<u64> {
        Ok(fs::metadata(path)?.len())
    }

    fn identity(&self, path: &Path) -> io::Result<FileId> {
        let metadata = fs::metadata(path)?;
        Ok(FileId::new(metadata.dev(), metadata.ino()))
    }
}

/// Bytes of names that are read from a directory at once.
#[cfg(target_os = "linux")]
const LIST_BYTES: usize = 256 << 10;

/// Whether there is something at a path that is not a directory: as [`kind_of`].
#[cfg(target_os = "linux")]
fn is_file(path: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => Ok(!fs::metadata(path).is_ok_and(|target| target.is_dir())),
        Ok(found) => Ok(!found.is_dir()),
        // It was removed after the directory was read.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// A link has the kind of its target; a broken link is a file.
fn kind_of(entry: &fs::DirEntry) -> io::Result<Kind> {
    let kind = entry.file_type()?;
    let is_dir_link = || kind.is_symlink() && fs::metadata(entry.path()).is_ok_and(|m| m.is_dir());
    Ok(if kind.is_dir() || is_dir_link() { Kind::Directory } else { Kind::File })
}

impl StorageFile for File {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, buf, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn identity(&self) -> io::Result<FileId> {
        let metadata = self.metadata()?;
        Ok(FileId::new(metadata.dev(), metadata.ino()))
    }

    fn sync_data(&self) -> io::Result<()> {
        File::sync_data(self)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }
}
