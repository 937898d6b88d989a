//! Sums of columns: what proves that every value was read.

use crate::report::Report;
use std::time::Instant;
use tapedb_engine::{ColumnBuilder, Values};
use tapedb_terminal::Failure;

/// Sums of what a reader of columns found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ColumnSums {
    pub messages: u64,
    pub times: u64,
    /// Of each column.
    pub columns: Vec<u64>,
}

/// Reads so many columns, and measures it.
pub fn measure(
    columns: ColumnBuilder,
    count: usize,
    case: &str,
    report: &mut Report,
) -> Result<ColumnSums, Failure> {
    let started = Instant::now();
    let sums = read(columns, count)?;
    report.add(case, "rate", "messages/s", sums.messages as f64 / started.elapsed().as_secs_f64());
    Ok(sums)
}

/// Reads so many columns.
pub fn read(columns: ColumnBuilder, count: usize) -> Result<ColumnSums, Failure> {
    let mut cursor = columns.open()?;
    let mut sums = ColumnSums { columns: vec![0; count], ..ColumnSums::default() };
    while let Some(chunk) = cursor.next()? {
        sums.messages += chunk.len() as u64;
        sums.times = sums.times.wrapping_add(ints(chunk.times()));
        for (index, sum) in sums.columns.iter_mut().enumerate() {
            *sum = sum.wrapping_add(values(chunk.column(index).values()));
        }
    }
    Ok(sums)
}

/// Fails unless both found the same.
pub fn check(what: &str, expected: &ColumnSums, found: &ColumnSums) -> Result<(), Failure> {
    if expected == found {
        return Ok(());
    }
    Err(Failure::new(format!("{what}: {expected:?} are expected, {found:?} were read; please report this")))
}

fn values(values: Values<'_>) -> u64 {
    match values {
        Values::Ints(values) => ints(values),
        Values::F64s(values) => values.iter().fold(0, |sum, value| sum.wrapping_add(value.to_bits())),
        Values::F32s(values) => values.iter().fold(0, |sum, value| sum.wrapping_add(value.to_bits().into())),
        Values::Bytes(ends, bytes) => {
            bytes.iter().fold(ends.len() as u64, |sum, byte| sum.wrapping_add((*byte).into()))
        }
    }
}

fn ints(values: &[i64]) -> u64 {
    values.iter().fold(0, |sum, value| sum.wrapping_add(*value as u64))
}
