//! Protocols of others, with the clients that people run.

mod failed;
mod lines;
mod plain;
mod serving;

use crate::report::Report;
use failed::failed;
use lines::Version;
use serde::Deserialize;
use serving::Serving;
use std::path::{Path, PathBuf};
use std::process::Command;
use tapedb_terminal::{Failure, Ui, quantity::count};

/// Table of the rows that are read.
const READ: &str = "trades";
/// What the script returns where a client is not installed.
const MISSING: i32 = 3;
const SCRIPT: &str = include_str!("clients.py");

/// Protocols of others: the line protocol, PostgreSQL, Flight SQL, HTTP
///
/// A server runs beside, without users, and rows have six columns: time, symbol, side, two doubles, an integer. `gateways.ilp.v1` and
/// `gateways.ilp.v2` write them until the last one is acknowledged, in the protocol's version 1 (text) and 2 (binary doubles): `rate` is
/// `Sender.dataframe` of QuestDB's client, `bytes` the server with bytes as that client sends them, made beforehand. The other cases read
/// all rows, from sealed files: psycopg and asyncpg into tuples, `copy.binary` as bytes through psycopg, `flight` and `http.arrow` into
/// Arrow tables, `http.csv` and `http.json` as bytes. Numbers and sums are compared. A client that --python lacks is named and left out;
/// testing/gateways/environment installs all of them.
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
    /// The Python that has the clients
    #[arg(long, value_name = "FILE", default_value = "python3")]
    python: PathBuf,
    /// Only cases that need no client
    #[arg(long)]
    plain: bool,
    /// Cases whose names contain this
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
}

/// A case of the script.
struct Case {
    name: &'static str,
    port: fn(&Serving) -> u16,
}

const CASES: [Case; 9] = [
    Case { name: "gateways.ilp.v1", port: |serving| serving.ilp },
    Case { name: "gateways.ilp.v2", port: |serving| serving.ilp },
    Case { name: "gateways.psycopg.text", port: |serving| serving.postgres },
    Case { name: "gateways.psycopg.binary", port: |serving| serving.postgres },
    Case { name: "gateways.asyncpg", port: |serving| serving.postgres },
    Case { name: "gateways.copy.binary", port: |serving| serving.postgres },
    Case { name: "gateways.flight.adbc", port: |serving| serving.flight },
    Case { name: "gateways.flight.pyarrow", port: |serving| serving.flight },
    Case { name: "gateways.http.arrow", port: |serving| serving.http },
];

/// What the script found.
#[derive(Debug, Deserialize)]
struct Found {
    seconds: f64,
    rows: u64,
    sum: Option<u64>,
}

/// Runs the benchmark.
pub fn run(args: &Args, ui: &Ui) -> Result<Report, Failure> {
    let mut report = Report::new("gateways");
    let rows = args.rows;
    serving::fill(&args.db, READ, rows)?;
    let serving = Serving::start(&args.db)?;
    let is_wanted = |name: &str| name.contains(&args.only);
    let mut missing: Vec<&str> = Vec::new();
    for run in 0..args.runs {
        ui.note(&format!("run {} of {}", run + 1, args.runs));
        for (name, version) in [("gateways.ilp.v1", Version::One), ("gateways.ilp.v2", Version::Two)] {
            if is_wanted(name) {
                ui.check_interrupt()?;
                let table = written(run, name, "bytes");
                let seconds = lines::send(serving.ilp, &lines::bodies(version, &table, rows))?;
                serving.take_written(&table, rows)?;
                report.add(name, "bytes", "rows/s", rows as f64 / seconds);
            }
        }
        for format in ["csv", "json"] {
            let name = format!("gateways.http.{format}");
            if is_wanted(&name) {
                ui.check_interrupt()?;
                let seconds = plain::read(serving.http, READ, format, rows)?;
                report.add(&name, "rate", "rows/s", rows as f64 / seconds);
            }
        }
        for case in CASES.iter().filter(|case| !args.plain && is_wanted(case.name)) {
            ui.check_interrupt()?;
            if missing.contains(&case.name) {
                continue;
            }
            let is_written = case.name.contains(".ilp.");
            let table = if is_written { written(run, case.name, "rate") } else { READ.into() };
            match script(&args.python, case, (case.port)(&serving), rows, &table)? {
                Ok(found) => {
                    check(case.name, &found, rows)?;
                    if is_written {
                        serving.take_written(&table, rows)?;
                    }
                    report.add(case.name, "rate", "rows/s", rows as f64 / found.seconds);
                }
                Err(what) => {
                    ui.note(&format!("{} is skipped: {what}", case.name));
                    missing.push(case.name);
                }
            }
        }
    }
    Ok(report)
}

/// A table of its own for each write: the same bytes again, within minutes, would be taken for a retry.
fn written(run: u32, case: &str, metric: &str) -> String {
    format!("{}_{metric}_{run}", case.replace('.', "_"))
}

fn check(case: &str, found: &Found, rows: u64) -> Result<(), Failure> {
    let sum = rows * rows.saturating_sub(1) / 2;
    if found.rows != rows || found.sum.is_some_and(|found| found != sum) {
        return Err(Failure::new(format!(
            "{case} found {found:?}, where {rows} rows with the sum {sum} are stored"
        )));
    }
    Ok(())
}

/// Runs a case of the script; the inner error names a client that is missing.
fn script(
    python: &Path,
    case: &Case,
    port: u16,
    rows: u64,
    table: &str,
) -> Result<Result<Found, String>, Failure> {
    let mut command = Command::new(python);
    command.args(["-c", SCRIPT, case.name, &port.to_string(), &rows.to_string(), table]);
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => return Ok(Err(format!("{}: {error}", python.display()))),
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_string();
    if output.status.code() == Some(MISSING) {
        return Ok(Err(text(&output.stderr)));
    }
    if !output.status.success() {
        return Err(Failure::new(format!("{} fails: {}", case.name, text(&output.stderr))));
    }
    serde_json::from_slice(&output.stdout).map(Ok).map_err(failed)
}
