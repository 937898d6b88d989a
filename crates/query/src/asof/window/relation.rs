//! Plans window joins and markouts from the syntax tree.

use super::node::{Around, Outcome, Window};
use super::syntax::{HORIZON, HORIZON_HELP, PREVAILING, WINDOW, WINDOW_HELP};
use crate::asof::pair::Pair;
use crate::asof::relation::{Side, side};
use crate::asof::relation::{check_times, common, conjuncts, constant, in_units, keys_of, shift, wrong};
use crate::asof::ties;
use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Extension, LogicalPlan, Operator};
use datafusion::sql::sqlparser::ast::{
    Expr as Ast, Function, FunctionArg, FunctionArgExpr, FunctionArguments, JoinConstraint, Value,
};
use std::sync::Arc;

/// Most offsets of a markout.
const OFFSETS_MAX: usize = 1_000;

/// The arguments of the function around a condition, and its name, if it has one.
pub(in crate::asof) fn function(condition: &Ast) -> Option<(&str, Vec<Ast>)> {
    let Ast::Function(Function { name, args: FunctionArguments::List(list), .. }) = condition else {
        return None;
    };
    let name = name.to_string();
    let name = [WINDOW, PREVAILING, HORIZON].into_iter().find(|known| *known == name)?;
    let arg = |arg: &FunctionArg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    };
    Some((name, list.args.iter().map(arg).collect::<Option<_>>()?))
}

/// Plans a join whose condition is such a function.
///
/// # Errors
/// When its parts are not what they must be.
pub(in crate::asof) fn plan(
    (left, right): (LogicalPlan, LogicalPlan),
    (name, args): (&str, Vec<Ast>),
    constraint: JoinConstraint,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let schema = left.schema().join(right.schema())?;
    let (left_schema, right_schema) = (left.schema().clone(), right.schema().clone());
    let sides = (&*left_schema, &*right_schema);
    let mut args = args.into_iter();
    let Some(condition) = args.next() else { return wrong(WINDOW_HELP) };
    let mut parts = Vec::new();
    for part in conjuncts(condition) {
        parts.extend(split_conjunction_owned(context.sql_to_expr(part, &schema)?));
    }
    let keys = keys_of(constraint, (&schema, sides), context)?;
    let (times, window, outcome) = match name {
        HORIZON => {
            let (times, offsets, name) = horizon(parts, args.collect(), sides, &schema, context)?;
            let ty = common(times.0.clone(), times.1.clone(), sides)?.0.get_type(sides.0)?;
            let offsets: Vec<i64> = offsets.into_iter().map(|offset| in_units(offset, &ty)).collect();
            let from = offsets.iter().copied().min().unwrap_or(0);
            let to = offsets.iter().copied().max().unwrap_or(0);
            (times, Window { from, to, prevailing: true }, Outcome::Offsets(name, offsets))
        }
        _ => {
            let aggregates = args.map(|call| aggregate(call, sides.1, context)).collect::<Result<_>>()?;
            let (times, from, to) = bounds(parts, sides)?;
            let ty = common(times.0.clone(), times.1.clone(), sides)?.0.get_type(sides.0)?;
            let (from, to) = (in_units(from, &ty), in_units(to, &ty));
            (times, Window { from, to, prevailing: name == PREVAILING }, Outcome::Aggregates(aggregates))
        }
    };
    let times = common(times.0, times.1, sides)?;
    check_times(&times.0.get_type(sides.0)?)?;
    let ties = (ties::of(&left, &times.0)?, ties::of(&right, &times.1)?);
    let pair = Pair { left: Arc::new(left), right: Arc::new(right), keys, times, ties };
    let node = Arc::new(Around::new(pair, (window, outcome))?);
    Ok(LogicalPlan::Extension(Extension { node }))
}

/// An aggregate of the right side.
fn aggregate(call: Ast, right: &DFSchema, context: &mut dyn RelationPlannerContext) -> Result<Expr> {
    let text = call.to_string();
    // `count(*)` comes with its name.
    match context.sql_to_expr(call, right)?.unalias_nested().data {
        Expr::AggregateFunction(function) if !function.params.order_by.is_empty() => {
            wrong(format!("the rows of a window are in the order of time; leave out ORDER BY in {text}"))
        }
        aggregate @ Expr::AggregateFunction(_) => Ok(aggregate),
        _ => wrong(format!("{text} is no aggregate; {WINDOW_HELP}")),
    }
}

