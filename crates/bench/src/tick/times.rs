//! Times of updates: percentiles, and waiting for the next update of a schedule.

use crate::worker::now_ns;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::thread;
use std::time::Duration;
use tapedb_terminal::Failure;

/// It sleeps until this long before an update is due, then polls the clock. In virtual machines sleeps end late by more than a
/// hundred microseconds.
const SPIN_NS: u64 = 400_000;
/// Largest time that the histogram can hold, in nanoseconds: a minute.
const NANOS_MAX: u64 = 60_000_000_000;

/// What a subscriber measured.
#[derive(Debug, Serialize, Deserialize)]
pub struct Received {
    /// When it had the last row.
    pub ended_ns: u64,
    /// From the due time of an update.
    pub receive: Percentiles,
}

/// What a feed did.
#[derive(Debug, Serialize, Deserialize)]
pub struct FeedDone {
    /// When it began to send, in nanoseconds since the Unix epoch.
    pub began_ns: u64,
    /// When all rows were acknowledged.
    pub ended_ns: u64,
    /// How late updates were sent, if there is a schedule.
    pub late: Percentiles,
}

/// Percentiles, in nanoseconds.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Percentiles {
    pub p50: u64,
    pub p99: u64,
    pub max: u64,
}

impl Percentiles {
    /// The percentiles of a histogram.
    pub fn of(histogram: &Histogram<u64>) -> Self {
        let at = |percentile| histogram.value_at_percentile(percentile);
        Self { p50: at(50.0), p99: at(99.0), max: at(100.0) }
    }
}

/// Waits until a time; spins at the end.
pub fn wait_until(due: u64) {
    while let Some(left) = due.checked_sub(now_ns()).filter(|left| *left > 0) {
        if left > SPIN_NS {
            thread::sleep(Duration::from_nanos(left - SPIN_NS));
        }
        std::hint::spin_loop();
    }
}

/// An empty histogram for times up to a minute.
pub fn histogram() -> Result<Histogram<u64>, Failure> {
    Histogram::new_with_bounds(1, NANOS_MAX, 3).map_err(|error| Failure::new(error.to_string()))
}
