//! Files in this process's memory: for streams that do not outlive it.

use crate::storage::{Entry, FileId, Kind, Storage, StorageFile, StorageLock};
use crate::tree::{Link, NameChange, Tree};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// A file's content is stored in chunks of this many bytes, so that growing never copies old content. The last chunk
/// grows by doubling.
const CHUNK_BYTES: usize = 1 << 20;

/// Directories and files in memory, as on Unix: a removed or replaced file can still be read through open handles, and
/// its memory is freed with the last handle. Syncing does nothing. Clones share the storage, which is freed with the last
/// of them.
#[derive(Clone, Default)]
pub struct MemoryStorage(Arc<Mutex<Memory>>);

impl fmt::Debug for MemoryStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemoryStorage({} files)", self.lock().files.len())
    }
}

#[derive(Default)]
struct Memory {
    tree: Tree,
    /// The files that have a name.
    files: BTreeMap<usize, Arc<MemoryFile>>,
    locked: BTreeSet<usize>,
    /// Number of the file or directory that was created last; at first the root's.
    last_id: usize,
}

struct MemoryFile {
    id: usize,
    content: RwLock<Content>,
}

/// Always true: every chunk but the last has [`CHUNK_BYTES`].
#[derive(Default)]
struct Content {
    chunks: Vec<Vec<u8>>,
    len: usize,
}

impl MemoryStorage {
    /// An empty storage.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, Memory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        let memory = self.lock();
        let id = memory.tree.file(path)?;
        let file = memory.files.get(&id).ok_or(io::ErrorKind::NotFound)?;
        Ok(Arc::<MemoryFile>::clone(file))
    }
}

impl Storage for MemoryStorage {
    fn create_new(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        let file = self.lock().create_file(path)?;
        Ok(file)
    }

    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        self.open(path)
    }

    fn open_write(&self, path: &Path) -> io::Result<Arc<dyn StorageFile>> {
        self.open(path)
    }

    fn entries(&self, dir: &Path) -> io::Result<Vec<Entry>> {
        self.lock().tree.entries(dir)
    }

    fn kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        self.lock().tree.kind(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut memory = self.lock();
        let change = memory.tree.rename(from, to)?;
        change.iter().for_each(|change| memory.apply(change));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut memory = self.lock();
        let change = memory.tree.remove_file(path)?;
        memory.apply(&change);
        Ok(())
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.lock().create_dir(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut memory = self.lock();
        memory.tree.missing_down_to(dir)?.iter().try_for_each(|dir| memory.create_dir(dir))
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut memory = self.lock();
        memory.tree.directory(dir)?;
        while memory.tree.kind(dir)?.is_some() {
            let change = memory.tree.remove_step(dir)?;
            memory.apply(&change);
        }
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.lock().tree.directory(dir).map(|_| ())
    }

    fn try_lock(&self, path: &Path) -> io::Result<Option<StorageLock>> {
        let mut memory = self.lock();
        let id = match memory.tree.kind(path)? {
            None => memory.create_file(path)?.id,
            Some(_) => memory.tree.file(path)?,
        };
        let free = memory.locked.insert(id);
        Ok(free.then(|| StorageLock::new(Locked { storage: self.clone(), id })))
    }
}

/// Releases a lock when it is dropped.
struct Locked {
    storage: MemoryStorage,
    id: usize,
}

impl Drop for Locked {
    fn drop(&mut self) {
        self.storage.lock().locked.remove(&self.id);
    }
}

impl Memory {
    fn create_file(&mut self, path: &Path) -> io::Result<Arc<MemoryFile>> {
        let id = self.new_id();
        let change = self.tree.create(path, Link::File(id))?;
        self.apply(&change);
        let file = Arc::new(MemoryFile { id, content: RwLock::default() });
        self.files.insert(id, Arc::clone(&file));
        Ok(file)
    }

    fn create_dir(&mut self, dir: &Path) -> io::Result<()> {
        let id = self.new_id();
        let change = self.tree.create(dir, Link::Directory(id))?;
        self.apply(&change);
        Ok(())
    }

    /// Changes a name. A file without a name exists as long as it is open.
    fn apply(&mut self, change: &NameChange) {
        if let NameChange::Remove(lost) | NameChange::Rename(_, lost) = change
            && let Some(Link::File(id)) = self.tree.at(lost)
        {
            self.files.remove(&id);
        }
        self.tree.apply(change);
    }

    fn new_id(&mut self) -> usize {
        self.last_id += 1;
        self.last_id
    }
}

