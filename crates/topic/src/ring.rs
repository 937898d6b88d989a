//! The ring of a topic, as publishers and subscribers share it.
//!
//! Positions count bytes from the topic's beginning and never come back; where a position lies is its remainder by the
//! ring's size. The first is the ring's size, so that there is always a lap before.
//!
//! Always true, whoever dies whenever:
//!
//! - *Frames tile the ring.* Behind the last frame there is one with word 0, and every frame before it leads to it. A subscriber that stands on a frame finds the next one by the frame's own word.
//! - *Word 0 is the commit.* It goes from 0 (or `Claimed`) to `Message` or `Pad` once, with release, after all else of the
//!   frame and after word 0 of the next frame; subscribers load it with acquire. [SYNC: COMMIT]
//! - *The tail's frame has its number.* A publisher alone writes the next number after the commit and before the tail;
//!   whoever moves the tail past a frame of one that died in between writes it.
//! - *Nobody writes at or beyond the limit.* The limit is raised first, then a release fence, then the ring is written;
//!   a subscriber copies, then an acquire fence, then it looks at the limit. What it copied at `q` is whole if
//!   `limit <= q + ring_bytes`. [SYNC: LIMIT]
//! - *The limit passes no subscriber that publishers wait for,* unless that one is dead or has stood still for the stall
//!   time; nor a region that a living publisher may yet write, however late it wakes: its intent.

use crate::atomics::{AtomicU64, Ordering, light_barrier};
use crate::format::{Frame, Intent, LINE, Shape, Tail, frame_bytes, word};
use crate::view::View;
use crate::words::{WORD, Words};
use std::fmt::Debug;

/// Who is there. Exact: a lock of the operating system's that ends with its owner.
pub(crate) trait Presence: Debug + Send + Sync {
    /// Whether the publisher of a slot lives.
    fn has_publisher(&self, slot: usize) -> bool;
    /// Whether the subscriber of a slot lives.
    fn has_subscriber(&self, slot: usize) -> bool;
}

/// The mapped memory of a topic, and who is there.
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

    /// Sequence number of the frame at a position: there once the tail is.
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

    /// Makes the frame that will be the next one: empty, with its sequence number.
    #[inline(always)]
    pub fn write_next(&self, position: u64, sequence: u64) {
        self.head(position).store(0, Ordering::Relaxed);
        self.sequence(position).store(sequence, Ordering::Relaxed);
    }

    /// Where the frame behind the one at a position begins, and how many messages this one is, if it has been committed.
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

    /// Where a frame stands that no claim begins before: the tail, or the claim that is being made known. What is committed
    /// last may lie behind it if its publisher is alone and died.
    pub fn frontier(&self) -> u64 {
        loop {
            let word = self.tail().load(Ordering::Acquire);
            let tail = Tail::parse(word);
            let Some(owner) = tail.owner else { return tail.position };
            let intent = self.intent(owner).load(Ordering::Acquire);
            if self.tail().load(Ordering::Acquire) == word {
                // Without an intent there would be no owner: only a hostile writer's.
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

    /// Wakes whoever is parked: after every commit.
    ///
    /// Pairs with `Reader::park`, which says that it parks, has a barrier everywhere, and then looks at word 0 once more:
    /// either it sees the commit, or this sees it. [SYNC: PARK]
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
        let bell = self.words.get(word::BELL);
        bell.fetch_add(1, Ordering::SeqCst);
        #[cfg(not(loom))]
        crate::system::wake_all(bell);
    }

    /// Counts what happened.
    pub fn count(&self, counter: usize) {
        self.words.get(counter).fetch_add(1, Ordering::Relaxed);
    }

    /// Passes over a claim that is not finished. Whether it was this call that did.
    ///
    /// Its owner finds out when it wants to commit: the exchange fails. `bytes` is what the claim's own word says.
    pub fn pass_over(&self, position: u64, claim: u64, bytes: u64) -> bool {
        let padded = crate::format::pad(bytes);
        let passed =
            self.head(position).compare_exchange(claim, padded, Ordering::AcqRel, Ordering::Relaxed).is_ok();
        if passed {
            self.count(word::PADDED);
        }
        passed
    }

    /// Places where late joiners may begin, as far as publishers have noted them: each was the tail once.
    pub fn anchors(&self) -> impl Iterator<Item = u64> {
        (0..crate::format::ANCHORS)
            .map(|at| self.words.get(word::ANCHORS + at).load(Ordering::Acquire))
            .filter(|&position| position > 0 && position.is_multiple_of(LINE))
    }
}
