//! What can go wrong with a topic.

use std::fmt;
use std::io;
use std::path::PathBuf;
use tapedb_codec::DecodeError;
use tapedb_codec::dynamic::EncodeError;
use tapedb_codec::evolve::{EvolveError, IncompatibleSchema};
use tapedb_schema::SchemaError;

/// Errors of topics.
#[derive(Debug)]
#[non_exhaustive]
pub enum TopicError {
    /// What the system refused.
    Io {
        /// What was to be done.
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's answer.
        error: io::Error,
    },
    /// There is no topic of that name.
    NotFound {
        /// Where it would be.
        path: PathBuf,
    },
    /// There is a topic of that name already.
    Exists {
        /// Where it is.
        path: PathBuf,
    },
    /// The name is invalid.
    Name {
        /// The name, at most 100 characters of it.
        name: String,
        /// The rule that it breaks.
        rule: &'static str,
    },
    /// A folder for topics that other users may write.
    Folder {
        /// The folder.
        path: PathBuf,
    },
    /// The options are invalid.
    Options(BadFile),
    /// The file is no topic, or not of a version that this program reads.
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        bad: BadFile,
    },
    /// The topic has been deleted, or another has its name now. Processes that have this one open can still use it.
    Deleted {
        /// Where it was.
        path: PathBuf,
        /// Whether another has the name.
        is_replaced: bool,
    },
    /// The schema does not suit a topic.
    Schema(String),
    /// The existing topic has another schema than the requested one.
    OtherSchema {
        /// Where it is.
        path: PathBuf,
    },
    /// There is another publisher, and one of the two is exclusive.
    PublisherThere,
    /// All slots are taken.
    Full {
        /// `publishers` or `subscribers`.
        what: &'static str,
        /// How many there may be.
        most: usize,
    },
    /// The dictionary has no space for another symbol.
    SymbolsFull {
        /// The symbol that was to be added.
        symbol: String,
        /// Bytes of the dictionary.
        bytes: u64,
    },
    /// Not a symbol of the topic.
    Symbol {
        /// What is wrong with it.
        why: &'static str,
    },
    /// The message, or the batch, is larger than one claim.
    TooLarge {
        /// Bytes it has.
        bytes: u64,
        /// Bytes it may have.
        most: u64,
    },
    /// The record type is not one of the topic, or not one of messages.
    Type {
        /// The record type.
        record: String,
        /// What does not fit.
        why: &'static str,
    },
    /// The topic's version of the record type cannot become the program's.
    Version(Box<IncompatibleSchema>),
    /// The bytes of a message do not fit its type.
    Decode(Box<DecodeError>),
    /// A message cannot become the program's version of its type.
    Convert(Box<EvolveError>),
    /// A value does not fit its field.
    Encode(Box<EncodeError>),
    /// Some messages were overwritten before the subscriber read them. Returned once for each gap; the next call continues
    /// after it.
    Missed {
        /// Sequence number of the first message missed.
        first: u64,
        /// How many.
        count: u64,
    },
    /// The publisher did not finish a claim within the topic's stall time, and the others passed it over: nothing of the
    /// claim has been published. It may be published again.
    Overtaken,
    /// The memory holds what no correct publisher writes.
    Corrupt {
        /// Position in the topic, in bytes.
        position: u64,
        /// What is wrong there.
        what: &'static str,
    },
}

/// What is wrong with a file that should be a topic, or with options for one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadFile {
    /// It does not begin as one.
    Magic {
        /// What it begins with.
        found: u64,
    },
    /// Another version of the layout.
    Version {
        /// Its version.
        found: u32,
    },
    /// The header is damaged.
    Checksum {
        /// The checksum it has.
        found: u32,
        /// The one it should have.
        computed: u32,
    },
    /// An impossible size or offset.
    Field {
        /// Which one.
        field: &'static str,
        /// Its value.
        found: u64,
    },
    /// The file is shorter or longer than its header says.
    Length {
        /// Bytes of the file.
        found: u64,
        /// Bytes it should have.
        need: u64,
    },
    /// The schema in it is invalid.
    Schema(String),
}

