//! The operator of an as-of join.

use super::ahead::Ahead;
use super::input::Input;
use super::last::Last;
use super::last_of_symbols::LastOfSymbols;
use super::next::NextRows;
use super::node::{AsOf, Direction, describe};
use super::output::nothing_of;
use super::sides::{Begun, Joining, Origin, Side, Sides, properties_of};
use super::slices::{Running, Slices};
use super::window::{self, Around};
use crate::batches::{Batches, stream_of};
use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::catalog::Session;
use datafusion::common::internal_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{
    EquivalenceProperties, LexOrdering, OrderingRequirements, PhysicalExprRef, PhysicalSortExpr,
};
use datafusion::physical_plan::distribution_requirements::InputDistributionRequirements;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};
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
        if let Some(join) = node.as_any().downcast_ref::<Around>() {
            return window::plan_extension(planner, join, inputs, session, context).map(Some);
        }
        let Some(join) = node.as_any().downcast_ref::<AsOf>() else { return Ok(None) };
        let Sides([left, mut right]) = Sides::plan(&join.pair, inputs, planner, (session, context))?;
        let is_backward = join.matching.direction == Direction::Backward;
        if let Some(scan) = right.to_be_by_symbol().filter(|_| is_backward) {
            right.input = scan;
        }
        let lefts = (0..left.input.schema().fields().len()).map(Origin::Left);
        let rights = (0..right.input.schema().fields().len()).map(Origin::Right);
        let (matching, is_inner, schema) = (join.matching, join.is_inner, node.schema().inner().clone());
        let joining = Joining { matching, is_inner, output: lefts.chain(rights).collect(), schema };
        Ok(Some(Arc::new(AsOfExec::new(Sides([left, right]), joining)?)))
    }
}

