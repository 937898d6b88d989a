//! Histograms of durations: counts by ranges, recorded without a lock.

use crate::metrics_page::MetricsPage;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the ranges, in nanoseconds; longer durations are in one more range. Three or four per decade, from a
/// microsecond to ten seconds.
const BOUNDS: [u64; 22] = [
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
];

/// The same bounds in seconds, as Prometheus names them.
const LABELS: [&str; 22] = [
    "0.000001",
    "0.0000025",
    "0.000005",
    "0.00001",
    "0.000025",
    "0.00005",
    "0.0001",
    "0.00025",
    "0.0005",
    "0.001",
    "0.0025",
    "0.005",
    "0.01",
    "0.025",
    "0.05",
    "0.1",
    "0.25",
    "0.5",
    "1",
    "2.5",
    "5",
    "10",
];

/// Durations, counted by ranges.
#[derive(Debug, Default)]
pub(crate) struct Histogram {
    counts: [AtomicU64; BOUNDS.len() + 1],
    nanos: AtomicU64,
}

impl Histogram {
    /// Counts one duration.
    pub fn record(&self, duration: Duration) {
        let nanos = duration.as_nanos().try_into().unwrap_or(u64::MAX);
        let range = BOUNDS.partition_point(|bound| *bound < nanos);
        self.counts[range].fetch_add(1, Ordering::Relaxed);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// The number of recorded durations.
    pub fn count(&self) -> u64 {
        self.counts().iter().sum()
    }

    /// The upper bound of the range with this quantile (0 to 1); `None` without durations. For the last range, its
    /// lower bound.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let counts = self.counts();
        let total: u64 = counts.iter().sum();
        let rank = ((total as f64 * share).ceil() as u64).clamp(1, total.max(1));
        let mut below = 0;
        let range = counts.iter().position(|count| {
            below += count;
            below >= rank
        })?;
        Some(Duration::from_nanos(BOUNDS[range.min(BOUNDS.len() - 1)]))
    }

    /// The ranges that have durations: their upper bounds in seconds, `None` for the last one, and how many.
    pub fn ranges(&self) -> Vec<(Option<f64>, u64)> {
        let bounds = BOUNDS.iter().map(|bound| Some(*bound as f64 / 1e9)).chain([None]);
        bounds.zip(self.counts()).filter(|(_, count)| *count > 0).collect()
    }

    /// Adds its lines to a page; [`MetricsPage::histograms`] begins the metric.
    pub fn write(&self, page: &mut MetricsPage, name: &str, labels: &[(&str, &str)]) {
        let bucket = format!("{name}_bucket");
        let (counts, mut below) = (self.counts(), 0);
        for (count, bound) in counts.iter().zip(LABELS.into_iter().chain(["+Inf"])) {
            below += count;
            page.line(&bucket, &[labels, &[("le", bound)]].concat(), below);
        }
        let seconds = self.nanos.load(Ordering::Relaxed) as f64 / 1e9;
        page.line(&format!("{name}_sum"), labels, seconds);
        page.line(&format!("{name}_count"), labels, below);
    }

    fn counts(&self) -> [u64; BOUNDS.len() + 1] {
        std::array::from_fn(|range| self.counts[range].load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_counted_by_range() {
        let histogram = Histogram::default();
        assert_eq!((histogram.count(), histogram.quantile(0.5)), (0, None));
        assert!(histogram.ranges().is_empty());
        for micros in [1, 2, 3, 1000, 20_000_000] {
            histogram.record(Duration::from_micros(micros));
        }
        let quantile = |share| histogram.quantile(share).unwrap();
        assert_eq!(quantile(0.2), Duration::from_micros(1), "an upper bound belongs to its range");
        assert_eq!((quantile(0.5), quantile(0.6)), (Duration::from_micros(5), Duration::from_micros(5)));
        assert_eq!((quantile(0.8), quantile(1.0)), (Duration::from_millis(1), Duration::from_secs(10)));
        let mut page = MetricsPage::default();
        page.histograms("append_seconds", "Time.");
        histogram.write(&mut page, "append_seconds", &[("durability", "async")]);
        let text = page.into_text();
        for line in [
            "# TYPE tapedb_append_seconds histogram",
            "tapedb_append_seconds_bucket{durability=\"async\",le=\"0.000001\"} 1",
            "tapedb_append_seconds_bucket{durability=\"async\",le=\"0.000005\"} 3",
            "tapedb_append_seconds_bucket{durability=\"async\",le=\"10\"} 4",
            "tapedb_append_seconds_bucket{durability=\"async\",le=\"+Inf\"} 5",
            "tapedb_append_seconds_sum{durability=\"async\"} 20.001006",
            "tapedb_append_seconds_count{durability=\"async\"} 5",
        ] {
            assert!(text.lines().any(|found| found == line), "{text} lacks {line}");
        }
    }

    #[test]
    fn the_labels_are_the_bounds() {
        for (bound, label) in BOUNDS.iter().zip(LABELS) {
            assert_eq!((label.parse::<f64>().unwrap() * 1e9).round() as u64, *bound);
        }
        assert!(BOUNDS.is_sorted());
    }
}
