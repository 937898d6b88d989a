//! The interface to files. [`DiskStorage`](crate::DiskStorage) is the disk, [`MemoryStorage`](crate::MemoryStorage) the
//! memory of this process, [`SimStorage`](crate::sim::SimStorage) a simulated disk with faults.

use crate::lock::LockedFile;
use std::any::Any;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::{fmt, io};

/// Directories and files. Errors are the operating system's.
pub trait Storage: Send + Sync {
    /// Creates a file that must not exist yet, for reading and writing.
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>>;
    /// Opens a file for reading.
    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>>;
    /// Opens an existing file for reading and writing.
    fn open_write(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>>;
    /// What is in a directory, in no order. Names that are not UTF-8 are left out.
    fn entries(&self, dir: &Path) -> io::Result<Vec<Entry>>;
    /// What is at a path; `None` when nothing is.
    fn kind(&self, path: &Path) -> io::Result<Option<Kind>>;
    /// Renames a file, replacing a file of the new name, or a directory, if there is none of the new name or an empty
    /// one; in one step.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file. Open handles can still read it.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Creates a directory, which must not exist yet, in one that does.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;
    /// Creates a directory, which must not exist yet, in one that does; only its owner may enter it, where the storage has
    /// owners.
    fn create_private_dir(&self, dir: &Path) -> io::Result<()> {
        self.create_dir(dir)
    }
    /// Creates a directory and those above it; it may exist.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// Removes a directory and its content, one entry after the other, itself last: not atomic.
    fn remove_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// Makes the names in a directory survive a power cut (its own name is in the directory above).
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Locks a file, which is created if it does not exist, until the guard is dropped or the process ends. `None` when it is
    /// locked, by this process or another.
    fn try_lock(&self, path: &Path) -> io::Result<Option<StorageLock>>;

    /// Names of the files in a directory, in no order. Names that are not UTF-8 are left out.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let files = self.entries(dir)?.into_iter().filter(|entry| entry.kind == Kind::File);
        Ok(files.map(|entry| entry.name).collect())
    }

    /// The names that [`list`](Self::list) gives and that are wanted: where a directory has very many files, the others cost little.
    fn list_where(&self, dir: &Path, is_wanted: &mut dyn FnMut(&str) -> bool) -> io::Result<Vec<String>> {
        let mut names = self.list(dir)?;
        names.retain(|name| is_wanted(name));
        Ok(names)
    }

    /// The whole content of a file; one longer than `bytes_max` is [`io::ErrorKind::FileTooLarge`].
    fn read(&self, path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
        read_all(&*self.open_read(path)?, bytes_max)
    }

    /// Bytes in a file.
    fn size(&self, path: &Path) -> io::Result<u64> {
        self.open_read(path)?.len()
    }

    /// Writes the whole content of a file, which is created if it does not exist. Not atomic: to replace a file in one
    /// step, write another and [`rename`](Self::rename) it.
    fn write(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let file = match self.open_write(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => self.create_new(path)?,
            opened => opened?,
        };
        // Not if it is empty: ext4 writes a file that was truncated to zero to the disk when it is closed.
        if file.len()? > 0 {
            file.truncate(0)?;
        }
        file.write_at(content, 0)
    }

    /// Makes the content of a file survive a power cut (its name is in its directory).
    fn sync_file(&self, path: &Path) -> io::Result<()> {
        self.open_read(path)?.sync_data()
    }

    /// Which file is at a path: see [`StorageFile::identity`].
    fn identity(&self, path: &Path) -> io::Result<FileId> {
        self.open_read(path)?.identity()
    }
}

/// The kind of a directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file, or anything else that is not a directory.
    File,
    /// A directory, or a link to one.
    Directory,
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name alone.
    pub name: String,
    /// What it stands for.
    pub kind: Kind,
}

/// Distinguishes a file from another that has taken its name. While a file is open, no other file has its identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileId {
    device: u64,
    number: u64,
}

impl FileId {
    /// The file of that number on a device.
    pub fn new(device: u64, number: u64) -> Self {
        Self { device, number }
    }

