//! The HTTP pages of a server: health, status and metrics.

use crate::http::Pages;
use crate::metrics_page::MetricsPage;
use crate::process::Process;
use crate::snapshot::{Snapshot, Visibility};
use crate::state::ServerState;
use serde::Serialize;
use std::collections::BTreeMap;

/// The contents of `/health`.
#[derive(Serialize)]
struct Health {
    /// See [`ServerState::condition`].
    status: &'static str,
    version: &'static str,
    uptime_seconds: u64,
    connections: usize,
    problems: BTreeMap<String, String>,
}

impl Pages for ServerState {
    fn health(&self) -> (bool, String) {
        let found = self.problems();
        let status = self.condition(&found);
        let problems = found.unwrap_or_else(|error| [("database".to_string(), error.to_string())].into());
        let health = Health {
            status,
            version: env!("CARGO_PKG_VERSION"),
            uptime_seconds: self.started.elapsed().as_secs(),
            connections: self.connections(),
            problems,
        };
        let text = serde_json::to_string(&health).unwrap_or_default();
        (matches!(status, "ok" | "degraded"), text + "\n")
    }

    fn status(&self) -> String {
        Self::status(self, &Visibility::ALL)
    }

    fn metrics(&self) -> String {
        let mut page = MetricsPage::default();
        self.metrics.write(&mut page);
        self.metrics.write_latencies(&mut page);
        Snapshot::take(self, &Visibility::ALL).write(&mut page);
        page.gauge("uptime_seconds", "Time since the server started.", self.started.elapsed().as_secs());
        let help = "Blocks that were not decoded to their input, and were written in the plain encoding or not replaced.";
        page.counter("seal_mismatches", help, tapedb_engine::seal_mismatches());
        Process::measure(&self.config.database).write(&mut page);
        self.components().iter().for_each(|component| component.metrics(&mut page));
        page.into_text()
    }
}
