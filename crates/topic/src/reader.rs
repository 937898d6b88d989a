//! Reading the ring.

use crate::error::TopicError;
use crate::format::{Delivery, FRAME_HEADER, Frame, LINE, PROTECTED, frame_bytes, word};
use crate::ring::Ring;
use std::time::{Duration, Instant};
use tapedb_shm::atomics::{Ordering, fence, heavy_barrier, pause};
use tapedb_shm::waiting::{ALIVE_INTERVAL, sleep_on};
use word::subscriber as sub;

/// Where a subscriber begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Start {
    /// With the next message.
    #[default]
    Now,
    /// With the oldest message that can still be read.
    Oldest,
}

/// The result of a poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    Nothing,
    /// A message; its body is in the buffer.
    Message {
        bytes: usize,
        type_id: u16,
        symbol: u32,
        time: i64,
        sequence: u64,
    },
}

/// Bytes read in a run before the reader pauses: see [`Reader::poll`].
const RUN_BYTES: u64 = 64 * LINE;
/// Checks without a message that do not end a run: a publisher at full speed needs a few for the next message.
const RUN_CHECKS: u32 = 16;
/// The same for a subscriber that spins.
const SPIN_CHECKS: u32 = 64;
/// Length of that pause, in `pause`s.
const COLLECT: u32 = 64;
/// Checks between two readings of the clock while a claim is in the way.
const STUCK_CHECKS: u32 = 64;

/// A subscriber's position in the ring.
///
/// Always true: `position` is a frame; all before it has been copied or skipped. `published`, in the slot, is at or
/// before it.
#[derive(Debug)]
pub(crate) struct Reader {
    pub slot: usize,
    pub position: u64,
    /// Sequence number that the next message has.
    pub expected: u64,
    /// Sequence numbers that no message has: of claims whose publishers died.
    pub abandoned: u64,
    published: u64,
    /// The position at which it is published next.
    publish_at: u64,
    publish_step: u64,
    /// The position where the run began: there was no message for a while, or the reader paused.
    run_from: u64,
    /// Checks without a message at `checked_at`.
    checks: u32,
    checked_at: u64,
    stuck: Option<Stuck>,
    stuck_checks: u32,
}

/// A claim that is in the way.
#[derive(Debug, Clone, Copy)]
struct Stuck {
    position: u64,
    word: u64,
    since: Instant,
    checked: Instant,
}

impl Reader {
    /// Begins, in a slot that the caller holds. `protected`: publishers wait for it.
    pub fn join(ring: &Ring, slot: usize, start: Start, protected: bool) -> Self {
        let protected = protected && ring.shape.delivery == Delivery::Reliable;
        let word = |field| ring.subscriber(slot, field);
        word(sub::FLAGS).store(if protected { PROTECTED } else { 0 }, Ordering::Relaxed);
        word(sub::MISSED).store(0, Ordering::Relaxed);
        word(sub::PASSED).store(0, Ordering::Relaxed);
        let mut reader = Self {
            slot,
            position: 0,
            expected: 0,
            abandoned: 0,
            published: 0,
            publish_step: (ring.shape.ring_bytes / 64).min(16 << 10),
            publish_at: 0,
            run_from: 0,
            checks: 0,
            checked_at: 0,
            stuck: None,
            stuck_checks: 0,
        };
        reader.expected = reader.settle(ring, start);
        reader.run_from = reader.position;
        reader
    }

    /// Moves to a position where reading can go on, and returns the sequence number there.
    fn settle(&mut self, ring: &Ring, start: Start) -> u64 {
        loop {
            let position = match start {
                Start::Now => ring.frontier(),
                Start::Oldest => oldest(ring),
            };
            self.position = position;
            self.publish(ring);
            // SeqCst: a publisher that does not see the slot yet has not raised the limit beyond it, which is checked next; one
            // that raises it later sees the slot.
            fence(Ordering::SeqCst);
            let sequence = ring.sequence(position).load(Ordering::Relaxed);
            if ring.is_whole(position) {
                return sequence;
            }
            pause();
        }
    }

