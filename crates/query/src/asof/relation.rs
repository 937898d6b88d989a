//! Plans as-of joins from the syntax tree.

use super::node::{AsOf, Direction, Match};
use super::pair::Pair;
use super::syntax::is_asof;
use super::ties;
use super::window;
use datafusion::arrow::datatypes::{DataType, IntervalMonthDayNano, TimeUnit};
use datafusion::common::{Column, DFSchema, ScalarValue};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr_fn::cast;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, Extension, LogicalPlan, LogicalPlanBuilder, Operator,
};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr as Ast, FunctionArg, FunctionArgExpr, FunctionArguments, JoinConstraint,
    JoinOperator, ObjectName, TableFactor,
};
use std::sync::Arc;

/// The planner of as-of joins.
#[derive(Debug)]
pub(crate) struct PlanAsOf;

impl RelationPlanner for PlanAsOf {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        match relation {
            TableFactor::NestedJoin { mut table_with_joins, alias } if matches!(&table_with_joins.joins[..], [only] if is_asof(only)) =>
            {
                let Some(join) = table_with_joins.joins.pop() else {
                    return datafusion::common::internal_err!("the join is there");
                };
                let left = context.plan(table_with_joins.relation)?;
                let right = context.plan(join.relation)?;
                let plan = plan(left, right, join.join_operator, context)?;
                Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias))))
            }
            other => Ok(RelationPlanning::Original(Box::new(other))),
        }
    }
}

/// The conditions of a join, as they are found.
#[derive(Default)]
struct Conditions {
    keys: Vec<(Expr, Expr)>,
    /// Times and how they are compared.
    times: Option<(Expr, Expr, Direction, bool)>,
    tolerance: Option<i64>,
    /// Conjuncts that may be a tolerance: it is known when the times are.
    others: Vec<Expr>,
}

pub(super) fn wrong<T>(what: impl Into<String>) -> Result<T> {
    Err(DataFusionError::Plan(what.into()))
}

const HELP: &str =
    "write for example ASOF JOIN quotes q MATCH_CONDITION (t.time >= q.time) ON t.symbol = q.symbol";

fn plan(
    left: LogicalPlan,
    right: LogicalPlan,
    operator: JoinOperator,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let schema = left.schema().join(right.schema())?;
    let sides = (left.schema().clone(), right.schema().clone());
    let sides = (&*sides.0, &*sides.1);
    if let JoinOperator::AsOf { match_condition, constraint } = &operator
        && let Some(function) = window::relation::function(match_condition)
    {
        return window::relation::plan((left, right), function, constraint.clone(), context);
    }
    let mut found = Conditions::default();
    let (constraint, is_inner) = match operator {
        JoinOperator::AsOf { match_condition, constraint } => {
            for part in conjuncts(match_condition) {
                found.add_match(part, (&schema, sides), context)?;
            }
            (constraint, false)
        }
        JoinOperator::Join(constraint) | JoinOperator::Inner(constraint) => (constraint, true),
        JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) => (constraint, false),
        _ => return wrong(format!("an as-of join is ASOF JOIN or ASOF LEFT JOIN; {HELP}")),
    };
    let mut using = Vec::new();
    match constraint {
        JoinConstraint::On(condition) => {
            for part in conjuncts(condition) {
                found.add_match(part, (&schema, sides), context)?;
            }
        }
        JoinConstraint::Using(names) => {
            using = names.iter().map(|name| name_of(name, context)).collect::<Result<Vec<_>>>()?;
            let mut keys = &using[..];
            if found.times.is_none()
                && let Some((time, before)) = using.split_last()
            {
                let (left, right) = (column(time, sides.0)?, column(time, sides.1)?);
                found.times = Some((left, right, Direction::Backward, false));
                keys = before;
            }
            for name in keys {
                found.keys.push((column(name, sides.0)?, column(name, sides.1)?));
            }
        }
        JoinConstraint::None => {}
        JoinConstraint::Natural => return wrong(format!("an as-of join names its columns; {HELP}")),
    }
    let Some((left_time, right_time, direction, strict)) = found.times.take() else {
        return wrong(format!("the as-of join compares no times; {HELP}"));
    };
    for other in std::mem::take(&mut found.others) {
        match tolerance(&other, (&left_time, &right_time), direction)? {
            Some(tolerance) => {
                found.tolerance = Some(found.tolerance.map_or(tolerance, |other| other.min(tolerance)))
            }
            None => {
                return wrong(format!(
                    "an as-of join compares times and equal keys, and {other} is neither; put it into WHERE, or write a tolerance as t.time - q.time <= INTERVAL '1 second'"
                ));
            }
        }
    }
    let times = common(left_time, right_time, sides)?;
    let ty = times.0.get_type(sides.0)?;
    check_times(&ty)?;
    let tolerance = found.tolerance.map(|tolerance| in_units(tolerance, &ty));
    let keys =
        found.keys.into_iter().map(|(left, right)| common(left, right, sides)).collect::<Result<Vec<_>>>()?;
    let matching = Match { direction, strict, tolerance };
    let ties = (ties::of(&left, &times.0)?, ties::of(&right, &times.1)?);
    let pair = Pair { left: Arc::new(left), right: Arc::new(right), keys, times, ties };
    let node = Arc::new(AsOf::new(pair, matching, is_inner)?);
    let plan = LogicalPlan::Extension(Extension { node });
    if using.is_empty() {
        return Ok(plan);
    }
    // Columns of USING are those of the left side.
    let schema = plan.schema().clone();
    let lefts = sides.0.fields().len();
    let is_kept = |index: usize| index < lefts || !using.contains(schema.field(index).name());
    let kept = schema.columns().into_iter().enumerate().filter(|(index, _)| is_kept(*index));
    LogicalPlanBuilder::from(plan).project(kept.map(|(_, column)| Expr::Column(column)))?.build()
}

