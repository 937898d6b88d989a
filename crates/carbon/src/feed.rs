//! One reader for streams and topics.

use crate::error::FeedError;
use crate::joined::Joined;
use std::time::Duration;
use tapedb_codec::Record;
use tapedb_codec::dynamic::RecordRef;
use tapedb_engine::{Cursor, Message};
use tapedb_schema::Timestamp;
use tapedb_topic::{Subscriber, TopicMessage};

/// Reads a stream, a topic, or both one after the other. A strategy that takes a feed does not know which.
#[derive(Debug)]
#[non_exhaustive]
pub enum Feed {
    /// A stream, or several.
    Stream(Box<Cursor>),
    /// A topic.
    Topic(Box<Subscriber>),
    /// History from a topic's carbon copy, then the topic.
    Joined(Box<Joined>),
}

impl From<Cursor> for Feed {
    fn from(cursor: Cursor) -> Self {
        Self::Stream(Box::new(cursor))
    }
}

impl From<Subscriber> for Feed {
    fn from(subscriber: Subscriber) -> Self {
        Self::Topic(Box::new(subscriber))
    }
}

impl From<Joined> for Feed {
    fn from(joined: Joined) -> Self {
        Self::Joined(Box::new(joined))
    }
}

impl Feed {
    /// The next message, if there is one.
    ///
    /// # Errors
    /// As [`Cursor::next`], [`Subscriber::next`] and [`Joined::next`].
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "it lends its messages, which an iterator cannot")]
    pub fn next(&mut self) -> Result<Option<FeedMessage<'_>>, FeedError> {
        match self {
            Self::Stream(cursor) => Ok(cursor.next()?.map(FeedMessage::Stream)),
            Self::Topic(subscriber) => Ok(subscriber.next()?.map(FeedMessage::Topic)),
            Self::Joined(joined) => joined.next(),
        }
    }

    /// The next message, waited for at most `timeout`.
    ///
    /// # Errors
    /// As [`Feed::next`].
    #[inline]
    pub fn next_within(&mut self, timeout: Duration) -> Result<Option<FeedMessage<'_>>, FeedError> {
        match self {
            Self::Stream(cursor) => Ok(cursor.next_within(timeout)?.map(FeedMessage::Stream)),
            Self::Topic(subscriber) => Ok(subscriber.next_within(timeout)?.map(FeedMessage::Topic)),
            Self::Joined(joined) => joined.next_within(timeout),
        }
    }
}

/// A message of a feed: valid until the feed moves on.
#[derive(Debug, Clone, Copy)]
pub enum FeedMessage<'a> {
    /// From a stream.
    Stream(Message<'a>),
    /// From a topic.
    Topic(TopicMessage<'a>),
}

macro_rules! either {
    ($self:ident, $message:ident => $get:expr) => {
        match $self {
            Self::Stream($message) => $get,
            Self::Topic($message) => $get,
        }
    };
}

impl<'a> FeedMessage<'a> {
    /// Time.
    #[inline]
    pub fn time(&self) -> Timestamp {
        either!(self, message => message.time())
    }

    /// Symbol.
    #[inline]
    pub fn symbol(&self) -> &'a str {
        either!(self, message => message.symbol())
    }

    /// Sequence number, in its stream or in its topic.
    #[inline]
    pub fn sequence(&self) -> u64 {
        either!(self, message => message.sequence())
    }

    /// Index of the record type in the schema.
    #[inline]
    pub fn type_id(&self) -> u16 {
        either!(self, message => message.type_id())
    }

    /// Name of the record type.
    pub fn type_name(&self) -> &'a str {
        either!(self, message => message.type_name())
    }

    /// The body in its bytes. Not validated.
    #[inline]
    pub fn body(&self) -> &'a [u8] {
        either!(self, message => message.body())
    }

    /// The record, if it is a `T`, of whatever version.
    ///
    /// # Errors
    /// As [`Message::decode`] and [`TopicMessage::decode`].
    #[inline]
    pub fn decode<T: Record + 'static>(&self) -> Result<T, FeedError> {
        Ok(either!(self, message => message.decode()?))
    }

    /// Replaces `value` by the record, if it is a `T`, reusing what `value` has allocated.
    ///
    /// # Errors
    /// As [`FeedMessage::decode`].
    #[inline]
    pub fn decode_into<T: Record + 'static>(&self, value: &mut T) -> Result<(), FeedError> {
        either!(self, message => message.decode_into(value)?);
        Ok(())
    }

    /// Validates the record, if it is a `T`, and reads it in place.
    ///
    /// # Errors
    /// As [`Message::view`] and [`TopicMessage::view`].
    #[inline]
    pub fn view<T: Record + 'static>(&self) -> Result<T::View<'a>, FeedError> {
        Ok(either!(self, message => message.view::<T>()?))
    }

    /// Validates the record, of whatever type it is, and reads it in place.
    ///
    /// # Errors
    /// When the bytes are damaged.
    pub fn record(&self) -> Result<RecordRef<'a>, FeedError> {
        Ok(either!(self, message => message.record()?))
    }
}
