//! Conditions above an as-of join that are about its left side are checked below it; conditions on keys and times limit its right side
//! too.
//!
//! A condition on the right side stays above: a row that it leaves out is still the last one before a row of the left side.

use super::node::{AsOf, Direction};
use super::pair::Pair;
use super::window::{self, Around};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    BinaryExpr, Expr, Extension, Filter, LogicalPlan, Operator, UserDefinedLogicalNode,
};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// The rule.
#[derive(Debug)]
pub(crate) struct PushThroughAsOf;

impl OptimizerRule for PushThroughAsOf {
    fn name(&self) -> &'static str {
        "push_through_asof"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Filter(filter) = &plan else { return Ok(Transformed::no(plan)) };
        let LogicalPlan::Extension(extension) = &*filter.input else { return Ok(Transformed::no(plan)) };
        let node = extension.node.as_any();
        let join = match (node.downcast_ref::<AsOf>(), node.downcast_ref::<Around>()) {
            (Some(join), _) => Join::AsOf(join),
            (_, Some(join)) => Join::Around(join),
            (None, None) => return Ok(Transformed::no(plan)),
        };
        let Pair { left, right, .. } = join.pair();
        let (mut lefts, mut rights, mut kept) = (Vec::new(), Vec::new(), Vec::new());
        for part in split_conjunction_owned(filter.predicate.clone()) {
            let columns = part.column_refs();
            let is_left =
                !columns.is_empty() && columns.iter().all(|column| left.schema().has_column(column));
            if !is_left || part.is_volatile() || has_subquery(&part) {
                kept.push(part);
                continue;
            }
            rights.extend(for_right(&part, &join)?);
            lefts.push(part);
        }
        let Some(on_left) = conjunction(lefts) else { return Ok(Transformed::no(plan)) };
        let left = filtered(on_left, left.clone())?;
        let right = match conjunction(rights) {
            Some(on_right) => filtered(on_right, right.clone())?,
            None => (**right).clone(),
        };
        let pushed = LogicalPlan::Extension(Extension { node: join.of(left, right)? });
        Ok(Transformed::yes(match conjunction(kept) {
            Some(kept) => filtered(kept, Arc::new(pushed))?,
            None => pushed,
        }))
    }
}

/// A join whose result is in the order of its left side.
enum Join<'a> {
    AsOf(&'a AsOf),
    Around(&'a Around),
}

impl Join<'_> {
    fn pair(&self) -> &Pair {
        match self {
            Self::AsOf(join) => &join.pair,
            Self::Around(join) => &join.pair,
        }
    }

    fn of(&self, left: LogicalPlan, right: LogicalPlan) -> Result<Arc<dyn UserDefinedLogicalNode>> {
        Ok(match self {
            Self::AsOf(join) => Arc::new(join.of(left, right)?),
            Self::Around(join) => Arc::new(join.of(left, right)?),
        })
    }

    /// What the comparison of the left side's time with a constant says about the times of the right side.
    fn for_right(&self, time: &Expr, op: Operator, constant: &Expr) -> Option<Expr> {
        let join = match self {
            Self::AsOf(join) => join,
            Self::Around(join) if *time == join.pair.times.0 => {
                return window::filters::for_right(join, op, constant);
            }
            Self::Around(_) => return None,
        };
        // Backwards nothing after the last time is needed, forwards nothing before the first one.
        let is_useful = match join.matching.direction {
            Direction::Backward => matches!(op, Operator::Lt | Operator::LtEq),
            Direction::Forward => matches!(op, Operator::Gt | Operator::GtEq),
            Direction::Nearest => false,
        };
        if *time != join.pair.times.0 || !is_useful {
            return None;
        }
        let right = Box::new(join.pair.times.1.clone());
        Some(Expr::BinaryExpr(BinaryExpr::new(right, op, Box::new(constant.clone()))))
    }
}

fn filtered(predicate: Expr, input: Arc<LogicalPlan>) -> Result<LogicalPlan> {
    Ok(LogicalPlan::Filter(Filter::try_new(predicate, input)?))
}

fn has_subquery(expr: &Expr) -> bool {
    let is_subquery = |expr: &Expr| {
        Ok(matches!(
            expr,
            Expr::InSubquery(_) | Expr::Exists(_) | Expr::ScalarSubquery(_) | Expr::SetComparison(_)
        ))
    };
    expr.exists(is_subquery).unwrap_or(true)
}

/// What a condition of the left side says about the rows of the right side that can match.
fn for_right(part: &Expr, join: &Join<'_>) -> Result<Option<Expr>> {
    let columns = part.column_refs();
    // A condition on keys holds for the right side's keys, which are equal.
    let key_of = |column: &datafusion::common::Column| {
        join.pair()
            .keys
            .iter()
            .find(|(left, _)| matches!(left, Expr::Column(left) if left == column))
            .map(|(_, right)| right)
    };
    if columns.iter().all(|column| key_of(column).is_some()) {
        let replaced = part.clone().transform(|expr| {
            Ok(match &expr {
                Expr::Column(column) => match key_of(column) {
                    Some(right) => Transformed::yes(right.clone()),
                    None => Transformed::no(expr),
                },
                _ => Transformed::no(expr),
            })
        });
        return Ok(Some(replaced.data()?));
    }
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = part else { return Ok(None) };
    Ok(match (&**left, &**right) {
        (time, constant @ Expr::Literal(..)) => join.for_right(time, *op, constant),
        (constant @ Expr::Literal(..), time) => op.swap().and_then(|op| join.for_right(time, op, constant)),
        _ => None,
    })
}
