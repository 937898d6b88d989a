//! Which predicates a scan answers itself: times and symbols exactly, numbers by leaving out blocks.

use crate::table::{Column, Table};
use crate::wanted::Wanted;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringViewArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::catalog::Session;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, Operator, TryCast, Volatility};
use std::collections::BTreeSet;
use std::sync::Arc;
use tapedb_engine::{Number, NumberRange};
use tapedb_schema::{Decimal64, FieldType, Scalar};

/// Whether a scan returns only rows that match a predicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exactness {
    Exact,
    /// Some rows that do not match are left out.
    Inexact,
    /// The scan does not use it.
    None,
}

/// How exactly a scan of a table answers a predicate.
pub(crate) fn exactness(filter: &Expr, table: &Table) -> Exactness {
    // With later messages left out another one is the last of its symbol.
    let leaves_out_last = |(_, last)| table.latest.is_some() && last < i64::MAX;
    if is_about_symbols(filter, table) || times(filter, table).is_some_and(|range| !leaves_out_last(range)) {
        Exactness::Exact
    } else if table.latest.is_some() {
        Exactness::None
    } else if values(filter, table).is_some() {
        Exactness::Inexact
    } else {
        Exactness::None
    }
}

/// What the predicates together want of a table: they are those that [`exactness`] accepts.
///
/// # Errors
/// When a predicate about symbols cannot be evaluated.
pub(crate) fn wanted(filters: &[Expr], table: &Table, state: &dyn Session) -> Result<Wanted> {
    let mut wanted = Wanted::all();
    let mut about_symbols = Vec::new();
    for filter in filters {
        if let Some((from, last)) = times(filter, table) {
            wanted.from = wanted.from.max(from);
            wanted.last = wanted.last.min(last);
        } else if is_about_symbols(filter, table) {
            about_symbols.push(filter);
        } else if let Some(range) = values(filter, table) {
            wanted.ranges.push(range);
        }
    }
    for filter in about_symbols {
        let found = match listed(filter, table) {
            Some(listed) => listed,
            None => matching(filter, table, state)?,
        };
        wanted.symbols = Some(match wanted.symbols.take() {
            Some(before) => before.intersection(&found).cloned().collect(),
            None => found,
        });
    }
    Ok(wanted)
}

/// Whether an expression is a column that comes from there.
fn is_column(expr: &Expr, table: &Table, wanted: &Column) -> bool {
    matches!(expr, Expr::Column(column) if table.column_of(&column.name) == Some(wanted))
}

/// The comparison of an expression with a constant: the expression, the operator as if it stood on the left, and the constant.
fn comparison(expr: &Expr) -> Option<(&Expr, Operator, &ScalarValue)> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else { return None };
    match (&**left, &**right) {
        (left, Expr::Literal(value, _)) => Some((left, *op, value)),
        (Expr::Literal(value, _), right) => Some((right, op.swap()?, value)),
        _ => None,
    }
}

/// Nanoseconds since the Unix epoch of a constant.
fn nanoseconds(value: &ScalarValue) -> Option<i64> {
    match value {
        ScalarValue::TimestampNanosecond(Some(time), _) => Some(*time),
        _ => None,
    }
}

/// The times that a predicate wants, both included, if it is about time alone.
pub(crate) fn times(filter: &Expr, table: &Table) -> Option<(i64, i64)> {
    const NEVER: (i64, i64) = (i64::MAX, i64::MIN);
    if let Expr::Between(between) = filter {
        let is_time = is_column(&between.expr, table, &Column::Time) && !between.negated;
        return match (&*between.low, &*between.high) {
            (Expr::Literal(low, _), Expr::Literal(high, _)) if is_time => {
                Some((nanoseconds(low)?, nanoseconds(high)?))
            }
            _ => None,
        };
    }
    let (expr, op, value) = comparison(filter)?;
    if !is_column(expr, table, &Column::Time) {
        return None;
    }
    let time = nanoseconds(value)?;
    match op {
        Operator::Eq => Some((time, time)),
        Operator::Gt => Some(time.checked_add(1).map_or(NEVER, |time| (time, i64::MAX))),
        Operator::GtEq => Some((time, i64::MAX)),
        Operator::Lt => Some(time.checked_sub(1).map_or(NEVER, |time| (i64::MIN, time))),
        Operator::LtEq => Some((i64::MIN, time)),
        _ => None,
    }
}