    /// Number of the device, and the file's on it.
    pub fn numbers(self) -> (u64, u64) {
        (self.device, self.number)
    }
}

/// A lock that is held until this is dropped.
pub struct StorageLock {
    _held: Box<dyn Any + Send + Sync>,
    /// `None`: a storage where no other process can take the lock's name.
    file: Option<Arc<LockedFile>>,
}

impl StorageLock {
    /// A lock that is released by dropping `held`.
    pub(crate) fn new(held: impl Any + Send + Sync) -> Self {
        Self { _held: Box::new(held), file: None }
    }

    /// The lock of a file on the disk.
    pub(crate) fn of_file(file: Arc<LockedFile>) -> Self {
        Self { _held: Box::new(()), file: Some(file) }
    }

    /// Whether the lock is known to be lost: its file has been removed or replaced, so that another process may have the
    /// lock too. Checked twice a second, and by [`check`](Self::check). Cheap.
    #[inline]
    pub fn is_lost(&self) -> bool {
        self.file.as_ref().is_some_and(|file| file.is_lost())
    }

    /// Checks now whether the lock holds: one system call.
    pub fn check(&self) -> bool {
        self.file.as_ref().is_none_or(|file| file.check())
    }
}

impl fmt::Debug for StorageLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StorageLock")
    }
}

/// An open file. Reads and writes name their offset; there is no current position.
pub trait StorageFile: Send + Sync {
    /// Reads up to `buf.len()` bytes at `offset`; returns how many, 0 at the end of the file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all of `bytes` at `offset`, with one system call if possible. After an error any part of them may be in the
    /// file.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Bytes in the file.
    fn len(&self) -> io::Result<u64>;
    /// True when the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Which file this is, even if its name has changed.
    fn identity(&self) -> io::Result<FileId>;
    /// Makes the content survive a power cut.
    fn sync_data(&self) -> io::Result<()>;
    /// Cuts the file, or grows it with zeros, to `len` bytes.
    fn truncate(&self, len: u64) -> io::Result<()>;
    /// Requests preallocation of `range`, which begins after the written bytes. It may be done later or never; then the
    /// file ends with zeros, up to the end of `range`, until it is cut. `is_mapped`: the bytes need not be synced soon, so
    /// they may be written through a memory map.
    fn reserve(&self, range: Range<u64>, is_mapped: bool) {
        let _ = (range, is_mapped);
    }
}

/// The whole content of a file; one longer than `bytes_max` is [`io::ErrorKind::FileTooLarge`].
///
/// # Errors
/// What the system refuses.
pub fn read_all(file: &dyn StorageFile, bytes_max: u64) -> io::Result<Vec<u8>> {
    let len = file.len()?;
    if len > bytes_max {
        let what = format!("{len} bytes, where at most {bytes_max} can be right");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    let mut content = Vec::new();
    read_into(file, &mut content, 0, len as usize)?;
    Ok(content)
}

/// Fills `buf` from `offset` on as far as the file goes; returns the bytes read.
pub(crate) fn read_full(file: &dyn StorageFile, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        match file.read_at(&mut buf[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}

/// Reads `len` bytes from `offset` into `buf`, or fewer where the file ends. The memory of `buf` is
/// reused and not cleared first, which would cost as much as the copy.
pub(crate) fn read_into(
    file: &dyn StorageFile,
    buf: &mut Vec<u8>,
    offset: u64,
    len: usize,
) -> io::Result<()> {
    buf.resize(len, 0);
    let read = read_full(file, buf, offset)?;
    buf.truncate(read);
    Ok(())
}

/// Replaces a file in one step, through a draft, and syncs it.
pub(crate) fn replace(
    storage: &dyn Storage,
    (dir, draft): (&Path, &str),
    path: &Path,
    bytes: &[u8],
) -> io::Result<()> {
    let draft = dir.join(draft);
    storage.write(&draft, bytes)?;
    storage.sync_file(&draft)?;
    storage.rename(&draft, path)?;
    storage.sync_dir(dir)
}
