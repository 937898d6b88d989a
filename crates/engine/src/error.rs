//! What can go wrong in the database, by what a caller does about it.

mod connection;
mod message;
mod request;
mod stored;

pub use connection::ConnectionError;
pub use message::Rejected;
pub use request::{Invalid, MissingColumn, NotFound, QueryFailure, Stale};
pub use stored::{LostMessages, SegmentFailure, Unreadable};

use crate::space::catalog::Part;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};
use tapedb_codec::batch::PushError;
use tapedb_codec::dynamic::EncodeError;
use tapedb_log::{Damage, Log, LogError};
use tapedb_schema::SchemaError;
use tapedb_segment::{BlockEntry, SegmentError};

/// A failed operation of the database. Nothing already stored is lost by any of them. What is large is boxed: the hot
/// paths return it.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// What was named is not there: name something else, or create it.
    NotFound(NotFound),
    /// The handle is of a stream as it was: open the stream again.
    Stale(Stale),
    /// Another process, or another handle in this one, has the database open for writing: open it for reading only, or close
    /// the other writer first.
    Locked {
        /// The database.
        path: PathBuf,
        /// URL of the server that has it open, if it is one.
        server: Option<String>,
    },
    /// The database was opened for reading only.
    ReadOnly,
    /// The user of a server lacks a right.
    Denied {
        /// What was asked for, and of what.
        what: String,
    },
    /// The request is not valid: change it.
    Invalid(Invalid),
    /// A message was not appended: correct it, or leave it out.
    Rejected(Rejected),
    /// Stored messages, or the files that describe them, cannot be read. Where messages are concerned, a cursor continues after them.
    Unreadable(Unreadable),
    /// A failure of the log: damage, a full disk, or a log that takes no more messages.
    Log(Box<LogError>),
    /// The system refused an operation.
    Io {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A server cannot be asked: try again, or change how it is reached.
    Connection(ConnectionError),
    /// An error of a server that is none of the others.
    Remote {
        /// Its code in the protocol.
        code: u16,
        /// Its text.
        text: String,
    },
    /// A query failed.
    Query {
        /// What for.
        failure: QueryFailure,
        /// What is wrong, and where.
        what: String,
    },
    /// The caller asked for an early end, with [`interruptible`](crate::interruptible): what was being read or written can be gone on with.
    Interrupted,
    /// The error that an operation ended with, for each caller that asks for its result.
    Repeated(Arc<Self>),
}

impl SegmentFailure {
    /// All messages of a part.
    pub(crate) fn of_part(path: PathBuf, part: &Part, error: SegmentError) -> Error {
        let (first_sequence, next_sequence) = (part.sequences.start, part.sequences.end);
        let messages = part.content.as_ref().map_or(0, |content| content.messages);
        Self { path, first_sequence, next_sequence, messages, error }.into()
    }

    /// All messages of a block.
    pub(crate) fn of_block(path: &Path, block: &BlockEntry, error: SegmentError) -> Error {
        let (first_sequence, next_sequence) = (block.sequence_min, block.sequence_max.saturating_add(1));
        Self { path: path.into(), first_sequence, next_sequence, messages: block.count.into(), error }.into()
    }
}

impl From<SegmentFailure> for Error {
    fn from(failure: SegmentFailure) -> Self {
        Unreadable::Segment(Box::new(failure)).into()
    }
}

impl Error {
    /// The error itself, where it is a [repeated](Error::Repeated) one.
    pub fn first(&self) -> &Self {
        match self {
            Self::Repeated(first) => first.first(),
            error => error,
        }
    }

    pub(crate) fn io<'a>(operation: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Self + 'a {
        move |source| Self::Io { operation, path: path.into(), source }
    }

    /// A segment that could not be written.
    pub(crate) fn not_written(path: &Path, error: SegmentError) -> Self {
        match error {
            SegmentError::Io { source, .. } => Self::Io { operation: "write", path: path.into(), source },
            error => {
                SegmentFailure { path: path.into(), first_sequence: 0, next_sequence: 0, messages: 0, error }
                    .into()
            }
        }
    }

    /// Whether stored messages are damaged: reading can continue after them.
    pub(crate) fn is_damage(&self) -> bool {
        match self {
            Self::Log(error) => matches!(**error, LogError::Damaged { .. }),
            Self::Unreadable(Unreadable::Segment(failure)) => {
                matches!(failure.error, SegmentError::Damaged(_))
            }
            Self::Unreadable(Unreadable::Definition { .. } | Unreadable::Lost(_)) => true,
            _ => false,
        }
    }

    /// How many messages cannot be read, as far as it is known, and the sequence number of the first.
    pub(crate) fn out_of_reach(&self) -> (Option<u64>, u64) {
        match self {
            Self::Log(error) => match &**error {
                LogError::Damaged { damage, .. } => (Some(damage.first_sequence), damage.count.unwrap_or(0)),
                _ => (None, 0),
            },
            Self::Unreadable(Unreadable::Segment(failure)) => {
                (Some(failure.first_sequence), failure.messages)
            }
            Self::Unreadable(Unreadable::Lost(lost)) => (Some(lost.first_sequence), lost.messages),
            _ => (None, 0),
        }
    }

    /// Whether a segment could not be written, because it would not have the messages that it is made from.
    pub(crate) fn is_unfaithful(&self) -> bool {
        let Self::Unreadable(Unreadable::Segment(failure)) = self else { return false };
        matches!(failure.error, SegmentError::Unfaithful(_) | SegmentError::Incomplete { .. })
    }

