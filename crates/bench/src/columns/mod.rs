//! Columns in and out: sums of all fields, Arrow record batches, sizes, and rows beside them; generated bars, recorded quotes and
//! books, a generated level-2 feed; embedded and through a server.

mod bars;
mod batches;
mod feed;
mod quotes;
mod remote;
mod sum;

use crate::pool::{bars_pool, feed_pool};
use crate::report::Report;
use crate::storage::Scratch;
use std::path::PathBuf;
use tapedb_terminal::{Failure, Ui, quantity::count};

/// Columns in and out, by symbol and in time order; Arrow record batches; a level-2 feed
///
/// Bars have six columns with the time and a symbol, recorded quotes nine. Each case reads every field of every message, and its counts and
/// sums must be those that were written. Cases of recorded data are left out without --data.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Bars, such as 20M or 500k; of the feed there is a quarter as many messages
    #[arg(long, value_name = "N", default_value = "20M", value_parser = count)]
    messages: u64,
    /// Symbols of the bars
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    symbols: u32,
    /// Runs of each case; the median counts
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Cases to measure, by their content: bars, quotes, book, feed, remote
    #[arg(long, value_name = "GROUP,…", value_delimiter = ',')]
    only: Vec<Group>,
    /// Directory for the database, which is removed afterwards
    #[arg(long, value_name = "DIR", default_value = "bench.tapedb", value_parser = tapedb_terminal::location::local)]
    db: PathBuf,
    /// Folder with recorded market data (us-equity-ticks, binance-raw-ws); without it quotes and book are left out
    #[arg(long, value_name = "DIR", env = "TAPEDB_DATA")]
    data: Option<PathBuf>,
}

/// Cases that are measured together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Group {
    /// Generated bars.
    Bars,
    /// Recorded quotes.
    Quotes,
    /// Recorded captures of order books.
    Book,
    /// Generated level-2 packages.
    Feed,
    /// Bars and the feed through a server.
    Remote,
}

impl Args {
    fn wants(&self, group: Group) -> bool {
        self.only.is_empty() || self.only.contains(&group)
    }
}

/// Runs the benchmark.
pub fn run(args: &Args, ui: &Ui) -> Result<Report, Failure> {
    let (bars, feed) = (bars_pool(args.symbols), feed_pool(args.messages)?);
    let mut report = Report::new("columns");
    for run in 0..args.runs {
        ui.note(&format!("run {} of {}", run + 1, args.runs));
        let scratch = Scratch::new(&args.db)?;
        if args.wants(Group::Bars) {
            bars::measure(&scratch, &bars, args.messages, &mut report, ui)?;
        }
        if args.wants(Group::Feed) {
            feed::measure(&scratch, &feed, args.messages, &mut report, ui)?;
        }
        if let Some(data) = &args.data {
            if args.wants(Group::Quotes) {
                quotes::measure(&scratch, data, &mut report, ui)?;
            }
            if args.wants(Group::Book) {
                quotes::book(&scratch, data, &mut report, ui)?;
            }
        }
        drop(scratch);
        if args.wants(Group::Remote) {
            remote::measure(&args.db, (&bars, &feed), args.messages, &mut report, ui)?;
        }
    }
    Ok(report)
}
