//! Aggregates of windows, computed for many windows together: each is a group, and its rows are fed by their places.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch};
use datafusion::arrow::compute::interleave;
use datafusion::error::Result;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::{GroupsAccumulatorAdapter, PhysicalExprRef};
use std::sync::Arc;

/// An aggregate.
#[derive(Debug, Clone)]
pub(super) struct Aggregate {
    pub function: Arc<AggregateFunctionExpr>,
    /// Which rows count.
    pub filter: Option<PhysicalExprRef>,
}

impl Aggregate {
    /// The expressions that it evaluates of each row.
    fn exprs(&self) -> Vec<PhysicalExprRef> {
        self.function.expressions().into_iter().chain(self.filter.clone()).collect()
    }

    fn accumulator(&self) -> Result<Box<dyn GroupsAccumulator>> {
        if self.function.groups_accumulator_supported() {
            return self.function.create_groups_accumulator();
        }
        let function = self.function.clone();
        Ok(Box::new(GroupsAccumulatorAdapter::new(move || function.create_accumulator())))
    }
}

/// The columns that aggregates need of a batch.
///
/// # Errors
/// When they cannot be evaluated.
pub(super) fn columns(aggregates: &[Aggregate], batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
    let exprs = aggregates.iter().flat_map(Aggregate::exprs);
    exprs.map(|expr| expr.evaluate(batch)?.into_array(batch.num_rows())).collect()
}

/// Aggregates of windows that are being computed.
///
/// Windows without rows are no groups: accumulators rely on it that each group has had a row.
pub(super) struct Windows<'a> {
    aggregates: &'a [Aggregate],
    accumulators: Vec<Box<dyn GroupsAccumulator>>,
    /// The windows that have had rows, by the numbers of their groups.
    groups: Vec<usize>,
}

impl<'a> Windows<'a> {
    /// # Errors
    /// When an aggregate cannot be computed.
    pub fn new(aggregates: &'a [Aggregate]) -> Result<Self> {
        let accumulators = aggregates.iter().map(Aggregate::accumulator).collect::<Result<_>>()?;
        Ok(Self { aggregates, accumulators, groups: Vec::new() })
    }

    /// Feeds rows, each to the window of its number, which are ascending. Rows are places in the held columns.
    ///
    /// # Errors
    /// Those of the aggregates.
    pub fn feed(&mut self, held: &[&[ArrayRef]], windows: &[usize], places: &[(usize, usize)]) -> Result<()> {
        if windows.is_empty() {
            return Ok(());
        }
        let group_of = |window: &usize| {
            if self.groups.last() != Some(window) {
                self.groups.push(*window);
            }
            self.groups.len() - 1
        };
        let groups: Vec<usize> = windows.iter().map(group_of).collect();
        let mut first = 0;
        for (aggregate, accumulator) in self.aggregates.iter().zip(&mut self.accumulators) {
            let exprs = aggregate.exprs().len();
            let gather = |column: usize| {
                let arrays: Vec<&dyn Array> = held.iter().map(|columns| &*columns[column]).collect();
                interleave(&arrays, places)
            };
            let mut values: Vec<ArrayRef> =
                (first..first + exprs).map(gather).collect::<std::result::Result<_, _>>()?;
            first += exprs;
            let filter: Option<BooleanArray> = aggregate
                .filter
                .as_ref()
                .and_then(|_| values.pop())
                .map(|filter| filter.as_boolean().clone());
            accumulator.update_batch(&values, &groups, filter.as_ref(), self.groups.len())?;
        }
        Ok(())
    }

    /// About how many bytes the aggregates hold: all values of their windows, if they need them.
    pub fn bytes(&self) -> usize {
        let groups = self.groups.capacity() * size_of::<usize>();
        groups + self.accumulators.iter().map(|accumulator| accumulator.size()).sum::<usize>()
    }

    /// A column of each aggregate, with a value for each of so many windows.
    ///
    /// # Errors
    /// Those of the aggregates.
    pub fn end(mut self, count: usize) -> Result<Vec<ArrayRef>> {
        let mut places = vec![(1, 0); count];
        self.groups.iter().enumerate().for_each(|(group, window)| places[*window] = (0, group));
        let column = |(aggregate, accumulator): (&Aggregate, &mut Box<dyn GroupsAccumulator>)| {
            let function = &aggregate.function;
            let of_none = function.default_value(function.field().data_type())?.to_array()?;
            let of_groups = match self.groups.is_empty() {
                true => of_none.slice(0, 0),
                false => accumulator.evaluate(EmitTo::All)?,
            };
            Ok(interleave(&[&*of_groups, &*of_none], &places)?)
        };
        self.aggregates.iter().zip(&mut self.accumulators).map(column).collect()
    }
}
