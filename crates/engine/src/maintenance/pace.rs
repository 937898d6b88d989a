//! The pace of maintenance: it stops when it must, and gives way to loaders and readers.
//!
//! Maintenance runs at full speed where a processor has nothing else to do. Where it had to wait for one lately, others want
//! it more: then it runs at a quarter of its speed while a loader writes. A second thread starts only where a processor was idle
//! and the first one did not have to wait; then both have the same pace.

use crate::interrupt;
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
/// Percent of the time that a processor must have been idle, for a second thread.
const IDLE_PERCENT: u32 = 75;
/// Milliseconds that `/proc/stat` counts with, whatever the system's clock is.
const TICK_MS: u64 = 10;

/// The pace of one piece of work, in one thread.
#[derive(Debug)]
pub(crate) struct Pace<'a> {
    /// `None`: a caller waits for the work.
    stop: Option<&'a AtomicBool>,
    /// Set when the thread that this one works beside has ended.
    ended: Option<&'a AtomicBool>,
    /// Whether the work ends when maintenance of the space is to stop.
    is_stoppable: bool,
    is_late: bool,
    since: Instant,
    /// End of the log at the last call.
    log_end: u64,
    /// Time that the thread has waited for a processor; `None` where the system does not count it.
    waited: Option<Duration>,
    /// Steps for which it gives way yet.
    giving_way: u32,
    /// When a second thread was last considered, and how long processors had been idle at that time.
    considered: Option<(Instant, Duration)>,
    /// How long second threads have run since then.
    beside_ran: Duration,
}

impl<'a> Pace<'a> {
    /// Rows between two calls of [`Pace::proceed`].
    pub const ROWS: u64 = 16_384;

    /// Work in the background, until `stop` is set.
    pub fn in_background(stop: &'a AtomicBool) -> Self {
        Self { stop: Some(stop), is_stoppable: true, ..Self::immediate() }
    }

    /// Work beside another thread, which leads: without pauses, until maintenance of the space is to stop.
    pub fn helping() -> Self {
        Self { is_stoppable: true, ..Self::immediate() }
    }

    /// Whether no caller waits for the work.
    pub fn is_in_background(&self) -> bool {
        self.stop.is_some()
    }

    /// Work that a caller waits for: without pauses.
    pub fn immediate() -> Self {
        Self {
            stop: None,
            ended: None,
            is_stoppable: false,
            is_late: false,
            since: Instant::now(),
            log_end: 0,
            waited: None,
            giving_way: 0,
            considered: None,
            beside_ran: Duration::ZERO,
        }
    }

    /// The same for a second thread, until `ended` is set.
    pub fn beside<'b>(&self, ended: &'b AtomicBool) -> Pace<'b>
    where
        'a: 'b,
    {
        Pace { ended: Some(ended), since: Instant::now(), waited: None, giving_way: 0, ..*self }
    }

    /// Notes that a second thread has ended, with its pace after [`Pace::end`]: it may have had to wait where this one did not.
    pub fn note_beside(&mut self, beside: &Pace<'_>) {
        self.giving_way = self.giving_way.max(beside.giving_way);
        self.beside_ran += beside.beside_ran;
    }

    /// Measures how long the calling thread, a second one, has run.
    pub fn end(&mut self) {
        self.beside_ran = counted(0).unwrap_or_default();
    }

    /// Sets the number of log files that wait.
    pub fn backlog(&mut self, files: usize) {
        self.is_late = files > BACKLOG_MAX;
    }

    /// Whether a second thread may work beside this one: there is another processor, and in the background it has been idle
    /// since the last call, and this thread has not had to wait for one. Where the system does not count that, no loader has
    /// written since the last call.
    pub fn has_second_processor(&mut self, context: MaintenanceContext<'_>) -> bool {
        let log_end = context.space.log.next_sequence();
        let is_quiet = log_end == std::mem::replace(&mut self.log_end, log_end);
        let is_free =
            self.stop.is_none() || self.giving_way == 0 && self.had_idle_processor().unwrap_or(is_quiet);
        is_free && has_two_processors()
    }

    /// Whether a processor has been idle since the last call, or would have been without a second thread; `None` where that is
    /// unknown.
    fn had_idle_processor(&mut self) -> Option<bool> {
        let now = (Instant::now(), idle()?);
        let before = self.considered.replace(now)?;
        let unused = now.1.saturating_sub(before.1) + std::mem::take(&mut self.beside_ran);
        Some(unused * 100 >= now.0.duration_since(before.0) * IDLE_PERCENT)
    }

    /// Pauses where others want the processor, for three times as long as the work since the last call took: what is loaded in
    /// bursts is sealed between them. `false`: stop.
    pub fn proceed(&mut self, context: MaintenanceContext<'_>) -> bool {
        let space = context.space;
        if self.is_in_background() {
            let log_end = space.log.next_sequence();
            let is_loading = log_end != self.log_end && !self.is_late && !space.seal_queue.is_waited_for();
            if self.gives_way() && is_loading {
                thread::sleep((self.since.elapsed() * 3).min(PAUSE_MAX));
            }
            (self.log_end, self.since) = (log_end, Instant::now());
        }
        let is_set = |flag: Option<&AtomicBool>| flag.is_some_and(|flag| flag.load(Ordering::Relaxed));
        let is_stopped = is_set(self.stop) || is_set(self.ended) || interrupt::is_interrupted();
        !(is_stopped || self.is_stoppable && space.is_interrupted())
    }

    /// Whether this thread had to wait for a processor lately, or the system does not count that.
    fn gives_way(&mut self) -> bool {
        let before = self.waited;
        self.waited = waited();
        let Some(now) = self.waited else { return true };
        if before.is_some_and(|before| now.saturating_sub(before) * WAIT_PART > self.since.elapsed()) {
            self.giving_way = STEPS_AFTER_WAIT;
        }
        self.giving_way = self.giving_way.saturating_sub(1);
        self.giving_way > 0
    }
}

