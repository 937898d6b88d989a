//! The messages of a table below given sequence numbers: `as_of('ticks.Trade', 1000)`, and `latest('ticks.Quote', 1000)`.
//!
//! Such a table is the same whenever it is read, but for messages that were deleted. Servers of a cluster are asked for their parts so.

use datafusion::sql::sqlparser::ast::{Expr, FunctionArg, FunctionArgExpr, Value};

/// Name of the function.
pub(crate) const FUNCTION: &str = "as_of";

/// Name of the catalog of such tables.
pub(crate) const CATALOG: &str = "as_of";

/// Name of the catalog of such tables that have only the last message of each symbol.
pub(crate) const LATEST_CATALOG: &str = "latest_as_of";

/// A sequence number.
pub(crate) fn number(argument: &FunctionArg) -> Option<u64> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value))) => match &value.value {
            Value::Number(digits, _) => digits.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

/// Sequence numbers and a stream as the name of a schema.
pub(crate) fn key(ends: &[u64], stream: &str) -> String {
    let ends: Vec<String> = ends.iter().map(u64::to_string).collect();
    format!("{}:{stream}", ends.join(","))
}

/// The sequence numbers and the stream of such a name.
pub(crate) fn parts(key: &str) -> Option<(Vec<u64>, &str)> {
    let (ends, stream) = key.split_once(':')?;
    let ends = ends.split(',').map(|end| end.parse().ok()).collect::<Option<_>>()?;
    Some((ends, stream))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_schemas_have_all_parts() {
        for (ends, stream) in [(vec![5], "ticks"), (vec![0, u64::MAX], "a:b,c"), (vec![7], "8:x")] {
            assert_eq!(parts(&key(&ends, stream)), Some((ends, stream)));
        }
        assert_eq!(parts("ticks"), None);
        assert_eq!(parts("x:ticks"), None);
    }
}
