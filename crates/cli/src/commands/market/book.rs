//! `tapedb book`: the book of a symbol at a time, live, and the checkpoints that make it quick.

use super::ladder::Shown;
use super::{failure, work};
use crate::args::{StreamArgs, open_stream};
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};
use tapedb_engine::{Database, Stream};
use tapedb_market_streams::{BookAt, CheckpointWriter, Every, LiveBook, Pass, StreamBooks};
use tapedb_schema::Timestamp;
use tapedb_terminal::{Failure, Ui, quantity};

/// How long is waited between two checks for Ctrl-C and the end of `--for`.
const WAIT: Duration = Duration::from_millis(100);
/// Shortest time between two ladders of --watch.
const REFRESH: Duration = Duration::from_millis(200);
/// Messages between two checks for Ctrl-C.
const STEP: u64 = 10_000;

/// Print the order book of a symbol at a time, from the messages of a stream.
///
/// A book is `good` where the venue's sequence numbers prove it, `seeded` where it is a snapshot with all changes since, and `unknown`
/// before the first snapshot and after a gap. With checkpoints (`tapedb book STREAM --checkpoint`), the stream STREAM.books, a book of any
/// time is quick; a checkpoint before which messages were deleted, rewritten or came late is not used.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    stream: StreamArgs,

    /// The symbol.
    #[arg(required_unless_present = "checkpoint", value_name = "SYMBOL")]
    symbol: Option<String>,

    /// The book after all messages up to this time, itself included [default: the last one].
    #[arg(long, value_parser = quantity::time, value_name = "TIME", allow_hyphen_values = true)]
    at: Option<Timestamp>,

    /// Levels of each side.
    #[arg(long, default_value_t = 10, value_name = "N")]
    depth: usize,

    /// Print the book again whenever it changes, until Ctrl-C.
    #[arg(long, conflicts_with_all = ["at", "checkpoint"])]
    watch: bool,

    /// Write checkpoints of all symbols' books into the stream STREAM.books, those that are not there yet.
    #[arg(long, conflicts_with_all = ["symbol", "at"])]
    checkpoint: bool,

    /// With --checkpoint: write one after this many messages of the stream, such as 100k, or after this time of the stream, such as 60s.
    #[arg(long, value_parser = every, default_value = "100k", value_name = "N|DURATION", requires = "checkpoint")]
    every: Every,

    /// With --checkpoint: go on with new messages, until Ctrl-C.
    #[arg(long, requires = "checkpoint")]
    live: bool,

    /// With --watch or --live: end after this time, for example 10s or 5m [default: run until Ctrl-C].
    #[arg(long = "for", value_parser = quantity::duration, value_name = "DURATION")]
    duration: Option<Duration>,
}

const EXAMPLES: &str = "\
Examples:
  tapedb book --db demo.tape feed AAAH4
  tapedb book --db demo.tape feed AAAH4 --at 2024-01-02T14:30:05Z --depth 5 --json
  tapedb book --db demo.tape feed --checkpoint --every 1M
  tapedb book --db demo.tape feed AAAH4 --watch --for 1m";

/// Parser of --every.
fn every(text: &str) -> Result<Every, String> {
    let messages = quantity::count(text).map(Every::Messages);
    let every = messages.or_else(|_| quantity::duration(text).map(Every::Time)).ok();
    let every = every.filter(|every| !matches!(every, Every::Messages(0) | Every::Time(Duration::ZERO)));
    every.ok_or_else(|| {
        format!("{text:?} is neither a number of messages, such as 100k, nor a duration, such as 60s")
    })
}

