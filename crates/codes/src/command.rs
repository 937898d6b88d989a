//! Commands.

use crate::fields::{Fields, Taker, coded, meaningless};
use tapedb_engine::{Command, Error, Replacement, Target};
use tapedb_wire::Coded;

/// Codes of commands in [`Coded`]. They stay what they are.
mod code {
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
    pub const QUERY_LANGUAGE: u16 = 15;
}

/// A command as the protocol carries it.
pub fn to_coded(command: &Command) -> Coded {
    use code::*;
    match command {
        Command::CreateStream { name, schema, options } => {
            coded(CREATE_STREAM).text(name).text(schema).text(options)
        }
        Command::DeleteStream { name } => coded(DELETE_STREAM).text(name),
        Command::RenameStream { name, new } => coded(RENAME_STREAM).text(name).text(new),
        Command::ChangeSchema { name, schema } => coded(CHANGE_SCHEMA).text(name).text(schema),
        Command::Alter { stream, options } => put_target(ALTER, stream).text(options),
        Command::Delete { stream, from, last, symbols } => {
            let coded =
                put_target(DELETE, stream).signed(*from).signed(*last).number(symbols.is_some().into());
            coded.texts(symbols.iter().flatten())
        }
        Command::Seal { stream } => put_target(SEAL, stream),
        Command::Stats { stream } => put_target(STATS, stream),
        Command::MaintenanceFailure { stream } => put_target(MAINTENANCE_FAILURE, stream),
        Command::RenameSymbol { stream, id, old, new } => {
            put_target(RENAME_SYMBOL, stream).number((*id).into()).text(old).text(new)
        }
        Command::BeginRewrite(replacement) => put_replacement(BEGIN_REWRITE, replacement),
        Command::CommitRewrite { stream, rewrite, last_number } => {
            put_target(COMMIT_REWRITE, stream).number(*rewrite).number(*last_number)
        }
        Command::DropRewrite { stream, rewrite } => put_target(DROP_REWRITE, stream).number(*rewrite),
        Command::ServerStatus => coded(SERVER_STATUS),
        Command::QueryLanguage => coded(QUERY_LANGUAGE),
    }
}

/// The command that is carried so.
///
/// # Errors
/// [`ConnectionError::Protocol`](tapedb_engine::ConnectionError::Protocol) for a code that is not known, as a newer program's,
/// and for other texts and numbers than it has.
pub fn from_coded(coded: &Coded) -> Result<Command, Error> {
    let mut taker = Taker::of(coded);
    let taken = take(coded.code, &mut taker).and_then(|command| taker.end(command));
    taken.ok_or_else(|| meaningless("a command", coded))
}

fn take(code: u16, from: &mut Taker<'_>) -> Option<Command> {
    use code::*;
    Some(match code {
        CREATE_STREAM => {
            Command::CreateStream { name: from.text()?, schema: from.text()?, options: from.text()? }
        }
        DELETE_STREAM => Command::DeleteStream { name: from.text()? },
        RENAME_STREAM => Command::RenameStream { name: from.text()?, new: from.text()? },
        CHANGE_SCHEMA => Command::ChangeSchema { name: from.text()?, schema: from.text()? },
        ALTER => Command::Alter { stream: take_target(from)?, options: from.text()? },
        DELETE => {
            let (stream, first, last) = (take_target(from)?, from.signed()?, from.signed()?);
            Command::Delete { stream, from: first, last, symbols: take_symbols(from)? }
        }
        SEAL => Command::Seal { stream: take_target(from)? },
        STATS => Command::Stats { stream: take_target(from)? },
        MAINTENANCE_FAILURE => Command::MaintenanceFailure { stream: take_target(from)? },
        RENAME_SYMBOL => {
            let (stream, id) = (take_target(from)?, from.number()?.try_into().ok()?);
            Command::RenameSymbol { stream, id, old: from.text()?, new: from.text()? }
        }
        BEGIN_REWRITE => Command::BeginRewrite(take_replacement(from)?),
        COMMIT_REWRITE => {
            let (stream, rewrite) = (take_target(from)?, from.number()?);
            Command::CommitRewrite { stream, rewrite, last_number: from.number()? }
        }
        DROP_REWRITE => Command::DropRewrite { stream: take_target(from)?, rewrite: from.number()? },
        SERVER_STATUS => Command::ServerStatus,
        QUERY_LANGUAGE => Command::QueryLanguage,
        _ => return None,
    })
}

fn put_target(code: u16, target: &Target) -> Coded {
    coded(code).number(target.stream_id).text(&target.name)
}

fn take_target(from: &mut Taker<'_>) -> Option<Target> {
    Some(Target { stream_id: from.number()?, name: from.text()? })
}

fn put_replacement(code: u16, replacement: &Replacement) -> Coded {
    let Replacement { stream, rewrite, space, from, last, symbols } = replacement;
    let coded = put_target(code, stream).number(*rewrite).number((*space).into()).signed(*from).signed(*last);
    coded.number(symbols.is_some().into()).texts(symbols.iter().flatten())
}

fn take_replacement(from: &mut Taker<'_>) -> Option<Replacement> {
    let (stream, rewrite, space) = (take_target(from)?, from.number()?, from.number()?.try_into().ok()?);
    let (first, last) = (from.signed()?, from.signed()?);
    Some(Replacement { stream, rewrite, space, from: first, last, symbols: take_symbols(from)? })
}

/// The symbols that are asked for: 0 for all, or 1 and all texts that are left.
fn take_symbols(from: &mut Taker<'_>) -> Option<Option<Vec<String>>> {
    match from.number()? {
        0 => Some(None),
        1 => Some(Some(from.texts())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tapedb_engine::ConnectionError;

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
            Command::QueryLanguage,
        ];
        for command in commands {
            let coded = to_coded(&command);
            assert_eq!(from_coded(&coded).unwrap(), command);
            let has_stream = !matches!(command, Command::ServerStatus | Command::QueryLanguage);
            assert_eq!(command.stream(), if has_stream { "bars" } else { "" });
            let more = coded.clone().number(1);
            assert!(
                matches!(from_coded(&more), Err(Error::Connection(ConnectionError::Protocol { .. }))),
                "{command:?}"
            );
        }
        assert!(from_coded(&coded(0)).is_err());
    }
}
