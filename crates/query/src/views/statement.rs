//! Statements about views, which the parser of queries does not have.

use crate::error::Error;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};

/// A statement about views.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Statement {
    /// `CREATE VIEW name LIVE AS query`
    Create { name: String, query: String },
    /// `DROP VIEW [IF EXISTS] name`
    Drop { name: String, if_exists: bool },
    /// `SHOW VIEWS`
    Show,
}

/// The statement of a text; `None`: it is a query, or anything else.
///
/// # Errors
/// When it is about views and is not complete.
pub(super) fn parse(text: &str) -> Result<Option<Statement>, Error> {
    let Ok(mut tokens) = Tokenizer::new(&GenericDialect {}, text).tokenize_with_location() else {
        // The parser of queries says why.
        return Ok(None);
    };
    tokens.retain(|token| !matches!(token.token, Token::Whitespace(_)));
    while tokens.last().is_some_and(|token| token.token == Token::SemiColon) {
        tokens.pop();
    }
    let words: Vec<String> = tokens.iter().take(6).map(keyword).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let wrong = |what: &str| Err(Error::query(what));
    match words[..] {
        ["SHOW", "VIEWS"] => Ok(Some(Statement::Show)),
        ["DROP", "VIEW", "IF", "EXISTS", _] => {
            Ok(Some(Statement::Drop { name: name_of(&tokens[4])?, if_exists: true }))
        }
        ["DROP", "VIEW", _] => Ok(Some(Statement::Drop { name: name_of(&tokens[2])?, if_exists: false })),
        ["DROP", "VIEW", ..] => wrong("write DROP VIEW name, or DROP VIEW IF EXISTS name"),
        ["CREATE", "VIEW", _, "LIVE", "AS", _] => {
            let start = offset_of(text, tokens[5].span.start);
            let query = text[start..].trim_end().trim_end_matches(';').trim_end().to_string();
            Ok(Some(Statement::Create { name: name_of(&tokens[2])?, query }))
        }
        ["CREATE", "VIEW", ..]
        | ["CREATE", "MATERIALIZED", "VIEW", ..]
        | ["CREATE", "OR", "REPLACE", "VIEW", ..] => {
            wrong("write CREATE VIEW name LIVE AS SELECT …; there are no other views")
        }
        _ => Ok(None),
    }
}

/// A word without quotes in capitals; of another token nothing.
fn keyword(token: &TokenWithSpan) -> String {
    match &token.token {
        Token::Word(word) if word.quote_style.is_none() => word.value.to_uppercase(),
        _ => String::new(),
    }
}

fn name_of(token: &TokenWithSpan) -> Result<String, Error> {
    match &token.token {
        Token::Word(word) => Ok(word.value.clone()),
        other => Err(Error::query(format!("{other} is no name of a view; put it into double quotes"))),
    }
}

/// Where a place of the tokenizer, counted in lines and characters from 1, is in the text.
fn offset_of(text: &str, at: Location) -> usize {
    let lines = text.split_inclusive('\n').take(at.line.saturating_sub(1) as usize);
    let start: usize = lines.map(str::len).sum();
    let rest = text[start..].char_indices().nth(at.column.saturating_sub(1) as usize);
    start + rest.map_or(text.len() - start, |(offset, _)| offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_found_and_queries_are_not() {
        let query = "SELECT 'é;' AS \"x\" FROM bars\n  WHERE n > 1";
        for (text, wanted) in [
            ("show views;", Some(Statement::Show)),
            ("DROP VIEW bars_1m", Some(Statement::Drop { name: "bars_1m".into(), if_exists: false })),
            ("drop view if exists \"A b\" ;", Some(Statement::Drop { name: "A b".into(), if_exists: true })),
            ("SELECT 1", None),
            ("SHOW TABLES", None),
            ("SELECT 'CREATE VIEW'", None),
            ("\"CREATE\" VIEW x", None),
        ] {
            assert_eq!(parse(text).unwrap(), wanted, "{text}");
        }
        for text in [
            format!("CREATE VIEW \"v\" LIVE AS {query};"),
            format!("create view -- é\n v  /* ü */ live\n as\n{query} ; "),
        ] {
            let wanted = Statement::Create { name: "v".into(), query: query.into() };
            assert_eq!(parse(&text).unwrap(), Some(wanted), "{text}");
        }
        for text in [
            "CREATE VIEW v AS SELECT 1",
            "CREATE OR REPLACE VIEW v LIVE AS SELECT 1",
            "DROP VIEW",
            "DROP VIEW a, b",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
