//! How a subscriber goes through the ring.

use crate::atomics::{Ordering, pause};
use crate::error::TopicError;
use crate::format::{Delivery, FRAME_HEADER, Frame, LINE, PROTECTED, frame_bytes, word};
use crate::ring::Ring;
use crate::shared::ALIVE_INTERVAL;
use std::time::{Duration, Instant};
use word::subscriber as sub;

/// Where a subscriber begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Start {
    /// With what is published from now on.
    #[default]
    Now,
    /// With the oldest message that can still be read.
    Oldest,
}

/// What a look found.
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

/// What is read without waiting before the next wait is a little longer: see [`Reader::poll`].
const RUN_BYTES: u64 = 64 * LINE;
/// Looks at nothing that do not end a run: for a publisher at full speed the next message is a few away.
const LOOKS: u32 = 16;
/// The same of those that do nothing else.
const SPIN_LOOKS: u32 = 64;
/// How long that wait is, in `pause`s.
const COLLECT: u32 = 64;
/// Looks at nothing between two at the clock, while a claim is in the way.
const STUCK_LOOKS: u32 = 64;

/// A subscriber's place in the ring.
///
/// Always true: `position` is a frame; all before it has been copied or passed by. `published`, in the slot, is at or
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
    /// Where it is published next.
    publish_at: u64,
    publish_step: u64,
    /// Where it last found nothing for a while, or let messages collect.
    run_from: u64,
    /// Looks at nothing at `looked_at`.
    looks: u32,
    looked_at: u64,
    stuck: Option<Stuck>,
    stuck_looks: u32,
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
    /// Begins in a slot that is the caller's. `protected`: publishers wait for it.
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
            looks: 0,
            looked_at: 0,
            stuck: None,
            stuck_looks: 0,
        };
        reader.expected = reader.stand(ring, start);
        reader.run_from = reader.position;
        reader
    }

    /// Stands where reading can go on, and tells the sequence number there.
    fn stand(&mut self, ring: &Ring, start: Start) -> u64 {
        loop {
            let position = match start {
                Start::Now => ring.frontier(),
                Start::Oldest => oldest(ring),
            };
            self.position = position;
            self.publish(ring);
            // SeqCst: publishers that do not see the slot yet have not raised the limit beyond it, which is looked at next;
            // those that raise it later see it.
            crate::atomics::fence(Ordering::SeqCst);
            let sequence = ring.sequence(position).load(Ordering::Relaxed);
            if ring.is_whole(position) {
                return sequence;
            }
            pause();
        }
    }

    /// Looks for the next message that `wants` (by type and symbol) and copies its body.
    ///
    /// Who reads as fast as publishers write takes each line out of the hands of the one that is about to write beside it.
    /// So after a run of messages the reader lets some collect, for a microsecond or two: both go faster then. Single messages
    /// are seen at once.
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
            // Acquire pairs with the release of whoever committed. [SYNC: COMMIT]
            let word = word.load(Ordering::Acquire);
            let Frame::Message { bytes, type_id, symbol } = Frame::parse(word) else {
                if self.pass(ring, word)? {
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

    /// Tells publishers where this reader is.
    #[cold]
    fn publish(&mut self, ring: &Ring) {
        self.published = self.position;
        self.publish_at = self.position + self.publish_step;
        let slot = self.slot;
        ring.subscriber(slot, sub::SEQUENCE).store(self.expected, Ordering::Relaxed);
        // Release: what lies before has been copied.
        ring.subscriber(slot, sub::POSITION).store(self.position, Ordering::Release);
    }

    /// What to do where there is no message: whether to look again.
    #[inline(never)]
    fn pass(&mut self, ring: &Ring, word: u64) -> Result<bool, TopicError> {
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
                return Err(TopicError::Corrupt { position, what: "something without an end" });
            }
            Frame::Claimed { owner, lines } => return Ok(self.is_rid_of(ring, word, owner, lines * LINE)),
            Frame::Empty | Frame::Message { .. } => {}
        }
        if self.published != position {
            self.publish(ring);
        }
        Ok(self.let_some_collect())
    }

    /// Waits a little where messages come so fast that each was there when the one before had been read, or nearly. Whether
    /// it did.
    fn let_some_collect(&mut self) -> bool {
        if self.looked_at != self.position {
            (self.looked_at, self.looks) = (self.position, 0);
        }
        self.looks += 1;
        if self.looks > LOOKS {
            self.run_from = self.position;
        }
        let waits = self.position - self.run_from >= RUN_BYTES;
        if waits {
            self.run_from = self.position;
            (0..COLLECT).for_each(|_| pause());
        }
        waits
    }

    /// Passes over an unfinished claim if its publisher is dead, or has stood still for too long. Whether it is gone.
    fn is_rid_of(&mut self, ring: &Ring, word: u64, owner: usize, bytes: u64) -> bool {
        let position = self.position;
        if self.published != position {
            self.publish(ring);
        }
        self.stuck_looks += 1;
        if !cfg!(loom) && !self.stuck_looks.is_multiple_of(STUCK_LOOKS) {
            return false;
        }
        // A hostile word has no owner among the slots.
        let owner = owner.min(ring.publisher_slots() - 1);
        let now = Instant::now();
        let known = self.stuck.filter(|stuck| stuck.position == position && stuck.word == word);
        let mut stuck = known.unwrap_or(Stuck { position, word, since: now, checked: now });
        let stalled =
            ring.shape.stall_ms > 0 && now - stuck.since >= Duration::from_millis(ring.shape.stall_ms);
        let mut is_over = stalled;
        if cfg!(loom) || now - stuck.checked >= ALIVE_INTERVAL {
            stuck.checked = now;
            is_over |= !ring.presence.has_publisher(owner);
        }
        self.stuck = Some(stuck);
        // While the claim's owner, or who takes over from it, still has the tail, its length is not settled.
        is_over && ring.frontier() > position && ring.pass_over(position, word, bytes)
    }

    /// Goes on behind what has been overwritten, and tells what was missed.
    #[cold]
    fn rejoin(&mut self, ring: &Ring) -> Result<(), TopicError> {
        let first = self.expected;
        let sequence = self.stand(ring, Start::Oldest);
        self.expected = sequence;
        self.run_from = self.position;
        let count = sequence.wrapping_sub(first);
        if count == 0 {
            return Ok(());
        }
        ring.subscriber(self.slot, sub::MISSED).fetch_add(count, Ordering::Relaxed);
        Err(TopicError::Missed { first, count })
    }

    /// Looks so many times whether something has come, and does nothing else.
    #[inline(always)]
    pub fn spin(&mut self, ring: &Ring, looks: u32) -> bool {
        let head = ring.head(self.position);
        let found = (0..looks).find(|_| head.load(Ordering::Relaxed) != 0);
        // What has been waited for ends a run.
        if found.is_none_or(|at| at > SPIN_LOOKS) {
            self.run_from = self.position;
        }
        found.is_some()
    }

    /// Whether there is something at the reader's place, or was.
    pub fn has_more(&self, ring: &Ring) -> bool {
        let word = ring.head(self.position).load(Ordering::SeqCst);
        !matches!(Frame::parse(word), Frame::Empty) || !ring.is_whole(self.position)
    }

    /// Says that the subscriber is alive and at work, for those who count how long it has stood still.
    pub fn beat(&self, ring: &Ring) {
        ring.subscriber(self.slot, sub::BEAT).fetch_add(1, Ordering::Relaxed);
    }

    /// Sleeps until a publisher commits, at most `timeout`. May wake for nothing.
    ///
    /// Pairs with `Ring::wake`. [SYNC: PARK]
    pub fn park(&self, ring: &Ring, timeout: Duration) {
        let bell = ring.words.get(word::BELL);
        let seen = bell.load(Ordering::SeqCst) as u32;
        ring.words.get(word::PARKED).store(1, Ordering::SeqCst);
        let told = heavy_barrier();
        if self.has_more(ring) {
            return;
        }
        // A publisher may die between its commit and waking us, and one that is in the way wakes nobody.
        let stall = Duration::from_millis(ring.shape.stall_ms.max(2) / 2);
        let longest = if told { stall.min(Duration::from_millis(500)) } else { Duration::from_millis(1) };
        sleep(bell, seen, timeout.min(longest));
    }
}

/// Where the oldest message is that can still be read for a while: a sixteenth of the ring from where it is overwritten.
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

#[cfg(not(loom))]
fn heavy_barrier() -> bool {
    crate::system::barrier()
}

#[cfg(loom)]
fn heavy_barrier() -> bool {
    crate::atomics::fence(Ordering::SeqCst);
    true
}

#[cfg(not(loom))]
fn sleep(bell: &crate::atomics::AtomicU64, seen: u32, timeout: Duration) {
    crate::system::sleep_on(bell, seen, timeout);
}

/// loom has no clock: a wake-up that is lost shows as a model that does not end.
#[cfg(loom)]
fn sleep(bell: &crate::atomics::AtomicU64, seen: u32, _: Duration) {
    while bell.load(Ordering::SeqCst) as u32 == seen {
        pause();
    }
}
