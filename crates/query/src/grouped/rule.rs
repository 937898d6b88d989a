//! Lets aggregations by symbol and time read messages as they are stored.
//!
//! It runs before orders and distributions are planned, and replaces the first step of an aggregation, the operators below it (projections
//! and conditions) included, where groups are symbols, buckets of time, or both, and no function needs the order of all rows.

use super::block::{Arguments, Key};
use super::bucket;
use super::exec::{GroupBySymbolExec, Work, of_one, scan_of};
use crate::aggregates::states;
use crate::columns::{columns_of, moved};
use crate::error::wrapped;
use crate::scan::Scan;
use crate::time::grid::Grid;
use crate::time::time_bucket::NAME;
use datafusion::arrow::datatypes::Schema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{PhysicalExprRef, ScalarFunctionExpr};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Groups of `time_bucket` and all symbols that are held at once. Where there may be more, rows are read by time: then a group is done
/// when the next one begins.
const GROUPS_MAX: usize = 1 << 22;

/// The rule.
#[derive(Debug)]
pub(crate) struct GroupBySymbol;

impl PhysicalOptimizerRule for GroupBySymbol {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        replaced(plan, false)
    }

    fn name(&self) -> &'static str {
        "group_by_symbol"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// `first`: the first rows are wanted only, which a read by time may find early.
fn replaced(plan: Arc<dyn ExecutionPlan>, first: bool) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>()
        && let Some(by_symbol) = by_symbol(aggregate, first)?
    {
        return Ok(Arc::new(by_symbol));
    }
    let first = plan.fetch().is_some() || first && !plan.is::<SortExec>();
    let children = plan.children().into_iter().map(|child| replaced(child.clone(), first));
    let children = children.collect::<Result<Vec<_>>>()?;
    replace_children_if_necessary(plan, children)
}

/// The operator that stands for a first step; `None`: it stays.
fn by_symbol(aggregate: &AggregateExec, first: bool) -> Result<Option<GroupBySymbolExec>> {
    let by = aggregate.group_expr();
    let is_plain = *aggregate.mode() == AggregateMode::Partial
        && by.is_single()
        && !by.expr().is_empty()
        && aggregate.limit_options().is_none();
    if !is_plain {
        return Ok(None);
    }
    let Some(below) = Below::of(aggregate.input())? else { return Ok(None) };
    let scan_schema = below.scan.schema();
    let mut work = Work {
        keys: Vec::new(),
        grids: Vec::new(),
        times: Arc::new(Schema::empty()),
        columns: Vec::new(),
        conditions: below.conditions.clone(),
        functions: Vec::new(),
        schema: aggregate.schema(),
    };
    let mut is_by_time = false;
    for (expr, _) in by.expr() {
        let expr = below.of_scan(expr)?;
        let column = expr.downcast_ref::<Column>().map(Column::index);
        if column.is_some_and(|column| below.scan.is_symbol(column)) {
            work.keys.push(Key::Symbol);
            continue;
        }
        let Some(grid) = bucket::grid(&expr, |column| below.scan.is_time(column)) else { return Ok(None) };
        let Some(time) = columns_of(&expr)?.into_iter().next() else { return Ok(None) };
        work.times = of_one(&scan_schema, time)?;
        is_by_time |= expr.downcast_ref::<ScalarFunctionExpr>().is_some_and(|bucket| bucket.name() == NAME);
        work.grids.push(grid);
        work.keys.push(Key::Bucket(moved(&expr, &|_| Some(0))?));
    }
    // Groups of this function come by time as long as rows do.
    if is_by_time && (first || has_many(&below.scan, &work)?) {
        return Ok(None);
    }
    for (function, filter) in aggregate.aggr_expr().iter().zip(aggregate.filter_expr()) {
        if states(function, filter.is_some())?.is_none() {
            return Ok(None);
        }
        let columns = function.expressions();
        let columns = columns.iter().map(|expr| below.of_scan(expr)).collect::<Result<_>>()?;
        let filter = filter.as_ref().map(|filter| below.of_scan(filter)).transpose()?;
        work.functions.push((function.clone(), Arguments { columns, filter }));
    }
    Ok(Some(reading_less(below.scan, work)?))
}

