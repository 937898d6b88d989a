//! As-of joins in the text of a query: `ASOF JOIN … MATCH_CONDITION (…) ON …`, and `ASOF [LEFT] JOIN … ON …`.
//!
//! The parser has the first form. In the second one `ASOF` becomes `GLOBAL`, a word that the parser accepts before any join and that means
//! nothing else here.

use super::window;
use crate::complexity;
use crate::error::Error;
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::ast::{
    Join, JoinOperator, Select, Statement, TableFactor, TableWithJoins, VisitMut, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};
use std::ops::ControlFlow;

/// The tokens of a text, with joins that the parser accepts.
///
/// # Errors
/// When the text has no tokens of SQL, or too many of them.
pub(crate) fn tokens(text: &str) -> Result<Vec<TokenWithSpan>, Error> {
    let not_sql = |error: ParserError| DataFusionError::SQL(Box::new(error), None);
    let read = Tokenizer::new(&GenericDialect {}, text).tokenize_with_location();
    let mut tokens = read.map_err(|error| not_sql(error.into()))?;
    complexity::check_tokens(&tokens)?;
    replace_all(&mut tokens).map_err(not_sql)?;
    Ok(tokens)
}

fn replace_all(tokens: &mut Vec<TokenWithSpan>) -> Result<(), ParserError> {
    let mut at = 0;
    while at < tokens.len() {
        window::syntax::replace(tokens, at)?;
        if is_word(&tokens[at], "ASOF") {
            replace(tokens, at)?;
        } else if is_word(&tokens[at], "GLOBAL")
            && ["JOIN", "LEFT", "INNER"].contains(&&*word_at(tokens, next(tokens, at)))
        {
            return Err(ParserError::ParserError("there is no GLOBAL JOIN; leave out GLOBAL".into()));
        }
        at += 1;
    }
    Ok(())
}

/// Replaces what the parser does not accept of a join that begins with `ASOF`.
fn replace(tokens: &mut Vec<TokenWithSpan>, asof: usize) -> Result<(), ParserError> {
    let mut at = next(tokens, asof);
    let kind = word_at(tokens, at);
    let first = at;
    let refused = |what: &str| Err(ParserError::ParserError(what.into()));
    let is_other = ["RIGHT", "FULL", "CROSS", "NATURAL", "SEMI", "ANTI"].contains(&&*kind);
    if is_other && ["JOIN", "OUTER", "LEFT", "INNER"].contains(&&*word_at(tokens, next(tokens, at))) {
        return refused(&format!("there is no ASOF {kind} JOIN; there are ASOF JOIN and ASOF LEFT JOIN"));
    }
    if matches!(&*kind, "LEFT" | "INNER") {
        at = next(tokens, at);
        if kind == "LEFT" && word_at(tokens, at) == "OUTER" {
            at = next(tokens, at);
        }
    }
    if word_at(tokens, at) != "JOIN" {
        return Ok(());
    }
    if has_match_condition(tokens, at) {
        // It keeps all rows of the left side anyway.
        match &*kind {
            "LEFT" => drop(tokens.drain(first..at)),
            "INNER" => {
                return refused(
                    "a join with MATCH_CONDITION keeps all rows of its left side; write ASOF JOIN without INNER",
                );
            }
            _ => {}
        }
    } else {
        tokens[asof].token = Token::make_keyword("GLOBAL");
    }
    Ok(())
}