impl fmt::Display for BadFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Magic { found } => write!(f, "begins with {found:#018x}: it is no topic"),
            Self::Version { found } => {
                write!(
                    f,
                    "has version {found} of the layout, and this program reads version 1; use the newer one"
                )
            }
            Self::Checksum { found, computed } => {
                write!(f, "has checksum {found:#010x} where its header makes {computed:#010x}: it is damaged")
            }
            Self::Field { field, found } => write!(f, "{field} is {found}, which is not possible"),
            Self::Length { found, need } => write!(f, "has {found} bytes where its header says {need}"),
            Self::Schema(error) => write!(f, "holds no valid schema: {error}"),
        }
    }
}

impl fmt::Display for TopicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { what, path, error } => write!(f, "cannot {what} {}: {error}", path.display()),
            Self::NotFound { path } => {
                write!(f, "there is no topic {}; create it, or see `tapedb topic list`", path.display())
            }
            Self::Exists { path } => {
                write!(f, "there is already a topic {}; open it, or delete it first", path.display())
            }
            Self::Name { name, rule } => write!(f, "`{name}` is not a valid name of a topic: {rule}"),
            Self::Folder { path } => write!(
                f,
                "other users may write to {}; remove it, or name another folder for topics",
                path.display()
            ),
            Self::Options(bad) => write!(f, "a topic cannot have these options: {bad}"),
            Self::File { path, bad } => {
                write!(f, "{} {bad}; delete it if it is not needed", path.display())
            }
            Self::Deleted { path, is_replaced: false } => {
                write!(f, "the topic {} has been deleted; no other process finds it", path.display())
            }
            Self::Deleted { path, is_replaced: true } => {
                write!(f, "the topic {} has been replaced; open it again", path.display())
            }
            Self::Schema(what) => write!(f, "the schema does not suit a topic: {what}"),
            Self::OtherSchema { path } => write!(
                f,
                "the topic {} has another schema; open it without naming one, or delete it first",
                path.display()
            ),
            Self::PublisherThere => write!(
                f,
                "the topic has another publisher, and one of the two is exclusive; share the topic, or wait"
            ),
            Self::Full { what, most } => write!(f, "the topic has {most} {what}, which is the maximum"),
            Self::SymbolsFull { symbol, bytes } => write!(
                f,
                "the topic's dictionary of {bytes} bytes has no space for symbol `{symbol}`; create the topic with a larger one"
            ),
            Self::Symbol { why } => write!(f, "{why}"),
            Self::TooLarge { bytes, most } => write!(
                f,
                "{bytes} bytes at once, and the topic takes {most}; publish less, or create it with a larger ring"
            ),
            Self::Type { record, why } => write!(f, "record type `{record}`: {why}"),
            Self::Version(error) => write!(f, "the topic's messages cannot be converted: {error}"),
            Self::Decode(error) => write!(f, "a message is damaged: {error}"),
            Self::Convert(error) => write!(f, "a message cannot be converted: {error}"),
            Self::Encode(error) => write!(f, "a value does not fit: {error}"),
            Self::Missed { first, count } => write!(
                f,
                "{count} messages from number {first} on were overwritten before they were read; reading continues after them"
            ),
            Self::Overtaken => {
                write!(f, "the claim was not finished in time and was passed over; publish it again")
            }
            Self::Corrupt { position, what } => {
                write!(
                    f,
                    "the topic is damaged at position {position}: {what}; delete it and create it again"
                )
            }
        }
    }
}

impl std::error::Error for TopicError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { error, .. } => Some(error),
            Self::Version(error) => Some(&**error),
            Self::Decode(error) => Some(&**error),
            Self::Convert(error) => Some(&**error),
            Self::Encode(error) => Some(&**error),
            _ => None,
        }
    }
}

impl From<DecodeError> for TopicError {
    fn from(error: DecodeError) -> Self {
        Self::Decode(Box::new(error))
    }
}

impl From<EncodeError> for TopicError {
    fn from(error: EncodeError) -> Self {
        Self::Encode(Box::new(error))
    }
}

impl From<SchemaError> for TopicError {
    fn from(error: SchemaError) -> Self {
        Self::Schema(error.to_string())
    }
}
