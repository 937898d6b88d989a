//! Expressions as the SQL that another server computes them from. What it might compute otherwise is not written.

use datafusion::arrow::datatypes::{DataType, IntervalMonthDayNano};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::{InList, ScalarFunction};
use datafusion::logical_expr::{Between, BinaryExpr, Case, Cast, Expr, Like, Operator, Volatility};

/// A name in quotes.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text in quotes.
fn text(value: &str) -> String {
    format!("'{}'", value.replace('\'', "''"))
}

/// Expressions within each other that are written: a parser descends into parentheses, and not as deeply as it likes.
const DEPTH_MAX: usize = 16;

/// An expression of columns of one table; `None`: it has no text.
pub(crate) fn sql(expr: &Expr) -> Option<String> {
    written(expr, 0)
}

fn written(expr: &Expr, depth: usize) -> Option<String> {
    if depth > DEPTH_MAX {
        return None;
    }
    let sql = |expr: &Expr| written(expr, depth + 1);
    Some(match expr {
        Expr::Column(column) => quoted(&column.name),
        Expr::Alias(alias) => sql(&alias.expr)?,
        Expr::Literal(value, _) => literal(value)?,
        Expr::BinaryExpr(BinaryExpr { op, .. }) => {
            let mut parts = Vec::new();
            in_a_row(expr, *op, &mut parts);
            let parts: Vec<String> = parts.into_iter().map(sql).collect::<Option<_>>()?;
            format!("({})", parts.join(&format!(" {} ", operator(*op)?)))
        }
        Expr::Not(inner) => format!("(NOT {})", sql(inner)?),
        Expr::IsNull(inner) => format!("({} IS NULL)", sql(inner)?),
        Expr::IsNotNull(inner) => format!("({} IS NOT NULL)", sql(inner)?),
        Expr::IsTrue(inner) => format!("({} IS TRUE)", sql(inner)?),
        Expr::IsFalse(inner) => format!("({} IS FALSE)", sql(inner)?),
        Expr::IsNotTrue(inner) => format!("({} IS NOT TRUE)", sql(inner)?),
        Expr::IsNotFalse(inner) => format!("({} IS NOT FALSE)", sql(inner)?),
        Expr::Between(Between { expr, negated, low, high }) => {
            format!("({}{} BETWEEN {} AND {})", sql(expr)?, not(*negated), sql(low)?, sql(high)?)
        }
        Expr::InList(InList { expr, list, negated }) => {
            let list: Vec<String> = list.iter().map(sql).collect::<Option<_>>()?;
            format!("({}{} IN ({}))", sql(expr)?, not(*negated), list.join(", "))
        }
        Expr::Like(Like { negated, expr, pattern, escape_char: None, case_insensitive }) => {
            let word = if *case_insensitive { "ILIKE" } else { "LIKE" };
            format!("({}{} {word} {})", sql(expr)?, not(*negated), sql(pattern)?)
        }
        Expr::Case(case) => cases(case, &sql)?,
        Expr::Cast(Cast { expr, field }) => cast(&sql(expr)?, field.data_type())?,
        Expr::ScalarFunction(call) => function(call, &sql)?,
        _ => return None,
    })
}

/// The operands of an operator in a row, which is read from the left.
fn in_a_row<'e>(mut expr: &'e Expr, op: Operator, parts: &mut Vec<&'e Expr>) {
    let may_be_more =
        matches!(op, Operator::And | Operator::Or | Operator::Plus | Operator::Minus | Operator::Multiply);
    let mut rest = Vec::new();
    while let Expr::BinaryExpr(BinaryExpr { left, op: found, right }) = expr
        && *found == op
        && (may_be_more || rest.is_empty())
    {
        rest.push(&**right);
        expr = left;
    }
    parts.push(expr);
    parts.extend(rest.into_iter().rev());
}

fn not(negated: bool) -> &'static str {
    if negated { " NOT" } else { "" }
}

fn operator(op: Operator) -> Option<&'static str> {
    Some(match op {
        Operator::Eq => "=",
        Operator::NotEq => "<>",
        Operator::Lt => "<",
        Operator::LtEq => "<=",
        Operator::Gt => ">",
        Operator::GtEq => ">=",
        Operator::Plus => "+",
        Operator::Minus => "-",
        Operator::Multiply => "*",
        Operator::Divide => "/",
        Operator::Modulo => "%",
        Operator::And => "AND",
        Operator::Or => "OR",
        Operator::StringConcat => "||",
        _ => return None,
    })
}

fn cases(case: &Case, sql: &dyn Fn(&Expr) -> Option<String>) -> Option<String> {
    let mut text = String::from("CASE");
    if let Some(of) = &case.expr {
        text.push_str(&format!(" {}", sql(of)?));
    }
    for (when, then) in &case.when_then_expr {
        text.push_str(&format!(" WHEN {} THEN {}", sql(when)?, sql(then)?));
    }
    if let Some(other) = &case.else_expr {
        text.push_str(&format!(" ELSE {}", sql(other)?));
    }
    Some(format!("({text} END)"))
}

fn function(call: &ScalarFunction, sql: &dyn Fn(&Expr) -> Option<String>) -> Option<String> {
    if call.func.signature().volatility != Volatility::Immutable {
        return None;
    }
    let arguments: Vec<String> = call.args.iter().map(sql).collect::<Option<_>>()?;
    let checked = match call.func.name() {
        "checked_add" => Some("+"),
        "checked_sub" => Some("-"),
        "checked_mul" => Some("*"),
        _ => None,
    };
    match (checked, &arguments[..]) {
        (Some(op), [left, right]) => Some(format!("({left} {op} {right})")),
        (Some(_), _) => None,
        // Functions of nested values have syntax of their own.
        (None, _) if !has_plain_types(call) => None,
        (None, _) => Some(format!("{}({})", quoted(call.func.name()), arguments.join(", "))),
    }
}

