//! Waiting for other processes: asleep on a word of shared memory, or checking again until it has taken too long.

use crate::atomics::{AtomicU64, pause};
use std::time::{Duration, Instant};

/// Sleeps until another thread or process wakes the sleepers on `word`, unless its low half is not `seen` any more; at most
/// `timeout`.
#[cfg(not(loom))]
#[inline]
pub fn sleep_on(word: &AtomicU64, seen: u32, timeout: Duration) {
    crate::system::sleep_on(word, seen, timeout);
}

/// loom has no clock: a lost wake-up shows as a model that does not end.
#[cfg(loom)]
pub fn sleep_on(word: &AtomicU64, seen: u32, _: Duration) {
    while word.load(crate::atomics::Ordering::SeqCst) as u32 == seen {
        pause();
    }
}

/// Wakes all sleepers on `word`, in every process.
#[cfg(not(loom))]
#[inline]
pub fn wake_all(word: &AtomicU64) {
    crate::system::wake_all(word);
}

/// Under loom sleepers check the word again and again.
#[cfg(loom)]
pub fn wake_all(_: &AtomicU64) {}

/// Waits in small steps until a timeout is over: first on the processor, then with other threads running, then asleep.
#[derive(Debug)]
pub struct Backoff {
    timeout: Duration,
    since: Option<Instant>,
    checks: u32,
}

/// Checks before the processor is given to other threads, and before the thread sleeps.
const SPINS: u32 = 100;
const YIELDS: u32 = 1000;
/// Sleep between checks.
const SLEEP: Duration = Duration::from_micros(50);

impl Backoff {
    /// Begins to count with the first call of [`Backoff::is_over`].
    pub fn new(timeout: Duration) -> Self {
        Self { timeout, since: None, checks: 0 }
    }

    /// Waits a little. `true`, without waiting, once the timeout is over.
    #[cold]
    pub fn is_over(&mut self) -> bool {
        if self.timeout.is_zero() || self.since.get_or_insert_with(Instant::now).elapsed() >= self.timeout {
            return true;
        }
        self.checks += 1;
        if self.checks < SPINS {
            pause();
        } else if self.checks < YIELDS {
            std::thread::yield_now();
        } else {
            std::thread::sleep(SLEEP);
        }
        false
    }
}

/// Waits for another process to change a word, and says when to stop: that process is dead, or takes too long.
#[derive(Debug)]
pub struct StallTimer {
    stall: Duration,
    word: u64,
    checks: u32,
    since: Option<Instant>,
    next_check: Duration,
}

/// Checks before the clock is read.
const CHECKS_WITHOUT_CLOCK: u32 = 200;
/// How often a waiting process checks whether the other one is alive.
pub const ALIVE_INTERVAL: Duration = Duration::from_millis(2);

impl StallTimer {
    /// `stall_ms` 0: a process that lives is waited for without limit.
    pub fn new(stall_ms: u64) -> Self {
        let stall = if stall_ms == 0 { Duration::MAX } else { Duration::from_millis(stall_ms) };
        Self { stall, word: 0, checks: 0, since: None, next_check: ALIVE_INTERVAL }
    }

    /// Waits a little. Whether the process that wrote `word` need not be waited for any longer.
    pub fn is_over(&mut self, word: u64, is_alive: impl Fn() -> bool) -> bool {
        if self.word != word {
            *self = Self { word, checks: 0, since: None, next_check: ALIVE_INTERVAL, ..*self };
        }
        pause();
        if cfg!(loom) {
            return !is_alive();
        }
        self.checks += 1;
        if self.checks < CHECKS_WITHOUT_CLOCK {
            return false;
        }
        let waited = self.since.get_or_insert_with(Instant::now).elapsed();
        if waited >= self.next_check {
            self.next_check = waited + ALIVE_INTERVAL;
            if waited >= self.stall || !is_alive() {
                return true;
            }
        }
        // With more publishers than processors, the other one may wait for this processor.
        std::thread::yield_now();
        false
    }
}
