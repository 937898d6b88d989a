//! How large a query may be. Planning takes time and memory that grow faster than the query, and it cannot be interrupted.

use crate::error::{Error, Reason};
use datafusion::sql::sqlparser::ast::{Expr, ObjectName, Query, Select, SetExpr, Statement, Visit, Visitor};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use std::collections::HashMap;
use std::ops::ControlFlow;

/// Operators and keywords.
const OPERATORS_MAX: usize = 20_000;
/// Operators in a row: each has the one before it as an operand.
const DEPTH_MAX: usize = 500;
/// Expressions in a `SELECT`.
const ITEMS_MAX: usize = 4_096;
/// Tables joined by one `FROM`.
const JOINED_MAX: usize = 50;
/// Subqueries in expressions, one in the other: planning takes twice as long with each.
const SUBQUERIES_MAX: usize = 8;
/// Subqueries in expressions: each becomes a join.
const EXPRESSIONS_MAX: usize = 50;
/// Tables of the whole query, those of a `WITH` as often as it is used.
const TABLES_MAX: u64 = 1_000;
/// Queries of a `WITH`, which may be tables of each other.
const NAMED_MAX: usize = 50;

fn too_large(what: &str) -> Error {
    Error::new(Reason::Limit, format!("the query is too large: {what}"))
}

/// Refuses texts with which even the parser has trouble.
///
/// # Errors
/// [`Reason::Limit`].
pub(crate) fn check_tokens(tokens: &[TokenWithSpan]) -> Result<(), Error> {
    let is_plain = |token: &Token| match token {
        Token::Word(word) => word.keyword == Keyword::NoKeyword,
        Token::Number(..) | Token::Whitespace(_) | Token::SingleQuotedString(_) | Token::Placeholder(_) => {
            true
        }
        Token::Comma | Token::Period | Token::LParen | Token::RParen => true,
        _ => false,
    };
    let operators = tokens.iter().filter(|token| !is_plain(&token.token)).count();
    if operators > OPERATORS_MAX {
        let what = format!(
            "it has {operators} operators and keywords, where {OPERATORS_MAX} are allowed; use IN for many alternatives"
        );
        return Err(too_large(&what));
    }
    Ok(())
}

/// Refuses statements whose planning might not end.
///
/// # Errors
/// [`Reason::Limit`].
pub(crate) fn check(statement: &Statement) -> Result<(), Error> {
    match statement.visit(&mut Measured::default()) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(what) => Err(too_large(&what)),
    }
}

/// What is measured in a statement.
#[derive(Default)]
struct Measured {
    /// Expressions around the present place.
    depth: usize,
    /// Of the queries around the present place: how deep their expression is, and their tables.
    queries: Vec<(usize, u64)>,
    /// Subqueries in expressions.
    expressions: usize,
    /// Queries of a `WITH`, by their address, and their names.
    named: HashMap<*const Query, String>,
    /// Their tables.
    tables: HashMap<String, u64>,
}

impl Measured {
    fn limit(&self, is_over: bool, what: impl FnOnce() -> String) -> ControlFlow<String> {
        if is_over { ControlFlow::Break(what()) } else { ControlFlow::Continue(()) }
    }
}

impl Visitor for Measured {
    type Break = String;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<String> {
        for table in query.with.iter().flat_map(|with| &with.cte_tables) {
            self.named.insert(&*table.query, table.alias.name.value.clone());
        }
        self.limit(self.named.len() > NAMED_MAX, || format!("WITH has more than {NAMED_MAX} queries"))?;
        if self.depth > 0 {
            self.expressions += 1;
        }
        let within = self.queries.iter().filter(|(depth, _)| *depth > 0).count();
        self.limit(within + usize::from(self.depth > 0) > SUBQUERIES_MAX, || {
            format!("more than {SUBQUERIES_MAX} subqueries of expressions are in each other; join them, or name one with WITH")
        })?;
        self.limit(self.expressions > EXPRESSIONS_MAX, || {
            format!("it has more than {EXPRESSIONS_MAX} subqueries in expressions; join them")
        })?;
        let (mut body, mut sets) = (&*query.body, 0);
        while let SetExpr::SetOperation { left, .. } = body {
            (body, sets) = (left, sets + 1);
        }
        self.limit(sets > DEPTH_MAX, || format!("it combines more than {DEPTH_MAX} queries in a row"))?;
        self.queries.push((std::mem::take(&mut self.depth), 0));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &Query) -> ControlFlow<String> {
        let Some((depth, tables)) = self.queries.pop() else { return ControlFlow::Continue(()) };
        self.depth = depth;
        match self.named.get(&std::ptr::from_ref(query)) {
            Some(name) => {
                self.tables.insert(name.clone(), tables);
            }
            None => {
                if let Some((_, around)) = self.queries.last_mut() {
                    *around = around.saturating_add(tables);
                }
            }
        }
        self.limit(tables > TABLES_MAX, || {
            format!("it has {tables} tables, those of WITH as often as they are used, where {TABLES_MAX} are allowed")
        })
    }

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<String> {
        let tables = match &relation.0[..] {
            [only] => only.as_ident().and_then(|ident| self.tables.get(&ident.value)).copied(),
            _ => None,
        };
        if let Some((_, around)) = self.queries.last_mut() {
            *around = around.saturating_add(tables.unwrap_or(1).max(1));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<String> {
        let items = select.projection.len();
        self.limit(items > ITEMS_MAX, || {
            format!("a SELECT has {items} expressions, where {ITEMS_MAX} are allowed")
        })?;
        let joined: usize = select.from.iter().map(|from| 1 + from.joins.len()).sum();
        self.limit(joined > JOINED_MAX, || {
            format!("a FROM joins {joined} tables, where {JOINED_MAX} are allowed")
        })
    }

    fn pre_visit_expr(&mut self, _: &Expr) -> ControlFlow<String> {
        self.depth += 1;
        self.limit(self.depth > DEPTH_MAX, || {
            format!("more than {DEPTH_MAX} operators are in each other; use IN for many alternatives")
        })
    }

    fn post_visit_expr(&mut self, _: &Expr) -> ControlFlow<String> {
        self.depth = self.depth.saturating_sub(1);
        ControlFlow::Continue(())
    }
}
