//! Errors: a client's program that matches on a variant sees the one that the server's engine had.
//!
//! What is inside another crate's error is carried where a program may act on it (a full disk, a refused version). All others
//! become [`Error::Remote`]: the code and the text.

use crate::fields::{Fields, Taker, coded};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use tapedb_codec::batch::PushError;
use tapedb_codec::evolve::IncompatibleSchema;
use tapedb_engine::{
    ConnectionError, Error, Invalid, MissingColumn, NotFound, QueryFailure, Rejected, Stale, Unreadable,
};
use tapedb_log::LogError;
use tapedb_schema::Timestamp;
use tapedb_wire::Coded;

/// Codes of errors. They never change.
mod code {
    pub const NOT_A_DATABASE: u16 = 1;
    pub const LOCKED: u16 = 2;
    pub const READ_ONLY: u16 = 3;
    pub const STREAM_NAME: u16 = 4;
    pub const NO_STREAM: u16 = 5;
    pub const NO_SPACE: u16 = 6;
    pub const OUTDATED: u16 = 7;
    pub const DELETED: u16 = 8;
    pub const RENAMED: u16 = 9;
    pub const STREAM_EXISTS: u16 = 10;
    pub const DEFINITION: u16 = 11;
    pub const OPTIONS: u16 = 12;
    pub const TYPE: u16 = 13;
    pub const FIELD: u16 = 14;
    pub const VERSION: u16 = 15;
    pub const MESSAGE_TOO_LARGE: u16 = 16;
    pub const BATCH_FULL: u16 = 17;
    pub const LATE: u16 = 18;
    pub const POSITION: u16 = 19;
    pub const DROPPED: u16 = 20;
    pub const ELSEWHERE: u16 = 21;
    pub const IO: u16 = 22;
    pub const DENIED: u16 = 23;
    pub const REFUSED: u16 = 24;
    pub const UNREACHABLE: u16 = 25;
    pub const DISCONNECTED: u16 = 26;
    pub const PROTOCOL: u16 = 27;
    pub const BODY: u16 = 28;
    pub const NO_SYMBOL: u16 = 29;
    pub const NO_REWRITE: u16 = 30;
    pub const QUERY: u16 = 31;
    pub const QUERY_VALUE: u16 = 32;
    pub const QUERY_LIMIT: u16 = 33;
    pub const QUERY_INTERNAL: u16 = 34;
    pub const LOG_FULL: u16 = 40;
    pub const LOG_IO: u16 = 41;
    pub const LOG_AHEAD: u16 = 42;
    pub const LOG_TRIMMED: u16 = 43;
    pub const LOG_EXHAUSTED: u16 = 44;
    pub const LOG_POISONED: u16 = 45;
    pub const SYMBOL_LENGTH: u16 = 46;
    pub const TOO_MANY_SYMBOLS: u16 = 47;
    pub const SYMBOL_EXISTS: u16 = 48;
    /// Only a text.
    pub const OTHER: u16 = 100;
}

