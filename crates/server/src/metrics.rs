//! What the server counts, and the text in which Prometheus reads it.

use crate::histogram::Histogram;
use std::fmt::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use tapedb_engine::Durability;

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub fn one(&self) {
        self.add(1);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What all connections together have done since the server began.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub connections_accepted: Counter,
    /// Closed before they said who they are: too many, too slow, not the protocol, not let in.
    pub connections_refused: Counter,
    pub logins_failed: Counter,
    pub requests: Counter,
    pub requests_failed: Counter,
    pub requests_forbidden: Counter,
    /// Of connections that have ended.
    pub bytes_received: Counter,
    /// Of connections that have ended.
    pub bytes_sent: Counter,
    pub appends_failed: Counter,
    pub file_reads: Counter,
    pub file_bytes: Counter,
    /// Pushed by whoever appended.
    pub pushes_inline: Counter,
    /// Pushed by the connection's own thread, from files.
    pub pushes_from_files: Counter,
    /// Messages that were gone before they could be pushed.
    pub messages_lost: Counter,
    pub watches_too_slow: Counter,
    /// From when a batch was read to when it was as durable as its stream promises, by [`Durability`]: see
    /// [`Metrics::append`].
    append: [Histogram; 3],
    /// From when a batch was read to when it was written to those who follow the stream.
    pub delivery: Histogram,
    /// From when a live cursor fell behind to when it had caught up.
    pub catch_up: Histogram,
}

impl Metrics {
    /// How long appending takes in streams of a durability.
    pub fn append(&self, durability: Durability) -> &Histogram {
        &self.append[durability as usize]
    }

    /// The same, of each durability, with its name.
    pub fn append_latencies(&self) -> [(&'static str, &Histogram); 3] {
        let [transient, asynchronous, sync] = &self.append;
        [("transient", transient), ("async", asynchronous), ("sync", sync)]
    }

    /// Writes the distributions.
    pub fn write_latencies(&self, page: &mut Page) {
        page.histograms(
            "append_seconds",
            "From reading a batch to its being as durable as its stream promises; sampled.",
        );
        for (durability, histogram) in self.append_latencies() {
            histogram.write(page, "append_seconds", &[("durability", durability)]);
        }
        page.histograms("delivery_seconds", "From reading a batch to writing it to live cursors; sampled.");
        self.delivery.write(page, "delivery_seconds", &[]);
        page.histograms("catch_up_seconds", "From when a live cursor fell behind to when it had caught up.");
        self.catch_up.write(page, "catch_up_seconds", &[]);
    }

    /// Writes all counters.
    pub fn write(&self, page: &mut Page) {
        let counters = [
            ("connections_accepted", "Connections that were accepted.", &self.connections_accepted),
            (
                "connections_refused",
                "Connections that were closed before they were let in.",
                &self.connections_refused,
            ),
            ("logins_failed", "Logins with a wrong name, password or token.", &self.logins_failed),
            ("requests", "Requests that were taken.", &self.requests),
            ("requests_failed", "Requests that were answered with an error.", &self.requests_failed),
            ("requests_forbidden", "Requests without the right to them.", &self.requests_forbidden),
            ("appends_failed", "Batches that were not appended.", &self.appends_failed),
            ("file_reads", "Ranges of files that were sent.", &self.file_reads),
            ("file_bytes", "Bytes of files that were sent.", &self.file_bytes),
            ("pushes_inline", "Live batches sent by whoever appended them.", &self.pushes_inline),
            (
                "pushes_from_files",
                "Live batches read from log files for who was behind.",
                &self.pushes_from_files,
            ),
            (
                "messages_lost",
                "Messages of transient streams gone before they were pushed.",
                &self.messages_lost,
            ),
            ("watches_too_slow", "Watches ended because they were too far behind.", &self.watches_too_slow),
        ];
        for (name, help, counter) in counters {
            page.counter(name, help, counter.get());
        }
    }
}

/// A page of metrics in the text format of Prometheus. All names begin with `tapedb_`, which is put before them here.
#[derive(Debug, Default)]
pub struct Page {
    text: String,
}

impl Page {
    /// A number that only grows; `_total` is added to its name.
    pub fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.head(&format!("{name}_total"), help, "counter");
        self.line(&format!("{name}_total"), &[], value);
    }

    /// A number that only grows and is not whole; `_total` is added to its name.
    pub fn counter_of(&mut self, name: &str, help: &str, value: impl fmt::Display) {
        self.head(&format!("{name}_total"), help, "counter");
        self.line(&format!("{name}_total"), &[], value);
    }

    /// A number that goes up and down.
    pub fn gauge(&mut self, name: &str, help: &str, value: impl fmt::Display) {
        self.head(name, help, "gauge");
        self.line(name, &[], value);
    }

    /// Begins a number that only grows with several values, which [`line`](Self::line)s give: with `_total` added to its name.
    pub fn counters(&mut self, name: &str, help: &str) {
        self.head(&format!("{name}_total"), help, "counter");
    }

    /// Begins a gauge with several values, which [`line`](Self::line)s give.
    pub fn gauges(&mut self, name: &str, help: &str) {
        self.head(name, help, "gauge");
    }

    /// Begins a distribution, whose lines follow.
    pub(crate) fn histograms(&mut self, name: &str, help: &str) {
        self.head(name, help, "histogram");
    }

    /// One value, told apart by labels.
    pub fn line(&mut self, name: &str, labels: &[(&str, &str)], value: impl fmt::Display) {
        let _ = write!(self.text, "tapedb_{name}");
        for (i, (label, text)) in labels.iter().enumerate() {
            let _ = write!(self.text, "{}{label}=\"{}\"", if i == 0 { '{' } else { ',' }, Escaped(text));
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{end} {value}");
    }

    /// The whole page.
    pub(crate) fn into_text(self) -> String {
        self.text
    }

    fn head(&mut self, name: &str, help: &str, kind: &str) {
        let _ = writeln!(self.text, "# HELP tapedb_{name} {help}\n# TYPE tapedb_{name} {kind}");
    }
}

/// The value of a label, whatever is in it.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for letter in self.0.chars() {
            match letter {
                '\\' => f.write_str("\\\\")?,
                '"' => f.write_str("\\\"")?,
                '\n' => f.write_str("\\n")?,
                other => f.write_char(other)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_what_prometheus_reads() {
        let mut page = Page::default();
        page.counter("appends", "Batches.", 3);
        page.gauges("lag_messages", "Lag.");
        page.line("lag_messages", &[("stream", "a\"b\\c\n"), ("user", "ann")], 7);
        assert_eq!(
            page.into_text(),
            "# HELP tapedb_appends_total Batches.\n# TYPE tapedb_appends_total counter\ntapedb_appends_total 3\n\
             # HELP tapedb_lag_messages Lag.\n# TYPE tapedb_lag_messages gauge\n\
             tapedb_lag_messages{stream=\"a\\\"b\\\\c\\n\",user=\"ann\"} 7\n"
        );
    }

    #[test]
    fn every_counter_is_there() {
        let metrics = Metrics::default();
        metrics.pushes_inline.add(5);
        let mut page = Page::default();
        metrics.write(&mut page);
        let text = page.into_text();
        // But for the two that are added to those of the open connections.
        let counters = size_of::<Metrics>() - 5 * size_of::<Histogram>();
        assert_eq!((text.matches("# TYPE").count() + 2) * size_of::<Counter>(), counters);
        assert!(text.contains("tapedb_pushes_inline_total 5\n"));
    }
}
