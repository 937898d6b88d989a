//! The operator of an as-of join.

use super::last::Last;
use super::next::NextRows;
use super::node::{AsOf, Direction, Match, describe};
use super::sides::{Joining, Side};
use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::Session;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_expr::{
    EquivalenceProperties, LexOrdering, LexRequirement, OrderingRequirements, PhysicalExprRef,
    PhysicalSortExpr,
};
use datafusion::physical_plan::distribution_requirements::InputDistributionRequirements;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, Partitioning, PlanProperties,
};
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};
use futures::stream;
use std::fmt;
use std::sync::Arc;

/// Makes operators of logical as-of joins.
#[derive(Debug)]
pub(crate) struct AsOfPlanner;

#[async_trait]
impl ExtensionPlanner for AsOfPlanner {
    async fn plan_extension(
        &self,
        planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        context: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(join) = node.as_any().downcast_ref::<AsOf>() else { return Ok(None) };
        let [left, right] = inputs else {
            return datafusion::common::internal_err!("an as-of join has two inputs");
        };
        let of_left = |expr| planner.create_physical_expr(expr, join.left.schema(), session, context);
        let of_right = |expr| planner.create_physical_expr(expr, join.right.schema(), session, context);
        let sides = [
            Side {
                input: left.clone(),
                time: of_left(&join.times.0)?,
                keys: join.keys.iter().map(|(key, _)| of_left(key)).collect::<Result<_>>()?,
            },
            Side {
                input: right.clone(),
                time: of_right(&join.times.1)?,
                keys: join.keys.iter().map(|(_, key)| of_right(key)).collect::<Result<_>>()?,
            },
        ];
        let schema = node.schema().inner().clone();
        Ok(Some(Arc::new(AsOfExec::new(sides, join.matching, join.is_inner, schema))))
    }
}

/// Joins two inputs that are in the order of time.
#[derive(Debug)]
pub(crate) struct AsOfExec {
    /// Left and right.
    sides: [Side; 2],
    joining: Joining,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl AsOfExec {
    fn new(sides: [Side; 2], matching: Match, is_inner: bool, schema: SchemaRef) -> Self {
        let mut equivalence = EquivalenceProperties::new(schema.clone());
        // The columns of the left side are the first ones: an order by them is one of the output.
        if let Some(order) = LexOrdering::new([by_time(&sides[0].time)]) {
            equivalence.add_ordering(order);
        }
        let properties = PlanProperties::new(
            equivalence,
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let joining = Joining { matching, is_inner, schema };
        Self { sides, joining, properties: Arc::new(properties), metrics: ExecutionPlanMetricsSet::new() }
    }
}

fn by_time(time: &PhysicalExprRef) -> PhysicalSortExpr {
    PhysicalSortExpr::new(time.clone(), SortOptions { descending: false, nulls_first: false })
}

impl DisplayAs for AsOfExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [left, right] = &self.sides;
        let Joining { matching, is_inner, .. } = self.joining;
        write!(f, "AsOfJoin: {}, times=({}, {})", describe(matching, is_inner), left.time, right.time)?;
        let keys = left.keys.iter().zip(&right.keys).map(|(left, right)| format!("{left} = {right}"));
        write!(f, ", keys=[{}]", keys.collect::<Vec<_>>().join(", "))
    }
}

impl ExecutionPlan for AsOfExec {
    fn name(&self) -> &'static str {
        "AsOfJoin"
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
        let required = |side: &Side| {
            let order = LexOrdering::new([by_time(&side.time)])?;
            Some(OrderingRequirements::new(LexRequirement::from(order)))
        };
        self.sides.iter().map(required).collect()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true, false]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&PhysicalExprRef) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for expr in self.sides.iter().flat_map(|side| std::iter::once(&side.time).chain(&side.keys)) {
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
        let Joining { matching, is_inner, schema } = &self.joining;
        Ok(Arc::new(Self::new(sides, *matching, *is_inner, schema.clone())))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let reservation = MemoryConsumer::new("AsOfJoin").register(context.memory_pool());
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let [left, right] = &self.sides;
        let inputs =
            [left.input.execute(partition, context.clone())?, right.input.execute(partition, context)?];
        let rows = match self.joining.matching.direction {
            Direction::Backward => Rows::Last(Last::new(&self.sides, inputs, &self.joining, reservation)?),
            _ => Rows::Next(NextRows::new(&self.sides, inputs, &self.joining, reservation)?),
        };
        let batches = stream::try_unfold((rows, metrics), |(mut rows, metrics)| async move {
            let next = rows.next().await?;
            Ok(next.map(|batch| {
                metrics.record_output(batch.num_rows());
                (batch, (rows, metrics))
            }))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.joining.schema.clone(), batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// A running join.
enum Rows {
    Last(Last),
    Next(NextRows),
}

impl Rows {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        match self {
            Self::Last(last) => last.next().await,
            Self::Next(next) => next.next().await,
        }
    }
}
