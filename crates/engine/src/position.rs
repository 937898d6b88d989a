//! Where a cursor is, so that another one can go on exactly there.

use crate::error::Error;
use std::fmt;
use std::str::FromStr;

/// A place between two messages of a cursor. As text it is one line per stream; it parses back.
///
/// ```
/// use tapedb_engine::Position;
///
/// let text = "live 42 bars\nhistory 100 1700000000000000000 17 quotes\n";
/// let position: Position = text.parse()?;
/// assert_eq!(position.to_string(), text);
/// # Ok::<(), tapedb_engine::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Position {
    pub(crate) streams: Vec<(String, Place)>,
}

/// Where a cursor is in one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// In history: messages below `end`, in time order, after the one with this time and sequence number.
    History { end: u64, after: Option<(i64, u64)> },
    /// Behind history: the message with this sequence number comes next.
    Live { next: u64 },
}

impl Place {
    /// The place comes after this many messages of the stream.
    pub fn reached(self) -> u64 {
        match self {
            Self::History { end, .. } => end,
            Self::Live { next } => next,
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, place) in &self.streams {
            match place {
                Place::History { end, after: Some((time, sequence)) } => {
                    writeln!(f, "history {end} {time} {sequence} {name}")?;
                }
                Place::History { end, after: None } => writeln!(f, "start {end} {name}")?,
                Place::Live { next } => writeln!(f, "live {next} {name}")?,
            }
        }
        Ok(())
    }
}

impl FromStr for Position {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let streams = text.lines().enumerate().map(|(i, line)| {
            place(line)
                .ok_or_else(|| Error::Position { what: format!("line {} is no position: {line:?}", i + 1) })
        });
        Ok(Self { streams: streams.collect::<Result<_, _>>()? })
    }
}

fn place(line: &str) -> Option<(String, Place)> {
    let (kind, rest) = line.split_once(' ')?;
    let (first, rest) = rest.split_once(' ')?;
    let first = first.parse().ok()?;
    match kind {
        "live" => Some((rest.into(), Place::Live { next: first })),
        "start" => Some((rest.into(), Place::History { end: first, after: None })),
        "history" => {
            let (time, rest) = rest.split_once(' ')?;
            let (sequence, name) = rest.split_once(' ')?;
            let after = Some((time.parse().ok()?, sequence.parse().ok()?));
            Some((name.into(), Place::History { end: first, after }))
        }
        _ => None,
    }
}
