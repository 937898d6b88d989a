//! What can go wrong, by what a caller does about it.

use std::fmt;

/// Why an import or an export ended.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The settings contradict each other, or what they name.
    Settings(String),
    /// The broker cannot be reached, or does not answer: it is tried again.
    Away(String),
    /// Going on would lose or repeat messages, or is refused: someone has to decide. The text states what and what now.
    Refused(String),
    /// A record is no message of the stream, and bad records stop the import.
    BadRecord(String),
    /// The database's error.
    Engine(tapedb_engine::Error),
    /// The caller asked it to end.
    Interrupted,
}

impl Error {
    /// Whether the same may succeed later without a change of anything.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Away(_))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Settings(what) | Self::Away(what) | Self::Refused(what) | Self::BadRecord(what) => {
                f.write_str(what)
            }
            Self::Engine(error) => write!(f, "{error}"),
            Self::Interrupted => f.write_str("interrupted; the same command continues where this one ended"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Engine(error) => Some(error),
            _ => None,
        }
    }
}

impl From<tapedb_engine::Error> for Error {
    fn from(error: tapedb_engine::Error) -> Self {
        Self::Engine(error)
    }
}
