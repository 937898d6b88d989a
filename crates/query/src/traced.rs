//! Spans of a query's stages, for traces: what is planned, what is started, and how long its rows take.

use tracing::Span;
use tracing::field::Empty;

/// The rows of a query as a span, from the start to the end; the text of the query is not in it, since it may hold what is secret.
#[derive(Debug)]
pub(crate) struct RowsSpan {
    span: Span,
    rows: u64,
}

impl RowsSpan {
    /// A span within the current one.
    pub fn new() -> Self {
        Self { span: tracing::info_span!(target: "tapedb::trace", "sql.rows", rows = Empty), rows: 0 }
    }

    /// So many rows were returned.
    pub fn add(&mut self, rows: usize) {
        self.rows += rows as u64;
    }
}

impl Drop for RowsSpan {
    fn drop(&mut self) {
        self.span.record("rows", self.rows);
    }
}

/// A stage within the current span.
pub(crate) fn stage<T>(planning: bool, work: impl FnOnce() -> T) -> T {
    let span = match planning {
        true => tracing::info_span!(target: "tapedb::trace", "sql.plan"),
        false => tracing::info_span!(target: "tapedb::trace", "sql.start"),
    };
    span.in_scope(work)
}
