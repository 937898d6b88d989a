//! `time_ns`: the nanoseconds of a table's `time` as a number, for clients whose times have microseconds.

use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, Ident, Select, SelectItem, Statement as Ast, VisitMut, VisitorMut,
};
use std::ops::ControlFlow;

/// The name.
const NAME: &str = "time_ns";

/// Replaces the name by what it stands for, in a statement whose tables have no column of that name.
pub(crate) fn expand(ast: &mut Ast) {
    let _ = VisitMut::visit(ast, &mut Expand);
}

struct Expand;

impl VisitorMut for Expand {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) = item
                && let Some(cast) = cast(expr)
            {
                *item = SelectItem::ExprWithAlias { expr: cast, alias: Ident::new(NAME) };
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(cast) = cast(expr) {
            *expr = cast;
        }
        ControlFlow::Continue(())
    }
}

/// The time that an expression names, as a number.
fn cast(expr: &Expr) -> Option<Expr> {
    let time = |ident: &Ident| {
        ident.value.eq_ignore_ascii_case(NAME).then(|| Ident { value: "time".into(), ..ident.clone() })
    };
    let named = match expr {
        Expr::Identifier(ident) => Expr::Identifier(time(ident)?),
        Expr::CompoundIdentifier(parts) => {
            let (last, before) = parts.split_last()?;
            Expr::CompoundIdentifier(before.iter().cloned().chain([time(last)?]).collect())
        }
        _ => return None,
    };
    Some(Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(named),
        data_type: DataType::BigInt(None),
        array: false,
        format: None,
    })
}