    /// Finds the next message that `wants` (by type and symbol) and copies its body.
    ///
    /// A reader that is as fast as the publishers takes each line from the cache of the publisher that is about to write next
    /// to it. So after a run of messages the reader pauses for a microsecond or two: both are faster then. Single messages are
    /// read at once.
    ///
    /// # Errors
    /// `Missed`, and damage.
    #[inline(always)]
    pub fn poll(
        &mut self,
        ring: &Ring,
        body: &mut [u8],
        mut wants: impl FnMut(u16, u32) -> bool,
    ) -> Result<Found, TopicError> {
        let view = ring.view();
        loop {
            let position = self.position;
            let [word, sequence, time] = view.header(position);
            // Acquire pairs with the release of the commit. [SYNC: COMMIT]
            let word = word.load(Ordering::Acquire);
            let Frame::Message { bytes, type_id, symbol } = Frame::parse(word) else {
                if self.skip(ring, word)? {
                    continue;
                }
                return Ok(Found::Nothing);
            };
            let (sequence, time) = (sequence.load(Ordering::Relaxed), time.load(Ordering::Relaxed));
            let wanted = wants(type_id, symbol);
            let fits = bytes <= body.len() && bytes as u64 + FRAME_HEADER <= view.until_wrap(position);
            if wanted && fits {
                view.read_body(position, bytes, body);
            }
            if !view.is_whole(position) {
                self.rejoin(ring)?;
                continue;
            }
            if !fits {
                return Err(TopicError::Corrupt { position, what: "a message longer than the topic takes" });
            }
            if sequence != self.expected {
                self.abandoned += sequence.wrapping_sub(self.expected);
            }
            self.expected = sequence.wrapping_add(1);
            self.move_to(ring, position + frame_bytes(bytes));
            if wanted {
                return Ok(Found::Message { bytes, type_id, symbol, time: time as i64, sequence });
            }
        }
    }

    #[inline(always)]
    fn move_to(&mut self, ring: &Ring, position: u64) {
        self.position = position;
        if position >= self.publish_at {
            self.publish(ring);
        }
    }

    /// Writes its position for publishers to read.
    #[cold]
    fn publish(&mut self, ring: &Ring) {
        self.published = self.position;
        self.publish_at = self.position + self.publish_step;
        let slot = self.slot;
        ring.subscriber(slot, sub::SEQUENCE).store(self.expected, Ordering::Relaxed);
        // Release: all before it has been copied.
        ring.subscriber(slot, sub::POSITION).store(self.position, Ordering::Release);
    }

    /// Skips what is no message. Whether to check again.
    #[inline(never)]
    fn skip(&mut self, ring: &Ring, word: u64) -> Result<bool, TopicError> {
        let position = self.position;
        if !ring.is_whole(position) {
            return self.rejoin(ring).map(|()| true);
        }
        match Frame::parse(word) {
            Frame::Pad { lines } if lines > 0 && lines * LINE <= ring.shape.ring_bytes => {
                self.move_to(ring, position + lines * LINE);
                return Ok(true);
            }
            Frame::Pad { .. } => {
                return Err(TopicError::Corrupt { position, what: "padding of an impossible length" });
            }
            Frame::Claimed { owner, lines } => return Ok(self.passes_over(ring, word, owner, lines * LINE)),
            Frame::Empty | Frame::Message { .. } => {}
        }
        if self.published != position {
            self.publish(ring);
        }
        Ok(self.pauses())
    }

    /// Pauses in a run of messages, each of which was there when the one before had been read, or nearly. Whether it did.
    fn pauses(&mut self) -> bool {
        if self.checked_at != self.position {
            (self.checked_at, self.checks) = (self.position, 0);
        }
        self.checks += 1;
        if self.checks > RUN_CHECKS {
            self.run_from = self.position;
        }
        let waits = self.position - self.run_from >= RUN_BYTES;
        if waits {
            self.run_from = self.position;
            (0..COLLECT).for_each(|_| pause());
        }
        waits
    }

