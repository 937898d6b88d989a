//! What can be asked of a database elsewhere beyond reading and appending.

use crate::error::Error;
use crate::stream::stats::StreamStats;
use crate::upstream::parts::{Parts, Taker, meaningless};
use std::ops::Range;
use tapedb_schema::Timestamp;

/// Something to be done, as plain data: schemas and options are text in the form that parses back
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
        /// The name it has.
        name: String,
        /// The name it is to have.
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
    /// [`Stream::rename_symbol`](crate::Stream::rename_symbol). Done twice it is done once.
    RenameSymbol {
        /// The stream.
        stream: Target,
        /// The symbol's id: whoever has its old name by now is not renamed.
        id: u32,
        /// The name it has.
        old: String,
        /// The name it is to have.
        new: String,
    },
    /// Begins a rewrite, or goes on with it: [`Stream::rewrite_in`](crate::Stream::rewrite_in). Its messages are sent by
    /// [`Database::stage`](crate::Database::stage).
    BeginRewrite(Replacement),
    /// Replaces the messages: [`Rewriter::commit`](crate::Rewriter::commit). Done twice it is done once.
    CommitRewrite {
        /// The stream.
        stream: Target,
        /// [`Replacement::rewrite`].
        rewrite: u64,
        /// Number of the last batch that was sent; 0 when none was.
        last_number: u64,
    },
    /// Forgets a rewrite that has not been committed: nothing changes.
    DropRewrite {
        /// The stream.
        stream: Target,
        /// [`Replacement::rewrite`].
        rewrite: u64,
    },
    /// [`Database::server_status`](crate::Database::server_status).
    ServerStatus,
}

/// Which messages are to be replaced by others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replacement {
    /// The stream.
    pub stream: Target,
    /// Tells the rewrite from others: a random number, by which it is known after the connection was lost.
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

/// A stream that has been opened: if another one has its name by now, that is not it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Its id.
    pub stream_id: u64,
    /// The name it had when it was opened.
    pub name: String,
}

/// What came of a [`Command`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is done.
    Done,
    /// A count: of [`Command::Seal`] the messages sealed; of [`Command::BeginRewrite`] and [`Database::stage`](crate::Database::stage)
    /// the number of the last batch that is there.
    Messages(u64),
    /// Of [`Command::Stats`].
    Stats(StreamStats),
    /// A text, if there is one: of [`Command::MaintenanceFailure`] and [`Command::ServerStatus`].
    Text(Option<String>),
    /// Sequence numbers: of [`Command::CommitRewrite`], those of the new messages.
    Sequences(Range<u64>),
}

/// Codes of commands in [`Parts`]. They stay what they are.
mod command_code {
    pub const CREATE_STREAM: u16 = 1;
    pub const DELETE_STREAM: u16 = 2;
    pub const RENAME_STREAM: u16 = 3;
    pub const CHANGE_SCHEMA: u16 = 4;
    pub const ALTER: u16 = 5;
    pub const DELETE: u16 = 6;
    pub const SEAL: u16 = 7;
    pub const STATS: u16 = 8;
    pub const MAINTENANCE_FAILURE: u16 = 9;
    pub const RENAME_SYMBOL: u16 = 10;
    pub const BEGIN_REWRITE: u16 = 11;
    pub const COMMIT_REWRITE: u16 = 12;
    pub const DROP_REWRITE: u16 = 13;
    pub const SERVER_STATUS: u16 = 14;
}

/// Codes of outcomes.
mod outcome_code {
    pub const DONE: u16 = 1;
    pub const MESSAGES: u16 = 2;
    pub const STATS: u16 = 3;
    pub const TEXT: u16 = 4;
    pub const SEQUENCES: u16 = 5;
}

impl Command {
    /// The command as plain parts.
    pub fn to_parts(&self) -> Parts {
        use command_code::*;
        match self {
            Self::CreateStream { name, schema, options } => {
                Parts::new(CREATE_STREAM).text(name).text(schema).text(options)
            }
            Self::DeleteStream { name } => Parts::new(DELETE_STREAM).text(name),
            Self::RenameStream { name, new } => Parts::new(RENAME_STREAM).text(name).text(new),
            Self::ChangeSchema { name, schema } => Parts::new(CHANGE_SCHEMA).text(name).text(schema),
            Self::Alter { stream, options } => stream.put(ALTER).text(options),
            Self::Delete { stream, from, last, symbols } => {
                let parts = stream.put(DELETE).signed(*from).signed(*last).number(symbols.is_some().into());
                parts.texts(symbols.iter().flatten())
            }
            Self::Seal { stream } => stream.put(SEAL),
            Self::Stats { stream } => stream.put(STATS),
            Self::MaintenanceFailure { stream } => stream.put(MAINTENANCE_FAILURE),
            Self::RenameSymbol { stream, id, old, new } => {
                stream.put(RENAME_SYMBOL).number((*id).into()).text(old).text(new)
            }
            Self::BeginRewrite(replacement) => replacement.put(BEGIN_REWRITE),
            Self::CommitRewrite { stream, rewrite, last_number } => {
                stream.put(COMMIT_REWRITE).number(*rewrite).number(*last_number)
            }
            Self::DropRewrite { stream, rewrite } => stream.put(DROP_REWRITE).number(*rewrite),
            Self::ServerStatus => Parts::new(SERVER_STATUS),
        }
    }

