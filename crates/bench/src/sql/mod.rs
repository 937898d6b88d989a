//! SQL: as-of and window joins, bars, last values, sums, and one hour of one symbol, from segments; and live buckets.

mod cases;
mod found;
mod history;
mod live;
mod market;

use crate::report::Report;
use crate::storage::Scratch;
use cases::{Case, Kind};
use history::History;
use live::Live;
use market::Market;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};
use tapedb_engine::Database;
use tapedb_query::Sql;
use tapedb_terminal::{
    Failure, Ui,
    quantity::{count, duration},
};

/// SQL: as-of and window joins, bars, last values, sums, one hour of one symbol; live buckets
///
/// A case is the time from a query's text to the last of its rows, which are kept; all messages are in segments, and each query has run
/// once before. What is found must be what a loop finds in the messages that were loaded. A case runs on one core, and with the suffix `.2`
/// on two. The case of recorded data is left out without --data. The case `sql.live` is a query on one core for buckets of a second, while the
/// stream is written: how many milliseconds after the end of its bucket a row is printed, where messages are due at a fixed rate.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Bars that are summed up, such as 20M or 500k
    #[arg(long, value_name = "N", default_value = "20M", value_parser = count)]
    messages: u64,
    /// Generated trades
    #[arg(long, value_name = "N", default_value = "1M", value_parser = count)]
    trades: u64,
    /// Generated quotes
    #[arg(long, value_name = "N", default_value = "5.3M", value_parser = count)]
    quotes: u64,
    /// Messages of which an hour of one symbol is wanted
    #[arg(long, value_name = "N", default_value = "100M", value_parser = count)]
    history: u64,
    /// Symbols of the trades, quotes and the history
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    symbols: u32,
    /// Messages a second of the live stream
    #[arg(long, value_name = "N", default_value = "1M", value_parser = count)]
    live_rate: u64,
    /// How long the live stream is written in each run
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    live_time: Duration,
    /// Runs of each case; the median counts
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Numbers of threads, each on as many cores
    #[arg(long, value_name = "N,…", default_value = "1,2", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=64))]
    threads: Vec<u32>,
    /// Cases to measure
    #[arg(long, value_name = "CASE,…", value_delimiter = ',')]
    only: Vec<Kind>,
    /// Directory for the database, which is removed afterwards
    #[arg(long, value_name = "DIR", default_value = "bench.tapedb", value_parser = tapedb_terminal::location::local)]
    db: PathBuf,
    /// Keep the database, for queries by hand
    #[arg(long)]
    keep: bool,
    /// Folder with recorded market data (us-equity-ticks); without it its case is left out
    #[arg(long, value_name = "DIR", env = "TAPEDB_DATA")]
    data: Option<PathBuf>,
}

impl Args {
    fn wants(&self, kind: Kind) -> bool {
        self.only.is_empty() || self.only.contains(&kind)
    }
}

/// Runs the benchmark.
pub fn run(args: &Args, ui: &Ui) -> Result<Report, Failure> {
    let scratch = Scratch::new(&args.db)?;
    let cases = load(args, &scratch.db, ui)?;
    let mut report = Report::new("sql");
    // The first run is not counted.
    for run in 0..=args.runs {
        ui.note(&format!("run {run} of {}", args.runs));
        let mut warm = Report::new("sql");
        let report = if run == 0 { &mut warm } else { &mut report };
        for threads in &args.threads {
            on_cores(*threads, || measure(&cases, &scratch.db, *threads, report, ui))?;
        }
        if run > 0 && args.wants(Kind::Live) {
            ui.check_interrupt()?;
            let live = Live::new(args.live_rate, args.live_time, args.symbols);
            live.run(&scratch.db, report, ui, |query| on_cores(1, query))?;
        }
    }
    if args.keep {
        scratch.keep();
    }
    Ok(report)
}

/// Loads what the wanted cases read, and computes what they must find.
fn load(args: &Args, db: &Database, ui: &Ui) -> Result<Vec<Case>, Failure> {
    let mut cases = Vec::new();
    if args.wants(Kind::AsofReal)
        && let Some(data) = &args.data
        && let Some(market) = Market::recorded(data, ui)?
    {
        market.load(db, "_real", ui)?;
        cases.push(Case::asof(Kind::AsofReal, &market, "_real"));
    }
    let of_market = [Kind::Asof100, Kind::Ohlcv, Kind::Last, Kind::Window];
    if of_market.iter().any(|kind| args.wants(*kind)) {
        let market = Market::generated(args.symbols, args.trades, args.quotes);
        market.load(db, "", ui)?;
        let made = [
            Case::asof(Kind::Asof100, &market, ""),
            Case::ohlcv(&market),
            Case::last(&market),
            Case::window(&market),
        ];
        cases.extend(made.into_iter().filter(|case| args.wants(case.kind)));
    }
    if args.wants(Kind::Sum) {
        let bars = History::bars();
        bars.load(db, "bars", args.messages, ui)?;
        cases.push(Case::sum(&bars, args.messages));
    }
    if args.wants(Kind::Hour) {
        let history = History::seconds(args.symbols);
        history.load(db, "history", args.history, ui)?;
        cases.push(Case::hour(&history, args.history));
    }
    Ok(cases)
}

/// Runs each case once.
fn measure(cases: &[Case], db: &Database, threads: u32, report: &mut Report, ui: &Ui) -> Result<(), Failure> {
    let options = tapedb_query::Options { threads: Some(threads as usize), ..Default::default() };
    let sql = Sql::with_options(db, options).map_err(cases::failed)?;
    for case in cases {
        ui.check_interrupt()?;
        let started = Instant::now();
        let rows = sql.query(&case.query).map_err(cases::failed)?;
        let batches = rows.collect::<Result<Vec<_>, _>>().map_err(cases::failed)?;
        let time = started.elapsed();
        case.check(&batches)?;
        let suffix = if threads == 1 { String::new() } else { format!(".{threads}") };
        case.report(&suffix, time, report);
    }
    Ok(())
}

/// Runs work in a thread of its own: for one thread on one core, where the system allows it. Threads inherit the core of the one that
/// starts them.
fn on_cores(threads: u32, work: impl FnOnce() -> Result<(), Failure> + Send) -> Result<(), Failure> {
    let pinned = move || {
        if threads == 1 {
            let cores = thread::available_parallelism().map_or(1, usize::from);
            let _ = (0..cores).any(|core| tapedb_shm::pin_to_core(core).is_ok());
        }
        work()
    };
    thread::scope(|scope| {
        let ended = |_| Err(Failure::new("a thread of the benchmark panicked; see its message above"));
        scope.spawn(pinned).join().unwrap_or_else(ended)
    })
}
