//! What a running as-of join is made of.

use super::input::Input;
use super::keys::Keys;
use super::node::Match;
use super::output::{nothing_of, types_of};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::{LexOrdering, PhysicalExprRef, PhysicalSortExpr};
use datafusion::physical_plan::ExecutionPlan;
use std::iter;
use std::sync::Arc;

/// A side of a join.
#[derive(Debug, Clone)]
pub(super) struct Side {
    pub input: Arc<dyn ExecutionPlan>,
    pub time: PhysicalExprRef,
    pub keys: Vec<PhysicalExprRef>,
    /// What orders rows of the same time.
    pub ties: Vec<PhysicalExprRef>,
}

impl Side {
    /// The order in which its rows are read.
    pub fn order(&self) -> Option<LexOrdering> {
        let options = SortOptions { descending: false, nulls_first: false };
        let exprs = iter::once(&self.time).chain(&self.ties);
        LexOrdering::new(exprs.map(|expr| PhysicalSortExpr::new(expr.clone(), options)))
    }

    /// Its expressions.
    pub fn exprs(&self) -> impl Iterator<Item = &PhysicalExprRef> {
        iter::once(&self.time).chain(&self.keys).chain(&self.ties)
    }
}

/// What a join does with the rows of its sides.
#[derive(Debug, Clone)]
pub(super) struct Joining {
    pub matching: Match,
    pub is_inner: bool,
    /// Where the columns of the result come from.
    pub output: Vec<Origin>,
    pub schema: SchemaRef,
}

/// Where a column of the result comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// From this column of the left side.
    Left(usize),
    /// From this one of the right side.
    Right(usize),
}

impl Joining {
    /// The columns of the right side that the result has, and the same join of a right side that has only these.
    pub fn of_fewer_columns(&self) -> (Vec<usize>, Self) {
        let mut needed: Vec<usize> = Vec::new();
        let mut joining = self.clone();
        for origin in &mut joining.output {
            if let Origin::Right(column) = origin {
                let known = needed.iter().position(|other| other == column);
                *column = known.unwrap_or_else(|| {
                    needed.push(*column);
                    needed.len() - 1
                });
            }
        }
        (needed, joining)
    }
}

/// A join that has begun: its inputs, and what it needs of them.
pub(super) struct Begun {
    pub left: Input,
    pub right: Input,
    pub joining: Joining,
    pub keys: Keys,
    /// One row of nulls, with the columns of the right side.
    pub nothing: RecordBatch,
    pub memory: MemoryReservation,
}

impl Begun {
    /// # Errors
    /// When keys have no order.
    pub fn new(
        sides: &[Side; 2],
        [left, right]: [SendableRecordBatchStream; 2],
        joining: &Joining,
        memory: MemoryReservation,
    ) -> Result<Self> {
        Ok(Self {
            left: Input::new(&sides[0], left),
            right: Input::new(&sides[1], right),
            joining: joining.clone(),
            keys: Keys::new(&types_of(&sides[1])?)?,
            nothing: nothing_of(&sides[1])?,
            memory,
        })
    }
}
