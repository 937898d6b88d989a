//! Chunks of objects for readers: from memory, the cache on the disk, or the store; some of them ahead of the readers.
//!
//! Always true: of each chunk at most one request is under way. What is in memory is bounded: [`HELD`] chunks, and [`AHEAD`] that are
//! being read ahead, besides the one that each reading thread waits for.

use crate::interrupt;
use crate::objects::cache::DiskCache;
use crate::objects::counts::{note_cached, note_get};
use crate::objects::keys;
use crate::objects::store::{ObjectError, ObjectFault, ObjectStore};
use std::collections::{HashSet, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Bytes of a chunk. Chunks begin at multiples of it.
pub(crate) const CHUNK_BYTES: u64 = 8 << 20;
/// Chunks in memory.
const HELD: usize = 8;
/// Chunks that are read ahead at the same time.
pub(crate) const AHEAD: usize = 4;
/// A wait that is only ended by an event is repeated.
const WAIT_MAX: Duration = Duration::from_secs(3600);

/// A range of a segment in the store, inside one of its pieces.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ChunkId {
    /// The segment.
    pub key: Arc<str>,
    pub range: Range<u64>,
}

impl ChunkId {
    /// The whole chunk that has a byte of a segment.
    pub fn around(key: &Arc<str>, at: u64, segment_bytes: u64) -> Self {
        let start = at / CHUNK_BYTES * CHUNK_BYTES;
        Self { key: key.clone(), range: start..segment_bytes.min(start + CHUNK_BYTES) }
    }

    pub fn bytes(&self) -> u64 {
        self.range.end - self.range.start
    }
}

/// See the module.
pub(crate) struct Chunks {
    store: Arc<dyn ObjectStore>,
    /// For errors.
    url: String,
    disk: Option<DiskCache>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The least recently used first.
    held: VecDeque<(ChunkId, Arc<Vec<u8>>)>,
    under_way: HashSet<ChunkId>,
    ahead: usize,
}

impl std::fmt::Debug for Chunks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Chunks").field("url", &self.url).finish_non_exhaustive()
    }
}

/// Takes a chunk off those under way when it is dropped, also by a panic of the store.
struct UnderWay<'a> {
    chunks: &'a Chunks,
    id: &'a ChunkId,
    is_ahead: bool,
    read: Option<Arc<Vec<u8>>>,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut state = self.chunks.lock();
        state.under_way.remove(self.id);
        state.ahead -= usize::from(self.is_ahead);
        if let Some(bytes) = self.read.take() {
            state.held.push_back((self.id.clone(), bytes));
            if state.held.len() > HELD {
                state.held.pop_front();
            }
        }
        self.chunks.changed.notify_all();
    }
}

impl Chunks {
    pub fn new(store: Arc<dyn ObjectStore>, url: &str, disk: Option<DiskCache>) -> Self {
        Self { store, url: url.into(), disk, state: Mutex::default(), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A chunk.
    ///
    /// # Errors
    /// What the store refuses; [`ObjectFault::Unavailable`] also where the calling thread is interrupted.
    pub fn get(&self, id: &ChunkId) -> Result<Arc<Vec<u8>>, ObjectError> {
        let mut state = self.lock();
        loop {
            if let Some(found) = state.take_held(id) {
                return Ok(found);
            }
            if state.under_way.insert(id.clone()) {
                break;
            }
            if interrupt::is_interrupted() {
                return Err(ObjectError::new(ObjectFault::Unavailable, "the call was interrupted"));
            }
            let slice = interrupt::slice(WAIT_MAX);
            state = self.changed.wait_timeout(state, slice).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(state);
        self.read_under_way(id, false)
    }

    /// Whether a chunk can be had without a request that is not under way: it is in memory, or on the disk.
    pub fn is_near(&self, id: &ChunkId) -> bool {
        self.lock().has(id) || self.disk.as_ref().is_some_and(|disk| disk.has(id))
    }

    /// Begins to read chunks that will be wanted, as far as there is place. Failures are left to the reader that comes to them.
    pub fn read_ahead(self: &Arc<Self>, ids: impl Iterator<Item = ChunkId>) {
        for id in ids {
            let mut state = self.lock();
            if state.ahead >= AHEAD || state.has(&id) {
                continue;
            }
            state.under_way.insert(id.clone());
            state.ahead += 1;
            drop(state);
            let chunks = self.clone();
            let (of_thread, again) =
                (id.clone(), UnderWay { chunks: self, id: &id, is_ahead: true, read: None });
            let spawned = thread::Builder::new().name("tapedb-objects".into()).spawn(move || {
                let _ = chunks.read_under_way(&of_thread, true);
            });
            // The thread takes it off.
            if spawned.is_ok() {
                std::mem::forget(again);
            }
        }
    }

    fn read_under_way(&self, id: &ChunkId, is_ahead: bool) -> Result<Arc<Vec<u8>>, ObjectError> {
        let mut under_way = UnderWay { chunks: self, id, is_ahead, read: None };
        let bytes = Arc::new(self.read(id)?);
        under_way.read = Some(bytes.clone());
        Ok(bytes)
    }

    fn read(&self, id: &ChunkId) -> Result<Vec<u8>, ObjectError> {
        if let Some(bytes) = self.disk.as_ref().and_then(|disk| disk.get(id)) {
            note_cached(bytes.len());
            return Ok(bytes);
        }
        let bytes = self.get_range(id)?;
        if let Some(disk) = &self.disk {
            disk.put(id, &bytes);
        }
        Ok(bytes)
    }

    /// One request to the store.
    fn get_range(&self, id: &ChunkId) -> Result<Vec<u8>, ObjectError> {
        let piece = id.range.start / keys::PIECE_BYTES;
        let (key, base) = (keys::piece(&id.key, piece), piece * keys::PIECE_BYTES);
        let named = |error: ObjectError| {
            let now = match error.fault {
                ObjectFault::Missing => "it was removed by others: restore it from a copy of the store",
                ObjectFault::Denied => "check the credentials and their rights",
                ObjectFault::Unavailable => "newer messages can be read; try again when the store answers",
                ObjectFault::Wrong => "the store, or a program that writes to it, changed the object",
            };
            ObjectError { what: format!("object {}/{key}: {}; {now}", self.url, error.what), ..error }
        };
        let bytes = self.store.get_range(&key, id.range.start - base..id.range.end - base).map_err(named)?;
        note_get(bytes.len());
        if bytes.len() as u64 != id.bytes() {
            let what = format!(
                "it has {} bytes from {} on, where there must be {}",
                bytes.len(),
                id.range.start - base,
                id.bytes()
            );
            return Err(named(ObjectError::new(ObjectFault::Wrong, what)));
        }
        Ok(bytes)
    }
}

impl State {
    fn has(&self, id: &ChunkId) -> bool {
        self.under_way.contains(id) || self.held.iter().any(|(held, _)| held == id)
    }

    fn take_held(&mut self, id: &ChunkId) -> Option<Arc<Vec<u8>>> {
        let index = self.held.iter().position(|(held, _)| held == id)?;
        let found = self.held.remove(index)?;
        let bytes = found.1.clone();
        self.held.push_back(found);
        Some(bytes)
    }
}
