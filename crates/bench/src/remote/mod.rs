//! Through a server, as TimeBase's studies do it: history for many consumers, pairs of producers and consumers at full
//! speed, and latency at a given rate. Server, producers and consumers are processes of their own.

pub mod floor;
pub mod latency;
pub mod live;
pub mod read;
mod serving;
pub mod worker;

use super::report::Report;
use super::svg::{self, Bar, Scale};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serving::Serving;
pub use serving::socket_of;
use std::path::{Path, PathBuf};
use tapedb_terminal::Failure;

/// What all of these benchmarks are told.
#[derive(Debug, clap::Args)]
pub struct Common {
    /// How clients reach the server
    #[arg(long, value_name = "HOW,…", value_delimiter = ',', default_value = "tcp,uds,shm")]
    transport: Vec<Transport>,
    /// Runs of each case; the median counts
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(0..=1000))]
    runs: u32,
    /// Rows of earlier runs (what --json printed), which count as runs; with --runs 0 they are shown or drawn alone
    #[arg(long, value_name = "FILE")]
    with: Option<PathBuf>,
    /// Keep the server to these cores, as `taskset` names them: 0, or 0,1
    #[arg(long, value_name = "CORES")]
    server_cores: Option<String>,
    /// Also draw a plot
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Directory for the database, which is removed afterwards
    #[arg(long, value_name = "DIR", default_value = "bench.tapedb", value_parser = tapedb_terminal::location::local)]
    db: PathBuf,
}

/// How a client reaches a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum Transport {
    /// TCP on loopback.
    Tcp,
    /// A Unix socket.
    Uds,
    /// Shared memory, asked for at the Unix socket.
    Shm,
}

impl Transport {
    /// Its short name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Uds => "uds",
            Self::Shm => "shm",
        }
    }

    /// The case, named after its transport where that is not TCP.
    fn case(self, case: &str) -> String {
        match self {
            Self::Tcp => case.into(),
            Self::Uds | Self::Shm => format!("{case}.{}", self.name()),
        }
    }
}

impl Common {
    /// Where a database can be.
    fn db(&self) -> &Path {
        &self.db
    }

    /// Starts a server over a new database.
    fn serve(&self) -> Result<Serving, Failure> {
        self.serve_spinning(0)
    }

    /// A report that begins with the runs that were made before.
    fn report(&self, bench: &'static str) -> Result<Report, Failure> {
        let mut report = Report::new(bench);
        // Before anything is measured: what cannot be drawn in the end is told now.
        if let Some(folder) = self.svg.as_deref().and_then(Path::parent) {
            let told = |error| Failure::new(format!("cannot make {}: {error}", folder.display()));
            std::fs::create_dir_all(folder).map_err(told)?;
        }
        if let Some(path) = &self.with {
            let lines = std::fs::read_to_string(path);
            let told = |error| Failure::new(format!("cannot read {}: {error}", path.display()));
            report.add_rows(&lines.map_err(told)?)?;
        }
        Ok(report)
    }

    /// Draws what was measured, where that is wanted.
    fn draw(&self, title: &str, scale: Scale, bars: &[Bar]) -> Result<(), Failure> {
        let Some(path) = &self.svg else { return Ok(()) };
        let written = std::fs::write(path, svg::bars(title, scale, bars));
        written.map_err(|error| Failure::new(format!("cannot write {}: {error}", path.display())))
    }

    /// The same, with threads that spin so long before they sleep.
    fn serve_spinning(&self, spin_us: u64) -> Result<Serving, Failure> {
        Serving::start(&self.db, self.server_cores.as_deref(), spin_us)
    }
}

/// Messages a second over all processes, from when the first began to when the last was done.
fn rate(report: &mut Report, case: &str, done: &[worker::Done]) {
    let began = done.iter().map(|done| done.began_ns).min().unwrap_or(0);
    let ended = done.iter().map(|done| done.ended_ns).max().unwrap_or(0);
    let messages: u64 = done.iter().map(|done| done.messages).sum();
    report.add(case, "rate", "messages/s", messages as f64 * 1e9 / (ended - began).max(1) as f64);
}
