//! `tapedb import`: import files of venues and vendors into a stream.

mod home;
mod identity;
mod kdb;
mod ledger;
mod plan;
mod report;
mod transfer;

use crate::args::{DatabaseArgs, open_stream};
use crate::creation::CreateArgs;
use clap::ValueEnum;
use home::Home;
use identity::Identity;
pub use ledger::{LEDGER_FILE, Ledger};
use plan::Plan;
use report::{FileReport, file_reports, print};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Instant;
use tapedb_codec::SchemaBuilder;
use tapedb_engine::{Database, Stream, StreamOptions};
use tapedb_market::import::{
    Counters, Format, FxProvider, ImportError, ImportOptions, Merge, OnBadLine, OtherRecord, SourceFile,
    UnknownFormat, discover,
};
use tapedb_market::{MarkPrice, Package, TradeCondition};
use tapedb_schema::{Schema, TimeUnit};
use tapedb_terminal::{Failure, Ui, quantity, ui};
use transfer::Transfer;

/// Messages between two checks for Ctrl-C and progress.
const CHECK_INTERVAL: u64 = 1024;

/// Import files of venues and vendors, merged by time.
///
/// Reads files, and folders recursively, and writes one `Package` for each row. The stream is created if it does not exist. (Mark
/// prices, and trade conditions longer than eight characters, are messages of separate types, which streams created for
/// binance-raw-ws have.) A file is open only while its day is read, so memory does not grow with the number of days; files without
/// a day in their name, such as HistData's, are all open at once.
///
/// The stream records which files it has, by their content. A file that it has is refused unless --again is given. An import that
/// was interrupted, by Ctrl-C, a bad line or a crash, continues where it stopped when the same files are imported again, in any
/// order: no message is lost or duplicated.
///
/// For a stream of a server this holds for one user's imports on one machine: the record is in a folder of this machine
/// (--ledgers), not beside the stream.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    db: DatabaseArgs,

    #[command(flatten)]
    creation: CreateArgs,

    /// The stream to write to. For kdb+ files: the stream of their only table, or the prefix of the streams' names, as in
    /// STREAM/quote [default: the table's name].
    #[arg(long)]
    stream: Option<String>,

    /// Format of the files: us-equity-ticks (zipped CSV), fx-ticks (zipped or gzipped CSV), binance-raw-ws (gzip), kdb-log
    /// (logs of a tickerplant), kdb-splayed (folders of splayed tables) or kdb-hdb (databases partitioned by date).
    #[arg(long, value_name = "FORMAT")]
    format: AnyFormat,

    /// Files, or folders with files of the format.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// What to do with files that the stream already has.
    #[arg(long, value_enum, default_value_t = Again::Refuse)]
    again: Again,

    /// What to do with a line that cannot be read, or whose row no stream can hold. Damaged and truncated files always stop the
    /// import.
    #[arg(long, value_enum, default_value_t = BadLine::Stop)]
    on_bad_line: BadLine,

    /// Bad lines of one file that --on-bad-line skip skips before the import stops.
    #[arg(long, value_parser = quantity::count, default_value = "1000", value_name = "N")]
    bad_lines_max: u64,

    /// Provider of the FX quotes: fxcm, oanda or histdata [default: from the folders' names].
    #[arg(long, value_name = "NAME")]
    fx_provider: Option<FxProvider>,

    /// Zone of the times in FX files: local time minus UTC in seconds [default: the provider's].
    #[arg(long, value_name = "SECONDS", allow_hyphen_values = true)]
    fx_utc_offset_seconds: Option<i32>,

    /// Symbol of the FX quotes [default: from the file's name].
    #[arg(long, value_name = "SYMBOL")]
    fx_symbol: Option<String>,

    /// Unit of the receive times in captures (binance-raw-ws): s, ms, us or ns since 1970 [default: the unit in which the first time
    /// of a file is not before 1973].
    #[arg(long, value_name = "UNIT")]
    time_unit: Option<TimeUnit>,

    /// Only these tables of kdb+ files, for example trade,quote [default: all].
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    tables: Vec<String>,

    /// Date of the times of day in kdb+ files [default: from the partition's folder, or from the end of the log's name].
    #[arg(long, value_name = "DATE")]
    date: Option<String>,

    /// Folder for the records of imports into streams of servers [default: ~/.tapedb_imports].
    #[arg(long, value_name = "DIR")]
    ledgers: Option<PathBuf>,

    /// Names and types of the columns of a kdb+ log, which may lack them: a sym.q, or a schema.
    #[arg(long, value_name = "FILE")]
    schema: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  tapedb import --db ticks.tape --create --stream us --format us-equity-ticks us-equity-ticks/
  tapedb import --db ticks.tape --stream eurusd --format fx-ticks fxcm-eurusd/*.zip --again skip
  tapedb import --db tape://loader@ticks:7847 --stream us --format us-equity-ticks us-equity-ticks/
  tapedb import --db ticks.tape --stream tp --format kdb-log --schema sym.q tplog/sym2022.06.16
  tapedb import --db ticks.tape --format kdb-hdb --tables trade,quote hdb/";

/// Format of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AnyFormat {
    /// Files of venues and vendors: packages.
    Market(Format),
    /// Files of kdb+: tables.
    Kdb(tapedb_tick::kdb::import::Format),
}

impl FromStr for AnyFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let kdb = tapedb_tick::kdb::import::Format::ALL;
        if let Some(format) = kdb.into_iter().find(|format| format.name() == text) {
            return Ok(Self::Kdb(format));
        }
        let names = || kdb.map(|format| format.name()).join(", ");
        text.parse().map(Self::Market).map_err(|error: UnknownFormat| format!("{error}, {}", names()))
    }
}

/// What to do with files that the stream already has.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// Import nothing
    Refuse,
    /// Skip them
    Skip,
    /// Import them once more; also abandons an interrupted import
    Import,
}

#[derive(ValueEnum, Debug, Clone, Copy)]
enum BadLine {
    /// Stop; messages before it stay
    Stop,
    /// Skip it and count it
    Skip,
}

/// A file to import, with its content and its readers.
struct Input {
    path: PathBuf,
    identity: Identity,
    sources: Vec<SourceFile>,
}

impl Input {
    /// Whether the source is another member of this file, not the same file a second time.
    fn has_member(&self, source: &SourceFile) -> bool {
        self.path == source.path() && self.sources.iter().all(|known| known.member() != source.member())
    }
}

/// Runs `tapedb import`.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    Home::check(&args)?;
    match args.format {
        AnyFormat::Market(format) => packages(&args, format, ui),
        AnyFormat::Kdb(format) => kdb::run(&args, format, ui),
    }
}

/// Imports files of venues and vendors.
fn packages(args: &Args, format: Format, ui: &Ui) -> Result<(), Failure> {
    let name =
        args.stream.as_ref().ok_or_else(|| Failure::usage("name the stream to write to with --stream"))?;
    let options = args.options();
    let found = discover(format, &args.paths, &options).map_err(|error| failed(&error))?;
    let mut inputs = identify(found, ui)?;
    let db = args.db.open_or_create(args.creation.create)?;
    let stream = open(&db, name, format, ui)?;
    let home = Home::of(args, &stream)?;
    let mut ledger = home.ledger()?;
    let mut plan = plan(args.again, format, &inputs, &mut ledger, &stream)?;
    restore_order(&mut inputs, &mut plan);
    if !plan.wanted.contains(&true) {
        return print(name, &file_reports(&inputs, &plan, &Outcome::default()), &Outcome::default(), ui);
    }
    let outcome = transfer(format, &inputs, &plan, (&home, &mut ledger), &stream, ui)?;
    print(name, &file_reports(&inputs, &plan, &outcome), &outcome, ui)
}

impl Args {
    fn options(&self) -> ImportOptions {
        ImportOptions {
            on_bad_line: match self.on_bad_line {
                BadLine::Stop => OnBadLine::Stop,
                BadLine::Skip => OnBadLine::Skip(self.bad_lines_max),
            },
            fx_provider: self.fx_provider,
            fx_utc_offset_seconds: self.fx_utc_offset_seconds,
            fx_symbol: self.fx_symbol.clone(),
            receive_time_unit: self.time_unit,
        }
    }
}

/// Groups the members of each zip file, and reads every file for its checksum.
fn identify(found: Vec<SourceFile>, ui: &Ui) -> Result<Vec<Input>, Failure> {
    let mut inputs: Vec<Input> = Vec::new();
    for source in found {
        match inputs.last_mut().filter(|input| input.has_member(&source)) {
            Some(input) => input.sources.push(source),
            None => {
                let identity = Identity::of(source.path(), ui)?;
                inputs.push(Input { path: source.path().into(), identity, sources: vec![source] });
            }
        }
    }
    Ok(inputs)
}

/// Sorts the files of a resumed import into their first order, which decides the order of messages with equal times. Skipped files
/// follow in their order.
fn restore_order(inputs: &mut Vec<Input>, plan: &mut Plan) {
    let Some(import) = &plan.resumed else { return };
    let index = |input: &Input| import.files.iter().position(|file| file.same_content(&input.identity));
    let mut pairs: Vec<(Input, bool)> = inputs.drain(..).zip(plan.wanted.drain(..)).collect();
    pairs.sort_by_key(|(input, _)| index(input).unwrap_or(usize::MAX));
    (*inputs, plan.wanted) = pairs.into_iter().unzip();
}

fn open(db: &Database, name: &str, format: Format, ui: &Ui) -> Result<Stream, Failure> {
    let stream = if db.streams()?.iter().any(|known| known == name) {
        open_stream(db, name, ui)?
    } else {
        db.create_stream(name, schema(format), StreamOptions::default())?
    };
    stream.type_id_of::<Package>()?;
    Ok(stream)
}

/// The record types of a format.
fn schema(format: Format) -> Schema {
    let packages = SchemaBuilder::new().with::<Package>();
    match format {
        Format::BinanceRawWs => packages.with::<MarkPrice>().with::<TradeCondition>().finish(),
        _ => packages.finish(),
    }
}

fn plan(
    again: Again,
    format: Format,
    inputs: &[Input],
    ledger: &mut Ledger,
    stream: &Stream,
) -> Result<Plan, Failure> {
    let files: Vec<Identity> = inputs.iter().map(|input| input.identity.clone()).collect();
    let next_sequence = stream.stats()?.next_sequence;
    let plan = Plan::new(&files, format.name(), ledger, again, next_sequence)?;
    plan.withdrawn.iter().try_for_each(|id| ledger.withdraw(*id))?;
    plan.abandoned.iter().try_for_each(|id| ledger.abandon(*id))?;
    Ok(plan)
}

/// Result of a transfer.
#[derive(Default)]
struct Outcome {
    /// Messages of each source wanted, in the order of the inputs.
    messages: Vec<u64>,
    found: u64,
    bad_lines: u64,
    ignored: BTreeMap<String, u64>,
    guessed_units: Vec<&'static str>,
    seconds: f64,
}

/// Writes the wanted files into the stream.
fn transfer(
    format: Format,
    inputs: &[Input],
    plan: &Plan,
    (home, ledger): (&Home, &mut Ledger),
    stream: &Stream,
    ui: &Ui,
) -> Result<Outcome, Failure> {
    let start = Instant::now();
    let wanted = || inputs.iter().zip(&plan.wanted).filter(|(_, wanted)| **wanted).map(|(input, _)| input);
    let mut merge = Merge::new(wanted().flat_map(|input| input.sources.clone()).collect());
    let files = wanted().map(|input| input.identity.clone()).collect();
    let resumed = plan.resumed.as_ref();
    let (format, id) = (format.name(), resumed.map(|import| import.id));
    let mut bookkeeper = Bookkeeper { home, ledger, stream, format, files, id };
    let mut transfer = Transfer::new(stream, resumed, home)?;
    let mut messages = vec![0; merge.files().len()];
    let mut refused = BTreeMap::new();
    let moved = move_all(&mut merge, &mut transfer, &mut bookkeeper, &mut messages, &mut refused, ui);
    if let Err(failure) = moved {
        return Err(stop(failure, &mut transfer, ui));
    }
    bookkeeper.begin()?;
    transfer.finish()?;
    bookkeeper.end(messages.iter().sum())?;
    let Counters { bad_lines, unknown_kinds: mut ignored, guessed_units, .. } = merge.counters();
    ignored.extend(refused);
    let seconds = start.elapsed().as_secs_f64();
    let guessed_units = guessed_units.into_iter().collect();
    Ok(Outcome { messages, found: transfer.found, bad_lines, ignored, guessed_units, seconds })
}

/// Records an import in the ledger.
struct Bookkeeper<'a> {
    home: &'a Home,
    ledger: &'a mut Ledger,
    stream: &'a Stream,
    format: &'static str,
    files: Vec<Identity>,
    /// The import's number, once it has begun.
    id: Option<u64>,
}

impl Bookkeeper<'_> {
    /// Called before each message is written; records the start of the import once.
    #[inline]
    fn begin(&mut self) -> Result<(), Failure> {
        if self.id.is_some() { Ok(()) } else { self.begin_now() }
    }

    #[cold]
    fn begin_now(&mut self) -> Result<(), Failure> {
        // Syncs first: a power cut must not change the sequence number at which this import begins.
        self.home.sync()?;
        let first_sequence = self.stream.stats()?.next_sequence;
        self.id = Some(self.ledger.begin(first_sequence, self.format, &self.files)?);
        Ok(())
    }

    /// Called after the last message is written; records that the import is complete.
    fn end(&mut self, messages: u64) -> Result<(), Failure> {
        self.home.sync()?;
        self.id.map_or(Ok(()), |id| self.ledger.end(id, messages))
    }
}

/// Moves all messages; counts them by source, and those whose record type the stream does not have.
fn move_all(
    merge: &mut Merge,
    transfer: &mut Transfer,
    bookkeeper: &mut Bookkeeper<'_>,
    messages: &mut [u64],
    refused: &mut BTreeMap<String, u64>,
    ui: &Ui,
) -> Result<(), Failure> {
    let mut progress = ui.progress("importing", merge.progress().1);
    let (mut package, mut total) = (Package::default(), 0);
    while let Some(row) = merge.next(&mut package).map_err(|error| stopped(&error, total))? {
        // Only when there is a message: an unreadable file leaves no record.
        bookkeeper.begin()?;
        let refusal = match row.other {
            None => transfer.take(row.symbol, row.time, &package)?,
            Some(OtherRecord::MarkPrice(mark)) => transfer.take(row.symbol, row.time, mark)?,
            Some(OtherRecord::TradeCondition(condition)) => transfer.take(row.symbol, row.time, condition)?,
        };
        match refusal {
            None => messages[row.source] += 1,
            Some(kind) => *refused.entry(kind).or_default() += 1,
        }
        total += 1;
        if total % CHECK_INTERVAL == 0 {
            progress.update(merge.progress().0, total);
            ui.check_interrupt()?;
        }
    }
    Ok(())
}

/// Stores the messages taken when an import ends early; returns the failure to report.
fn stop(failure: Failure, transfer: &mut Transfer, ui: &Ui) -> Failure {
    if let Err(failure) = transfer.flush() {
        return failure;
    }
    if matches!(failure, Failure::Interrupted { .. }) {
        let messages = transfer.found + transfer.appended;
        ui.note(&format!("{messages} messages imported; import the same files again to continue"));
    }
    failure
}

fn stopped(error: &ImportError, messages: u64) -> Failure {
    let what_now = match error {
        ImportError::Line { .. } => "to continue, import the same files again with --on-bad-line skip",
        _ => "download the file again; delete the stream, or continue with --again import",
    };
    let so_far = format!("{} messages before it are in the stream", ui::thousands(messages));
    let what_now =
        if messages == 0 { "nothing was imported".into() } else { format!("{so_far}; {what_now}") };
    Failure::new(format!("{error}; {what_now}"))
}

fn failed(error: &ImportError) -> Failure {
    match error {
        ImportError::NeedsOption { path, what, option } => {
            let option = option.replace('_', "-");
            Failure::usage(format!(
                "{}: the file does not contain its {what}; give it with --{option}",
                path.display()
            ))
        }
        error => Failure::new(error.to_string()),
    }
}
