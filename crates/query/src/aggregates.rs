//! Aggregate functions that replace DataFusion's or add to them.

mod by_time;
mod distinct;
mod ema;
mod extreme;
mod fold;
mod function;
mod keys;
mod ohlcv;
mod parts;
mod pick;
mod runs;
mod states;
mod sum;
mod total;
mod twap;
mod vwap;
mod window;

pub(crate) use by_time::UseTimes;
pub(crate) use distinct::RefuseDistinct;
pub(crate) use function::needs_order;
pub(crate) use runs::{RunStates, Runs};
pub(crate) use states::{of_ranges, states};

use datafusion::logical_expr::AggregateUDF;

/// All of them.
pub(crate) fn all() -> Vec<AggregateUDF> {
    let own = function::all().map(AggregateUDF::new_from_shared_impl);
    let (sum, min, max) = sum_min_max();
    own.chain([sum, min, max]).collect()
}

/// `sum`, `min` and `max`, which replace DataFusion's.
pub(crate) fn sum_min_max() -> (AggregateUDF, AggregateUDF, AggregateUDF) {
    (
        AggregateUDF::new_from_impl(sum::CheckedSum::default()),
        AggregateUDF::new_from_impl(extreme::Extreme::min()),
        AggregateUDF::new_from_impl(extreme::Extreme::max()),
    )
}
