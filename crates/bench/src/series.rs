//! Latencies over time: a histogram of the run, and one for each interval; as rows, as a file for HdrHistogram's plotter, and as a
//! plot.

use hdrhistogram::Histogram;
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;
use tapedb_terminal::Failure;

/// Largest latency that the histogram can hold, in nanoseconds: a minute.
const LATENCY_MAX_NS: u64 = 60_000_000_000;

/// Percentiles of a run that are reported.
pub const PERCENTILES: [(&str, f64); 8] = [
    ("p50", 50.0),
    ("p90", 90.0),
    ("p99", 99.0),
    ("p99.9", 99.9),
    ("p99.99", 99.99),
    ("p99.999", 99.999),
    ("p99.9999", 99.9999),
    ("max", 100.0),
];

/// Percentiles of an interval that are drawn, with their colours.
const DRAWN: [(&str, f64, &str); 5] = [
    ("p50", 50.0, "#2b6cb0"),
    ("p99", 99.0, "#2f855a"),
    ("p99.9", 99.9, "#b7791f"),
    ("p99.99", 99.99, "#c05621"),
    ("max", 100.0, "#c53030"),
];

/// Latencies of a run.
#[derive(Debug)]
pub struct Series {
    interval_ns: u64,
    began_ns: Option<u64>,
    all: Histogram<u64>,
    current: Histogram<u64>,
    intervals: Vec<Interval>,
}

/// Latencies of an interval, in nanoseconds, as `PERCENTILES` names them.
#[derive(Debug, Clone)]
struct Interval {
    messages: u64,
    values: Vec<u64>,
}

impl Series {
    /// An empty series with this interval.
    pub fn new(interval: Duration) -> Result<Self, Failure> {
        Ok(Self {
            interval_ns: (interval.as_nanos() as u64).max(1_000_000),
            began_ns: None,
            all: histogram()?,
            current: histogram()?,
            intervals: Vec::new(),
        })
    }

    /// Adds a message by its due time.
    #[inline]
    pub fn record(&mut self, due_ns: u64, latency_ns: u64) {
        let began = *self.began_ns.get_or_insert(due_ns);
        if due_ns - began >= self.interval_ns * (self.intervals.len() as u64 + 1) {
            self.close();
        }
        self.current.saturating_record(latency_ns);
    }

    /// Ends an interval.
    #[cold]
    fn close(&mut self) {
        let values = PERCENTILES.iter().map(|(_, at)| self.current.value_at_percentile(*at)).collect();
        self.intervals.push(Interval { messages: self.current.len(), values });
        // Both have the same bounds.
        let _ = self.all.add(&self.current);
        self.current.reset();
    }

    /// Ends the run.
    pub fn finish(&mut self) {
        if !self.current.is_empty() {
            self.close();
        }
    }

    /// Percentiles of all, in nanoseconds.
    pub fn values(&self) -> Vec<u64> {
        PERCENTILES.iter().map(|(_, at)| self.all.value_at_percentile(*at)).collect()
    }

    /// Mean of all, in nanoseconds.
    pub fn mean(&self) -> f64 {
        self.all.mean()
    }

    /// A row for each interval, in microseconds.
    pub fn table(&self) -> String {
        let mut table = String::from("| seconds | messages |");
        PERCENTILES.iter().for_each(|(name, _)| _ = write!(table, " {name} µs |"));
        table.push_str("\n|---:|---:|");
        PERCENTILES.iter().for_each(|_| table.push_str("---:|"));
        for (at, interval) in self.intervals.iter().enumerate() {
            let seconds = at as f64 * self.interval_ns as f64 / 1e9;
            let _ = write!(table, "\n| {seconds:.0} | {} |", interval.messages);
            interval.values.iter().for_each(|value| _ = write!(table, " {:.2} |", *value as f64 / 1000.0));
        }
        table.push('\n');
        table
    }

    /// Writes the distribution as HdrHistogram's plotter reads it, values in microseconds.
    pub fn write_hdr(&self, path: &Path) -> Result<(), Failure> {
        let mut text = String::from("       Value     Percentile TotalCount 1/(1-Percentile)\n\n");
        let mut count = 0;
        for at in self.all.iter_quantiles(5) {
            count += at.count_since_last_iteration();
            let (value, part) = (at.value_iterated_to() as f64 / 1000.0, at.quantile_iterated_to());
            let _ = write!(text, "{value:12.3} {part:.12} {count:10}");
            let _ = if part < 1.0 { writeln!(text, " {:14.2}", 1.0 / (1.0 - part)) } else { writeln!(text) };
        }
        let _ = writeln!(
            text,
            "#[Mean    = {:12.3}, StdDeviation   = {:12.3}]",
            self.mean() / 1000.0,
            self.all.stdev() / 1000.0
        );
        let _ = writeln!(
            text,
            "#[Max     = {:12.3}, Total count    = {:12}]",
            self.all.max() as f64 / 1000.0,
            self.all.len()
        );
        write(path, &text)
    }

