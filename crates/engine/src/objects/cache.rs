//! Chunks of objects on the disk: files of a folder of the database, the least recently used removed first.
//!
//! Always true: a file that does not hold what it states, by its checksum, is as good as none. Nothing depends on the cache: where it
//! cannot be written, chunks are read from the store again. Several processes may use one folder.

use crate::objects::chunks::ChunkId;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tapedb_log::Storage;

/// The folder in the directory of a database.
pub(crate) const DIRECTORY: &str = "object-cache";
/// Bytes of all chunks on the disk, unless chosen.
const BYTES_DEFAULT: u64 = 4 << 30;
/// First bytes of a file.
const MAGIC: &[u8; 8] = b"TPCHUNK1";
/// Magic, checksum of all behind it, length of the id.
const HEADER_BYTES: usize = 20;
/// After so many new files the folder is listed again: other processes add and remove files.
const LIST_AFTER: u32 = 64;
const EXTENSION: &str = "chunk";

static BYTES_MAX: AtomicU64 = AtomicU64::new(BYTES_DEFAULT);

/// Limits the chunks of object stores that each database of this process keeps on its disk; 4 GiB unless set. 0: none are kept.
pub fn set_object_cache_bytes(bytes: u64) {
    BYTES_MAX.store(bytes, Ordering::Relaxed);
}

/// See the module.
pub(crate) struct DiskCache {
    storage: Arc<dyn Storage>,
    directory: PathBuf,
    index: Mutex<Index>,
}

#[derive(Default)]
struct Index {
    /// Bytes of each file.
    sizes: HashMap<String, u64>,
    /// Names, the least recently used first. One that is used again is added again; former places count no more.
    order: VecDeque<(String, u64)>,
    /// The last place of each name.
    places: HashMap<String, u64>,
    bytes: u64,
    next: u64,
    /// New files since the folder was listed; `None`: it was never listed.
    added: Option<u32>,
}

impl DiskCache {
    pub fn new(storage: Arc<dyn Storage>, database: &Path) -> Self {
        Self { storage, directory: database.join(DIRECTORY), index: Mutex::default() }
    }

    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A chunk, if it is here and whole.
    pub fn get(&self, id: &ChunkId) -> Option<Vec<u8>> {
        if BYTES_MAX.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let (text, name) = names(id);
        let path = self.directory.join(&name);
        let mut bytes = self.storage.read(&path, u64::from(u32::MAX)).ok()?;
        if !is_whole(&bytes, text.as_bytes(), id.bytes()) {
            let _ = self.storage.remove(&path);
            return None;
        }
        bytes.drain(..HEADER_BYTES + text.len());
        self.index().touch(&name);
        Some(bytes)
    }

    /// Whether a chunk seems to be here.
    pub fn has(&self, id: &ChunkId) -> bool {
        let path = self.directory.join(names(id).1);
        BYTES_MAX.load(Ordering::Relaxed) > 0 && self.storage.size(&path).is_ok_and(|size| size > id.bytes())
    }

    /// Keeps a chunk, and removes others. It is not synced: the checksum shows whether a power cut took a part.
    pub fn put(&self, id: &ChunkId, content: &[u8]) {
        let limit = BYTES_MAX.load(Ordering::Relaxed);
        let (text, name) = names(id);
        let size = (HEADER_BYTES + text.len() + content.len()) as u64;
        if size > limit {
            return;
        }
        let removed = {
            let mut index = self.index();
            if index.added.is_none_or(|added| added >= LIST_AFTER) {
                self.list(&mut index);
            }
            index.make_place(limit - size)
        };
        for name in removed {
            let _ = self.storage.remove(&self.directory.join(name));
        }
        if self.write(&name, text.as_bytes(), content).is_ok() {
            let mut index = self.index();
            index.add(&name, size);
            index.added = index.added.map(|added| added + 1);
        }
    }

    fn write(&self, name: &str, text: &[u8], content: &[u8]) -> io::Result<()> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let draft = format!("{name}.{}-{}.tmp", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let draft = self.directory.join(draft);
        let mut header = [0; HEADER_BYTES];
        header[..8].copy_from_slice(MAGIC);
        header[8..16].copy_from_slice(&checksum(&[text, content]).to_le_bytes());
        header[16..].copy_from_slice(&(text.len() as u32).to_le_bytes());
        let file = match self.storage.create_new(&draft) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.storage.create_dir_all(&self.directory)?;
                self.storage.create_new(&draft)?
            }
            created => created?,
        };
        let written = file.write_at(&[&header, text].concat(), 0);
        let written = written.and_then(|()| file.write_at(content, (HEADER_BYTES + text.len()) as u64));
        let renamed = written.and_then(|()| self.storage.rename(&draft, &self.directory.join(name)));
        renamed.inspect_err(|_| drop(self.storage.remove(&draft)))
    }

    /// Reads which files there are. Drafts of processes that were killed go.
    fn list(&self, index: &mut Index) {
        index.added = Some(0);
        let Ok(names) = self.storage.list(&self.directory) else { return };
        let mut found = HashMap::new();
        for name in names {
            let path = self.directory.join(&name);
            if name.ends_with(".tmp") {
                if !name.contains(&format!(".{}-", std::process::id())) {
                    let _ = self.storage.remove(&path);
                }
            } else if name.ends_with(EXTENSION)
                && let Ok(size) = self.storage.size(&path)
            {
                found.insert(name, size);
            }
        }
        let gone: Vec<String> =
            index.sizes.keys().filter(|name| !found.contains_key(*name)).cloned().collect();
        gone.iter().for_each(|name| index.remove(name));
        for (name, size) in found {
            if !index.sizes.contains_key(&name) {
                index.add(&name, size);
            }
        }
    }
}

