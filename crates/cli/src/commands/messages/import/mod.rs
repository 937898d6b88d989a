//! `tapedb import`: files of venues and vendors into a stream.

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
    Beside, Counters, Format, FxProvider, ImportError, ImportOptions, Merge, OnBadLine, SourceFile,
    UnknownFormat, discover,
};
use tapedb_market::{MarkPrice, Package, TradeCondition};
use tapedb_schema::{Schema, TimeUnit};
use tapedb_terminal::{Failure, Ui, quantity, ui};
use transfer::Transfer;

/// Messages between two looks at Ctrl-C and progress.
const CHECK_INTERVAL: u64 = 1024;

/// Import files of venues and vendors, merged by time.
///
/// Reads files, and folders through and through, and writes one `Package` for each row. The stream is made if it is
/// not there. (Mark prices, and conditions of trades that are longer than eight characters, are messages of types of their own,
/// which streams made for binance-raw-ws have.) A file is open only while its day is read, so memory does not grow with the days; files whose names tell
/// no day, such as HistData's, are all open at once.
///
/// The stream remembers which files it has, by their content. A file that it has is refused unless --again says
/// otherwise. An import that was cut short, by Ctrl-C, a bad line or a crash, is gone on with where it stopped when
/// the same files are imported again, in whatever order: nothing is missing and nothing comes twice.
///
/// Into a stream behind a server the same is true of one user's imports on one machine: there it is remembered in a folder of
/// this machine (--ledgers), not beside the stream.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    db: DatabaseArgs,

    #[command(flatten)]
    creation: CreateArgs,

    /// The stream to write to. Of kdb+'s files: the stream of the one table in them, or what the names of their streams
    /// begin with, as in STREAM/quote [default: the table's name].
    #[arg(long)]
    stream: Option<String>,

    /// What the files are: us-equity-ticks (zipped CSV), fx-ticks (zipped or gzipped CSV), binance-raw-ws (gzip), kdb-log
    /// (logs of a tickerplant), kdb-splayed (folders of splayed tables) or kdb-hdb (databases partitioned by date).
    #[arg(long, value_name = "FORMAT")]
    format: AnyFormat,

    /// Files, or folders with files of the format.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,

    /// What to do with files that the stream has already.
    #[arg(long, value_enum, default_value_t = Again::Refuse)]
    again: Again,

    /// What to do at a line that cannot be read, or whose row no stream could hold. Damaged and cut files always stop.
    #[arg(long, value_enum, default_value_t = BadLine::Stop)]
    on_bad_line: BadLine,

    /// Bad lines of one file that are passed over with --on-bad-line skip before it stops.
    #[arg(long, value_parser = quantity::count, default_value = "1000", value_name = "N")]
    bad_lines_max: u64,

    /// Who made the FX quotes: fxcm, oanda or histdata [default: what the folders' names tell].
    #[arg(long, value_name = "NAME")]
    fx_provider: Option<FxProvider>,

    /// Zone of the times in FX files: local time minus UTC in seconds [default: the provider's].
    #[arg(long, value_name = "SECONDS", allow_hyphen_values = true)]
    fx_utc_offset_seconds: Option<i32>,

    /// Symbol of the FX quotes [default: what the file's name tells].
    #[arg(long, value_name = "SYMBOL")]
    fx_symbol: Option<String>,

    /// What the times of receipt in captures (binance-raw-ws) count since 1970: s, ms, us or ns [default: the unit in which the
    /// first time of a file is not before 1973].
    #[arg(long, value_name = "UNIT")]
    time_unit: Option<TimeUnit>,

    /// Of kdb+'s files only these tables, for example trade,quote [default: all].
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    tables: Vec<String>,

    /// Date of the times of day in kdb+'s files [default: that of the partition's folder, or at the end of the log's name].
    #[arg(long, value_name = "DATE")]
    date: Option<String>,

    /// Folder in which it is remembered what was imported into streams behind servers [default: ~/.tapedb_imports].
    #[arg(long, value_name = "DIR")]
    ledgers: Option<PathBuf>,

    /// Names and types of the columns in a kdb+ log, which may not tell them: a sym.q, or a schema.
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

/// What files are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AnyFormat {
    /// Of venues and vendors: packages.
    Market(Format),
    /// Of kdb+: tables.
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

