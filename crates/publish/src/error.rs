//! What can go wrong between streams and tables.

use std::fmt;

/// Why a table cannot be published, repaired or looked at.
#[derive(Debug)]
pub enum Error {
    /// The database's error.
    Engine(Box<tapedb_engine::Error>),
    /// Rows that do not fit the table: its text names field and message.
    Rows(String),
    /// The settings contradict each other or the stream.
    Settings(String),
    /// A catalogue or a store that does not answer, or a disk that is full: nothing is lost, and the call can be made again.
    Away(String),
    /// The table is not as it was left: its text states what happened, and what to do.
    Table(String),
    /// A file of a table cannot be written or read.
    File(String),
    /// The call was interrupted; nothing is lost.
    Interrupted,
}

impl Error {
    /// Whether the same call may succeed later.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Away(_))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Engine(error) => error.fmt(f),
            Self::Rows(what)
            | Self::Settings(what)
            | Self::Away(what)
            | Self::Table(what)
            | Self::File(what) => f.write_str(what),
            Self::Interrupted => f.write_str("interrupted"),
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
        Self::Engine(Box::new(error))
    }
}

impl From<tapedb_arrow::Error> for Error {
    fn from(error: tapedb_arrow::Error) -> Self {
        match error {
            tapedb_arrow::Error::Engine(error) => Self::Engine(error),
            error => Self::Rows(error.to_string()),
        }
    }
}

impl From<arrow_schema::ArrowError> for Error {
    fn from(error: arrow_schema::ArrowError) -> Self {
        Self::Rows(error.to_string())
    }
}

impl From<parquet::errors::ParquetError> for Error {
    fn from(error: parquet::errors::ParquetError) -> Self {
        Self::File(error.to_string())
    }
}

/// Ends a call that is not to go on ([`tapedb_engine::interruptible`]).
///
/// # Errors
/// [`Error::Interrupted`].
pub(crate) fn check_interrupt() -> Result<(), Error> {
    if tapedb_engine::interrupt::is_interrupted() { Err(Error::Interrupted) } else { Ok(()) }
}