    /// The command that gives such parts.
    ///
    /// # Errors
    /// [`Error::Protocol`] when none does: a newer program's, or not a command at all.
    pub fn from_parts(parts: &Parts) -> Result<Self, Error> {
        let mut taker = parts.taker();
        let taken = Self::take(parts.code, &mut taker).and_then(|command| taker.end(command));
        taken.ok_or_else(|| meaningless("a command", parts))
    }

    fn take(code: u16, from: &mut Taker<'_>) -> Option<Self> {
        use command_code::*;
        Some(match code {
            CREATE_STREAM => {
                Self::CreateStream { name: from.text()?, schema: from.text()?, options: from.text()? }
            }
            DELETE_STREAM => Self::DeleteStream { name: from.text()? },
            RENAME_STREAM => Self::RenameStream { name: from.text()?, new: from.text()? },
            CHANGE_SCHEMA => Self::ChangeSchema { name: from.text()?, schema: from.text()? },
            ALTER => Self::Alter { stream: Target::take(from)?, options: from.text()? },
            DELETE => {
                let (stream, first, last) = (Target::take(from)?, from.signed()?, from.signed()?);
                Self::Delete { stream, from: first, last, symbols: take_symbols(from)? }
            }
            SEAL => Self::Seal { stream: Target::take(from)? },
            STATS => Self::Stats { stream: Target::take(from)? },
            MAINTENANCE_FAILURE => Self::MaintenanceFailure { stream: Target::take(from)? },
            RENAME_SYMBOL => {
                let (stream, id) = (Target::take(from)?, from.number()?.try_into().ok()?);
                Self::RenameSymbol { stream, id, old: from.text()?, new: from.text()? }
            }
            BEGIN_REWRITE => Self::BeginRewrite(Replacement::take(from)?),
            COMMIT_REWRITE => {
                let (stream, rewrite) = (Target::take(from)?, from.number()?);
                Self::CommitRewrite { stream, rewrite, last_number: from.number()? }
            }
            DROP_REWRITE => Self::DropRewrite { stream: Target::take(from)?, rewrite: from.number()? },
            SERVER_STATUS => Self::ServerStatus,
            _ => return None,
        })
    }

    /// Name of the stream that it is about, as far as the command says: for rights and for records of who did what.
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
            Self::ServerStatus => "",
        }
    }

    /// The stream that it is about, where it must be this very one and not just one of the name.
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

    /// What it does, in words.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::CreateStream { .. } => "create stream",
            Self::DeleteStream { .. } => "delete stream",
            Self::RenameStream { .. } => "rename stream",
            Self::ChangeSchema { .. } => "change schema",
            Self::Alter { .. } => "alter",
            Self::Delete { .. } => "delete messages",
            Self::Seal { .. } => "seal",
            Self::Stats { .. } => "stats",
            Self::MaintenanceFailure { .. } => "upkeep",
            Self::RenameSymbol { .. } => "rename symbol",
            Self::BeginRewrite(_) => "begin rewrite",
            Self::CommitRewrite { .. } => "rewrite",
            Self::DropRewrite { .. } => "drop rewrite",
            Self::ServerStatus => "server status",
        }
    }
}

impl Target {
    fn put(&self, code: u16) -> Parts {
        Parts::new(code).number(self.stream_id).text(&self.name)
    }

    fn take(from: &mut Taker<'_>) -> Option<Self> {
        Some(Self { stream_id: from.number()?, name: from.text()? })
    }
}

impl Replacement {
    fn put(&self, code: u16) -> Parts {
        let Self { stream, rewrite, space, from, last, symbols } = self;
        let parts = stream.put(code).number(*rewrite).number((*space).into()).signed(*from).signed(*last);
        parts.number(symbols.is_some().into()).texts(symbols.iter().flatten())
    }

    fn take(from: &mut Taker<'_>) -> Option<Self> {
        let (stream, rewrite, space) = (Target::take(from)?, from.number()?, from.number()?.try_into().ok()?);
        let (first, last) = (from.signed()?, from.signed()?);
        Some(Self { stream, rewrite, space, from: first, last, symbols: take_symbols(from)? })
    }
}

/// The symbols that are asked for: 0 for all, or 1 and all texts that are left.
fn take_symbols(from: &mut Taker<'_>) -> Option<Option<Vec<String>>> {
    match from.number()? {
        0 => Some(None),
        1 => Some(Some(from.texts())),
        _ => None,
    }
}

impl Outcome {
    /// The error for an outcome that its command does not have.
    #[cold]
    pub(crate) fn unexpected(&self) -> Error {
        Error::Protocol { what: format!("{self:?} came of a command that gives something else") }
    }

