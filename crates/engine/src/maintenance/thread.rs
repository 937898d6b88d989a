//! The maintenance thread of a database that is open for writing: it purges old messages, seals log files that are complete or
//! old enough, merges segments, and compresses old ones again. A second thread, where a stream has an object tier, moves segments
//! there: a store that does not answer delays nothing else.

use crate::error::Error;
use crate::maintenance::context::MaintenanceContext;
use crate::maintenance::offload::{Work, offload};
use crate::maintenance::pace::Pace;
use crate::maintenance::retention::{retire, roll_if_due};
use crate::maintenance::seal::{chill_next, merge_next, seal_next};
use crate::notifier::Notifier;
use crate::stream::reader::StreamReader;
use crate::stream::writer::StreamWriter;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Interval between two rounds, unless a log file becomes complete.
const INTERVAL: Duration = Duration::from_millis(200);
/// Pause after a failure, so that a full disk is not tried all the time.
const AFTER_FAILURE: Duration = Duration::from_secs(5);

/// Interval between two looks for segments that are old enough for an object store.
const OFFLOAD_INTERVAL: Duration = Duration::from_secs(1);
/// The same after a failure of a store.
const OFFLOAD_AFTER_FAILURE: Duration = Duration::from_secs(15);

/// Maintenance of a database. Every user of the database holds it; when the last one drops it the thread ends, if necessary in
/// the middle of its work.
#[derive(Debug, Default)]
pub(crate) struct Maintenance {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// The thread for object stores, once a stream has one.
    offloading: Mutex<Option<JoinHandle<()>>>,
    /// Notified when it is to stop.
    wake_offloading: Notifier,
    streams: Mutex<Vec<(Weak<StreamReader>, Weak<StreamWriter>)>>,
    /// Notified when a log file becomes complete, and when the thread is to stop.
    wake: Arc<Notifier>,
    stop: AtomicBool,
}

impl Maintenance {
    /// Adds a stream.
    pub fn add(&self, stream: &Arc<StreamReader>, writer: &Arc<StreamWriter>) {
        let mut streams = self.shared.streams.lock().unwrap_or_else(PoisonError::into_inner);
        // Without handles that have an older schema: they would write segments with that schema.
        streams.retain(|(other, _)| other.upgrade().is_some_and(|other| !other.is_outdated()));
        streams.push((Arc::downgrade(stream), Arc::downgrade(writer)));
        writer.notify_of_files(&self.shared.wake);
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let shared = self.shared.clone();
            let spawned = thread::Builder::new().name("tapedb-maintain".into()).spawn(move || shared.run());
            // Without a thread nothing is sealed; everything can still be written and read.
            *thread = spawned.ok();
        }
    }
}

impl Drop for Maintenance {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.wake.notify();
        self.shared.wake_offloading.notify();
        for thread in [&self.thread, &self.shared.offloading] {
            // The second is spawned by the first.
            let thread = thread.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(thread) = thread {
                let _ = thread.join();
            }
        }
    }
}

/// Notes where maintenance has ended by a panic: nothing is sealed from then on, which is seen otherwise when the disk is full.
struct NotingPanic<'a>(&'a Shared);

impl Drop for NotingPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            let streams = self.0.streams.lock().unwrap_or_else(PoisonError::into_inner).clone();
            for writer in streams.iter().filter_map(|(_, writer)| writer.upgrade()) {
                writer.spaces.iter().for_each(|space| space.note_panic());
            }
        }
    }
}

impl Shared {
    fn run(self: &Arc<Self>) {
        let _noting = NotingPanic(self);
        while !self.is_stopped() {
            self.start_offloading();
            let seen = self.wake.count();
            if self.run_round() {
                self.wake.wait(seen, INTERVAL);
            } else {
                self.pause(AFTER_FAILURE);
            }
        }
    }

    /// Starts the thread for object stores if a stream has one.
    fn start_offloading(self: &Arc<Self>) {
        let mut thread = self.offloading.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() && !self.is_stopped() {
            let streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
            let has_tier = |stream: &Arc<StreamReader>| stream.settings.get().offload.is_some();
            if streams.iter().filter_map(|(stream, _)| stream.upgrade()).any(|stream| has_tier(&stream)) {
                let shared = self.clone();
                let run = move || shared.run_offloading();
                *thread = thread::Builder::new().name("tapedb-offload".into()).spawn(run).ok();
            }
        }
    }

    fn run_offloading(&self) {
        let mut wait = OFFLOAD_INTERVAL;
        loop {
            let seen = self.wake_offloading.count();
            if !self.is_stopped() {
                self.wake_offloading.wait(seen, wait);
            }
            if self.is_stopped() {
                return;
            }
            let streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner).clone();
            wait = OFFLOAD_INTERVAL;
            for (stream, writer) in &streams {
                let (Some(stream), Some(writer)) = (stream.upgrade(), writer.upgrade()) else { continue };
                if stream.is_outdated() || stream.is_deleted() {
                    continue;
                }
                let proceed = || !self.is_stopped() && !stream.is_deleted();
                let worked =
                    offload(&stream, &writer, &Work { older_than: None, grace: None, proceed: &proceed });
                let failure = worked.as_ref().err().filter(|_| !stream.is_deleted());
                if let Some(error) = failure {
                    tracing::warn!(
                        "{}: its old segments stay here for now: {error}",
                        stream.directory.display()
                    );
                    wait = OFFLOAD_AFTER_FAILURE;
                }
                writer.spaces.iter().for_each(|space| space.note_offloading(failure));
            }
        }
    }

    /// Waits, also while files become complete.
    fn pause(&self, time: Duration) {
        let until = Instant::now() + time;
        loop {
            let seen = self.wake.count();
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.is_stopped() {
                return;
            }
            self.wake.wait(seen, left);
        }
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Does all work that is due; whether it succeeded.
    fn run_round(&self) -> bool {
        let streams = {
            let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
            streams.retain(|(stream, _)| stream.strong_count() > 0);
            streams.clone()
        };
        let mut is_ok_so_far = true;
        for (stream, writer) in &streams {
            // One at a time, so that a stream without other users is released soon.
            let (Some(stream), Some(writer)) = (stream.upgrade(), writer.upgrade()) else { continue };
            for space in &writer.spaces {
                is_ok_so_far &=
                    self.run_space(MaintenanceContext { stream: &stream, writer: &writer, space });
            }
        }
        is_ok_so_far
    }

    /// Does all work that is due in one space; whether it succeeded.
    fn run_space(&self, context: MaintenanceContext<'_>) -> bool {
        let mut pace = Pace::in_background(&self.stop);
        loop {
            if self.is_stopped() || context.stream.is_deleted() {
                return true;
            }
            let worked = work(context, &mut pace);
            context.space.note_maintenance(worked.as_ref().err());
            match worked {
                Ok(true) => {}
                worked => return worked.is_ok(),
            }
        }
    }
}

/// Does one piece of work in a space; `false`: there is none.
fn work(context: MaintenanceContext<'_>, pace: &mut Pace<'_>) -> Result<bool, Error> {
    context.writer.check_lock()?;
    if context.space.number == 0 {
        retire(context.stream, context.writer)?;
    }
    let _maintenance = context.space.hold_maintenance();
    // Checked while maintenance is held: a change of the schema, a deletion and a rename of the stream stop it first.
    if context.stream.is_outdated() || context.stream.is_deleted() {
        return Ok(false);
    }
    roll_if_due(context)?;
    Ok(seal_next(context, pace)?.is_some() || merge_next(context, pace)? || chill_next(context, pace)?)
}
