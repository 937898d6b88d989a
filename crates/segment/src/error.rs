//! Why a segment cannot be written or read.

use crate::damage::Damage;
use crate::mismatch::Mismatch;
use std::fmt;
use std::io;

/// Why a segment cannot be written or read.
#[derive(Debug)]
#[non_exhaustive]
pub enum SegmentError {
    /// The system refused to read or write.
    Io {
        /// Offset in the file.
        offset: u64,
        /// The system's error.
        source: io::Error,
    },
    /// Bytes are damaged.
    Damaged(Damage),
    /// A message given to the writer does not follow the one before, by time and then by sequence number.
    OutOfOrder {
        /// Time and sequence number of the message before.
        before: (i64, u64),
        /// Time and sequence number of the message.
        given: (i64, u64),
    },
    /// A message body is longer than a block may be.
    TooLong {
        /// The most bytes.
        need: usize,
        /// Bytes of the body.
        have: usize,
    },
    /// A limit of the file is reached: seal it and continue in another one.
    Full {
        /// What there is too much of.
        what: &'static str,
        /// The most there may be.
        most: u64,
    },
    /// A block is not decoded to the rows that it was made from, not even in the plainest encoding: discard the file, and
    /// keep its source.
    Unfaithful(Box<Mismatch>),
    /// A segment has not as many messages as its sources: discard the file, and keep them. The writer does not give it: its caller
    /// compares [`Written::messages`](crate::Written::messages).
    Incomplete {
        /// Messages that the segment must have.
        need: u64,
        /// Messages that were written.
        have: u64,
    },
    /// There is no such block or column.
    Unknown {
        /// What was requested.
        what: &'static str,
        /// How many there are.
        need: u64,
        /// The requested number.
        have: u64,
    },
}

impl fmt::Display for SegmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { offset, source } => write!(f, "segment offset {offset}: {source}"),
            Self::Damaged(damage) => write!(f, "segment is damaged: {damage}"),
            Self::OutOfOrder { before, given } => write!(
                f,
                "message {} of time {} does not follow message {} of time {}: sort by time, then by sequence",
                given.1, given.0, before.1, before.0
            ),
            Self::TooLong { need, have } => {
                write!(f, "message body has {have} bytes, at most {need} are allowed")
            }
            Self::Full { what, most } => {
                write!(f, "segment is full: it has {most} {what}; begin another one")
            }
            Self::Unfaithful(mismatch) => write!(
                f,
                "segment is not written, for a block is not decoded to what it was made from, not even in the plainest \
                 encoding: {mismatch}"
            ),
            Self::Incomplete { need, have } => {
                write!(
                    f,
                    "segment is not written, for it would have {have} messages, and its sources have {need}"
                )
            }
            Self::Unknown { what, need, have } => write!(f, "no {what} {have}: there are {need}"),
        }
    }
}

impl std::error::Error for SegmentError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl From<Damage> for SegmentError {
    fn from(damage: Damage) -> Self {
        Self::Damaged(damage)
    }
}
