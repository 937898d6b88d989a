//! What one wait for rows ends with.

use datafusion::arrow::array::RecordBatch;

/// What [`Rows::next_within`](crate::Rows::next_within) returns.
#[derive(Debug, Clone)]
pub enum Next {
    /// A batch, which has at least one row.
    Batch(RecordBatch),
    /// Nothing yet.
    Waiting,
    /// That was all.
    End,
}
