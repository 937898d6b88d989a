//! Errors of messages that were not appended.

use std::fmt;
use tapedb_codec::DecodeError;
use tapedb_codec::batch::{Misfit, PushError};
use tapedb_codec::dynamic::EncodeError;
use tapedb_schema::Timestamp;

/// A message was not appended: correct it, or leave it out.
#[derive(Debug)]
#[non_exhaustive]
pub enum Rejected {
    /// The stream refuses messages that are older than the last one it has.
    Late {
        /// The stream.
        stream: String,
        /// Time of the message.
        time: Timestamp,
        /// Time of the last message before it.
        last: Timestamp,
    },
    /// The message is none of those that are being rewritten.
    Outside {
        /// The stream.
        stream: Box<str>,
        /// Its time.
        time: Timestamp,
        /// Its symbol.
        symbol: Box<str>,
    },
    /// A value does not fit the schema.
    Encode(Box<EncodeError>),
    /// The message is too large.
    Size(PushError),
    /// The message's bytes are not what its record type says.
    Malformed {
        /// The stream.
        stream: String,
        /// What is wrong.
        error: Box<DecodeError>,
    },
    /// A column, or a value of it, does not fit the record type. Nothing of the call was appended.
    Columns {
        /// The stream.
        stream: Box<str>,
        /// Which column and row, and what is wrong.
        misfit: Box<Misfit>,
    },
    /// A message of a batch is not one of the stream's schema. Nothing of the batch was written.
    Body {
        /// The stream.
        stream: Box<str>,
        /// Which message of the batch, counted from 0.
        row: u64,
        /// What is wrong with it.
        what: Box<str>,
    },
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Late { stream, time, last } => write!(
                f,
                "stream {stream:?} refuses late messages: {time} is before {last}; append in time order, or create \
                 the stream with late messages accepted"
            ),
            Self::Outside { stream, time, symbol } => write!(
                f,
                "a message of {symbol:?} at {time} is none of those of stream {stream:?} that are being rewritten; leave it \
                 out, or rewrite its time and symbol too"
            ),
            Self::Encode(error) => write!(f, "not appended: {error}"),
            Self::Size(error) => write!(f, "not appended: {error}"),
            Self::Malformed { stream, error } => write!(f, "not appended to stream {stream:?}: {error}"),
            Self::Columns { stream, misfit } => write!(f, "nothing appended to stream {stream:?}: {misfit}"),
            Self::Body { stream, row, what } => {
                write!(f, "not appended to stream {stream:?}: row {row} of the batch: {what}")
            }
        }
    }
}
