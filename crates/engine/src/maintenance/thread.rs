//! Maintenance of a database that is open for writing: old messages are purged, log files that are complete or old enough become
//! segments, segments are merged, and old ones compressed again.
//!
//! A thread finds where work is due, when a log file becomes complete and a few times a second: by what has changed, not by looking at all
//! parts. Threads that do the work take it from a [queue](super::queue), so that one space waits neither for the others nor for a merge
//! of gigabytes elsewhere. There is one of them while there is work, and more where processors are idle, or work has waited long. One more thread, where
//! a stream has an object tier, moves segments there: a store that does not answer delays nothing else.

use crate::error::Error;
use crate::maintenance::context::MaintenanceContext;
use crate::maintenance::offload::{Work, offload};
use crate::maintenance::pace::{IdleProcessors, Pace};
use crate::maintenance::queue::{Kind, Place, Queue};
use crate::maintenance::retention::{is_retiring_due, is_roll_due, retire, roll_if_due};
use crate::maintenance::seal::{chill_next, is_sealing_due, is_tidying_due, merge_next, seal_next};
use crate::notifier::Notifier;
use crate::stream::reader::StreamReader;
use crate::stream::writer::StreamWriter;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Interval between two looks for work that is due, unless a log file becomes complete.
const INTERVAL: Duration = Duration::from_millis(200);
/// Pause after a failure, so that a full disk is not tried all the time.
const AFTER_FAILURE: Duration = Duration::from_secs(5);

/// Interval between two looks for segments that are old enough for an object store.
const OFFLOAD_INTERVAL: Duration = Duration::from_secs(1);
/// The same after a failure of a store.
const OFFLOAD_AFTER_FAILURE: Duration = Duration::from_secs(15);

/// A thread without work ends after this time.
const LINGER: Duration = Duration::from_secs(1);
/// Work that has waited so long gets another thread, though no processor is idle.
const WAIT_MAX: Duration = Duration::from_secs(2);
/// Threads that work at most, unless [`set_maintenance_threads`] states another number.
const THREADS_MAX: usize = 4;
/// The number that was stated; 0: none was.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// Sets how many threads seal, merge and compress at most in each database that this process writes: 1 to 64. Otherwise there are as many as
/// processors, and at most 4.
pub fn set_maintenance_threads(threads: usize) {
    THREADS.store(threads.clamp(1, THREADS_LIMIT), Ordering::Relaxed);
}

/// The largest number that can be set.
const THREADS_LIMIT: usize = 64;

/// Maintenance of a database. Every user of the database holds it; when the last one drops it the threads end, if necessary in
/// the middle of their work.
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
    streams: Mutex<Vec<Entry>>,
    /// Notified when a log file becomes complete, when work was done, and when the thread is to stop.
    wake: Arc<Notifier>,
    stop: AtomicBool,
    /// A thread has panicked: nothing is done any more.
    has_panicked: AtomicBool,
    queue: Mutex<Queue>,
    /// Notified when work is added, or can begin, and when threads are to stop.
    queued: Condvar,
    workers: Mutex<Workers>,
}

/// A stream under maintenance.
type Entry = (Weak<StreamReader>, Weak<StreamWriter>);

/// The threads that work.
#[derive(Debug, Default)]
struct Workers {
    threads: Vec<JoinHandle<()>>,
    running: usize,
    /// Those of them that wait for work.
    waiting: usize,
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
        drop(self.shared.queue());
        self.shared.queued.notify_all();
        let threads = || {
            // The others are spawned by the first.
            let first = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
            let offloading = || self.shared.offloading.lock().unwrap_or_else(PoisonError::into_inner).take();
            first.or_else(offloading).or_else(|| self.shared.workers().threads.pop())
        };
        while let Some(thread) = threads() {
            let _ = thread.join();
        }
    }
}

/// Notes where maintenance has ended by a panic: nothing is sealed from then on, which is seen otherwise when the disk is full.
struct NotingPanic<'a>(&'a Shared);

