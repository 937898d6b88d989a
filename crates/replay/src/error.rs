//! What can go wrong with a replay.

use std::fmt;
use tapedb_topic::TopicError;

/// Errors of replays.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReplayError {
    /// Of a stream.
    Stream(tapedb_engine::Error),
    /// Of a topic.
    Topic(TopicError),
    /// The target cannot hold the messages of a stream: its record types are others.
    OtherTypes {
        /// The stream.
        stream: String,
        /// The stream or topic to replay into.
        target: String,
    },
    /// The target is one of the streams that are replayed, or a copy of it.
    Itself {
        /// The stream.
        stream: String,
    },
    /// The cursor reads a stream that the sink has no target for.
    NoRoute {
        /// The stream.
        stream: String,
    },
    /// Another sink's.
    Sink(Box<dyn std::error::Error + Send + Sync>),
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream(error) => error.fmt(f),
            Self::Topic(error) => error.fmt(f),
            Self::OtherTypes { stream, target } => write!(
                f,
                "{target:?} has other record types than stream {stream:?}; replay into one with the same schema"
            ),
            Self::Itself { stream } => {
                write!(
                    f,
                    "stream {stream:?} cannot be replayed into itself or a copy of itself; name another target"
                )
            }
            Self::NoRoute { stream } => {
                write!(f, "no target is known for stream {stream:?}; name it when the sink is made")
            }
            Self::Sink(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ReplayError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Stream(error) => Some(error),
            Self::Topic(error) => Some(error),
            Self::Sink(error) => Some(&**error),
            Self::OtherTypes { .. } | Self::Itself { .. } | Self::NoRoute { .. } => None,
        }
    }
}

impl From<tapedb_engine::Error> for ReplayError {
    fn from(error: tapedb_engine::Error) -> Self {
        Self::Stream(error)
    }
}

impl From<TopicError> for ReplayError {
    fn from(error: TopicError) -> Self {
        Self::Topic(error)
    }
}