impl Index {
    fn add(&mut self, name: &str, size: u64) {
        self.remove(name);
        self.sizes.insert(name.into(), size);
        self.bytes += size;
        self.touch(name);
    }

    fn remove(&mut self, name: &str) {
        self.bytes -= self.sizes.remove(name).unwrap_or(0);
        self.places.remove(name);
    }

    fn touch(&mut self, name: &str) {
        if !self.sizes.contains_key(name) {
            return;
        }
        self.next += 1;
        self.places.insert(name.into(), self.next);
        self.order.push_back((name.into(), self.next));
        if self.order.len() > 64 + 4 * self.sizes.len() {
            let places = &self.places;
            self.order.retain(|(name, place)| places.get(name) == Some(place));
        }
    }

    /// Removes names until the others have at most so many bytes.
    fn make_place(&mut self, bytes: u64) -> Vec<String> {
        let mut removed = Vec::new();
        while self.bytes > bytes
            && let Some((name, place)) = self.order.pop_front()
        {
            if self.places.get(&name) == Some(&place) {
                self.remove(&name);
                removed.push(name);
            }
        }
        removed
    }
}

/// The id as text, and the name of its file.
fn names(id: &ChunkId) -> (String, String) {
    let text = format!("{} {} {}", id.key, id.range.start, id.range.end);
    let name = format!("{:016x}.{EXTENSION}", checksum(&[text.as_bytes()]));
    (text, name)
}

fn is_whole(bytes: &[u8], text: &[u8], content_bytes: u64) -> bool {
    let stated = |at: usize| {
        bytes.get(at..at + 8).and_then(|bytes| bytes.first_chunk()).map(|bytes| u64::from_le_bytes(*bytes))
    };
    bytes.starts_with(MAGIC)
        && bytes.len() as u64 == HEADER_BYTES as u64 + text.len() as u64 + content_bytes
        && bytes[16..HEADER_BYTES] == (text.len() as u32).to_le_bytes()
        && bytes[HEADER_BYTES..].starts_with(text)
        && stated(8) == Some(checksum(&[&bytes[HEADER_BYTES..]]))
}

/// CRC-64/NVME of several parts, one after the other.
pub(crate) fn checksum(parts: &[&[u8]]) -> u64 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc64Nvme);
    parts.iter().for_each(|part| digest.update(part));
    digest.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tapedb_log::MemoryStorage;

    fn id(n: u64) -> ChunkId {
        ChunkId { key: format!("streams/{n}").into(), range: 0..100 }
    }

    #[test]
    fn chunks_come_back_whole_or_not_at_all() {
        let storage = Arc::new(MemoryStorage::new());
        let cache = DiskCache::new(storage.clone(), Path::new("db"));
        assert_eq!(cache.get(&id(0)), None);
        cache.put(&id(0), &[7; 100]);
        assert_eq!(cache.get(&id(0)), Some(vec![7; 100]));
        assert_eq!(cache.get(&id(1)), None);
        let name = storage.list(&Path::new("db").join(DIRECTORY)).unwrap().remove(0);
        let path = Path::new("db").join(DIRECTORY).join(name);
        let whole = storage.read(&path, 1 << 20).unwrap();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            storage.write(&path, &bytes).unwrap();
            assert_eq!(cache.get(&id(0)), None, "byte {at}");
        }
        storage.write(&path, &whole[..50]).unwrap();
        assert_eq!(cache.get(&id(0)), None);
    }

    #[test]
    fn the_least_recently_used_goes_first() {
        let mut index = Index::default();
        ["a", "b", "c"].iter().for_each(|name| index.add(name, 10));
        index.touch("a");
        assert_eq!((index.make_place(20), index.bytes), (vec!["b".to_string()], 20));
        (0..1000).for_each(|_| index.touch("c"));
        assert!(index.order.len() < 100);
        assert_eq!(index.make_place(0), ["a", "c"]);
    }
}
