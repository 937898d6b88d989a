//! The cold tier: segments are compressed once more, and measured again.

use super::steps::{rate, rows, size};
use crate::fields::Fields;
use crate::pool::Tally;
use crate::report::Report;
use std::time::{Duration, Instant};
use tapedb_engine::{Stream, StreamOptions};
use tapedb_terminal::Failure;

/// Moves the segments of a stream to the cold tier: `chill.NAME`, `read.NAME.cold` and `size.NAME.cold`.
pub fn measure<T: Fields>(
    stream: &Stream,
    name: &str,
    expected: Tally,
    report: &mut Report,
) -> Result<(), Failure> {
    let started = Instant::now();
    stream.alter(StreamOptions { cold_after: Some(Duration::ZERO), ..stream.options() })?;
    // Waits for maintenance that has already begun, and does the rest.
    stream.seal()?;
    rate(report, &format!("chill.{name}"), expected.messages, started);
    rows::<T>(stream, &format!("read.{name}.cold"), 1, expected, report)?;
    size(stream, &format!("size.{name}.cold"), report)
}
