//! What a publisher counts.

use std::sync::atomic::AtomicU64;

/// Updates, and what was done with slow subscribers.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub published: AtomicU64,
    pub disconnected: AtomicU64,
    pub replayed: AtomicU64,
    pub conflated_rows: AtomicU64,
}
