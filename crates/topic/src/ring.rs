//! The ring of a topic, as publishers and subscribers share it.
//!
//! Positions count bytes from the topic's beginning and never repeat; the offset in the ring is the position modulo the
//! ring's size. The first position is the ring's size, so that there is always a lap before.
//!
//! Always true, whichever process dies at whatever time:
//!
//! - *Frames tile the ring.* Behind the last frame there is one with word 0, and every frame before it leads to it. A subscriber
//!   at a frame finds the next one by the frame's own word.
//! - *Word 0 is the commit.* It goes from 0 (or `Claimed`) to `Message` or `Pad` once, with release, after all else of the
//!   frame and after word 0 of the next frame; subscribers load it with acquire. [SYNC: COMMIT]
//! - *The tail's frame has its number.* An exclusive publisher writes the next number after the commit and before the tail; a
//!   process that moves the tail past a frame of one that died in between writes it.
//! - *No publisher writes at or beyond the limit.* The limit is raised first, then a release fence, then the ring is written;
//!   a subscriber copies, then an acquire fence, then it checks the limit. What it copied at `q` is whole if
//!   `limit <= q + ring_bytes`. [SYNC: LIMIT]
//! - *The limit passes no subscriber that publishers wait for,* unless that one is dead or has stalled for the stall time; nor a
//!   region that a living publisher may still write, however late it continues: its intent.

use crate::format::{ANCHORS, Frame, Intent, LINE, Shape, Tail, frame_bytes, pad, word};
use crate::view::View;
use std::fmt::Debug;
use tapedb_shm::atomics::{AtomicU64, Ordering, light_barrier};
use tapedb_shm::waiting::wake_all;
use tapedb_shm::{WORD, Words};

/// Which publishers and subscribers are alive. Exact: a lock of the operating system that ends with its owner.
pub(crate) trait Presence: Debug + Send + Sync {
    /// Whether the publisher of a slot is alive.
    fn has_publisher(&self, slot: usize) -> bool;
    /// Whether the subscriber of a slot is alive.
    fn has_subscriber(&self, slot: usize) -> bool;
}

/// The mapped memory of a topic, and which of its users are alive.
#[derive(Debug)]
pub(crate) struct Ring {
    pub words: Words,
    pub shape: Shape,
    pub presence: Box<dyn Presence>,
    first_word: usize,
}

impl Ring {
    pub fn new(words: Words, shape: Shape, presence: Box<dyn Presence>) -> Self {
        let first_word = shape.ring_at() as usize / WORD;
        Self { words, shape, presence, first_word }
    }

    /// Makes an empty ring of zeros.
    #[cfg(test)]
    pub fn format(&self) {
        let first = Tail::free(self.shape.ring_bytes).word();
        self.limit().store(self.shape.ring_bytes, Ordering::Relaxed);
        self.tail().store(first, Ordering::Release);
    }

    #[inline(always)]
    pub fn tail(&self) -> &AtomicU64 {
        self.words.get(word::TAIL)
    }

    #[inline(always)]
    pub fn limit(&self) -> &AtomicU64 {
        self.words.get(word::LIMIT)
    }

