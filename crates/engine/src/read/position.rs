//! The position of a cursor, from which another one can resume.

use crate::error::{Error, Invalid};
use std::fmt;
use std::str::FromStr;

/// A position between two messages of a cursor. As text it is one line per stream and space, which can be parsed. A line names
/// its stream by id and name: it fits the stream after a rename, and does not fit another stream with the name. A line without
/// an id, as written by hand (`live 42 bars`: message 42 is next), fits any stream with the name.
///
/// ```
/// use tapedb_engine::Position;
///
/// let text = "live 42 id=4c1d95052de1a1f5 bars\nhistory 100 1700000000000000000 17 id=00c5f1d5aa901376 quotes\n";
/// let position: Position = text.parse()?;
/// assert_eq!(position.to_string(), text);
/// # Ok::<(), tapedb_engine::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Position {
    pub(crate) streams: Vec<SpaceOffset>,
}

/// An offset, and its stream and space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SpaceOffset {
    pub name: String,
    /// The stream's id, if it is stated.
    pub id: Option<u64>,
    pub space: u32,
    pub offset: Offset,
}

impl SpaceOffset {
    /// Whether this is in the stream with that id: by the id, whatever the stream's name is now, or without one by name.
    pub fn is_in(&self, id: u64, name: &str) -> bool {
        self.id.map_or(self.name == name, |stated| stated == id)
    }
}

/// The offset of a cursor in one space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offset {
    /// In history: messages below `end`, in time order, after the one with this time and sequence number.
    History { end: u64, after: Option<(i64, u64)> },
    /// After history: the message with this sequence number is next.
    Live { next: u64 },
}

impl Offset {
    /// Number of messages of the space before the offset.
    pub fn reached(self) -> u64 {
        match self {
            Self::History { end, .. } => end,
            Self::Live { next } => next,
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for SpaceOffset { name, id, space, offset } in &self.streams {
            match offset {
                Offset::History { end, after: Some((time, sequence)) } => {
                    write!(f, "history {end} {time} {sequence} ")?;
                }
                Offset::History { end, after: None } => write!(f, "start {end} ")?,
                Offset::Live { next } => write!(f, "live {next} ")?,
            }
            if let Some(id) = id {
                write!(f, "{ID}{id:016x} ")?;
            }
            if *space > 0 || name.starts_with(SPACE) {
                write!(f, "{SPACE}{space} ")?;
            }
            writeln!(f, "{name}")?;
        }
        Ok(())
    }
}

impl FromStr for Position {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let streams = text.lines().enumerate().map(|(i, line)| {
            parse_line(line).ok_or_else(|| {
                Error::Invalid(Invalid::Position { what: format!("line {} is no position: {line:?}", i + 1) })
            })
        });
        Ok(Self { streams: streams.collect::<Result<_, _>>()? })
    }
}

/// Prefix of the id.
const ID: &str = "id=";
/// Prefix of the number of a space that is not the first.
const SPACE: &str = "space=";

fn parse_line(line: &str) -> Option<SpaceOffset> {
    let (kind, rest) = line.split_once(' ')?;
    let (first, rest) = rest.split_once(' ')?;
    let first = first.parse().ok()?;
    let (offset, rest) = match kind {
        "live" => (Offset::Live { next: first }, rest),
        "start" => (Offset::History { end: first, after: None }, rest),
        "history" => {
            let (time, rest) = rest.split_once(' ')?;
            let (sequence, rest) = rest.split_once(' ')?;
            let after = Some((time.parse().ok()?, sequence.parse().ok()?));
            (Offset::History { end: first, after }, rest)
        }
        _ => return None,
    };
    let (id, name) = id(rest).map_or((None, rest), |(id, name)| (Some(id), name));
    let (space, name) = space(name).unwrap_or((0, name));
    Some(SpaceOffset { name: name.into(), id, space, offset })
}

/// The space, if there is one, and the name after it.
fn space(rest: &str) -> Option<(u32, &str)> {
    let (space, name) = rest.strip_prefix(SPACE)?.split_once(' ')?;
    Some((space.parse().ok()?, name))
}

/// The id, if there is one, and the name after it.
fn id(rest: &str) -> Option<(u64, &str)> {
    let (id, name) = rest.strip_prefix(ID)?.split_once(' ')?;
    let is_id = id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    Some((u64::from_str_radix(id, 16).ok().filter(|_| is_id)?, name))
}
