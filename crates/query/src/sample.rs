//! `SAMPLE BY 1m`, as QuestDB has it: groups by a bucket of time and by all columns of the `SELECT` that are no aggregates.
//!
//! ```text
//! SELECT time, symbol, last(price) FROM trades WHERE … SAMPLE BY 1m [TIME ZONE 'Europe/Paris']
//! ```
//!
//! The tokens become a `GROUP BY` of a function that does not exist, and that becomes the groups when the `SELECT` is parsed.

use crate::asof::syntax::{next, word_at};
use datafusion::common::HashSet;
use datafusion::error::{DataFusionError, Result};
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Ident, ObjectName, Select,
    SelectItem, Statement, Visit, VisitMut, Visitor, VisitorMut,
};
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use std::ops::ControlFlow;

/// The function that stands for it.
const MARKER: &str = "__sample_by";

/// How it is written.
const HELP: &str = "write for example SELECT time, symbol, sum(size) FROM trades SAMPLE BY 1m";

/// Replaces each `SAMPLE BY` of a text.
///
/// # Errors
/// When it has no width.
pub(crate) fn replace(tokens: &mut Vec<TokenWithSpan>) -> Result<(), ParserError> {
    let mut at = 0;
    while at < tokens.len() {
        let by = next(tokens, at);
        if word_at(tokens, at) != "SAMPLE" || word_at(tokens, by) != "BY" {
            at += 1;
            continue;
        }
        let refused = || ParserError::ParserError(format!("SAMPLE BY has a width; {HELP}"));
        let first = next(tokens, by);
        let (width, mut last) = match tokens.get(first).map(|token| &token.token) {
            Some(Token::SingleQuotedString(text)) => (text.clone(), first),
            // The unit follows the number at once.
            Some(Token::Number(number, _)) => match tokens.get(first + 1).map(|token| &token.token) {
                Some(Token::Word(unit)) => (format!("{number}{}", unit.value), first + 1),
                _ => return Err(refused()),
            },
            _ => return Err(refused()),
        };
        let mut args = vec![Token::SingleQuotedString(width)];
        let time = next(tokens, last);
        let zone_word = next(tokens, time);
        if word_at(tokens, time) == "TIME" && word_at(tokens, zone_word) == "ZONE" {
            let zone = next(tokens, zone_word);
            let Some(Token::SingleQuotedString(name)) = tokens.get(zone).map(|token| &token.token) else {
                return Err(ParserError::ParserError("TIME ZONE has a name, such as 'Europe/Paris'".into()));
            };
            args.extend([Token::Comma, Token::SingleQuotedString(name.clone())]);
            last = zone;
        }
        let span = tokens[at].span;
        let group = [
            Token::make_keyword("GROUP"),
            Token::make_keyword("BY"),
            Token::make_word(MARKER, None),
            Token::LParen,
        ]
        .into_iter()
        .chain(args)
        .chain([Token::RParen]);
        let group: Vec<TokenWithSpan> = group.map(|token| TokenWithSpan { token, span }).collect();
        let count = group.len();
        tokens.splice(at..=last, group);
        at += count;
    }
    Ok(())
}

/// Makes groups of what [`replace`] has left in a statement.
///
/// # Errors
/// When a `SELECT` with it selects `*`.
pub(crate) fn expand(statement: &mut Statement, aggregates: &HashSet<String>) -> Result<()> {
    match VisitMut::visit(statement, &mut Expander { aggregates }) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

struct Expander<'a> {
    aggregates: &'a HashSet<String>,
}

impl VisitorMut for Expander<'_> {
    type Break = DataFusionError;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<DataFusionError> {
        match self.expand(select) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

impl Expander<'_> {
    fn expand(&self, select: &mut Select) -> Result<()> {
        let GroupByExpr::Expressions(groups, _) = &mut select.group_by else { return Ok(()) };
        let [Expr::Function(marker)] = &groups[..] else { return Ok(()) };
        if marker.name.to_string() != MARKER {
            return Ok(());
        }
        let refused = |what: &str| Err(DataFusionError::Plan(format!("{what}; {HELP}")));
        let mut bucket = marker.clone();
        let FunctionArguments::List(list) = &mut bucket.args else { return Ok(()) };
        // The column as the query names it, so that it is found among several tables.
        let time = select.projection.iter().find_map(|item| match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } if is_time(expr) => {
                Some(expr.clone())
            }
            _ => None,
        });
        let time = time.unwrap_or_else(|| Expr::Identifier(Ident::new("time")));
        list.args.insert(1, FunctionArg::Unnamed(FunctionArgExpr::Expr(time)));
        bucket.name = ObjectName::from(vec![Ident::new("time_bucket")]);
        let bucket = Expr::Function(bucket);
        let mut by = vec![bucket.clone()];
        for item in &mut select.projection {
            let expr = match item {
                SelectItem::UnnamedExpr(expr) if is_time(expr) => {
                    *item = SelectItem::ExprWithAlias { expr: bucket.clone(), alias: Ident::new("time") };
                    continue;
                }
                SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => expr,
                _ => return refused("SAMPLE BY has names of columns, not *"),
            };
            if is_time(expr) {
                *expr = bucket.clone();
            } else if !self.has_aggregate(expr) {
                by.push(expr.clone());
            }
        }
        *groups = by;
        Ok(())
    }

    fn has_aggregate(&self, expr: &Expr) -> bool {
        struct Finder<'a>(&'a HashSet<String>);
        impl Visitor for Finder<'_> {
            type Break = ();
            fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
                match expr {
                    Expr::Function(Function { name, over: None, .. })
                        if self.0.contains(&name.to_string().to_lowercase()) =>
                    {
                        ControlFlow::Break(())
                    }
                    _ => ControlFlow::Continue(()),
                }
            }
        }
        Visit::visit(expr, &mut Finder(self.aggregates)).is_break()
    }
}

/// Whether an expression is the column `time`, of whatever table.
fn is_time(expr: &Expr) -> bool {
    let last = match expr {
        Expr::Identifier(ident) => Some(ident),
        Expr::CompoundIdentifier(parts) => parts.last(),
        _ => None,
    };
    last.is_some_and(|ident| ident.value.eq_ignore_ascii_case("time"))
}
