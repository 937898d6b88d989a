//! `tapedb read`: print history.

use crate::args::{DatabaseArgs, LastValues, Selection, TimeRange};
use crate::output::{Format, Output, Totals, Writer, copy};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::thread::ScopedJoinHandle;
use std::time::Instant;
use tapedb_engine::{Cursor, CursorBuilder, Database, Stream};
use tapedb_terminal::{Failure, Ui, quantity, ui};

/// Maximum number of readers.
const READERS_MAX: u64 = 256;

/// Print messages of one stream, or of several merged by time.
///
/// Without further options: all messages, from the earliest to the latest, a line for each. Messages written during the command
/// are not included; see `tapedb tail`. All times are UTC.
///
/// csv: columns time, symbol and type (before them stream, if several are read), then the fields of the only record type or of that
/// in --types. Fields of nested records are columns field.name, and field.type if several types are possible. Each item of the first
/// array is a row; further arrays are JSON in one column.
///
#[cfg_attr(
    feature = "arrow",
    doc = "arrow: an Arrow IPC stream of one record type, in time order: columns time and symbol (and stream, if several are read),",
    doc = "then the fields. Nested records are structs.",
    doc = ""
)]
/// none: validates every message and prints counts, the rate, and a checksum: CRC-32C over, for each message in order,
/// its time (8 bytes, little-endian nanoseconds), symbol, record type's name, and body.
#[derive(clap::Args, Debug)]
#[command(after_long_help = [EXAMPLES, ARROW_EXAMPLE].concat())]
pub struct Args {
    #[command(flatten)]
    db: DatabaseArgs,

    #[command(flatten)]
    selection: Selection,

    #[command(flatten)]
    range: TimeRange,

    /// Only the last N messages, for example 10 or 500k; in time order, or with --reverse the latest first.
    #[arg(long, value_parser = quantity::count, value_name = "N", conflicts_with = "last_values")]
    last: Option<u64>,

    /// Begin with the message of this sequence number, and continue in order of arrival. One number for each space of each stream,
    /// for example 250 or 250,17.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "N",
        conflicts_with_all = ["reverse", "last", "last_values"]
    )]
    from_sequence: Vec<u64>,

    #[command(flatten)]
    last_values: LastValues,

    /// From the latest message to the earliest.
    #[arg(long)]
    reverse: bool,

    /// At most N messages, for example 10, 500k or 10M.
    #[arg(long, value_parser = quantity::count, value_name = "N")]
    limit: Option<u64>,

    /// Format of the output [default: the one of the name of --out; else text, json with --json].
    #[arg(long, value_enum, value_name = "FORMAT")]
    output: Option<Format>,

    /// Write to this new file instead of standard output. The extension implies the format: .csv, .json or .jsonl, .txt.
    #[cfg_attr(feature = "arrow", doc = ".arrow and .arrows imply arrow.")]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// With --output arrow, the type of decimal64 fields: float (the nearest), raw (lossless: the 64 bits), or digits and scale of an
    /// Arrow decimal, for example 18,4; a value that is not exact in it is an error [default: float].
    #[arg(long, value_name = "TYPE", hide = cfg!(not(feature = "arrow")))]
    decimals: Option<String>,

    /// Names of the columns in the first line of csv (the default).
    #[arg(long, overrides_with = "no_header")]
    header: bool,

    /// No names of columns.
    #[arg(long)]
    no_header: bool,

    /// With --output none: N readers at once, each reading all messages.
    #[arg(long, alias = "threads", value_parser = quantity::count, default_value = "1", value_name = "N")]
    readers: u64,
}

const EXAMPLES: &str = "\
Examples:
  tapedb read --db demo.tape feed --from 2024-01-02T14:30:05 --to 2024-01-02T14:30:06 --symbols AAAH4
  tapedb read --db demo.tape feed --last 1 --output json
  tapedb read --db demo.tape bars --from 2024-01-02 --out bars.csv
  tapedb read --db demo.tape feed --last-values --to 2024-01-02T15:00
  tapedb read --db demo.tape feed --output none --readers 2";