    /// The outcome as plain parts.
    pub fn to_parts(&self) -> Parts {
        use outcome_code::*;
        match self {
            Self::Done => Parts::new(DONE),
            Self::Messages(messages) => Parts::new(MESSAGES).number(*messages),
            Self::Stats(stats) => {
                let StreamStats { messages, next_sequence, bytes, symbols, times } = stats;
                let parts = Parts::new(STATS).number(*messages).number(*next_sequence).number(*bytes);
                let (first, last) = times.unzip();
                let time = |time: Option<Timestamp>| time.map(|time| time.0.cast_unsigned());
                parts.number((*symbols).into()).maybe(time(first)).maybe(time(last))
            }
            Self::Text(text) => Parts::new(TEXT).texts(text),
            Self::Sequences(range) => Parts::new(SEQUENCES).number(range.start).number(range.end),
        }
    }

    /// The outcome that gives such parts.
    ///
    /// # Errors
    /// [`Error::Protocol`] when none does.
    pub fn from_parts(parts: &Parts) -> Result<Self, Error> {
        let mut taker = parts.taker();
        let taken = Self::take(parts.code, &mut taker).and_then(|outcome| taker.end(outcome));
        taken.ok_or_else(|| meaningless("an outcome", parts))
    }

    fn take(code: u16, from: &mut Taker<'_>) -> Option<Self> {
        use outcome_code::*;
        Some(match code {
            DONE => Self::Done,
            MESSAGES => Self::Messages(from.number()?),
            STATS => {
                let (messages, next_sequence, bytes) = (from.number()?, from.number()?, from.number()?);
                let symbols = from.number()?.try_into().ok()?;
                let times = from.maybe()?.zip(from.maybe()?);
                let time = |time: u64| Timestamp(time.cast_signed());
                let times = times.map(|(first, last)| (time(first), time(last)));
                Self::Stats(StreamStats { messages, next_sequence, bytes, symbols, times })
            }
            TEXT => Self::Text(from.text()),
            SEQUENCES => Self::Sequences(from.number()?..from.number()?),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_round_trip() {
        let stream = || Target { stream_id: u64::MAX, name: "bars".into() };
        let replacement = |symbols| Replacement {
            stream: stream(),
            rewrite: u64::MAX,
            space: 2,
            from: i64::MIN,
            last: -1,
            symbols,
        };
        let [name, schema, options] = ["bars", "message Bar { open: f64 }", "late accept"].map(String::from);
        let commands = [
            Command::CreateStream { name: name.clone(), schema: schema.clone(), options: options.clone() },
            Command::DeleteStream { name: name.clone() },
            Command::RenameStream { name: name.clone(), new: "quotes".into() },
            Command::ChangeSchema { name, schema },
            Command::Alter { stream: stream(), options },
            Command::Delete { stream: stream(), from: i64::MIN, last: -1, symbols: None },
            Command::Delete {
                stream: stream(),
                from: 0,
                last: 9,
                symbols: Some(vec!["A".into(), "B".into()]),
            },
            Command::Delete { stream: stream(), from: 0, last: 9, symbols: Some(Vec::new()) },
            Command::Seal { stream: stream() },
            Command::Stats { stream: stream() },
            Command::MaintenanceFailure { stream: stream() },
            Command::RenameSymbol { stream: stream(), id: u32::MAX, old: "A".into(), new: "B".into() },
            Command::BeginRewrite(replacement(None)),
            Command::BeginRewrite(replacement(Some(vec!["A".into(), String::new()]))),
            Command::CommitRewrite { stream: stream(), rewrite: u64::MAX, last_number: 3 },
            Command::DropRewrite { stream: stream(), rewrite: 7 },
            Command::ServerStatus,
        ];
        for command in commands {
            let parts = command.to_parts();
            assert_eq!(Command::from_parts(&parts).unwrap(), command);
            assert_eq!(command.stream(), if command == Command::ServerStatus { "" } else { "bars" });
            let more = parts.clone().number(1);
            assert!(matches!(Command::from_parts(&more), Err(Error::Protocol { .. })), "{command:?}");
        }
        assert!(Command::from_parts(&Parts::new(0)).is_err());
    }

    #[test]
    fn outcomes_round_trip() {
        let stats = |times| StreamStats { messages: 1, next_sequence: 2, bytes: 3, symbols: 4, times };
        let outcomes = [
            Outcome::Done,
            Outcome::Messages(7),
            Outcome::Stats(stats(None)),
            Outcome::Stats(stats(Some((Timestamp(-1), Timestamp(i64::MAX))))),
            Outcome::Text(None),
            Outcome::Text(Some("full".into())),
            Outcome::Sequences(3..u64::MAX),
        ];
        for outcome in outcomes {
            assert_eq!(Outcome::from_parts(&outcome.to_parts()).unwrap(), outcome);
        }
        assert!(Outcome::from_parts(&Parts::new(99)).is_err());
    }
}