    /// Its words by position, as a value.
    #[inline(always)]
    pub fn view(&self) -> View<'_> {
        View { words: self.words.as_value(), first_word: self.first_word, mask: self.shape.ring_bytes - 1 }
    }

    /// Bytes from a position to the end of the ring.
    #[inline(always)]
    pub fn until_wrap(&self, position: u64) -> u64 {
        self.view().until_wrap(position)
    }

    /// Word 0 of the frame at a position.
    #[inline(always)]
    pub fn head(&self, position: u64) -> &AtomicU64 {
        self.view().head(position)
    }

    /// Sequence number of the frame at a position: written once the tail is there.
    #[inline(always)]
    pub fn sequence(&self, position: u64) -> &AtomicU64 {
        self.view().sequence(position)
    }

    /// Writes a message behind its word 0, which is not written here.
    #[inline(always)]
    pub fn write(&self, position: u64, sequence: u64, time: i64, body: &[u8]) {
        self.view().write_header(position, sequence, time);
        self.view().write_body(position, body);
    }

    /// Writes the header of the next frame: empty, with its sequence number.
    #[inline(always)]
    pub fn write_next(&self, position: u64, sequence: u64) {
        self.head(position).store(0, Ordering::Relaxed);
        self.sequence(position).store(sequence, Ordering::Relaxed);
    }

    /// Where the frame after the one at a position begins, and how many messages this one is, if it has been committed.
    #[inline(always)]
    pub fn committed(&self, position: u64) -> Option<(u64, u64)> {
        match Frame::parse(self.head(position).load(Ordering::Acquire)) {
            Frame::Message { bytes, .. } => Some((position + frame_bytes(bytes), 1)),
            Frame::Pad { lines } if lines > 0 => Some((position + lines * LINE, 0)),
            // A claim at the tail was never finished.
            Frame::Empty | Frame::Pad { .. } | Frame::Claimed { .. } => None,
        }
    }

    /// Whether what was read at `position` was what had been committed there. [SYNC: LIMIT]
    pub fn is_whole(&self, position: u64) -> bool {
        self.view().is_whole(position)
    }

    /// A frame before which no claim begins: the tail, or the claim that its owner is about to write. The last committed frames
    /// may lie behind it if an exclusive publisher died.
    pub fn frontier(&self) -> u64 {
        loop {
            let word = self.tail().load(Ordering::Acquire);
            let tail = Tail::parse(word);
            let Some(owner) = tail.owner else { return tail.position };
            let intent = self.intent(owner).load(Ordering::Acquire);
            if self.tail().load(Ordering::Acquire) == word {
                // An owner always has an intent, except with a hostile writer.
                return Intent::parse(intent, tail.position).map_or(tail.position, |intent| intent.start);
            }
        }
    }

    #[inline(always)]
    pub fn intent(&self, publisher: usize) -> &AtomicU64 {
        self.publisher(publisher, word::publisher::INTENT)
    }

    /// A word of a publisher's slot.
    #[inline(always)]
    pub fn publisher(&self, slot: usize, field: usize) -> &AtomicU64 {
        self.words.get(word::publisher::of(slot, field))
    }

    /// A word of a subscriber's slot.
    #[inline(always)]
    pub fn subscriber(&self, slot: usize, field: usize) -> &AtomicU64 {
        self.words.get(word::subscriber::of(slot, field))
    }

    /// Wakes parked subscribers: after every commit.
    ///
    /// Pairs with `Reader::park`, which writes that it parks, passes a barrier on all processors, and then checks word 0 once
    /// more: either it sees the commit, or this sees that it parks. [SYNC: PARK]
    #[inline(always)]
    pub fn wake(&self) {
        light_barrier();
        if self.words.get(word::PARKED).load(Ordering::Relaxed) != 0 {
            self.wake_parked();
        }
    }

    #[cold]
    fn wake_parked(&self) {
        self.words.get(word::PARKED).store(0, Ordering::SeqCst);
        let wakes = self.words.get(word::WAKES);
        wakes.fetch_add(1, Ordering::SeqCst);
        wake_all(wakes);
    }

    /// Adds one to a counter.
    pub fn count(&self, counter: usize) {
        self.words.get(counter).fetch_add(1, Ordering::Relaxed);
    }

    /// Passes over a claim that is not finished. Whether this call did.
    ///
    /// Its owner notices when it commits: the exchange fails. `bytes` is the length in the claim's own word.
    pub fn pass_over(&self, position: u64, claim: u64, bytes: u64) -> bool {
        let padded = pad(bytes);
        let passed =
            self.head(position).compare_exchange(claim, padded, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if passed {
            self.count(word::PADDED);
        }
        passed
    }

    /// Positions where late joiners may begin, as far as publishers have written them: each was the tail once.
    pub fn anchors(&self) -> impl Iterator<Item = u64> {
        (0..ANCHORS)
            .map(|at| self.words.get(word::ANCHORS + at).load(Ordering::Acquire))
            .filter(|&position| position > 0 && position.is_multiple_of(LINE))
    }
}
