//! Raising the limit: how far publishers may write, and what is in their way.

use crate::format::{
    ANCHORS, Delivery, Intent, LINE, PROTECTED, PUBLISHERS_MAX, SLACK, SUBSCRIBERS_MAX, word,
};
use crate::ring::Ring;
use std::time::{Duration, Instant};
use tapedb_shm::atomics::{Ordering, fence};
use word::subscriber as sub;

/// The subscriber or publisher that publishers wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Slowest {
    /// Process of the subscriber, or of the publisher whose unfinished claim is in the way.
    pub process: u32,
    /// Whether it is a subscriber.
    pub is_subscriber: bool,
    /// Its slot in the topic.
    pub slot: usize,
    /// Bytes of the ring between it and the tail.
    pub behind_bytes: u64,
}

/// The result of raising the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Raised {
    /// There is space.
    Space,
    /// There is none.
    BackPressured(Slowest),
    /// A region that a publisher may still write is in the way: it must be padded, up to this position.
    PadTo(u64),
}

/// The subscribers that are in the way: position, beat, and when these were first read.
#[derive(Debug, Clone)]
pub(crate) struct StallTimes {
    /// Large, and rarely used.
    seen: Box<[Option<(u64, u64, Instant)>; SUBSCRIBERS_MAX]>,
}

impl Default for StallTimes {
    fn default() -> Self {
        Self { seen: Box::new([None; SUBSCRIBERS_MAX]) }
    }
}

impl StallTimes {
    /// Whether a subscriber has made no progress for so long.
    fn has_stalled(&mut self, slot: usize, position: u64, beat: u64, stall: Duration) -> bool {
        match self.seen[slot] {
            Some((was, beaten, since)) if (was, beaten) == (position, beat) => since.elapsed() >= stall,
            _ => {
                self.seen[slot] = Some((position, beat, Instant::now()));
                false
            }
        }
    }
}

impl Ring {
    /// Raises the limit so that there is space below `need`, or returns why not. Only the owner of the tail, which is at `tail`,
    /// may call this: the slot `me` of a publisher that shares the topic, or `None` for an exclusive one.
    pub fn raise_limit(&self, me: Option<usize>, tail: u64, need: u64, stalls: &mut StallTimes) -> Raised {
        let limit = self.limit().load(Ordering::Relaxed);
        if need <= limit {
            return Raised::Space;
        }
        let mut target = need + self.shape.step();
        if self.shape.delivery == Delivery::Reliable {
            match self.subscribers_bound(tail, limit, need, stalls) {
                Ok(bound) => target = target.min(bound),
                Err(slowest) => return Raised::BackPressured(slowest),
            }
        }
        if let Some(me) = me {
            match self.publishers_bound(me, tail, need, target) {
                Ok(bound) => target = target.min(bound),
                Err(end) => return Raised::PadTo(end),
            }
        }
        self.write_anchor(tail);
        // Fails if this publisher was stopped and another owns the tail now; then the next exchange of the tail fails too.
        let _ = self.limit().compare_exchange(limit, target, Ordering::Relaxed, Ordering::Relaxed);
        fence(Ordering::Release); // [SYNC: LIMIT]
        Raised::Space
    }

    /// The position where the slowest subscriber that must be waited for is one ring behind; the subscriber if it is in the way.
    fn subscribers_bound(
        &self,
        tail: u64,
        limit: u64,
        need: u64,
        stalls: &mut StallTimes,
    ) -> Result<u64, Slowest> {
        let (mut bound, mut slowest) = (u64::MAX, None::<Slowest>);
        for slot in 0..self.subscriber_slots() {
            let word = |field| self.subscriber(slot, field).load(Ordering::Acquire);
            let process = word(sub::PROCESS);
            if process == 0 || word(sub::FLAGS) & PROTECTED == 0 {
                continue;
            }
            // Acquire: its reads end before these bytes are overwritten.
            let position = word(sub::POSITION);
            let end = position.saturating_add(self.shape.ring_bytes);
            if end >= need {
                bound = bound.min(end);
            } else if end >= limit && word(sub::PASSED) != position + 1 {
                let behind_bytes = tail.saturating_sub(position);
                let found = Slowest { process: process as u32, is_subscriber: true, slot, behind_bytes };
                if !self.is_passed_over(slot, position, process, stalls)
                    && slowest.is_none_or(|slowest| slowest.behind_bytes < behind_bytes)
                {
                    slowest = Some(found);
                }
            }
        }
        slowest.map_or(Ok(bound), Err)
    }