    /// Whether messages of another version of the schema have no counterpart in this one.
    pub(crate) fn is_conversion(&self) -> bool {
        matches!(self, Self::Invalid(Invalid::Version { .. }) | Self::Unreadable(Unreadable::Convert { .. }))
    }

    /// The message that has no counterpart in another version of the schema, if the error is about one.
    pub(crate) fn unconverted(&self) -> Option<u64> {
        match self {
            Self::Unreadable(Unreadable::Convert { sequence, .. }) => Some(*sequence),
            _ => None,
        }
    }

    /// Whether a cursor gives it once and reading continues behind it.
    pub(crate) fn is_reported_once(&self) -> bool {
        self.is_damage()
            || self.is_conversion()
            || matches!(self, Self::Unreadable(Unreadable::Dropped { .. }))
    }

    /// Whether the stream has been deleted or renamed.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self, Self::Stale(Stale::Deleted { .. } | Stale::Renamed { .. }))
    }

    /// Whether messages are no longer in the log.
    pub(crate) fn is_trimmed(&self) -> bool {
        matches!(self, Self::Log(error) if matches!(**error, LogError::Trimmed { .. }))
    }

    /// Whether a file was not there: another one may have taken its place.
    pub(crate) fn is_missing_file(&self) -> bool {
        match self {
            Self::Log(error) => error.is_gone(),
            Self::Unreadable(Unreadable::Segment(failure)) => {
                matches!(&failure.error, SegmentError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
            }
            _ => false,
        }
    }

    /// Messages of a log that cannot be read.
    pub(crate) fn damaged(log: &Log, damage: Damage) -> Self {
        let path = log.path().join(format!("{:020}.log", damage.file));
        LogError::Damaged { path, damage: Box::new(damage) }.into()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound(error) => write!(f, "{error}"),
            Self::Stale(error) => write!(f, "{error}"),
            Self::Locked { path, server: Some(url) } => write!(
                f,
                "{} is open for writing elsewhere, in a server: write {url} in its place, or open it for reading only",
                path.display()
            ),
            Self::Locked { path, server: None } => write!(
                f,
                "{} is open for writing elsewhere; open it for reading only, or close the other writer first",
                path.display()
            ),
            Self::ReadOnly => f.write_str("the database is open for reading only; open it for writing first"),
            Self::Denied { what } => {
                write!(f, "not allowed: {what}; log in as a user who has the right, or ask for it")
            }
            Self::Invalid(error) => write!(f, "{error}"),
            Self::Rejected(error) => write!(f, "{error}"),
            Self::Unreadable(error) => write!(f, "{error}"),
            Self::Log(error) => write!(f, "{error}"),
            Self::Io { operation, path, source } => {
                write!(f, "cannot {operation} {}: {source}", path.display())
            }
            Self::Connection(error) => write!(f, "{error}"),
            Self::Remote { text, .. } => f.write_str(text),
            Self::Query { what, .. } => f.write_str(what),
            Self::Interrupted => {
                f.write_str("the call was interrupted; nothing is lost, and it can be made again")
            }
            Self::Repeated(first) => write!(f, "{first}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Invalid(Invalid::Schema(error)) => Some(error),
            Self::Invalid(Invalid::Version { error, .. }) => Some(error),
            Self::Rejected(Rejected::Encode(error)) => Some(error),
            Self::Rejected(Rejected::Malformed { error, .. }) => Some(error),
            Self::Rejected(Rejected::Size(error)) => Some(error),
            Self::Unreadable(Unreadable::Segment(failure)) => Some(&failure.error),
            Self::Unreadable(Unreadable::Convert { error, .. }) => Some(error),
            Self::Unreadable(Unreadable::Message { error, .. }) => Some(error),
            Self::Log(error) => Some(error),
            Self::Io { source, .. } => Some(source),
            Self::Repeated(first) => first.source(),
            _ => None,
        }
    }
}

impl From<NotFound> for Error {
    fn from(error: NotFound) -> Self {
        Self::NotFound(error)
    }
}

impl From<Stale> for Error {
    fn from(error: Stale) -> Self {
        Self::Stale(error)
    }
}

impl From<Invalid> for Error {
    fn from(error: Invalid) -> Self {
        Self::Invalid(error)
    }
}

impl From<Rejected> for Error {
    fn from(error: Rejected) -> Self {
        Self::Rejected(error)
    }
}

impl From<Unreadable> for Error {
    fn from(error: Unreadable) -> Self {
        Self::Unreadable(error)
    }
}

impl From<ConnectionError> for Error {
    fn from(error: ConnectionError) -> Self {
        Self::Connection(error)
    }
}

impl From<LogError> for Error {
    fn from(error: LogError) -> Self {
        Self::Log(Box::new(error))
    }
}

impl From<SchemaError> for Error {
    fn from(error: SchemaError) -> Self {
        Invalid::Schema(Box::new(error)).into()
    }
}

impl From<EncodeError> for Error {
    fn from(error: EncodeError) -> Self {
        Rejected::Encode(Box::new(error)).into()
    }
}

impl From<PushError> for Error {
    fn from(error: PushError) -> Self {
        Rejected::Size(error).into()
    }
}

// Hot paths return it for each message: with an error of 56 bytes, a result of up to 8 more is one cache line.
const _: () = assert!(size_of::<Error>() <= 56);