/// An error as the protocol carries it. Where texts and numbers cannot express all of it (what is wrong with a schema, which
/// bytes are damaged), it is carried as its text.
pub fn to_coded(error: &Error) -> Coded {
    use code::*;
    match error {
        Error::NotFound(NotFound::Database { path, why }) => {
            coded(NOT_A_DATABASE).text(text_of(path)).text(*why)
        }
        // A client does not need the URL of a server that it did not ask for.
        Error::Locked { path, .. } => coded(LOCKED).text(text_of(path)),
        Error::ReadOnly => coded(READ_ONLY),
        Error::Invalid(Invalid::StreamName { name, rule }) => coded(STREAM_NAME).text(name).text(*rule),
        Error::NotFound(NotFound::Stream { name, known }) => coded(NO_STREAM).text(name).texts(known),
        Error::NotFound(NotFound::Space { stream, space, spaces }) => {
            coded(NO_SPACE).text(stream).number((*space).into()).number((*spaces).into())
        }
        Error::NotFound(NotFound::Symbol { stream, symbol }) => {
            coded(NO_SYMBOL).text(&**stream).text(&**symbol)
        }
        Error::NotFound(NotFound::Rewrite { stream }) => coded(NO_REWRITE).text(&**stream),
        Error::Stale(Stale::Outdated { stream }) => coded(OUTDATED).text(stream),
        Error::Stale(Stale::Deleted { name }) => coded(DELETED).text(name),
        Error::Stale(Stale::Renamed { name, new }) => coded(RENAMED).text(name).text(new),
        Error::Invalid(Invalid::StreamExists { name }) => coded(STREAM_EXISTS).text(name),
        Error::Unreadable(Unreadable::Definition { path, what }) => {
            coded(DEFINITION).text(text_of(path)).text(what)
        }
        Error::Invalid(Invalid::Options { what }) => coded(OPTIONS).text(*what),
        Error::Invalid(Invalid::Type { stream, record, why }) => {
            coded(TYPE).text(&**stream).text(&**record).text(*why)
        }
        Error::NotFound(NotFound::Column(column)) => {
            let MissingColumn { stream, field, known } = &**column;
            coded(FIELD).text(stream).text(field).texts(known)
        }
        Error::Invalid(Invalid::Version { stream, error }) => {
            let IncompatibleSchema { path, written, read, advice } = &**error;
            coded(VERSION).text(&**stream).texts([path, written, read, advice])
        }
        Error::Rejected(Rejected::Size(PushError::MessageTooLarge { bytes })) => {
            coded(MESSAGE_TOO_LARGE).number(*bytes as u64)
        }
        Error::Rejected(Rejected::Size(PushError::BatchFull { count })) => {
            coded(BATCH_FULL).number(*count as u64)
        }
        Error::Rejected(Rejected::Late { stream, time, last }) => {
            coded(LATE).text(stream).signed(time.0).signed(last.0)
        }
        Error::Invalid(Invalid::Position { what }) => coded(POSITION).text(what),
        Error::Unreadable(Unreadable::Dropped { stream, messages, first_sequence }) => {
            coded(DROPPED).text(&**stream).number(*messages).number(*first_sequence)
        }
        Error::Invalid(Invalid::Elsewhere { stream }) => coded(ELSEWHERE).text(&**stream),
        Error::Io { operation, path, source } => {
            coded(IO).text(*operation).text(text_of(path)).text(source.to_string()).number(kind(source))
        }
        Error::Denied { what } => coded(DENIED).text(what),
        Error::Connection(ConnectionError::Refused { place, why }) => coded(REFUSED).text(&**place).text(why),
        Error::Connection(ConnectionError::Unreachable { place, why }) => {
            coded(UNREACHABLE).text(&**place).text(why)
        }
        Error::Connection(ConnectionError::Disconnected { place, why }) => {
            coded(DISCONNECTED).text(&**place).text(why)
        }
        Error::Connection(ConnectionError::Protocol { what }) => coded(PROTOCOL).text(what),
        Error::Rejected(Rejected::Body { stream, row, what }) => {
            coded(BODY).text(&**stream).text(&**what).number(*row)
        }
        Error::Query { failure, what } => {
            let code = match failure {
                QueryFailure::Query => QUERY,
                QueryFailure::Value => QUERY_VALUE,
                QueryFailure::Limit => QUERY_LIMIT,
                QueryFailure::Internal => QUERY_INTERNAL,
            };
            coded(code).text(what)
        }
        Error::Remote { code, text } => coded(*code).text(text),
        Error::Log(error) => log_to_coded(error),
        Error::Repeated(first) => to_coded(first),
        other => coded(OTHER).text(other.to_string()),
    }
}

/// The error that is carried so; [`Error::Remote`] for one that only has a text, and for one of a newer program.
pub fn from_coded(coded: &Coded) -> Error {
    let mut taker = Taker::of(coded);
    let taken = take(coded.code, &mut taker).and_then(|error| taker.end(error));
    taken.unwrap_or_else(|| Error::Remote { code: coded.code, text: coded.texts.join(": ") })
}

fn text_of(path: &std::path::Path) -> Cow<'_, str> {
    path.to_string_lossy()
}

fn log_to_coded(error: &LogError) -> Coded {
    use code::*;
    match error {
        LogError::Full { path, source } => {
            coded(LOG_FULL).text(text_of(path)).text(source.to_string()).number(kind(source))
        }
        LogError::Io { operation, path, source } => {
            let coded = coded(LOG_IO).text(*operation).text(text_of(path));
            coded.text(source.to_string()).number(kind(source))
        }
        LogError::Ahead { sequence, next_sequence } => {
            coded(LOG_AHEAD).number(*sequence).number(*next_sequence)
        }
        LogError::Trimmed { sequence, first_sequence } => {
            coded(LOG_TRIMMED).number(*sequence).number(*first_sequence)
        }
        LogError::SequencesExhausted => coded(LOG_EXHAUSTED),
        LogError::Poisoned { cause } => coded(LOG_POISONED).text(cause),
        LogError::SymbolLength { bytes } => coded(SYMBOL_LENGTH).number(*bytes as u64),
        LogError::TooManySymbols => coded(TOO_MANY_SYMBOLS),
        LogError::SymbolExists { name } => coded(SYMBOL_EXISTS).text(name),
        other => coded(OTHER).text(other.to_string()),
    }
}