impl StorageFile for MemoryFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let content = self.content.read().unwrap_or_else(PoisonError::into_inner);
        Ok(usize::try_from(offset).map_or(0, |offset| content.read(buf, offset)))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let start = usize::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge)?;
        start.checked_add(bytes.len()).ok_or(io::ErrorKind::FileTooLarge)?;
        let mut content = self.content.write().unwrap_or_else(PoisonError::into_inner);
        if content.len < start {
            content.resize(start);
        }
        let (over, new) = bytes.split_at((content.len - start).min(bytes.len()));
        content.overwrite(over, start);
        content.extend(new);
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.content.read().unwrap_or_else(PoisonError::into_inner).len as u64)
    }

    fn identity(&self) -> io::Result<FileId> {
        Ok(FileId::new(0, self.id as u64))
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let len = usize::try_from(len).map_err(|_| io::ErrorKind::FileTooLarge)?;
        self.content.write().unwrap_or_else(PoisonError::into_inner).resize(len);
        Ok(())
    }
}

impl Content {
    /// Reads to the end of `buf` or of the content.
    fn read(&self, buf: &mut [u8], offset: usize) -> usize {
        let (mut done, mut at) = (0, offset);
        while done < buf.len() && at < self.len {
            let rest = &self.chunks[at / CHUNK_BYTES][at % CHUNK_BYTES..];
            let count = rest.len().min(buf.len() - done);
            buf[done..done + count].copy_from_slice(&rest[..count]);
            (done, at) = (done + count, at + count);
        }
        done
    }

    /// Overwrites existing content.
    fn overwrite(&mut self, mut bytes: &[u8], mut at: usize) {
        while !bytes.is_empty() {
            let rest = &mut self.chunks[at / CHUNK_BYTES][at % CHUNK_BYTES..];
            let (now, later) = bytes.split_at(rest.len().min(bytes.len()));
            rest[..now.len()].copy_from_slice(now);
            (bytes, at) = (later, at + now.len());
        }
    }

    fn extend(&mut self, mut bytes: &[u8]) {
        self.len += bytes.len();
        while !bytes.is_empty() {
            if self.chunks.last().is_none_or(|last| last.len() == CHUNK_BYTES) {
                self.chunks.push(Vec::new());
            }
            let Some(last) = self.chunks.last_mut() else { return };
            let (now, later) = bytes.split_at((CHUNK_BYTES - last.len()).min(bytes.len()));
            reserve(last, now.len());
            last.extend_from_slice(now);
            bytes = later;
        }
    }

    /// Cuts, or grows with zeros.
    fn resize(&mut self, len: usize) {
        while self.len < len {
            self.extend(&vec![0; (len - self.len).min(CHUNK_BYTES)]);
        }
        self.chunks.truncate(len.div_ceil(CHUNK_BYTES));
        if let Some(last) = self.chunks.last_mut() {
            last.truncate(len - (len - 1) / CHUNK_BYTES * CHUNK_BYTES);
            last.shrink_to_fit();
        }
        self.len = len;
    }
}

/// Reserves memory in a chunk: twice its capacity, up to the size of a chunk.
fn reserve(chunk: &mut Vec<u8>, more: usize) {
    if chunk.capacity() - chunk.len() < more {
        let wanted = (2 * chunk.capacity()).clamp(chunk.len() + more, CHUNK_BYTES);
        chunk.reserve_exact(wanted - chunk.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn memory_is_freed_with_the_last_handle() {
        let storage = MemoryStorage::new();
        let path = Path::new("/file");
        let open = storage.create_new(path).unwrap();
        open.write_at(b"still here", 0).unwrap();
        let file = Arc::downgrade(&storage.lock().files[&1]);
        storage.remove(path).unwrap();
        let mut buf = [0; 10];
        assert_eq!((open.read_at(&mut buf, 0).unwrap(), &buf), (10, b"still here"));
        assert!(file.upgrade().is_some() && storage.open_read(path).is_err());
        drop(open);
        assert!(file.upgrade().is_none());
        storage.create_dir(Path::new("/a")).unwrap();
        storage.write(Path::new("/a/b"), b"x").unwrap();
        storage.remove_dir_all(Path::new("/a")).unwrap();
        assert!(storage.lock().files.is_empty());
    }

    proptest! {
        /// Writes, cuts and reads around the ends of chunks, compared with a vector.
        #[test]
        fn a_file_is_its_bytes(
            steps in prop::collection::vec((0usize..3 << 20, 0usize..3 << 20, any::<u8>(), any::<bool>()), 1..8),
        ) {
            let storage = MemoryStorage::new();
            let file = storage.create_new(Path::new("/file")).unwrap();
            let mut like = Vec::new();
            for (offset, len, byte, cut) in steps {
                if cut {
                    file.truncate(offset as u64).unwrap();
                    like.resize(offset, 0);
                } else {
                    let bytes = vec![byte; len];
                    file.write_at(&bytes, offset as u64).unwrap();
                    like.resize(like.len().max(if len > 0 { offset + len } else { 0 }), 0);
                    like.iter_mut().skip(offset).take(len).for_each(|b| *b = byte);
                }
                let mut buf = vec![0; like.len() + 7];
                let from = offset.min(like.len());
                let read = file.read_at(&mut buf, from as u64).unwrap();
                prop_assert!(buf[..read] == like[from..] && file.len().unwrap() == like.len() as u64);
            }
        }
    }
}
