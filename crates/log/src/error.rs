//! What can go wrong in a log.

use crate::report::Damage;
use std::path::{Path, PathBuf};
use std::{fmt, io};
use tapedb_codec::batch::BatchError;

/// Why a log operation failed: what, where and what to do now.
#[derive(Debug)]
pub enum LogError {
    /// The disk is full. What was appended before stays; the append can be tried again when there is free space.
    Full {
        /// The file that could not grow.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The system refused an operation.
    Io {
        /// What was tried: "write", "open", …
        operation: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Stored messages cannot be read. Each reader reports them once and continues after them.
    Damaged {
        /// The log file.
        path: PathBuf,
        /// Where in it, and which messages.
        damage: Box<Damage>,
    },
    /// The batch offered to the log is malformed. Nothing was written.
    Batch(BatchError),
    /// The file belongs to another stream or space.
    Foreign {
        /// The file.
        path: PathBuf,
        /// Stream id and space it should have.
        need: (u64, u32),
        /// Stream id and space it has.
        have: (u64, u32),
    },
    /// The file was written by a newer TapeDB.
    Version {
        /// The file.
        path: PathBuf,
        /// Newest version this program reads.
        need: u16,
        /// The file's version.
        have: u16,
    },
    /// The file does not match its name, or has a form that cannot be read safely.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The sequence number has not been written yet.
    Ahead {
        /// The number asked for.
        sequence: u64,
        /// The number the next message gets.
        next_sequence: u64,
    },
    /// The sequence number is before the first message of this log.
    Trimmed {
        /// The number asked for.
        sequence: u64,
        /// First number in this log.
        first_sequence: u64,
    },
    /// A producer has sent another batch with the number of a stored one, because it did not receive the result of that.
    /// Nothing was written.
    Resent {
        /// The producer's number of the batch.
        producer_number: u64,
    },
    /// The sequence numbers of the space are used up.
    SequencesExhausted,
    /// The writer has stopped for good after an error that left the file in doubt. Readers continue; opening the log again
    /// recovers it.
    Poisoned {
        /// The first error.
        cause: String,
    },
    /// A symbol is empty or longer than [`MAX_SYMBOL_BYTES`](crate::dictionary::MAX_SYMBOL_BYTES).
    SymbolLength {
        /// Its bytes.
        bytes: usize,
    },
    /// The dictionary holds [`MAX_SYMBOLS`](crate::dictionary::MAX_SYMBOLS) symbols.
    TooManySymbols,
    /// The symbol is in the dictionary already.
    SymbolExists {
        /// The symbol.
        name: String,
    },
}

impl LogError {
    /// Whether the requested messages are no longer in the log: [`Trimmed`](Self::Trimmed), or their file was not found
    /// because the writer has removed it. The caller looks for them where older messages are stored.
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Trimmed { .. }) || self.is_not_found()
    }

    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// Wraps a system error; a full disk has its own variant.
    pub(crate) fn io(operation: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full { path, source },
            _ => Self::Io { operation, path, source },
        }
    }
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { path, source } => {
                write!(f, "{}: the disk is full ({source}); free space and append again", path.display())
            }
            Self::Io { operation, path, source } => {
                write!(f, "{}: {operation} failed: {source}; check the disk and permissions", path.display())
            }
            Self::Damaged { path, damage } => {
                let dir = path.parent().unwrap_or(path);
                write!(f, "damaged messages in {}: {damage}; reading continues after them", dir.display())
            }
            Self::Batch(error) => write!(f, "not appended: {error}"),
            Self::Foreign { path, need, have } => write!(
                f,
                "{} belongs to stream {} space {}, not to stream {} space {}; move it where it belongs",
                path.display(),
                have.0,
                have.1,
                need.0,
                need.1
            ),
            Self::Version { path, need, have } => write!(
                f,
                "{} has format version {have}, this program reads up to {need}; use a newer TapeDB",
                path.display()
            ),
            Self::Unreadable { path, what } => {
                write!(f, "{}: {what}; restore it from a copy or move it away", path.display())
            }
            Self::Ahead { sequence, next_sequence } => {
                write!(f, "sequence {sequence} is not written yet; the next message gets {next_sequence}")
            }
            Self::Trimmed { sequence, first_sequence } => {
                write!(f, "sequence {sequence} is no longer in the log, which begins with {first_sequence}")
            }
            Self::Resent { producer_number } => write!(
                f,
                "batch {producer_number} of this load is stored with other content, and this one is not stored; read what is \
                 there and send the rest in a new load"
            ),
            Self::SequencesExhausted => f.write_str("the sequence numbers of this space are used up"),
            Self::Poisoned { cause } => {
                write!(f, "the log accepts no more appends after an earlier failure ({cause}); open it again")
            }
            Self::SymbolLength { bytes } => {
                write!(
                    f,
                    "symbol of {bytes} bytes; it must have 1 to {} bytes",
                    crate::dictionary::MAX_SYMBOL_BYTES
                )
            }
            Self::TooManySymbols => {
                write!(f, "the stream has {} symbols, the most it can have", crate::dictionary::MAX_SYMBOLS)
            }
            Self::SymbolExists { name } => write!(f, "symbol {name:?} is in the dictionary already"),
        }
    }
}

impl std::error::Error for LogError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Full { source, .. } | Self::Io { source, .. } => Some(source),
            Self::Batch(error) => Some(error),
            _ => None,
        }
    }
}
