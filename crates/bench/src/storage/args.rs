//! Arguments of the benchmark.

use std::path::PathBuf;
use tapedb_terminal::quantity::count;

/// Loading and reading rates, bytes per message, times to open
///
/// Reads touch every field in place, without validation; `tapedb read --output none` measures reading with validation.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Messages of each generated case, such as 20M or 500k
    #[arg(long, value_name = "N", default_value = "20M", value_parser = count)]
    pub messages: u64,
    /// Runs of each case; the median counts
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// Numbers of messages to show how loading, opening, reading and memory grow; the largest also names the cases without a
    /// number
    #[arg(long, value_name = "N,…", default_value = "1M,10M,100M", value_delimiter = ',', value_parser = count)]
    pub scale: Vec<u64>,
    /// Symbols, of which one is read from the largest number of messages
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub symbols: u32,
    /// Cases to measure, by the groups main, load.sealed (a part of main, alone), load.columns, feed, sync, recorded, scale, symbol, merge
    #[arg(long, value_name = "GROUP,…", value_delimiter = ',')]
    pub only: Vec<Group>,
    /// Directory for the database, which is removed afterwards
    #[arg(long, value_name = "DIR", default_value = "bench.tapedb", value_parser = tapedb_terminal::location::local)]
    pub db: PathBuf,
    /// Folder with recorded market data (us-equity-ticks, binance-raw-ws, …); without it those cases are skipped
    #[arg(long, value_name = "DIR", env = "TAPEDB_DATA")]
    pub data: Option<PathBuf>,
    /// Stage of a worker process
    #[arg(long, hide = true)]
    pub stage: Option<Stage>,
}

/// What a worker process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Stage {
    /// Load, report, and wait to be killed.
    Load,
    /// Seal all messages.
    Seal,
    /// Read all messages, and report the peak memory.
    Read,
    /// Read all streams merged, and report the peak memory and microseconds.
    Merge,
}

/// Cases that are measured together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Group {
    /// Bars: load, seal, read as rows and as columns, size; again in the cold tier.
    Main,
    /// Only the load of bars, until all are sealed: on two threads, and on one core.
    #[value(name = "load.sealed")]
    Sealed,
    /// Bars, loaded as columns.
    #[value(name = "load.columns")]
    Columns,
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
    /// Whether a group is selected.
    pub fn wants(&self, group: Group) -> bool {
        self.only.is_empty() || self.only.contains(&group)
    }
}
