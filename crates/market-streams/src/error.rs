//! What can go wrong with books of streams.

use std::fmt;
use tapedb_engine::Error;

/// Errors of books.
#[derive(Debug)]
#[non_exhaustive]
pub enum BookError {
    /// Of the stream.
    Stream(Error),
    /// The stream has no messages that books are made of.
    NoBooks {
        /// The stream.
        stream: String,
    },
}

impl fmt::Display for BookError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream(error) => error.fmt(f),
            Self::NoBooks { stream } => write!(
                f,
                "stream {stream:?} has none of the record types that books are made of: Package, Order, MarketByPrice"
            ),
        }
    }
}

impl std::error::Error for BookError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Stream(error) => Some(error),
            Self::NoBooks { .. } => None,
        }
    }
}

impl From<Error> for BookError {
    fn from(error: Error) -> Self {
        Self::Stream(error)
    }
}
