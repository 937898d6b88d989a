//! A topic copy on its own thread: it waits for its topic, changes to the next one of that name when the topic is created
//! again, and retries when something fails.

use crate::copy::{CopyOptions, TopicCopy};
use crate::error::CopyError;
use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tapedb_engine::{Database, StreamOptions};
use tapedb_topic::{Folder, Topic, TopicError, TopicPosition};

/// How long a step waits for messages, and so how soon a stop is noticed.
const STEP: Duration = Duration::from_millis(50);
/// How long copying the rest of a replaced topic may take.
const REST_MAX: Duration = Duration::from_secs(2);

/// Source and target of a copier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopierOptions {
    /// Folders to look for the topic in, in this order.
    pub folders: Vec<Folder>,
    /// Name of the topic, which need not exist yet.
    pub topic: String,
    /// The stream.
    pub stream: String,
    /// How the stream is created if it does not exist.
    pub stream_options: StreamOptions,
    /// How it is copied.
    pub copy: CopyOptions,
    /// How often it checks and retries.
    pub intervals: CopierIntervals,
}

/// How often a copier checks and retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopierIntervals {
    /// Between two searches for a topic that does not exist. Default: 200 ms.
    pub search: Duration,
    /// Between two checks whether the topic is still the one of its name. Default: 500 ms.
    pub check: Duration,
    /// Before the first retry; it doubles from failure to failure. Default: 500 ms.
    pub retry_min: Duration,
    /// Before a retry, at most. Default: 30 s.
    pub retry_max: Duration,
}

impl Default for CopierIntervals {
    fn default() -> Self {
        Self {
            search: Duration::from_millis(200),
            check: Duration::from_millis(500),
            retry_min: Duration::from_millis(500),
            retry_max: Duration::from_secs(30),
        }
    }
}

/// Events of a copier: for a log.
#[derive(Debug)]
#[non_exhaustive]
pub enum CopierEvent<'a> {
    /// There is no such topic yet.
    Waiting,
    /// It copies.
    Began {
        /// The topic.
        topic: &'a Topic,
        /// Sequence number in the topic of the first message that it reads.
        from: u64,
    },
    /// Messages were overwritten before they could be copied.
    Missed {
        /// How many since the last such event.
        count: u64,
    },
    /// The topic has been deleted or replaced; what was published to it is copied.
    Ended,
    /// It failed, and will retry.
    Failed {
        /// The error.
        error: &'a CopyError,
        /// Time until the retry.
        again_in: Duration,
    },
}

/// What a copier is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CopierState {
    /// There is no such topic yet, or any more.
    #[default]
    Waiting,
    /// It copies.
    Copying,
    /// It failed, and will retry.
    Failing,
}

/// A snapshot of a copier.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CopierStatus {
    /// What it is doing.
    pub state: CopierState,
    /// Messages copied since it was started.
    pub copied: u64,
    /// Messages that were overwritten before they could be copied, since it was started.
    pub missed: u64,
    /// How often it failed.
    pub failures: u64,
    /// Sequence number in the topic that it reads next; 0 before it has found one.
    pub position: u64,
    /// Messages published and not in the stream yet.
    pub lag: u64,
    /// Bytes of the ring that are published and have not been read for the copy.
    pub lag_bytes: u64,
    /// The last error, while it is failing.
    pub failure: Option<String>,
}

