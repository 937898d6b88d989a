//! What a running as-of join is made of.

use super::input::Input;
use super::keys::Keys;
use super::node::Match;
use super::output::{nothing_of, types_of};
use super::pair::Pair;
use crate::scan::Scan;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::Session;
use datafusion::common::internal_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{
    EquivalenceProperties, LexOrdering, LexRequirement, OrderingRequirements, PhysicalExprRef,
    PhysicalSortExpr,
};
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::distribution_requirements::InputDistributionRequirements;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::{
    Distribution, ExecutionPlan, ExecutionPlanProperties, Partitioning, PlanProperties,
};
use datafusion::physical_planner::PhysicalPlanner;
use std::fmt;
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

    /// The table that it is, if the join reads it by symbol.
    pub fn scan_by_symbol(&self) -> Option<&Scan> {
        scan_of(&self.input).filter(|scan| scan.is_by_symbol())
    }

    /// Its table, to be read by symbol: if it is one, whose columns `time` and `symbol` are what is compared.
    pub fn to_be_by_symbol(&self) -> Option<Arc<dyn ExecutionPlan>> {
        let [key] = &self.keys[..] else { return None };
        let scan = scan_of(&self.input)?;
        let column = |expr: &PhysicalExprRef| expr.downcast_ref::<Column>().map(Column::index);
        let is_plain = scan.is_time(column(&self.time)?) && scan.is_symbol(column(key)?);
        Some(Arc::new(scan.to_be_by_symbol().filter(|_| is_plain)?))
    }

    /// The table that it is, if that is read by time and its columns `time` and `symbol` are what is compared.
    pub fn scan_by_time(&self) -> Option<&Scan> {
        let [key] = &self.keys[..] else { return None };
        let scan = scan_of(&self.input).filter(|scan| scan.is_ascending() && scan.is_messages())?;
        let column = |expr: &PhysicalExprRef| expr.downcast_ref::<Column>().map(Column::index);
        let is_plain = scan.is_time(column(&self.time)?) && scan.is_symbol(column(key)?);
        Some(scan).filter(|_| is_plain)
    }

    /// Its expressions.
    fn exprs(&self) -> impl Iterator<Item = &PhysicalExprRef> {
        iter::once(&self.time).chain(&self.keys).chain(&self.ties)
    }
}

/// The scan that an input is.
fn scan_of(input: &Arc<dyn ExecutionPlan>) -> Option<&Scan> {
    match input.downcast_ref::<CooperativeExec>() {
        Some(cooperative) => scan_of(cooperative.input()),
        None => input.downcast_ref::<Scan>(),
    }
}

/// Left and right.
#[derive(Debug, Clone)]
pub(super) struct Sides(pub [Side; 2]);

impl Sides {
    /// The sides of a logical operator whose inputs are these.
    ///
    /// # Errors
    /// When its expressions cannot be planned.
    pub fn plan(
        pair: &Pair,
        inputs: &[Arc<dyn ExecutionPlan>],
        planner: &dyn PhysicalPlanner,
        (session, context): (&dyn Session, &PhysicalPlanningContext),
    ) -> Result<Self> {
        let [left, right] = inputs else { return internal_err!("a join by time has two inputs") };
        let of_left = |expr| planner.create_physical_expr(expr, pair.left.schema(), session, context);
        let of_right = |expr| planner.create_physical_expr(expr, pair.right.schema(), session, context);
        let left = Side {
            input: left.clone(),
            time: of_left(&pair.times.0)?,
            keys: pair.keys.iter().map(|(key, _)| of_left(key)).collect::<Result<_>>()?,
            ties: pair.ties.0.iter().map(of_left).collect::<Result<_>>()?,
        };
        let right = Side {
            input: right.clone(),
            time: of_right(&pair.times.1)?,
            keys: pair.keys.iter().map(|(_, key)| of_right(key)).collect::<Result<_>>()?,
            ties: pair.ties.1.iter().map(of_right).collect::<Result<_>>()?,
        };
        Ok(Self([left, right]))
    }

    pub fn inputs(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.0.iter().map(|side| &side.input).collect()
    }

    /// The same sides with other inputs.
    pub fn with_inputs(&self, inputs: Vec<Arc<dyn ExecutionPlan>>) -> Self {
        let mut sides = self.clone();
        sides.0.iter_mut().zip(inputs).for_each(|(side, input)| side.input = input);
        sides
    }

    /// The orders in which they are to be read.
    pub fn orders(&self) -> [Option<OrderingRequirements>; 2] {
        let required = |side: &Side| Some(OrderingRequirements::new(LexRequirement::from(side.order()?)));
        [required(&self.0[0]), required(&self.0[1])]
    }

    /// Slices of time that they are divided into.
    pub fn slices(&self) -> usize {
        self.0[0].input.output_partitioning().partition_count()
    }

    /// How their rows are to be divided: where the join divides them itself, as they are.
    pub fn distribution(&self) -> InputDistributionRequirements {
        let one = match self.slices() {
            1 => Distribution::SinglePartition,
            _ => Distribution::UnspecifiedDistribution,
        };
        InputDistributionRequirements::new(vec![one; 2])
    }

    /// Which of their orders are stated to be those of the result.
    pub fn kept_orders(&self) -> Vec<bool> {
        // Otherwise DataFusion replaces the order that is required of the left side by one that is required of the result.
        vec![self.0[0].ties.is_empty(), false]
    }

    /// Calls `f` with the expressions until it stops.
    ///
    /// # Errors
    /// Those of `f`.
    pub fn visit(
        &self,
        f: &mut dyn FnMut(&PhysicalExprRef) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for expr in self.0.iter().flat_map(Side::exprs) {
            if f(expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }
}

/// What is compared.
impl fmt::Display for Sides {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [left, right] = &self.0;
        let keys = left.keys.iter().zip(&right.keys).map(|(left, right)| format!("{left} = {right}"));
        let keys = keys.collect::<Vec<_>>().join(", ");
        write!(f, "times=({}, {}), keys=[{keys}]", left.time, right.time)
    }
}

/// The properties of a join whose rows come in one partition, as they are joined.
pub(super) fn properties_of(equivalence: EquivalenceProperties) -> Arc<PlanProperties> {
    let partitioning = Partitioning::UnknownPartitioning(1);
    let (emission, bounded) = (EmissionType::Incremental, Boundedness::Bounded);
    Arc::new(PlanProperties::new(equivalence, partitioning, emission, bounded))
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
        self.of_needed(|origin| match origin {
            Origin::Right(column) => Some(column),
            Origin::Left(_) => None,
        })
    }

    /// The same of the left side.
    pub fn of_fewer_left_columns(&self) -> (Vec<usize>, Self) {
        self.of_needed(|origin| match origin {
            Origin::Left(column) => Some(column),
            Origin::Right(_) => None,
        })
    }

    /// The columns of a side that the result has, and the same join of a side that has only these.
    fn of_needed(&self, of_side: impl Fn(&mut Origin) -> Option<&mut usize>) -> (Vec<usize>, Self) {
        let mut needed: Vec<usize> = Vec::new();
        let mut joining = self.clone();
        for column in joining.output.iter_mut().filter_map(of_side) {
            let known = needed.iter().position(|other| other == column);
            *column = known.unwrap_or_else(|| {
                needed.push(*column);
                needed.len() - 1
            });
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
