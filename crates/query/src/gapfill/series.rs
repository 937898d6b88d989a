//! The rows of filled series: for each of them where its values come from.

use super::ROWS_MAX;
use super::node::{Fill, Filling, is_count};
use crate::error::{Error, Reason, wrapped};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, TimestampNanosecondArray, UInt32Array,
    UInt64Array,
};
use datafusion::arrow::compute::{cast, partition, take};
use datafusion::arrow::datatypes::{
    DataType, Float64Type, Int64Type, SchemaRef, TimestampNanosecondType, UInt64Type,
};
use datafusion::error::Result;
use std::ops::Range;
use std::sync::Arc;

/// Series with a row for each bucket, in the order of their keys and of time.
#[derive(Debug)]
pub(super) struct Series {
    /// The groups, sorted by keys and buckets.
    groups: RecordBatch,
    filling: Filling,
    schema: SchemaRef,
    /// Beginnings of the buckets of the rows.
    starts: Vec<i64>,
    /// The groups of the rows; `None`: a gap.
    sources: Vec<Option<u32>>,
    /// A group of the same series.
    members: Vec<Option<u32>>,
    /// The columns behind those of the groups.
    filled: Vec<Filled>,
    /// Rows that have been returned.
    at: usize,
}

/// What a column is filled with.
#[derive(Debug)]
enum Filled {
    /// The groups that have the values.
    From(Vec<Option<u32>>),
    Numbers(Vec<Option<f64>>),
}

impl Series {
    /// # Errors
    /// When values cannot be compared.
    pub fn new(groups: RecordBatch, buckets: &[i64], filling: &Filling, schema: &SchemaRef) -> Result<Self> {
        let ranges = ranges(&groups, filling)?;
        let times = groups.column(filling.bucket).as_primitive::<TimestampNanosecondType>().values().clone();
        let mut series = Self {
            groups,
            filling: filling.clone(),
            schema: schema.clone(),
            starts: Vec::new(),
            sources: Vec::new(),
            members: Vec::new(),
            filled: Vec::new(),
            at: 0,
        };
        let mut rows = Vec::with_capacity(ranges.len());
        for range in ranges {
            let first = series.starts.len();
            let member = (!range.is_empty()).then_some(range.start as u32);
            let mut row = range.start;
            for start in buckets {
                let source = (row < range.end && times[row] == *start).then_some(row as u32);
                row += usize::from(source.is_some());
                series.starts.push(*start);
                series.sources.push(source);
                series.members.push(member);
            }
            if row < range.end {
                return datafusion::common::internal_err!(
                    "a group is in no bucket; please report this with the query"
                );
            }
            rows.push(first..series.starts.len());
        }
        series.filled = filling.fills.iter().map(|fill| series.fill(fill, &rows)).collect::<Result<_>>()?;
        Ok(series)
    }

    /// Bytes for the rows.
    ///
    /// # Errors
    /// When there are too many rows.
    pub fn bytes(groups: &RecordBatch, buckets: usize, filling: &Filling) -> Result<usize> {
        let rows = ranges(groups, filling)?.len().saturating_mul(buckets);
        if rows > ROWS_MAX {
            return Err(too_many());
        }
        Ok(rows * (24 + 16 * filling.fills.len()))
    }

    fn fill(&self, (column, fill, _): &(usize, Fill, String), series: &[Range<usize>]) -> Result<Filled> {
        let values = self.groups.column(*column);
        let source = |row: usize| self.sources[row].filter(|source| values.is_valid(*source as usize));
        match fill {
            Fill::Locf => {
                let mut last = None;
                let from =
                    series.iter().flat_map(|rows| rows.clone().map(move |row| (row, row == rows.start)));
                Ok(Filled::From(
                    from.map(|(row, is_first)| {
                        last = source(row).or(if is_first { None } else { last });
                        last
                    })
                    .collect(),
                ))
            }
            Fill::Interpolate => {
                let numbers = cast(values, &DataType::Float64)?;
                let numbers = numbers.as_primitive::<Float64Type>();
                let mut filled: Vec<Option<f64>> =
                    (0..self.starts.len()).map(|row| Some(numbers.value(source(row)? as usize))).collect();
                for rows in series {
                    interpolate(&mut filled[rows.clone()], &self.starts[rows.clone()]);
                }
                Ok(Filled::Numbers(filled))
            }
        }
    }