/// The times of a window, and how much later than the left one its first and its last time are.
fn bounds(parts: Vec<Expr>, sides: (&DFSchema, &DFSchema)) -> Result<((Expr, Expr), i64, i64)> {
    let (mut times, mut from, mut to) = (None, None, None);
    for part in parts.into_iter().flat_map(unfolded) {
        let Expr::BinaryExpr(BinaryExpr { left, op, right }) = &part else { return wrong(WINDOW_HELP) };
        let (right, op, left) = match (side(left, sides), side(right, sides)) {
            (Side::Right, Side::Left) => (&**left, *op, &**right),
            (Side::Left, Side::Right) => match op.swap() {
                Some(op) => (&**right, op, &**left),
                None => return wrong(WINDOW_HELP),
            },
            _ => {
                return wrong(format!(
                    "a window compares times of both sides, and {part} does not; {WINDOW_HELP}"
                ));
            }
        };
        let ((left, by_left), (right, by_right)) =
            (shift(left).unwrap_or((left, 0)), shift(right).unwrap_or((right, 0)));
        let by = by_left.saturating_sub(by_right);
        let these = (left.clone(), right.clone());
        if times.get_or_insert_with(|| these.clone()) != &these {
            return wrong(format!("a window compares one time of each side, and {part} has another one"));
        }
        let (bound, value) = match op {
            Operator::GtEq => (&mut from, by),
            Operator::Gt => (&mut from, by.saturating_add(1)),
            Operator::LtEq => (&mut to, by),
            Operator::Lt => (&mut to, by.saturating_sub(1)),
            _ => return wrong(format!("{part} is no bound of a window; {WINDOW_HELP}")),
        };
        if bound.replace(value).is_some() {
            return wrong(format!("a window begins once and ends once; {part} is one bound too many"));
        }
    }
    match (times, from, to) {
        (Some(times), Some(from), Some(to)) if from <= to => Ok((times, from, to)),
        (Some(_), Some(_), Some(_)) => wrong("the window ends before it begins"),
        _ => wrong(format!("a window has a beginning and an end; {WINDOW_HELP}")),
    }
}

/// `BETWEEN` as two comparisons.
fn unfolded(part: Expr) -> Vec<Expr> {
    let compared = |left: &Expr, op, right: Box<Expr>| {
        Expr::BinaryExpr(BinaryExpr::new(Box::new(left.clone()), op, right))
    };
    match part {
        Expr::Between(between) if !between.negated => vec![
            compared(&between.expr, Operator::GtEq, between.low),
            compared(&between.expr, Operator::LtEq, between.high),
        ],
        other => vec![other],
    }
}

/// The times of a markout, its offsets, and the name of their column's table.
fn horizon(
    parts: Vec<Expr>,
    args: Vec<Ast>,
    sides: (&DFSchema, &DFSchema),
    schema: &DFSchema,
    context: &mut dyn RelationPlannerContext,
) -> Result<((Expr, Expr), Vec<i64>, String)> {
    let mut args = args.into_iter();
    let name = match args.next() {
        Some(Ast::Value(value)) => match value.value {
            Value::SingleQuotedString(name) => name,
            _ => return wrong(HORIZON_HELP),
        },
        _ => return wrong(HORIZON_HELP),
    };
    let [Expr::BinaryExpr(BinaryExpr { left, op, right })] = &parts[..] else { return wrong(HORIZON_HELP) };
    let times = match (side(left, sides), op, side(right, sides)) {
        (Side::Left, Operator::GtEq, Side::Right) => ((**left).clone(), (**right).clone()),
        (Side::Right, Operator::LtEq, Side::Left) => ((**right).clone(), (**left).clone()),
        _ => return wrong(format!("the condition of a horizon join is t.time >= q.time; {HORIZON_HELP}")),
    };
    let offset = |arg| constant(&context.sql_to_expr(arg, schema)?);
    let offsets: Vec<i64> = args.map(offset).collect::<Result<_>>()?;
    match offsets.len() {
        0 => wrong(HORIZON_HELP),
        count if count > OFFSETS_MAX => {
            wrong(format!("a horizon join has at most {OFFSETS_MAX} offsets, and this one has {count}"))
        }
        _ => Ok((times, offsets, name)),
    }
}
