//! Protocols of others: the InfluxDB line protocol.

mod ilp;

use crate::report::Report;
use crate::storage::Scratch;
use std::path::PathBuf;
use tapedb_terminal::{Failure, Ui, quantity::count};

/// Protocols of others: lines of InfluxDB's protocol from QuestDB's client
///
/// `gateways.ilp.v1` and `gateways.ilp.v2` write six columns in the protocol's version 1 (text) and 2 (binary doubles), over HTTP, until the
/// last row is acknowledged. `rate` is `Sender.dataframe` of QuestDB's client for Python, with its own time, where --python has the package
/// `questdb`; `bytes` is the server with bytes as that client sends them, made beforehand. Rows and their sum are compared.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Rows of a run
    #[arg(long, value_name = "N", default_value = "1M", value_parser = count)]
    rows: u64,
    /// Runs of each case; the median counts
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Directory for the database, which is removed afterwards
    #[arg(long, value_name = "DIR", default_value = "bench.tapedb", value_parser = tapedb_terminal::location::local)]
    db: PathBuf,
    /// A Python that has the package questdb, and pandas
    #[arg(long, value_name = "FILE")]
    python: Option<PathBuf>,
}

/// Runs the benchmark.
pub fn run(args: &Args, ui: &Ui) -> Result<Report, Failure> {
    let mut report = Report::new("gateways");
    let scratch = Scratch::new(&args.db)?;
    let lines = ilp::Lines::start(&scratch, args.rows)?;
    for run in 0..args.runs {
        ui.note(&format!("run {} of {}", run + 1, args.runs));
        for version in [1, 2] {
            ui.check_interrupt()?;
            lines.send_bytes(version, &mut report)?;
            if let Some(python) = &args.python {
                lines.send_frame(version, python, &mut report)?;
            }
        }
    }
    Ok(report)
}
