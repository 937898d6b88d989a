//! Divides joins by time into slices, where several threads are there for a query.
//!
//! Both sides are divided at the same times, so that each slice is joined by itself. This is possible where the sides are tables, of which
//! the left one may be filtered and projected row by row. This runs when all else is planned: operators below a divided join have several
//! partitions, which nothing but the join puts together.

use super::exec::AsOfExec;
use super::sides::{Side, Sides};
use super::window;
use crate::error::wrapped;
use crate::scan::{PARTITION_ROWS, Scan, between};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use std::sync::Arc;

/// Messages of a slice, of the side that has more: so many that a slice takes much longer than it takes to begin, and that what is cut at
/// its ends is a small part of it.
const SLICE_ROWS: u64 = 750_000;

/// The rule.
#[derive(Debug)]
pub(crate) struct SliceJoins;

impl PhysicalOptimizerRule for SliceJoins {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let threads = config.execution.target_partitions;
        if threads < 2 {
            return Ok(plan);
        }
        let divide = |plan: Arc<dyn ExecutionPlan>| {
            let sides = match plan.downcast_ref::<AsOfExec>() {
                Some(join) => Some((join.sides(), (0, 0))),
                None => window::sides_of(&*plan),
            };
            let inputs = sides.map(|(sides, window)| divided(sides, window, threads)).transpose()?.flatten();
            Ok(match inputs {
                Some(inputs) => Transformed::yes(replace_children_if_necessary(plan, inputs)?),
                None => Transformed::no(plan),
            })
        };
        plan.transform_up(divide).data()
    }

    fn name(&self) -> &'static str {
        "slice_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The inputs of a join, divided; `None`: they cannot be, or are too small. Rows of the right side belong to a row of the left one from
/// and to these distances of their times.
fn divided(
    sides: &Sides,
    (from, to): (i64, i64),
    threads: usize,
) -> Result<Option<Vec<Arc<dyn ExecutionPlan>>>> {
    let [left, right] = &sides.0;
    let (Some(left_scan), Some(right_scan)) = (scan_by_time(left), right.scan_by_symbol()) else {
        return Ok(None);
    };
    if !left_scan.is_divisible() || !right_scan.is_divisible() {
        return Ok(None);
    }
    let of_left = left_scan.messages().map_err(wrapped)?;
    let of_right = right_scan.messages().map_err(wrapped)?;
    let larger = if of_left > of_right { left_scan } else { right_scan };
    let parts = parts_of(of_left.max(of_right), threads as u64);
    let cuts = if parts > 1 { larger.cuts(parts).map_err(wrapped)? } else { Vec::new() };
    let partitions = between(cuts);
    if partitions.len() < 2 {
        return Ok(None);
    }
    let around = |(first, last): &(i64, i64)| (first.saturating_add(from), last.saturating_add(to));
    let of_right = partitions.iter().map(around).collect();
    let right: Arc<dyn ExecutionPlan> = Arc::new(right_scan.in_partitions(of_right));
    Ok(Some(vec![with_partitions(&left.input, &partitions)?, right]))
}

/// Slices of so many messages: as many for each thread.
fn parts_of(messages: u64, threads: u64) -> usize {
    let rounds = messages.div_ceil(SLICE_ROWS.saturating_mul(threads));
    (messages / PARTITION_ROWS).min(rounds * threads) as usize
}

/// The table whose rows a side is, some of them or all, in its order, if the side's time is that of the table.
fn scan_by_time(side: &Side) -> Option<&Scan> {
    let mut column = side.time.downcast_ref::<Column>()?.index();
    let mut plan = &side.input;
    loop {
        if let Some(scan) = plan.downcast_ref::<Scan>() {
            return Some(scan).filter(|scan| scan.is_time(column) && scan.is_ascending());
        }
        plan = if let Some(cooperative) = plan.downcast_ref::<CooperativeExec>() {
            cooperative.input()
        } else if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
            column = projection.expr().get(column)?.expr.downcast_ref::<Column>()?.index();
            projection.input()
        } else {
            let filter = plan.downcast_ref::<FilterExec>().filter(|filter| filter.fetch().is_none())?;
            column = match filter.projection().as_ref() {
                Some(projected) => *projected.get(column)?,
                None => column,
            };
            filter.input()
        };
    }
}

/// The same operators over a scan with these partitions.
fn with_partitions(
    plan: &Arc<dyn ExecutionPlan>,
    partitions: &[(i64, i64)],
) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(scan) = plan.downcast_ref::<Scan>() {
        return Ok(Arc::new(scan.in_partitions(partitions.to_vec())));
    }
    let inputs = plan.children().into_iter().map(|input| with_partitions(input, partitions));
    replace_children_if_necessary(plan.clone(), inputs.collect::<Result<_>>()?)
}

#[cfg(test)]
mod tests {
    use super::parts_of;

    #[test]
    fn each_thread_has_as_many_slices() {
        assert_eq!([100, 399_999, 400_000, 1_500_000].map(|messages| parts_of(messages, 2)), [0, 1, 2, 2]);
        assert_eq!([1_500_001, 5_300_000].map(|messages| parts_of(messages, 2)), [4, 8]);
        assert_eq!([1_000_000, 5_300_000].map(|messages| parts_of(messages, 8)), [5, 8]);
    }
}
