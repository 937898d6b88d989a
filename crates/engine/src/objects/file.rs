//! A segment in an object store, as a file that is only read.

use crate::objects::chunks::{AHEAD, CHUNK_BYTES, ChunkId, Chunks};
use crate::objects::foot::Foot;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use tapedb_log::{FileId, StorageFile};

/// A chunk of which a reader wants less than this part is not read whole.
const DENSE_PART: u64 = 4;
/// Ranges with less between them are read together.
const GAP_BYTES: u64 = 256 << 10;

/// A range of the file, and its bytes.
type Piece = (Range<u64>, Arc<Vec<u8>>);

/// Reads what the foot has from memory, and the rest in chunks. A reader that [plans](ObjectFile::plan) what it wants gets the next chunks
/// ahead, and of a chunk of which it wants little only that.
pub(crate) struct ObjectFile {
    key: Arc<str>,
    bytes: u64,
    foot: Foot,
    chunks: Arc<Chunks>,
    /// The last ranges that were read of chunks of which little is wanted, the oldest first: one for each strand that is read, while
    /// they are no more bytes than a chunk.
    sparse: Mutex<VecDeque<Piece>>,
}

impl std::fmt::Debug for ObjectFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ObjectFile").field("key", &self.key).finish_non_exhaustive()
    }
}

impl ObjectFile {
    pub fn new(key: &str, bytes: u64, foot: Foot, chunks: Arc<Chunks>) -> Self {
        Self { key: key.into(), bytes, foot, chunks, sparse: Mutex::default() }
    }

    fn chunk_at(&self, at: u64) -> ChunkId {
        ChunkId::around(&self.key, at, self.bytes)
    }

    /// Prepares to read the first of some ranges, knowing the next ones, in order; `is_reversed`: the last come first.
    pub fn plan(&self, mut ranges: impl Iterator<Item = Range<u64>>, is_reversed: bool) {
        let Some(first) = ranges.next() else { return };
        let chunk = self.chunk_at(if is_reversed { first.end.saturating_sub(1) } else { first.start });
        let (mut wanted, mut near) = (overlap(&first, &chunk.range), first.clone());
        let mut ahead: Vec<ChunkId> = Vec::new();
        // Ranges that lie far apart are not looked for without end.
        for range in ranges.take(4096) {
            let (start, end) =
                (self.chunk_at(range.start), self.chunk_at(range.end.saturating_sub(1).max(range.start)));
            let ids = if is_reversed { [end, start] } else { [start, end] };
            for id in ids {
                if id != chunk && ahead.last() != Some(&id) {
                    ahead.push(id);
                }
            }
            wanted += overlap(&range, &chunk.range);
            if range.start <= near.end + GAP_BYTES && near.start <= range.end + GAP_BYTES {
                near = near.start.min(range.start)..near.end.max(range.end);
            }
            if ahead.len() > AHEAD {
                break;
            }
        }
        // The end of a chunk that was read whole, or a later reader of one.
        let is_dense = wanted.saturating_mul(DENSE_PART) >= chunk.bytes() || self.chunks.is_near(&chunk);
        if is_dense {
            ahead.truncate(AHEAD);
            self.chunks.read_ahead(std::iter::once(chunk).chain(ahead));
            return;
        }
        // In one piece of the segment, and no more than a chunk.
        let near = near.start.max(chunk.range.start)..near.end.min(chunk.range.end);
        let is_there = || {
            let sparse = self.sparse.lock().unwrap_or_else(PoisonError::into_inner);
            sparse.iter().any(|(have, _)| have.start <= near.start && near.end <= have.end)
        };
        if near.is_empty() || is_there() {
            return;
        }
        // A failure is that of the reader that comes to it.
        if let Ok(bytes) = self.chunks.get(&ChunkId { key: self.key.clone(), range: near.clone() }) {
            let mut sparse = self.sparse.lock().unwrap_or_else(PoisonError::into_inner);
            sparse.push_back((near, bytes));
            let sum =
                |pieces: &VecDeque<Piece>| pieces.iter().map(|(_, bytes)| bytes.len() as u64).sum::<u64>();
            while sparse.len() > 1 && sum(&sparse) > CHUNK_BYTES {
                sparse.pop_front();
            }
        }
    }
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> u64 {
    a.end.min(b.end).saturating_sub(a.start.max(b.start))
}

fn read_only<T>() -> io::Result<T> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "a segment in an object store is only read"))
}

impl StorageFile for ObjectFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        if offset >= self.bytes || buf.is_empty() {
            return Ok(0);
        }
        let found = self.foot.read_at(buf, offset);
        if found > 0 {
            return Ok(found);
        }
        let copy = |buf: &mut [u8], start: u64, bytes: &[u8]| {
            let rest = &bytes[(offset - start) as usize..];
            let count = rest.len().min(buf.len());
            buf[..count].copy_from_slice(&rest[..count]);
            Ok(count)
        };
        let sparse = self.sparse.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((range, bytes)) = sparse.iter().rev().find(|(range, _)| range.contains(&offset)) {
            return copy(buf, range.start, bytes);
        }
        drop(sparse);
        let id = self.chunk_at(offset);
        let bytes = self.chunks.get(&id).map_err(|error| error.into_io())?;
        copy(buf, id.range.start, &bytes)
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        read_only()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes)
    }

    fn identity(&self) -> io::Result<FileId> {
        // Its name has its checksum.
        Ok(FileId::new(u64::MAX, crate::objects::cache::checksum(&[self.key.as_bytes()])))
    }

    fn sync_data(&self) -> io::Result<()> {
        read_only()
    }

    fn truncate(&self, _: u64) -> io::Result<()> {
        read_only()
    }
}

const _: () = assert!(crate::objects::keys::PIECE_BYTES.is_multiple_of(CHUNK_BYTES));
