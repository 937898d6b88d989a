//! The operator of window joins and markouts.

use super::aggregates::Aggregate;
use super::node::{Around, Outcome, Window};
use super::rows::{Finish, Rows};
use crate::asof::sides::Side;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::Session;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::physical_expr::aggregate::LoweredAggregateBuilder;
use datafusion::physical_expr::{
    EquivalenceProperties, LexRequirement, OrderingRequirements, PhysicalExprRef,
};
use datafusion::physical_plan::distribution_requirements::InputDistributionRequirements;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, Partitioning, PlanProperties,
};
use datafusion::physical_planner::PhysicalPlanner;
use futures::stream;
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
    let [left, right] = inputs else {
        return datafusion::common::internal_err!("a window join has two inputs");
    };
    let of_left = |expr| planner.create_physical_expr(expr, join.left.schema(), session, context);
    let of_right = |expr| planner.create_physical_expr(expr, join.right.schema(), session, context);
    let sides = [
        Side {
            input: left.clone(),
            time: of_left(&join.times.0)?,
            keys: join.keys.iter().map(|(key, _)| of_left(key)).collect::<Result<_>>()?,
            ties: join.ties.0.iter().map(of_left).collect::<Result<_>>()?,
        },
        Side {
            input: right.clone(),
            time: of_right(&join.times.1)?,
            keys: join.keys.iter().map(|(_, key)| of_right(key)).collect::<Result<_>>()?,
            ties: join.ties.1.iter().map(of_right).collect::<Result<_>>()?,
        },
    ];
    let finish = match &join.outcome {
        Outcome::Offsets(_, offsets) => Finish::Offsets(offsets.clone()),
        Outcome::Aggregates(aggregates) => {
            let plan = |aggregate| {
                let (logical, physical) = (join.right.schema(), right.schema());
                let props = session.execution_props();
                let lowered =
                    LoweredAggregateBuilder::new(aggregate, logical, &physical, props, context).build()?;
                Ok(Aggregate { function: lowered.aggregate, filter: lowered.filter })
            };
            Finish::Aggregates(aggregates.iter().map(plan).collect::<Result<_>>()?)
        }
    };
    let schema = datafusion::logical_expr::UserDefinedLogicalNodeCore::schema(join).inner().clone();
    Ok(Arc::new(AroundExec::new(sides, join.window, finish, schema)))
}

/// Joins two inputs that are in the order of time.
#[derive(Debug)]
struct AroundExec {
    /// Left and right.
    sides: [Side; 2],
    window: Window,
    finish: Finish,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl AroundExec {
    fn new(sides: [Side; 2], window: Window, finish: Finish, schema: SchemaRef) -> Self {
        let mut equivalence = EquivalenceProperties::new(schema.clone());
        // The columns of the left side are the first ones: an order by them is one of the output.
        if let Some(order) = sides[0].order() {
            equivalence.add_ordering(order);
        }
        let properties = Arc::new(PlanProperties::new(
            equivalence,
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        Self { sides, window, finish, schema, properties, metrics: ExecutionPlanMetricsSet::new() }
    }
}

impl DisplayAs for AroundExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [left, right] = &self.sides;
        let offsets = match &self.finish {
            Finish::Offsets(offsets) => Some(&offsets[..]),
            Finish::Aggregates(_) => None,
        };
        write!(f, "{}: {}", self.name(), Around::describe(self.window, offsets))?;
        write!(f, ", times=({}, {})", left.time, right.time)?;
        let keys = left.keys.iter().zip(&right.keys).map(|(left, right)| format!("{left} = {right}"));
        write!(f, ", keys=[{}]", keys.collect::<Vec<_>>().join(", "))?;
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
        self.sides.iter().map(|side| &side.input).collect()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition; 2])
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        let required = |side: &Side| Some(OrderingRequirements::new(LexRequirement::from(side.order()?)));
        self.sides.iter().map(required).collect()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        // As of as-of joins: otherwise the order that is required of the left side would be replaced.
        vec![self.sides[0].ties.is_empty(), false]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&PhysicalExprRef) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for expr in self.sides.iter().flat_map(Side::exprs) {
            if f(expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mut sides = self.sides.clone();
        sides.iter_mut().zip(children).for_each(|(side, input)| side.input = input);
        Ok(Arc::new(Self::new(sides, self.window, self.finish.clone(), self.schema.clone())))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let memory = MemoryConsumer::new(self.name()).register(context.memory_pool());
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let [left, right] = &self.sides;
        let inputs =
            [left.input.execute(partition, context.clone())?, right.input.execute(partition, context)?];
        let rows = Rows::new(&self.sides, inputs, (self.window, &self.finish), &self.schema, memory)?;
        let batches = stream::try_unfold((rows, metrics), |(mut rows, metrics)| async move {
            let next = rows.next().await?;
            Ok(next.map(|batch| {
                metrics.record_output(batch.num_rows());
                (batch, (rows, metrics))
            }))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}
