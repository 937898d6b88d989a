//! The text of window joins and markouts:
//!
//! ```text
//! WINDOW JOIN … MATCH_CONDITION (…) [INCLUDE PREVAILING | EXCLUDE PREVAILING]
//! HORIZON JOIN … MATCH_CONDITION (…) … LIST (…) AS name
//! ```
//!
//! Both become as-of joins, which the parser accepts; what they are is in a function around the condition.

use super::super::syntax::{next, word_at};
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// The function around the condition of a window join; of one with the prevailing row.
pub(in super::super) const WINDOW: &str = "__window_join";
pub(in super::super) const PREVAILING: &str = "__prevailing_window_join";

/// The function around the condition, the name and the list of a markout.
pub(in super::super) const HORIZON: &str = "__horizon_join";

/// How the joins are written.
pub(in super::super) const WINDOW_HELP: &str = "write for example SELECT t.*, max(q.ask) FROM trades t WINDOW JOIN quotes q \
    MATCH_CONDITION (q.time BETWEEN t.time - INTERVAL '1 second' AND t.time) ON t.symbol = q.symbol";
pub(in super::super) const HORIZON_HELP: &str = "write for example FROM trades t HORIZON JOIN quotes q \
    MATCH_CONDITION (t.time >= q.time) ON t.symbol = q.symbol LIST (INTERVAL '0 seconds', INTERVAL '1 second') AS h";

/// Replaces a join that begins at a token, if one does.
///
/// # Errors
/// When a part of it is missing.
pub(in super::super) fn replace(tokens: &mut Vec<TokenWithSpan>, at: usize) -> Result<(), ParserError> {
    if word_at(tokens, next(tokens, at)) != "JOIN" {
        return Ok(());
    }
    match &*word_at(tokens, at) {
        "WINDOW" => window(tokens, at),
        "HORIZON" => horizon(tokens, at),
        _ => Ok(()),
    }
}

fn window(tokens: &mut Vec<TokenWithSpan>, at: usize) -> Result<(), ParserError> {
    let missing = || ParserError::ParserError(format!("a window join has a MATCH_CONDITION; {WINDOW_HELP}"));
    let (open, close) = condition(tokens, at).ok_or_else(missing)?;
    let word = next(tokens, close);
    let mut name = WINDOW;
    if ["INCLUDE", "EXCLUDE"].contains(&&*word_at(tokens, word)) {
        let prevailing = next(tokens, word);
        if word_at(tokens, prevailing) != "PREVAILING" {
            let what = format!("{} PREVAILING is two words", word_at(tokens, word));
            return Err(ParserError::ParserError(what));
        }
        if word_at(tokens, word) == "INCLUDE" {
            name = PREVAILING;
        }
        tokens.drain(word..=prevailing);
    }
    wrap(tokens, (open, close), name, Vec::new());
    tokens[at].token = Token::make_keyword("ASOF");
    Ok(())
}

fn horizon(tokens: &mut Vec<TokenWithSpan>, at: usize) -> Result<(), ParserError> {
    let missing = |what: &str| ParserError::ParserError(format!("a horizon join has {what}; {HORIZON_HELP}"));
    let (open, close) = condition(tokens, at).ok_or_else(|| missing("a MATCH_CONDITION"))?;
    let list = find(tokens, close + 1, "LIST").ok_or_else(|| missing("a LIST of offsets"))?;
    let first = next(tokens, list);
    let last = end_of(tokens, first).ok_or_else(|| missing("a LIST of offsets"))?;
    let as_word = next(tokens, last);
    let name = next(tokens, as_word);
    let alias = match tokens.get(name).map(|token| &token.token) {
        Some(Token::Word(word)) if word_at(tokens, as_word) == "AS" => word.value.clone(),
        _ => return Err(missing("a name after LIST (…): AS h")),
    };
    let offsets: Vec<TokenWithSpan> = tokens[first + 1..last].to_vec();
    tokens.drain(list..=name);
    let mut rest = vec![Token::Comma, Token::SingleQuotedString(alias), Token::Comma];
    rest.extend(offsets.into_iter().map(|token| token.token));
    wrap(tokens, (open, close), HORIZON, rest);
    tokens[at].token = Token::make_keyword("ASOF");
    Ok(())
}

/// Puts a function around what is in parentheses, with more arguments.
fn wrap(tokens: &mut Vec<TokenWithSpan>, (open, close): (usize, usize), name: &str, rest: Vec<Token>) {
    let (before, behind) = (tokens[open].span, tokens[close].span);
    let behind = rest.into_iter().chain([Token::RParen]).map(|token| TokenWithSpan::new(token, behind));
    let behind: Vec<_> = behind.collect();
    tokens.splice(close..close, behind);
    let name = [Token::make_word(name, None), Token::LParen];
    tokens.splice(open + 1..open + 1, name.map(|token| TokenWithSpan::new(token, before)));
}

/// The parentheses of the condition of a join.
fn condition(tokens: &[TokenWithSpan], join: usize) -> Option<(usize, usize)> {
    let open = next(tokens, find(tokens, join, "MATCH_CONDITION")?);
    Some((open, end_of(tokens, open)?))
}

/// The next place of a word outside of parentheses, before the end of the clause.
fn find(tokens: &[TokenWithSpan], from: usize, wanted: &str) -> Option<usize> {
    let mut depth = 0;
    for at in from..tokens.len() {
        match &tokens[at].token {
            Token::LParen => depth += 1,
            Token::RParen if depth == 0 => return None,
            Token::RParen => depth -= 1,
            Token::Word(_) if depth == 0 => match &*word_at(tokens, at) {
                word if word == wanted => return Some(at),
                "WHERE" | "GROUP" | "ORDER" | "LIMIT" | "UNION" => return None,
                _ => {}
            },
            _ => {}
        }
    }
    None
}

/// The end of what a parenthesis begins.
fn end_of(tokens: &[TokenWithSpan], open: usize) -> Option<usize> {
    let mut depth = 0;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen if depth == 1 => return Some(at),
            Token::RParen => depth -= 1,
            _ if depth == 0 => return None,
            _ => {}
        }
    }
    None
}
