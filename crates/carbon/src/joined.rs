//! History from a carbon copy, then the topic, without a gap and without a message twice.
//!
//! The copy is read until it has nothing more; only then the topic is subscribed to, from the oldest message it has, so that
//! nobody waits for this subscriber meanwhile. The marks say which message of the stream that is. What is missing before it
//! still comes from the copy; what the copy gave already is passed by in the topic.

use crate::error::FeedError;
use crate::feed::FeedMessage;
use crate::marks::Marks;
use std::time::{Duration, Instant};
use tapedb_engine::{Cursor, CursorBuilder, Database};
use tapedb_topic::{Subscriber, SubscriberBuilder, Topic};

/// How long the copy is waited for when it is not as far as the topic's oldest message.
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
    /// The message of the topic from which on the topic is read, once it is subscribed to.
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
    /// Joins `stream`, the copy of `topic` in `db`, and the topic. `history` says where in the copy it begins and which
    /// messages are asked for, and the same is asked of `live`; it is opened here, live.
    ///
    /// # Errors
    /// When the stream is no copy, and the engine's.
    pub fn open(
        topic: &Topic,
        db: &Database,
        stream: &str,
        history: CursorBuilder,
        live: SubscriberBuilder,
    ) -> Result<Self, FeedError> {
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
    /// The engine's and the topic's. [`FeedError::Behind`] when the copy does not come as far as the topic reaches back.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "it lends its messages, which an iterator cannot")]
    pub fn next(&mut self) -> Result<Option<FeedMessage<'_>>, FeedError> {
        self.advance()?;
        Ok(self.current())
    }

    /// The next message, waited for at most `timeout`.
    ///
    /// # Errors
    /// As [`Joined::next`].
    #[inline]
    pub fn next_within(&mut self, timeout: Duration) -> Result<Option<FeedMessage<'_>>, FeedError> {
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

    /// Whether messages come from the topic already.
    pub fn is_live(&self) -> bool {
        self.stage == Stage::Topic
    }

    fn current(&self) -> Option<FeedMessage<'_>> {
        match &self.subscriber {
            Some(subscriber) if self.stage == Stage::Topic => subscriber.current().map(FeedMessage::Topic),
            _ => self.cursor.current().map(FeedMessage::Stream),
        }
    }

    #[inline]
    fn advance(&mut self) -> Result<bool, FeedError> {
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

    /// Goes on in the copy, up to the message that the topic has too. `None`: there it is; go on in the topic.
    fn advance_up_to(&mut self, sequence: u64) -> Result<Option<bool>, FeedError> {
        if self.cursor.next()?.is_some_and(|message| message.sequence() < sequence) {
            return Ok(Some(true));
        }
        // All before it was there when the topic was subscribed to, so it has been looked at.
        self.stage = Stage::Topic;
        Ok(None)
    }

    /// Subscribes to the topic, and finds out which message there is the next one of the copy. Whether that could be done.
    fn subscribe(&mut self) -> Result<bool, FeedError> {
        if let Some(builder) = self.builder.take() {
            let subscriber = builder.open()?;
            self.from = subscriber.next_sequence();
            self.subscriber = Some(subscriber);
        }
        // In this order: marks come before what they are about.
        let has = self.db.stream(&self.stream)?.stats()?.next_sequence;
        let marks = Marks::read(&self.db, &self.stream)?;
        let id = self.topic.id();
        let last = has.checked_sub(1).and_then(|last| marks.at(last)).filter(|mark| mark.topic == id);
        let next = last.map(|mark| mark.first + (has - mark.sequence));
        if marks.place(id, self.from).is_none_or(|place| place > has) {
            let since = *self.waiting_since.get_or_insert_with(Instant::now);
            if since.elapsed() < COPY_WAIT {
                return Ok(false);
            }
            let (stream, need) = (self.stream.clone(), self.from);
            return Err(FeedError::Behind { stream, has: next.unwrap_or(0), need });
        }
        self.from = next.map_or(self.from, |next| next.max(self.from));
        self.stage = Stage::UpTo { sequence: has };
        Ok(true)
    }
}