    /// The next rows; `None`: that was all.
    ///
    /// # Errors
    /// When values cannot be gathered.
    pub fn next(&mut self, rows_max: usize) -> Result<Option<RecordBatch>> {
        let rows = self.at..(self.at + rows_max.max(1)).min(self.starts.len());
        if rows.is_empty() {
            return Ok(None);
        }
        self.at = rows.end;
        let of = |from: &[Option<u32>]| from[rows.clone()].iter().copied().collect::<UInt32Array>();
        let (sources, members) = (of(&self.sources), of(&self.members));
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.schema.fields().len());
        for (index, column) in self.groups.columns().iter().enumerate() {
            columns.push(if index == self.filling.bucket {
                let starts = TimestampNanosecondArray::from(self.starts[rows.clone()].to_vec());
                Arc::new(starts.with_data_type(column.data_type().clone()))
            } else if self.filling.keys.contains(&index) {
                take(column, &members, None)?
            } else if is_count(self.schema.field(index)) {
                or_zero(&take(column, &sources, None)?)
            } else {
                take(column, &sources, None)?
            });
        }
        for (filled, (column, ..)) in self.filled.iter().zip(&self.filling.fills) {
            columns.push(match filled {
                Filled::From(from) => take(self.groups.column(*column), &of(from), None)?,
                Filled::Numbers(numbers) => {
                    Arc::new(numbers[rows.clone()].iter().copied().collect::<Float64Array>())
                }
            });
        }
        Ok(Some(RecordBatch::try_new(self.schema.clone(), columns)?))
    }
}

/// Counts, which are 0 where there are none.
fn or_zero(counts: &ArrayRef) -> ArrayRef {
    match counts.as_primitive_opt::<Int64Type>() {
        Some(counts) => Arc::new(counts.iter().map(|count| Some(count.unwrap_or(0))).collect::<Int64Array>()),
        None => {
            let counts = counts.as_primitive::<UInt64Type>().iter();
            Arc::new(counts.map(|count| Some(count.unwrap_or(0))).collect::<UInt64Array>())
        }
    }
}

/// The groups of each series. Without keys there is one, which may have none.
fn ranges(groups: &RecordBatch, filling: &Filling) -> Result<Vec<Range<usize>>> {
    let keys: Vec<ArrayRef> = filling.keys.iter().map(|key| groups.column(*key).clone()).collect();
    if keys.is_empty() {
        return Ok(std::iter::once(0..groups.num_rows()).collect());
    }
    Ok(partition(&keys)?.ranges())
}

/// Puts numbers on the line between those before and after them.
fn interpolate(values: &mut [Option<f64>], times: &[i64]) {
    let mut before: Option<usize> = None;
    for row in 0..values.len() {
        let Some(to) = values[row] else { continue };
        if let Some(first) = before
            && let Some(from) = values[first]
        {
            let span = times[row].abs_diff(times[first]) as f64;
            for between in first + 1..row {
                let share = times[between].abs_diff(times[first]) as f64 / span;
                values[between] = Some(from + (to - from) * share);
            }
        }
        before = Some(row);
    }
}

/// The error of gap filling that returns too much.
pub(super) fn too_many() -> datafusion::error::DataFusionError {
    let what = "filling gaps returns more than 10 million rows, the limit; ask for a shorter time, wider buckets or fewer groups";
    wrapped(Error::new(Reason::Limit, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_put_on_lines() {
        let mut values = [None, Some(1.0), None, None, Some(7.0), Some(0.0), None];
        interpolate(&mut values, &[0, 10, 20, 30, 40, 50, 60]);
        assert_eq!(values, [None, Some(1.0), Some(3.0), Some(5.0), Some(7.0), Some(0.0), None]);
    }
}