/// The equal keys that a constraint states, which states nothing else.
///
/// # Errors
/// When it does, or when they are not columns of both sides.
pub(super) fn keys_of(
    constraint: JoinConstraint,
    (schema, sides): (&DFSchema, (&DFSchema, &DFSchema)),
    context: &mut dyn RelationPlannerContext,
) -> Result<Vec<(Expr, Expr)>> {
    let mut found = Conditions::default();
    match constraint {
        JoinConstraint::On(condition) => {
            for part in conjuncts(condition) {
                found.add_match(part, (schema, sides), context)?;
            }
        }
        JoinConstraint::Using(_) => return wrong("this join has no USING; write ON t.symbol = q.symbol"),
        JoinConstraint::None => {}
        JoinConstraint::Natural => return wrong(format!("an as-of join names its columns; {HELP}")),
    }
    match (found.times, found.others.pop()) {
        (None, None) => found.keys.into_iter().map(|(left, right)| common(left, right, sides)).collect(),
        (Some(_), _) => wrong("ON has equal keys; the condition about times is in MATCH_CONDITION"),
        (None, Some(other)) => wrong(format!("ON has equal keys, and {other} is none; put it into WHERE")),
    }
}

impl Conditions {
    /// Takes a conjunct of MATCH_CONDITION or ON.
    fn add_match(
        &mut self,
        part: Ast,
        (schema, sides): (&DFSchema, (&DFSchema, &DFSchema)),
        context: &mut dyn RelationPlannerContext,
    ) -> Result<()> {
        if let Some(args) = nearest(&part) {
            let args: Vec<Expr> =
                args.into_iter().map(|arg| context.sql_to_expr(arg, schema)).collect::<Result<_>>()?;
            let [a, b, rest @ ..] = &args[..] else {
                return wrong("nearest needs two times: MATCH_CONDITION (nearest(t.time, q.time))");
            };
            let (left, right) = match (side(a, sides), side(b, sides)) {
                (Side::Left, Side::Right) => (a, b),
                (Side::Right, Side::Left) => (b, a),
                _ => {
                    return wrong(
                        "nearest needs a time of each side: MATCH_CONDITION (nearest(t.time, q.time))",
                    );
                }
            };
            if let [limit, ..] = rest {
                self.tolerance = Some(constant(limit)?);
            }
            return self.set_times(left.clone(), right.clone(), Direction::Nearest, false);
        }
        for expr in split_conjunction_owned(context.sql_to_expr(part, schema)?) {
            self.add(expr, sides)?;
        }
        Ok(())
    }

