//! A storage that counts what is read of it.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tapedb_engine::Storage;
use tapedb_log::{Entry, FileId, Kind, StorageFile, StorageLock};

/// Another storage, and the reads of it. Clones count together.
#[derive(Clone)]
pub struct Counting {
    storage: Arc<dyn Storage>,
    reads: Arc<AtomicU64>,
    bytes: Arc<AtomicU64>,
}

struct CountingFile {
    file: Arc<dyn StorageFile>,
    counts: Counting,
}

impl Counting {
    pub fn on(storage: Arc<dyn Storage>) -> Self {
        Self { storage, reads: Arc::default(), bytes: Arc::default() }
    }

    /// Resets the counts to 0.
    pub fn reset(&self) {
        self.reads.store(0, Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
    }

    pub fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    pub fn bytes_read(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    fn counted(&self, file: io::Result<Arc<dyn StorageFile>>) -> io::Result<Arc<dyn StorageFile>> {
        Ok(Arc::new(CountingFile { file: file?, counts: self.clone() }))
    }
}

impl Storage for Counting {
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        self.counted(self.storage.create_new(path))
    }

    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        self.counted(self.storage.open_read(path))
    }

    fn open_write(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        self.counted(self.storage.open_write(path))
    }

    fn entries(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        self.storage.entries(dir)
    }

    fn kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        self.storage.kind(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.storage.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.storage.remove(path)
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.storage.create_dir(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.storage.create_dir_all(dir)
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.storage.remove_dir_all(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.storage.sync_dir(dir)
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<StorageLock>> {
        self.storage.try_lock(path)
    }
}

impl StorageFile for CountingFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let read = self.file.read_at(buf, offset)?;
        self.counts.reads.fetch_add(1, Ordering::Relaxed);
        self.counts.bytes.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_at(bytes, offset)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn identity(&self) -> io::Result<FileId> {
        self.file.identity()
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.file.truncate(len)
    }
}
