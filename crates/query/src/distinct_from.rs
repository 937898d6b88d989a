//! What `IS [NOT] DISTINCT FROM` compares: the parser takes all that follows, so that `a IS DISTINCT FROM b OR c` would compare `a` with
//! `b OR c`. Here `AND` and `OR` are brought out of it, and out of the operators that bind as it does, as in PostgreSQL and DuckDB.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Statement, UnaryOperator, Value, VisitMut, VisitorMut,
};
use std::mem::replace;
use std::ops::ControlFlow;

/// Brings them out in a statement.
pub(crate) fn bind(statement: &mut Statement) {
    let _ = VisitMut::visit(statement, &mut Binder);
}

struct Binder;

impl VisitorMut for Binder {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        // Without parentheses the parser has these below only where it took them with `IS DISTINCT FROM`.
        match expr {
            Expr::IsDistinctFrom(_, right) | Expr::IsNotDistinctFrom(_, right) if binds_less(right, true) => {
                turn(expr, true);
            }
            Expr::UnaryOp { op: UnaryOperator::Not, expr: inner } if binds_less(inner, true) => {
                turn(expr, true)
            }
            Expr::BinaryOp { op: BinaryOperator::And, right, .. } if binds_less(right, false) => {
                turn(expr, false);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Whether it is an `OR`, or one of `AND` and `OR`.
fn binds_less(expr: &Expr, or_and: bool) -> bool {
    match expr {
        Expr::BinaryOp { op: BinaryOperator::Or, .. } => true,
        Expr::BinaryOp { op: BinaryOperator::And, .. } => or_and,
        _ => false,
    }
}

/// The last operand of an operator.
fn last_of(expr: &mut Expr) -> Option<&mut Expr> {
    match expr {
        Expr::IsDistinctFrom(_, last)
        | Expr::IsNotDistinctFrom(_, last)
        | Expr::UnaryOp { expr: last, .. }
        | Expr::BinaryOp { right: last, .. } => Some(last),
        _ => None,
    }
}

/// Makes the operator, whose last operand is `AND` or `OR`, the first operand of that.
fn turn(expr: &mut Expr, or_and: bool) {
    let nothing = || Expr::Value(Value::Null.into());
    let mut operator = replace(expr, nothing());
    let Some(last) = last_of(&mut operator) else { return };
    *expr = replace(last, nothing());
    let mut first = expr;
    while binds_less(first, or_and) {
        let Expr::BinaryOp { left, .. } = first else { return };
        first = left;
    }
    if let Some(last) = last_of(&mut operator) {
        *last = replace(first, nothing());
    }
    *first = operator;
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    /// The expression with parentheses around all.
    fn bound(text: &str) -> String {
        fn write(expr: &Expr) -> String {
            match expr {
                Expr::Nested(inner) => write(inner),
                Expr::BinaryOp { left, op, right } => format!("({} {op} {})", write(left), write(right)),
                Expr::UnaryOp { op, expr } => format!("({op} {})", write(expr)),
                Expr::IsDistinctFrom(a, b) => format!("({} <> {})", write(a), write(b)),
                Expr::IsNotDistinctFrom(a, b) => format!("({} == {})", write(a), write(b)),
                other => other.to_string(),
            }
        }
        let query = format!("SELECT {text}");
        let mut statement = Parser::parse_sql(&GenericDialect {}, &query).unwrap().remove(0);
        bind(&mut statement);
        let Statement::Query(query) = statement else { panic!() };
        let select = query.body.as_select().unwrap();
        match &select.projection[0] {
            datafusion::sql::sqlparser::ast::SelectItem::UnnamedExpr(expr) => write(expr),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn and_and_or_are_outside() {
        for (text, expected) in [
            ("a IS DISTINCT FROM b OR c", "((a <> b) OR c)"),
            ("a IS NOT DISTINCT FROM b AND c OR d", "(((a == b) AND c) OR d)"),
            ("a IS DISTINCT FROM b OR c AND d", "((a <> b) OR (c AND d))"),
            ("a AND b IS DISTINCT FROM c OR d", "((a AND (b <> c)) OR d)"),
            ("a OR b IS DISTINCT FROM c AND d", "(a OR ((b <> c) AND d))"),
            ("NOT a IS DISTINCT FROM b AND c", "((NOT (a <> b)) AND c)"),
            ("a IS DISTINCT FROM b AND c IS DISTINCT FROM d OR e", "(((a <> b) AND (c <> d)) OR e)"),
            ("a IS DISTINCT FROM b OR c IS NOT DISTINCT FROM d AND e", "((a <> b) OR ((c == d) AND e))"),
            ("a AND NOT b IS DISTINCT FROM c OR d", "((a AND (NOT (b <> c))) OR d)"),
            ("a IS DISTINCT FROM (b OR c)", "(a <> (b OR c))"),
            ("a AND (b OR c)", "(a AND (b OR c))"),
            ("NOT (a AND b)", "(NOT (a AND b))"),
            ("a IS DISTINCT FROM b + 1 OR c", "((a <> (b + 1)) OR c)"),
        ] {
            assert_eq!(bound(text), expected, "{text}");
        }
    }
}