/// Joins two inputs: the left one is in the order of time, and so is the right one unless it can be read by symbol.
#[derive(Debug)]
pub(crate) struct AsOfExec {
    sides: Sides,
    joining: Joining,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl AsOfExec {
    fn new(sides: Sides, joining: Joining) -> Result<Self> {
        let mut equivalence = EquivalenceProperties::new(joining.schema.clone());
        if let Some(order) = order_of(&sides.0[0], &joining) {
            equivalence.add_ordering(order);
        }
        // A sort above was planned for the projection that the join has taken in, where both were equal.
        for (first, second) in twice(&joining) {
            equivalence.add_equal_conditions(first, second)?;
        }
        let properties = properties_of(equivalence);
        Ok(Self { sides, joining, properties, metrics: ExecutionPlanMetricsSet::new() })
    }

    /// Both sides.
    pub fn sides(&self) -> &Sides {
        &self.sides
    }

    fn start(&self, partition: usize, context: Arc<TaskContext>) -> Result<Rows> {
        let memory = memory_of(&context);
        let slices = self.sides.slices();
        if slices > 1 {
            let (sides, joining) = (self.sides.clone(), self.joining.clone());
            let at_once = context.session_config().target_partitions();
            let start = move |slice: usize| {
                let is_last = slice + 1 == slices;
                let rows = last_of_symbols(&sides, &joining, slice, &context, Some(is_last))?;
                Ok(Running::start(rows, memory_of(&context), is_last))
            };
            let joining = Some(self.joining.of_fewer_columns().1);
            return Ok(Rows::Slices(Slices::new((slices, at_once), joining, memory, start)));
        }
        let [left, right] = &self.sides.0;
        if right.scan_by_symbol().is_some() {
            let rows = last_of_symbols(&self.sides, &self.joining, partition, &context, None)?;
            return Ok(Rows::OfSymbols(rows));
        }
        let inputs =
            [left.input.execute(partition, context.clone())?, right.input.execute(partition, context)?];
        let begun = Begun::new(&self.sides.0, inputs, &self.joining, memory)?;
        Ok(match self.joining.matching.direction {
            Direction::Backward => Rows::Last(Last::new(begun)),
            _ => Rows::Next(NextRows::new(begun)),
        })
    }
}

fn memory_of(context: &TaskContext) -> MemoryReservation {
    MemoryConsumer::new("AsOfJoin").register(context.memory_pool())
}

/// A join of a table by symbol, of one partition of both sides; and whether it is the last one, where it is a slice.
fn last_of_symbols(
    sides: &Sides,
    joining: &Joining,
    partition: usize,
    context: &Arc<TaskContext>,
    slice: Option<bool>,
) -> Result<LastOfSymbols> {
    let [left, right] = &sides.0;
    let Some(scan) = right.scan_by_symbol() else { return internal_err!("rows by symbol come from a scan") };
    let (columns, joining) = joining.of_fewer_columns();
    let nothing = nothing_of(right)?.project(&columns)?;
    let ahead = Arc::new(Ahead::new(joining.matching.strict, slice == Some(false)));
    let (left, joining) = match left.scan_by_time() {
        Some(table) => {
            let (columns, joining) = joining.of_fewer_left_columns();
            let batch_rows = context.session_config().batch_size();
            (Input::of_table(table.by_time(partition, &columns, batch_rows)?), joining)
        }
        None => (Input::new(left, left.input.execute(partition, context.clone())?), joining),
    };
    let rows = scan.by_symbol(partition, &columns, true, Some(ahead.clone()))?;
    let memory = memory_of(context);
    Ok(LastOfSymbols::new(left, rows, joining, nothing, (ahead, memory), slice.is_some()))
}

/// The order of the result: that of the left side, as far as the result has its columns.
fn order_of(left: &Side, joining: &Joining) -> Option<LexOrdering> {
    let place = |ordered: &PhysicalSortExpr| {
        let column = ordered.expr.downcast_ref::<Column>()?;
        let place = joining.output.iter().position(|origin| *origin == Origin::Left(column.index()))?;
        let expr = Arc::new(Column::new(joining.schema.field(place).name(), place));
        Some(PhysicalSortExpr::new(expr, ordered.options))
    };
    let order = left.order()?;
    LexOrdering::new(order.iter().map_while(place))
}

/// Pairs of columns of the result that are the same column of a side.
fn twice(joining: &Joining) -> Vec<(PhysicalExprRef, PhysicalExprRef)> {
    let column = |place: usize| -> PhysicalExprRef {
        Arc::new(Column::new(joining.schema.field(place).name(), place))
    };
    let first = |origin: &Origin| joining.output.iter().position(|other| other == origin);
    let pair = |(place, origin): (usize, &Origin)| {
        first(origin).filter(|first| *first < place).map(|first| (column(first), column(place)))
    };
    joining.output.iter().enumerate().filter_map(pair).collect()
}

impl DisplayAs for AsOfExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Joining { matching, is_inner, .. } = self.joining;
        write!(f, "AsOfJoin: {}, {}", describe(matching, is_inner), self.sides)
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
        Ok(Arc::new(Self::new(self.sides.with_inputs(children), self.joining.clone())?))
    }

    /// Columns that are not in the result are not put together.
    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExec,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let column = |projected: &ProjectionExpr| projected.expr.downcast_ref::<Column>().map(Column::index);
        let Some(columns) = projection.expr().iter().map(column).collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        let output = columns.into_iter().map(|column| self.joining.output[column]).collect();
        let joining = Joining { output, schema: projection.schema(), ..self.joining.clone() };
        Ok(Some(Arc::new(Self::new(self.sides.clone(), joining)?)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = self.start(partition, context)?;
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        Ok(stream_of(rows, self.joining.schema.clone(), metrics))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// A running join.
enum Rows {
    Slices(Slices),
    Last(Last),
    OfSymbols(LastOfSymbols),
    Next(NextRows),
}

impl Batches for Rows {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        match self {
            Self::Slices(slices) => slices.next().await,
            Self::Last(last) => last.next().await,
            Self::OfSymbols(last) => Batches::next(last).await,
            Self::Next(next) => next.next().await,
        }
    }
}
