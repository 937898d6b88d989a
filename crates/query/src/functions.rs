//! The functions that queries have beside those of DataFusion.

use crate::error::{Error, Reason};
use crate::{aggregates, decimal, gapfill, time};
use datafusion::logical_expr::ScalarUDF;
use datafusion::prelude::SessionContext;
use datafusion::sql::sqlparser::ast::{ShowStatementFilter, Statement, Value};

/// Adds them to those of a session.
pub(crate) fn register(context: &SessionContext) {
    time::functions()
        .into_iter()
        .chain(gapfill::functions())
        .for_each(|function| context.register_udf(function));
    context.register_udf(ScalarUDF::new_from_impl(decimal::Exact::default()));
    aggregates::all().into_iter().for_each(|function| context.register_udaf(function));
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