    /// Whether a subscriber that is in the way need not be waited for: it is dead, or has stalled for too long.
    fn is_passed_over(&self, slot: usize, position: u64, process: u64, stalls: &mut StallTimes) -> bool {
        if !self.presence.has_subscriber(slot) {
            let process_word = self.subscriber(slot, sub::PROCESS);
            // Fails if another subscriber has taken the slot.
            let _ = process_word.compare_exchange(process, 0, Ordering::AcqRel, Ordering::Relaxed);
            return true;
        }
        let beat = self.subscriber(slot, sub::BEAT).load(Ordering::Relaxed);
        let stall = Duration::from_millis(self.shape.stall_ms);
        if self.shape.stall_ms == 0 || !stalls.has_stalled(slot, position, beat, stall) {
            return false;
        }
        self.subscriber(slot, sub::PASSED).store(position + 1, Ordering::Release);
        self.count(word::PASSED_OVER);
        true
    }

    /// The position up to which there is no region that another living publisher may still write; if that is too near, the
    /// first position from which on there is space.
    fn publishers_bound(&self, me: usize, tail: u64, need: u64, target: u64) -> Result<u64, u64> {
        let regions =
            |below| (0..self.publisher_slots()).filter_map(move |slot| self.region(slot, me, tail, below));
        let bound = regions(target).map(|(start, _)| start).min().unwrap_or(u64::MAX);
        if bound >= need {
            return Ok(bound);
        }
        let behind = |position: u64| position + LINE + SLACK;
        let mut end = need - LINE - SLACK;
        while let Some(next) = regions(behind(end)).map(|(_, next)| next).max().filter(|&next| next > end) {
            end = next;
        }
        Err(end)
    }

    /// The next lap's positions of the region that a living publisher may still write, if it begins below `below`.
    fn region(&self, slot: usize, me: usize, tail: u64, below: u64) -> Option<(u64, u64)> {
        let intent = Intent::parse(self.intent(slot).load(Ordering::Acquire), tail)?;
        // An intent at the tail itself is of this lap: another publisher got the claim.
        if slot == me || intent.start >= tail {
            return None;
        }
        let laps = tail.saturating_sub(intent.end()) / self.shape.ring_bytes + 1;
        let start = intent.start + laps * self.shape.ring_bytes;
        let end = intent.end() + laps * self.shape.ring_bytes;
        (start < below && self.presence.has_publisher(slot)).then_some((start, end))
    }

    /// Whether the subscribers allow a limit of `need`.
    pub fn check_subscribers(&self, tail: u64, need: u64, stalls: &mut StallTimes) -> Result<(), Slowest> {
        if self.shape.delivery == Delivery::Lossy {
            return Ok(());
        }
        let limit = self.limit().load(Ordering::Relaxed);
        self.subscribers_bound(tail, limit, need, stalls).map(drop)
    }

    /// Raises the limit to `need` at least, without any check.
    pub fn raise_limit_to(&self, need: u64) {
        self.limit().fetch_max(need, Ordering::Relaxed);
        fence(Ordering::Release); // [SYNC: LIMIT]
    }

    /// Writes the tail down as a position where late joiners may begin.
    fn write_anchor(&self, tail: u64) {
        let count = self.words.get(word::ANCHOR_COUNT);
        let at = count.load(Ordering::Relaxed);
        self.words.get(word::ANCHORS + at as usize % ANCHORS).store(tail, Ordering::Release);
        count.store(at + 1, Ordering::Relaxed);
    }

    /// Slots for publishers.
    pub fn publisher_slots(&self) -> usize {
        if cfg!(loom) { 2 } else { PUBLISHERS_MAX }
    }

    /// Slots for subscribers.
    pub fn subscriber_slots(&self) -> usize {
        if cfg!(loom) { 1 } else { SUBSCRIBERS_MAX }
    }
}