    fn add(&mut self, expr: Expr, sides: (&DFSchema, &DFSchema)) -> Result<()> {
        let Expr::BinaryExpr(BinaryExpr { left, op, right }) = &expr else {
            self.others.push(expr);
            return Ok(());
        };
        let (a, b, op) = match (side(left, sides), side(right, sides)) {
            (Side::Left, Side::Right) => (&**left, &**right, Some(*op)),
            (Side::Right, Side::Left) => (&**right, &**left, op.swap()),
            _ => {
                self.others.push(expr);
                return Ok(());
            }
        };
        let is_shifted = shift(a).is_some() || shift(b).is_some();
        match op {
            Some(Operator::Eq) => self.keys.push((a.clone(), b.clone())),
            Some(op @ (Operator::GtEq | Operator::Gt | Operator::LtEq | Operator::Lt)) if !is_shifted => {
                let is_backward = matches!(op, Operator::GtEq | Operator::Gt);
                let direction = if is_backward { Direction::Backward } else { Direction::Forward };
                let strict = matches!(op, Operator::Gt | Operator::Lt);
                return self.set_times(a.clone(), b.clone(), direction, strict);
            }
            _ => self.others.push(expr),
        }
        Ok(())
    }

    fn set_times(&mut self, left: Expr, right: Expr, direction: Direction, strict: bool) -> Result<()> {
        if self.times.replace((left, right, direction, strict)).is_some() {
            return wrong(format!("an as-of join compares times once; {HELP}"));
        }
        Ok(())
    }
}

/// The parts of a condition that are connected by AND.
pub(super) fn conjuncts(condition: Ast) -> Vec<Ast> {
    match condition {
        Ast::BinaryOp { left, op: BinaryOperator::And, right } => {
            let mut parts = conjuncts(*left);
            parts.extend(conjuncts(*right));
            parts
        }
        Ast::Nested(inner) => conjuncts(*inner),
        other => vec![other],
    }
}

/// The arguments of `nearest(…)`.
fn nearest(part: &Ast) -> Option<Vec<Ast>> {
    let Ast::Function(function) = part else { return None };
    if !function.name.to_string().eq_ignore_ascii_case("nearest") {
        return None;
    }
    let FunctionArguments::List(list) = &function.args else { return None };
    let arg = |arg: &FunctionArg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    };
    list.args.iter().map(arg).collect()
}

#[derive(PartialEq)]
pub(super) enum Side {
    Left,
    Right,
    Other,
}

/// The side that all columns of an expression are of.
pub(super) fn side(expr: &Expr, (left, right): (&DFSchema, &DFSchema)) -> Side {
    let columns = expr.column_refs();
    let are_in = |schema: &DFSchema| columns.iter().all(|column| schema.has_column(column));
    match columns.is_empty() {
        true => Side::Other,
        false if are_in(left) => Side::Left,
        false if are_in(right) => Side::Right,
        false => Side::Other,
    }
}

/// An expression that is a time and a constant before or after it: the time, and the nanoseconds after it.
pub(super) fn shift(expr: &Expr) -> Option<(&Expr, i64)> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else { return None };
    match op {
        Operator::Plus => Some((left, constant(right).ok()?)),
        Operator::Minus => Some((left, constant(right).ok()?.checked_neg()?)),
        _ => None,
    }
}

/// The tolerance that a condition states: that the times differ by at most so much.
fn tolerance(expr: &Expr, (left, right): (&Expr, &Expr), direction: Direction) -> Result<Option<i64>> {
    let Expr::BinaryExpr(BinaryExpr { left: a, op, right: b }) = expr else { return Ok(None) };
    let (a, b, is_strict) = match op {
        Operator::LtEq => (&**a, &**b, false),
        Operator::Lt => (&**a, &**b, true),
        Operator::GtEq => (&**b, &**a, false),
        Operator::Gt => (&**b, &**a, true),
        _ => return Ok(None),
    };
    // The earlier and the later time.
    let (early, late) = match direction {
        Direction::Backward => (right, left),
        Direction::Forward => (left, right),
        Direction::Nearest => return Ok(None),
    };
    let found = match a {
        // late - early <= tolerance
        Expr::BinaryExpr(BinaryExpr { left: x, op: Operator::Minus, right: y })
            if **x == *late && **y == *early =>
        {
            Some(constant(b)?)
        }
        _ => match (shift(a), shift(b)) {
            // late - tolerance <= early, late <= early + tolerance
            (Some((x, by)), None) if x == late && b == early => by.checked_neg(),
            (None, Some((y, by))) if a == late && y == early => Some(by),
            _ => None,
        },
    };
    let exclusive = |tolerance: i64| if is_strict { tolerance.saturating_sub(1) } else { tolerance };
    Ok(found.map(exclusive))
}

