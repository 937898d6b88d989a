//! Gap filling: groups by `time_bucket_gapfill` have a row for each bucket between the bounds of time, with and without messages.
//!
//! [`rule`] puts a [`node`] on such an aggregate, [`exec`] runs it, and [`series`] finds what the rows without messages hold.

mod exec;
mod markers;
mod node;
mod rule;
mod series;

pub(crate) use exec::GapFillPlanner;
pub(crate) use markers::functions;
pub(crate) use rule::FillGaps;

/// The most rows that gap filling returns.
const ROWS_MAX: usize = 10_000_000;
