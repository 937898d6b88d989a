//! Aggregates of a query with a window join: each becomes a column of the join, which computes it.

use super::syntax::{PREVAILING, WINDOW};
use datafusion::common::HashSet;
use datafusion::error::{DataFusionError, Result};
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Ident, JoinOperator,
    OrderByKind, Query, Select, SelectItem, SetExpr, Statement, TableWithJoins, VisitMut, VisitorMut,
};
use std::ops::ControlFlow;

/// The column of the aggregate of a number.
pub(super) fn column(number: usize) -> String {
    format!("__window_{number}")
}

/// Puts the aggregates of a statement's queries into their window joins. `aggregates` are the names of aggregate functions.
///
/// # Errors
/// When a query with a window join groups rows, or has several window joins.
pub(crate) fn move_aggregates(statement: &mut Statement, aggregates: &HashSet<String>) -> Result<()> {
    match VisitMut::visit(statement, &mut Mover { aggregates }) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Mover<'a> {
    aggregates: &'a HashSet<String>,
}

impl VisitorMut for Mover<'_> {
    type Break = DataFusionError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<DataFusionError> {
        let order_by = query.order_by.as_mut();
        let SetExpr::Select(select) = &mut *query.body else { return ControlFlow::Continue(()) };
        if joins(select) == 0 {
            return ControlFlow::Continue(());
        }
        if let Err(error) = check(select) {
            return ControlFlow::Break(error);
        }
        let mut found = Found { aggregates: self.aggregates, calls: Vec::new() };
        for item in &mut select.projection {
            match item {
                SelectItem::UnnamedExpr(expr) => {
                    let text = expr.to_string();
                    if found.replace(expr) {
                        let alias = Ident::with_quote('"', text);
                        *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
                    }
                }
                SelectItem::ExprWithAlias { expr, .. } => {
                    found.replace(expr);
                }
                _ => {}
            }
        }
        if let Some(OrderByKind::Expressions(exprs)) = order_by.map(|order_by| &mut order_by.kind) {
            exprs.iter_mut().for_each(|by| {
                found.replace(&mut by.expr);
            });
        }
        let calls = std::mem::take(&mut found.calls);
        for condition in conditions(&mut select.from) {
            if let FunctionArguments::List(list) = &mut condition.args {
                let args =
                    calls.iter().cloned().map(|call| FunctionArg::Unnamed(FunctionArgExpr::Expr(call)));
                list.args.extend(args);
            }
        }
        ControlFlow::Continue(())
    }
}

fn check(select: &mut Select) -> Result<()> {
    let is_grouped = !matches!(&select.group_by, GroupByExpr::Expressions(by, _) if by.is_empty());
    let what = if joins(select) > 1 {
        "a SELECT has one WINDOW JOIN; put the other one into a subquery"
    } else if is_grouped || select.having.is_some() {
        "the aggregates of a SELECT with WINDOW JOIN are those of its windows; put it into a subquery to group its rows"
    } else {
        return Ok(());
    };
    Err(DataFusionError::Plan(what.into()))
}

fn joins(select: &mut Select) -> usize {
    conditions(&mut select.from).count()
}

/// The conditions of window joins of a FROM.
fn conditions(from: &mut [TableWithJoins]) -> impl Iterator<Item = &mut Function> {
    let joins = from.iter_mut().flat_map(|tables| &mut tables.joins);
    joins.filter_map(|join| match &mut join.join_operator {
        JoinOperator::AsOf { match_condition: Expr::Function(function), .. } => {
            let name = function.name.to_string();
            [WINDOW, PREVAILING].contains(&&*name).then_some(function)
        }
        _ => None,
    })
}

/// Calls of aggregates that have been replaced by columns.
struct Found<'a> {
    aggregates: &'a HashSet<String>,
    calls: Vec<Expr>,
}

impl Found<'_> {
    /// Replaces the calls in an expression; whether there were any.
    fn replace(&mut self, expr: &mut Expr) -> bool {
        let before = self.calls.len();
        let mut any = false;
        let _ = VisitMut::visit(expr, &mut Replacer { found: self, any: &mut any, depth: 0 });
        any || self.calls.len() > before
    }
}

struct Replacer<'a, 'b> {
    found: &'a mut Found<'b>,
    any: &'a mut bool,
    /// Subqueries that are being visited: their aggregates are their own.
    depth: usize,
}

impl VisitorMut for Replacer<'_, '_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        if self.depth > 0 {
            return ControlFlow::Continue(());
        }
        let is_aggregate = self.found.aggregates.contains(&function.name.to_string().to_lowercase());
        if !is_aggregate || function.over.is_some() {
            return ControlFlow::Continue(());
        }
        let known = self.found.calls.iter().position(|call| call == expr);
        let number = known.unwrap_or_else(|| {
            self.found.calls.push(expr.clone());
            self.found.calls.len() - 1
        });
        *expr = Expr::Identifier(Ident::with_quote('"', column(number)));
        *self.any = true;
        ControlFlow::Continue(())
    }
}
