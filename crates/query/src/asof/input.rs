//! The rows of one side of an as-of join, with their times and the numbers of their keys.

use super::keys::{Keys, NONE};
use super::output::bytes_of;
use super::sides::Side;
use crate::reader::ByTime;
use crate::scan::Reader;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray, StringViewArray};
use datafusion::arrow::buffer::ScalarBuffer;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_expr::PhysicalExprRef;
use futures::StreamExt;
use std::sync::Arc;

/// A side, batch by batch.
pub(super) enum Input {
    Stream {
        stream: SendableRecordBatchStream,
        time: PhysicalExprRef,
        keys: Vec<PhysicalExprRef>,
    },
    /// A table whose symbol is the key, and the numbers of keys by the places of their names.
    Table {
        rows: Reader<ByTime>,
        numbers: Vec<u32>,
    },
    Over,
}

/// A batch of one side.
pub(super) struct Rows {
    pub batch: RecordBatch,
    pub times: ScalarBuffer<i64>,
    /// Number of rows that have a time: they are the first ones.
    pub timed: usize,
    /// About how many bytes the batch takes, with times and numbers.
    pub bytes: usize,
    /// The keys, and their numbers.
    pub keys: RowKeys,
    pub numbers: Vec<u32>,
}

/// The keys of rows.
pub(super) enum RowKeys {
    Columns(Vec<ArrayRef>),
    /// Places in a list of names.
    Names(ScalarBuffer<i32>, StringArray),
}

impl RowKeys {
    /// The key of a row that has one, which is a text.
    pub fn text(&self, row: usize) -> &str {
        match self {
            Self::Columns(columns) => columns[0].as_string_view().value(row),
            Self::Names(places, names) => names.value(places[row] as usize),
        }
    }
}

impl Input {
    /// A side that is a stream of batches.
    pub fn new(side: &Side, stream: SendableRecordBatchStream) -> Self {
        Self::Stream { stream, time: side.time.clone(), keys: side.keys.clone() }
    }

    /// A side that is read of a table.
    pub fn of_table(rows: Reader<ByTime>) -> Self {
        Self::Table { rows, numbers: Vec::new() }
    }

    /// The next batch, which has a row; `None`: that was all. New keys get numbers.
    ///
    /// # Errors
    /// Those of the input.
    pub async fn next(&mut self, keys: &mut Keys) -> Result<Option<Rows>> {
        loop {
            let next = match self {
                Self::Over => return Ok(None),
                Self::Stream { stream, time, keys: of_rows } => {
                    let batch = stream.next().await.transpose()?;
                    batch.map(|batch| rows_of(batch, (time, of_rows), keys)).transpose()?
                }
                Self::Table { rows, numbers } => {
                    let rows = rows.next().await?;
                    rows.map(|rows| rows_of_table(rows, numbers, keys)).transpose()?
                }
            };
            match next {
                None => *self = Self::Over,
                Some(rows) if rows.batch.num_rows() == 0 => {}
                rows => return Ok(rows),
            }
        }
    }
}

fn rows_of(
    batch: RecordBatch,
    (time, of_rows): (&PhysicalExprRef, &[PhysicalExprRef]),
    keys: &mut Keys,
) -> Result<Rows> {
    let rows = batch.num_rows();
    let times = time.evaluate(&batch)?.into_array(rows)?;
    let columns = of_rows.iter().map(|key| key.evaluate(&batch)?.into_array(rows));
    let columns: Vec<ArrayRef> = columns.collect::<Result<_>>()?;
    let mut numbers = Vec::with_capacity(rows);
    keys.numbers(&columns, rows, &mut numbers)?;
    let timed = rows - times.null_count();
    let times = cast(&times, &DataType::Int64)?.as_primitive::<Int64Type>().values().clone();
    let bytes = bytes_of(&batch)? + rows * (size_of::<i64>() + size_of::<u32>());
    Ok(Rows { batch, bytes, times, timed, keys: RowKeys::Columns(columns), numbers })
}

fn rows_of_table(rows: ByTime, known: &mut Vec<u32>, keys: &mut Keys) -> Result<Rows> {
    let ByTime { batch, times, symbols, names } = rows;
    number_names(&names, known, keys)?;
    let numbers = symbols.iter().map(|place| known.get(*place as usize).copied().unwrap_or(NONE)).collect();
    let timed = times.len();
    let bytes = bytes_of(&batch)? + timed * (size_of::<i64>() + 2 * size_of::<u32>());
    Ok(Rows { batch, bytes, times, timed, keys: RowKeys::Names(symbols, names), numbers })
}

/// Gives the names that a list has more than before the numbers of their keys.
///
/// # Errors
/// When keys are no texts.
pub(super) fn number_names(names: &StringArray, known: &mut Vec<u32>, keys: &mut Keys) -> Result<()> {
    if known.len() < names.len() {
        let new = (known.len()..names.len()).map(|name| names.value(name));
        let new: ArrayRef = Arc::new(StringViewArray::from_iter_values(new));
        let mut numbers = Vec::new();
        keys.numbers(&[new], names.len() - known.len(), &mut numbers)?;
        known.append(&mut numbers);
    }
    Ok(())
}