const ARROW_EXAMPLE: &str =
    if cfg!(feature = "arrow") { "\n  tapedb read --db demo.tape bars --out bars.arrows" } else { "" };

/// The result of `--output none`.
#[derive(Serialize)]
struct Summary {
    messages: u64,
    body_bytes: u64,
    checksum: String,
    types: BTreeMap<String, u64>,
    readers: u64,
    seconds: f64,
    messages_per_second: f64,
}

/// Reads.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    // With --json, `none` prints an object; every other format is unchanged.
    let format = args.format(ui)?;
    if format != Format::None && args.readers != 1 {
        return Err(Failure::usage("--readers is for measurements; use it with --output none"));
    }
    if !(1..=READERS_MAX).contains(&args.readers) {
        return Err(Failure::usage(format!("--readers {} is outside 1 to {READERS_MAX}", args.readers)));
    }
    if format != Format::Arrow && args.decimals.is_some() {
        return Err(Failure::usage(
            "--decimals is for --output arrow; other formats have decimals as they are",
        ));
    }
    let db = args.db.open_to_read()?;
    let streams = args.selection.open(&db, ui)?;
    if format == Format::None {
        measure(&args, &db, &streams, ui)?;
        return check_whole(&streams);
    }
    if format == Format::Arrow {
        write_arrow(&args, &db, &streams, ui)?;
        return check_whole(&streams);
    }
    let mut writer = Writer::new(format, &streams, &args.selection.types)?;
    let mut out = args.out.as_deref().map(Output::to_file).transpose()?.unwrap_or_default();
    if !args.no_header {
        writer.header(&mut out.buffer);
    }
    let mut cursor = args.cursor(&db)?.open()?;
    copy(&mut cursor, &mut writer, args.limit(), &mut out, ui)?;
    check_whole(&streams)
}

#[cfg(feature = "arrow")]
fn write_arrow(args: &Args, db: &Database, streams: &[Stream], ui: &Ui) -> Result<(), Failure> {
    use crate::output::arrow;
    use std::io::IsTerminal;
    if args.reverse || args.last.is_some() || !args.from_sequence.is_empty() || args.last_values.last_values {
        return Err(Failure::usage(
            "arrow is history in time order; leave out --reverse, --last, --from-sequence and --last-values",
        ));
    }
    if args.out.is_none() && std::io::stdout().is_terminal() {
        return Err(Failure::usage("arrow is not for terminals; redirect the output, or use --out FILE"));
    }
    let decimals = arrow::decimals(args.decimals.as_deref().unwrap_or("float")).map_err(Failure::usage)?;
    let mut out = args.out.as_deref().map(Output::to_file).transpose()?.unwrap_or_default();
    let cursor = args.cursor(db)?;
    arrow::write(streams, &args.selection.types, cursor, decimals, args.limit(), &mut out, ui)
}

#[cfg(not(feature = "arrow"))]
fn write_arrow(_: &Args, _: &Database, _: &[Stream], _: &Ui) -> Result<(), Failure> {
    Err(crate::args::not_built("arrow"))
}

/// Fails if messages were found unreadable when the streams were opened: cursors skip them.
fn check_whole(streams: &[Stream]) -> Result<(), Failure> {
    let is_lossy = |stream: &&Stream| stream.recovery().damaged().any(|damage| damage.count != Some(0));
    match streams.iter().find(is_lossy) {
        Some(stream) => Err(Failure::new(format!(
            "messages of stream {:?} cannot be read (see the warning); restore its files from a copy if you have \
             one",
            stream.name()
        ))),
        None => Ok(()),
    }
}