/// Whether a join has a condition of its own for times, before the one of its keys.
fn has_match_condition(tokens: &[TokenWithSpan], join: usize) -> bool {
    let mut depth = 0;
    for token in &tokens[join + 1..] {
        match &token.token {
            Token::LParen => depth += 1,
            Token::RParen if depth == 0 => return false,
            Token::RParen => depth -= 1,
            Token::Word(word) if depth == 0 && word.quote_style.is_none() => {
                match &*word.value.to_uppercase() {
                    "MATCH_CONDITION" => return true,
                    "ON" | "USING" | "WHERE" | "GROUP" | "ORDER" | "LIMIT" | "JOIN" | "UNION" => {
                        return false;
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }
    false
}

fn is_word(token: &TokenWithSpan, wanted: &str) -> bool {
    matches!(&token.token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(wanted))
}

/// The unquoted word there, in capital letters; empty: there is another token.
pub(crate) fn word_at(tokens: &[TokenWithSpan], at: usize) -> String {
    match tokens.get(at).map(|token| &token.token) {
        Some(Token::Word(word)) if word.quote_style.is_none() => word.value.to_uppercase(),
        _ => String::new(),
    }
}

/// The place of the next token that is no space and no comment.
pub(crate) fn next(tokens: &[TokenWithSpan], at: usize) -> usize {
    let rest = tokens.iter().skip(at + 1);
    at + 1 + rest.take_while(|token| matches!(token.token, Token::Whitespace(_))).count()
}

/// Whether a join is an as-of join.
pub(super) fn is_asof(join: &Join) -> bool {
    join.global || matches!(join.join_operator, JoinOperator::AsOf { .. })
}

/// Puts each as-of join of a statement and all that is on its left into parentheses, as what it is planned from.
pub(crate) fn nest_joins(statement: &mut Statement) {
    let _ = VisitMut::visit(statement, &mut Nester);
}

struct Nester;

impl VisitorMut for Nester {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        select.from.iter_mut().for_each(nest);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::NestedJoin { table_with_joins, .. } = factor
            && !matches!(&table_with_joins.joins[..], [only] if is_asof(only))
        {
            nest(table_with_joins);
        }
        ControlFlow::Continue(())
    }
}

fn nest(tables: &mut TableWithJoins) {
    while let Some(at) = tables.joins.iter().position(is_asof) {
        let behind = tables.joins.split_off(at + 1);
        let asof = tables.joins.split_off(at);
        let before = std::mem::replace(&mut tables.joins, behind);
        let nested = |relation: TableFactor, joins: Vec<Join>| TableFactor::NestedJoin {
            table_with_joins: Box::new(TableWithJoins { relation, joins }),
            alias: None,
        };
        let empty = TableFactor::NestedJoin {
            table_with_joins: Box::new(TableWithJoins {
                relation: tables.relation.clone(),
                joins: Vec::new(),
            }),
            alias: None,
        };
        let relation = std::mem::replace(&mut tables.relation, empty);
        let left = if before.is_empty() { relation } else { nested(relation, before) };
        tables.relation = nested(left, asof);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(query: &str) -> String {
        tokens(query).unwrap().iter().map(|token| token.token.to_string()).collect()
    }

    #[test]
    fn both_forms_become_what_the_parser_accepts() {
        let canonical = "SELECT * FROM t ASOF JOIN q MATCH_CONDITION (t.a >= q.a) ON t.b = q.b";
        assert_eq!(text(canonical), canonical);
        assert_eq!(text(&canonical.replace("ASOF JOIN", "ASOF LEFT JOIN")), canonical);
        assert_eq!(
            text(&canonical.replace("ASOF JOIN", "asof left outer join")),
            canonical.replace("ASOF JOIN", "asof join")
        );
        assert_eq!(text("FROM t ASOF JOIN q ON a >= b"), "FROM t GLOBAL JOIN q ON a >= b");
        assert_eq!(text("FROM t asof left join q USING (b, a)"), "FROM t GLOBAL left join q USING (b, a)");
        let two = "FROM t ASOF JOIN (SELECT x FROM q ASOF JOIN r ON 1 > 2) u MATCH_CONDITION (1 > 2)";
        assert_eq!(text(two), two.replace("q ASOF", "q GLOBAL"));
        for other in ["SELECT asof FROM t", "SELECT \"ASOF\" JOIN", "SELECT 'ASOF JOIN'"] {
            assert_eq!(text(other), other);
        }
        assert!(tokens("FROM a GLOBAL JOIN b").is_err());
    }
}
