//! Errors of requests: the caller names something else, opens the stream again, or changes what it asks for.

use std::fmt;
use std::path::PathBuf;
use tapedb_codec::evolve::IncompatibleSchema;
use tapedb_schema::SchemaError;

/// What was named is not there: name something else, or create it.
#[derive(Debug)]
#[non_exhaustive]
pub enum NotFound {
    /// The directory is not a database, and none can be made of it.
    Database {
        /// The directory.
        path: PathBuf,
        /// What is there instead.
        why: &'static str,
    },
    /// There is no such stream.
    Stream {
        /// The name.
        name: String,
        /// Streams that are there, at most ten.
        known: Vec<String>,
    },
    /// The stream has no such space.
    Space {
        /// The stream.
        stream: String,
        /// The space that was asked for, counted from 0.
        space: u32,
        /// How many there are.
        spaces: u32,
    },
    /// The stream has no such symbol.
    Symbol {
        /// The stream.
        stream: Box<str>,
        /// The name that was asked for.
        symbol: Box<str>,
    },
    /// A record type has no such column.
    Column(Box<MissingColumn>),
    /// The server has no such rewrite: it was restarted, or nothing was sent for too long. Unless the rewrite was being committed,
    /// nothing has changed: begin it again.
    Rewrite {
        /// The stream.
        stream: Box<str>,
    },
}

/// A column that a record type does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingColumn {
    /// The stream.
    pub stream: String,
    /// The record type and the path that was asked for.
    pub field: String,
    /// The first columns there are.
    pub known: Vec<String>,
}

/// The handle is of a stream as it was: open the stream again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stale {
    /// The stream has been deleted since it was opened.
    Deleted {
        /// Its name.
        name: String,
    },
    /// The stream has been renamed since it was opened.
    Renamed {
        /// Its old name.
        name: String,
        /// Its new name.
        new: String,
    },
    /// The stream's schema has changed since it was opened.
    Outdated {
        /// The stream.
        stream: String,
    },
}

/// The request is not valid: change it.
#[derive(Debug)]
#[non_exhaustive]
pub enum Invalid {
    /// A name that a stream cannot have.
    StreamName {
        /// The name.
        name: String,
        /// The rule it breaks.
        rule: &'static str,
    },
    /// There is already a stream of this name.
    StreamExists {
        /// The name.
        name: String,
    },
    /// Options that a stream cannot have, or cannot change to.
    Options {
        /// What is wrong with them, and what to choose.
        what: &'static str,
    },
    /// What a cursor is to do does not go together.
    Cursor {
        /// What does not, and what to leave out.
        what: String,
    },
    /// A resume position that does not fit the cursor.
    Position {
        /// What is wrong with it.
        what: String,
    },
    /// The schema is not valid.
    Schema(Box<SchemaError>),
    /// The stream's schema and the record type do not go together.
    Type {
        /// The stream.
        stream: Box<str>,
        /// The record type.
        record: Box<str>,
        /// What does not fit.
        why: &'static str,
    },
    /// The program's version of a record type cannot be read from the stream's.
    Version {
        /// The stream.
        stream: Box<str>,
        /// The field without a rule.
        error: Box<IncompatibleSchema>,
    },
    /// A directory that cannot be made the backup of the database. Nothing was changed.
    Backup {
        /// The directory.
        path: PathBuf,
        /// Why not.
        what: String,
    },
    /// The stream is transient: its messages are in the memory of the process that has the database open for writing.
    Elsewhere {
        /// The stream.
        stream: Box<str>,
    },
}

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Database { path, why } => write!(f, "{} is not a TapeDB database: {why}", path.display()),
            Self::Stream { name, known } if known.is_empty() => {
                write!(f, "there is no stream {name:?}; the database has no streams yet")
            }
            Self::Stream { name, known } => {
                write!(f, "there is no stream {name:?}; there is {}", known.join(", "))
            }
            Self::Space { stream, space, spaces } => {
                write!(f, "stream {stream:?} has no space {space}, for it has {spaces}, counted from 0")
            }
            Self::Symbol { stream, symbol } => {
                write!(f, "stream {stream:?} has no symbol {symbol:?}; `symbols` lists those there are")
            }
            Self::Column(column) => {
                let MissingColumn { stream, field, known } = &**column;
                write!(f, "stream {stream:?} has no column {field}; there is {}", known.join(", "))
            }
            Self::Rewrite { stream } => write!(
                f,
                "the server has no such rewrite of stream {stream:?} any more: it was restarted, or nothing was sent for \
                 minutes; nothing was changed, begin it again"
            ),
        }
    }
}

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deleted { name } => {
                write!(
                    f,
                    "stream {name:?} has been deleted; open the one of that name, if there is a new one"
                )
            }
            Self::Renamed { name, new } => {
                write!(f, "stream {name:?} is called {new:?} now; open it by that name")
            }
            Self::Outdated { stream } => {
                write!(f, "stream {stream:?} has another schema since it was opened; open it again")
            }
        }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StreamName { name, rule } => write!(f, "{name:?} cannot name a stream: {rule}"),
            Self::StreamExists { name } => {
                write!(f, "there is a stream {name:?} already; open it, or delete it first")
            }
            Self::Options { what } => f.write_str(what),
            Self::Cursor { what } => f.write_str(what),
            Self::Position { what } => write!(f, "cannot resume: {what}"),
            Self::Schema(error) => write!(f, "schema: {error}"),
            Self::Type { stream, record, why } => {
                write!(f, "stream {stream:?}, record type {record:?}: {why}")
            }
            Self::Version { stream, error } => {
                write!(f, "stream {stream:?} has another version of the program's type: {error}")
            }
            Self::Backup { path, what } => write!(
                f,
                "{} is not overwritten: {what}; name another directory, or say that it is meant \
                 (`tapedb backup --adopt`, `--allow-loss`)",
                path.display()
            ),
            Self::Elsewhere { stream } => write!(
                f,
                "the messages of transient stream {stream:?} are in the memory of the process that writes it; read them there"
            ),
        }
    }
}

/// What a query failed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryFailure {
    /// Its text: syntax, names, types; what is not supported.
    Query,
    /// A value: a number that does not fit, a text that is no number.
    Value,
    /// A limit: memory, time, rows.
    Limit,
    /// A defect of what runs it.
    Internal,
}
