//! What as-of joins, window joins and markouts have in common: two inputs, and what their rows are compared by.

use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan};
use std::fmt;
use std::sync::Arc;

/// Two inputs of a logical operator.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Pair {
    pub left: Arc<LogicalPlan>,
    pub right: Arc<LogicalPlan>,
    /// What must be equal.
    pub keys: Vec<(Expr, Expr)>,
    /// The times, of the same type.
    pub times: (Expr, Expr),
    /// What orders rows of the same time, of each side; none: they are read in the order of the stream.
    pub ties: (Vec<Expr>, Vec<Expr>),
}

impl Pair {
    /// The same of other inputs.
    pub fn of(&self, left: LogicalPlan, right: LogicalPlan) -> Self {
        Self { left: Arc::new(left), right: Arc::new(right), ..self.clone() }
    }

    /// Its expressions.
    pub fn exprs(&self) -> Vec<Expr> {
        let keys = self.keys.iter().flat_map(|(left, right)| [left, right]);
        let ties = self.ties.0.iter().chain(&self.ties.1);
        [&self.times.0, &self.times.1].into_iter().chain(keys).chain(ties).cloned().collect()
    }

    /// The same with other expressions, in the order of [`Pair::exprs`], and inputs. What is left of the expressions is not its own.
    ///
    /// # Errors
    /// When there are fewer.
    pub fn with(&self, exprs: &mut impl Iterator<Item = Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let mut pair = || exprs.next().zip(exprs.next());
        let (Some(times), Ok([left, right])) = (pair(), <[LogicalPlan; 2]>::try_from(inputs)) else {
            return internal_err!("a join by time needs two times and two inputs");
        };
        let keys = std::iter::from_fn(pair).take(self.keys.len()).collect();
        let mut of_side = |count: usize| -> Vec<Expr> { exprs.by_ref().take(count).collect() };
        let ties = (of_side(self.ties.0.len()), of_side(self.ties.1.len()));
        Ok(Self { left: Arc::new(left), right: Arc::new(right), keys, times, ties })
    }
}

/// What is compared.
impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<_> = self.keys.iter().map(|(left, right)| format!("{left} = {right}")).collect();
        write!(f, "times=({}, {}), keys=[{}]", self.times.0, self.times.1, keys.join(", "))
    }
}
