//! The status of the server as one JSON object: at `/status`, and over the protocol.

use crate::histogram::Histogram;
use crate::process::Process;
use crate::snapshot::{ClientRow, Snapshot, StreamRow, Visibility};
use crate::state::ServerState;
use crate::traffic::Traffic;
use serde::Serialize;
use std::collections::BTreeMap;
use tapedb_access::{May, User};

/// A limit that is used to this share is a warning.
const NEARLY: f64 = 0.9;
/// A smaller free share of the disk is a warning.
const DISK_FREE_MIN: f64 = 0.05;

#[derive(Serialize)]
struct Status {
    /// As in `/health`.
    status: &'static str,
    version: &'static str,
    uptime_seconds: u64,
    process: Process,
    connections: usize,
    connections_max: usize,
    watches: u64,
    received_bytes: u64,
    sent_bytes: u64,
    appended: crate::traffic::Counts,
    delivered: crate::traffic::Counts,
    /// Latencies of appending, by durability; of delivery to live cursors; of catching up.
    append: BTreeMap<&'static str, Latency>,
    delivery: Latency,
    catch_up: Latency,
    streams: Vec<StreamRow>,
    clients: Vec<ClientRow>,
    warnings: Vec<String>,
}

/// Quantiles of a histogram: upper bounds of their ranges, in seconds.
#[derive(Serialize)]
struct Latency {
    count: u64,
    p50_seconds: Option<f64>,
    p99_seconds: Option<f64>,
    p999_seconds: Option<f64>,
    /// The ranges that have durations: upper bound, and how many.
    ranges: Vec<(Option<f64>, u64)>,
}

impl Latency {
    fn of(histogram: &Histogram) -> Self {
        let quantile = |share| histogram.quantile(share).map(|duration| duration.as_secs_f64());
        Self {
            count: histogram.count(),
            p50_seconds: quantile(0.5),
            p99_seconds: quantile(0.99),
            p999_seconds: quantile(0.999),
            ranges: histogram.ranges(),
        }
    }
}

impl ServerState {
    /// The status that is visible to a user: the user's streams and own connection; everything if the user may
    /// administer all streams.
    pub fn status_for(&self, user: &User, connection: u64) -> String {
        let own = connection.to_string();
        let sees_all = user.may(May::Admin, "*");
        self.status(&Visibility {
            stream: &|name| user.may_see(name),
            connection: &|connection| sees_all || connection == own,
        })
    }

    /// The status, as far as it is visible.
    pub fn status(&self, visibility: &Visibility<'_>) -> String {
        let snapshot = Snapshot::take(self, visibility);
        let process = Process::measure(&self.config.database);
        let warnings = self.warnings(&snapshot, &process, visibility);
        let Snapshot { streams, clients, total, watches, received_bytes, sent_bytes, connections, .. } =
            snapshot;
        let Traffic { appended, delivered } = total;
        let metrics = &self.metrics;
        let append =
            metrics.append_latencies().map(|(durability, histogram)| (durability, Latency::of(histogram)));
        let status = Status {
            status: self.condition(&self.problems()),
            version: env!("CARGO_PKG_VERSION"),
            uptime_seconds: self.started.elapsed().as_secs(),
            process,
            connections,
            connections_max: self.config.limits.connections_max,
            watches,
            received_bytes,
            sent_bytes,
            appended,
            delivered,
            append: append.into_iter().collect(),
            delivery: Latency::of(&metrics.delivery),
            catch_up: Latency::of(&metrics.catch_up),
            streams,
            clients,
            warnings,
        };
        serde_json::to_string(&status).unwrap_or_default() + "\n"
    }

    fn warnings(&self, snapshot: &Snapshot, process: &Process, visibility: &Visibility<'_>) -> Vec<String> {
        let mut warnings = snapshot.warnings();
        let problems = self.component_problems();
        warnings.extend(
            problems
                .into_iter()
                .filter(|(name, _)| (visibility.stream)(name))
                .map(|(name, why)| format!("{name}: {why}")),
        );
        let lost = self.metrics.messages_lost.get();
        if lost > 0 {
            warnings.push(format!(
                "{lost} messages of transient streams were dropped before they were sent to live cursors"
            ));
        }
        let mismatches = tapedb_engine::seal_mismatches();
        if mismatches > 0 {
            warnings.push(format!(
                "{mismatches} blocks were not decoded to their input; see the log, and report it"
            ));
        }
        let most = self.config.limits.connections_max;
        if snapshot.connections as f64 >= most as f64 * NEARLY {
            warnings.push(format!("{} of {most} connections are in use", snapshot.connections));
        }
        if let (Some(open), Some(most)) = (process.open_files, process.open_files_max)
            && open as f64 >= most as f64 * NEARLY
        {
            warnings.push(format!("{open} of {most} files are open; raise the limit (ulimit -n)"));
        }
        if let (Some(free), Some(total)) = (process.disk_free_bytes, process.disk_total_bytes)
            && (free as f64) < total as f64 * DISK_FREE_MIN
        {
            warnings.push(format!("{free} bytes are free on the disk of the database, of {total}"));
        }
        warnings
    }
}
