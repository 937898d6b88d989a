//! A carbon copy that looks after itself, on a thread of its own: it waits for its topic, goes over to the next one of that
//! name when it is made anew, and begins again when something fails.

use crate::copy::{CarbonCopy, CopyOptions};
use crate::error::FeedError;
use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tapedb_engine::{Database, StreamOptions};
use tapedb_topic::{Folder, Topic, TopicError, TopicPosition};

/// How often a topic is looked for that is not there.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// How often it is looked whether the topic is still the one of its name.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// How long a step waits for messages, and so how soon the end is noticed.
const STEP: Duration = Duration::from_millis(50);
/// How long it waits before it begins again: first, and at most; it doubles from failure to failure.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
/// How long the rest of a topic that has been replaced may take.
const REST_MAX: Duration = Duration::from_secs(2);

/// What a copier copies, and where to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopierOptions {
    /// Where the topic is looked for, in this order.
    pub folders: Vec<Folder>,
    /// Name of the topic, which need not be there yet.
    pub topic: String,
    /// The stream.
    pub stream: String,
    /// How the stream is made where it is not there.
    pub stream_options: StreamOptions,
    /// How it is copied.
    pub copy: CopyOptions,
}

/// What happens to a copier: for a log.
#[derive(Debug)]
#[non_exhaustive]
pub enum CopierEvent<'a> {
    /// There is no such topic; it is looked for again and again.
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
        /// How many, since it was told last.
        count: u64,
    },
    /// The topic has been deleted or replaced; what was published to it is copied.
    Ended,
    /// It cannot go on, and begins again.
    Failed {
        /// Why.
        error: &'a FeedError,
        /// When it begins again.
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
    /// It could not go on, and will begin again.
    Failing,
}

/// A look at a copier.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CopierStatus {
    /// What it is doing.
    pub state: CopierState,
    /// Messages copied since it was started.
    pub copied: u64,
    /// Messages that were overwritten before they could be copied, since it was started.
    pub missed: u64,
    /// How often it could not go on.
    pub failures: u64,
    /// Sequence number in the topic that it reads next; 0 before it has found one.
    pub position: u64,
    /// Messages published and not in the stream yet.
    pub lag: u64,
    /// Bytes of the ring that are published and have not been read for the copy.
    pub lag_bytes: u64,
    /// Why it could not go on, while it is failing.
    pub failure: Option<String>,
}