/// Whether a function is one of those that are called by their name, with plain values.
fn has_plain_types(call: &ScalarFunction) -> bool {
    const KNOWN: [&str; 36] = [
        "abs",
        "arrow_cast",
        "btrim",
        "ceil",
        "character_length",
        "coalesce",
        "concat",
        "date_bin",
        "date_part",
        "date_trunc",
        "decimal",
        "ends_with",
        "exp",
        "floor",
        "greatest",
        "least",
        "left",
        "ln",
        "log",
        "log10",
        "log2",
        "lower",
        "lpad",
        "nullif",
        "power",
        "replace",
        "reverse",
        "right",
        "round",
        "signum",
        "sqrt",
        "starts_with",
        "strpos",
        "substr",
        "time_bucket",
        "upper",
    ];
    KNOWN.contains(&call.func.name())
}

fn cast(text: &str, ty: &DataType) -> Option<String> {
    is_plain(ty).then(|| format!("arrow_cast({text}, {})", self::text(&ty.to_string())))
}

/// Whether the name of a type is understood.
fn is_plain(ty: &DataType) -> bool {
    ty.is_numeric()
        || matches!(
            ty,
            DataType::Boolean
                | DataType::Utf8
                | DataType::LargeUtf8
                | DataType::Utf8View
                | DataType::Timestamp(..)
        )
}

/// A constant, of the same type there.
fn literal(value: &ScalarValue) -> Option<String> {
    let ty = value.data_type();
    if value.is_null() {
        return match ty {
            DataType::Null => Some("NULL".into()),
            ty => cast("NULL", &ty),
        };
    }
    let of_text = |value: String| cast(&text(&value), &ty);
    match value {
        ScalarValue::Boolean(Some(value)) => Some(value.to_string()),
        ScalarValue::Utf8(Some(value)) => Some(text(value)),
        ScalarValue::Utf8View(Some(value)) | ScalarValue::LargeUtf8(Some(value)) => of_text(value.clone()),
        ScalarValue::Int64(Some(value)) if *value >= 0 => Some(value.to_string()),
        ScalarValue::Int8(_)
        | ScalarValue::Int16(_)
        | ScalarValue::Int32(_)
        | ScalarValue::Int64(_)
        | ScalarValue::UInt8(_)
        | ScalarValue::UInt16(_)
        | ScalarValue::UInt32(_)
        | ScalarValue::UInt64(_) => of_text(value.to_string()),
        // The shortest text that is read as the same number.
        ScalarValue::Float64(Some(value)) if value.is_finite() => of_text(format!("{value:?}")),
        ScalarValue::Float32(Some(value)) if value.is_finite() => of_text(format!("{value:?}")),
        ScalarValue::Decimal128(Some(units), _, scale) => of_text(decimal(*units, *scale)?),
        ScalarValue::TimestampNanosecond(Some(time), _)
        | ScalarValue::TimestampMicrosecond(Some(time), _)
        | ScalarValue::TimestampMillisecond(Some(time), _)
        | ScalarValue::TimestampSecond(Some(time), _) => {
            cast(&cast(&text(&time.to_string()), &DataType::Int64)?, &ty)
        }
        ScalarValue::IntervalMonthDayNano(Some(interval)) => {
            let IntervalMonthDayNano { months, days, nanoseconds } = interval;
            Some(format!("INTERVAL '{months} months {days} days {nanoseconds} nanoseconds'"))
        }
        _ => None,
    }
}

/// The digits of a decimal.
fn decimal(units: i128, scale: i8) -> Option<String> {
    let digits = usize::try_from(scale).ok()?;
    let sign = if units < 0 { "-" } else { "" };
    let text = format!("{:0width$}", units.unsigned_abs(), width = digits + 1);
    let (whole, part) = text.split_at(text.len() - digits);
    Some(if part.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{part}") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::logical_expr::{col, lit};

    #[test]
    fn expressions_have_texts() {
        let of = |expr: Expr| sql(&expr).unwrap();
        assert_eq!(
            of(col("a").gt(lit(5i64)).and(col("b").eq(lit("it's")))),
            "((\"a\" > 5) AND (\"b\" = 'it''s'))"
        );
        assert_eq!(of(lit(-1i64)), "arrow_cast('-1', 'Int64')");
        assert_eq!(of(lit(0.1f64)), "arrow_cast('0.1', 'Float64')");
        assert_eq!(of(lit(u64::MAX)), "arrow_cast('18446744073709551615', 'UInt64')");
        assert_eq!(sql(&lit(f64::NAN)), None);
        assert_eq!(decimal(-5, 2).unwrap(), "-0.05");
        assert_eq!(decimal(12_345, 2).unwrap(), "123.45");
        assert_eq!(decimal(7, 0).unwrap(), "7");
        assert_eq!(decimal(7, -1), None);
        let many = (0..100i64).map(|n| col("a").eq(lit(n))).reduce(Expr::or).unwrap();
        assert!(of(many).starts_with("((\"a\" = 0) OR (\"a\" = 1) OR "));
        assert_eq!(of(col("a") - (col("b") - col("c")) - col("d")), "(\"a\" - (\"b\" - \"c\") - \"d\")");
        let deep = (0..100).fold(col("a").eq(lit(1i64)), |inner, _| Expr::Not(Box::new(inner)));
        assert_eq!(sql(&deep), None);
        let time = ScalarValue::TimestampNanosecond(Some(5), Some("UTC".into()));
        assert_eq!(of(lit(time)), "arrow_cast(arrow_cast('5', 'Int64'), 'Timestamp(ns, \"UTC\")')");
    }
}
