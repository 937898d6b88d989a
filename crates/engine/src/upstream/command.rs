//! The commands of a database elsewhere, beyond reading and appending.

use crate::error::{ConnectionError, Error};
use crate::stream::stats::StreamStats;
use std::ops::Range;

/// A command as plain data: schemas and options are text that parses back
/// ([`StreamOptions::to_text`](crate::StreamOptions::to_text)).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// [`Database::create_stream`](crate::Database::create_stream).
    CreateStream {
        /// Its name.
        name: String,
        /// Its schema.
        schema: String,
        /// Its options.
        options: String,
    },
    /// [`Database::delete_stream`](crate::Database::delete_stream).
    DeleteStream {
        /// Its name.
        name: String,
    },
    /// [`Database::rename_stream`](crate::Database::rename_stream).
    RenameStream {
        /// Its present name.
        name: String,
        /// Its new name.
        new: String,
    },
    /// [`Database::change_schema`](crate::Database::change_schema).
    ChangeSchema {
        /// The stream's name.
        name: String,
        /// The new schema.
        schema: String,
    },
    /// [`Stream::alter`](crate::Stream::alter).
    Alter {
        /// The stream.
        stream: Target,
        /// The new options.
        options: String,
    },
    /// [`Stream::delete`](crate::Stream::delete), and with it truncate, purge and clear.
    Delete {
        /// The stream.
        stream: Target,
        /// First time, in nanoseconds since the Unix epoch.
        from: i64,
        /// Last time.
        last: i64,
        /// Only messages of these symbols; `None`: of all.
        symbols: Option<Vec<String>>,
    },
    /// [`Stream::seal`](crate::Stream::seal).
    Seal {
        /// The stream.
        stream: Target,
    },
    /// [`Stream::stats`](crate::Stream::stats).
    Stats {
        /// The stream.
        stream: Target,
    },
    /// [`Stream::maintenance_failure`](crate::Stream::maintenance_failure).
    MaintenanceFailure {
        /// The stream.
        stream: Target,
    },
    /// [`Stream::rename_symbol`](crate::Stream::rename_symbol). Repeating it has no further effect.
    RenameSymbol {
        /// The stream.
        stream: Target,
        /// The symbol's id: another symbol that has the old name now is not renamed.
        id: u32,
        /// Its present name.
        old: String,
        /// Its new name.
        new: String,
    },
    /// Begins or continues a rewrite: [`Stream::rewrite_in`](crate::Stream::rewrite_in). Its messages are sent by
    /// [`Database::stage`](crate::Database::stage).
    BeginRewrite(Replacement),
    /// Replaces the messages: [`Rewriter::commit`](crate::Rewriter::commit). Repeating it has no further effect.
    CommitRewrite {
        /// The stream.
        stream: Target,
        /// [`Replacement::rewrite`].
        rewrite: u64,
        /// Number of the last batch that was sent; 0 if none was.
        last_number: u64,
    },
    /// Drops a rewrite that has not been committed: the stream stays unchanged.
    DropRewrite {
        /// The stream.
        stream: Target,
        /// [`Replacement::rewrite`].
        rewrite: u64,
    },
    /// [`Database::server_status`](crate::Database::server_status).
    ServerStatus,
    /// The language of the queries that the server runs ([`Upstream::query`](crate::Upstream::query)), if it runs any.
    QueryLanguage,
}

/// The messages that are to be replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replacement {
    /// The stream.
    pub stream: Target,
    /// Identifies the rewrite: a random number, valid also after the connection was lost.
    pub rewrite: u64,
    /// The space.
    pub space: u32,
    /// First time, in nanoseconds since the Unix epoch.
    pub from: i64,
    /// Last time; before `from`: there are no messages to replace.
    pub last: i64,
    /// Only messages of these symbols; `None`: of all.
    pub symbols: Option<Vec<String>>,
}

/// A stream that has been opened: another stream that has its name now does not match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Its id.
    pub stream_id: u64,
    /// The name it had when it was opened.
    pub name: String,
}

/// The outcome of a [`Command`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The command was executed.
    Done,
    /// A count: of [`Command::Seal`] the messages sealed; of [`Command::BeginRewrite`] and
    /// [`Database::stage`](crate::Database::stage) the number of the last stored batch.
    Messages(u64),
    /// Of [`Command::Stats`].
    Stats(StreamStats),
    /// A text, if there is one: of [`Command::MaintenanceFailure`], [`Command::ServerStatus`] and [`Command::QueryLanguage`].
    Text(Option<String>),
    /// Sequence numbers: of [`Command::CommitRewrite`], those of the new messages.
    Sequences(Range<u64>),
}

impl Command {
    /// Name of the command's stream, as far as the command states it: for rights and audit records.
    pub fn stream(&self) -> &str {
        match self {
            Self::CreateStream { name, .. }
            | Self::DeleteStream { name }
            | Self::RenameStream { name, .. }
            | Self::ChangeSchema { name, .. } => name,
            Self::Alter { stream, .. }
            | Self::Delete { stream, .. }
            | Self::Seal { stream }
            | Self::Stats { stream }
            | Self::MaintenanceFailure { stream }
            | Self::RenameSymbol { stream, .. }
            | Self::BeginRewrite(Replacement { stream, .. })
            | Self::CommitRewrite { stream, .. }
            | Self::DropRewrite { stream, .. } => &stream.name,
            Self::ServerStatus | Self::QueryLanguage => "",
        }
    }

    /// The command's stream, if the id must match and not only the name.
    pub fn target(&self) -> Option<&Target> {
        match self {
            Self::Alter { stream, .. }
            | Self::Delete { stream, .. }
            | Self::Seal { stream }
            | Self::Stats { stream }
            | Self::MaintenanceFailure { stream }
            | Self::RenameSymbol { stream, .. }
            | Self::BeginRewrite(Replacement { stream, .. })
            | Self::CommitRewrite { stream, .. }
            | Self::DropRewrite { stream, .. } => Some(stream),
            _ => None,
        }
    }
}

impl Outcome {
    /// The error for an outcome that its command does not have.
    #[cold]
    pub(crate) fn unexpected(&self) -> Error {
        Error::Connection(ConnectionError::Protocol {
            what: format!("{self:?} is not an outcome of this command"),
        })
    }
}
