//! The read-ahead of all files of a connection, bounded together: a cursor over hundreds of files has as many sequential readers.

use crate::notifier::locked;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Bytes of a read-ahead request.
pub(crate) const CHUNK_BYTES: usize = 128 << 10;

/// Files that may read ahead as far as the options allow, at the same time. Then each has one request in flight.
const FILES_FULL: usize = 16;

/// Counts the chunks of all readers, and keeps buffers for reuse.
#[derive(Debug)]
pub(crate) struct ReadAhead {
    /// Limit for one reader.
    reader_bytes_max: usize,
    /// Bytes of all chunks that have not been read.
    bytes: AtomicUsize,
    spare: Mutex<Vec<Vec<u8>>>,
}

/// Counts a chunk until it is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    of: Arc<ReadAhead>,
    bytes: usize,
}

impl ReadAhead {
    /// `reader_bytes_max`: limit for one reader.
    pub fn new(reader_bytes_max: usize) -> Self {
        let reader_bytes_max = reader_bytes_max.max(CHUNK_BYTES);
        Self { reader_bytes_max, bytes: AtomicUsize::new(0), spare: Mutex::default() }
    }

    /// Limit for one reader, in bytes.
    pub fn reader_bytes_max(&self) -> usize {
        self.reader_bytes_max
    }

    /// Whether a reader that has a chunk may request another one.
    pub fn has_capacity(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) < FILES_FULL.saturating_mul(self.reader_bytes_max)
    }

    /// Counts a chunk.
    pub fn hold(self: &Arc<Self>, bytes: usize) -> Held {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Held { of: self.clone(), bytes }
    }

    /// A buffer for an answer.
    pub fn buffer(&self) -> Vec<u8> {
        locked(&self.spare).pop().unwrap_or_default()
    }

    /// Takes a buffer back.
    pub fn reuse(&self, buffer: Vec<u8>) {
        let mut spare = locked(&self.spare);
        if buffer.capacity() <= 2 * CHUNK_BYTES && spare.len() * CHUNK_BYTES < self.reader_bytes_max {
            spare.push(buffer);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.of.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_count_until_they_are_dropped_and_few_buffers_are_kept() {
        let ahead = Arc::new(ReadAhead::new(4 * CHUNK_BYTES));
        let mut held: Vec<Held> = (1..FILES_FULL * 4).map(|_| ahead.hold(CHUNK_BYTES)).collect();
        assert!(ahead.has_capacity());
        held.push(ahead.hold(CHUNK_BYTES));
        assert!(!ahead.has_capacity());
        held.pop();
        assert!(ahead.has_capacity());
        drop(held);
        assert_eq!(ahead.bytes.load(Ordering::Relaxed), 0);
        (0..100).for_each(|_| ahead.reuse(vec![0; CHUNK_BYTES]));
        ahead.reuse(vec![0; 3 * CHUNK_BYTES]);
        assert_eq!(locked(&ahead.spare).len(), 4);
    }
}