/// What to do with files that the stream has already.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// Import nothing
    Refuse,
    /// Pass over them
    Skip,
    /// Import them once more; also gives up an import that was cut short
    Import,
}

#[derive(ValueEnum, Debug, Clone, Copy)]
enum BadLine {
    /// Stop; what came before stays
    Stop,
    /// Pass over it and count it
    Skip,
}

/// Files as given, each with its content and its readers.
struct Input {
    path: PathBuf,
    identity: Identity,
    sources: Vec<SourceFile>,
}

impl Input {
    /// Whether the source is another member of this file, not the same file once more.
    fn goes_on_with(&self, source: &SourceFile) -> bool {
        self.path == source.path() && self.sources.iter().all(|known| known.member() != source.member())
    }
}

/// Imports.
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
    order_as_begun(&mut inputs, &mut plan);
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

/// Puts the members of a zip file together, and reads every file through for its checksum.
fn identify(found: Vec<SourceFile>, ui: &Ui) -> Result<Vec<Input>, Failure> {
    let mut inputs: Vec<Input> = Vec::new();
    for source in found {
        match inputs.last_mut().filter(|input| input.goes_on_with(&source)) {
            Some(input) => input.sources.push(source),
            None => {
                let identity = Identity::of(source.path(), ui)?;
                inputs.push(Input { path: source.path().into(), identity, sources: vec![source] });
            }
        }
    }
    Ok(inputs)
}

/// Puts the files of an import that is gone on with into the order in which it began: the order decides between
/// messages of the same time. Files that are passed over stay as they are, behind them.
fn order_as_begun(inputs: &mut Vec<Input>, plan: &mut Plan) {
    let Some(import) = &plan.resumed else { return };
    let place = |input: &Input| import.files.iter().position(|file| file.same_content(&input.identity));
    let mut pairs: Vec<(Input, bool)> = inputs.drain(..).zip(plan.wanted.drain(..)).collect();
    pairs.sort_by_key(|(input, _)| place(input).unwrap_or(usize::MAX));
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

/// The record types that files of a format have.
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

/// What a transfer came to.
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

/// Tells the ledger of an import.
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
    /// To be called before a message is written; notes that the import begins, if that has not been noted.
    #[inline]
    fn begin(&mut self) -> Result<(), Failure> {
        if self.id.is_some() { Ok(()) } else { self.begin_now() }
    }

    #[cold]
    fn begin_now(&mut self) -> Result<(), Failure> {
        // Everything before is on disk first: a power cut must not move the place where this import begins.
        self.home.sync()?;
        let first_sequence = self.stream.stats()?.next_sequence;
        self.id = Some(self.ledger.begin(first_sequence, self.format, &self.files)?);
        Ok(())
    }

    /// To be called after the last message is written; notes that the import is complete.
    fn end(&mut self, messages: u64) -> Result<(), Failure> {
        self.home.sync()?;
        self.id.map_or(Ok(()), |id| self.ledger.end(id, messages))
    }
}

/// Moves all messages; counts those of each source, and those that the stream has no record type for.
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
        // Not before there is a message: a file that cannot be read at all leaves no trace.
        bookkeeper.begin()?;
        let refusal = match row.beside {
            None => transfer.take(row.symbol, row.time, &package)?,
            Some(Beside::MarkPrice(mark)) => transfer.take(row.symbol, row.time, mark)?,
            Some(Beside::TradeCondition(condition)) => transfer.take(row.symbol, row.time, condition)?,
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

/// Keeps what has been taken when an import ends early; gives what to report.
fn stop(failure: Failure, transfer: &mut Transfer, ui: &Ui) -> Failure {
    if let Err(failure) = transfer.flush() {
        return failure;
    }
    if matches!(failure, Failure::Interrupted { .. }) {
        let messages = transfer.found + transfer.appended;
        ui.note(&format!("{messages} messages imported; import the same files again to go on"));
    }
    failure
}

fn stopped(error: &ImportError, messages: u64) -> Failure {
    let what_now = match error {
        ImportError::Line { .. } => "to go on, import the same files again with --on-bad-line skip",
        _ => "fetch the file anew; delete the stream, or go on with --again import",
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
                "{}: the file does not tell its {what}; say it with --{option}",
                path.display()
            ))
        }
        error => Failure::new(error.to_string()),
    }
}
