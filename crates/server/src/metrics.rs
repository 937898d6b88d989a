//! Counters and histograms of the server.

use crate::histogram::Histogram;
use crate::metrics_page::MetricsPage;
use std::sync::atomic::{AtomicU64, Ordering};
use tapedb_engine::Durability;

/// A number that only increases.
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

/// Counters of all connections since the server started.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub connections_accepted: Counter,
    /// Closed before authentication: too many, too slow, not the protocol, or refused.
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
    pub queries: Counter,
    pub queries_failed: Counter,
    pub query_bytes: Counter,
    pub file_reads: Counter,
    pub file_bytes: Counter,
    /// Pushed by the appending thread.
    pub pushes_inline: Counter,
    /// Pushed by the connection's own thread, from files.
    pub pushes_from_files: Counter,
    /// Messages that were dropped before they could be pushed.
    pub messages_lost: Counter,
    pub watches_too_slow: Counter,
    /// From reading a batch until it is as durable as its stream promises, by [`Durability`]: see [`Metrics::append`].
    append: [Histogram; 3],
    /// From reading a batch until it is written to the stream's watches.
    pub delivery: Histogram,
    /// From when a live cursor fell behind until it had caught up.
    pub catch_up: Histogram,
}

impl Metrics {
    /// Append latencies of streams of a durability.
    pub fn append(&self, durability: Durability) -> &Histogram {
        &self.append[durability as usize]
    }

    /// Append latencies of each durability, with its name.
    pub fn append_latencies(&self) -> [(&'static str, &Histogram); 3] {
        let [transient, asynchronous, sync] = &self.append;
        [("transient", transient), ("async", asynchronous), ("sync", sync)]
    }

    /// Writes the histograms.
    pub fn write_latencies(&self, page: &mut MetricsPage) {
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
    pub fn write(&self, page: &mut MetricsPage) {
        let counters = [
            ("connections_accepted", "Connections that were accepted.", &self.connections_accepted),
            (
                "connections_refused",
                "Connections that were closed before authentication.",
                &self.connections_refused,
            ),
            ("logins_failed", "Logins with a wrong name, password or token.", &self.logins_failed),
            ("requests", "Requests that were received.", &self.requests),
            ("requests_failed", "Requests that were answered with an error.", &self.requests_failed),
            ("requests_forbidden", "Requests without the right to them.", &self.requests_forbidden),
            ("appends_failed", "Batches that were not appended.", &self.appends_failed),
            ("queries", "Queries that were begun.", &self.queries),
            ("queries_failed", "Queries that ended with an error.", &self.queries_failed),
            ("query_bytes", "Bytes of rows of queries that were sent.", &self.query_bytes),
            ("file_reads", "Ranges of files that were sent.", &self.file_reads),
            ("file_bytes", "Bytes of files that were sent.", &self.file_bytes),
            ("pushes_inline", "Live batches sent by the appending thread.", &self.pushes_inline),
            (
                "pushes_from_files",
                "Live batches read from log files for cursors that were behind.",
                &self.pushes_from_files,
            ),
            (
                "messages_lost",
                "Messages of transient streams dropped before they were pushed.",
                &self.messages_lost,
            ),
            ("watches_too_slow", "Watches ended because they were too far behind.", &self.watches_too_slow),
        ];
        for (name, help, counter) in counters {
            page.counter(name, help, counter.get());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_is_written() {
        let metrics = Metrics::default();
        metrics.pushes_inline.add(5);
        let mut page = MetricsPage::default();
        metrics.write(&mut page);
        let text = page.into_text();
        // Without the two that are added to those of open connections.
        let counters = size_of::<Metrics>() - 5 * size_of::<Histogram>();
        assert_eq!((text.matches("# TYPE").count() + 2) * size_of::<Counter>(), counters);
        assert!(text.contains("tapedb_pushes_inline_total 5\n"));
    }
}
