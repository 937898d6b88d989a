//! The pace of maintenance: it stops when it must, and runs at a quarter of its speed while a loader writes.

use crate::maintenance::context::MaintenanceContext;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// With more complete log files than this, maintenance no longer slows down for loaders.
const BACKLOG_MAX: usize = 16;
/// Maximum pause: the machine may have been suspended, or other work may have used the processor.
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// The pace of one piece of work.
#[derive(Debug)]
pub(crate) struct Pace<'a> {
    /// `None`: a caller waits for the work.
    stop: Option<&'a AtomicBool>,
    is_late: bool,
    since: Instant,
    /// End of the log at the last call.
    log_end: u64,
}

impl<'a> Pace<'a> {
    /// Rows between two calls of [`Pace::proceed`].
    pub const ROWS: u64 = 16_384;

    /// Work in the background, until `stop` is set.
    pub fn in_background(stop: &'a AtomicBool) -> Self {
        Self { stop: Some(stop), is_late: false, since: Instant::now(), log_end: 0 }
    }

    /// Work that a caller waits for: without pauses.
    pub fn immediate() -> Self {
        Self { stop: None, is_late: false, since: Instant::now(), log_end: 0 }
    }

    /// Sets the number of log files that wait.
    pub fn backlog(&mut self, files: usize) {
        self.is_late = files > BACKLOG_MAX;
    }

    /// Pauses while a loader writes, for three times as long as the work since the last call took: what is loaded in bursts is
    /// sealed between them. `false`: stop.
    pub fn proceed(&mut self, context: MaintenanceContext<'_>) -> bool {
        let Some(stop) = self.stop else { return true };
        let log_end = context.space.log.next_sequence();
        if log_end != self.log_end && !self.is_late {
            std::thread::sleep((self.since.elapsed() * 3).min(PAUSE_MAX));
        }
        (self.log_end, self.since) = (log_end, Instant::now());
        !stop.load(Ordering::Relaxed) && !context.space.is_interrupted()
    }
}
