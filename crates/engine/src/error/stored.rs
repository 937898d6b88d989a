//! Errors of stored messages.

use crate::objects::store::ObjectError;
use std::path::PathBuf;
use std::{fmt, io};
use tapedb_codec::DecodeError;
use tapedb_codec::evolve::EvolveError;
use tapedb_segment::SegmentError;

/// Stored messages, or the files that describe them, cannot be read. Where messages are concerned, a cursor continues after them.
#[derive(Debug)]
#[non_exhaustive]
pub enum Unreadable {
    /// A file that a stream cannot do without is missing or damaged: restore it from a copy.
    Definition {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A failure of a segment.
    Segment(Box<SegmentFailure>),
    /// Messages that could not be read when they were sealed. A cursor gives it once.
    Lost(Box<LostMessages>),
    /// Messages of a transient stream were dropped before they were read, because the stream may hold no more
    /// ([`StreamOptions::bytes_max`](crate::StreamOptions::bytes_max)). A cursor gives it each time it has fallen behind, and goes
    /// on with the oldest message there is.
    Dropped {
        /// The stream.
        stream: Box<str>,
        /// How many, of all symbols and types in the cursor's range of times.
        messages: u64,
        /// Sequence number of the oldest message there is.
        first_sequence: u64,
    },
    /// A message cannot be converted to the program's version of its record type. Other messages may be convertible.
    Convert {
        /// The stream.
        stream: Box<str>,
        /// The message's sequence number.
        sequence: u64,
        /// What has no counterpart.
        error: Box<EvolveError>,
    },
    /// A message's bytes are not what its record type says.
    Message {
        /// The stream.
        stream: String,
        /// The message's sequence number.
        sequence: u64,
        /// What is wrong.
        error: Box<DecodeError>,
    },
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Definition { path, what } => {
                write!(f, "{}: {what}; restore the file from a copy", path.display())
            }
            Self::Segment(failure) => write!(f, "{failure}"),
            Self::Lost(lost) => write!(f, "{lost}"),
            Self::Dropped { stream, messages, first_sequence } => write!(
                f,
                "{messages} messages of transient stream {stream:?} were dropped before they were read; reading continues with \
                 message {first_sequence}, the oldest there is; read faster, or create the stream with a larger bytes_max"
            ),
            Self::Convert { stream, sequence, error } => {
                write!(f, "stream {stream:?}, message {sequence}: {error}")
            }
            Self::Message { stream, sequence, error } => {
                write!(f, "stream {stream:?}, message {sequence}: {error}")
            }
        }
    }
}

/// What is wrong with a segment, and which messages cannot be read by it.
#[derive(Debug)]
pub struct SegmentFailure {
    /// The file.
    pub path: PathBuf,
    /// The messages have sequence numbers from this one …
    pub first_sequence: u64,
    /// … to before this one; others with such numbers may be readable.
    pub next_sequence: u64,
    /// How many there are.
    pub messages: u64,
    /// What is wrong.
    pub error: SegmentError,
}

/// Messages that could not be read, by damage to log files, when what could be read was sealed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostMessages {
    /// The directory of the space. The damaged log files are in it still, their names ended by `.log.damaged`.
    pub path: PathBuf,
    /// The messages have sequence numbers from this one …
    pub first_sequence: u64,
    /// … to before this one; others with such numbers can be read.
    pub next_sequence: u64,
    /// How many there are.
    pub messages: u64,
}

impl fmt::Display for LostMessages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, first_sequence, next_sequence, messages } = self;
        let (path, last) = (path.display(), next_sequence.saturating_sub(1));
        write!(
            f,
            "{messages} messages with sequence numbers from {first_sequence} to {last} were damaged in the log of {path} when \
             it was sealed, and cannot be read; what is left of its damaged files is kept beside as .log.damaged"
        )
    }
}

/// Whether an object store gave the error.
fn is_of_store(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<ObjectError>())
}

impl fmt::Display for SegmentFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, first_sequence, next_sequence, messages, error } = self;
        let last = next_sequence.saturating_sub(1);
        let path = path.display();
        match error {
            SegmentError::Damaged(damage) if *messages == 0 => write!(
                f,
                "the index of {path} is damaged: {damage}; all its messages can be read, and `tapedb repair` rebuilds it"
            ),
            SegmentError::Damaged(damage) => write!(
                f,
                "damaged messages in {path}: {damage}; {messages} messages with sequence numbers from {first_sequence} \
                 to {last} cannot be read; reading continues after them"
            ),
            SegmentError::Io { source, .. } if is_of_store(source) => write!(
                f,
                "{path}, {messages} messages with sequence numbers from {first_sequence} to {last}: {source}"
            ),
            SegmentError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => write!(
                f,
                "{path} is missing; {messages} messages with sequence numbers from {first_sequence} to {last} cannot be \
                 read; reading continues after them; restore the file from a copy"
            ),
            SegmentError::Unfaithful(_) => write!(
                f,
                "{path}: {error}. Its messages stay where they are and can be read; please report this with the dump beside"
            ),
            SegmentError::Incomplete { .. } => write!(
                f,
                "{path}: {error}. Its messages stay where they are and can be read; please report this with the server's log"
            ),
            error => write!(f, "{path}: {error}"),
        }
    }
}
