//! The rows of one side of an as-of join, with their times and the numbers of their keys.

use super::keys::Keys;
use super::output::bytes_of;
use super::sides::Side;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_expr::PhysicalExprRef;
use futures::StreamExt;

/// A side, batch by batch.
pub(super) struct Input {
    /// `None`: it has ended.
    stream: Option<SendableRecordBatchStream>,
    time: PhysicalExprRef,
    keys: Vec<PhysicalExprRef>,
}

/// A batch of one side.
pub(super) struct Rows {
    pub batch: RecordBatch,
    pub times: Vec<i64>,
    /// Number of rows that have a time: they are the first ones.
    pub timed: usize,
    /// About how many bytes the batch takes, with times and numbers.
    pub bytes: usize,
    /// The keys, and their numbers.
    pub keys: Vec<ArrayRef>,
    pub numbers: Vec<u32>,
}

impl Input {
    pub fn new(side: &Side, stream: SendableRecordBatchStream) -> Self {
        Self { stream: Some(stream), time: side.time.clone(), keys: side.keys.clone() }
    }

    /// The next batch, which has a row; `None`: that was all. New keys get numbers.
    ///
    /// # Errors
    /// Those of the input.
    pub async fn next(&mut self, keys: &mut Keys) -> Result<Option<Rows>> {
        loop {
            let Some(stream) = &mut self.stream else { return Ok(None) };
            let Some(batch) = stream.next().await.transpose()? else {
                self.stream = None;
                return Ok(None);
            };
            if batch.num_rows() > 0 {
                return self.rows_of(batch, keys).map(Some);
            }
        }
    }

    fn rows_of(&self, batch: RecordBatch, keys: &mut Keys) -> Result<Rows> {
        let rows = batch.num_rows();
        let times = self.time.evaluate(&batch)?.into_array(rows)?;
        let columns = self.keys.iter().map(|key| key.evaluate(&batch)?.into_array(rows));
        let columns: Vec<ArrayRef> = columns.collect::<Result<_>>()?;
        let mut numbers = Vec::with_capacity(rows);
        keys.numbers(&columns, rows, &mut numbers)?;
        let timed = rows - times.null_count();
        let times = cast(&times, &DataType::Int64)?.as_primitive::<Int64Type>().values().to_vec();
        let bytes = bytes_of(&batch)? + rows * (size_of::<i64>() + size_of::<u32>());
        Ok(Rows { batch, bytes, times, timed, keys: columns, numbers })
    }
}
