//! Groups the rows of a block.

use super::bucket;
use crate::aggregates::{RunStates, Runs};
use crate::reader::BySymbol;
use crate::time::grid::{Bucket, Grid};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Int32Array, RecordBatch, RecordBatchOptions, StringArray,
    StringViewArray, TimestampNanosecondArray,
};
use datafusion::arrow::compute::{filter, filter_record_batch, take};
use datafusion::arrow::datatypes::{DataType, SchemaRef, TimestampNanosecondType};
use datafusion::common::exec_err;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExprRef;
use std::sync::Arc;
use tapedb_engine::SymbolRun;

/// Rows whose arguments are computed at once: few, so that they are in a cache near by.
const ROWS: usize = 8_192;

/// What rows are grouped by.
#[derive(Debug, Clone)]
pub(super) enum Key {
    Symbol,
    /// An expression of one column, the time, which is the same in a bucket.
    Bucket(PhysicalExprRef),
}

/// A function: what it is computed from, of the columns that are read.
#[derive(Debug, Clone)]
pub(super) struct Arguments {
    pub columns: Vec<PhysicalExprRef>,
    pub filter: Option<PhysicalExprRef>,
}

/// What is found in blocks.
pub(super) struct Grouping {
    pub keys: Vec<Key>,
    /// Those of the buckets.
    pub grids: Vec<Grid>,
    /// One batch of one column: the time, as expressions of buckets take it.
    pub times: SchemaRef,
    /// Rows count for which all of these are true.
    pub conditions: Vec<PhysicalExprRef>,
    pub functions: Vec<(Arguments, Box<dyn RunStates>)>,
    pub schema: SchemaRef,
    /// Names of symbols, as far as there were some.
    pub names: Option<StringViewArray>,
}

impl Grouping {
    /// The states of the groups of a block: a row for each symbol and bucket, where a group is of all symbols too. `None`: no row counts.
    ///
    /// # Errors
    /// When an argument or a bucket cannot be computed, or a state does not fit its type.
    pub fn block(&mut self, rows: BySymbol) -> Result<Option<RecordBatch>> {
        let BySymbol { mut batch, mut times, mut runs, names, .. } = rows;
        // One after the other: a condition may be about what the one before it has left.
        for expr in &self.conditions {
            let wanted = condition(expr, &batch)?;
            if wanted.true_count() == wanted.len() {
                continue;
            }
            let kept = |column: ArrayRef| filter(&column, &wanted);
            batch = filter_record_batch(&batch, &wanted)?;
            let of_times = kept(Arc::new(TimestampNanosecondArray::new(times, None)))?;
            times = of_times.as_primitive::<TimestampNanosecondType>().values().clone();
            let (mut at, mut end) = (0, 0);
            for run in &mut runs {
                let rows = run.end as usize - std::mem::replace(&mut at, run.end as usize);
                end += wanted.slice(at - rows, rows).true_count();
                run.end = end as u32;
            }
        }
        if times.is_empty() {
            return Ok(None);
        }
        let (mut starts, mut symbols, mut ends, mut at) = (Vec::new(), Vec::new(), Vec::new(), 0);
        let mut known = vec![Bucket::NONE; self.grids.len()];
        for SymbolRun { symbol, end } in &runs {
            let end = *end as usize;
            while at < end {
                let to = bucket::end(&self.grids, &mut known, times[at]);
                let is_inside = |time: &i64| *time < to || to == i64::MAX;
                starts.push(at);
                symbols.push(*symbol as i32);
                at += times[at..end].partition_point_from_front(is_inside);
                ends.push(at);
            }
        }
        for start in (0..times.len()).step_by(ROWS) {
            let part = batch.slice(start, ROWS.min(times.len() - start));
            let runs = Runs::new(&ends, start..start + part.num_rows(), &times);
            for (arguments, states) in &mut self.functions {
                let column = |expr: &PhysicalExprRef| expr.evaluate(&part)?.into_array(part.num_rows());
                let columns = arguments.columns.iter().map(column).collect::<Result<Vec<_>>>()?;
                let is_wanted =
                    arguments.filter.as_ref().map(|filter| condition(filter, &part)).transpose()?;
                states.add(&columns, is_wanted.as_ref(), &runs)?;
            }
        }
        self.groups(&starts, (&times, symbols), &names).map(Some)
    }

    /// The times of the first rows of groups, as a column.
    fn first_times(&self, starts: &[usize], times: &[i64]) -> Result<RecordBatch> {
        let first = TimestampNanosecondArray::from_iter_values(starts.iter().map(|start| times[*start]));
        let column = first.with_data_type(self.times.field(0).data_type().clone());
        Ok(RecordBatch::try_new(self.times.clone(), vec![Arc::new(column)])?)
    }

    /// The keys of groups that begin at these rows, of these symbols, and their states.
    fn groups(
        &mut self,
        starts: &[usize],
        (times, symbols): (&[i64], Vec<i32>),
        names: &StringArray,
    ) -> Result<RecordBatch> {
        let groups = starts.len();
        let symbols = Int32Array::from(symbols);
        let mut columns = Vec::with_capacity(self.schema.fields().len());
        for key in &self.keys {
            columns.push(match key {
                Key::Symbol => {
                    let views = self.names.take().filter(|known| known.len() == names.len());
                    let views = self.names.insert(views.unwrap_or_else(|| StringViewArray::from(names)));
                    take(views, &symbols, None)?
                }
                Key::Bucket(expr) => expr.evaluate(&self.first_times(starts, times)?)?.into_array(groups)?,
            });
        }
        for (_, states) in &mut self.functions {
            columns.extend(states.take()?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(groups));
        Ok(RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)?)
    }
}

/// The values of a condition, of which a null is false.
fn condition(expr: &PhysicalExprRef, batch: &RecordBatch) -> Result<BooleanArray> {
    let values = expr.evaluate(batch)?.into_array(batch.num_rows())?;
    if *values.data_type() != DataType::Boolean {
        return exec_err!("a condition is no Boolean");
    }
    let values = values.as_boolean();
    Ok(match values.nulls() {
        Some(nulls) => BooleanArray::new(values.values() & nulls.inner(), None),
        None => values.clone(),
    })
}

/// Looks for the first value that a condition does not hold for: it holds for those before it, and is often near.
trait FromFront<T> {
    fn partition_point_from_front(&self, holds: impl Fn(&T) -> bool) -> usize;
}

impl<T> FromFront<T> for [T] {
    fn partition_point_from_front(&self, holds: impl Fn(&T) -> bool) -> usize {
        let (mut from, mut step) = (0, 1);
        while from + step <= self.len() && holds(&self[from + step - 1]) {
            from += step;
            step *= 2;
        }
        let to = self.len().min(from + step - 1);
        from + self[from..to].partition_point(holds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_from_the_front() {
        for count in 0..40 {
            let values: Vec<usize> = (0..count).collect();
            for place in 0..=count {
                assert_eq!(values.partition_point_from_front(|value| *value < place), place, "{count}");
            }
        }
    }
}
