//! Raising the limit: how far publishers may write, and who is in their way.

use crate::atomics::{Ordering, fence};
use crate::format::{
    ANCHORS, Delivery, Intent, LINE, PROTECTED, PUBLISHERS_MAX, SLACK, SUBSCRIBERS_MAX, word,
};
use crate::ring::Ring;
use std::time::{Duration, Instant};
use word::subscriber as sub;

/// Who keeps publishers waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Slowest {
    /// Process of the subscriber, or of the publisher whose unfinished claim is in the way.
    pub process: u32,
    /// Whether it is a subscriber.
    pub is_subscriber: bool,
    /// Its place among the topic's.
    pub slot: usize,
    /// Bytes of the ring between it and the tail.
    pub behind_bytes: u64,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Raised {
    /// There is room.
    Room,
    /// There is none.
    BackPressured(Slowest),
    /// A region that a publisher may yet write is in the way: pass it by, up to this position.
    PassBy(u64),
}

/// Subscribers that are in the way, as they were when they were first seen there.
#[derive(Debug, Clone)]
pub(crate) struct Watch {
    /// Large, and rarely looked at.
    seen: Box<[Option<(u64, u64, Instant)>; SUBSCRIBERS_MAX]>,
}

impl Default for Watch {
    fn default() -> Self {
        Self { seen: Box::new([None; SUBSCRIBERS_MAX]) }
    }
}

impl Watch {
    /// Whether a subscriber has stood still for so long.
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
    /// Raises the limit so that there is room below `need`, or says why not. Only whoever owns the tail, which is at `tail`,
    /// may call this: `me` among those who share it, or nobody's slot if alone.
    pub fn raise_limit(&self, me: Option<usize>, tail: u64, need: u64, watch: &mut Watch) -> Raised {
        let limit = self.limit().load(Ordering::Relaxed);
        if need <= limit {
            return Raised::Room;
        }
        let mut target = need + self.shape.step();
        if self.shape.delivery == Delivery::Reliable {
            match self.subscribers_bound(tail, limit, need, watch) {
                Ok(bound) => target = target.min(bound),
                Err(slowest) => return Raised::BackPressured(slowest),
            }
        }
        if let Some(me) = me {
            match self.publishers_bound(me, tail, need, target) {
                Ok(bound) => target = target.min(bound),
                Err(end) => return Raised::PassBy(end),
            }
        }
        self.note_anchor(tail);
        // Fails if this publisher stood still meanwhile and another owns the tail, which the next exchange on it shows.
        let _ = self.limit().compare_exchange(limit, target, Ordering::Relaxed, Ordering::Relaxed);
        fence(Ordering::Release); // [SYNC: LIMIT]
        Raised::Room
    }

    /// Where the slowest subscriber that has to be waited for is one ring behind, or that it is in the way.
    fn subscribers_bound(&self, tail: u64, limit: u64, need: u64, watch: &mut Watch) -> Result<u64, Slowest> {
        let (mut bound, mut slowest) = (u64::MAX, None::<Slowest>);
        for slot in 0..self.subscriber_slots() {
            let word = |field| self.subscriber(slot, field).load(Ordering::Acquire);
            let process = word(sub::PROCESS);
            if process == 0 || word(sub::FLAGS) & PROTECTED == 0 {
                continue;
            }
            // Acquire: what it has read is read before it is written over.
            let position = word(sub::POSITION);
            let end = position.saturating_add(self.shape.ring_bytes);
            if end >= need {
                bound = bound.min(end);
            } else if end >= limit && word(sub::PASSED) != position + 1 {
                let behind_bytes = tail.saturating_sub(position);
                let found = Slowest { process: process as u32, is_subscriber: true, slot, behind_bytes };
                if !self.gives_way(slot, position, process, watch)
                    && slowest.is_none_or(|slowest| slowest.behind_bytes < behind_bytes)
                {
                    slowest = Some(found);
                }
            }
        }
        slowest.map_or(Ok(bound), Err)
    }

    /// Whether a subscriber that is in the way need not be waited for: it is dead, or has stood still for too long.
    fn gives_way(&self, slot: usize, position: u64, process: u64, watch: &mut Watch) -> bool {
        if !self.presence.has_subscriber(slot) {
            let process_word = self.subscriber(slot, sub::PROCESS);
            // Unless somebody has got the slot meanwhile.
            let _ = process_word.compare_exchange(process, 0, Ordering::AcqRel, Ordering::Relaxed);
            return true;
        }
        let beat = self.subscriber(slot, sub::BEAT).load(Ordering::Relaxed);
        let stall = Duration::from_millis(self.shape.stall_ms);
        if self.shape.stall_ms == 0 || !watch.has_stalled(slot, position, beat, stall) {
            return false;
        }
        self.subscriber(slot, sub::PASSED).store(position + 1, Ordering::Release);
        self.count(word::PASSED_OVER);
        true
    }

    /// How far one may go before a region is reached that another living publisher may yet write; if that is not far
    /// enough, the first position behind it from which on there is room.
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

    /// Where the region that a living publisher may yet write comes around next, if it begins below `below`.
    fn region(&self, slot: usize, me: usize, tail: u64, below: u64) -> Option<(u64, u64)> {
        let intent = Intent::parse(self.intent(slot).load(Ordering::Acquire), tail)?;
        // An intent at the tail itself is of this lap: its publisher was not the one who got the claim.
        if slot == me || intent.start >= tail {
            return None;
        }
        let laps = tail.saturating_sub(intent.end()) / self.shape.ring_bytes + 1;
        let start = intent.start + laps * self.shape.ring_bytes;
        let end = intent.end() + laps * self.shape.ring_bytes;
        (start < below && self.presence.has_publisher(slot)).then_some((start, end))
    }

    /// Whether the limit may be raised to `need` as far as subscribers go.
    pub fn check_subscribers(&self, tail: u64, need: u64, watch: &mut Watch) -> Result<(), Slowest> {
        if self.shape.delivery == Delivery::Lossy {
            return Ok(());
        }
        let limit = self.limit().load(Ordering::Relaxed);
        self.subscribers_bound(tail, limit, need, watch).map(drop)
    }

    /// Raises the limit to `need` at least, whoever may be in the way.
    pub fn raise_limit_to(&self, need: u64) {
        self.limit().fetch_max(need, Ordering::Relaxed);
        fence(Ordering::Release); // [SYNC: LIMIT]
    }

    /// Notes the tail as a place where late joiners may begin.
    fn note_anchor(&self, tail: u64) {
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
