//! Lets scans read by time where an operator above needs rows so, or where they come out of the query as they were read.
//!
//! Scans otherwise return rows as they are stored, which is faster. This runs before the rule that adds sorts: none is added where a scan
//! already has the order.

use crate::aggregates::needs_order;
use crate::cluster::scan::ClusterScan;
use crate::scan::Scan;
use crate::time::time_bucket::NAME;
use crate::wanted::TimeOrder;
use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::unnest::UnnestExec;
use std::sync::Arc;

/// The rule.
#[derive(Debug)]
pub(crate) struct UseTimeOrder;

/// The order that is wanted of an operator's rows.
#[derive(Debug, Clone)]
enum Wish {
    Any,
    /// That of time, where rows come out as they are read.
    AsRead,
    /// That of columns, and whether each is descending.
    By(Vec<(usize, bool)>),
}

impl PhysicalOptimizerRule for UseTimeOrder {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        order(plan, Wish::AsRead)
    }

    fn name(&self) -> &'static str {
        "use_time_order"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn order(plan: Arc<dyn ExecutionPlan>, wish: Wish) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(scan) = plan.downcast_ref::<Scan>() {
        let order = order_of(&wish, |column| scan.is_time(column), |column| scan.is_one_value(column));
        return Ok(match order.and_then(|order| scan.in_order(order)) {
            Some(ordered) => Arc::new(ordered),
            None => plan,
        });
    }
    if let Some(scan) = plan.downcast_ref::<ClusterScan>() {
        let order = order_of(&wish, |column| scan.is_time(column), |column| scan.is_one_value(column));
        return Ok(match order.and_then(|order| scan.in_order(order)) {
            Some(ordered) => Arc::new(ordered),
            None => plan,
        });
    }
    let plan = in_one_step(plan.as_ref())?.unwrap_or(plan);
    let required = plan.required_input_ordering();
    let maintains = plan.maintains_input_order();
    let is_one = plan.children().len() == 1;
    let children = plan.children().into_iter().cloned().enumerate().map(|(index, child)| {
        let wanted = required.get(index).and_then(Option::as_ref).map(|required| {
            let columns = required.first().iter();
            by(columns.map(|column| (&column.expr, column.options.is_some_and(|options| options.descending))))
        });
        let wish = match plan.downcast_ref::<SortExec>() {
            Some(sort) => by(sort.expr().iter().map(|column| (&column.expr, column.options.descending))),
            None => match wanted {
                Some(wanted) => wanted,
                None if plan.is::<AggregateExec>() => plan.downcast_ref().map_or(Wish::Any, grouping),
                // It states no order, but returns rows as they come.
                None if plan.is::<UnnestExec>() => below(plan.as_ref(), &wish),
                None if is_one && maintains.get(index) == Some(&true) => below(plan.as_ref(), &wish),
                None => Wish::Any,
            },
        };
        order(child, wish)
    });
    let children = children.collect::<Result<Vec<_>>>()?;
    replace_children_if_necessary(plan, children)
}

/// The order of time that grants a wish, if one does. Columns that have one value in all rows do not count.
fn order_of(
    wish: &Wish,
    is_time: impl Fn(usize) -> bool,
    is_one_value: impl Fn(usize) -> bool,
) -> Option<TimeOrder> {
    match wish {
        Wish::Any => None,
        Wish::AsRead => Some(TimeOrder::Ascending),
        Wish::By(columns) => match columns.iter().find(|(column, _)| !is_one_value(*column)) {
            Some((column, false)) if is_time(*column) => Some(TimeOrder::Ascending),
            Some((column, true)) if is_time(*column) => Some(TimeOrder::Descending),
            _ => None,
        },
    }
}

/// The wish for an order by expressions, as far as they are columns, or buckets of columns.
fn by<'a>(columns: impl Iterator<Item = (&'a PhysicalExprRef, bool)>) -> Wish {
    let column = |(expr, descending): (&PhysicalExprRef, bool)| {
        let expr = bucketed(expr).unwrap_or(expr);
        expr.downcast_ref::<Column>().map(|column| (column.index(), descending))
    };
    Wish::By(columns.map_while(column).collect())
}

/// The wish of groups: where they are buckets of time, the order of time, so that a bucket is done when the next one begins and is held no
/// longer; and as they are read where a function needs their order.
fn grouping(aggregate: &AggregateExec) -> Wish {
    let input = aggregate.input().as_ref();
    let bucket =
        aggregate.group_expr().expr().iter().map(|(expr, _)| expr).find(|expr| is_bucket(expr, input));
    match bucket {
        Some(bucket) => by([(bucket, false)].into_iter()),
        None if aggregate.aggr_expr().iter().any(|function| is_by_order(function)) => Wish::AsRead,
        None => Wish::Any,
    }
}

/// Whether the result of a function depends on the order in which rows come; with `ORDER BY` it has an order of its own.
fn is_by_order(function: &AggregateFunctionExpr) -> bool {
    needs_order(function.fun().name()) && function.order_bys().is_empty()
}

/// The aggregate over all rows in one step, where they come in an order: it would be lost between two steps. `None`: it stays as it is.
fn in_one_step(plan: &dyn ExecutionPlan) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(last) = plan.downcast_ref::<AggregateExec>() else { return Ok(None) };
    let Some(first) = last.input().downcast_ref::<AggregateExec>() else { return Ok(None) };
    let is_pair = matches!(last.mode(), AggregateMode::Final | AggregateMode::FinalPartitioned)
        && *first.mode() == AggregateMode::Partial;
    if !is_pair || matches!(grouping(first), Wish::Any) {
        return Ok(None);
    }
    let one = AggregateExec::try_new(
        AggregateMode::Single,
        Arc::new(first.group_expr().clone()),
        first.aggr_expr().to_vec(),
        first.filter_expr().to_vec(),
        first.input().clone(),
        first.input_schema(),
    )?;
    Ok(Some(Arc::new(one.with_limit_options(last.limit_options()))))
}

/// Whether an expression is a bucket of time, in itself or below a projection.
fn is_bucket(expr: &PhysicalExprRef, input: &dyn ExecutionPlan) -> bool {
    if bucketed(expr).is_some() {
        return true;
    }
    match (expr.downcast_ref::<Column>(), input.downcast_ref::<ProjectionExec>()) {
        (Some(column), Some(projection)) => projection
            .expr()
            .get(column.index())
            .is_some_and(|below| is_bucket(&below.expr, projection.input().as_ref())),
        _ => false,
    }
}

/// The time that an expression is the bucket of.
fn bucketed(expr: &PhysicalExprRef) -> Option<&PhysicalExprRef> {
    let function = expr.downcast_ref::<ScalarFunctionExpr>().filter(|function| function.name() == NAME)?;
    function.args().get(1)
}

/// The same wish of the input of an operator that keeps its input's order.
fn below(plan: &dyn ExecutionPlan, wish: &Wish) -> Wish {
    let Wish::By(columns) = wish else { return wish.clone() };
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let projected = |(column, descending): &(usize, bool)| {
            projection.expr().get(*column).map(|projected| (&projected.expr, *descending))
        };
        return by(columns.iter().map_while(projected));
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>()
        && let Some(projection) = filter.projection()
    {
        let projected = |(column, descending): &(usize, bool)| Some((*projection.get(*column)?, *descending));
        return Wish::By(columns.iter().map_while(projected).collect());
    }
    let same = plan.children().first().is_some_and(|child| child.schema().fields() == plan.schema().fields());
    if same { wish.clone() } else { Wish::Any }
}