fn take(code: u16, from: &mut Taker<'_>) -> Option<Error> {
    use code::*;
    Some(match code {
        NOT_A_DATABASE => Error::NotFound(NotFound::Database { path: path(from)?, why: fixed(from)? }),
        LOCKED => Error::Locked { path: path(from)?, server: None },
        READ_ONLY => Error::ReadOnly,
        STREAM_NAME => Error::Invalid(Invalid::StreamName { name: from.text()?, rule: fixed(from)? }),
        NO_STREAM => Error::NotFound(NotFound::Stream { name: from.text()?, known: from.texts() }),
        NO_SPACE => {
            let (space, spaces) = (from.number()?.try_into().ok()?, from.number()?.try_into().ok()?);
            Error::NotFound(NotFound::Space { stream: from.text()?, space, spaces })
        }
        NO_SYMBOL => {
            Error::NotFound(NotFound::Symbol { stream: from.text()?.into(), symbol: from.text()?.into() })
        }
        NO_REWRITE => Error::NotFound(NotFound::Rewrite { stream: from.text()?.into() }),
        OUTDATED => Error::Stale(Stale::Outdated { stream: from.text()? }),
        DELETED => Error::Stale(Stale::Deleted { name: from.text()? }),
        RENAMED => Error::Stale(Stale::Renamed { name: from.text()?, new: from.text()? }),
        STREAM_EXISTS => Error::Invalid(Invalid::StreamExists { name: from.text()? }),
        DEFINITION => Error::Unreadable(Unreadable::Definition { path: path(from)?, what: from.text()? }),
        OPTIONS => Error::Invalid(Invalid::Options { what: fixed(from)? }),
        TYPE => Error::Invalid(Invalid::Type {
            stream: from.text()?.into(),
            record: from.text()?.into(),
            why: fixed(from)?,
        }),
        FIELD => {
            let (stream, field) = (from.text()?, from.text()?);
            let column = MissingColumn { stream, field, known: from.texts() };
            Error::NotFound(NotFound::Column(Box::new(column)))
        }
        VERSION => {
            let stream = from.text()?.into();
            let (path, written, read) = (from.text()?, from.text()?, from.text()?);
            let error = IncompatibleSchema { path, written, read, advice: from.text()? };
            Error::Invalid(Invalid::Version { stream, error: Box::new(error) })
        }
        MESSAGE_TOO_LARGE => {
            Error::Rejected(Rejected::Size(PushError::MessageTooLarge { bytes: size(from)? }))
        }
        BATCH_FULL => Error::Rejected(Rejected::Size(PushError::BatchFull { count: size(from)? })),
        LATE => {
            let (time, last) = (Timestamp(from.signed()?), Timestamp(from.signed()?));
            Error::Rejected(Rejected::Late { stream: from.text()?, time, last })
        }
        POSITION => Error::Invalid(Invalid::Position { what: from.text()? }),
        DROPPED => {
            let (messages, first_sequence) = (from.number()?, from.number()?);
            Error::Unreadable(Unreadable::Dropped { stream: from.text()?.into(), messages, first_sequence })
        }
        ELSEWHERE => Error::Invalid(Invalid::Elsewhere { stream: from.text()?.into() }),
        IO => Error::Io { operation: fixed(from)?, path: path(from)?, source: source(from)? },
        DENIED => Error::Denied { what: from.text()? },
        REFUSED => {
            Error::Connection(ConnectionError::Refused { place: from.text()?.into(), why: from.text()? })
        }
        UNREACHABLE => {
            Error::Connection(ConnectionError::Unreachable { place: from.text()?.into(), why: from.text()? })
        }
        DISCONNECTED => {
            Error::Connection(ConnectionError::Disconnected { place: from.text()?.into(), why: from.text()? })
        }
        PROTOCOL => Error::Connection(ConnectionError::Protocol { what: from.text()? }),
        BODY => Error::Rejected(Rejected::Body {
            stream: from.text()?.into(),
            what: from.text()?.into(),
            row: from.number()?,
        }),
        QUERY => Error::Query { failure: QueryFailure::Query, what: from.text()? },
        QUERY_VALUE => Error::Query { failure: QueryFailure::Value, what: from.text()? },
        QUERY_LIMIT => Error::Query { failure: QueryFailure::Limit, what: from.text()? },
        QUERY_INTERNAL => Error::Query { failure: QueryFailure::Internal, what: from.text()? },
        _ => return take_log(code, from).map(Error::from),
    })
}

