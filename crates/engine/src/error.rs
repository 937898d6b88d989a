//! What can go wrong in the database, and what to do about it.

use crate::space::catalog::Part;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};
use tapedb_codec::DecodeError;
use tapedb_codec::batch::PushError;
use tapedb_codec::dynamic::EncodeError;
use tapedb_codec::evolve::{EvolveError, IncompatibleSchema};
use tapedb_log::{Damage, Log, LogError};
use tapedb_schema::{SchemaError, Timestamp};
use tapedb_segment::{BlockEntry, SegmentError};

/// A failed operation of the database. Nothing already stored is lost by any of them. What is large is boxed: the hot
/// paths return it.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The directory is not a database, and not one to be made.
    NotADatabase {
        /// The directory.
        path: PathBuf,
        /// What is there instead.
        why: &'static str,
    },
    /// A directory is not to be made the backup of the database. Nothing was changed.
    Backup {
        /// The directory.
        path: PathBuf,
        /// Why not.
        what: String,
    },
    /// Another process, or another handle in this one, has the database open for writing.
    Locked {
        /// The database.
        path: PathBuf,
        /// URL of the server that has it open, if it is one.
        server: Option<String>,
    },
    /// The database was opened for reading only.
    ReadOnly,
    /// A name that a stream cannot have.
    StreamName {
        /// The name.
        name: String,
        /// The rule it breaks.
        rule: &'static str,
    },
    /// There is no such stream.
    NoStream {
        /// The name.
        name: String,
        /// Streams that are there, at most ten.
        known: Vec<String>,
    },
    /// The stream has no such space.
    NoSpace {
        /// The stream.
        stream: String,
        /// The space that was asked for, counted from 0.
        space: u32,
        /// How many there are.
        spaces: u32,
    },
    /// The stream has no such symbol.
    NoSymbol {
        /// The stream.
        stream: Box<str>,
        /// The name that was asked for.
        symbol: Box<str>,
    },
    /// The stream has got another schema since it was opened.
    Outdated {
        /// The stream.
        stream: String,
    },
    /// The stream has been deleted since it was opened.
    Deleted {
        /// The name it had.
        name: String,
    },
    /// The stream has another name by now.
    Renamed {
        /// The name it had.
        name: String,
        /// The name it has.
        new: String,
    },
    /// There is such a stream already.
    StreamExists {
        /// The name.
        name: String,
    },
    /// A file that a stream cannot do without is missing or damaged.
    Definition {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// Options that a stream cannot have, or cannot change to.
    Options {
        /// What is wrong with them, and what to choose.
        what: &'static str,
    },
    /// The schema is not valid.
    Schema(Box<SchemaError>),
    /// The stream's schema and the record do not go together.
    Type {
        /// The stream.
        stream: Box<str>,
        /// The record type.
        record: Box<str>,
        /// What does not fit.
        why: &'static str,
    },
    /// A record type has no such column.
    Field {
        /// The stream.
        stream: Box<str>,
        /// The record type and the path that was asked for.
        field: Box<str>,
        /// The first columns there are.
        known: Vec<String>,
    },
    /// The program's version of a record type cannot be read from the stream's.
    Version {
        /// The stream.
        stream: Box<str>,
        /// The field without a rule.
        error: Box<IncompatibleSchema>,
    },
    /// A message cannot be converted to the program's version of its record type; others may well be.
    Convert {
        /// The stream.
        stream: Box<str>,
        /// The message's sequence number.
        sequence: u64,
        /// What has no counterpart.
        error: Box<EvolveError>,
    },
    /// A value does not fit the schema.
    Encode(Box<EncodeError>),
    /// A message's bytes are not what its record type says.
    Decode {
        /// The stream.
        stream: String,
        /// The message's sequence number; `None` while it is being loaded.
        sequence: Option<u64>,
        /// What is wrong.
        error: Box<DecodeError>,
    },
    /// A message is too large.
    Message(PushError),
    /// The stream refuses messages that are older than the last one it has.
    Late {
        /// The stream.
        stream: String,
        /// Time of the message.
        time: Timestamp,
        /// Time of the last message before it.
        last: Timestamp,
    },
    /// A message that is none of those that are being rewritten.
    Outside {
        /// The stream.
        stream: Box<str>,
        /// Its time.
        time: Timestamp,
        /// Its symbol.
        symbol: Box<str>,
    },
    /// A rewrite through a server that the server does not know: it was started anew meanwhile, or nothing came for too long.
    /// Unless it was being committed, nothing has changed.
    NoRewrite {
        /// The stream.
        stream: Box<str>,
    },
    /// A resume position that does not fit the cursor.
    Position {
        /// What is wrong with it.
        what: String,
    },
    /// A failure of the log.
    Log(Box<LogError>),
    /// A failure of a segment.
    Segment(Box<SegmentFailure>),
    /// Messages that were out of reach when they were sealed. Told once by each reader of their time of arrival.
    Lost(Box<LostMessages>),
    /// Messages of a transient stream went before they were read, for the stream may hold no more
    /// ([`StreamOptions::bytes_max`](crate::StreamOptions::bytes_max)). Told each time a cursor has fallen behind; it goes
    /// on with the oldest there are.
    Dropped {
        /// The stream.
        stream: Box<str>,
        /// How many, of all symbols and types in the cursor's range of times.
        messages: u64,
        /// Sequence number of the oldest message there is.
        first_sequence: u64,
    },
    /// The stream is transient: its messages are in the memory of the process that has the database open for writing.
    Elsewhere {
        /// The stream.
        stream: Box<str>,
    },
    /// A body offered to a stream is not a message of its schema. Nothing of the batch was written.
    Body {
        /// The stream.
        stream: Box<str>,
        /// Which message of the batch, counted from 0.
        row: u64,
        /// What is wrong with it.
        what: Box<str>,
    },
    /// The user of a remote database may not do this.
    Denied {
        /// What was asked for, and of what.
        what: String,
    },
    /// A remote database does not take the connection: credentials, protocol versions, limits.
    Refused {
        /// The database.
        place: String,
        /// What it says.
        why: String,
    },
    /// There is no connection to a remote database, and none could be made. Nothing was done.
    Unreachable {
        /// The database.
        place: String,
        /// What was tried, and what came of it.
        why: String,
    },
    /// The connection to a remote database broke before it answered: it may have done what was asked, or not.
    Disconnected {
        /// The database.
        place: String,
        /// How it ended.
        why: String,
    },
    /// Something that came from a remote database, or from a program that uses this one, means nothing here.
    Protocol {
        /// What came.
        what: String,
    },
    /// An error of a remote database that is none of the others.
    Remote {
        /// Its code in the protocol.
        code: u16,
        /// Its text.
        text: String,
    },
    /// The error that an operation ended with, for each caller that asks for its result.
    Repeated(Arc<Self>),
    /// The system refused an operation.
    Io {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// What is wrong with a segment, and which messages are out of reach by it.
#[derive(Debug)]
pub struct SegmentFailure {
    /// The file.
    pub path: PathBuf,
    /// The messages have sequence numbers from this one …
    pub first_sequence: u64,
    /// … to before this one; others with such numbers may be in reach.
    pub next_sequence: u64,
    /// How many there are.
    pub messages: u64,
    /// What is wrong.
    pub error: SegmentError,
}

/// Messages that were out of reach, by damage to log files, when what could be read was sealed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostMessages {
    /// The directory of the space. The damaged log files are in it still, their names ended by `.log.damaged`.
    pub path: PathBuf,
    /// The messages have sequence numbers from this one …
    pub first_sequence: u64,
    /// … to before this one; others with such numbers are in reach.
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
             it was sealed and are out of reach; what is left of its damaged files is kept beside as .log.damaged"
        )
    }
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
        Self::Segment(Box::new(failure))
    }
}

