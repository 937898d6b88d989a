//! Finds aggregates by `time_bucket_gapfill`, and puts gap filling on them.

use super::markers::Marker;
use super::node::{Filling, GapFill};
use crate::time::time_bucket::{GAPFILL, TimeBucket};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, ScalarValue, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Expr, Extension, LogicalPlan, Operator, Projection, ScalarUDF,
};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// The rule. Constants have been computed before it.
#[derive(Debug)]
pub(crate) struct FillGaps;

impl OptimizerRule for FillGaps {
    fn name(&self) -> &'static str {
        "fill_gaps"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if let LogicalPlan::Projection(projection) = &plan
            && let LogicalPlan::Aggregate(aggregate) = &*projection.input
            && let Some(call) = call_in(aggregate)?
        {
            return Ok(Transformed::yes(filled(projection, aggregate, call)?));
        }
        for input in plan.inputs() {
            if let LogicalPlan::Aggregate(aggregate) = input
                && call_in(aggregate)?.is_some()
            {
                return plan_err!(
                    "gaps are filled before HAVING and window functions, which are not in the same SELECT; put the query with time_bucket_gapfill into a subquery"
                );
            }
        }
        Ok(Transformed::no(plan))
    }
}

/// The call that an aggregate groups by: its place among the columns, and its arguments.
fn call_in(aggregate: &Aggregate) -> Result<Option<(usize, &ScalarFunction)>> {
    let mut found = None;
    for (index, expr) in aggregate.group_expr.iter().enumerate() {
        let inner = match expr {
            Expr::Alias(alias) => &alias.expr,
            Expr::GroupingSet(_) if expr.to_string().contains(GAPFILL) => {
                return plan_err!(
                    "gaps are filled in groups of one kind; leave out ROLLUP, CUBE and GROUPING SETS"
                );
            }
            other => other,
        };
        if let Expr::ScalarFunction(function) = inner
            && function.name() == GAPFILL
        {
            if found.is_some() {
                return plan_err!("a query has one time_bucket_gapfill");
            }
            found = Some((index, function));
        }
    }
    Ok(found)
}

/// The same query with rows for all buckets.
fn filled(
    projection: &Projection,
    aggregate: &Aggregate,
    (bucket, call): (usize, &ScalarFunction),
) -> Result<LogicalPlan> {
    let [width, Expr::Column(time), rest @ ..] = &call.args[..] else {
        return plan_err!("time_bucket_gapfill is of a column of times, whose bounds WHERE states");
    };
    let mut arguments = Vec::new();
    for constant in std::iter::once(width).chain(rest) {
        match constant {
            Expr::Literal(value, _) => arguments.push(value.clone()),
            other => {
                return plan_err!(
                    "width, zone and origin of time_bucket_gapfill are constants, and {other} is none"
                );
            }
        }
    }
    let (from, last) = bounds(&aggregate.input, time, (i64::MIN, i64::MAX));
    if from == i64::MIN || last == i64::MAX {
        return plan_err!(
            "time_bucket_gapfill needs both bounds of its time, such as WHERE {} >= '2024-01-02' AND {} < '2024-01-03'",
            time.name,
            time.name
        );
    }
    let keys = (0..aggregate.group_expr.len()).filter(|column| *column != bucket).collect();
    let mut filling = Filling { bucket, keys, fills: Vec::new(), arguments, times: (from, last) };
    let exprs = projection.expr.iter().map(|expr| take_markers(expr, aggregate, &mut filling));
    let exprs = exprs.collect::<Result<Vec<_>>>()?;
    let node = GapFill::new(LogicalPlan::Aggregate(plain(aggregate, bucket, call)?), filling)?;
    let input = LogicalPlan::Extension(Extension { node: Arc::new(node) });
    Ok(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(input))?))
}

/// The same aggregate by `time_bucket`, with the names that its columns had.
fn plain(aggregate: &Aggregate, bucket: usize, call: &ScalarFunction) -> Result<Aggregate> {
    let mut groups = aggregate.group_expr.clone();
    let name = groups[bucket].schema_name().to_string();
    let function = Arc::new(ScalarUDF::new_from_impl(TimeBucket::default()));
    groups[bucket] = Expr::ScalarFunction(ScalarFunction::new_udf(function, call.args.clone())).alias(name);
    Aggregate::try_new(aggregate.input.clone(), groups, aggregate.aggr_expr.clone())
}

