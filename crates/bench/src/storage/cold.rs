//! The cold tier: what was measured as it was sealed, made smaller, and measured again.

use super::read::{rate, rows, size};
use crate::fields::Fields;
use crate::pool::Tally;
use crate::report::Report;
use std::time::{Duration, Instant};
use tapedb_engine::{Stream, StreamOptions};
use tapedb_terminal::Failure;

/// Chills the segments of a stream: `chill.NAME`, `read.NAME.cold` and `size.NAME.cold`.
pub fn measure<T: Fields>(
    stream: &Stream,
    name: &str,
    expected: Tally,
    report: &mut Report,
) -> Result<(), Failure> {
    let started = Instant::now();
    stream.alter(StreamOptions { cold_after: Some(Duration::ZERO), ..stream.options() })?;
    // Waits for what upkeep has begun by itself meanwhile, and does the rest.
    stream.seal()?;
    rate(report, &format!("chill.{name}"), expected.messages, started);
    rows::<T>(stream, &format!("read.{name}.cold"), 1, expected, report)?;
    size(stream, &format!("size.{name}.cold"), report)
}
