//! The narrow door to the disk. [`DiskStorage`] is the real one; [`SimStorage`](crate::sim::SimStorage)
//! breaks things, and [`MemoryStorage`](crate::MemoryStorage) forgets all with the process.

use crate::lock::LockedFile;
use crate::room::GrowingFile;
use std::any::Any;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::{fmt, io};

/// A place with directories and files. Errors are the operating system's.
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
    /// Renames a file, replacing what had the new name, or a directory, where there is none of the new name or an
    /// empty one; in one step.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file. Who has it open can go on reading it.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Creates a directory, which must not exist yet, in one that does.
    fn create_dir(&self, dir: &Path) -> io::Result<()>;
    /// Creates a directory, which must not exist yet, in one that does, that nobody but its owner may enter, where the storage
    /// knows of owners.
    fn create_private_dir(&self, dir: &Path) -> io::Result<()> {
        self.create_dir(dir)
    }
    /// Creates a directory and those above it; it may exist.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// Removes a directory and all in it, one after the other, itself last: interrupted it leaves a part.
    fn remove_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// Makes the names in a directory survive a power cut (its own name is in the directory above).
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Locks a file, which is made if it is not there, until the guard is dropped or the process ends. `None` when it is
    /// locked, by this process or another.
    fn try_lock(&self, path: &Path) -> io::Result<Option<StorageLock>>;

    /// Names of the files in a directory, in no order. Names that are not UTF-8 are left out.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let files = self.entries(dir)?.into_iter().filter(|entry| entry.kind == Kind::File);
        Ok(files.map(|entry| entry.name).collect())
    }

    /// The whole content of a file; one longer than `bytes_max` is [`io::ErrorKind::FileTooLarge`].
    fn read(&self, path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
        read_all(&*self.open_read(path)?, bytes_max)
    }

    /// Bytes in a file.
    fn size(&self, path: &Path) -> io::Result<u64> {
        self.open_read(path)?.len()
    }

    /// Writes a file anew, making it if it is not there. Interrupted it leaves any part of the new content: to replace
    /// a file in one step, write another and [`rename`](Self::rename) it.
    fn write(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let file = match self.open_write(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => self.create_new(path)?,
            opened => opened?,
        };
        // Not of one that is empty: ext4 writes a file that was cut to nothing to the disk when it is closed.
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

/// What a name in a directory stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file, or whatever is not a directory.
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

/// Tells a file from another that has come to its name. While a file is open no other file has its identity.
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
    /// `None`: a storage where nobody else can take the lock's name.
    file: Option<Arc<LockedFile>>,
}

impl StorageLock {
    /// A lock that dropping `held` lets go of.
    pub(crate) fn new(held: impl Any + Send + Sync) -> Self {
        Self { _held: Box::new(held), file: None }
    }

    /// Whether the lock was found lost: its file has been removed, or another file has its name, so that another process may have
    /// the lock too. It is looked for twice a second, and by [`look`](Self::look). Cheap.
    #[inline]
    pub fn is_lost(&self) -> bool {
        self.file.as_ref().is_some_and(|file| file.is_lost())
    }

    /// Looks whether the lock holds, now: one call to the system.
    pub fn look(&self) -> bool {
        self.file.as_ref().is_none_or(|file| file.look())
    }
}

impl fmt::Debug for StorageLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StorageLock")
    }
}

/// An open file. Reads and writes name their place; there is no current position.
pub trait StorageFile: Send + Sync {
    /// Reads up to `buf.len()` bytes at `offset`; returns how many, 0 at the end of the file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all of `bytes` at `offset`, in one call to the system where the system takes them at once.
    /// After an error any part of them may be in the file.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Bytes in the file.
    fn len(&self) -> io::Result<u64>;
    /// True when the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Which file this is, whatever its name has become.
    fn identity(&self) -> io::Result<FileId>;
    /// Makes the content survive a power cut.
    fn sync_data(&self) -> io::Result<()>;
    /// Cuts the file, or grows it with zeros, to `len` bytes.
    fn truncate(&self, len: u64) -> io::Result<()>;
    /// Asks for room behind what is written, which may come later or never: the file then ends with zeros, up to the end of
    /// `range`, until it is cut. `is_mapped`: what is written need not be synced soon, so that it may be copied to where the
    /// system finds it.
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

/// Reads `len` bytes from `offset` into `buf`, or fewer where the file ends. `buf` keeps its memory and is
/// not cleared first: zeroing what is overwritten anyway would cost as much as the copy.
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
                // It has been removed since the directory was read.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                kind => kind?,
            };
            entries.extend(entry.file_name().into_string().ok().map(|name| Entry { name, kind }));
        }
        Ok(entries)
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
        Ok(locked.map(|file| StorageLock { _held: Box::new(()), file: Some(file) }))
    }

    fn size(&self, path: &Path) -> io::Result<u64> {
        Ok(fs::metadata(path)?.len())
    }

    fn identity(&self, path: &Path) -> io::Result<FileId> {
        let metadata = fs::metadata(path)?;
        Ok(FileId::new(metadata.dev(), metadata.ino()))
    }
}

/// A link is what it leads to; one that leads nowhere is a file.
fn kind_of(entry: &fs::DirEntry) -> io::Result<Kind> {
    let kind = entry.file_type()?;
    let leads_to_dir = || kind.is_symlink() && fs::metadata(entry.path()).is_ok_and(|m| m.is_dir());
    Ok(if kind.is_dir() || leads_to_dir() { Kind::Directory } else { Kind::File })
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
