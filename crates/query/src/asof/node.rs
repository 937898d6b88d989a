//! The as-of join as a logical operator.

use datafusion::common::{DFSchemaRef, JoinType};
use datafusion::error::Result;
use datafusion::logical_expr::logical_plan::builder::build_join_schema;
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AsOf {
    pub left: Arc<LogicalPlan>,
    pub right: Arc<LogicalPlan>,
    /// What must be equal.
    pub keys: Vec<(Expr, Expr)>,
    /// The times, of the same type.
    pub times: (Expr, Expr),
    /// What orders rows of the same time, of each side; none: they are read in the order of the stream.
    pub ties: (Vec<Expr>, Vec<Expr>),
    pub matching: Match,
    /// Whether rows of the left side without a match are left out.
    pub is_inner: bool,
    schema: DFSchemaRef,
}

impl AsOf {
    /// # Errors
    /// When the sides have columns of the same qualified name.
    pub fn new(
        (left, right): (LogicalPlan, LogicalPlan),
        keys: Vec<(Expr, Expr)>,
        times: (Expr, Expr),
        ties: (Vec<Expr>, Vec<Expr>),
        matching: Match,
        is_inner: bool,
    ) -> Result<Self> {
        let join_type = if is_inner { JoinType::Inner } else { JoinType::Left };
        let schema = Arc::new(build_join_schema(left.schema(), right.schema(), &join_type)?);
        let (left, right) = (Arc::new(left), Arc::new(right));
        Ok(Self { left, right, keys, times, ties, matching, is_inner, schema })
    }

    /// The same join of other sides.
    ///
    /// # Errors
    /// As [`AsOf::new`].
    pub fn of(&self, left: LogicalPlan, right: LogicalPlan) -> Result<Self> {
        let (keys, times, ties) = (self.keys.clone(), self.times.clone(), self.ties.clone());
        Self::new((left, right), keys, times, ties, self.matching, self.is_inner)
    }
}

impl Hash for AsOf {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.left.hash(state);
        self.right.hash(state);
        self.keys.hash(state);
        self.times.hash(state);
        self.ties.hash(state);
        self.matching.hash(state);
        self.is_inner.hash(state);
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
        vec![&self.left, &self.right]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        let keys = self.keys.iter().flat_map(|(left, right)| [left.clone(), right.clone()]);
        let ties = self.ties.0.iter().chain(&self.ties.1).cloned();
        [self.times.0.clone(), self.times.1.clone()].into_iter().chain(keys).chain(ties).collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AsOfJoin: {}", describe(self.matching, self.is_inner))?;
        write!(f, ", times=({}, {})", self.times.0, self.times.1)?;
        let keys: Vec<_> = self.keys.iter().map(|(left, right)| format!("{left} = {right}")).collect();
        write!(f, ", keys=[{}]", keys.join(", "))
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        let mut exprs = exprs.into_iter();
        let mut pair = || exprs.next().zip(exprs.next());
        let (Some(times), Some(right), Some(left)) = (pair(), inputs.pop(), inputs.pop()) else {
            return datafusion::common::internal_err!("an as-of join needs two times and two inputs");
        };
        let keys = std::iter::from_fn(pair).take(self.keys.len()).collect();
        let lefts = exprs.by_ref().take(self.ties.0.len()).collect();
        let ties = (lefts, exprs.collect());
        Self::new((left, right), keys, times, ties, self.matching, self.is_inner)
    }

    fn necessary_children_exprs(&self, columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let lefts = self.left.schema().fields().len();
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
