//! The rows of a statement, from a query at work or ready.

use crate::postgres::cells::Cells;
use crate::postgres::copy::Copy;
use crate::postgres::failure::Failure;
use crate::postgres::types::Column;
use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;
use tapedb_access::Permit;
use tapedb_query::arrow::array::RecordBatch;
use tapedb_query::arrow::datatypes::SchemaRef;
use tapedb_query::{Next, Rows};

/// Rows of a statement, and how far they have been sent.
pub(crate) struct Source {
    pub columns: Vec<Column>,
    work: Work,
    /// The batch that is sent, and its first row that is not.
    batch: Option<(RecordBatch, usize)>,
    /// Given back with the last row.
    permit: Option<Permit>,
}

enum Work {
    Query(Box<Rows>),
    Ready(VecDeque<RecordBatch>),
}

/// What [`Source::step`] found.
pub(crate) enum Step {
    Rows(RecordBatch, Range<usize>),
    Waiting,
    End,
}

impl Source {
    /// A query at work.
    pub fn query(rows: Rows, permit: Permit) -> Self {
        let columns = columns(&rows.schema());
        Self { columns, work: Work::Query(Box::new(rows)), batch: None, permit: Some(permit) }
    }

    /// Rows that are there.
    pub fn ready(schema: &SchemaRef, batches: Vec<RecordBatch>) -> Self {
        Self { columns: columns(schema), work: Work::Ready(batches.into()), batch: None, permit: None }
    }

    /// Streams that the query reads.
    pub fn streams(&self) -> Vec<String> {
        match &self.work {
            Work::Query(rows) => rows.streams(),
            Work::Ready(_) => Vec::new(),
        }
    }

    /// The next rows, at most so many, if they are there in time.
    pub fn step(&mut self, rows_max: usize, timeout: Duration) -> Result<Step, Failure> {
        if self.batch.is_none() {
            let next = match &mut self.work {
                Work::Query(rows) => match rows.next_within(timeout)? {
                    Next::Batch(batch) => Some(batch),
                    Next::Waiting => return Ok(Step::Waiting),
                    Next::End => None,
                },
                Work::Ready(batches) => batches.pop_front(),
            };
            self.batch = next.map(|batch| (batch, 0));
        }
        let Some((batch, start)) = self.batch.take() else {
            self.permit = None;
            return Ok(Step::End);
        };
        let end = batch.num_rows().min(start.saturating_add(rows_max));
        if end < batch.num_rows() {
            self.batch = Some((batch.clone(), end));
        }
        Ok(Step::Rows(batch, start..end))
    }
}

/// The columns of a schema.
pub(crate) fn columns(schema: &SchemaRef) -> Vec<Column> {
    schema.fields().iter().map(Column::of).collect()
}

/// How rows are written.
pub(crate) enum Writer {
    /// As messages; whether each column is binary.
    Rows(Vec<bool>),
    Copy(Copy),
}

/// Columns of a batch, ready to be written.
pub(crate) fn cells(batch: &RecordBatch, columns: &[Column]) -> Result<Vec<Cells>, Failure> {
    batch.columns().iter().zip(columns).map(|(array, column)| Cells::of(array, &column.ty)).collect()
}

/// Writes a row as a message.
#[inline]
pub(crate) fn row(cells: &[Cells], formats: &[bool], row: usize, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(b"D\0\0\0\0");
    out.extend_from_slice(&(cells.len() as u16).to_be_bytes());
    for (cell, is_binary) in cells.iter().zip(formats) {
        if cell.is_null(row) {
            out.extend_from_slice(&(-1i32).to_be_bytes());
        } else if *is_binary {
            cell.binary(row, out);
        } else {
            let at = out.len();
            out.extend_from_slice(&[0; 4]);
            cell.text(row, out);
            let length = (out.len() - at - 4) as u32;
            out[at..at + 4].copy_from_slice(&length.to_be_bytes());
        }
    }
    let length = (out.len() - start - 1) as u32;
    out[start + 1..start + 5].copy_from_slice(&length.to_be_bytes());
}
