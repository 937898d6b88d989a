//! Aggregate functions that replace DataFusion's or add to them.

mod by_time;
mod distinct;
mod ema;
mod fold;
mod function;
mod keys;
mod ohlcv;
mod parts;
mod pick;
mod sum;
mod twap;
mod vwap;
mod window;

pub(crate) use by_time::UseTimes;
pub(crate) use distinct::RefuseDistinct;
pub(crate) use function::needs_order;

use datafusion::logical_expr::AggregateUDF;

/// All of them.
pub(crate) fn all() -> Vec<AggregateUDF> {
    let own = function::all().map(AggregateUDF::new_from_shared_impl);
    own.chain([AggregateUDF::new_from_impl(sum::CheckedSum::default())]).collect()
}
