//! One cursor for streams and topics.

use crate::error::CopyError;
use crate::joined::Joined;
use crate::message::AnyMessage;
use std::time::Duration;
use tapedb_engine::Cursor;
use tapedb_topic::Subscriber;

/// Reads a stream, a topic, or both one after the other. A strategy that uses it need not know which.
#[derive(Debug)]
#[non_exhaustive]
pub enum AnyCursor {
    /// A stream, or several.
    Stream(Box<Cursor>),
    /// A topic.
    Topic(Box<Subscriber>),
    /// History from a topic's copy, then the topic.
    Joined(Box<Joined>),
}

impl From<Cursor> for AnyCursor {
    fn from(cursor: Cursor) -> Self {
        Self::Stream(Box::new(cursor))
    }
}

impl From<Subscriber> for AnyCursor {
    fn from(subscriber: Subscriber) -> Self {
        Self::Topic(Box::new(subscriber))
    }
}

impl From<Joined> for AnyCursor {
    fn from(joined: Joined) -> Self {
        Self::Joined(Box::new(joined))
    }
}

impl AnyCursor {
    /// The next message, if there is one.
    ///
    /// # Errors
    /// As [`Cursor::next`], [`Subscriber::next`] and [`Joined::next`].
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "it lends its messages, which an iterator cannot")]
    pub fn next(&mut self) -> Result<Option<AnyMessage<'_>>, CopyError> {
        match self {
            Self::Stream(cursor) => Ok(cursor.next()?.map(AnyMessage::Stream)),
            Self::Topic(subscriber) => Ok(subscriber.next()?.map(AnyMessage::Topic)),
            Self::Joined(joined) => joined.next(),
        }
    }

    /// The next message, waited for at most `timeout`.
    ///
    /// # Errors
    /// As [`AnyCursor::next`].
    #[inline]
    pub fn next_within(&mut self, timeout: Duration) -> Result<Option<AnyMessage<'_>>, CopyError> {
        match self {
            Self::Stream(cursor) => Ok(cursor.next_within(timeout)?.map(AnyMessage::Stream)),
            Self::Topic(subscriber) => Ok(subscriber.next_within(timeout)?.map(AnyMessage::Topic)),
            Self::Joined(joined) => joined.next_within(timeout),
        }
    }
}
