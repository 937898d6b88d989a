//! The functions that queries have beside those of DataFusion.

use crate::asof::syntax::{next, word_at};
use crate::error::{Error, Reason};
use crate::{aggregates, bounded, decimal, gapfill, l2price, time};
use datafusion::logical_expr::ScalarUDF;
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::ast::{ShowStatementFilter, Statement, Value};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Adds them to those of a session.
pub(crate) fn register(context: &SessionContext) {
    time::functions()
        .into_iter()
        .chain(gapfill::functions())
        .for_each(|function| context.register_udf(function));
    context.register_udf(ScalarUDF::new_from_impl(decimal::Exact::default()));
    context.register_udf(ScalarUDF::new_from_impl(l2price::L2Price::default()));
    bounded::bound(context);
    aggregates::all().into_iter().for_each(|function| context.register_udaf(function));
}

/// Makes `SHOW FUNCTIONS LIKE 'name'` of `DESCRIBE FUNCTION name`.
pub(crate) fn replace_description(tokens: &mut Vec<TokenWithSpan>) {
    let first = if word_at(tokens, 0).is_empty() { next(tokens, 0) } else { 0 };
    let function = next(tokens, first);
    let name = next(tokens, function);
    let is_one =
        ["DESCRIBE", "DESC"].contains(&&*word_at(tokens, first)) && word_at(tokens, function) == "FUNCTION";
    let Some(TokenWithSpan { token: Token::Word(word), span }) = tokens.get(name).filter(|_| is_one).cloned()
    else {
        return;
    };
    // A name has no other characters that `LIKE` treats as patterns.
    let pattern = word.value.to_lowercase().replace('_', "\\_");
    let words = ["SHOW", "FUNCTIONS", "LIKE"].map(Token::make_keyword).into_iter();
    let words = words.chain([Token::SingleQuotedString(pattern)]);
    tokens.splice(first..=name, words.map(|token| TokenWithSpan { token, span }));
}

/// What `SHOW FUNCTIONS` stands for: DataFusion's own leaves out functions that accept several types.
///
/// # Errors
/// When it has a condition other than `LIKE`.
pub(crate) fn listing(statement: &Statement) -> Result<String, Error> {
    let condition = match statement {
        Statement::ShowFunctions { filter: None } => String::new(),
        Statement::ShowFunctions { filter: Some(ShowStatementFilter::Like(pattern)) } => {
            format!(" WHERE routine_name LIKE {}", Value::SingleQuotedString(pattern.clone()))
        }
        Statement::ShowFunctions { filter: Some(ShowStatementFilter::ILike(pattern)) } => {
            format!(" WHERE routine_name ILIKE {}", Value::SingleQuotedString(pattern.clone()))
        }
        _ => {
            let what = "write SHOW FUNCTIONS or SHOW FUNCTIONS LIKE 'pattern'; information_schema.routines has all about functions";
            return Err(Error::new(Reason::Query, what));
        }
    };
    Ok(format!(
        "SELECT DISTINCT routine_name AS function, function_type AS kind, syntax_example AS syntax, description \
         FROM information_schema.routines{condition} ORDER BY function"
    ))
}