impl Args {
    fn cursor(&self, db: &Database) -> Result<CursorBuilder, Failure> {
        let mut cursor = self.range.of(self.last_values.of(self.selection.cursor(db)?)?);
        // Backwards, the last messages are the first ones: see `limit`.
        if let Some(last) = self.last.filter(|_| !self.reverse) {
            cursor = cursor.last(last);
        }
        if !self.from_sequence.is_empty() {
            cursor = cursor.from_sequences(self.from_sequence.iter().copied());
        }
        Ok(if self.reverse { cursor.reverse() } else { cursor })
    }

    fn limit(&self) -> u64 {
        let last = self.last.filter(|_| self.reverse);
        self.limit.unwrap_or(u64::MAX).min(last.unwrap_or(u64::MAX))
    }

    /// The format of --output, or of the file's extension; both must agree.
    fn format(&self, ui: &Ui) -> Result<Format, Failure> {
        let named = self.out.as_deref().and_then(Format::of_name);
        match (self.output, named, &self.out) {
            (Some(wanted), Some(named), Some(out)) if wanted != named => Err(Failure::usage(format!(
                "the name of {} implies {named}, and --output is {wanted}; change one of them",
                out.display()
            ))),
            (Some(format), _, _) | (None, Some(format), _) => Ok(format),
            (None, None, _) => Ok(Format::chosen(None, ui)),
        }
    }
}

/// Reads all messages with several readers at once, and prints the totals.
fn measure(args: &Args, db: &Database, streams: &[Stream], ui: &Ui) -> Result<(), Failure> {
    // Opened before any reader starts, so that all read the same messages.
    let cursors: Vec<Cursor> =
        (0..args.readers).map(|_| Ok(args.cursor(db)?.open()?)).collect::<Result<_, Failure>>()?;
    let start = Instant::now();
    let totals = std::thread::scope(|scope| {
        let read = |cursor| scope.spawn(move || total(args, cursor, streams, ui));
        let readers: Vec<_> = cursors.into_iter().map(read).collect();
        let join = |reader: ScopedJoinHandle<'_, _>| reader.join().unwrap_or_else(|_| Err(crashed()));
        readers.into_iter().map(join).collect::<Result<Vec<Totals>, Failure>>()
    })?;
    print(&totals, start.elapsed().as_secs_f64(), ui)
}

fn total(args: &Args, mut cursor: Cursor, streams: &[Stream], ui: &Ui) -> Result<Totals, Failure> {
    let mut writer = Writer::new(Format::None, streams, &[])?;
    copy(&mut cursor, &mut writer, args.limit(), &mut Output::default(), ui)?;
    match writer {
        Writer::None(counter) => Ok(counter.totals()),
        _ => Err(crashed()),
    }
}

fn crashed() -> Failure {
    Failure::new("a reader crashed; please report this with what it printed")
}

fn print(totals: &[Totals], seconds: f64, ui: &Ui) -> Result<(), Failure> {
    let Some(first) = totals.first() else { return Ok(()) };
    if totals.iter().any(|other| other != first) {
        return Err(Failure::new(
            "the readers disagree: a writer added late messages during the run; try again when it pauses",
        ));
    }
    let Totals { messages, body_bytes, checksum, types } = first.clone();
    let readers = totals.len() as u64;
    let messages_per_second = ui::per_second(messages * readers, seconds);
    let checksum = format!("{checksum:08x}");
    if ui.json() {
        let summary =
            Summary { messages, body_bytes, checksum, types, readers, seconds, messages_per_second };
        return ui.print_json(&summary);
    }
    let mut text = format!("messages  {}\n", ui::thousands(messages));
    for (name, count) in &types {
        text.push_str(&format!("  {name}  {}\n", ui::thousands(*count)));
    }
    text.push_str(&format!("bodies    {}\nchecksum  {checksum}\n", ui::bytes(body_bytes)));
    let (rate, noun) =
        (ui::rate(messages * readers, seconds), if readers == 1 { "reader" } else { "readers" });
    text.push_str(&format!("rate      {rate} ({readers} {noun}, {seconds:.3} s)\n"));
    ui.print(&text)
}
