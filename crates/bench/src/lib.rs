//! The benchmarks behind `tapedb bench`: medians with their spread, and outputs that are checked.
//!
//! A benchmark is a module with `Args` and `run`, which returns a report. `worker` starts this program again for each process of a
//! benchmark; `jobs` runs what it does there.

pub mod codec;
mod columns;
mod content;
mod fields;
mod gateways;
mod jobs;
mod machine;
mod market;
mod pool;
#[cfg(feature = "publish")]
mod publish;
mod remote;
mod report;
mod scale;
mod series;
#[cfg(feature = "sql")]
mod sql;
mod storage;
mod svg;
mod tick;
mod tier;
mod topic;
mod worker;

use machine::{Machine, cross_core_round_trip_ns};
use report::Report;
use tapedb_terminal::{Failure, Ui, awake};

/// Measure TapeDB on this machine
///
/// Every figure is the median of several interleaved runs whose output was checked: counts and sums of all fields. The machine
/// line has the round trip between two cores before and after; compare only runs where it agrees.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Debug, clap::Subcommand)]
enum Bench {
    Codec(codec::Args),
    Storage(storage::Args),
    Columns(columns::Args),
    Market(market::Args),
    Gateways(gateways::Args),
    #[cfg(feature = "publish")]
    Publish(publish::Args),
    #[cfg(feature = "sql")]
    Sql(sql::Args),
    Read(remote::read::Args),
    Live(remote::live::Args),
    Latency(remote::latency::Args),
    Scale(scale::Args),
    Tier(tier::Args),
    Tick(tick::Args),
    Topic(topic::Args),
    /// A worker process of a benchmark
    #[command(hide = true)]
    Worker {
        /// Its job, in JSON
        job: String,
    },
}

impl Bench {
    /// Whether processors are kept awake during the run.
    fn keeps_awake(&self) -> bool {
        match self {
            Self::Latency(args) => args.keeps_awake(),
            Self::Tick(args) => args.keeps_awake(),
            _ => false,
        }
    }

    /// Conditions of the run that the names of cases do not show.
    fn remarks(&self) -> Vec<&'static str> {
        match self {
            Self::Tick(args) => args.remarks(),
            _ => Vec::new(),
        }
    }
}

/// Runs a benchmark and prints its report.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    // Under valgrind only the laps: no probe and no report.
    if let Bench::Codec(args) = &args.bench
        && let Some(laps) = args.laps()
    {
        return codec::run_laps(args, laps);
    }
    if let Bench::Storage(args) = &args.bench
        && let Some(result) = storage::run_stage(args, ui)
    {
        return result;
    }
    if let Bench::Worker { job } = &args.bench {
        return jobs::run(job, ui);
    }
    let before = cross_core_round_trip_ns();
    let awake = awake::keep(args.bench.keeps_awake())?;
    let mut remarks = args.bench.remarks();
    remarks.extend(awake.as_ref().map(awake::remark));
    let report = match args.bench {
        Bench::Codec(args) => codec::run(&args, ui)?,
        Bench::Storage(args) => storage::run(args, ui)?,
        Bench::Columns(args) => columns::run(&args, ui)?,
        Bench::Market(args) => market::run(&args, ui)?,
        Bench::Gateways(args) => gateways::run(&args, ui)?,
        #[cfg(feature = "publish")]
        Bench::Publish(args) => publish::run(&args, ui)?,
        #[cfg(feature = "sql")]
        Bench::Sql(args) => sql::run(&args, ui)?,
        Bench::Read(args) => remote::read::run(&args, ui)?,
        Bench::Live(args) => remote::live::run(&args, ui)?,
        Bench::Latency(args) => remote::latency::run(&args, ui)?,
        Bench::Scale(args) => scale::run(&args, ui)?,
        Bench::Tier(args) => tier::run(&args, ui)?,
        Bench::Tick(args) => tick::run(&args, ui)?,
        Bench::Topic(args) => topic::run(&args, ui)?,
        // Handled above: a worker reports to the process that started it.
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
