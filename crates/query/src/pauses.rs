//! Lets joins pause, so that a query can be stopped.
//!
//! A thread that computes stops a query where an operator pauses. Scans do after some batches; a join that makes many rows of few reads
//! nothing for a long time, and one whose condition holds for no row returns nothing. So a pause is due on both sides of a join: in what it
//! reads and in what it returns. A join that compares all pairs of rows compares those of a whole batch at once: its batches are made so small
//! that this takes some milliseconds.

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::Stream;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// Operators that make many rows of few.
const JOINS: [&str; 5] =
    ["CrossJoinExec", "NestedLoopJoinExec", "HashJoinExec", "SortMergeJoinExec", "PiecewiseMergeJoinExec"];

/// The one that compares all pairs of rows. It holds its left side.
const ALL_PAIRS: &str = "NestedLoopJoinExec";

/// Pairs that are compared between two pauses, at least those of one row.
const PAIRS: usize = 4 << 20;

/// Between two pauses, as far as batches end in time.
const INTERVAL: Duration = Duration::from_millis(10);

/// The rule. It runs last.
#[derive(Debug)]
pub(crate) struct PauseInJoins;

impl PhysicalOptimizerRule for PauseInJoins {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let pausing = |plan: Arc<dyn ExecutionPlan>| {
            if !JOINS.contains(&plan.name()) {
                return Ok(Transformed::no(plan));
            }
            let rows = (plan.name() == ALL_PAIRS).then(|| Arc::new(AtomicUsize::new(0)));
            let inputs = plan.children().into_iter().enumerate().map(|(side, input)| {
                let role = match &rows {
                    None => Role::Other,
                    Some(rows) if side == 0 => Role::Held(rows.clone()),
                    Some(rows) => Role::Compared(rows.clone()),
                };
                pause(input.clone(), role)
            });
            let inputs = inputs.collect();
            Ok(Transformed::yes(pause(replace_children_if_necessary(plan, inputs)?, Role::Other)))
        };
        plan.transform_up(pausing).data()
    }

    fn name(&self) -> &'static str {
        "pause_in_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn pause(input: Arc<dyn ExecutionPlan>, role: Role) -> Arc<dyn ExecutionPlan> {
    Arc::new(Pause { input, role })
}

/// What the rows that pass are for.
#[derive(Debug, Clone)]
enum Role {
    /// The side of a join of all pairs that is held: its rows are counted.
    Held(Arc<AtomicUsize>),
    /// The other side of such a join, with the number of rows that are held.
    Compared(Arc<AtomicUsize>),
    Other,
}

/// An operator that pauses after a batch, if it has not for some time. It is what its input is otherwise.
#[derive(Debug)]
struct Pause {
    input: Arc<dyn ExecutionPlan>,
    role: Role,
}

impl DisplayAs for Pause {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pause")
    }
}

impl ExecutionPlan for Pause {
    fn name(&self) -> &'static str {
        "Pause"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&PhysicalExprRef) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(pause(children.swap_remove(0), self.role.clone()))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context)?;
        let role = self.role.clone();
        Ok(Box::pin(Pausing { input, role, rest: None, paused: Instant::now() }))
    }
}

/// The batches of an operator, with pauses.
struct Pausing {
    input: SendableRecordBatchStream,
    role: Role,
    /// Rows of a batch that are not returned yet.
    rest: Option<RecordBatch>,
    /// When it paused last.
    paused: Instant,
}

impl Pausing {
    /// What is returned of a batch now.
    fn part(&mut self, batch: RecordBatch) -> RecordBatch {
        match &self.role {
            Role::Other => {}
            Role::Held(rows) => {
                rows.fetch_add(batch.num_rows(), Ordering::Relaxed);
            }
            Role::Compared(held) => {
                let rows = (PAIRS / held.load(Ordering::Relaxed).max(1)).max(1);
                if rows < batch.num_rows() {
                    self.rest = Some(batch.slice(rows, batch.num_rows() - rows));
                    return batch.slice(0, rows);
                }
            }
        }
        batch
    }
}

impl Stream for Pausing {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.paused.elapsed() >= INTERVAL {
            self.paused = Instant::now();
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        if let Some(rest) = self.rest.take() {
            return Poll::Ready(Some(Ok(self.part(rest))));
        }
        match self.input.as_mut().poll_next(context) {
            Poll::Pending => {
                self.paused = Instant::now();
                Poll::Pending
            }
            Poll::Ready(Some(Ok(batch))) => Poll::Ready(Some(Ok(self.part(batch)))),
            other => other,
        }
    }
}

impl RecordBatchStream for Pausing {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}
