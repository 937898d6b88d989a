//! Reads Arrow record batches, and sums them up.

use crate::report::Report;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, TimestampNanosecondType, UInt64Type};
use arrow_array::{Array, RecordBatch};
use std::time::Instant;
use tapedb_arrow::{BatchReader, ReadOptions};
use tapedb_engine::Stream;
use tapedb_terminal::Failure;

/// Sums of what a reader of record batches found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BatchSums {
    pub messages: u64,
    pub times: u64,
    /// Of the columns of whole numbers and floats, the latter by their bits.
    pub numbers: u64,
    /// Items of lists.
    pub items: u64,
}

/// Reads all messages of a type as record batches: `case`. In time order, times must grow.
pub fn measure(
    stream: &Stream,
    record: &str,
    in_time_order: bool,
    case: &str,
    report: &mut Report,
) -> Result<BatchSums, Failure> {
    let failed = |error: tapedb_arrow::Error| Failure::new(error.to_string());
    let started = Instant::now();
    let options = ReadOptions { in_time_order, ..ReadOptions::default() };
    let reader = BatchReader::open(std::slice::from_ref(stream), stream.cursor(), record, &options);
    let mut reader = reader.map_err(failed)?;
    let mut sums = BatchSums::default();
    let mut last = i64::MIN;
    while let Some(batch) = reader.next_batch().map_err(failed)? {
        sums.add(&batch);
        let times = batch.column(0).as_primitive::<TimestampNanosecondType>().values();
        if in_time_order && times.first().is_some_and(|first| *first < last) {
            return Err(Failure::new(format!(
                "{case}: a batch is before the one before it; please report this"
            )));
        }
        last = times.last().copied().unwrap_or(last);
    }
    report.add(case, "rate", "messages/s", sums.messages as f64 / started.elapsed().as_secs_f64());
    Ok(sums)
}

impl BatchSums {
    fn add(&mut self, batch: &RecordBatch) {
        self.messages += batch.num_rows() as u64;
        for column in batch.columns() {
            if let Some(times) = column.as_primitive_opt::<TimestampNanosecondType>() {
                let sum = times.values().iter().fold(0u64, |sum, time| sum.wrapping_add(*time as u64));
                self.times = self.times.wrapping_add(sum);
            } else if let Some(floats) = column.as_primitive_opt::<Float64Type>() {
                let sum = floats.values().iter().fold(0u64, |sum, float| sum.wrapping_add(float.to_bits()));
                self.numbers = self.numbers.wrapping_add(sum);
            } else if let Some(numbers) = column.as_primitive_opt::<UInt64Type>() {
                let sum = numbers.values().iter().fold(0u64, |sum, number| sum.wrapping_add(*number));
                self.numbers = self.numbers.wrapping_add(sum);
            } else if let Some(lists) = column.as_list_opt::<i32>() {
                let offsets = lists.value_offsets();
                self.items += (offsets[lists.len()] - offsets[0]) as u64;
            }
        }
    }
}

/// Fails unless both found the same.
pub fn check(what: &str, expected: &BatchSums, found: &BatchSums) -> Result<(), Failure> {
    if expected == found {
        return Ok(());
    }
    Err(Failure::new(format!("{what}: {expected:?} are expected, {found:?} were read; please report this")))
}