/// Runs a topic copy on its own thread. Dropping it ends that at once; [`Copier::stop`] copies the published messages first.
///
/// Always true: while it is failing or waiting it has no subscriber, so no publisher waits for it.
pub struct Copier {
    state: Arc<CopierShared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What the copier's thread and its owner share.
#[derive(Debug, Default)]
struct CopierShared {
    progress: Mutex<Progress>,
    /// How long copying the rest may take, once it is to end.
    stop: Mutex<Option<Duration>>,
    stopped: Condvar,
}

/// The progress of the thread.
#[derive(Debug, Default)]
struct Progress {
    status: CopierStatus,
    topic: Option<Topic>,
    read: TopicPosition,
    unwritten: u64,
}

impl Copier {
    /// Starts it. `on_event` is called on its thread.
    ///
    /// # Errors
    /// [`TopicError::Name`] when the topic's name is invalid, and when the system has no thread.
    pub fn start(
        db: &Database,
        options: CopierOptions,
        on_event: impl FnMut(CopierEvent<'_>) + Send + 'static,
    ) -> Result<Self, CopyError> {
        for folder in &options.folders {
            folder.file(&options.topic)?;
        }
        let state = Arc::<CopierShared>::default();
        let work = Work { db: db.clone(), options, state: state.clone(), on_event };
        let named = thread::Builder::new().name("topic-copy".into());
        let thread = named.spawn(move || work.run()).map_err(no_thread)?;
        Ok(Self { state, thread: Mutex::new(Some(thread)) })
    }

    /// A snapshot of its state.
    pub fn status(&self) -> CopierStatus {
        let progress = self.state.progress();
        let mut status = progress.status.clone();
        status.position = progress.read.next_sequence;
        // The memory of a file that was cut short must not be touched.
        let whole =
            progress.topic.as_ref().filter(|topic| !matches!(topic.check(), Err(TopicError::File { .. })));
        if let Some(published) = whole.map(Topic::position) {
            status.lag =
                published.next_sequence.saturating_sub(progress.read.next_sequence) + progress.unwritten;
            status.lag_bytes = published.bytes.saturating_sub(progress.read.bytes);
        }
        status
    }

    /// Copies what has been published by now, for at most `grace`, and ends. Its status can still be read.
    pub fn stop(&self, grace: Duration) {
        self.state.stop.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(grace);
        self.state.stopped.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

impl Drop for Copier {
    fn drop(&mut self) {
        self.stop(Duration::ZERO);
    }
}

impl fmt::Debug for Copier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Copier").field("status", &self.status()).finish_non_exhaustive()
    }
}

impl CopierShared {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long copying the rest may take, if it is to end.
    fn stopping(&self) -> Option<Duration> {
        *self.stop.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps, unless it is to end.
    fn sleep(&self, time: Duration) {
        let stop = self.stop.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.stopped.wait_timeout_while(stop, time, |stop| stop.is_none()));
    }
}

/// Why copying a topic ended.
#[derive(Debug)]
enum End {
    /// It was stopped.
    Stopped,
    /// The topic has been deleted or replaced.
    TopicEnded,
}

/// The copier's thread.
struct Work<F> {
    db: Database,
    options: CopierOptions,
    state: Arc<CopierShared>,
    on_event: F,
}

impl<F: FnMut(CopierEvent<'_>)> Work<F> {
    fn run(mut self) {
        let CopierIntervals { retry_min, retry_max, .. } = self.options.intervals;
        let mut pause = retry_min;
        loop {
            // After a failure there is one more attempt when it is to end.
            let is_last = self.state.stopping().is_some();
            let copied = self.state.progress().status.copied;
            let done = self.copy_one();
            if done.is_ok() || self.state.progress().status.copied > copied {
                pause = retry_min;
            }
            match done {
                Ok(End::Stopped) => return,
                Ok(End::TopicEnded) => {}
                Err(error) => {
                    self.fail(&error, pause);
                    pause = (2 * pause).min(retry_max);
                }
            }
            if is_last {
                return;
            }
        }
    }

    fn fail(&mut self, error: &CopyError, pause: Duration) {
        {
            let mut progress = self.state.progress();
            progress.status.state = CopierState::Failing;
            progress.status.failures += 1;
            progress.status.failure = Some(error.to_string());
        }
        (self.on_event)(CopierEvent::Failed { error, again_in: pause });
        self.state.sleep(pause);
    }

    /// Waits for the topic and copies it, until it ends or the copier is stopped.
    fn copy_one(&mut self) -> Result<End, CopyError> {
        let Some(topic) = self.wait_for_topic()? else { return Ok(End::Stopped) };
        let CopierOptions { stream, stream_options, copy, .. } = &self.options;
        let mut copy = TopicCopy::open(&topic, &self.db, stream, *stream_options, *copy)?;
        let before = self.begin(&topic, &copy);
        let done = self.copy(&topic, &mut copy, &before);
        self.update(&copy, &before);
        if done.is_err() {
            // Messages that were read and are not in the stream will be read again.
            let mut progress = self.state.progress();
            progress.unwritten = 0;
            progress.read.next_sequence = copy.next_uncopied().unwrap_or(progress.read.next_sequence);
        }
        done
    }

    /// The topic; `None` if the copier is to end and there is none.
    fn wait_for_topic(&mut self) -> Result<Option<Topic>, CopyError> {
        let mut is_reported = false;
        loop {
            let is_last = self.state.stopping().is_some();
            if let Some(topic) = self.find()? {
                return Ok(Some(topic));
            }
            if !is_reported {
                is_reported = true;
                self.report_waiting();
            }
            if is_last {
                return Ok(None);
            }
            self.state.sleep(self.options.intervals.search);
        }
    }

    fn find(&self) -> Result<Option<Topic>, CopyError> {
        for folder in &self.options.folders {
            match Topic::open(folder, &self.options.topic) {
                Err(TopicError::NotFound { .. }) => {}
                found => return Ok(Some(found?)),
            }
        }
        Ok(None)
    }

    fn report_waiting(&mut self) {
        let mut progress = self.state.progress();
        progress.topic = None;
        (progress.status.state, progress.status.failure) = (CopierState::Waiting, None);
        drop(progress);
        (self.on_event)(CopierEvent::Waiting);
    }

    /// Reports that it copies. Returns the counts before this topic.
    fn begin(&mut self, topic: &Topic, copy: &TopicCopy) -> CopierStatus {
        let before = {
            let mut progress = self.state.progress();
            progress.topic = Some(topic.clone());
            (progress.status.state, progress.status.failure) = (CopierState::Copying, None);
            progress.status.clone()
        };
        self.update(copy, &before);
        (self.on_event)(CopierEvent::Began { topic, from: copy.position().next_sequence });
        before
    }

    /// Copies until the topic ends, or the copier is to end.
    fn copy(&mut self, topic: &Topic, copy: &mut TopicCopy, before: &CopierStatus) -> Result<End, CopyError> {
        let mut checked = Instant::now();
        loop {
            if let Some(grace) = self.state.stopping() {
                return self.copy_rest(topic, copy, before, grace).map(|()| End::Stopped);
            }
            self.step(copy, before, STEP)?;
            if checked.elapsed() < self.options.intervals.check {
                continue;
            }
            checked = Instant::now();
            match topic.check() {
                Ok(()) => {}
                // Publishers that have it open may go on publishing.
                Err(TopicError::Deleted { is_replaced: false, .. })
                    if !topic.stats().publishers.is_empty() => {}
                Err(TopicError::Deleted { .. }) => {
                    self.copy_rest(topic, copy, before, REST_MAX)?;
                    (self.on_event)(CopierEvent::Ended);
                    return Ok(End::TopicEnded);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Copies what has been published by now.
    fn copy_rest(
        &mut self,
        topic: &Topic,
        copy: &mut TopicCopy,
        before: &CopierStatus,
        grace: Duration,
    ) -> Result<(), CopyError> {
        let (end, deadline) = (topic.position().next_sequence, Instant::now() + grace);
        while copy.position().next_sequence < end && Instant::now() < deadline {
            self.step(copy, before, STEP.min(grace))?;
        }
        copy.flush()
    }

    fn step(&mut self, copy: &mut TopicCopy, before: &CopierStatus, time: Duration) -> Result<(), CopyError> {
        let stepped = copy.step(time);
        let count = self.update(copy, before);
        if count > 0 {
            (self.on_event)(CopierEvent::Missed { count });
        }
        stepped.map(drop)
    }

    /// Updates the status. How many more messages were missed.
    fn update(&self, copy: &TopicCopy, before: &CopierStatus) -> u64 {
        let copied = copy.counted();
        let mut progress = self.state.progress();
        let missed = before.missed + copied.missed;
        let more = missed - progress.status.missed;
        (progress.status.copied, progress.status.missed) = (before.copied + copied.copied, missed);
        (progress.read, progress.unwritten) = (copy.position(), copy.unwritten());
        more
    }
}

fn no_thread(error: io::Error) -> CopyError {
    CopyError::Topic(TopicError::Io { what: "start a thread for", path: "a topic copy".into(), error })
}
