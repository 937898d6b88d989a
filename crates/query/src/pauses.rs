//! Lets joins pause, so that a query can be stopped.
//!
//! A thread that computes stops a query where an operator pauses. Scans do after some batches; a join that makes many rows of few reads
//! nothing for a long time, and one whose condition holds for no row returns nothing. So a pause is due on both sides of a join: in what it
//! reads and in what it returns.

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
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// Operators that make many rows of few.
const JOINS: [&str; 5] =
    ["CrossJoinExec", "NestedLoopJoinExec", "HashJoinExec", "SortMergeJoinExec", "PiecewiseMergeJoinExec"];

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
            let inputs = plan.children().into_iter().map(|input| pause(input.clone())).collect();
            Ok(Transformed::yes(pause(replace_children_if_necessary(plan, inputs)?)))
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

fn pause(input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    Arc::new(Pause { input })
}

/// An operator that pauses after a batch, if it has not for some time. It is what its input is otherwise.
#[derive(Debug)]
struct Pause {
    input: Arc<dyn ExecutionPlan>,
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
        Ok(pause(children.swap_remove(0)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context)?;
        Ok(Box::pin(Pausing { input, paused: Instant::now() }))
    }
}

/// The batches of an operator, with pauses.
struct Pausing {
    input: SendableRecordBatchStream,
    /// When it paused last.
    paused: Instant,
}

impl Stream for Pausing {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.paused.elapsed() >= INTERVAL {
            self.paused = Instant::now();
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let next = self.input.as_mut().poll_next(context);
        if next.is_pending() {
            self.paused = Instant::now();
        }
        next
    }
}

impl RecordBatchStream for Pausing {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}
