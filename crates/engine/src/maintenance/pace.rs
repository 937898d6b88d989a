//! The pace of maintenance: it stops when it must, and gives way to loaders and readers.
//!
//! Maintenance runs at full speed where a processor has nothing else to do. Where it had to wait for one lately, others want
//! it more: then it runs at a quarter of its speed while a loader writes, and a second thread does so always.

use crate::maintenance::context::MaintenanceContext;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// With more complete log files than this, maintenance no longer slows down for loaders.
const BACKLOG_MAX: usize = 16;
/// Maximum pause: the machine may have been suspended, or other work may have used the processor.
const PAUSE_MAX: Duration = Duration::from_millis(50);
/// Steps for which maintenance gives way after it has waited for a processor: a thread that has paused runs at once, and does
/// not wait.
const STEPS_AFTER_WAIT: u32 = 32;
/// Waiting for less than this part of the time is chance.
const WAIT_PART: u32 = 10;

/// The pace of one piece of work, in one thread.
#[derive(Debug)]
pub(crate) struct Pace<'a> {
    /// `None`: a caller waits for the work.
    stop: Option<&'a AtomicBool>,
    /// Whether this is the second thread.
    is_beside: bool,
    is_late: bool,
    since: Instant,
    /// End of the log at the last call.
    log_end: u64,
    /// Time that the thread has waited for a processor; `None` where the system does not count it.
    waited: Option<Duration>,
    /// Steps for which it gives way yet.
    giving_way: u32,
}

impl<'a> Pace<'a> {
    /// Rows between two calls of [`Pace::proceed`].
    pub const ROWS: u64 = 16_384;

    /// Work in the background, until `stop` is set.
    pub fn in_background(stop: &'a AtomicBool) -> Self {
        Self { stop: Some(stop), ..Self::immediate() }
    }

    /// Work that a caller waits for: without pauses.
    pub fn immediate() -> Self {
        Self {
            stop: None,
            is_beside: false,
            is_late: false,
            since: Instant::now(),
            log_end: 0,
            waited: None,
            giving_way: 0,
        }
    }

    /// The same for a second thread.
    pub fn beside(&self) -> Self {
        Self { is_beside: true, since: Instant::now(), waited: None, giving_way: 0, ..*self }
    }

    /// Sets the number of log files that wait.
    pub fn backlog(&mut self, files: usize) {
        self.is_late = files > BACKLOG_MAX;
    }

    /// Whether a second thread may work beside this one: there is another processor, and in the background no loader has written
    /// since the last call.
    pub fn has_second_processor(&mut self, context: MaintenanceContext<'_>) -> bool {
        let log_end = context.space.log.next_sequence();
        let is_quiet = self.stop.is_none() || log_end == self.log_end && self.giving_way == 0;
        self.log_end = log_end;
        is_quiet && thread::available_parallelism().is_ok_and(|count| count.get() > 1)
    }

    /// Pauses where others want the processor, for three times as long as the work since the last call took: what is loaded in
    /// bursts is sealed between them. `false`: stop.
    pub fn proceed(&mut self, context: MaintenanceContext<'_>) -> bool {
        let Some(stop) = self.stop else { return true };
        let log_end = context.space.log.next_sequence();
        let is_loading = log_end != self.log_end && !self.is_late;
        if self.gives_way() && (is_loading || self.is_beside) {
            thread::sleep((self.since.elapsed() * 3).min(PAUSE_MAX));
        }
        (self.log_end, self.since) = (log_end, Instant::now());
        !stop.load(Ordering::Relaxed) && !context.space.is_interrupted()
    }

    /// Whether this thread had to wait for a processor lately, or that is unknown.
    fn gives_way(&mut self) -> bool {
        let before = self.waited;
        self.waited = waited();
        let (Some(before), Some(now)) = (before, self.waited) else { return true };
        if now.saturating_sub(before) * WAIT_PART > self.since.elapsed() {
            self.giving_way = STEPS_AFTER_WAIT;
        }
        self.giving_way = self.giving_way.saturating_sub(1);
        self.giving_way > 0
    }
}

/// How long this thread has been ready to run, and waited for a processor.
fn waited() -> Option<Duration> {
    let counted = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    counted.split_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_has_waited_gives_way_for_some_steps() {
        let mut pace = Pace::immediate();
        assert!(pace.gives_way(), "it is unknown");
        if pace.waited.is_none() {
            return;
        }
        pace.waited = Some(Duration::ZERO);
        pace.since = Instant::now();
        // Another thread's time: this one has waited for longer than that, or not at all.
        pace.giving_way = 2;
        assert!(pace.gives_way());
    }
}
