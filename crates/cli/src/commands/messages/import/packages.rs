//! `tapedb import` of files of venues and vendors: rows become packages.

use super::args::{ARROW_ENDS, Again, AnyFormat, Args, BadLine, PARQUET_ENDS, ends_with};
use super::bookkeeper::Bookkeeper;
use super::home::Home;
use super::identity::Identity;
use super::ledger::Ledger;
use super::plan::Plan;
use super::report::{Checks, FileReport, Outcome, print};
use super::transfer::{Transfer, stop};
use crate::args::open_stream;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;
use tapedb_codec::Record;
use tapedb_engine::{Database, Stream, StreamOptions};
use tapedb_market::Package;
use tapedb_schema::Timestamp;
use tapedb_terminal::{Failure, Ui, ui};
use tapedb_venue::{
    AnyRecord, Counters, Format, ImportError, ImportOptions, Merge, OnBadLine, SourceFile, Visitor, detect,
    discover,
};

/// Messages between two checks for Ctrl-C and progress.
const CHECK_INTERVAL: u64 = 1024;

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

/// Imports files of venues and vendors.
pub fn run(args: &Args, format: Format, ui: &Ui) -> Result<(), Failure> {
    let name =
        args.stream.as_ref().ok_or_else(|| Failure::usage("name the stream to write to with --stream"))?;
    let options = options_of(args);
    let found = discover(format, &args.paths, &options).map_err(|error| failed(&error))?;
    let mut inputs = identify(found, ui)?;
    let db = args.db.open_or_create(args.creation.create)?;
    let stream = open(&db, name, format, ui)?;
    let home = Home::of(args, &stream)?;
    let mut ledger = home.ledger()?;
    let mut plan = plan(args.again, format, &inputs, &mut ledger, &stream)?;
    plan.restore_order(&mut inputs, |input| &input.identity);
    if !plan.wanted.contains(&true) {
        return print(name, &file_reports(&inputs, &plan, &Outcome::default()), &Outcome::default(), ui);
    }
    let outcome = transfer(format, &inputs, &plan, (&home, &mut ledger), &stream, ui)?;
    print(name, &file_reports(&inputs, &plan, &outcome), &outcome, ui)
}

/// The format of the files, where none is named.
pub fn detect_format(args: &Args) -> Result<AnyFormat, Failure> {
    let all = |ends: &[&str], magic: &[u8]| {
        args.paths.iter().all(|path| ends_with(path, ends) || begins_with(path, magic))
    };
    if all(PARQUET_ENDS, b"PAR1") {
        return Ok(AnyFormat::Parquet);
    }
    if all(ARROW_ENDS, b"ARROW1") {
        return Ok(AnyFormat::Arrow);
    }
    match detect(&args.paths, &options_of(args)) {
        Ok(format) => Ok(AnyFormat::Market(format)),
        // Names of formats of vendors come first.
        Err(ImportError::WrongFormat { .. }) if args.paths.iter().all(|path| is_table(path)) => {
            Ok(AnyFormat::Table)
        }
        Err(error) => Err(failed(&error)),
    }
}

/// Whether a file has these first bytes.
fn begins_with(path: &Path, magic: &[u8]) -> bool {
    let mut bytes = vec![0; magic.len()];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut bytes));
    read.is_ok() && bytes == magic
}

/// Whether a file's name says that it is CSV.
fn is_table(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    path.is_file() && [".csv", ".csv.gz", ".csv.zip"].iter().any(|end| name.ends_with(end))
}

fn options_of(args: &Args) -> ImportOptions {
    ImportOptions {
        on_bad_line: match args.on_bad_line {
            BadLine::Stop => OnBadLine::Stop,
            BadLine::Skip => OnBadLine::Skip(args.bad_lines_max),
        },
        fx_provider: args.fx_provider,
        fx_utc_offset_seconds: args.fx_utc_offset_seconds,
        fx_symbol: args.fx_symbol.clone(),
        receive_time_unit: args.time_unit,
        round_numbers: args.round_numbers,
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

fn open(db: &Database, name: &str, format: Format, ui: &Ui) -> Result<Stream, Failure> {
    let stream = if db.streams()?.iter().any(|known| known == name) {
        open_stream(db, name, ui)?
    } else {
        db.create_stream(name, format.schema(), StreamOptions::default())?
    };
    match format {
        // Streams of these may be from before there were other record types: messages of those are counted.
        Format::UsEquityTicks | Format::FxTicks | Format::BinanceRawWs => {
            stream.type_id_of::<Package>().map(|_| ())?
        }
        _ => refuse_missing_types(&stream, format)?,
    }
    Ok(stream)
}

/// Refuses a stream that lacks record types of the format: nothing is left out unnoticed.
fn refuse_missing_types(stream: &Stream, format: Format) -> Result<(), Failure> {
    let known = stream.schema();
    let needed = format.schema();
    let missing: Vec<&str> = needed
        .records
        .iter()
        .filter(|record| record.message && known.record(&record.name).is_none())
        .map(|record| record.name.as_str())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!(
        "stream {:?} lacks the record types {} of {format}; import into a new stream, or add them with `tapedb alter`",
        stream.name(),
        missing.join(", ")
    )))
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
    let counters = merge.counters();
    let checks = Checks::of(&counters);
    let Counters { bad_lines, unknown_kinds: mut ignored, control_kinds: control, guessed_units, .. } =
        counters;
    ignored.extend(refused);
    let seconds = start.elapsed().as_secs_f64();
    let guessed_units = guessed_units.into_iter().collect();
    let found = transfer.found;
    Ok(Outcome { messages, found, bad_lines, ignored, control, checks, guessed_units, seconds })
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
    let (mut record, mut total) = (AnyRecord::default(), 0);
    while let Some(row) = merge.next(&mut record).map_err(|error| stopped(&error, total))? {
        // Only when there is a message: an unreadable file leaves no record.
        bookkeeper.begin()?;
        let take = Take { transfer: &mut *transfer, symbol: row.symbol, time: row.time };
        match record.visit(take)? {
            None => messages[row.source] += 1,
            Some(kind) => *refused.entry(kind).or_default() += 1,
        }
        total += 1;
        if total % CHECK_INTERVAL == 0 {
            progress.update(merge.progress().0, total);
            ui.check_interrupt()?;
        }
    }
    progress.update(merge.progress().0, total);
    Ok(())
}

/// Gives a row to a transfer.
struct Take<'a> {
    transfer: &'a mut Transfer,
    symbol: &'a str,
    time: Timestamp,
}

impl Visitor for Take<'_> {
    type Output = Result<Option<String>, Failure>;

    #[inline]
    fn visit<R: Record + 'static>(self, record: &R) -> Self::Output {
        self.transfer.take(self.symbol, self.time, record)
    }
}

fn stopped(error: &ImportError, messages: u64) -> Failure {
    let what_now = match error {
        ImportError::Line { .. } | ImportError::Record { .. } => {
            "to continue, import the same files again with --on-bad-line skip"
        }
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

/// The result for each file, from the counts of the sources.
fn file_reports(inputs: &[Input], plan: &Plan, outcome: &Outcome) -> Vec<FileReport> {
    let mut counts = outcome.messages.iter();
    let mut of = |input: &Input| counts.by_ref().take(input.sources.len()).sum();
    let report = |(input, wanted): (&Input, &bool)| FileReport {
        file: input.path.display().to_string(),
        bytes: input.identity.bytes,
        messages: wanted.then(|| of(input)),
    };
    inputs.iter().zip(&plan.wanted).map(report).collect()
}
