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

/// Series with a row for each bucket, in the order of their keys and of time. Rows are made when they are asked for.
#[derive(Debug)]
pub(super) struct Series {
    /// The groups, sorted by keys and buckets.
    groups: RecordBatch,
    filling: Filling,
    schema: SchemaRef,
    /// Beginnings of the buckets.
    buckets: Vec<i64>,
    /// The groups of each series.
    ranges: Vec<Range<usize>>,
    /// What the columns behind those of the groups are filled with.
    fills: Vec<Filler>,
    /// The next row: its series, its bucket, and the first group that is not in an earlier bucket.
    at: (usize, usize, usize),
}

/// Fills a column, row by row.
#[derive(Debug)]
struct Filler {
    fill: Fill,
    /// The groups' values; as doubles, if they are interpolated.
    values: ArrayRef,
    /// The last group that has a value, in this bucket or before it, and the next one, in it or behind it.
    before: Option<usize>,
    after: Option<usize>,
}

/// What some rows of a filled column come from.
enum Filled {
    /// The groups that have the values.
    From(Vec<Option<u32>>),
    Numbers(Vec<Option<f64>>),
}

impl Series {
    /// # Errors
    /// When values cannot be compared, or there would be too many rows.
    pub fn new(
        groups: RecordBatch,
        buckets: Vec<i64>,
        filling: &Filling,
        schema: &SchemaRef,
    ) -> Result<Self> {
        let ranges = ranges(&groups, filling)?;
        if ranges.len().saturating_mul(buckets.len()) > ROWS_MAX {
            return Err(too_many());
        }
        let filler = |(column, fill, _): &(usize, Fill, String)| {
            let values = groups.column(*column);
            let values = match fill {
                Fill::Locf => values.clone(),
                Fill::Interpolate => cast(values, &DataType::Float64)?,
            };
            Ok(Filler { fill: *fill, values, before: None, after: None })
        };
        let fills = filling.fills.iter().map(filler).collect::<Result<_>>()?;
        let (filling, schema) = (filling.clone(), schema.clone());
        let mut series = Self { groups, filling, schema, buckets, ranges, fills, at: (0, 0, 0) };
        series.begin();
        Ok(series)
    }

    /// Bytes that it holds beside the groups: doubles that are interpolated, buckets, and ranges of groups.
    pub fn bytes(groups: &RecordBatch, buckets: usize, filling: &Filling) -> usize {
        let interpolated = filling.fills.iter().filter(|(_, fill, _)| *fill == Fill::Interpolate).count();
        let of_group = interpolated * size_of::<f64>() + size_of::<Range<usize>>();
        groups.num_rows() * of_group + buckets * size_of::<i64>()
    }

    /// Begins a series.
    fn begin(&mut self) {
        let Some(range) = self.ranges.get(self.at.0) else { return };
        self.at = (self.at.0, 0, range.start);
        for filler in &mut self.fills {
            filler.before = None;
            filler.after = filler.next(range.start, range.end);
        }
    }

    /// The next rows; `None`: that was all.
    ///
    /// # Errors
    /// When values cannot be gathered.
    pub fn next(&mut self, rows_max: usize) -> Result<Option<RecordBatch>> {
        let times = self.groups.column(self.filling.bucket).as_primitive::<TimestampNanosecondType>().clone();
        let times = times.values();
        let (mut starts, mut sources, mut members) = (Vec::new(), Vec::new(), Vec::new());
        let mut filled: Vec<Filled> = self.fills.iter().map(Filler::nothing).collect();
        while starts.len() < rows_max.max(1) && !self.buckets.is_empty() {
            let Some(range) = self.ranges.get(self.at.0).cloned() else { break };
            let (_, bucket, group) = self.at;
            let start = self.buckets[bucket];
            let source = (group < range.end && times[group] == start).then_some(group);
            for (filler, filled) in self.fills.iter_mut().zip(&mut filled) {
                filler.pass(source, range.end);
                filler.push(filled, start, times);
            }
            starts.push(start);
            sources.push(source.map(|group| group as u32));
            members.push((!range.is_empty()).then_some(range.start as u32));
            self.at = (self.at.0, bucket + 1, group + usize::from(source.is_some()));
            if self.at.1 == self.buckets.len() {
                if self.at.2 < range.end {
                    return datafusion::common::internal_err!(
                        "a group is in no bucket; please report this with the query"
                    );
                }
                self.at.0 += 1;
                self.begin();
            }
        }
        if starts.is_empty() {
            return Ok(None);
        }
        let (sources, members) = (UInt32Array::from(sources), UInt32Array::from(members));
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.schema.fields().len());
        for (index, column) in self.groups.columns().iter().enumerate() {
            columns.push(if index == self.filling.bucket {
                let starts = TimestampNanosecondArray::from(std::mem::take(&mut starts));
                Arc::new(starts.with_data_type(column.data_type().clone()))
            } else if self.filling.keys.contains(&index) {
                take(column, &members, None)?
            } else if is_count(self.schema.field(index)) {
                or_zero(&take(column, &sources, None)?)
            } else {
                take(column, &sources, None)?
            });
        }
        for (filled, filler) in filled.into_iter().zip(&self.fills) {
            columns.push(match filled {
                Filled::From(from) => take(&filler.values, &UInt32Array::from(from), None)?,
                Filled::Numbers(numbers) => Arc::new(Float64Array::from(numbers)),
            });
        }
        Ok(Some(RecordBatch::try_new(self.schema.clone(), columns)?))
    }
}

impl Filler {
    fn nothing(&self) -> Filled {
        match self.fill {
            Fill::Locf => Filled::From(Vec::new()),
            Fill::Interpolate => Filled::Numbers(Vec::new()),
        }
    }

    /// The first group with a value.
    fn next(&self, from: usize, end: usize) -> Option<usize> {
        (from..end).find(|group| self.values.is_valid(*group))
    }

    /// Goes to the next bucket, which has this group, of a series that ends there.
    fn pass(&mut self, source: Option<usize>, end: usize) {
        if self.before.is_some() && self.before == self.after {
            self.after = self.before.and_then(|before| self.next(before + 1, end));
        }
        if source.is_some() && source == self.after {
            self.before = self.after;
        }
    }

    /// Adds the value of a bucket.
    fn push(&self, filled: &mut Filled, start: i64, times: &[i64]) {
        match filled {
            Filled::From(from) => from.push(self.before.map(|group| group as u32)),
            Filled::Numbers(numbers) => {
                let values = self.values.as_primitive::<Float64Type>();
                numbers.push(self.before.zip(self.after).map(|(before, after)| {
                    if before == after {
                        return values.value(before);
                    }
                    let (from, to) = (values.value(before), values.value(after));
                    let span = times[after].abs_diff(times[before]) as f64;
                    from + (to - from) * (start.abs_diff(times[before]) as f64 / span)
                }));
            }
        }
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

/// The error of gap filling that returns too much.
pub(super) fn too_many() -> datafusion::error::DataFusionError {
    let what = "filling gaps returns more than 10 million rows, the limit; ask for a shorter time, wider buckets or fewer groups";
    wrapped(Error::new(Reason::Limit, what))
}
