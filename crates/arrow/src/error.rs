//! What can go wrong between streams and record batches.

use arrow_schema::ArrowError;
use std::fmt;

/// Why batches cannot be read or appended.
#[derive(Debug)]
pub enum Error {
    /// The database's error.
    Engine(Box<tapedb_engine::Error>),
    /// Arrow's error.
    Arrow(ArrowError),
    /// A record type that cannot be a record batch, or a record batch that cannot be messages of the stream.
    Schema {
        /// The column, or the record type.
        column: String,
        /// What does not fit, and what to do.
        what: String,
    },
    /// A value that does not fit.
    Value {
        /// The column.
        column: String,
        /// The row, from 0: of the whole output when reading, of the record batch when appending.
        row: u64,
        /// What does not fit.
        what: String,
    },
}

impl Error {
    pub(crate) fn schema(column: impl Into<String>, what: impl Into<String>) -> Self {
        Self::Schema { column: column.into(), what: what.into() }
    }

    pub(crate) fn value(column: impl Into<String>, row: usize, what: impl Into<String>) -> Self {
        Self::Value { column: column.into(), row: row as u64, what: what.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Engine(error) => error.fmt(f),
            Self::Arrow(error) => error.fmt(f),
            Self::Schema { column, what } => write!(f, "column {column:?}: {what}"),
            Self::Value { column, row, what } => write!(f, "column {column:?}, row {row}: {what}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Engine(error) => Some(error),
            Self::Arrow(error) => Some(error),
            Self::Schema { .. } | Self::Value { .. } => None,
        }
    }
}

impl From<tapedb_engine::Error> for Error {
    fn from(error: tapedb_engine::Error) -> Self {
        Self::Engine(Box::new(error))
    }
}

impl From<ArrowError> for Error {
    fn from(error: ArrowError) -> Self {
        Self::Arrow(error)
    }
}

impl From<Error> for ArrowError {
    fn from(error: Error) -> Self {
        match error {
            Error::Arrow(error) => error,
            error => Self::ExternalError(Box::new(error)),
        }
    }
}
