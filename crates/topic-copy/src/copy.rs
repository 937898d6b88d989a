//! A durable stream of a topic.

use crate::error::CopyError;
use crate::marks::{Mark, Marks, MarksLoader};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tapedb_engine::{Database, Loader, StreamOptions};
use tapedb_schema::Timestamp;
use tapedb_topic::{Subscriber, Topic, TopicError, TopicPosition, Waiting};

/// How a topic is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyOptions {
    /// How long a message may wait to be written together with others. Default: a millisecond.
    pub delay: Duration,
    /// Whether publishers of a reliable topic wait for the copy. If not, it may miss messages, and records which. Default: yes.
    pub is_waited_for: bool,
    /// How the copy waits for messages. Default: parked.
    pub waiting: Waiting,
}

impl Default for CopyOptions {
    fn default() -> Self {
        Self { delay: Duration::from_millis(1), is_waited_for: true, waiting: Waiting::Park }
    }
}

/// How far a copy is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CopyProgress {
    /// Messages copied since it was opened.
    pub copied: u64,
    /// Messages of the topic that the stream does not have and will not have: overwritten before they could be copied.
    pub missed: u64,
    /// Messages published and not in the stream yet.
    pub lag: u64,
    /// Bytes of the ring that are published and have not been read for the copy.
    pub lag_bytes: u64,
    /// Sequence number that the next message has in the stream.
    pub next_sequence: u64,
}

/// Stores a topic in a durable stream: every message, in the topic's order, while it runs; messages that it could not copy are
/// recorded. When it is opened again it continues where it was, if the topic still has those messages.
///
/// No other loader may write into the stream.
#[derive(Debug)]
pub struct TopicCopy {
    topic: Topic,
    stream: String,
    subscriber: Subscriber,
    loader: Loader,
    marks: MarksLoader,
    options: CopyOptions,
    /// Number that the next message of the topic has if nothing is missing; `None` before the first.
    expected: Option<u64>,
    /// Messages missed since the last one that was copied.
    missed_here: u64,
    progress: CopyProgress,
    /// Messages copied when it was flushed last.
    flushed: u64,
    /// When the oldest message that has not been flushed arrived.
    since: Option<Instant>,
}

impl TopicCopy {
    /// Opens the stream, or creates it, and continues where an earlier copy of the same topic ended, else with the oldest message
    /// that the topic has.
    ///
    /// # Errors
    /// [`CopyError::NoCopy`] when the stream has another schema or several spaces; the engine's, and the topic's.
    pub fn open(
        topic: &Topic,
        db: &Database,
        stream: &str,
        stream_options: StreamOptions,
        options: CopyOptions,
    ) -> Result<Self, CopyError> {
        let copy = db.open_or_create_stream(stream, topic.schema().clone(), stream_options)?;
        let refuse = |why| Err(CopyError::NoCopy { stream: stream.into(), why });
        if copy.schema() != topic.schema() {
            return refuse("it has another schema");
        }
        if copy.spaces() != 1 {
            return refuse("it has several spaces, and a topic has one order");
        }
        let marks = MarksLoader::open(db, stream, topic.name(), stream_options)?;
        let marks_read = Marks::read(db, stream)?;
        let next_sequence = copy.stats()?.next_sequence;
        let subscriber = topic.subscriber().from_oldest().waiting(options.waiting);
        let subscriber = if options.is_waited_for { subscriber } else { subscriber.without_back_pressure() };
        let mark = marks_read.at(next_sequence).filter(|mark| mark.topic == topic.id());
        Ok(Self {
            expected: mark.map(|mark| mark.first + (next_sequence - mark.sequence)),
            subscriber: subscriber.open()?,
            loader: copy.loader()?,
            marks,
            options,
            missed_here: 0,
            progress: CopyProgress { next_sequence, ..CopyProgress::default() },
            flushed: 0,
            since: None,
            stream: stream.into(),
            topic: topic.clone(),
        })
    }