/// Prints the book, or writes checkpoints.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    let deadline = args.duration.map(|duration| Instant::now() + duration);
    if args.checkpoint {
        return checkpoint(&args, deadline, ui);
    }
    let db = if args.watch { args.stream.db.open_to_follow()? } else { args.stream.db.open_to_read()? };
    let stream = open_stream(&db, &args.stream.name, ui)?;
    let symbol = args.symbol.clone().unwrap_or_default();
    if !stream.symbols().contains(&symbol) && !args.watch {
        let what =
            format!("stream {:?} has no symbol {symbol:?}; `tapedb symbols` lists them", args.stream.name);
        return Err(Failure::new(what));
    }
    if args.watch {
        return watch(&args, &db, &stream, &symbol, deadline, ui);
    }
    at(&args, &db, &stream, &symbol, ui)
}

/// Prints the book at the time.
fn at(args: &Args, db: &Database, stream: &Stream, symbol: &str, ui: &Ui) -> Result<(), Failure> {
    let last = || Ok(stream.cursor().time_range()?.map_or(Timestamp(0), |(_, last)| last));
    let at = args.at.map_or_else(last, Ok::<_, Failure>)?;
    let found = work(ui, || stream.book_at(db, symbol, at))?;
    show(args, stream, symbol, &found, "", ui)
}

/// Prints a book, after `before`.
fn show(
    args: &Args,
    stream: &Stream,
    symbol: &str,
    found: &BookAt,
    before: &str,
    ui: &Ui,
) -> Result<(), Failure> {
    let shown = Shown::new(stream.name(), symbol, found, args.depth);
    if ui.json() { ui.print_json(&shown) } else { ui.print(&format!("{before}{}", shown.text())) }
}

/// Prints the book whenever it has changed.
fn watch(
    args: &Args,
    db: &Database,
    stream: &Stream,
    symbol: &str,
    deadline: Option<Instant>,
    ui: &Ui,
) -> Result<(), Failure> {
    let mut book = work(ui, || LiveBook::open(db, stream, symbol))?;
    // On a terminal, each ladder takes the place of the one before.
    let before = if io::stdout().is_terminal() && !ui.json() { "\x1b[H\x1b[2J" } else { "" };
    let mut is_new = true;
    loop {
        let begin = Instant::now();
        while work(ui, || book.advance())? {
            is_new = true;
            if begin.elapsed() > REFRESH {
                break;
            }
        }
        if is_new {
            show(args, stream, symbol, book.book(), before, ui)?;
        }
        let left = deadline.map_or(WAIT, |deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_zero() || ui.is_interrupted() {
            return ui.check_interrupt();
        }
        std::thread::sleep(if is_new { REFRESH.min(left) } else { Duration::ZERO });
        is_new = false;
        work(ui, || book.wait(left.min(WAIT)))?;
    }
}

/// Writes checkpoints, and with --live goes on.
fn checkpoint(args: &Args, deadline: Option<Instant>, ui: &Ui) -> Result<(), Failure> {
    // For reading first: this creates no database, and its error names what is missing.
    drop(args.stream.db.open_to_read()?.stream(&args.stream.name)?);
    let db = args.stream.db.open_to_write()?;
    let stream = open_stream(&db, &args.stream.name, ui)?;
    let mut writer = work(ui, || CheckpointWriter::open(&db, &stream, args.every))?;
    loop {
        let pass = writer.step(STEP).map_err(failure)?;
        let left = deadline.map_or(WAIT, |deadline| deadline.saturating_duration_since(Instant::now()));
        let is_over = if args.live { left.is_zero() } else { pass == Pass::UpToDate };
        if is_over || ui.is_interrupted() {
            break;
        }
        if pass == Pass::UpToDate {
            writer.wait(left.min(WAIT)).map_err(failure)?;
        }
    }
    let (messages, written) = (writer.messages(), writer.written());
    if ui.json() {
        ui.print_json(&serde_json::json!({ "messages": messages, "checkpoints": written }))?;
    } else {
        let name = tapedb_market_streams::checkpoints_of(stream.name());
        ui.print(&format!("{written} checkpoints of books written to {name}, of {messages} messages\n"))?;
    }
    ui.check_interrupt()
}