fn take_log(code: u16, from: &mut Taker<'_>) -> Option<LogError> {
    use code::*;
    Some(match code {
        LOG_FULL => LogError::Full { path: path(from)?, source: source(from)? },
        LOG_IO => LogError::Io { operation: fixed(from)?, path: path(from)?, source: source(from)? },
        LOG_AHEAD => LogError::Ahead { sequence: from.number()?, next_sequence: from.number()? },
        LOG_TRIMMED => LogError::Trimmed { sequence: from.number()?, first_sequence: from.number()? },
        LOG_EXHAUSTED => LogError::SequencesExhausted,
        LOG_POISONED => LogError::Poisoned { cause: from.text()? },
        SYMBOL_LENGTH => LogError::SymbolLength { bytes: size(from)? },
        TOO_MANY_SYMBOLS => LogError::TooManySymbols,
        SYMBOL_EXISTS => LogError::SymbolExists { name: from.text()? },
        _ => return None,
    })
}

fn path(from: &mut Taker<'_>) -> Option<PathBuf> {
    from.text().map(PathBuf::from)
}

fn size(from: &mut Taker<'_>) -> Option<usize> {
    from.number()?.try_into().ok()
}

fn fixed(from: &mut Taker<'_>) -> Option<&'static str> {
    from.text().map(|text| interned(&text))
}

/// Kinds of system errors that programs tell apart; the others are one.
const KINDS: [io::ErrorKind; 8] = [
    io::ErrorKind::Other,
    io::ErrorKind::NotFound,
    io::ErrorKind::PermissionDenied,
    io::ErrorKind::StorageFull,
    io::ErrorKind::QuotaExceeded,
    io::ErrorKind::ReadOnlyFilesystem,
    io::ErrorKind::TimedOut,
    io::ErrorKind::FileTooLarge,
];

fn kind(error: &io::Error) -> u64 {
    KINDS.iter().position(|kind| *kind == error.kind()).unwrap_or(0) as u64
}

fn source(from: &mut Taker<'_>) -> Option<io::Error> {
    let kind = KINDS.get(size(from)?).copied().unwrap_or(io::ErrorKind::Other);
    Some(io::Error::new(kind, from.text()?))
}

/// Texts of errors that are constants where they are created. There are some dozens; because they are never freed, a server that
/// sends more gets them replaced.
const INTERNED_MAX: usize = 512;
const INTERNED_BYTES_MAX: usize = 1024;

fn interned(text: &str) -> &'static str {
    static KNOWN: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = known.get(text) {
        return found;
    }
    if known.len() >= INTERNED_MAX || text.len() > INTERNED_BYTES_MAX {
        return "the server gives no further reason";
    }
    let kept: &'static str = Box::leak(text.into());
    known.insert(kept);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use tapedb_log::MAX_SYMBOL_BYTES;
    use tapedb_schema::Schema;

    fn samples() -> Vec<Error> {
        let io = |kind| io::Error::new(kind, "what the system says");
        let version = IncompatibleSchema {
            path: "Tick.price".into(),
            written: "string".into(),
            read: "f64".into(),
            advice: "keep it".into(),
        };
        let column =
            MissingColumn { stream: "x".into(), field: "Tick.p".into(), known: vec!["price".into()] };
        let log = |error: LogError| Error::from(error);
        vec![
            Error::NotFound(NotFound::Database { path: "/db".into(), why: "there is no such directory" }),
            Error::Locked { path: "/db".into(), server: None },
            Error::ReadOnly,
            Error::Invalid(Invalid::StreamName { name: "\n".into(), rule: "it has a control character" }),
            Error::NotFound(NotFound::Stream { name: "x".into(), known: vec!["a".into(), "b".into()] }),
            Error::NotFound(NotFound::Space { stream: "x".into(), space: 3, spaces: 2 }),
            Error::NotFound(NotFound::Symbol { stream: "s".into(), symbol: "A".into() }),
            Error::NotFound(NotFound::Rewrite { stream: "x".into() }),
            Error::Stale(Stale::Outdated { stream: "x".into() }),
            Error::Stale(Stale::Deleted { name: "x".into() }),
            Error::Stale(Stale::Renamed { name: "x".into(), new: "y".into() }),
            Error::Invalid(Invalid::StreamExists { name: "x".into() }),
            Error::Unreadable(Unreadable::Definition { path: "/db/x".into(), what: "is missing".into() }),
            Error::Invalid(Invalid::Options { what: "a stream has 1 to 256 spaces" }),
            Error::Invalid(Invalid::Type { stream: "x".into(), record: "Tick".into(), why: "other fields" }),
            Error::NotFound(NotFound::Column(Box::new(column))),
            Error::Invalid(Invalid::Version { stream: "x".into(), error: Box::new(version) }),
            Error::Rejected(Rejected::Size(PushError::MessageTooLarge { bytes: 1 << 30 })),
            Error::Rejected(Rejected::Size(PushError::BatchFull { count: 7 })),
            Error::Rejected(Rejected::Late {
                stream: "x".into(),
                time: Timestamp(-1),
                last: Timestamp(i64::MAX),
            }),
            Error::Invalid(Invalid::Position { what: "no".into() }),
            Error::Unreadable(Unreadable::Dropped { stream: "x".into(), messages: 5, first_sequence: 9 }),
            Error::Invalid(Invalid::Elsewhere { stream: "x".into() }),
            Error::Io { operation: "write", path: "/db/x".into(), source: io(io::ErrorKind::NotFound) },
            Error::Denied { what: "write".into() },
            Error::Connection(ConnectionError::Refused {
                place: "tape://h".into(),
                why: "wrong password".into(),
            }),
            Error::Connection(ConnectionError::Unreachable {
                place: "tape://h".into(),
                why: "no route".into(),
            }),
            Error::Connection(ConnectionError::Disconnected {
                place: "tape://h".into(),
                why: "closed".into(),
            }),
            Error::Connection(ConnectionError::Protocol { what: "gibberish".into() }),
            Error::Rejected(Rejected::Body { stream: "x".into(), row: 3, what: "short".into() }),
            Error::Query { failure: QueryFailure::Query, what: "no such table".into() },
            Error::Query { failure: QueryFailure::Value, what: "too large".into() },
            Error::Query { failure: QueryFailure::Limit, what: "too long".into() },
            Error::Query { failure: QueryFailure::Internal, what: "a defect".into() },
            Error::Remote { code: 100, text: "something else".into() },
            log(LogError::Full { path: "/db/x".into(), source: io(io::ErrorKind::StorageFull) }),
            log(LogError::Io { operation: "read", path: "/f".into(), source: io(io::ErrorKind::TimedOut) }),
            log(LogError::Ahead { sequence: 4, next_sequence: 3 }),
            log(LogError::Trimmed { sequence: 4, first_sequence: 5 }),
            log(LogError::SequencesExhausted),
            log(LogError::Poisoned { cause: "sync failed".into() }),
            log(LogError::SymbolLength { bytes: MAX_SYMBOL_BYTES + 1 }),
            log(LogError::TooManySymbols),
            log(LogError::SymbolExists { name: "AIG".into() }),
        ]
    }

    #[test]
    fn errors_are_the_same_on_the_other_side() {
        for error in samples() {
            let there = from_coded(&to_coded(&error));
            assert_eq!(there.to_string(), error.to_string());
            assert_eq!(format!("{there:?}"), format!("{error:?}"));
        }
    }

    #[test]
    fn other_errors_are_carried_as_their_text() {
        let error: Error = "message Tick".parse::<Schema>().unwrap_err().into();
        let there = from_coded(&to_coded(&error));
        assert!(matches!(there, Error::Remote { .. }) && there.to_string() == error.to_string(), "{there}");
    }

    #[test]
    fn an_unknown_code_is_carried_as_its_text() {
        let unknown = coded(60_000).text("the moon is full").number(3);
        let error = from_coded(&unknown);
        assert!(matches!(&error, Error::Remote { code: 60_000, text } if text.contains("moon")), "{error}");
        // Known, but not as it should be.
        let error = from_coded(&coded(code::LATE).text("x"));
        assert!(matches!(error, Error::Remote { code: code::LATE, .. }), "{error}");
    }
}