    /// Passes over an unfinished claim if its publisher is dead, or has stalled for too long. Whether it did.
    fn passes_over(&mut self, ring: &Ring, word: u64, owner: usize, bytes: u64) -> bool {
        let position = self.position;
        if self.published != position {
            self.publish(ring);
        }
        self.stuck_checks += 1;
        if !cfg!(loom) && !self.stuck_checks.is_multiple_of(STUCK_CHECKS) {
            return false;
        }
        // A hostile word may name an owner that does not exist.
        let owner = owner.min(ring.publisher_slots() - 1);
        let now = Instant::now();
        let before = self.stuck.filter(|stuck| stuck.position == position && stuck.word == word);
        let mut stuck = before.unwrap_or(Stuck { position, word, since: now, checked: now });
        let stalled =
            ring.shape.stall_ms > 0 && now - stuck.since >= Duration::from_millis(ring.shape.stall_ms);
        let mut is_over = stalled;
        if cfg!(loom) || now - stuck.checked >= ALIVE_INTERVAL {
            stuck.checked = now;
            is_over |= !ring.presence.has_publisher(owner);
        }
        self.stuck = Some(stuck);
        // While the claim's owner, or the one that takes over from it, still owns the tail, its length is not final.
        is_over && ring.frontier() > position && ring.pass_over(position, word, bytes)
    }

    /// Continues after what has been overwritten, and returns what was missed.
    #[cold]
    fn rejoin(&mut self, ring: &Ring) -> Result<(), TopicError> {
        let first = self.expected;
        let sequence = self.settle(ring, Start::Oldest);
        self.expected = sequence;
        self.run_from = self.position;
        let count = sequence.wrapping_sub(first);
        if count == 0 {
            return Ok(());
        }
        ring.subscriber(self.slot, sub::MISSED).fetch_add(count, Ordering::Relaxed);
        Err(TopicError::Missed { first, count })
    }

    /// Checks so many times whether there is a frame.
    #[inline(always)]
    pub fn spin(&mut self, ring: &Ring, checks: u32) -> bool {
        let head = ring.head(self.position);
        let found = (0..checks).find(|_| head.load(Ordering::Relaxed) != 0);
        // A wait ends the run.
        if found.is_none_or(|at| at > SPIN_CHECKS) {
            self.run_from = self.position;
        }
        found.is_some()
    }

    /// Whether there is a frame at the reader's position, or was.
    pub fn has_more(&self, ring: &Ring) -> bool {
        let word = ring.head(self.position).load(Ordering::SeqCst);
        !matches!(Frame::parse(word), Frame::Empty) || !ring.is_whole(self.position)
    }

    /// States that the subscriber is alive and at work, for publishers that measure how long it has stalled.
    pub fn beat(&self, ring: &Ring) {
        ring.subscriber(self.slot, sub::BEAT).fetch_add(1, Ordering::Relaxed);
    }

    /// Sleeps until a publisher commits, at most `timeout`. May wake without a reason.
    ///
    /// Pairs with `Ring::wake`. [SYNC: PARK]
    pub fn park(&self, ring: &Ring, timeout: Duration) {
        let wakes = ring.words.get(word::WAKES);
        let seen = wakes.load(Ordering::SeqCst) as u32;
        ring.words.get(word::PARKED).store(1, Ordering::SeqCst);
        let has_barrier = heavy_barrier();
        if self.has_more(ring) {
            return;
        }
        // A publisher may die between its commit and the wake-up, and one that is in the way wakes no subscriber.
        let stall = Duration::from_millis(ring.shape.stall_ms.max(2) / 2);
        let longest =
            if has_barrier { stall.min(Duration::from_millis(500)) } else { Duration::from_millis(1) };
        sleep_on(wakes, seen, timeout.min(longest));
    }
}

/// Position of the oldest message that can still be read for a while: a sixteenth of the ring from being overwritten.
fn oldest(ring: &Ring) -> u64 {
    let limit = ring.limit().load(Ordering::Acquire);
    let frontier = ring.frontier();
    let from =
        (limit + 2 * ring.shape.step()).saturating_sub(ring.shape.ring_bytes).max(ring.shape.ring_bytes);
    let first = ring.shape.ring_bytes;
    if from <= first {
        return first;
    }
    ring.anchors().filter(|&anchor| anchor >= from && anchor <= frontier).min().unwrap_or(frontier)
}
