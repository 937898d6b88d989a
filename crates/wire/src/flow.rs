//! Flow control: credit of a channel, and heartbeats of a connection.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that may still be pushed on a channel. Shared by the threads that push and the one that receives grants.
#[derive(Debug, Default)]
pub struct Credit(AtomicU64);

impl Credit {
    /// The initial credit.
    pub fn new(bytes: u64) -> Self {
        Self(AtomicU64::new(bytes))
    }

    /// Bytes left.
    pub fn left(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Adds credit granted by the other side; saturates.
    pub fn grant(&self, bytes: u64) {
        let add = |left: u64| Some(left.saturating_add(bytes));
        let _ = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, add);
    }

    /// Takes credit for a push; `false`, and nothing is taken, if there is not enough. A push may overdraw when more
    /// than half of `window` is left: a batch larger than the whole window must get through.
    pub fn spend(&self, bytes: u64, window: u64) -> bool {
        let take = |left: u64| {
            let is_enough = left >= bytes || left > window / 2;
            is_enough.then(|| left.saturating_sub(bytes))
        };
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, take).is_ok()
    }
}

/// The heartbeat of a connection: each side sends something at least once per interval, so that the other side sees
/// that it is alive. Times are milliseconds of a monotonic clock.
#[derive(Debug, Clone)]
pub struct Heartbeat {
    interval: u64,
    received: u64,
    sent: u64,
}

/// What a [`Heartbeat`] asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Nothing before this time.
    At(u64),
    /// Send something now: a ping, if there is nothing else.
    Now,
    /// Nothing was received for three intervals: the other side counts as dead.
    Dead,
}

impl Heartbeat {
    /// A heartbeat with an interval in milliseconds, starting at `now`.
    pub fn new(interval: u64, now: u64) -> Self {
        Self { interval: interval.max(1), received: now, sent: now }
    }

    /// Notes that something was received.
    pub fn note_received(&mut self, now: u64) {
        self.received = self.received.max(now);
    }

    /// Notes that something was sent.
    pub fn note_sent(&mut self, now: u64) {
        self.sent = self.sent.max(now);
    }

    /// What is due now.
    pub fn due(&self, now: u64) -> Due {
        let dead = self.received.saturating_add(3 * self.interval);
        let beat = self.sent.saturating_add(self.interval);
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
        assert!(
            credit.spend(1000, 100),
            "a push larger than the window gets through while enough credit is left"
        );
        assert_eq!(credit.left(), 0);
        credit.grant(u64::MAX);
        credit.grant(1);
        assert_eq!(credit.left(), u64::MAX);
    }

    #[test]
    fn a_silent_peer_is_dead_after_three_intervals() {
        let mut heartbeat = Heartbeat::new(100, 0);
        assert_eq!(heartbeat.due(50), Due::At(100));
        assert_eq!(heartbeat.due(100), Due::Now);
        heartbeat.note_sent(100);
        assert_eq!(heartbeat.due(150), Due::At(200));
        heartbeat.note_sent(250);
        assert_eq!(heartbeat.due(299), Due::At(300));
        assert_eq!(heartbeat.due(300), Due::Dead);
        heartbeat.note_received(250);
        assert_eq!(heartbeat.due(300), Due::At(350));
    }
}