/// Nanoseconds of an interval, or a number.
pub(super) fn constant(expr: &Expr) -> Result<i64> {
    let value = match expr {
        Expr::Literal(value, _) => value,
        _ => {
            return wrong(format!(
                "the tolerance of an as-of join is a constant interval, and {expr} is none"
            ));
        }
    };
    let months = |months: i32| match months {
        0 => Ok(()),
        _ => wrong::<()>("the tolerance of an as-of join has no months: they differ in length"),
    };
    match value {
        ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano { months: m, days, nanoseconds })) => {
            months(*m)?;
            Ok(i64::from(*days).saturating_mul(86_400_000_000_000).saturating_add(*nanoseconds))
        }
        ScalarValue::IntervalDayTime(Some(interval)) => Ok(i64::from(interval.days)
            .saturating_mul(86_400_000_000_000)
            .saturating_add(i64::from(interval.milliseconds).saturating_mul(1_000_000))),
        ScalarValue::DurationNanosecond(Some(nanoseconds)) => Ok(*nanoseconds),
        value => match value.cast_to(&DataType::Int64) {
            Ok(ScalarValue::Int64(Some(number))) if value.data_type().is_integer() => Ok(number),
            _ => wrong(format!("the tolerance of an as-of join is an interval, and {value} is none")),
        },
    }
}

/// A tolerance in the units of the times.
pub(super) fn in_units(nanoseconds: i64, ty: &DataType) -> i64 {
    match ty {
        DataType::Timestamp(TimeUnit::Second, _) => nanoseconds.div_euclid(1_000_000_000),
        DataType::Timestamp(TimeUnit::Millisecond, _) => nanoseconds.div_euclid(1_000_000),
        DataType::Timestamp(TimeUnit::Microsecond, _) => nanoseconds.div_euclid(1_000),
        _ => nanoseconds,
    }
}

pub(super) fn check_times(ty: &DataType) -> Result<()> {
    match ty {
        DataType::Timestamp(..) | DataType::Int64 => Ok(()),
        other => wrong(format!(
            "an as-of join compares timestamps or integers of 64 bits with a sign, not {other}"
        )),
    }
}

/// Both expressions in one type. Integers are wide: what is compared as times is 64 bits.
pub(super) fn common(left: Expr, right: Expr, sides: (&DFSchema, &DFSchema)) -> Result<(Expr, Expr)> {
    let (a, b) = (left.get_type(sides.0)?, right.get_type(sides.1)?);
    let Some(ty) = comparison_coercion(&a, &b) else {
        return wrong(format!("{left} and {right} cannot be compared: they are {a} and {b}"));
    };
    let ty = if ty.is_integer() && ty != DataType::UInt64 { DataType::Int64 } else { ty };
    let as_common = |expr: Expr, of: DataType| if of == ty { expr } else { cast(expr, ty.clone()) };
    Ok((as_common(left, a), as_common(right, b)))
}

fn name_of(name: &ObjectName, context: &mut dyn RelationPlannerContext) -> Result<String> {
    match name.0.first().and_then(|part| part.as_ident()) {
        Some(ident) if name.0.len() == 1 => Ok(context.normalize_ident(ident.clone())),
        _ => wrong(format!("USING names columns, and {name} is none")),
    }
}

/// The column of a name on one side.
fn column(name: &str, schema: &DFSchema) -> Result<Expr> {
    match &schema.columns_with_unqualified_name(name)[..] {
        [only] => Ok(Expr::Column(only.clone())),
        [] => wrong(format!("USING needs column {name} on both sides; one has {}", names(schema))),
        _ => wrong(format!("column {name} is on one side more than once; use ON instead of USING")),
    }
}

fn names(schema: &DFSchema) -> String {
    let names: Vec<String> =
        schema.columns().iter().map(|column: &Column| column.name.clone()).take(10).collect();
    names.join(", ")
}