impl fmt::Display for SegmentFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, first_sequence, next_sequence, messages, error } = self;
        let last = next_sequence.saturating_sub(1);
        let path = path.display();
        match error {
            SegmentError::Damaged(damage) if *messages == 0 => write!(
                f,
                "the index of {path} is damaged: {damage}; all its messages are in reach, and `tapedb repair` makes it anew"
            ),
            SegmentError::Damaged(damage) => write!(
                f,
                "damaged messages in {path}: {damage}; {messages} messages with sequence numbers from {first_sequence} \
                 to {last} are out of reach, reading goes on after them"
            ),
            SegmentError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => write!(
                f,
                "{path} is missing; {messages} messages with sequence numbers from {first_sequence} to {last} are out of \
                 reach, reading goes on after them; restore the file from a copy"
            ),
            SegmentError::Unfaithful(_) => write!(
                f,
                "{path}: {error}. Its messages stay where they are and can be read; please report this with the dump beside"
            ),
            error => write!(f, "{path}: {error}"),
        }
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

    /// Whether stored messages are damaged: reading can go on after them.
    pub(crate) fn is_damage(&self) -> bool {
        match self {
            Self::Log(error) => matches!(**error, LogError::Damaged { .. }),
            Self::Segment(failure) => matches!(failure.error, SegmentError::Damaged(_)),
            Self::Definition { .. } | Self::Lost(_) => true,
            _ => false,
        }
    }

    /// How many messages are out of reach, as far as it is known, and the sequence number of the first.
    pub(crate) fn out_of_reach(&self) -> (Option<u64>, u64) {
        match self {
            Self::Log(error) => match &**error {
                LogError::Damaged { damage, .. } => (Some(damage.first_sequence), damage.count.unwrap_or(0)),
                _ => (None, 0),
            },
            Self::Segment(failure) => (Some(failure.first_sequence), failure.messages),
            Self::Lost(lost) => (Some(lost.first_sequence), lost.messages),
            _ => (None, 0),
        }
    }

    /// Whether a segment could not be written, for it would not be decoded to what it is made from.
    pub(crate) fn is_unfaithful(&self) -> bool {
        matches!(self, Self::Segment(failure) if matches!(failure.error, SegmentError::Unfaithful(_)))
    }

    /// Whether messages of another version of the schema have no counterpart in this one.
    pub(crate) fn is_conversion(&self) -> bool {
        matches!(self, Self::Version { .. } | Self::Convert { .. })
    }

    /// Whether reading goes on behind it: it tells of messages, and once.
    pub(crate) fn is_told_once(&self) -> bool {
        self.is_damage() || self.is_conversion() || matches!(self, Self::Dropped { .. })
    }

    /// Whether the stream is no longer there, at least not under its name.
    pub(crate) fn is_gone(&self) -> bool {
        matches!(self, Self::Deleted { .. } | Self::Renamed { .. })
    }

    /// Whether messages are no longer in the log.
    pub(crate) fn is_trimmed(&self) -> bool {
        matches!(self, Self::Log(error) if matches!(**error, LogError::Trimmed { .. }))
    }

    /// Whether a file was not there: another one may have taken its place.
    pub(crate) fn is_missing_file(&self) -> bool {
        match self {
            Self::Log(error) => error.is_gone(),
            Self::Segment(failure) => {
                matches!(&failure.error, SegmentError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
            }
            _ => false,
        }
    }

    /// Messages of a log that are out of reach.
    pub(crate) fn damaged(log: &Log, damage: Damage) -> Self {
        let path = log.path().join(format!("{:020}.log", damage.file));
        LogError::Damaged { path, damage: Box::new(damage) }.into()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotADatabase { path, why } => {
                write!(f, "{} is not a TapeDB database: {why}", path.display())
            }
            Self::Backup { path, what } => write!(
                f,
                "{} is not overwritten: {what}; name another directory, or say that it is meant \
                 (`tapedb backup --adopt`, `--allow-loss`)",
                path.display()
            ),
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
            Self::StreamName { name, rule } => write!(f, "{name:?} cannot name a stream: {rule}"),
            Self::NoStream { name, known } if known.is_empty() => {
                write!(f, "there is no stream {name:?}; the database has no streams yet")
            }
            Self::NoStream { name, known } => {
                write!(f, "there is no stream {name:?}; there is {}", known.join(", "))
            }
            Self::NoSpace { stream, space, spaces } => {
                write!(f, "stream {stream:?} has no space {space}, for it has {spaces}, counted from 0")
            }
            Self::NoSymbol { stream, symbol } => {
                write!(f, "stream {stream:?} has no symbol {symbol:?}; `symbols` lists those there are")
            }
            Self::Outdated { stream } => {
                write!(f, "stream {stream:?} has got another schema since it was opened; open it anew")
            }
            Self::Deleted { name } => {
                write!(
                    f,
                    "stream {name:?} has been deleted; open the one of that name, if there is a new one"
                )
            }
            Self::Renamed { name, new } => {
                write!(f, "stream {name:?} is called {new:?} now; open it by that name")
            }
            Self::StreamExists { name } => {
                write!(f, "there is a stream {name:?} already; open it, or delete it first")
            }
            Self::Definition { path, what } => {
                write!(f, "{}: {what}; restore the file from a copy", path.display())
            }
            Self::Options { what } => f.write_str(what),
            Self::Schema(error) => write!(f, "schema: {error}"),
            Self::Type { stream, record, why } => {
                write!(f, "stream {stream:?}, record type {record:?}: {why}")
            }
            Self::Version { stream, error } => {
                write!(f, "stream {stream:?} has another version of the program's type: {error}")
            }
            Self::Convert { stream, sequence, error } => {
                write!(f, "stream {stream:?}, message {sequence}: {error}")
            }
            Self::Encode(error) => write!(f, "not appended: {error}"),
            Self::Decode { stream, sequence: Some(sequence), error } => {
                write!(f, "stream {stream:?}, message {sequence}: {error}")
            }
            Self::Decode { stream, sequence: None, error } => {
                write!(f, "not appended to stream {stream:?}: {error}")
            }
            Self::Message(error) => write!(f, "not appended: {error}"),
            Self::Field { stream, field, known } => {
                write!(f, "stream {stream:?} has no column {field}; there is {}", known.join(", "))
            }
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
            Self::NoRewrite { stream } => write!(
                f,
                "the server does not know the rewrite of stream {stream:?} any more: it was started anew, or nothing came for \
                 minutes; nothing was changed, begin it again"
            ),
            Self::Position { what } => write!(f, "cannot resume: {what}"),
            Self::Log(error) => write!(f, "{error}"),
            Self::Segment(failure) => write!(f, "{failure}"),
            Self::Lost(lost) => write!(f, "{lost}"),
            Self::Dropped { stream, messages, first_sequence } => write!(
                f,
                "{messages} messages of transient stream {stream:?} went before they were read; reading goes on with message \
                 {first_sequence}, the oldest there is; read faster, or create the stream with a larger bytes_max"
            ),
            Self::Elsewhere { stream } => write!(
                f,
                "the messages of transient stream {stream:?} are in the memory of the process that writes it; read them there"
            ),
            Self::Body { stream, row, what } => {
                write!(f, "not appended to stream {stream:?}: row {row} of the batch: {what}")
            }
            Self::Denied { what } => {
                write!(f, "not allowed: {what}; log in as a user who has the right, or ask for it")
            }
            Self::Refused { place, why } => write!(f, "{place} does not take the connection: {why}"),
            Self::Unreachable { place, why } => {
                write!(f, "{place} cannot be reached: {why}; check the address, and that the server runs")
            }
            Self::Disconnected { place, why } => write!(
                f,
                "the connection to {place} ended before the answer came ({why}); look whether it was done, and try again"
            ),
            Self::Protocol { what } => write!(f, "{what}; are client and server of one version?"),
            Self::Remote { text, .. } => f.write_str(text),
            Self::Repeated(first) => write!(f, "{first}"),
            Self::Io { operation, path, source } => {
                write!(f, "cannot {operation} {}: {source}", path.display())
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Schema(error) => Some(error),
            Self::Version { error, .. } => Some(error),
            Self::Convert { error, .. } => Some(error),
            Self::Encode(error) => Some(error),
            Self::Decode { error, .. } => Some(error),
            Self::Message(error) => Some(error),
            Self::Log(error) => Some(error),
            Self::Segment(failure) => Some(&failure.error),
            Self::Io { source, .. } => Some(source),
            Self::Repeated(first) => first.source(),
            _ => None,
        }
    }
}

impl From<LogError> for Error {
    fn from(error: LogError) -> Self {
        Self::Log(Box::new(error))
    }
}

impl From<SchemaError> for Error {
    fn from(error: SchemaError) -> Self {
        Self::Schema(Box::new(error))
    }
}

impl From<EncodeError> for Error {
    fn from(error: EncodeError) -> Self {
        Self::Encode(Box::new(error))
    }
}

impl From<PushError> for Error {
    fn from(error: PushError) -> Self {
        Self::Message(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_stay_small() {
        assert!(size_of::<Error>() <= 56, "{}", size_of::<Error>());
    }
}