    /// Copies the available messages, waiting for them at most `timeout`, and flushes those that have waited long enough. Call it
    /// again and again. How many messages it copied.
    ///
    /// # Errors
    /// The engine's, when the stream cannot be written. The current message is then not in it.
    pub fn step(&mut self, timeout: Duration) -> Result<u64, CopyError> {
        let before = self.progress.copied;
        let timeout = self
            .since
            .map_or(timeout, |since| self.options.delay.saturating_sub(since.elapsed()).min(timeout));
        let mut found = self.copy_next(timeout)?;
        for _ in 1..STEP_MESSAGES {
            if !found {
                break;
            }
            found = self.copy_next(Duration::ZERO)?;
        }
        if self.since.is_some_and(|since| since.elapsed() >= self.options.delay) {
            self.flush()?;
        }
        Ok(self.progress.copied - before)
    }

    /// Writes what has been copied. On success it survives as the stream's durability promises.
    ///
    /// # Errors
    /// The engine's. [`CopyError::NoCopy`] when another loader has written into the stream.
    pub fn flush(&mut self) -> Result<(), CopyError> {
        if self.since.take().is_none() {
            return Ok(());
        }
        if self.loader.flush()? != self.progress.next_sequence {
            let why = "another loader writes into it; give the copy a stream of its own";
            return Err(CopyError::NoCopy { stream: self.stream.clone(), why });
        }
        self.flushed = self.progress.copied;
        Ok(())
    }

    /// How far it is.
    pub fn progress(&self) -> CopyProgress {
        let (published, read) = (self.topic.position(), self.subscriber.position());
        let lag = published.next_sequence.saturating_sub(read.next_sequence) + self.unwritten();
        let lag_bytes = published.bytes.saturating_sub(read.bytes);
        CopyProgress { lag, lag_bytes, ..self.progress }
    }

    /// What is in the stream, without reading the topic: no lag.
    pub(crate) fn counted(&self) -> CopyProgress {
        CopyProgress { copied: self.flushed, ..self.progress }
    }

    /// Sequence number in the topic of the first message that is not in the stream; `None` before the first copied message.
    pub(crate) fn next_uncopied(&self) -> Option<u64> {
        let unflushed = self.progress.copied - self.flushed;
        self.expected.map(|expected| expected.saturating_sub(unflushed))
    }

    /// How far it has read the topic.
    pub fn position(&self) -> TopicPosition {
        self.subscriber.position()
    }

    /// Messages that have been read and not been flushed.
    pub(crate) fn unwritten(&self) -> u64 {
        if self.since.is_some() { self.loader.pending() as u64 } else { 0 }
    }

    /// Copies the next message. Whether there was one.
    fn copy_next(&mut self, timeout: Duration) -> Result<bool, CopyError> {
        let message = match self.subscriber.next_within(timeout) {
            Ok(None) => return Ok(false),
            Ok(Some(message)) => message,
            Err(TopicError::Missed { count, .. }) => {
                self.missed_here += count;
                return Ok(true);
            }
            Err(error) => return Err(error.into()),
        };
        let sequence = message.sequence();
        match self.expected {
            Some(expected) if sequence < expected => return Ok(true),
            Some(expected) if sequence == expected => {}
            expected => {
                // Messages since an earlier copy ended, or that were overwritten.
                let missed = match expected {
                    Some(expected) if self.progress.copied == 0 => sequence - expected,
                    _ => self.missed_here,
                };
                let Self { topic, progress, marks, loader, .. } = self;
                // The mark is written before its message, so all earlier messages must be in the stream.
                loader.flush()?;
                let mark =
                    Mark { topic: topic.id(), first: sequence, sequence: progress.next_sequence, missed };
                marks.write(now(), &mark)?;
                progress.missed += missed;
            }
        }
        self.loader.append_body(message.symbol(), message.time(), message.type_id(), message.body())?;
        self.missed_here = 0;
        self.expected = Some(sequence + 1);
        self.progress.copied += 1;
        self.progress.next_sequence += 1;
        self.since.get_or_insert_with(Instant::now);
        Ok(true)
    }
}

impl Drop for TopicCopy {
    fn drop(&mut self) {
        // A caller that needs the error flushes before.
        let _ = self.flush();
    }
}

/// Most messages of one step.
const STEP_MESSAGES: u32 = 1 << 16;

fn now() -> Timestamp {
    Timestamp(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as i64)
}
