//! Loading, sealing, opening and reading, embedded: generated bars and level-2 feed, recorded data if available, single durable
//! messages, and how costs grow.

mod cold;
mod merge;
mod read;
mod recorded;
mod scale;
mod scratch;
mod sealed;
mod stages;
mod steps;
mod sync;

use super::report::Report;
use crate::pool::{bars_pool, feed_pool};
use scratch::Scratch;
use std::path::PathBuf;
use tapedb_terminal::{Failure, Ui, quantity::count};

/// Loading and reading rates, bytes per message, times to open
///
/// Reads touch every field in place, without validation; `tapedb read --output none` measures reading with validation.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Messages of each generated case, such as 20M or 500k
    #[arg(long, value_name = "N", default_value = "20M", value_parser = count)]
    messages: u64,
    /// Runs of each case; the median counts
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Numbers of messages to show how loading, opening, reading and memory grow; the largest also names the cases without a
    /// number
    #[arg(long, value_name = "N,…", default_value = "1M,10M,100M", value_delimiter = ',', value_parser = count)]
    scale: Vec<u64>,
    /// Symbols, of which one is read from the largest number of messages
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    symbols: u32,
    /// Cases to measure, by the groups main, load.sealed (a part of main, alone), feed, sync, recorded, scale, symbol, merge
    #[arg(long, value_name = "GROUP,…", value_delimiter = ',')]
    only: Vec<Group>,
    /// Directory for the database, which is removed afterwards
    #[arg(long, value_name = "DIR", default_value = "bench.tapedb", value_parser = tapedb_terminal::location::local)]
    db: PathBuf,
    /// Folder with recorded market data (us-equity-ticks, binance-raw-ws, …); without it those cases are skipped
    #[arg(long, value_name = "DIR", env = "TAPEDB_DATA")]
    data: Option<PathBuf>,
    /// Stage of a worker process
    #[arg(long, hide = true)]
    stage: Option<stages::Stage>,
}

/// Cases that are measured together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Group {
    /// Bars: load, seal, read as rows and as columns, size; again in the cold tier.
    Main,
    /// Only the load of bars, until all are sealed: on two threads, and on one core.
    #[value(name = "load.sealed")]
    Sealed,
    /// Generated level-2 feed: load, seal, read as rows, size.
    Feed,
    /// Single durable messages.
    Sync,
    /// Recorded data.
    Recorded,
    /// How costs grow.
    Scale,
    /// One symbol out of many.
    Symbol,
    /// Thousands of streams, merged.
    Merge,
}

impl Args {
    /// The stage, if this is a worker process.
    pub fn stage(&self) -> Option<stages::Task> {
        let task = |stage| stages::Task { stage, db: self.db.clone(), messages: self.messages };
        self.stage.map(task)
    }

    fn wants(&self, group: Group) -> bool {
        self.only.is_empty() || self.only.contains(&group)
    }
}

/// Runs the benchmark.
pub fn run(args: Args, ui: &Ui) -> Result<Report, Failure> {
    let scratch = Scratch::new(&args.db)?;
    let (bars, feed) = (bars_pool(10), feed_pool(args.messages)?);
    let mut report = Report::new("storage");
    for run in 0..args.runs {
        ui.note(&format!("run {} of {}", run + 1, args.runs));
        if args.wants(Group::Main) {
            read::bars(&scratch, &bars, args.messages, &mut report, ui)?;
        } else if args.wants(Group::Sealed) {
            sealed::measure(&scratch, &bars, args.messages, &mut report, ui)?;
        }
        if args.wants(Group::Main) || args.wants(Group::Sealed) {
            sealed::on_one_core(&args.db, &bars, args.messages, &mut report, ui)?;
        }
        if args.wants(Group::Feed) {
            read::feed(&scratch, &feed, args.messages, &mut report, ui)?;
        }
        if args.wants(Group::Sync) {
            sync::measure(&scratch, &bars, args.messages, &mut report, ui)?;
        }
        if let Some(data) = args.data.as_ref().filter(|_| args.wants(Group::Recorded)) {
            for set in &recorded::SETS {
                recorded::measure(&scratch, set, data, &mut report, ui)?;
            }
        }
    }
    if args.wants(Group::Scale) {
        scale::measure(&args, &mut report, ui)?;
    }
    if args.wants(Group::Symbol) {
        scale::symbol(&args, &mut report, ui)?;
    }
    if args.wants(Group::Merge) {
        merge::measure(&args, &mut report, ui)?;
    }
    Ok(report)
}