    /// Draws the percentiles of the intervals over time; latency on a scale of powers of ten.
    pub fn write_svg(&self, path: &Path, title: &str) -> Result<(), Failure> {
        write(path, &self.svg(title))
    }

    fn svg(&self, title: &str) -> String {
        let (width, height, left, top) = (960.0, 480.0, 70.0, 40.0);
        let (inner_width, inner_height) = (width - left - 90.0, height - top - 50.0);
        let values = self.intervals.iter().flat_map(|interval| &interval.values);
        let (low, high) =
            values.fold((u64::MAX, 1), |(low, high), value| (low.min(*value), high.max(*value)));
        let (low, high) = ((low.max(1) as f64).log10().floor(), (high as f64).log10().ceil());
        let y =
            |nanos: f64| top + inner_height * (1.0 - (nanos.max(1.0).log10() - low) / (high - low).max(1.0));
        let x = |at: usize| left + inner_width * at as f64 / (self.intervals.len().max(2) - 1) as f64;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
             font-size=\"12\">\n<rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n<text x=\"{left}\" \
             y=\"24\" font-size=\"15\">{}</text>\n",
            escaped(title)
        );
        for power in low as i32..=high as i32 {
            let (at, nanos) = (y(10f64.powi(power)), 10f64.powi(power));
            let _ = writeln!(
                svg,
                "<line x1=\"{left}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#ddd\"/><text x=\"{:.1}\" \
                 y=\"{:.1}\" text-anchor=\"end\">{} µs</text>",
                left + inner_width,
                left - 6.0,
                at + 4.0,
                nanos / 1000.0
            );
        }
        for (name, percentile, color) in DRAWN {
            let Some(column) = PERCENTILES.iter().position(|(_, known)| *known == percentile) else {
                continue;
            };
            let mut points = String::new();
            for (at, interval) in self.intervals.iter().enumerate() {
                let _ = write!(points, "{:.1},{:.1} ", x(at), y(interval.values[column] as f64));
            }
            let last = self.intervals.last().map_or(1.0, |interval| interval.values[column] as f64);
            let _ = writeln!(
                svg,
                "<polyline fill=\"none\" stroke=\"{color}\" stroke-width=\"1.5\" points=\"{points}\"/><text \
                 x=\"{:.1}\" y=\"{:.1}\" fill=\"{color}\">{name}</text>",
                left + inner_width + 6.0,
                y(last) + 4.0
            );
        }
        let seconds = self.intervals.len() as f64 * self.interval_ns as f64 / 1e9;
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{seconds:.0} seconds</text>\n</svg>",
            left + inner_width / 2.0,
            height - 16.0
        );
        svg
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text)
        .map_err(|error| Failure::new(format!("cannot write {}: {error}; name another file", path.display())))
}

fn histogram() -> Result<Histogram<u64>, Failure> {
    Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3).map_err(|error| Failure::new(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_counted_by_interval() {
        let mut series = Series::new(Duration::from_secs(5)).unwrap();
        for second in 0..12 {
            for _ in 0..100 {
                series.record(7_000 + second * 1_000_000_000, 1_000 * (1 + second / 5));
            }
        }
        series.finish();
        let counts: Vec<_> = series.intervals.iter().map(|interval| interval.messages).collect();
        assert_eq!((counts, series.values()[0]), (vec![500, 500, 200], 2_000));
        assert!(series.table().contains("| 5 | 500 | 2.00 |"), "{}", series.table());
        let svg = series.svg("a < b");
        assert!(svg.contains("a &lt; b") && svg.matches("<polyline").count() == DRAWN.len());
        let dir = tempfile::tempdir().unwrap();
        series.write_hdr(&dir.path().join("x.hgrm")).unwrap();
        let text = std::fs::read_to_string(dir.path().join("x.hgrm")).unwrap();
        assert!(text.contains("Total count    =         1200"), "{text}");
    }
}
