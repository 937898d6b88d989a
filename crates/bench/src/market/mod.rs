//! Market data: an update of a book by price, of one by order, of the best over venues; the book of a symbol at a time; imports; replays.

mod at;
mod books;
mod generate;
mod import;
mod numbers;
mod replay;
mod socket;
mod source;
mod tally;

use crate::report::Report;
use crate::storage::Scratch;
use std::path::PathBuf;
use tapedb_terminal::{Failure, Ui, quantity::count};

/// Order books, imports, replays: an update, the book at any time, a message of a file, of a replay
///
/// `market.book.l2` and `market.book.l3` are the whole way of a decoded message: decimals to integers, sequence numbers and states, the
/// book, the best over venues; for each change of a level or an order. `market.import.…` has the rates of `decode`, files to records, of
/// `book`, with a book by order, and of an import until the last message is acknowledged (`rate`), and until all is sealed (`sealed`).
/// `market.replay.topic` is a replay at full speed into a topic until its subscriber has all, `market.replay.websocket` one to a client that asks
/// for trades and changes of books, `market.replay.error` how late messages are in
/// one at 1x, from the instant at which they are due until they are published. Cases of recorded data are left out without --data. Books
/// are compared with those of another builder, imports with what the files contain, what subscribers and clients of replays
/// receive with what they must.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Messages of the stream of the case `market.book_at`, such as 20M
    #[arg(long, value_name = "N", default_value = "20M", value_parser = count)]
    messages: u64,
    /// Messages of the stream between two checkpoints
    #[arg(long, value_name = "N", default_value = "100k", value_parser = count)]
    every: u64,
    /// Generated messages of the other cases
    #[arg(long, value_name = "N", default_value = "500k", value_parser = count)]
    updates: u64,
    /// Messages of the generated files of imports; frames of Binance are a tenth of it
    #[arg(long, value_name = "N", default_value = "2M", value_parser = count)]
    imports: u64,
    /// Messages of the case `market.replay.error`, on average 900 µs apart
    #[arg(long, value_name = "N", default_value = "5k", value_parser = count)]
    paced: u64,
    /// Runs of each case; the median counts
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Directory for the database, which is removed afterwards
    #[arg(long, value_name = "DIR", default_value = "bench.tapedb", value_parser = tapedb_terminal::location::local)]
    db: PathBuf,
    /// Folder with recorded market data (binance-raw-ws, dbn)
    #[arg(long, value_name = "DIR", env = "TAPEDB_DATA")]
    data: Option<PathBuf>,
}

/// Runs the benchmark.
pub fn run(args: &Args, ui: &Ui) -> Result<Report, Failure> {
    let mut report = Report::new("market");
    let scratch = Scratch::new(&args.db)?;
    let imports = import::inputs(args.imports, &args.db, args.data.as_deref())?;
    let replays = replay::inputs(args, &scratch)?;
    let cases = source::cases(args.updates, args.data.as_deref())?;
    for run in 0..args.runs {
        ui.note(&format!("run {} of {}", run + 1, args.runs));
        for case in &cases {
            ui.check_interrupt()?;
            books::measure(case, &mut report)?;
        }
        books::nbbo(args.updates, &mut report)?;
        import::measure(&imports, &scratch, &mut report, ui)?;
        replay::measure(&replays, &scratch.db, &mut report, ui)?;
    }
    at::measure(args, &scratch, &mut report, ui)?;
    Ok(report)
}
