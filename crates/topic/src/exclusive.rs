//! The only publisher of a topic: no exchanges, and no reads of the tail.
//!
//! Its own position and limit are in its memory. The tail follows what it commits; after its death the tail may be behind by
//! the last commit, so the next publisher continues from the last committed frame (`settle`, and `Claimer::free_tail`).
//!
//! The first words of its next frames are cleared ahead of time, after a commit and not before the next: until a message is
//! published, it then touches only its own lines, which are in the cache already. Lines further ahead are prefetched, because
//! readers had them last.

use crate::format::{LINE, SLACK, Tail, pad, word};
use crate::limit::{Raised, Slowest, StallTimes};
use crate::ring::Ring;
use crate::view::View;
use tapedb_shm::atomics::Ordering;

/// Bytes that are cleared ahead of the next frame.
const CLEAR_AHEAD: u64 = if SLACK < 8 * LINE { SLACK } else { 8 * LINE };

/// How far ahead lines are prefetched.
const FETCH_AHEAD: u64 = 32 * LINE;

/// The publisher.
///
/// Always true: frames from `start` on are written up to `next`, except word 0 of the first of them, which is `held`. From
/// `next` on up to `cleared` the first word of each line is 0; at a commit `cleared` is greater.
#[derive(Debug)]
pub(crate) struct Exclusive {
    start: u64,
    next: u64,
    held: u64,
    cleared: u64,
    /// Sequence number of the next frame.
    pub sequence: u64,
    /// The topic's limit, as it was read last.
    limit: u64,
    stalls: StallTimes,
}

impl Exclusive {
    /// Goes on where the topic ends. There is no other publisher.
    pub fn new(ring: &Ring) -> Self {
        let (start, sequence) = settle(ring);
        let limit = ring.limit().load(Ordering::Acquire);
        let cleared = start + LINE;
        Self { start, next: start, held: 0, cleared, sequence, limit, stalls: StallTimes::default() }
    }

    /// Reserves space for a frame of at most `bytes` in one piece. `Ok` is its position.
    #[inline(always)]
    pub fn reserve(&mut self, ring: &Ring, bytes: u64) -> Result<u64, Slowest> {
        if bytes > ring.until_wrap(self.next) {
            self.wrap(ring)?;
        }
        let need = self.next + bytes + LINE + SLACK;
        if need > self.limit {
            self.raise(ring, need)?;
        }
        Ok(self.next)
    }

    #[cold]
    fn raise(&mut self, ring: &Ring, need: u64) -> Result<(), Slowest> {
        match ring.raise_limit(None, self.start, need, &mut self.stalls) {
            Raised::BackPressured(slowest) => return Err(slowest),
            Raised::Space | Raised::PadTo(_) => self.limit = ring.limit().load(Ordering::Relaxed),
        }
        Ok(())
    }

    /// Pads the rest of the lap.
    #[cold]
    fn wrap(&mut self, ring: &Ring) -> Result<(), Slowest> {
        let bytes = ring.until_wrap(self.next);
        let need = self.next + bytes + LINE + SLACK;
        if need > self.limit {
            self.raise(ring, need)?;
        }
        self.add(ring.view(), bytes, pad(bytes), 0);
        if self.start + bytes == self.next {
            self.commit(ring.view());
        }
        Ok(())
    }

    /// Adds a frame that has been written where [`Exclusive::reserve`] returned, of which `bytes` are used; it is not published yet.
    #[inline(always)]
    pub fn add(&mut self, view: View, bytes: u64, word: u64, messages: u64) {
        if self.next == self.start {
            self.held = word;
        } else {
            // No late joiner begins here, and a reader that comes from the first frame has acquired all of them.
            view.head(self.next).store(word, Ordering::Release);
        }
        self.sequence += messages;
        self.next += bytes;
        view.fetch(self.next + FETCH_AHEAD);
    }

    /// Publishes all frames that were added.
    #[inline(always)]
    pub fn commit(&mut self, view: View) {
        let (start, next) = (self.start, self.next);
        if next == start {
            return;
        }
        // Not within the frames, which have been written.
        self.cleared = self.cleared.max(next);
        self.clear(view, next + LINE);
        // Release: all frames become visible with the first. [SYNC: COMMIT]
        view.head(start).store(self.held, Ordering::Release);
        self.start = next;
        // After the commit, which would otherwise wait for that line too.
        view.sequence(next).store(self.sequence, Ordering::Relaxed);
        // Release: a reader that begins at the tail finds its number.
        view.words.get(word::TAIL).store(Tail::free(next).word(), Ordering::Release);
        self.clear(view, next + CLEAR_AHEAD);
    }

    /// Publishes a message where nothing else has been added: see [`Exclusive::add`].
    #[inline(always)]
    pub fn publish(&mut self, view: View, bytes: u64, word: u64) {
        debug_assert_eq!(self.start, self.next, "a batch is neither committed nor discarded");
        self.held = word;
        self.sequence += 1;
        self.next = self.start + bytes;
        self.commit(view);
        view.fetch(self.next + FETCH_AHEAD);
    }

    /// Clears the first words of lines up to a position: frames may begin there.
    #[inline(always)]
    fn clear(&mut self, view: View, to: u64) {
        while self.cleared < to {
            view.head(self.cleared).store(0, Ordering::Relaxed);
            self.cleared += LINE;
        }
    }

    /// Discards the frames that were added since the last commit: so many messages.
    pub fn discard(&mut self, ring: &Ring, messages: u64) {
        self.sequence -= messages;
        let to = self.next + LINE;
        (self.next, self.cleared) = (self.start, self.start);
        self.clear(ring.view(), to);
        ring.sequence(self.start).store(self.sequence, Ordering::Relaxed);
    }

    /// Bytes added and not yet published.
    pub fn pending_bytes(&self) -> u64 {
        self.next - self.start
    }
}

/// Moves the tail to where the topic ends, wherever its last publishers died, and returns its position and the next sequence
/// number. Only while there are no publishers.
pub(crate) fn settle(ring: &Ring) -> (u64, u64) {
    let mut position = ring.frontier();
    let end = position.saturating_add(ring.shape.ring_bytes);
    let mut sequence = ring.sequence(position).load(Ordering::Relaxed);
    while let Some((next, messages)) = ring.committed(position).filter(|_| position < end) {
        if messages > 0 {
            // After the last frame the number may not have been written.
            sequence = ring.sequence(position).load(Ordering::Relaxed).wrapping_add(messages);
        }
        position = next;
    }
    ring.raise_limit_to(position + 2 * LINE);
    ring.write_next(position, sequence);
    ring.tail().store(Tail::free(position).word(), Ordering::Release);
    (position, sequence)
}
