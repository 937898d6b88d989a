//! Refuses `DISTINCT` in the aggregates that depend on the order or the weight of rows.

use super::function::is_one;
use datafusion::common::config::ConfigOptions;
use datafusion::common::plan_err;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

/// The rule. It is checked before the plan is optimized: an aggregate of distinct values may become groups and one of all values.
#[derive(Debug)]
pub(crate) struct RefuseDistinct;

impl AnalyzerRule for RefuseDistinct {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.apply_with_subqueries(|plan| {
            plan.apply_expressions(|expr| {
                expr.apply(|expr| {
                    let name = match expr {
                        Expr::AggregateFunction(call) if call.params.distinct => call.func.name(),
                        Expr::WindowFunction(call) if call.params.distinct => call.fun.name(),
                        _ => return Ok(TreeNodeRecursion::Continue),
                    };
                    match is_one(name) {
                        true => plan_err!("there is no {name}(DISTINCT …); leave out DISTINCT"),
                        false => Ok(TreeNodeRecursion::Continue),
                    }
                })
            })
        })?;
        Ok(plan)
    }

    fn name(&self) -> &'static str {
        "refuse_distinct"
    }
}
