//! Buckets of time: [`width`] reads how wide they are, [`grid`] finds where they begin, also in a time zone, and [`time_bucket`] is the
//! function of SQL.

mod civil;
pub(crate) mod grid;
pub(crate) mod time_bucket;
pub(crate) mod width;

use datafusion::logical_expr::ScalarUDF;

/// The functions.
pub(crate) fn functions() -> Vec<ScalarUDF> {
    vec![ScalarUDF::new_from_impl(time_bucket::TimeBucket::default())]
}
