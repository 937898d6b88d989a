//! The backup that administrators bring up to date, into the one directory that the server's settings name.

use serde_json::{Value, json};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tapedb_engine::{BackupReport, Database, DeletedStreams};

/// The state of the backup.
#[derive(Debug, Default)]
pub(crate) struct Backups {
    is_running: AtomicBool,
    is_cancelled: AtomicBool,
    copied: AtomicU64,
    last: Mutex<Last>,
}

/// The last backup, or the one that runs.
#[derive(Debug, Default, Clone)]
struct Last {
    /// Nanoseconds since 1970.
    began: Option<u64>,
    seconds: Option<f64>,
    outcome: Option<Result<Outcome, String>>,
}

#[derive(Debug, Clone)]
struct Outcome {
    streams: u64,
    segments: u64,
    damaged: u64,
    removed: Vec<String>,
    failed: Vec<String>,
}

impl From<BackupReport> for Outcome {
    fn from(done: BackupReport) -> Self {
        let BackupReport { streams, segments, damaged, removed, failed, .. } = done;
        let failed = failed.into_iter().map(|(name, error)| format!("{name}: {error}")).collect();
        Self { streams, segments, damaged, removed, failed }
    }
}

impl Backups {
    /// Starts to bring the backup up to date, on a thread; `false`: that goes on already. Calls `ended` with what went wrong.
    ///
    /// # Errors
    /// A system without threads.
    pub fn start(
        self: &Arc<Self>,
        db: &Database,
        directory: &Path,
        ended: impl FnOnce(Result<(), &str>) + Send + 'static,
    ) -> std::io::Result<bool> {
        if self.is_running.swap(true, Ordering::AcqRel) {
            return Ok(false);
        }
        self.is_cancelled.store(false, Ordering::Release);
        self.copied.store(0, Ordering::Release);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
        self.set(Last { began: Some(now), ..Last::default() });
        let (shared, db, directory, began) =
            (self.clone(), db.clone(), directory.to_path_buf(), Instant::now());
        let work = move || {
            let on_copied = |bytes| {
                shared.copied.fetch_add(bytes, Ordering::Relaxed);
                if shared.is_cancelled.load(Ordering::Acquire) {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            };
            let done = db.backup(&directory, DeletedStreams::Delete, on_copied);
            let outcome = match done {
                _ if shared.is_cancelled.load(Ordering::Acquire) => {
                    Err("cancelled: what was copied stays, and the next backup continues".into())
                }
                Ok(report) => Ok(report.into()),
                Err(error) => Err(error.to_string()),
            };
            ended(outcome.as_ref().map(|_: &Outcome| ()).map_err(String::as_str));
            let seconds = Some(began.elapsed().as_secs_f64());
            shared.set(Last { began: Some(now), seconds, outcome: Some(outcome) });
            shared.is_running.store(false, Ordering::Release);
        };
        let started = thread::Builder::new().name("tape-backup".into()).spawn(work);
        if started.is_err() {
            self.is_running.store(false, Ordering::Release);
        }
        started.map(|_| true)
    }

    fn set(&self, last: Last) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = last;
    }

    /// Asks the backup that runs to stop; whether one runs.
    pub fn cancel(&self) -> bool {
        self.is_cancelled.store(true, Ordering::Release);
        self.is_running.load(Ordering::Acquire)
    }

    /// Stops, and waits for the end until a moment.
    pub fn stop(&self, until: Instant) {
        while self.cancel() && Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// The state, in JSON.
    pub fn row(&self, directory: Option<&Path>) -> Value {
        let Last { began, seconds, outcome } =
            self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let is_running = self.is_running.load(Ordering::Acquire);
        let state = match (&outcome, directory) {
            (_, None) => "off",
            _ if is_running => "running",
            (None, _) => "idle",
            (Some(Ok(outcome)), _) if outcome.failed.is_empty() && outcome.damaged == 0 => "done",
            _ => "failed",
        };
        let (done, failure) = match outcome {
            Some(Ok(outcome)) => (Some(outcome), None),
            Some(Err(failure)) => (None, Some(failure)),
            None => (None, None),
        };
        json!({
            "state": state,
            "directory": directory.map(|directory| directory.display().to_string()),
            "began": began.map(|nanos| nanos.to_string()),
            "seconds": seconds,
            "bytes": self.copied.load(Ordering::Relaxed),
            "streams": done.as_ref().map(|done| done.streams),
            "segments": done.as_ref().map(|done| done.segments),
            "damaged": done.as_ref().map(|done| done.damaged),
            "removed": done.as_ref().map(|done| done.removed.clone()),
            "failed": done.as_ref().map(|done| done.failed.clone()),
            "failure": failure,
        })
    }
}
