//! Arguments that the benchmarks through a server share, and their reports.

use super::jobs::Done;
use super::serving::Serving;
use super::transport::Transport;
use crate::report::Report;
use crate::svg::{self, Bar, Scale};
use std::path::{Path, PathBuf};
use tapedb_terminal::Failure;

/// Arguments that the benchmarks through a server share.
#[derive(Debug, clap::Args)]
pub struct Common {
    /// How clients reach the server
    #[arg(long, value_name = "HOW,…", value_delimiter = ',', default_value = "tcp,uds,shm")]
    pub transport: Vec<Transport>,
    /// Runs of each case; the median counts
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub runs: u32,
    /// Rows of earlier runs (the output of --json), which count as runs; with --runs 0 only they are shown or drawn
    #[arg(long, value_name = "FILE")]
    pub with: Option<PathBuf>,
    /// Pin the server to these cores, a list for `taskset`: 0, or 0,1
    #[arg(long, value_name = "CORES")]
    pub server_cores: Option<String>,
    /// Also draw a plot
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Directory for the database, which is removed afterwards
    #[arg(long, value_name = "DIR", default_value = "bench.tapedb", value_parser = tapedb_terminal::location::local)]
    pub db: PathBuf,
}

impl Common {
    /// Path for the database.
    pub fn db(&self) -> &Path {
        &self.db
    }

    /// Starts a server with a new database.
    pub fn serve(&self) -> Result<Serving, Failure> {
        self.serve_spinning(0)
    }

    /// A report that includes the earlier runs of --with.
    pub fn report(&self, bench: &'static str) -> Result<Report, Failure> {
        let mut report = Report::new(bench);
        // Before the measurement: a plot that cannot be written fails at once.
        if let Some(folder) = self.svg.as_deref().and_then(Path::parent) {
            let failed = |error| Failure::new(format!("cannot create {}: {error}", folder.display()));
            std::fs::create_dir_all(folder).map_err(failed)?;
        }
        if let Some(path) = &self.with {
            let lines = std::fs::read_to_string(path);
            let failed = |error| Failure::new(format!("cannot read {}: {error}", path.display()));
            report.add_rows(&lines.map_err(failed)?)?;
        }
        Ok(report)
    }

    /// Writes a plot, if --svg is given.
    pub fn draw(&self, title: &str, scale: Scale, bars: &[Bar]) -> Result<(), Failure> {
        let Some(path) = &self.svg else { return Ok(()) };
        let written = std::fs::write(path, svg::bars(title, scale, bars));
        written.map_err(|error| Failure::new(format!("cannot write {}: {error}", path.display())))
    }

    /// Starts a server whose threads spin for this long before they sleep.
    pub fn serve_spinning(&self, spin_us: u64) -> Result<Serving, Failure> {
        Serving::start(&self.db, self.server_cores.as_deref(), spin_us)
    }
}

/// Messages a second of all processes, from the start of the first to the end of the last.
pub fn rate(report: &mut Report, case: &str, done: &[Done]) {
    let began = done.iter().map(|done| done.began_ns).min().unwrap_or(0);
    let ended = done.iter().map(|done| done.ended_ns).max().unwrap_or(0);
    let messages: u64 = done.iter().map(|done| done.messages).sum();
    report.add(case, "rate", "messages/s", messages as f64 * 1e9 / (ended - began).max(1) as f64);
}
