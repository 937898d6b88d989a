//! Queries of an RDB and an HDB.

use crate::table::NO_SYMBOL;
use tapedb_schema::Timestamp;

/// Which rows and columns of one table are wanted. Only `table` is required.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Query {
    /// The table.
    pub table: String,
    /// The columns, in this order; `None`: all.
    pub columns: Option<Vec<String>>,
    /// Only rows of these symbols; the empty one is kdb+'s null. `None`: of all.
    pub symbols: Option<Vec<String>>,
    /// Only rows at or after this time.
    pub from: Option<Timestamp>,
    /// Only rows before this time.
    pub to: Option<Timestamp>,
    /// Of what remains only the last row of each symbol, by symbol.
    pub last_by_symbol: bool,
    /// At most so many rows: the first ones, or where it is negative the last ones.
    pub limit: Option<i64>,
}

impl Query {
    /// All of a table.
    pub fn table(name: impl Into<String>) -> Self {
        Self { table: name.into(), ..Self::default() }
    }

    /// Only these columns.
    pub fn columns<S: Into<String>>(mut self, columns: impl IntoIterator<Item = S>) -> Self {
        self.columns = Some(columns.into_iter().map(Into::into).collect());
        self
    }

    /// Only these symbols.
    pub fn symbols<S: Into<String>>(mut self, symbols: impl IntoIterator<Item = S>) -> Self {
        self.symbols = Some(symbols.into_iter().map(Into::into).collect());
        self
    }

    /// Only rows at or after this time.
    pub fn from(mut self, time: Timestamp) -> Self {
        self.from = Some(time);
        self
    }

    /// Only rows before this time.
    pub fn to(mut self, time: Timestamp) -> Self {
        self.to = Some(time);
        self
    }

    /// Only the last row of each symbol.
    pub fn last_by_symbol(mut self) -> Self {
        self.last_by_symbol = true;
        self
    }

    /// At most the first so many rows, or with a negative number the last.
    pub fn limit(mut self, rows: i64) -> Self {
        self.limit = Some(rows);
        self
    }

    /// The symbols as in streams.
    pub(crate) fn stream_symbols(&self) -> Option<Vec<String>> {
        let as_stored = |symbol: &String| if symbol.is_empty() { NO_SYMBOL.into() } else { symbol.clone() };
        self.symbols.as_ref().map(|symbols| symbols.iter().map(as_stored).collect())
    }

    /// Whether a time is wanted.
    #[inline]
    pub(crate) fn wants_time(&self, time: i64) -> bool {
        self.from.is_none_or(|from| time >= from.0) && self.to.is_none_or(|to| time < to.0)
    }
}
