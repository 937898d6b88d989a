//! The operator: it reads and groups in one thread for each partition, and passes on the states of each block.

use super::block::{Arguments, Grouping, Key};
use crate::aggregates::states;
use crate::scan::Scan;
use crate::time::grid::Grid;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::internal_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExprRef};
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};
use std::fmt;
use std::sync::Arc;

/// Batches of states that wait to be taken.
const WAITING: usize = 2;

/// What is computed.
#[derive(Debug, Clone)]
pub(super) struct Work {
    pub keys: Vec<Key>,
    pub grids: Vec<Grid>,
    /// The time, as expressions of buckets take it.
    pub times: SchemaRef,
    /// Columns of the scan that are read.
    pub columns: Vec<usize>,
    /// Of those columns.
    pub conditions: Vec<PhysicalExprRef>,
    pub functions: Vec<(Arc<AggregateFunctionExpr>, Arguments)>,
    /// Keys and states.
    pub schema: SchemaRef,
}

/// The first step of an aggregation by symbol and time.
#[derive(Debug)]
pub(super) struct GroupBySymbolExec {
    input: Arc<dyn ExecutionPlan>,
    work: Work,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl GroupBySymbolExec {
    pub fn new(input: Arc<dyn ExecutionPlan>, work: Work) -> Self {
        let partitions = input.output_partitioning().partition_count();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(work.schema.clone()),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self { input, work, properties: Arc::new(properties), metrics: ExecutionPlanMetricsSet::new() }
    }

    fn grouping(&self) -> Result<Grouping> {
        let Work { keys, grids, times, conditions, functions, schema, .. } = self.work.clone();
        let started = |(function, arguments): (Arc<AggregateFunctionExpr>, Arguments)| match states(
            &function,
            arguments.filter.is_some(),
        )? {
            Some(states) => Ok((arguments, states)),
            None => internal_err!("{} has no groups", function.name()),
        };
        let functions = functions.into_iter().map(started).collect::<Result<_>>()?;
        Ok(Grouping { keys, grids, times, conditions, functions, schema, names: None })
    }
}

/// The scan that an input is.
pub(super) fn scan_of(input: &Arc<dyn ExecutionPlan>) -> Option<&Scan> {
    match input.downcast_ref::<CooperativeExec>() {
        Some(cooperative) => scan_of(cooperative.input()),
        None => input.downcast_ref::<Scan>(),
    }
}

impl DisplayAs for GroupBySymbolExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = |key: &Key| match key {
            Key::Symbol => "symbol".to_string(),
            Key::Bucket(expr) => expr.to_string(),
        };
        let keys: Vec<_> = self.work.keys.iter().map(key).collect();
        let functions: Vec<_> = self.work.functions.iter().map(|(function, _)| function.name()).collect();
        write!(f, "GroupBySymbol: mode=Partial, gby=[{}], aggr=[{}]", keys.join(", "), functions.join(", "))?;
        if !self.work.conditions.is_empty() {
            let conditions: Vec<_> = self.work.conditions.iter().map(ToString::to_string).collect();
            write!(f, ", where=[{}]", conditions.join(", "))?;
        }
        Ok(())
    }
}

impl ExecutionPlan for GroupBySymbolExec {
    fn name(&self) -> &'static str {
        "GroupBySymbol"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&PhysicalExprRef) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let of_functions = self.work.functions.iter();
        let arguments =
            of_functions.flat_map(|(_, arguments)| arguments.columns.iter().chain(&arguments.filter));
        for expr in self.work.conditions.iter().chain(arguments) {
            if f(expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self::new(children.swap_remove(0), self.work.clone())))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(scan) = scan_of(&self.input).cloned() else {
            return internal_err!("rows by symbol come from a scan");
        };
        let mut grouping = self.grouping()?;
        let columns = self.work.columns.clone();
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let memory = MemoryConsumer::new("GroupBySymbol").register(context.memory_pool());
        let mut builder = RecordBatchReceiverStream::builder(self.work.schema.clone(), WAITING);
        let sender = builder.tx();
        builder.spawn_blocking(move || {
            let mut failure = None;
            scan.read_by_symbol(partition, &columns, |rows| {
                let timer = metrics.elapsed_compute().timer();
                let found = grouping.block(rows).and_then(|groups| {
                    let Some(groups) = groups else { return Ok(None) };
                    // The states of a block, while they are made and while they wait.
                    memory.try_resize((WAITING + 1) * groups.get_array_memory_size())?;
                    Ok(Some(groups))
                });
                timer.done();
                match found {
                    Ok(Some(groups)) => {
                        metrics.record_output(groups.num_rows());
                        sender.blocking_send(Ok(groups)).is_ok()
                    }
                    Ok(None) => !sender.is_closed(),
                    Err(error) => {
                        failure = Some(error);
                        false
                    }
                }
            })?;
            failure.map_or(Ok(()), Err)
        });
        Ok(builder.build())
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// A schema of one column.
pub(super) fn of_one(schema: &Schema, column: usize) -> Result<SchemaRef> {
    Ok(Arc::new(schema.project(&[column])?))
}
