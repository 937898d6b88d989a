//! A publisher that has a topic to itself: no exchanges, no tail on anybody's path.
//!
//! It knows where it stands and how far it may go. The tail follows what it commits; after its death it may be behind by
//! what was committed last, so whoever comes next goes on from the last frame that is there (`settle`, and `Shared::free_tail`).
//!
//! Where its next frames begin is made empty ahead of time, after a commit and not before the next: a message then touches
//! no lines before it is published but its own, and the lines are here already. Lines further ahead are fetched, for readers
//! had them last.

use crate::atomics::Ordering;
use crate::format::{LINE, SLACK, Tail, pad, word};
use crate::limit::{Raised, Slowest, Watch};
use crate::ring::Ring;
use crate::view::View;

/// Bytes that are made empty ahead of the next frame.
const AHEAD: u64 = if SLACK < 8 * LINE { SLACK } else { 8 * LINE };

/// How far ahead lines are fetched.
const FETCH: u64 = 32 * LINE;

/// The publisher.
///
/// Always true: frames from `start` on are written up to `next`, but for word 0 of the first of them, which is `held`. From
/// `next` on up to `cleared` the first word of each line is 0; at a commit `cleared` is greater.
#[derive(Debug)]
pub(crate) struct Alone {
    start: u64,
    next: u64,
    held: u64,
    cleared: u64,
    /// Sequence number of the next frame.
    pub sequence: u64,
    /// What the topic's limit is.
    limit: u64,
    watch: Watch,
}

impl Alone {
    /// Goes on where the topic ends. Nobody else publishes.
    pub fn new(ring: &Ring) -> Self {
        let (start, sequence) = settle(ring);
        let limit = ring.limit().load(Ordering::Acquire);
        let cleared = start + LINE;
        Self { start, next: start, held: 0, cleared, sequence, limit, watch: Watch::default() }
    }

    /// Makes room for a frame of at most `bytes` in one piece. `Ok` is where it goes.
    #[inline(always)]
    pub fn room(&mut self, ring: &Ring, bytes: u64) -> Result<u64, Slowest> {
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
        match ring.raise_limit(None, self.start, need, &mut self.watch) {
            Raised::BackPressured(slowest) => return Err(slowest),
            Raised::Room | Raised::PassBy(_) => self.limit = ring.limit().load(Ordering::Relaxed),
        }
        Ok(())
    }

    /// Passes by what is left at the ring's end.
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

    /// Adds a frame that has been written where [`Alone::room`] said, of which `bytes` are used; it is not published yet.
    #[inline(always)]
    pub fn add(&mut self, view: View, bytes: u64, word: u64, messages: u64) {
        if self.next == self.start {
            self.held = word;
        } else {
            // A late joiner never begins here, and whoever comes from the first frame has acquired all of them.
            view.head(self.next).store(word, Ordering::Release);
        }
        self.sequence += messages;
        self.next += bytes;
        view.fetch(self.next + FETCH);
    }

    /// Publishes all frames that were added.
    #[inline(always)]
    pub fn commit(&mut self, view: View) {
        let (start, next) = (self.start, self.next);
        if next == start {
            return;
        }
        // Not in the frames, which have been written.
        self.cleared = self.cleared.max(next);
        self.clear(view, next + LINE);
        // Release: with the first frame all are seen. [SYNC: COMMIT]
        view.head(start).store(self.held, Ordering::Release);
        self.start = next;
        // Not before the commit, which would have to wait until that line is here too.
        view.sequence(next).store(self.sequence, Ordering::Relaxed);
        // Release: who begins at the tail finds its number.
        view.words.get(word::TAIL).store(Tail::free(next).word(), Ordering::Release);
        self.clear(view, next + AHEAD);
    }

    /// Publishes a message where nothing else has been added: see [`Alone::add`].
    #[inline(always)]
    pub fn publish(&mut self, view: View, bytes: u64, word: u64) {
        debug_assert_eq!(self.start, self.next, "a batch is neither committed nor forgotten");
        self.held = word;
        self.sequence += 1;
        self.next = self.start + bytes;
        self.commit(view);
        view.fetch(self.next + FETCH);
    }

    /// Makes lines empty up to a position, where frames may begin.
    #[inline(always)]
    fn clear(&mut self, view: View, to: u64) {
        while self.cleared < to {
            view.head(self.cleared).store(0, Ordering::Relaxed);
            self.cleared += LINE;
        }
    }

    /// Forgets the frames that were added since the last commit: so many messages.
    pub fn forget(&mut self, ring: &Ring, messages: u64) {
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

/// Puts the tail where the topic ends, wherever its last publishers died, and tells its position and the next sequence
/// number. Only where nobody publishes.
pub(crate) fn settle(ring: &Ring) -> (u64, u64) {
    let mut position = ring.frontier();
    let end = position.saturating_add(ring.shape.ring_bytes);
    let mut sequence = ring.sequence(position).load(Ordering::Relaxed);
    while let Some((next, messages)) = ring.committed(position).filter(|_| position < end) {
        if messages > 0 {
            // Behind the last frame it may not have been written.
            sequence = ring.sequence(position).load(Ordering::Relaxed).wrapping_add(messages);
        }
        position = next;
    }
    ring.raise_limit_to(position + 2 * LINE);
    ring.write_next(position, sequence);
    ring.tail().store(Tail::free(position).word(), Ordering::Release);
    (position, sequence)
}
