//! How much may be under way: credits of a channel, and the pulse of a connection.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that may still be pushed on a channel. Shared by whoever pushes and whoever hears of grants.
#[derive(Debug, Default)]
pub struct Credit(AtomicU64);

impl Credit {
    /// Credit to begin with.
    pub fn new(bytes: u64) -> Self {
        Self(AtomicU64::new(bytes))
    }

    /// Bytes left.
    pub fn left(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Adds what the other side grants; more than can be counted counts as the most.
    pub fn grant(&self, bytes: u64) {
        let add = |left: u64| Some(left.saturating_add(bytes));
        let _ = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, add);
    }

    /// Takes credit for a push; `false`, and nothing is taken, if there is not enough. Whoever has no other push under way may
    /// overdraw: a batch larger than all the credit there ever is must get through, so half of `window` is enough for any.
    pub fn spend(&self, bytes: u64, window: u64) -> bool {
        let take = |left: u64| {
            let is_enough = left >= bytes || left > window / 2;
            is_enough.then(|| left.saturating_sub(bytes))
        };
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, take).is_ok()
    }
}

/// The pulse of a connection: each side says something at least every so often, so that the other knows it is there. Times
/// are milliseconds of any clock that does not go back.
#[derive(Debug, Clone)]
pub struct Pulse {
    interval: u64,
    heard: u64,
    said: u64,
}

/// What a [`Pulse`] asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Nothing before that time.
    At(u64),
    /// To say something now: a ping, if there is nothing else.
    Now,
    /// The other side has been silent for three intervals: it is taken for dead.
    Dead,
}

impl Pulse {
    /// A pulse that beats every `interval` milliseconds, from `now` on.
    pub fn new(interval: u64, now: u64) -> Self {
        Self { interval: interval.max(1), heard: now, said: now }
    }

    /// Something arrived.
    pub fn heard(&mut self, now: u64) {
        self.heard = self.heard.max(now);
    }

    /// Something was sent.
    pub fn said(&mut self, now: u64) {
        self.said = self.said.max(now);
    }

    /// What to do now.
    pub fn due(&self, now: u64) -> Due {
        let dead = self.heard.saturating_add(3 * self.interval);
        let beat = self.said.saturating_add(self.interval);
        if now >= dead {
            Due::Dead
        } else if now >= beat {
            Due::Now
        } else {
            Due::At(beat.min(dead))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credit_is_spent_and_granted() {
        let credit = Credit::new(100);
        assert!(credit.spend(60, 100) && !credit.spend(60, 100));
        assert_eq!(credit.left(), 40);
        credit.grant(60);
        assert!(credit.spend(1000, 100), "a push larger than the window gets through when there is room");
        assert_eq!(credit.left(), 0);
        credit.grant(u64::MAX);
        credit.grant(1);
        assert_eq!(credit.left(), u64::MAX);
    }

    #[test]
    fn a_silent_side_is_dead_after_three_intervals() {
        let mut pulse = Pulse::new(100, 0);
        assert_eq!(pulse.due(50), Due::At(100));
        assert_eq!(pulse.due(100), Due::Now);
        pulse.said(100);
        assert_eq!(pulse.due(150), Due::At(200));
        pulse.said(250);
        assert_eq!(pulse.due(299), Due::At(300));
        assert_eq!(pulse.due(300), Due::Dead);
        pulse.heard(250);
        assert_eq!(pulse.due(300), Due::At(350));
    }
}
