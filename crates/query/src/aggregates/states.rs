//! The states of a function for rows that come in runs of one group.

use super::extreme::Extreme;
use super::fold::of_fold;
use super::runs::{RunStates, Runs};
use super::sum::CheckedSum;
use super::total::{FloatSum, IntSum};
use super::{by_time, function};
use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, Int64Array};
use datafusion::arrow::datatypes::{DataType, Int64Type, UInt64Type};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::functions_aggregate::count::Count;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

/// The states of a function, whose rows come in any order of groups; `None`: it needs one, or is no function of groups.
///
/// # Errors
/// When the function cannot be started.
pub(crate) fn states(
    function: &AggregateFunctionExpr,
    has_filter: bool,
) -> Result<Option<Box<dyn RunStates>>> {
    if function::needs_order(function.fun().name()) || !function.order_bys().is_empty() {
        return Ok(None);
    }
    if let Some(own) = own(function).filter(|_| !has_filter && !function.is_distinct()) {
        return Ok(Some(own));
    }
    if !function.groups_accumulator_supported() {
        return Ok(None);
    }
    Ok(Some(Box::new(ByRow(function.create_groups_accumulator()?))))
}

/// The states of a function whose rows come as ranges, in any order; `None`: it needs one, or takes rows one by one.
pub(crate) fn of_ranges(function: &AggregateFunctionExpr, has_filter: bool) -> Option<Box<dyn RunStates>> {
    let is_free = !function::needs_order(function.fun().name()) && function.order_bys().is_empty();
    own(function).filter(|_| is_free && !has_filter && !function.is_distinct())
}

/// The states of functions that take whole runs.
fn own(function: &AggregateFunctionExpr) -> Option<Box<dyn RunStates>> {
    let (field, inner) = (function.field(), function.fun().inner());
    let ty = field.data_type();
    if inner.downcast_ref::<Count>().is_some() && function.expressions().len() == 1 {
        return Some(Box::new(Counts(Vec::new())));
    }
    if inner.downcast_ref::<CheckedSum>().is_some() {
        return Some(match ty {
            DataType::Float64 => of_fold(FloatSum),
            DataType::Int64 => of_fold(IntSum::<Int64Type>(PhantomData)),
            DataType::UInt64 => of_fold(IntSum::<UInt64Type>(PhantomData)),
            _ => return None,
        });
    }
    if let Some(extreme) = inner.downcast_ref::<Extreme>() {
        return extreme.runs(ty);
    }
    by_time::runs(function).or_else(|| function::runs(function))
}

/// Numbers of values that are not null.
struct Counts(Vec<i64>);

impl RunStates for Counts {
    fn add(&mut self, columns: &[ArrayRef], _: Option<&BooleanArray>, runs: &Runs<'_>) -> Result<()> {
        self.0.resize(runs.total(), 0);
        let nulls = columns[0].logical_nulls().filter(|nulls| nulls.null_count() > 0);
        for (group, rows) in runs.iter() {
            let missing = nulls.as_ref().map_or(0, |nulls| nulls.slice(rows.start, rows.len()).null_count());
            self.0[group] += (rows.len() - missing) as i64;
        }
        Ok(())
    }

    fn add_ranges(
        &mut self,
        columns: &[ArrayRef],
        ranges: &[(usize, Range<usize>)],
        total: usize,
    ) -> Result<()> {
        self.0.resize(total, 0);
        let nulls = columns[0].logical_nulls().filter(|nulls| nulls.null_count() > 0);
        for (group, rows) in ranges {
            let missing = nulls.as_ref().map_or(0, |nulls| nulls.slice(rows.start, rows.len()).null_count());
            self.0[*group] += (rows.len() - missing) as i64;
        }
        Ok(())
    }

    fn finish(&mut self, total: usize) -> Result<ArrayRef> {
        let mut counts = std::mem::take(&mut self.0);
        counts.resize(total, 0);
        Ok(Arc::new(Int64Array::from(counts)))
    }

    fn take(&mut self) -> Result<Vec<ArrayRef>> {
        Ok(vec![Arc::new(Int64Array::from(std::mem::take(&mut self.0)))])
    }
}

/// Any function, row by row.
struct ByRow(Box<dyn GroupsAccumulator>);

impl RunStates for ByRow {
    fn add(&mut self, columns: &[ArrayRef], filter: Option<&BooleanArray>, runs: &Runs<'_>) -> Result<()> {
        self.0.update_batch(columns, runs.groups(), filter, runs.total())
    }

    fn add_ranges(&mut self, _: &[ArrayRef], _: &[(usize, Range<usize>)], _: usize) -> Result<()> {
        internal_err!("the function takes rows one by one")
    }

    fn finish(&mut self, _: usize) -> Result<ArrayRef> {
        internal_err!("the function takes rows one by one")
    }

    fn take(&mut self) -> Result<Vec<ArrayRef>> {
        self.0.state(EmitTo::All)
    }
}
