//! `tapedb bench`: what TapeDB does here, with medians, spread and checks.

pub mod codec;
mod content;
mod fields;
mod machine;
mod pool;
mod remote;
mod report;
mod series;
mod storage;
mod svg;
mod tick;
mod topic;

use machine::{Machine, cross_core_round_trip_ns};
use report::Report;
use tapedb_terminal::{Failure, Ui, awake};

/// Measure TapeDB on this machine
///
/// Every figure is the median of several interleaved runs whose output was checked: counts and sums of all fields. The
/// machine line says how far apart the cores were before and after; compare runs only where that agrees.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Debug, clap::Subcommand)]
enum Bench {
    Codec(codec::Args),
    Storage(storage::Args),
    Read(remote::read::Args),
    Live(remote::live::Args),
    Latency(remote::latency::Args),
    Tick(tick::Args),
    Topic(topic::Args),
    /// A process of a benchmark
    #[command(hide = true)]
    Worker {
        /// What it shall do, in JSON
        task: String,
    },
}

impl Bench {
    /// Whether processors are kept awake meanwhile.
    fn keeps_awake(&self) -> bool {
        match self {
            Self::Latency(args) => args.keeps_awake(),
            Self::Tick(args) => args.keeps_awake(),
            _ => false,
        }
    }

    /// What figures depend on that their cases do not say.
    fn remarks(&self) -> Vec<&'static str> {
        match self {
            Self::Tick(args) => args.remarks(),
            _ => Vec::new(),
        }
    }
}

/// Runs a benchmark and prints its report.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    // Under valgrind nothing but the laps: neither probe nor report.
    if let Bench::Codec(args) = &args.bench
        && let Some(laps) = args.laps()
    {
        return codec::run_laps(args, laps);
    }
    if let Bench::Storage(args) = &args.bench
        && let Some(stage) = args.stage()
    {
        return stage.run(ui);
    }
    if let Bench::Worker { task } = &args.bench {
        let task: remote::worker::Task =
            serde_json::from_str(task).map_err(|error| Failure::usage(error.to_string()))?;
        return task.run(ui);
    }
    let before = cross_core_round_trip_ns();
    let awake = awake::keep(args.bench.keeps_awake())?;
    let mut remarks = args.bench.remarks();
    remarks.extend(awake.as_ref().map(awake::remark));
    let report = match args.bench {
        Bench::Codec(args) => codec::run(&args, ui)?,
        Bench::Storage(args) => storage::run(args, ui)?,
        Bench::Read(args) => remote::read::run(&args, ui)?,
        Bench::Live(args) => remote::live::run(&args, ui)?,
        Bench::Latency(args) => remote::latency::run(&args, ui)?,
        Bench::Tick(args) => tick::run(&args, ui)?,
        Bench::Topic(args) => topic::run(&args, ui)?,
        // Its report is for the process that started it.
        Bench::Worker { .. } => return Ok(()),
    };
    let machine = match report.machine() {
        Some(machine) => machine.to_string(),
        None => Machine::here().line(before, cross_core_round_trip_ns(), &remarks),
    };
    print(&report, &machine, ui)
}

fn print(report: &Report, machine: &str, ui: &Ui) -> Result<(), Failure> {
    if ui.json() {
        report.json(machine).iter().try_for_each(|row| ui.print_json(row))
    } else {
        ui.print(&report.table(machine))
    }
}
