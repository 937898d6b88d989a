//! Errors of a tick installation.

use std::fmt;

/// Why a call of this crate failed. Every message states the request, the location, and what to do.
#[derive(Debug)]
#[non_exhaustive]
pub enum TickError {
    /// The database failed or refused.
    Database(tapedb_engine::Error),
    /// A text that defines tables is invalid.
    Definition {
        /// Line of the text, from 1; 0 where it is the definition as a whole.
        line: usize,
        /// What is wrong, and what to write.
        what: String,
    },
    /// There is no such table.
    NoTable {
        /// The requested name.
        name: String,
        /// The existing tables.
        known: Vec<String>,
    },
    /// There is no such column.
    NoColumn {
        /// The table.
        table: String,
        /// The requested name.
        name: String,
        /// The existing columns.
        known: Vec<String>,
    },
    /// An update does not fit its table. Nothing of it was accepted.
    Update {
        /// The table.
        table: String,
        /// What does not fit.
        what: String,
    },
    /// An update could not be logged. Rows that are not stored now will not be stored later.
    NotLogged {
        /// The table.
        table: String,
        /// Rows of the update; 0: of several asynchronous ones.
        rows: u64,
        /// How many of them, from the first on, are stored nevertheless.
        stored: u64,
        /// Why.
        cause: Box<tapedb_engine::Error>,
    },
    /// An existing table has columns that a new definition of it would lose.
    Columns {
        /// The table's stream.
        stream: String,
        /// What would be lost.
        what: String,
    },
    /// A request that cannot be done.
    Asked {
        /// What, and what to do instead.
        what: String,
    },
}

impl fmt::Display for TickError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Database(error) => write!(f, "{error}"),
            Self::Definition { line: 0, what } => write!(f, "tables: {what}"),
            Self::Definition { line, what } => write!(f, "tables, line {line}: {what}"),
            Self::NoTable { name, known } if known.is_empty() => {
                write!(f, "there is no table {name:?}, nor any other yet")
            }
            Self::NoTable { name, known } => {
                write!(f, "there is no table {name:?}; there are {}", known.join(", "))
            }
            Self::NoColumn { table, name, known } => {
                write!(f, "table {table} has no column {name:?}; it has {}", known.join(", "))
            }
            Self::Update { table, what } => write!(f, "update of table {table}: {what}"),
            Self::NotLogged { table, rows: 0, cause, .. } => {
                write!(f, "updates of table {table} are not stored, send them again: {cause}")
            }
            Self::NotLogged { table, stored: 0, cause, .. } => {
                write!(f, "update of table {table}: nothing of it is stored, send it again: {cause}")
            }
            Self::NotLogged { table, rows, stored, cause } => write!(
                f,
                "update of table {table}: the first {stored} of its {rows} rows are stored, send the others again: {cause}"
            ),
            Self::Columns { stream, what } => write!(
                f,
                "stream {stream}: {what}, and what is stored of it would be lost; define it as it is, or change the stream with `tapedb alter {stream} --schema FILE`"
            ),
            Self::Asked { what } => f.write_str(what),
        }
    }
}

impl std::error::Error for TickError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Database(error) => Some(error),
            Self::NotLogged { cause, .. } => Some(cause),
            _ => None,
        }
    }
}

impl From<tapedb_engine::Error> for TickError {
    fn from(error: tapedb_engine::Error) -> Self {
        Self::Database(error)
    }
}

/// [`TickError::Asked`].
pub(crate) fn asked<T>(what: impl Into<String>) -> Result<T, TickError> {
    Err(TickError::Asked { what: what.into() })
}
