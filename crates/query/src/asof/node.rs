//! The as-of join as a logical operator.

use super::pair::Pair;
use datafusion::common::{DFSchemaRef, JoinType};
use datafusion::error::Result;
use datafusion::logical_expr::logical_plan::builder::build_join_schema;
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// Which row of the right side belongs to a row of the left side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd)]
pub(crate) struct Match {
    pub direction: Direction,
    /// Whether rows of the same time do not match.
    pub strict: bool,
    /// The largest difference of the times that matches.
    pub tolerance: Option<i64>,
}

impl Match {
    /// Whether the tolerance allows two times.
    pub fn allows(&self, earlier: i64, later: i64) -> bool {
        self.tolerance.is_none_or(|most| i128::from(later) - i128::from(earlier) <= i128::from(most))
    }
}

/// Where the row of the right side is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd)]
pub(crate) enum Direction {
    /// Before the row of the left side: the last one.
    Backward,
    /// After it: that of the next time.
    Forward,
    /// The nearer one of both; if both are as near, the one before.
    Nearest,
}

/// An as-of join.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct AsOf {
    pub pair: Pair,
    pub matching: Match,
    /// Whether rows of the left side without a match are left out.
    pub is_inner: bool,
    schema: DFSchemaRef,
}

impl AsOf {
    /// # Errors
    /// When the sides have columns of the same qualified name.
    pub fn new(pair: Pair, matching: Match, is_inner: bool) -> Result<Self> {
        let join_type = if is_inner { JoinType::Inner } else { JoinType::Left };
        let schema = Arc::new(build_join_schema(pair.left.schema(), pair.right.schema(), &join_type)?);
        Ok(Self { pair, matching, is_inner, schema })
    }

    /// The same join of other sides.
    ///
    /// # Errors
    /// As [`AsOf::new`].
    pub fn of(&self, left: LogicalPlan, right: LogicalPlan) -> Result<Self> {
        Self::new(self.pair.of(left, right), self.matching, self.is_inner)
    }
}

impl PartialOrd for AsOf {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        if self == other { Some(Ordering::Equal) } else { None }
    }
}

impl UserDefinedLogicalNodeCore for AsOf {
    fn name(&self) -> &'static str {
        "AsOfJoin"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.pair.left, &self.pair.right]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        self.pair.exprs()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AsOfJoin: {}, {}", describe(self.matching, self.is_inner), self.pair)
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        Self::new(self.pair.with(&mut exprs.into_iter(), inputs)?, self.matching, self.is_inner)
    }

    fn necessary_children_exprs(&self, columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let lefts = self.pair.left.schema().fields().len();
        let (left, right): (Vec<usize>, Vec<usize>) = columns.iter().partition(|column| **column < lefts);
        Some(vec![left, right.into_iter().map(|column| column - lefts).collect()])
    }
}

/// What a join does, for plans.
pub(super) fn describe(matching: Match, is_inner: bool) -> String {
    let mut text = match matching.direction {
        Direction::Backward => "backward",
        Direction::Forward => "forward",
        Direction::Nearest => "nearest",
    }
    .to_string();
    if matching.strict {
        text.push_str(", strict");
    }
    if let Some(tolerance) = matching.tolerance {
        text.push_str(&format!(", tolerance={tolerance}"));
    }
    text.push_str(if is_inner { ", inner" } else { ", left" });
    text
}