impl Drop for NotingPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.has_panicked.store(true, Ordering::SeqCst);
            self.0.queued.notify_all();
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
        let mut idle = IdleProcessors::default();
        while !self.is_stopped() {
            self.start_offloading();
            let seen = self.wake.count();
            self.find_work();
            self.start_workers(&mut idle);
            self.wake.wait(seen, INTERVAL);
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

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn workers(&self) -> MutexGuard<'_, Workers> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds all work that is due to the queue.
    fn find_work(&self) {
        let streams = {
            let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
            streams.retain(|(stream, _)| stream.strong_count() > 0);
            streams.clone()
        };
        for (stream, writer) in &streams {
            // One at a time, so that a stream without other users is released soon.
            let (Some(stream), Some(writer)) = (stream.upgrade(), writer.upgrade()) else { continue };
            if stream.is_outdated() || stream.is_deleted() {
                continue;
            }
            for space in &writer.spaces {
                let context = MaintenanceContext { stream: &stream, writer: &writer, space };
                let place = (stream.definition.id, space.number);
                for (kind, is_due) in
                    [(Kind::Seal, is_seal_due(context)), (Kind::Tidy, is_tidying_due(context))]
                {
                    if is_due {
                        self.queue().add(place, kind, Instant::now());
                    }
                }
            }
        }
        self.queued.notify_all();
    }

    /// Starts a thread if work waits and none of the others is free: the first one in any case, more of them where a processor has been
    /// idle since the last call, or work has waited long.
    fn start_workers(self: &Arc<Self>, idle: &mut IdleProcessors) {
        let Some(waited) = self.queue().waits(Instant::now()) else { return };
        let mut workers = self.workers();
        workers.threads.retain(|thread| !thread.is_finished());
        let may_join = workers.waiting == 0 && workers.running < threads_max();
        let is_wanted = workers.running == 0 || may_join && (idle.were_idle() || waited > WAIT_MAX);
        if is_wanted && !self.is_stopped() {
            let shared = self.clone();
            let name = format!("tapedb-work-{}", workers.running);
            let spawned = thread::Builder::new().name(name).spawn(move || shared.run_worker());
            // Without a thread it is tried again.
            if let Ok(thread) = spawned {
                workers.running += 1;
                workers.threads.push(thread);
            }
        }
    }

    /// Does work until there is none.
    fn run_worker(&self) {
        let _running = Running(self);
        let _noting = NotingPanic(self);
        while let Some(taken) = self.take() {
            match self.run_turn(taken) {
                Turn::Done { again, is_anything } => {
                    self.queue().done(taken, again, Instant::now());
                    if is_anything {
                        // What was done may have made other work due.
                        self.wake.notify();
                    }
                }
                Turn::Failed => self.queue().failed(taken, AFTER_FAILURE, Instant::now()),
            }
            // The space can be worked on by others.
            self.queued.notify_all();
        }
    }

    /// Takes work, when there is some; `None`: the thread ends.
    fn take(&self) -> Option<(Place, Kind)> {
        let until = Instant::now() + LINGER;
        let mut queue = self.queue();
        loop {
            if self.is_stopped() || self.has_panicked.load(Ordering::SeqCst) {
                return None;
            }
            if let Some(taken) = queue.take(threads_max()) {
                return Some(taken);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            self.workers().waiting += 1;
            queue = self.queued.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
            self.workers().waiting -= 1;
        }
    }

    /// Does work in a space: all that is due, or a piece where other spaces wait.
    fn run_turn(&self, ((id, number), kind): (Place, Kind)) -> Turn {
        let mut is_anything = false;
        let streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let is_it = |(stream, writer): &Entry| {
            let (stream, writer) = (stream.upgrade()?, writer.upgrade()?);
            (stream.definition.id == id && !stream.is_outdated()).then_some((stream, writer))
        };
        let Some((stream, writer)) = streams.iter().find_map(is_it) else {
            return Turn::Done { again: false, is_anything };
        };
        drop(streams);
        let Some(space) = writer.spaces.get(number as usize) else {
            return Turn::Done { again: false, is_anything };
        };
        let context = MaintenanceContext { stream: &stream, writer: &writer, space };
        let mut pace = Pace::in_background(&self.stop);
        loop {
            if self.is_stopped() || stream.is_deleted() {
                return Turn::Done { again: false, is_anything };
            }
            let worked = work(context, kind, &mut pace);
            if !self.has_panicked.load(Ordering::SeqCst) {
                space.note_maintenance(worked.as_ref().err());
            }
            match worked {
                Ok(true) => is_anything = true,
                Ok(false) => return Turn::Done { again: false, is_anything },
                Err(_) => return Turn::Failed,
            }
            if self.queue().has_others((id, number)) {
                return Turn::Done { again: true, is_anything };
            }
        }
    }
}

/// How a turn has ended.
enum Turn {
    Done {
        /// There may be more to do.
        again: bool,
        /// Whether anything was done.
        is_anything: bool,
    },
    Failed,
}

/// Counts a thread that works, until it ends.
struct Running<'a>(&'a Shared);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.workers().running -= 1;
    }
}

/// Threads that work at most, in a database.
fn threads_max() -> usize {
    match THREADS.load(Ordering::Relaxed) {
        0 => thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX),
        stated => stated,
    }
}

/// Whether there is something to seal, to purge, or a log file to be completed because of its age.
fn is_seal_due(context: MaintenanceContext<'_>) -> bool {
    let retires = context.space.number == 0 && is_retiring_due(context.stream, context.writer);
    // Each is asked: the second notes when a log file has got its first message.
    is_roll_due(context) | is_sealing_due(context) | retires
}

/// Does one piece of work in a space; `false`: there is none.
fn work(context: MaintenanceContext<'_>, kind: Kind, pace: &mut Pace<'_>) -> Result<bool, Error> {
    context.writer.check_lock()?;
    if kind == Kind::Seal && context.space.number == 0 {
        retire(context.stream, context.writer)?;
    }
    let _maintenance = context.space.hold_maintenance();
    // Checked while maintenance is held: a change of the schema, a deletion and a rename of the stream stop it first.
    if context.stream.is_outdated() || context.stream.is_deleted() {
        return Ok(false);
    }
    match kind {
        Kind::Seal => {
            roll_if_due(context)?;
            Ok(seal_next(context, pace)?.is_some())
        }
        Kind::Tidy => Ok(merge_next(context, pace)? || chill_next(context, pace)?),
    }
}
