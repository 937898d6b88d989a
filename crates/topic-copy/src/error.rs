//! What can go wrong between topics and streams.

use std::fmt;
use tapedb_engine::Error;
use tapedb_topic::TopicError;

/// Errors of topic copies and cursors over topics.
#[derive(Debug)]
#[non_exhaustive]
pub enum CopyError {
    /// Of the stream.
    Stream(Error),
    /// Of the topic.
    Topic(TopicError),
    /// The stream cannot be a copy of the topic.
    NoCopy {
        /// The stream.
        stream: String,
        /// What does not fit.
        why: &'static str,
    },
    /// The copy does not reach the oldest message of the topic's ring: it is not running, or too far behind.
    Behind {
        /// The stream.
        stream: String,
        /// Sequence number in the topic up to which the copy has its messages.
        has: u64,
        /// Sequence number of the oldest message that the topic still holds.
        need: u64,
    },
}

impl fmt::Display for CopyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream(error) => error.fmt(f),
            Self::Topic(error) => error.fmt(f),
            Self::NoCopy { stream, why } => {
                write!(f, "stream {stream:?} cannot be a copy of the topic: {why}")
            }
            Self::Behind { stream, has, need } => write!(
                f,
                "the copy {stream:?} ends at message {has} of the topic, which holds none before {need}; \
                 check that `tapedb topic copy` runs"
            ),
        }
    }
}

impl std::error::Error for CopyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Stream(error) => Some(error),
            Self::Topic(error) => Some(error),
            _ => None,
        }
    }
}

impl From<Error> for CopyError {
    fn from(error: Error) -> Self {
        Self::Stream(error)
    }
}

impl From<TopicError> for CopyError {
    fn from(error: TopicError) -> Self {
        Self::Topic(error)
    }
}
