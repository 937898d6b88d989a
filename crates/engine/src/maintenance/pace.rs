//! How fast upkeep works: not at all when it shall stop, at a quarter of its speed while somebody
//! loads.

use crate::maintenance::context::MaintenanceContext;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// More complete log files than this, and upkeep no longer makes way for who fills them.
const BACKLOG_MAX: usize = 16;
/// No pause is longer: the machine may have slept, or other work had the processor.
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// The pace of one piece of work.
#[derive(Debug)]
pub(crate) struct Pace<'a> {
    /// `None`: somebody waits for the work.
    stop: Option<&'a AtomicBool>,
    is_late: bool,
    since: Instant,
    /// Where the log ended when it was looked at last.
    log_end: u64,
}

impl<'a> Pace<'a> {
    /// [`Pace::go_on`] is asked once in so many rows.
    pub const ROWS: u64 = 16_384;

    /// Work in the background, until it shall stop.
    pub fn in_background(stop: &'a AtomicBool) -> Self {
        Self { stop: Some(stop), is_late: false, since: Instant::now(), log_end: 0 }
    }

    /// Work that somebody waits for.
    pub fn unhurried() -> Self {
        Self { stop: None, is_late: false, since: Instant::now(), log_end: 0 }
    }

    /// Says how many log files wait.
    pub fn backlog(&mut self, files: usize) {
        self.is_late = files > BACKLOG_MAX;
    }

    /// Makes way for a loader, for three times as long as the work since the last call took: what is loaded in bursts is
    /// sealed between them. `false`: stop.
    pub fn go_on(&mut self, context: MaintenanceContext<'_>) -> bool {
        let Some(stop) = self.stop else { return true };
        let log_end = context.space.log.next_sequence();
        if log_end != self.log_end && !self.is_late {
            std::thread::sleep((self.since.elapsed() * 3).min(PAUSE_MAX));
        }
        (self.log_end, self.since) = (log_end, Instant::now());
        !stop.load(Ordering::Relaxed) && !context.space.is_interrupted()
    }
}
