//! Why lines are not stored.

use std::fmt;
use tapedb_engine::{Error, Rejected};

/// Why lines are not stored. But for [`WriteError::Storage`], nothing of the request is.
#[derive(Debug)]
pub enum WriteError {
    /// A line is not right, or does not fit its stream.
    Refused {
        /// The line, from 1; `None`: it is about none in particular.
        line: Option<u64>,
        /// What is wrong.
        what: String,
    },
    /// The user lacks a right.
    Denied {
        /// Which one, and for what.
        what: String,
    },
    /// A limit of the server: try again later.
    Busy {
        /// Which one.
        what: String,
    },
    /// The database cannot write. A part of the request may be stored.
    Storage(Error),
}

impl WriteError {
    /// The line that is wrong, from 1.
    pub fn line(&self) -> Option<u64> {
        match self {
            Self::Refused { line, .. } => *line,
            _ => None,
        }
    }

    /// An error of the engine before anything was written; `line_of`: the line of a row.
    pub(crate) fn of_engine(error: Error, line_of: impl Fn(usize) -> Option<u64>) -> Self {
        match error {
            Error::Rejected(Rejected::Columns { stream, misfit }) => {
                let line = misfit.row.and_then(line_of);
                let what = format!("stream {stream:?}, field {}: {}", misfit.column, misfit.what);
                Self::Refused { line, what }
            }
            error @ (Error::Rejected(_) | Error::Invalid(_) | Error::NotFound(_)) => {
                Self::Refused { line: None, what: error.to_string() }
            }
            error @ Error::Denied { .. } => Self::Denied { what: error.to_string() },
            error => Self::Storage(error),
        }
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { line: Some(line), what } => write!(f, "error in line {line}: {what}"),
            Self::Refused { line: None, what } | Self::Denied { what } | Self::Busy { what } => {
                f.write_str(what)
            }
            Self::Storage(error) => write!(f, "cannot store the lines: {error}"),
        }
    }
}

impl std::error::Error for WriteError {}
