//! Errors of the connection to a server.

use std::fmt;

/// A server cannot be asked: try again, or change how it is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConnectionError {
    /// The server does not accept the connection or the request: credentials, protocol versions, limits.
    Refused {
        /// The database.
        place: Box<str>,
        /// The server's reason.
        why: String,
    },
    /// There is no connection to the server, and none could be made. Nothing was done.
    Unreachable {
        /// The database.
        place: Box<str>,
        /// What was tried, and how it failed.
        why: String,
    },
    /// The connection broke before the server answered: the request may have been done, or not.
    Disconnected {
        /// The database.
        place: Box<str>,
        /// How it ended.
        why: String,
    },
    /// The other side sent something that has no meaning here.
    Protocol {
        /// What was sent.
        what: String,
    },
}

impl fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { place, why } => write!(f, "{place} does not take the connection: {why}"),
            Self::Unreachable { place, why } => {
                write!(f, "{place} cannot be reached: {why}; check the address, and that the server runs")
            }
            Self::Disconnected { place, why } => write!(
                f,
                "the connection to {place} ended before the answer came ({why}); check whether it was done, and try again"
            ),
            Self::Protocol { what } => write!(f, "{what}; are client and server of one version?"),
        }
    }
}
