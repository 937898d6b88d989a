//! Failures, and the exceptions that they are in Python: `tapedb/_errors.py` has the classes.

use crate::held::try_attached;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyModule;
use tapedb_client::OpenError;
use tapedb_engine::{
    ConnectionError, Error, Invalid, LogError, NotFound, QueryFailure, Rejected, Stale, Unreadable,
};
use tapedb_server::ServerError;
#[cfg(target_os = "linux")]
use tapedb_topic::TopicError;

/// Why a call failed.
#[derive(Debug)]
pub enum Failure {
    /// The engine's error.
    Engine(Box<Error>),
    /// An error of record batches.
    Arrow(Box<tapedb_arrow::Error>),
    /// A database that cannot be opened.
    Open(Box<OpenError>),
    /// A server that cannot be started.
    Server(Box<ServerError>),
    /// A topic's error.
    #[cfg(target_os = "linux")]
    Topic(Box<TopicError>),
    /// The object was closed.
    Closed(&'static str),
    /// The object was made before a fork, by the parent.
    Forked(&'static str),
    /// The call comes from a signal's handler, and interrupted one that uses the object.
    InUse(&'static str),
    /// A value that does not fit: the field, and what is wrong.
    Mismatch {
        /// The field, as a path; empty: the whole.
        field: String,
        /// The row of a table.
        row: Option<u64>,
        /// What does not fit.
        what: String,
    },
    /// An argument that is not possible.
    Argument(String),
    /// What this build of the module does not have.
    Unavailable(&'static str),
    /// A defect of TapeDB: the text of a panic.
    Internal(String),
    /// An exception.
    Python(PyErr),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Engine(Box::new(error))
    }
}

impl From<tapedb_arrow::Error> for Failure {
    fn from(error: tapedb_arrow::Error) -> Self {
        match error {
            tapedb_arrow::Error::Engine(error) => Self::Engine(error),
            error => Self::Arrow(Box::new(error)),
        }
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Engine(error) => error.into(),
            error => Self::Open(Box::new(error)),
        }
    }
}

impl From<ServerError> for Failure {
    fn from(error: ServerError) -> Self {
        match error {
            ServerError::Database(error) => error.into(),
            error => Self::Server(Box::new(error)),
        }
    }
}

#[cfg(target_os = "linux")]
impl From<TopicError> for Failure {
    fn from(error: TopicError) -> Self {
        Self::Topic(Box::new(error))
    }
}

impl From<PyErr> for Failure {
    fn from(error: PyErr) -> Self {
        Self::Python(error)
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        Python::attach(|py| failure.raised(py))
    }
}

/// An exception in the making: its class, text and attributes.
struct Exception<'py> {
    py: Python<'py>,
    class: &'static str,
    text: String,
    attributes: Vec<(&'static str, Py<PyAny>)>,
}

impl<'py> Exception<'py> {
    fn new(py: Python<'py>, class: &'static str, text: impl ToString) -> Self {
        Self { py, class, text: text.to_string(), attributes: Vec::new() }
    }

    fn with(mut self, name: &'static str, value: impl IntoPyObjectExt<'py>) -> Self {
        if let Ok(value) = value.into_py_any(self.py) {
            self.attributes.push((name, value));
        }
        self
    }

    fn raised(self) -> PyErr {
        let make = || -> PyResult<PyErr> {
            let exception = errors(self.py)?.getattr(self.class)?.call1((self.text,))?;
            for (name, value) in self.attributes {
                exception.setattr(name, value)?;
            }
            Ok(PyErr::from_value(exception))
        };
        make().unwrap_or_else(|error| error)
    }
}

use pyo3::IntoPyObjectExt;

fn errors(py: Python<'_>) -> PyResult<&Bound<'_, PyModule>> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    MODULE
        .get_or_try_init(py, || Ok(py.import(intern!(py, "tapedb._errors"))?.unbind()))
        .map(|module| module.bind(py))
}

impl Failure {
    /// A value that does not fit its field.
    pub fn mismatch(field: impl Into<String>, what: impl Into<String>) -> Self {
        Self::Mismatch { field: field.into(), row: None, what: what.into() }
    }

    /// The text, for a library that has errors of its own.
    pub fn text(self) -> String {
        match self {
            Self::Engine(error) => error.to_string(),
            Self::Arrow(error) => error.to_string(),
            Self::Argument(text) => text,
            other => try_attached(|py| other.raised(py).to_string()).unwrap_or_default(),
        }
    }

    /// The exception.
    pub fn raised(self, py: Python<'_>) -> PyErr {
        let new = |class, text: String| Exception::new(py, class, text);
        let exception = match self {
            Self::Python(error) => return error,
            Self::Engine(error) => return engine(py, error.first()),
            Self::Arrow(error) => return arrow(py, &error),
            #[cfg(target_os = "linux")]
            Self::Topic(error) => return topic(py, &error),
            Self::Open(error) => new("Invalid", error.to_string()),
            Self::Server(error) => match &*error {
                ServerError::System { source, .. } => {
                    new("StorageError", error.to_string()).with("errno", source.raw_os_error())
                }
                _ => new("Invalid", error.to_string()),
            },
            Self::Closed(what) => new("Closed", format!("the {what} is closed; open it again")),
            Self::Forked(what) => new(
                "Forked",
                format!(
                    "the {what} was opened before a fork, in the parent process; open the database again here"
                ),
            ),
            Self::InUse(what) => new(
                "Error",
                format!(
                    "the {what} is in use by the call that was interrupted here; use it when that call has returned"
                ),
            ),
            Self::Mismatch { field, row, what } => {
                let at = match (field.is_empty(), row) {
                    (true, None) => String::new(),
                    (false, None) => format!("{field}: "),
                    (true, Some(row)) => format!("row {row}: "),
                    (false, Some(row)) => format!("column {field:?}, row {row}: "),
                };
                let field = (!field.is_empty()).then_some(field);
                new("SchemaMismatch", format!("{at}{what}")).with("field", field).with("row", row)
            }
            Self::Argument(text) => new("Invalid", text),
            Self::Unavailable(text) => new("Unavailable", text.into()),
            Self::Internal(text) => new(
                "InternalError",
                format!("a defect of TapeDB: {text}; please report it with what led to it"),
            ),
        };
        exception.raised()
    }
}

fn engine(py: Python<'_>, error: &Error) -> PyErr {
    let new = |class| Exception::new(py, class, error);
    let exception = match error {
        Error::NotFound(found) => match found {
            NotFound::Database { path, .. } => {
                new("NotFound").with("what", "database").with("name", path.display().to_string())
            }
            NotFound::Stream { name, known } => {
                new("NotFound").with("what", "stream").with("name", name).with("known", known.clone())
            }
            NotFound::Space { space, .. } => {
                new("NotFound").with("what", "space").with("name", space.to_string())
            }
            NotFound::Symbol { symbol, .. } => new("NotFound").with("what", "symbol").with("name", &**symbol),
            NotFound::Column(column) => new("NotFound")
                .with("what", "column")
                .with("name", &column.field)
                .with("known", column.known.clone()),
            _ => new("NotFound"),
        },
        Error::Stale(stale) => match stale {
            Stale::Deleted { name } => new("Deleted").with("stream", name),
            Stale::Renamed { name, new: now } => new("Renamed").with("stream", name).with("new_name", now),
            Stale::Outdated { stream } => new("Outdated").with("stream", stream),
            _ => new("Stale"),
        },
        Error::Query { failure, .. } => match failure {
            QueryFailure::Query => new("QueryError").with("reason", "query"),
            QueryFailure::Value => new("QueryError").with("reason", "value"),
            QueryFailure::Limit => new("QueryError").with("reason", "limit"),
            QueryFailure::Internal => new("InternalError"),
        },
        Error::Locked { path, server } => {
            new("Busy").with("path", path.display().to_string()).with("server", server.clone())
        }
        Error::ReadOnly => new("ReadOnly"),
        Error::Denied { .. } => new("Denied"),
        Error::Invalid(invalid) => match invalid {
            Invalid::StreamExists { name } => new("Exists").with("name", name),
            Invalid::Schema(_) | Invalid::Version { .. } => new("SchemaError"),
            Invalid::Type { record, .. } => new("SchemaError").with("record", &**record),
            _ => new("Invalid"),
        },
        Error::Rejected(rejected) => match rejected {
            Rejected::Late { stream, time, last } => {
                new("Late").with("stream", stream).with("time", time.0).with("last", last.0)
            }
            Rejected::Encode(error) => new("SchemaMismatch").with("field", &error.path),
            Rejected::Body { row, .. } => new("SchemaMismatch").with("row", *row),
            Rejected::Malformed { .. } => new("SchemaMismatch"),
            _ => new("Rejected"),
        },
        Error::Unreadable(unreadable) => match unreadable {
            Unreadable::Dropped { messages, first_sequence, .. } => {
                new("Missed").with("count", *messages).with("first_sequence", *first_sequence)
            }
            Unreadable::Segment(failure) => new("Damaged")
                .with("path", failure.path.display().to_string())
                .with("first_sequence", failure.first_sequence)
                .with("count", failure.messages),
            Unreadable::Lost(lost) => {
                new("Damaged").with("first_sequence", lost.first_sequence).with("count", lost.messages)
            }
            Unreadable::Message { sequence, .. } | Unreadable::Convert { sequence, .. } => {
                new("Damaged").with("first_sequence", *sequence).with("count", 1)
            }
            Unreadable::Definition { path, .. } => new("Damaged").with("path", path.display().to_string()),
            _ => new("Damaged"),
        },
        Error::Log(log) => match &**log {
            LogError::Full { path, source } | LogError::Io { path, source, .. } => new("StorageError")
                .with("path", path.display().to_string())
                .with("errno", source.raw_os_error()),
            LogError::Damaged { path, damage } => new("Damaged")
                .with("path", path.display().to_string())
                .with("first_sequence", damage.first_sequence)
                .with("count", damage.count),
            LogError::SymbolLength { .. } => new("SchemaMismatch").with("field", "symbol"),
            LogError::SymbolExists { name } => new("Exists").with("name", &**name),
            LogError::Ahead { .. } | LogError::Trimmed { .. } => new("Invalid"),
            _ => new("StorageError"),
        },
        Error::Io { path, source, .. } => {
            new("StorageError").with("path", path.display().to_string()).with("errno", source.raw_os_error())
        }
        Error::Connection(connection) => match connection {
            ConnectionError::Refused { place, .. } => new("Refused").with("place", &**place),
            ConnectionError::Unreachable { place, .. } => new("Disconnected").with("place", &**place),
            ConnectionError::Disconnected { place, .. } => {
                new("Disconnected").with("place", &**place).with("may_be_done", true)
            }
            _ => new("Disconnected"),
        },
        _ => new("Error"),
    };
    exception.raised()
}

fn arrow(py: Python<'_>, error: &tapedb_arrow::Error) -> PyErr {
    use tapedb_arrow::Error as E;
    let new = |class| Exception::new(py, class, error);
    match error {
        E::Value { column, row, .. } => {
            new("SchemaMismatch").with("field", column).with("row", *row).raised()
        }
        E::Schema { column, .. } => new("SchemaMismatch").with("field", column).raised(),
        _ => new("Error").raised(),
    }
}

#[cfg(target_os = "linux")]
fn topic(py: Python<'_>, error: &TopicError) -> PyErr {
    use TopicError as T;
    let new = |class| Exception::new(py, class, error);
    let exception = match error {
        T::NotFound { path } => {
            new("NotFound").with("what", "topic").with("name", path.display().to_string())
        }
        T::Exists { path } => new("Exists").with("name", path.display().to_string()),
        T::Io { path, error: source, .. } => {
            new("StorageError").with("path", path.display().to_string()).with("errno", source.raw_os_error())
        }
        T::Deleted { path, .. } => new("Deleted").with("stream", path.display().to_string()),
        T::Missed { first, count } => new("Missed").with("first_sequence", *first).with("count", *count),
        T::Encode(error) => new("SchemaMismatch").with("field", &error.path),
        T::Schema(_) | T::OtherSchema { .. } | T::Type { .. } | T::Version(_) => new("SchemaError"),
        T::PublisherThere | T::Full { .. } => new("Busy"),
        T::SymbolsFull { .. } | T::TooLarge { .. } | T::Overtaken => new("Rejected"),
        T::Symbol { .. } => new("SchemaMismatch").with("field", "symbol"),
        T::Corrupt { .. } | T::Decode(_) | T::Convert(_) | T::File { .. } => new("Damaged"),
        T::Name { .. } | T::Options(_) | T::Folder { .. } => new("Invalid"),
        _ => new("Error"),
    };
    exception.raised()
}
