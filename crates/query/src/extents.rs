//! Answers `count(*)`, `min(time)` and `max(time)` from the index, where a scan alone decides them.

use crate::error::wrapped;
use crate::scan::{Known, Scan};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use std::sync::Arc;

/// The rule: it gives scans exact statistics, from which a rule of DataFusion computes the aggregates.
#[derive(Debug)]
pub(crate) struct KnowExtents;

impl PhysicalOptimizerRule for KnowExtents {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let knowing = |plan: Arc<dyn ExecutionPlan>| {
            let known = match plan.downcast_ref::<AggregateExec>() {
                Some(aggregate) => known(aggregate)?,
                None => None,
            };
            Ok(match known {
                Some(scan) => Transformed::yes(replace_children_if_necessary(plan, vec![Arc::new(scan)])?),
                None => Transformed::no(plan),
            })
        };
        plan.transform_up(knowing).data()
    }

    fn name(&self) -> &'static str {
        "know_extents"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The scan below aggregates that its extents decide, with these.
fn known(aggregate: &AggregateExec) -> Result<Option<Scan>> {
    let Some(scan) = aggregate.input().downcast_ref::<Scan>() else { return Ok(None) };
    let is_plain = aggregate.group_expr().is_empty()
        && aggregate.filter_expr().iter().all(Option::is_none)
        && scan.is_exact();
    let (mut counts, mut spans) = (false, false);
    for function in aggregate.aggr_expr() {
        let arguments = function.expressions();
        let is_time = |expr: &PhysicalExprRef| {
            expr.downcast_ref::<Column>().is_some_and(|column| scan.is_time(column.index()))
        };
        match function.fun().name() {
            "count" if !function.is_distinct() => counts = true,
            "min" | "max" if arguments.iter().all(is_time) => spans = true,
            _ => return Ok(None),
        }
    }
    // Without times a count needs no column, and scans without columns count.
    if !is_plain || !spans {
        return Ok(None);
    }
    let cursor = || scan.table().cursor(scan.wanted()).map_err(wrapped);
    let times = cursor()?.time_range().map_err(wrapped)?;
    let rows = if counts { Some(cursor()?.count().map_err(wrapped)?) } else { None };
    let rows = rows.map(|rows| usize::try_from(rows).unwrap_or(usize::MAX));
    Ok(times.map(|(first, last)| scan.knowing(Known { rows, times: (first.0, last.0) })))
}