/// Keeps a carbon copy for as long as it lives. Dropping it ends it at once; [`Copier::stop`] copies what is there first.
///
/// Always true: while it is failing or waiting it has no subscriber, so no publisher waits for it.
pub struct Copier {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What the copier's thread and its owner share.
#[derive(Debug, Default)]
struct Shared {
    now: Mutex<Now>,
    /// How long there is to copy the rest, once it shall end.
    stop: Mutex<Option<Duration>>,
    stopped: Condvar,
}

/// Where the thread is.
#[derive(Debug, Default)]
struct Now {
    status: CopierStatus,
    topic: Option<Topic>,
    read: TopicPosition,
    unwritten: u64,
}

impl Copier {
    /// Starts it. `tell` is called on its thread.
    ///
    /// # Errors
    /// [`TopicError::Name`] when the topic cannot be called so, and when the system has no thread.
    pub fn start(
        db: &Database,
        options: CopierOptions,
        tell: impl FnMut(CopierEvent<'_>) + Send + 'static,
    ) -> Result<Self, FeedError> {
        for folder in &options.folders {
            folder.file(&options.topic)?;
        }
        let shared = Arc::<Shared>::default();
        let work = Work { db: db.clone(), options, shared: shared.clone(), tell };
        let named = thread::Builder::new().name("carbon-copy".into());
        let thread = named.spawn(move || work.run()).map_err(no_thread)?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// How far it is.
    pub fn status(&self) -> CopierStatus {
        let now = self.shared.now();
        let mut status = now.status.clone();
        status.position = now.read.next_sequence;
        // The memory of one that was cut short must not be touched.
        let whole = now.topic.as_ref().filter(|topic| !matches!(topic.check(), Err(TopicError::File { .. })));
        if let Some(published) = whole.map(Topic::position) {
            status.lag = published.next_sequence.saturating_sub(now.read.next_sequence) + now.unwritten;
            status.lag_bytes = published.bytes.saturating_sub(now.read.bytes);
        }
        status
    }

    /// Copies what has been published by now, for at most `grace`, and ends. It can still be asked what came of it.
    pub fn stop(&self, grace: Duration) {
        self.shared.stop.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(grace);
        self.shared.stopped.notify_all();
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

impl Shared {
    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long there is, if it shall end.
    fn stopping(&self) -> Option<Duration> {
        *self.stop.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sleeps, unless it shall end.
    fn sleep(&self, time: Duration) {
        let stop = self.stop.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.stopped.wait_timeout_while(stop, time, |stop| stop.is_none()));
    }
}

/// Why copying a topic ended.
#[derive(Debug)]
enum End {
    /// It was told to.
    Told,
    /// The topic has been deleted or replaced.
    OfTopic,
}

/// The copier's thread.
struct Work<F> {
    db: Database,
    options: CopierOptions,
    shared: Arc<Shared>,
    tell: F,
}

impl<F: FnMut(CopierEvent<'_>)> Work<F> {
    fn run(mut self) {
        let mut pause = RETRY.0;
        loop {
            // One that fails is tried once more when it shall end.
            let is_last = self.shared.stopping().is_some();
            let copied = self.shared.now().status.copied;
            let done = self.copy_one();
            if done.is_ok() || self.shared.now().status.copied > copied {
                pause = RETRY.0;
            }
            match done {
                Ok(End::Told) => return,
                Ok(End::OfTopic) => {}
                Err(error) => {
                    self.fail(&error, pause);
                    pause = (2 * pause).min(RETRY.1);
                }
            }
            if is_last {
                return;
            }
        }
    }

    fn fail(&mut self, error: &FeedError, pause: Duration) {
        {
            let mut now = self.shared.now();
            now.status.state = CopierState::Failing;
            now.status.failures += 1;
            now.status.failure = Some(error.to_string());
        }
        (self.tell)(CopierEvent::Failed { error, again_in: pause });
        self.shared.sleep(pause);
    }

    /// Copies a topic to its end, or to ours, once there is one.
    fn copy_one(&mut self) -> Result<End, FeedError> {
        let Some(topic) = self.wait_for_topic()? else { return Ok(End::Told) };
        let CopierOptions { stream, stream_options, copy, .. } = &self.options;
        let mut copy = CarbonCopy::open(&topic, &self.db, stream, *stream_options, *copy)?;
        let before = self.begin(&topic, &copy);
        let done = self.copy(&topic, &mut copy, &before);
        self.note(&copy, &before);
        if done.is_err() {
            // What was read and did not come to the stream will be read again.
            let mut now = self.shared.now();
            now.unwritten = 0;
            now.read.next_sequence = copy.kept().unwrap_or(now.read.next_sequence);
        }
        done
    }

    /// The topic; `None` if it shall end and there is none.
    fn wait_for_topic(&mut self) -> Result<Option<Topic>, FeedError> {
        let mut is_told = false;
        loop {
            let is_last = self.shared.stopping().is_some();
            if let Some(topic) = self.find()? {
                return Ok(Some(topic));
            }
            if !is_told {
                is_told = true;
                self.wait();
            }
            if is_last {
                return Ok(None);
            }
            self.shared.sleep(LOOK_INTERVAL);
        }
    }

    fn find(&self) -> Result<Option<Topic>, FeedError> {
        for folder in &self.options.folders {
            match Topic::open(folder, &self.options.topic) {
                Err(TopicError::NotFound { .. }) => {}
                found => return Ok(Some(found?)),
            }
        }
        Ok(None)
    }

    fn wait(&mut self) {
        let mut now = self.shared.now();
        now.topic = None;
        (now.status.state, now.status.failure) = (CopierState::Waiting, None);
        drop(now);
        (self.tell)(CopierEvent::Waiting);
    }

    /// Says that it copies. What it had come to before, which is what it comes to is added to.
    fn begin(&mut self, topic: &Topic, copy: &CarbonCopy) -> CopierStatus {
        let before = {
            let mut now = self.shared.now();
            now.topic = Some(topic.clone());
            (now.status.state, now.status.failure) = (CopierState::Copying, None);
            now.status.clone()
        };
        self.note(copy, &before);
        (self.tell)(CopierEvent::Began { topic, from: copy.position().next_sequence });
        before
    }

    /// Copies until the topic ends, or it shall end.
    fn copy(
        &mut self,
        topic: &Topic,
        copy: &mut CarbonCopy,
        before: &CopierStatus,
    ) -> Result<End, FeedError> {
        let mut checked = Instant::now();
        loop {
            if let Some(grace) = self.shared.stopping() {
                return self.copy_rest(topic, copy, before, grace).map(|()| End::Told);
            }
            self.step(copy, before, STEP)?;
            if checked.elapsed() < CHECK_INTERVAL {
                continue;
            }
            checked = Instant::now();
            match topic.check() {
                Ok(()) => {}
                // Those who have it open may go on publishing.
                Err(TopicError::Gone { is_replaced: false, .. }) if !topic.stats().publishers.is_empty() => {}
                Err(TopicError::Gone { .. }) => {
                    self.copy_rest(topic, copy, before, REST_MAX)?;
                    (self.tell)(CopierEvent::Ended);
                    return Ok(End::OfTopic);
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Copies what has been published by now.
    fn copy_rest(
        &mut self,
        topic: &Topic,
        copy: &mut CarbonCopy,
        before: &CopierStatus,
        grace: Duration,
    ) -> Result<(), FeedError> {
        let (end, deadline) = (topic.position().next_sequence, Instant::now() + grace);
        while copy.position().next_sequence < end && Instant::now() < deadline {
            self.step(copy, before, STEP.min(grace))?;
        }
        copy.flush()
    }

    fn step(
        &mut self,
        copy: &mut CarbonCopy,
        before: &CopierStatus,
        time: Duration,
    ) -> Result<(), FeedError> {
        let stepped = copy.step(time);
        let count = self.note(copy, before);
        if count > 0 {
            (self.tell)(CopierEvent::Missed { count });
        }
        stepped.map(drop)
    }

    /// Writes down how far it is. How many messages more were missed.
    fn note(&self, copy: &CarbonCopy, before: &CopierStatus) -> u64 {
        let progress = copy.counted();
        let mut now = self.shared.now();
        let missed = before.missed + progress.missed;
        let more = missed - now.status.missed;
        (now.status.copied, now.status.missed) = (before.copied + progress.copied, missed);
        (now.read, now.unwritten) = (copy.position(), copy.unwritten());
        more
    }
}

fn no_thread(error: io::Error) -> FeedError {
    FeedError::Topic(TopicError::Io { what: "begin a thread for", path: "a carbon copy".into(), error })
}
