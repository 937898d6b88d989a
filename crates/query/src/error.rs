//! Why queries fail.

use datafusion::error::DataFusionError;
use std::error::Error as StdError;
use std::fmt;
use tapedb_engine::QueryFailure;

/// Why a query failed.
#[derive(Debug)]
pub struct Error {
    reason: Reason,
    message: String,
    /// The database's error, where it is the cause.
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// What an [`Error`] is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The text of the query: its syntax, its names, its types; what is not supported.
    Query,
    /// A value: a number that does not fit, a text that is no number.
    Value,
    /// A limit: memory, time, rows.
    Limit,
    /// The database: files, connections.
    Database,
    /// A defect of this program.
    Internal,
}

impl Error {
    pub(crate) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), source: None }
    }

    /// A query that is wrong.
    pub(crate) fn query(message: impl Into<String>) -> Self {
        Self::new(Reason::Query, message)
    }

    /// What the error is about.
    pub fn reason(&self) -> Reason {
        self.reason
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_ref().map(|source| &**source as _)
    }
}

impl From<tapedb_engine::Error> for Error {
    fn from(error: tapedb_engine::Error) -> Self {
        if let tapedb_engine::Error::Query { failure, what } = error {
            let reason = match failure {
                QueryFailure::Query => Reason::Query,
                QueryFailure::Value => Reason::Value,
                QueryFailure::Limit => Reason::Limit,
                QueryFailure::Internal => Reason::Internal,
            };
            return Self::new(reason, what);
        }
        Self { reason: Reason::Database, message: error.to_string(), source: Some(Box::new(error)) }
    }
}

/// The error as a server sends it.
impl From<Error> for tapedb_engine::Error {
    fn from(error: Error) -> Self {
        let Error { reason, message, source } = error;
        let failure = match reason {
            Reason::Query => QueryFailure::Query,
            Reason::Value => QueryFailure::Value,
            Reason::Limit => QueryFailure::Limit,
            Reason::Internal => QueryFailure::Internal,
            Reason::Database => match source.map(|source| source.downcast::<Self>()) {
                Some(Ok(error)) => return *error,
                _ => return Self::Remote { code: 100, text: message },
            },
        };
        Self::Query { failure, what: message }
    }
}

impl From<tapedb_arrow::Error> for Error {
    fn from(error: tapedb_arrow::Error) -> Self {
        match error {
            tapedb_arrow::Error::Engine(error) => (*error).into(),
            tapedb_arrow::Error::Value { .. } => Self::new(Reason::Value, error.to_string()),
            other => Self::new(Reason::Query, other.to_string()),
        }
    }
}

/// The error inside of DataFusion, where our own operators make it.
pub(crate) fn wrapped(error: impl Into<Error>) -> DataFusionError {
    DataFusionError::External(Box::new(error.into()))
}

impl From<DataFusionError> for Error {
    fn from(error: DataFusionError) -> Self {
        match error {
            DataFusionError::External(source) => match source.downcast::<Self>() {
                Ok(ours) => *ours,
                Err(other) => Self::new(Reason::Internal, other.to_string()),
            },
            DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => (*inner).into(),
            DataFusionError::Shared(shared) => of_shared(&shared),
            DataFusionError::Collection(mut errors) if !errors.is_empty() => errors.swap_remove(0).into(),
            other => Self::new(reason_of(&other), message_of(&other)),
        }
    }
}

/// The error that several operators share, such as the parts of a join.
fn of_shared(error: &DataFusionError) -> Error {
    match error.find_root() {
        DataFusionError::External(source) => match source.downcast_ref::<Error>() {
            Some(ours) => Error::new(ours.reason, ours.message.clone()),
            None => Error::new(Reason::Internal, source.to_string()),
        },
        root => Error::new(reason_of(root), message_of(root)),
    }
}

fn reason_of(error: &DataFusionError) -> Reason {
    use datafusion::arrow::error::ArrowError;
    match error {
        DataFusionError::SQL(..)
        | DataFusionError::Plan(_)
        | DataFusionError::SchemaError(..)
        | DataFusionError::NotImplemented(_)
        | DataFusionError::Configuration(_) => Reason::Query,
        DataFusionError::ArrowError(error, _) => match **error {
            ArrowError::IoError(..) | ArrowError::IpcError(_) | ArrowError::MemoryError(_) => {
                Reason::Internal
            }
            _ => Reason::Value,
        },
        DataFusionError::Execution(_) => Reason::Value,
        DataFusionError::ResourcesExhausted(_) => Reason::Limit,
        DataFusionError::IoError(_) => Reason::Database,
        _ => Reason::Internal,
    }
}

/// The message without the kind of error that DataFusion puts before it.
fn message_of(error: &DataFusionError) -> String {
    let text = error.strip_backtrace();
    let prefixes = [
        "Error during planning: ",
        "Schema error: ",
        "SQL error: ",
        "Execution error: ",
        "Arrow error: ",
        "Resources exhausted: ",
        "This feature is not implemented: ",
        "External error: ",
    ];
    let mut rest = text.as_str();
    while let Some(shorter) = prefixes.iter().find_map(|prefix| rest.strip_prefix(prefix)) {
        rest = shorter;
    }
    match error {
        DataFusionError::SQL(parser, _) => {
            format!("the query is not SQL as it is understood here: {}", parser_message(parser))
        }
        DataFusionError::NotImplemented(_) => format!("not supported: {rest}"),
        DataFusionError::ResourcesExhausted(_) => {
            format!(
                "the query needs more memory than its limit allows; read a shorter time or fewer symbols at once, group by fewer values, or \
                 raise the limit (--memory, Options::memory_bytes; on a server its own): {rest}"
            )
        }
        _ => rest.to_string(),
    }
}

fn parser_message(error: &datafusion::sql::sqlparser::parser::ParserError) -> String {
    use datafusion::sql::sqlparser::parser::ParserError;
    match error {
        ParserError::TokenizerError(text) | ParserError::ParserError(text) => text.clone(),
        ParserError::RecursionLimitExceeded => "it is nested too deeply".into(),
    }
}
