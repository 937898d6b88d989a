//! Runs gap filling: groups are sorted by keys and buckets and held in memory; the rows between them are made when they are returned.

use super::ROWS_MAX;
use super::node::{Filling, GapFill};
use super::series::{Series, too_many};
use crate::batches::{Batches, stream_of};
use crate::time::grid::Grid;
use crate::time::time_bucket::grid_of;
use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::{SortOptions, concat_batches};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::Session;
use datafusion::common::plan_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{ColumnarValue, LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{
    EquivalenceProperties, LexOrdering, LexRequirement, OrderingRequirements, PhysicalExprRef,
    PhysicalSortExpr,
};
use datafusion::physical_plan::distribution_requirements::InputDistributionRequirements;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, Partitioning, PlanProperties,
};
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};
use futures::StreamExt;
use std::fmt;
use std::sync::Arc;

/// Makes operators of logical gap filling.
#[derive(Debug)]
pub(crate) struct GapFillPlanner;

#[async_trait]
impl ExtensionPlanner for GapFillPlanner {
    async fn plan_extension(
        &self,
        _: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        _: &dyn Session,
        _: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(gaps) = node.as_any().downcast_ref::<GapFill>() else { return Ok(None) };
        let [input] = inputs else {
            return datafusion::common::internal_err!("gap filling has one input");
        };
        let constants: Vec<ColumnarValue> =
            gaps.filling.arguments.iter().map(|value| ColumnarValue::Scalar(value.clone())).collect();
        let Some(grid) = grid_of(&constants.iter().collect::<Vec<_>>())? else {
            return plan_err!("width, zone and origin of time_bucket_gapfill are not null");
        };
        let schema = node.schema().inner().clone();
        Ok(Some(Arc::new(GapFillExec::new(input.clone(), grid, gaps.filling.clone(), schema))))
    }
}

/// Fills gaps.
#[derive(Debug)]
struct GapFillExec {
    input: Arc<dyn ExecutionPlan>,
    grid: Grid,
    filling: Filling,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl GapFillExec {
    fn new(input: Arc<dyn ExecutionPlan>, grid: Grid, filling: Filling, schema: SchemaRef) -> Self {
        let order = [order(&schema, &filling)];
        let equivalence = EquivalenceProperties::new_with_orderings(schema.clone(), order);
        let properties = PlanProperties::new(
            equivalence,
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        let metrics = ExecutionPlanMetricsSet::new();
        Self { input, grid, filling, schema, properties: Arc::new(properties), metrics }
    }
}

/// By keys, then by bucket.
fn order(schema: &SchemaRef, filling: &Filling) -> Vec<PhysicalSortExpr> {
    let columns = filling.keys.iter().chain([&filling.bucket]);
    let sorted = columns.map(|index| {
        let column: PhysicalExprRef = Arc::new(Column::new(schema.field(*index).name(), *index));
        PhysicalSortExpr::new(column, SortOptions { descending: false, nulls_first: false })
    });
    sorted.collect()
}

impl DisplayAs for GapFillExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fills: Vec<&str> = self.filling.fills.iter().map(|(_, _, name)| name.as_str()).collect();
        write!(f, "GapFill: [{}]", fills.join(", "))
    }
}

impl ExecutionPlan for GapFillExec {
    fn name(&self) -> &'static str {
        "GapFill"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition])
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        let order = LexOrdering::new(order(&self.input.schema(), &self.filling));
        vec![order.map(|order| OrderingRequirements::new(LexRequirement::from(order)))]
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
        let input = children.pop().unwrap_or_else(|| self.input.clone());
        let (grid, filling) = (self.grid.clone(), self.filling.clone());
        Ok(Arc::new(Self::new(input, grid, filling, self.schema.clone())))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let reservation = MemoryConsumer::new("GapFill").register(context.memory_pool());
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let rows_max = context.session_config().batch_size();
        reservation.try_grow(size_of::<i64>() * self.grid.starts_most(self.filling.times).min(ROWS_MAX))?;
        let Some(buckets) = self.grid.starts(self.filling.times, ROWS_MAX) else { return Err(too_many()) };
        let input = self.input.execute(partition, context)?;
        let state = State {
            input: Some((input, buckets)),
            series: None,
            filling: self.filling.clone(),
            schema: self.schema.clone(),
            reservation,
            rows_max,
        };
        Ok(stream_of(state, self.schema.clone(), metrics))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// Gap filling at work.
struct State {
    /// The groups, and the beginnings of the buckets; `None`: they are read.
    input: Option<(SendableRecordBatchStream, Vec<i64>)>,
    series: Option<Series>,
    filling: Filling,
    schema: SchemaRef,
    reservation: MemoryReservation,
    /// Rows of a batch.
    rows_max: usize,
}

impl Batches for State {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        if let Some((mut input, buckets)) = self.input.take() {
            let (schema, mut groups, mut rows) = (input.schema(), Vec::new(), 0);
            while let Some(batch) = input.next().await.transpose()? {
                rows += batch.num_rows();
                if rows > ROWS_MAX {
                    return Err(too_many());
                }
                // They are put together afterwards.
                self.reservation.try_grow(2 * batch.get_array_memory_size())?;
                groups.push(batch);
            }
            let groups = concat_batches(&schema, &std::mem::take(&mut groups))?;
            let bytes = groups.get_array_memory_size() + Series::bytes(&groups, buckets.len(), &self.filling);
            self.reservation.try_resize(bytes)?;
            self.series = Some(Series::new(groups, buckets, &self.filling, &self.schema)?);
        }
        match &mut self.series {
            Some(series) => series.next(self.rows_max),
            None => Ok(None),
        }
    }
}
