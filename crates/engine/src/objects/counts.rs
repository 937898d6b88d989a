//! What this process has asked of object stores.

use std::sync::atomic::{AtomicU64, Ordering};

/// Requests to object stores and what they moved, of all databases of this process since it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ObjectCounts {
    /// Requests that read a range.
    pub gets: u64,
    /// Bytes that they returned.
    pub bytes_read: u64,
    /// Objects of segments that were created, or were there with the same content.
    pub puts: u64,
    /// Bytes of those that were created.
    pub bytes_written: u64,
    /// Chunks that came from the cache on the disk.
    pub cached: u64,
    /// Bytes of those.
    pub bytes_cached: u64,
}

static COUNTS: [AtomicU64; 6] = [const { AtomicU64::new(0) }; 6];

impl ObjectCounts {
    /// The counts now.
    pub fn now() -> Self {
        let [gets, bytes_read, puts, bytes_written, cached, bytes_cached] =
            COUNTS.each_ref().map(|count| count.load(Ordering::Relaxed));
        Self { gets, bytes_read, puts, bytes_written, cached, bytes_cached }
    }

    /// What was counted since an earlier moment.
    pub fn since(self, before: Self) -> Self {
        Self {
            gets: self.gets.wrapping_sub(before.gets),
            bytes_read: self.bytes_read.wrapping_sub(before.bytes_read),
            puts: self.puts.wrapping_sub(before.puts),
            bytes_written: self.bytes_written.wrapping_sub(before.bytes_written),
            cached: self.cached.wrapping_sub(before.cached),
            bytes_cached: self.bytes_cached.wrapping_sub(before.bytes_cached),
        }
    }
}

fn note(first: usize, bytes: usize) {
    COUNTS[first].fetch_add(1, Ordering::Relaxed);
    COUNTS[first + 1].fetch_add(bytes as u64, Ordering::Relaxed);
}

pub(crate) fn note_get(bytes: usize) {
    note(0, bytes);
}

pub(crate) fn note_put(bytes: usize) {
    note(2, bytes);
}

pub(crate) fn note_cached(bytes: usize) {
    note(4, bytes);
}
