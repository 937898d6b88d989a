//! Queries where the data is: their texts and rows pass through here as plain data. What runs them is not part of the engine.

use crate::error::Error;
use std::fmt;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

/// A query.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Query {
    /// Its text.
    pub text: String,
    /// Values of its parameters: an Arrow IPC stream with one row, whose columns have the names of the parameters; empty: it has
    /// none.
    pub parameters: Vec<u8>,
    /// What becomes of values of `decimal64`: `float`, `raw`, or digits and scale such as `18,4`.
    pub decimals: String,
    /// Whether symbols and enums that come straight from tables are dictionaries in its rows; otherwise texts.
    pub dictionaries: bool,
    /// The query ends with an error when it runs longer; `None`: the limit of who runs it.
    pub time_limit: Option<Duration>,
    /// The query ends with an error when it has more rows; `None`: the limit of who runs it.
    pub rows_max: Option<u64>,
}

/// What [`QueryRows::next`] returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryStep {
    /// There are bytes.
    Bytes,
    /// Nothing yet.
    Waiting,
    /// That was all.
    End,
}

/// The rows of a query, as the bytes of an Arrow IPC stream. Dropping it stops the query.
pub trait QueryRows: Send + Debug {
    /// Replaces `out` by the next bytes, which may end anywhere in the stream, if there are some within `timeout`. The first bytes
    /// contain the schema.
    ///
    /// # Errors
    /// [`Error::Query`]; when messages cannot be read. There are no bytes after an error.
    fn next(&mut self, timeout: Duration, out: &mut Vec<u8>) -> Result<QueryStep, Error>;

    /// Names of the streams that it reads, as far as they are known.
    fn streams(&self) -> Vec<String> {
        Vec::new()
    }
}

/// For whom a query runs.
#[derive(Clone)]
pub struct QueryUser {
    /// The user's name: queries of one user share memory.
    pub name: String,
    /// Whether the user may read a stream. To the query, other streams do not exist.
    pub may_read: Arc<dyn Fn(&str) -> bool + Send + Sync>,
    /// Bytes of memory for the state of operators, of all queries of the user together.
    pub memory_bytes: usize,
}

impl Debug for QueryUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueryUser").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Runs queries on a database, for the users of a server.
pub trait QueryEngine: Send + Sync + Debug {
    /// Begins a query. Calls may be at once, and block while the query is planned.
    ///
    /// # Errors
    /// [`Error::Query`]; when streams cannot be read.
    fn begin(&self, query: &Query, user: &QueryUser) -> Result<Box<dyn QueryRows>, Error>;
}
