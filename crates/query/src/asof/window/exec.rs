//! The operator of window joins and markouts.

use super::aggregates::Aggregate;
use super::node::{Around, Outcome, Window};
use super::ranges::{Ranges, are_of_ranges};
use super::rows::{Finish, Rows};
use crate::asof::input::Input;
use crate::asof::sides::{Sides, properties_of};
use crate::asof::slices::{Running, Slices};
use crate::batches::stream_of;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::Session;
use datafusion::common::internal_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::physical_expr::aggregate::LoweredAggregateBuilder;
use datafusion::physical_expr::{EquivalenceProperties, OrderingRequirements, PhysicalExprRef};
use datafusion::physical_plan::distribution_requirements::InputDistributionRequirements;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use datafusion::physical_planner::PhysicalPlanner;
use std::fmt;
use std::sync::Arc;

/// The operator of a logical window join or markout.
///
/// # Errors
/// When its expressions cannot be planned.
pub(in crate::asof) fn plan_extension(
    planner: &dyn PhysicalPlanner,
    join: &Around,
    inputs: &[Arc<dyn ExecutionPlan>],
    session: &dyn Session,
    context: &PhysicalPlanningContext,
) -> Result<Arc<dyn ExecutionPlan>> {
    let mut sides = Sides::plan(&join.pair, inputs, planner, (session, context))?;
    let finish = match &join.outcome {
        Outcome::Offsets(_, offsets) => Finish::Offsets(offsets.clone()),
        Outcome::Aggregates(aggregates) => {
            let plan = |aggregate| {
                let (logical, physical) = (join.pair.right.schema(), sides.0[1].input.schema());
                let props = session.execution_props();
                let lowered =
                    LoweredAggregateBuilder::new(aggregate, logical, &physical, props, context).build()?;
                Ok(Aggregate { function: lowered.aggregate, filter: lowered.filter })
            };
            Finish::Aggregates(aggregates.iter().map(plan).collect::<Result<_>>()?)
        }
    };
    if let Finish::Aggregates(aggregates) = &finish
        && are_of_ranges(aggregates)
        && !join.window.prevailing
        && let Some(scan) = sides.0[1].to_be_by_symbol()
    {
        sides.0[1].input = scan;
    }
    let schema = datafusion::logical_expr::UserDefinedLogicalNodeCore::schema(join).inner().clone();
    Ok(Arc::new(AroundExec::new(sides, join.window, finish, schema)))
}

/// The sides of a window join whose right side is read by symbol, and from and to which distance of its time rows belong to a row.
pub(in crate::asof) fn sides_of(plan: &dyn ExecutionPlan) -> Option<(&Sides, (i64, i64))> {
    let join = plan.downcast_ref::<AroundExec>()?;
    join.sides.0[1].scan_by_symbol().map(|_| (&join.sides, (join.window.from, join.window.to)))
}

/// Joins two inputs that are in the order of time, but for a table on the right side that is read by symbol.
#[derive(Debug, Clone)]
struct AroundExec {
    sides: Sides,
    window: Window,
    finish: Finish,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl AroundExec {
    fn new(sides: Sides, window: Window, finish: Finish, schema: SchemaRef) -> Self {
        let mut equivalence = EquivalenceProperties::new(schema.clone());
        // The columns of the left side are the first ones: an order by them is one of the output.
        if let Some(order) = sides.0[0].order() {
            equivalence.add_ordering(order);
        }
        let properties = properties_of(equivalence);
        Self { sides, window, finish, schema, properties, metrics: ExecutionPlanMetricsSet::new() }
    }

    fn memory(&self, context: &TaskContext) -> MemoryReservation {
        MemoryConsumer::new(self.name()).register(context.memory_pool())
    }

    /// The join of a table by symbol, of one partition of both sides.
    fn ranges(&self, partition: usize, context: &Arc<TaskContext>) -> Result<Ranges> {
        let [left, right] = &self.sides.0;
        let (Some(scan), Finish::Aggregates(aggregates)) = (right.scan_by_symbol(), &self.finish) else {
            return internal_err!("rows by symbol come from a scan, and have aggregates");
        };
        let rows = match left.scan_by_time() {
            Some(table) => {
                let columns: Vec<usize> = (0..left.input.schema().fields().len()).collect();
                let batch_rows = context.session_config().batch_size();
                Input::of_table(table.by_time(partition, &columns, batch_rows)?)
            }
            None => Input::new(left, left.input.execute(partition, context.clone())?),
        };
        let window = (self.window, &aggregates[..]);
        Ranges::new(rows, (scan, partition), window, &self.schema, self.memory(context))
    }
}

impl DisplayAs for AroundExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let offsets = match &self.finish {
            Finish::Offsets(offsets) => Some(&offsets[..]),
            Finish::Aggregates(_) => None,
        };
        write!(f, "{}: {}, {}", self.name(), Around::describe(self.window, offsets), self.sides)?;
        if let Finish::Aggregates(aggregates) = &self.finish {
            let names: Vec<_> = aggregates.iter().map(|aggregate| aggregate.function.name()).collect();
            write!(f, ", aggregates=[{}]", names.join(", "))?;
        }
        Ok(())
    }
}

impl ExecutionPlan for AroundExec {
    fn name(&self) -> &'static str {
        match self.finish {
            Finish::Aggregates(_) => "WindowJoin",
            Finish::Offsets(_) => "HorizonJoin",
        }
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.sides.inputs()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        self.sides.distribution()
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        let [left, right] = self.sides.orders();
        vec![left, right.filter(|_| self.sides.0[1].scan_by_symbol().is_none())]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.sides.kept_orders()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&PhysicalExprRef) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.sides.visit(f)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let sides = self.sides.with_inputs(children);
        Ok(Arc::new(Self::new(sides, self.window, self.finish.clone(), self.schema.clone())))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let memory = self.memory(&context);
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let slices = self.sides.slices();
        if slices > 1 {
            let join = self.clone();
            let at_once = context.session_config().target_partitions();
            let start = move |slice: usize| {
                let memory = join.memory(&context);
                Ok(Running::start(join.ranges(slice, &context)?, memory, true))
            };
            let slices = Slices::new((slices, at_once), None, memory, start);
            return Ok(stream_of(slices, self.schema.clone(), metrics));
        }
        let [left, right] = &self.sides.0;
        if right.scan_by_symbol().is_some() {
            return Ok(stream_of(self.ranges(partition, &context)?, self.schema.clone(), metrics));
        }
        let inputs =
            [left.input.execute(partition, context.clone())?, right.input.execute(partition, context)?];
        let rows = Rows::new(&self.sides.0, inputs, (self.window, &self.finish), &self.schema, memory)?;
        Ok(stream_of(rows, self.schema.clone(), metrics))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
