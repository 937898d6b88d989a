//! History from a topic's copy, then the topic, without a gap and without a message twice.
//!
//! The copy is read to its end. Only then the topic is subscribed to, from its oldest message, so that no publisher waits for
//! this subscriber before. The marks state which message of the stream that is. Messages missing before it still come from the
//! copy; messages that the copy has returned already are skipped in the topic.

use crate::error::CopyError;
use crate::marks::Marks;
use crate::message::AnyMessage;
use std::time::{Duration, Instant};
use tapedb_engine::{Cursor, CursorBuilder, Database};
use tapedb_topic::{Subscriber, SubscriberBuilder, Topic};

/// How long to wait for a copy that does not reach the topic's oldest message.
const COPY_WAIT: Duration = Duration::from_secs(5);

/// Reads the copy, then the topic.
#[derive(Debug)]
pub struct Joined {
    db: Database,
    stream: String,
    topic: Topic,
    builder: Option<SubscriberBuilder>,
    cursor: Cursor,
    subscriber: Option<Subscriber>,
    /// The message from which on the topic is read, once it is subscribed to.
    from: u64,
    waiting_since: Option<Instant>,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Reading the copy.
    Copy,
    /// Reading the copy up to this message of the stream, with the topic subscribed to.
    UpTo {
        sequence: u64,
    },
    Topic,
}

impl Joined {
    /// Joins `stream`, the copy of `topic` in `db`, and the topic. `history` defines where in the copy to begin and which
    /// messages to read, and `live` must have the same filters; the cursor is opened here, live.
    ///
    /// # Errors
    /// When the stream is no copy, and the engine's.
    pub fn open(
        topic: &Topic,
        db: &Database,
        stream: &str,
        history: CursorBuilder,
        live: SubscriberBuilder,
    ) -> Result<Self, CopyError> {
        Marks::read(db, stream)?;
        Ok(Self {
            db: db.clone(),
            stream: stream.into(),
            topic: topic.clone(),
            builder: Some(live.from_oldest()),
            cursor: history.live().open()?,
            subscriber: None,
            from: 0,
            waiting_since: None,
            stage: Stage::Copy,
        })
    }

    /// The next message, if there is one.
    ///
    /// # Errors
    /// The engine's and the topic's. [`CopyError::Behind`] when the copy does not reach the oldest message of the topic.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "it lends its messages, which an iterator cannot")]
    pub fn next(&mut self) -> Result<Option<AnyMessage<'_>>, CopyError> {
        self.advance()?;
        Ok(self.current())
    }

    /// The next message, waited for at most `timeout`.
    ///
    /// # Errors
    /// As [`Joined::next`].
    #[inline]
    pub fn next_within(&mut self, timeout: Duration) -> Result<Option<AnyMessage<'_>>, CopyError> {
        let deadline = Instant::now().checked_add(timeout);
        while !self.advance()? {
            let left = deadline.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                break;
            }
            match (&mut self.subscriber, self.stage) {
                (Some(subscriber), Stage::Topic) => subscriber.wait(left),
                _ => self.cursor.wait(left.min(Duration::from_millis(10)))?,
            }
        }
        Ok(self.current())
    }

    /// Whether messages come from the topic now.
    pub fn is_live(&self) -> bool {
        self.stage == Stage::Topic
    }

    fn current(&self) -> Option<AnyMessage<'_>> {
        match &self.subscriber {
            Some(subscriber) if self.stage == Stage::Topic => subscriber.current().map(AnyMessage::Topic),
            _ => self.cursor.current().map(AnyMessage::Stream),
        }
    }

    #[inline]
    fn advance(&mut self) -> Result<bool, CopyError> {
        loop {
            match (self.stage, &mut self.subscriber) {
                (Stage::Topic, Some(subscriber)) => {
                    while let Some(message) = subscriber.next()? {
                        if message.sequence() >= self.from {
                            return Ok(true);
                        }
                    }
                    return Ok(false);
                }
                (Stage::UpTo { sequence }, _) => {
                    if let Some(found) = self.advance_up_to(sequence)? {
                        return Ok(found);
                    }
                }
                _ => {
                    if self.cursor.next()?.is_some() {
                        return Ok(true);
                    }
                    if !self.subscribe()? {
                        return Ok(false);
                    }
                }
            }
        }
    }

    /// Reads the copy, up to the message that the topic has too. `None`: it is reached; go on in the topic.
    fn advance_up_to(&mut self, sequence: u64) -> Result<Option<bool>, CopyError> {
        if self.cursor.next()?.is_some_and(|message| message.sequence() < sequence) {
            return Ok(Some(true));
        }
        // All messages before it were there when the topic was subscribed to, so all have been read.
        self.stage = Stage::Topic;
        Ok(None)
    }

    /// Subscribes to the topic, and finds its message that is the next one of the copy. Whether it succeeded.
    fn subscribe(&mut self) -> Result<bool, CopyError> {
        if let Some(builder) = self.builder.take() {
            let subscriber = builder.open()?;
            self.from = subscriber.next_sequence();
            self.subscriber = Some(subscriber);
        }
        // In this order: a mark is written before its messages.
        let has = self.db.stream(&self.stream)?.stats()?.next_sequence;
        let marks = Marks::read(&self.db, &self.stream)?;
        let id = self.topic.id();
        let last = has.checked_sub(1).and_then(|last| marks.at(last)).filter(|mark| mark.topic == id);
        let next = last.map(|mark| mark.first + (has - mark.sequence));
        if marks.sequence_of(id, self.from).is_none_or(|sequence| sequence > has) {
            let since = *self.waiting_since.get_or_insert_with(Instant::now);
            if since.elapsed() < COPY_WAIT {
                return Ok(false);
            }
            let (stream, need) = (self.stream.clone(), self.from);
            return Err(CopyError::Behind { stream, has: next.unwrap_or(0), need });
        }
        self.from = next.map_or(self.from, |next| next.max(self.from));
        self.stage = Stage::UpTo { sequence: has };
        Ok(true)
    }
}