/// The operator with the columns that it needs.
fn reading_less(scan: Scan, mut work: Work) -> Result<GroupBySymbolExec> {
    let mut columns = BTreeSet::new();
    let mut exprs: Vec<&mut PhysicalExprRef> = work.conditions.iter_mut().collect();
    for (_, arguments) in &mut work.functions {
        exprs.extend(arguments.columns.iter_mut().chain(&mut arguments.filter));
    }
    for expr in &exprs {
        columns.extend(columns_of(expr)?);
    }
    work.columns = columns.into_iter().collect();
    let place = |column: usize| work.columns.binary_search(&column).ok();
    for expr in exprs {
        *expr = moved(expr, &place)?;
    }
    Ok(GroupBySymbolExec::new(Arc::new(scan), work))
}

/// Whether there may be too many groups to be held.
fn has_many(scan: &Scan, work: &Work) -> Result<bool> {
    let Some(times) = scan.time_range().map_err(wrapped)? else { return Ok(false) };
    let buckets = work.grids.iter().map(|grid: &Grid| grid.starts_most(times));
    let buckets = buckets.fold(1, usize::saturating_mul);
    let by_symbol = work.keys.iter().any(|key| matches!(key, Key::Symbol));
    let symbols = if by_symbol { scan.symbols_most() } else { 1 };
    Ok(buckets.saturating_mul(symbols) > GROUPS_MAX)
}

/// What is below an aggregation: expressions of its input as expressions of the scan.
struct Below {
    scan: Scan,
    /// Of the columns of the scan.
    conditions: Vec<PhysicalExprRef>,
    /// What each column of the aggregation's input is; `None`: the scan's column.
    columns: Option<Vec<PhysicalExprRef>>,
}

impl Below {
    /// `None`: there are other operators, or the scan has to be read in an order.
    fn of(input: &Arc<dyn ExecutionPlan>) -> Result<Option<Self>> {
        if let Some(scan) = scan_of(input).and_then(Scan::to_be_grouped) {
            return Ok(Some(Self { scan, conditions: Vec::new(), columns: None }));
        }
        if let Some(projection) = input.downcast_ref::<ProjectionExec>() {
            let Some(below) = Self::of(projection.input())? else { return Ok(None) };
            if projection.expr().iter().any(|projected| is_volatile(&projected.expr)) {
                return Ok(None);
            }
            let columns = projection.expr().iter().map(|projected| below.of_scan(&projected.expr));
            let columns = Some(columns.collect::<Result<_>>()?);
            return Ok(Some(Self { columns, ..below }));
        }
        let Some(filter) = input.downcast_ref::<FilterExec>().filter(|filter| filter.fetch().is_none())
        else {
            return Ok(None);
        };
        let Some(mut below) = Self::of(filter.input())? else { return Ok(None) };
        if is_volatile(filter.predicate()) {
            return Ok(None);
        }
        let condition = below.of_scan(filter.predicate())?;
        below.conditions.push(condition);
        if let Some(projection) = filter.projection() {
            let schema = filter.input().schema();
            let column = |index: &usize| -> PhysicalExprRef {
                Arc::new(Column::new(schema.field(*index).name(), *index))
            };
            let columns = projection.iter().map(|index| below.of_scan(&column(index)));
            below.columns = Some(columns.collect::<Result<_>>()?);
        }
        Ok(Some(below))
    }

    /// An expression of the aggregation's input, of the scan's columns.
    fn of_scan(&self, expr: &PhysicalExprRef) -> Result<PhysicalExprRef> {
        let Some(columns) = &self.columns else { return Ok(expr.clone()) };
        let replace = |expr: PhysicalExprRef| {
            let column = expr.downcast_ref::<Column>().and_then(|column| columns.get(column.index()));
            Ok(column
                .map_or_else(|| Transformed::no(expr.clone()), |column| Transformed::yes(column.clone())))
        };
        expr.clone().transform_up(replace).data()
    }
}