/// An expression in which columns that are filled stand for the calls that ask for it.
fn take_markers(expr: &Expr, aggregate: &Aggregate, filling: &mut Filling) -> Result<Expr> {
    let name = expr.schema_name().to_string();
    let is_named = matches!(expr, Expr::Alias(_) | Expr::Column(_));
    let replace = |expr: Expr| {
        let fill = match &expr {
            Expr::ScalarFunction(function) => {
                function.func.inner().downcast_ref::<Marker>().map(|marker| marker.fill)
            }
            _ => None,
        };
        let (Some(fill), Expr::ScalarFunction(function)) = (fill, &expr) else {
            return Ok(Transformed::no(expr));
        };
        let from = match &function.args[0] {
            Expr::Column(column) => aggregate.schema.index_of_column(column).ok(),
            _ => None,
        };
        let groups = aggregate.group_expr.len();
        let Some(from) = from.filter(|column| *column >= groups) else {
            return plan_err!(
                "{} is of an aggregate, such as {}(last(price)), not of {}",
                fill.name(),
                fill.name(),
                function.args[0]
            );
        };
        let name = expr.schema_name().to_string();
        if !filling.fills.iter().any(|(_, _, known)| *known == name) {
            filling.fills.push((from, fill, name.clone()));
        }
        Ok(Transformed::yes(Expr::Column(Column::new_unqualified(name))))
    };
    let new = expr.clone().transform_up(replace)?;
    Ok(if new.transformed && !is_named { new.data.alias(name) } else { new.data })
}

/// The first and the last time that conditions allow.
fn bounds(plan: &LogicalPlan, time: &Column, (mut from, mut last): (i64, i64)) -> (i64, i64) {
    match plan {
        LogicalPlan::Filter(filter) => {
            for condition in split_conjunction(&filter.predicate) {
                if let Some((least, most)) = range(condition, time) {
                    (from, last) = (from.max(least), last.min(most));
                }
            }
            bounds(&filter.input, time, (from, last))
        }
        LogicalPlan::SubqueryAlias(alias) => bounds(&alias.input, time, (from, last)),
        _ => (from, last),
    }
}

/// The times that a condition allows.
fn range(condition: &Expr, time: &Column) -> Option<(i64, i64)> {
    let is_time = |expr: &Expr| matches!(expr, Expr::Column(column) if column.name == time.name);
    let nanos = |expr: &Expr| match expr {
        Expr::Literal(ScalarValue::TimestampNanosecond(time, _), _) => *time,
        _ => None,
    };
    match condition {
        Expr::Between(between) if is_time(&between.expr) && !between.negated => {
            Some((nanos(&between.low)?, nanos(&between.high)?))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (op, value) = if is_time(left) { (*op, nanos(right)?) } else { (op.swap()?, nanos(left)?) };
            if !is_time(left) && !is_time(right) {
                return None;
            }
            match op {
                Operator::Eq => Some((value, value)),
                Operator::Gt => Some((value.checked_add(1)?, i64::MAX)),
                Operator::GtEq => Some((value, i64::MAX)),
                Operator::Lt => Some((i64::MIN, value.checked_sub(1)?)),
                Operator::LtEq => Some((i64::MIN, value)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// What is done with the bounds of a filter, without a database.
#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::logical_expr::{col, lit};

    #[test]
    fn conditions_are_bounds() {
        let time = Column::from_name("time");
        let at = |time| lit(ScalarValue::TimestampNanosecond(Some(time), Some("UTC".into())));
        assert_eq!(range(&col("time").gt(at(5)), &time), Some((6, i64::MAX)));
        assert_eq!(range(&at(5).gt(col("time")), &time), Some((i64::MIN, 4)));
        assert_eq!(range(&col("time").between(at(1), at(2)), &time), Some((1, 2)));
        assert_eq!(range(&col("time").not_between(at(1), at(2)), &time), None);
        assert_eq!(range(&col("x").gt(at(5)), &time), None);
    }
}