/// Whether processors are idle, from one call to the next.
#[derive(Debug, Default)]
pub(crate) struct IdleProcessors(Option<(Instant, Duration)>);

impl IdleProcessors {
    /// Whether a processor has been idle since the last call; `false` where that is unknown.
    pub fn were_idle(&mut self) -> bool {
        let now = idle().map(|idle| (Instant::now(), idle));
        let before = std::mem::replace(&mut self.0, now);
        let Some((now, before)) = now.zip(before) else { return false };
        now.1.saturating_sub(before.1) * 100 >= now.0.duration_since(before.0) * IDLE_PERCENT
    }
}

/// Whether a thread can work beside another one.
pub(crate) fn has_two_processors() -> bool {
    thread::available_parallelism().is_ok_and(|count| count.get() > 1)
}

/// How long this thread has been ready to run, and waited for a processor.
fn waited() -> Option<Duration> {
    counted(1)
}

/// A number of those that Linux counts of this thread: 0 how long it has run, 1 how long it has waited to run.
fn counted(index: usize) -> Option<Duration> {
    let counted = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    counted.split_whitespace().nth(index)?.parse().ok().map(Duration::from_nanos)
}

/// How long all processors together have had nothing to do but to wait for disks.
fn idle() -> Option<Duration> {
    idle_of(&std::fs::read_to_string("/proc/stat").ok()?)
}

/// The same of the text of `/proc/stat`: `cpu`, then ticks of `user nice system idle iowait …`.
fn idle_of(stat: &str) -> Option<Duration> {
    let mut ticks = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().skip(3);
    let (idle, waiting): (u64, u64) = (ticks.next()?.parse().ok()?, ticks.next()?.parse().ok()?);
    Some(Duration::from_millis(idle.checked_add(waiting)?.checked_mul(TICK_MS)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_has_waited_gives_way_for_some_steps() {
        let mut pace = Pace::immediate();
        let is_unknown = pace.gives_way();
        if pace.waited.is_none() {
            assert!(is_unknown);
            return;
        }
        assert!(!is_unknown, "nothing is known of the first step");
        // The thread has waited longer than one nanosecond since it started, or not at all.
        (pace.waited, pace.giving_way) = (Some(Duration::ZERO), 2);
        pace.since = Instant::now();
        assert!(pace.gives_way());
    }

    #[test]
    fn a_second_thread_has_the_pace_of_the_first() {
        let mut pace = Pace::immediate();
        let ended = AtomicBool::new(false);
        let mut beside = pace.beside(&ended);
        beside.giving_way = 7;
        beside.beside_ran = Duration::from_secs(1);
        pace.note_beside(&beside);
        assert_eq!((pace.giving_way, pace.beside_ran), (7, Duration::from_secs(1)));
    }

    #[test]
    fn a_processor_is_idle_that_nothing_uses_but_a_second_thread() {
        let stat = |idle: u64| format!("cpu  138227 0 22120 {idle} 496 0 627 114 0 0\ncpu0 1 2 3 4");
        assert_eq!(idle_of(&stat(35_676)), Some(Duration::from_millis(361_720)));
        assert_eq!(idle_of(&stat(1 << 50)), Some(Duration::from_millis(((1 << 50) + 496) * 10)));
        for other in ["", "cpu", "cpu 1 2 3", "cpu0 1 2 3 4 5", "intr 1 2 3 4 5", "cpu 1 2 3 x 5"] {
            assert_eq!(idle_of(other), None, "{other}");
        }
        if idle().is_none() {
            return;
        }
        let mut pace = Pace::immediate();
        assert_eq!(pace.had_idle_processor(), None, "nothing is known before the first call");
        pace.beside_ran = Duration::from_secs(3_600);
        assert_eq!(pace.had_idle_processor(), Some(true));
        // Longer ago than processors have been idle since.
        pace.considered = idle().map(|idle| (Instant::now(), idle));
        pace.considered =
            pace.considered.and_then(|(now, idle)| Some((now.checked_sub(Duration::from_secs(60))?, idle)));
        if pace.considered.is_some() {
            assert_eq!(pace.had_idle_processor(), Some(false));
        }
    }
}
