//! Percentiles of latencies, and waiting for the time of a message.

use crate::pool::Tally;
use crate::report::Report;
use crate::worker::now_ns;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::thread;
use std::time::Duration;
use tapedb_terminal::Failure;

/// Largest latency that the histogram can hold, in nanoseconds: a minute.
const LATENCY_MAX_NS: u64 = 60_000_000_000;

/// A producer sleeps until this long before a message is due, then polls the clock, so that it is not late.
const SPIN_NS: u64 = 100_000;

/// Percentiles, in nanoseconds.
#[derive(Debug, Serialize, Deserialize)]
pub struct Latencies {
    /// The messages sent or received.
    pub tally: Tally,
    mean: f64,
    values: Vec<u64>,
}

const PERCENTILES: [(&str, f64); 6] =
    [("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("p99.9", 99.9), ("p99.99", 99.99), ("max", 100.0)];

/// Adds the percentiles of a run to a report, in microseconds.
pub fn add_one(report: &mut Report, case: &str, latencies: &Latencies) {
    for ((name, _), nanos) in PERCENTILES.iter().zip(&latencies.values) {
        report.add(case, name, "µs", *nanos as f64 / 1000.0);
    }
    report.add(case, "mean", "µs", latencies.mean / 1000.0);
}

/// Waits until a time.
pub fn wait_until(due: u64) {
    loop {
        let now = now_ns();
        match due.checked_sub(now) {
            None | Some(0) => return,
            Some(left) if left > SPIN_NS => thread::sleep(Duration::from_nanos(left - SPIN_NS)),
            // Yields: server and consumer may need this core.
            Some(_) => thread::yield_now(),
        }
    }
}

/// An empty histogram for latencies up to a minute.
pub fn histogram() -> Result<Histogram<u64>, Failure> {
    Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3).map_err(|error| Failure::new(error.to_string()))
}

/// The percentiles of a histogram.
pub fn latencies(histogram: &Histogram<u64>, tally: Tally) -> Latencies {
    let values = PERCENTILES.iter().map(|(_, percentile)| histogram.value_at_percentile(*percentile));
    Latencies { tally, mean: histogram.mean(), values: values.collect() }
}
