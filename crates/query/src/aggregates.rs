//! Aggregate functions that replace DataFusion's or add to them.

mod sum;

use datafusion::logical_expr::AggregateUDF;

/// All of them.
pub(crate) fn all() -> Vec<AggregateUDF> {
    vec![AggregateUDF::new_from_impl(sum::CheckedSum::default())]
}
