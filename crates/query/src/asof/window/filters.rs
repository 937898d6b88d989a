//! Which part of a condition on the left side of a window join limits its right side too.

use super::node::{Around, Window};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};

/// What a comparison of the left side's time with a constant says about the times of the right side.
pub(in crate::asof) fn for_right(join: &Around, op: Operator, constant: &Expr) -> Option<Expr> {
    let Window { from, to, prevailing } = join.window;
    let by = match op {
        // The last row before a window may be anywhere before it.
        Operator::Gt | Operator::GtEq if !prevailing => from,
        Operator::Lt | Operator::LtEq => to,
        _ => return None,
    };
    let Expr::Literal(ScalarValue::TimestampNanosecond(Some(time), zone), metadata) = constant else {
        return None;
    };
    let moved = ScalarValue::TimestampNanosecond(Some(time.saturating_add(by)), zone.clone());
    let moved = Box::new(Expr::Literal(moved, metadata.clone()));
    Some(Expr::BinaryExpr(BinaryExpr::new(Box::new(join.pair.times.1.clone()), op, moved)))
}
