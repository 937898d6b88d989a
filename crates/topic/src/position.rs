//! How far a topic has been published, or a subscriber has read.

use crate::format::Tail;
use crate::ring::Ring;
use tapedb_shm::atomics::Ordering;

/// A position in a topic: of a subscriber, or of the topic's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TopicPosition {
    /// Sequence number of the next message.
    pub next_sequence: u64,
    /// Bytes of the ring up to it, from the topic's beginning; headers and padding included.
    pub bytes: u64,
}

impl TopicPosition {
    /// The tail, and the number of the message that goes there.
    pub(crate) fn of_end(ring: &Ring) -> Self {
        loop {
            let tail = Tail::parse(ring.tail().load(Ordering::Acquire)).position;
            let position = ring.frontier();
            let next_sequence = ring.sequence(position).load(Ordering::Relaxed);
            if ring.is_whole(position) {
                return Self { next_sequence, bytes: tail.saturating_sub(ring.shape.ring_bytes) };
            }
        }
    }
}