/// Whether a predicate depends on the symbol alone, so that it can be evaluated once for each symbol.
fn is_about_symbols(filter: &Expr, table: &Table) -> bool {
    let (mut refers, mut is_only) = (false, true);
    let _ = filter.apply(|expr| {
        match expr {
            Expr::Column(_) if is_column(expr, table, &Column::Symbol) => refers = true,
            Expr::ScalarFunction(function)
                if function.func.signature().volatility != Volatility::Volatile => {}
            Expr::Literal(..)
            | Expr::BinaryExpr(_)
            | Expr::Like(_)
            | Expr::SimilarTo(_)
            | Expr::Not(_)
            | Expr::IsNotNull(_)
            | Expr::IsNull(_)
            | Expr::IsTrue(_)
            | Expr::IsFalse(_)
            | Expr::IsUnknown(_)
            | Expr::IsNotTrue(_)
            | Expr::IsNotFalse(_)
            | Expr::IsNotUnknown(_)
            | Expr::Negative(_)
            | Expr::Between(_)
            | Expr::Case(_)
            | Expr::Cast(_)
            | Expr::TryCast(_)
            | Expr::InList(_)
            | Expr::Alias(_) => {}
            _ => is_only = false,
        }
        Ok(if is_only { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    refers && is_only
}

/// The symbol that an expression has as text.
fn is_symbol(expr: &Expr, table: &Table) -> bool {
    match expr {
        Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field }) => {
            matches!(field.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
                && is_symbol(expr, table)
        }
        expr => is_column(expr, table, &Column::Symbol),
    }
}

/// The symbols of `symbol = 'A'`, `symbol IN ('A', 'B')`, and of several of these with `OR`; `None`: the predicate is another one.
pub(crate) fn listed(filter: &Expr, table: &Table) -> Option<BTreeSet<String>> {
    let text = |expr: &Expr| match expr {
        Expr::Literal(value, _) => value.try_as_str().flatten().map(str::to_string),
        _ => None,
    };
    match filter {
        Expr::InList(list) if !list.negated && is_symbol(&list.expr, table) => {
            list.list.iter().map(text).collect()
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            let mut symbols = listed(left, table)?;
            symbols.extend(listed(right, table)?);
            Some(symbols)
        }
        _ => match comparison(filter)? {
            (expr, Operator::Eq, value) if is_symbol(expr, table) => {
                Some(BTreeSet::from([value.try_as_str().flatten()?.to_string()]))
            }
            _ => None,
        },
    }
}

/// The symbols of the stream that a predicate is true for.
fn matching(filter: &Expr, table: &Table, state: &dyn Session) -> Result<BTreeSet<String>> {
    let symbols = table.open.stream.symbols();
    let schema = Schema::new(vec![Field::new("symbol", DataType::Utf8View, false)]);
    // Without the table's name: there is one column.
    let bare = filter.clone().transform(|expr| {
        Ok(match expr {
            Expr::Column(column) => datafusion::common::tree_node::Transformed::yes(Expr::Column(
                datafusion::common::Column::from_name(column.name),
            )),
            other => datafusion::common::tree_node::Transformed::no(other),
        })
    })?;
    let expr = state.create_physical_expr(bare.data, &DFSchema::try_from(schema.clone())?)?;
    let column: ArrayRef = Arc::new(StringViewArray::from_iter_values(&symbols));
    let batch = RecordBatch::try_new(Arc::new(schema), vec![column])?;
    let found = expr.evaluate(&batch)?.into_array(symbols.len())?;
    let found = found.as_boolean();
    let is_true = |index: &usize| found.is_valid(*index) && found.value(*index);
    Ok((0..symbols.len()).filter(is_true).map(|index| symbols[index].clone()).collect())
}

/// The field that a predicate compares with numbers, and the least and the most that it wants.
fn values(filter: &Expr, table: &Table) -> Option<(String, NumberRange)> {
    let field = |expr: &Expr| match expr {
        Expr::Column(column) if table.column_of(&column.name) == Some(&Column::Field) => {
            Some(column.name.clone())
        }
        _ => None,
    };
    if let Expr::Between(between) = filter {
        let name = field(&between.expr).filter(|_| !between.negated)?;
        return match (&*between.low, &*between.high) {
            (Expr::Literal(low, _), Expr::Literal(high, _)) => {
                let range = (number(&name, low, table, true), number(&name, high, table, false));
                (range != (None, None)).then_some((name, range))
            }
            _ => None,
        };
    }
    let (expr, op, value) = comparison(filter)?;
    let name = field(expr)?;
    let bound = |is_least| number(&name, value, table, is_least);
    let range = match op {
        Operator::Eq => (bound(true), bound(false)),
        Operator::Gt | Operator::GtEq => (bound(true), None),
        Operator::Lt | Operator::LtEq => (None, bound(false)),
        _ => return None,
    };
    // NaN is larger than all numbers in queries; the heads of blocks leave it out of the largest decimal.
    let is_decimal = matches!(range.0, Some(Number::Decimal(_)));
    (range != (None, None) && !(is_decimal && range.1.is_none())).then_some((name, range))
}

/// A constant as the engine compares it with values of a field; `None`: it cannot.
fn number(field: &str, value: &ScalarValue, table: &Table, is_least: bool) -> Option<Number> {
    let (_, record) = table.open.stream.schema().record(&table.record)?;
    let FieldType::Scalar(scalar) = record.fields.iter().find(|other| other.name == field)?.ty else {
        return None;
    };
    match (scalar, value) {
        (Scalar::Decimal64, ScalarValue::Float64(Some(float))) if float.is_finite() => {
            // The double is the nearest to a decimal: a little more is let through.
            let margin = float.abs() * 1e-13;
            let near = if is_least { float - margin } else { float + margin };
            Some(Number::Decimal(Decimal64::from_f64(near)))
        }
        (Scalar::Decimal(scale), ScalarValue::Decimal128(Some(units), _, of))
            if i32::from(*of) == i32::from(scale) =>
        {
            Some(Number::Int(i64::try_from(*units).ok()?))
        }
        (Scalar::F32, ScalarValue::Float32(Some(float))) => floating(f64::from(*float), is_least),
        (Scalar::F64, ScalarValue::Float64(Some(float))) => floating(*float, is_least),
        (Scalar::Timestamp, value) => nanoseconds(value).map(Number::Int),
        (
            Scalar::I8
            | Scalar::U8
            | Scalar::I16
            | Scalar::U16
            | Scalar::I32
            | Scalar::U32
            | Scalar::I64
            | Scalar::U64,
            value,
        ) => integer(value),
        _ => None,
    }
}

/// A floating-point bound: both zeros are equal.
fn floating(float: f64, is_least: bool) -> Option<Number> {
    match float {
        float if float.is_nan() => None,
        0.0 => Some(Number::Float(if is_least { -0.0 } else { 0.0 })),
        float => Some(Number::Float(float)),
    }
}

fn integer(value: &ScalarValue) -> Option<Number> {
    Some(match value {
        ScalarValue::Int8(value) => Number::Int((*value)?.into()),
        ScalarValue::Int16(value) => Number::Int((*value)?.into()),
        ScalarValue::Int32(value) => Number::Int((*value)?.into()),
        ScalarValue::Int64(value) => Number::Int((*value)?),
        ScalarValue::UInt8(value) => Number::Int((*value)?.into()),
        ScalarValue::UInt16(value) => Number::Int((*value)?.into()),
        ScalarValue::UInt32(value) => Number::Int((*value)?.into()),
        ScalarValue::UInt64(value) => Number::Unsigned((*value)?),
        _ => return None,
    })
}
