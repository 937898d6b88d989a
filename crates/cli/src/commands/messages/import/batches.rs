//! `tapedb import` of Parquet and Arrow files: rows in time order become messages, with a schema from the files where the stream has none.

use super::args::{ARROW_ENDS, Args, PARQUET_ENDS, ends_with};
use super::bookkeeper::Bookkeeper;
use super::home::Home;
use super::identity::Identity;
use super::ledger::Ledger;
use super::plan::Plan;
use super::report::{FileReport, Outcome, print};
use super::transfer::{Transfer, stop};
use crate::args::open_stream;
use crate::input::confirm;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;
use tapedb_arrow::{AppendOptions, RowEncoder};
use tapedb_engine::{Database, Stream, StreamOptions};
use tapedb_parquet::{BatchFile, IpcFile, Merge, Origin, ParquetFile, Source, infer};
use tapedb_schema::{Schema, Timestamp};
use tapedb_terminal::ui::thousands;
use tapedb_terminal::{Failure, Ui};

/// Format of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Parquet,
    Arrow,
}

/// Messages between two checks for Ctrl-C and progress.
const CHECK_INTERVAL: u64 = 1024;

impl Format {
    /// Its name, also in the ledger.
    fn name(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Arrow => "arrow",
        }
    }

    /// How names of its files end, in folders.
    fn extensions(self) -> &'static [&'static str] {
        match self {
            Self::Parquet => PARQUET_ENDS,
            Self::Arrow => ARROW_ENDS,
        }
    }

    fn open(self, path: &Path) -> Result<BatchFile, tapedb_parquet::Error> {
        match self {
            Self::Parquet => ParquetFile::open(path).map(BatchFile::from),
            Self::Arrow => IpcFile::open(path).map(BatchFile::from),
        }
    }
}

/// A file to import.
struct Input {
    file: BatchFile,
    identity: Identity,
}

/// Imports files of record batches into one stream.
pub fn run(args: &Args, format: Format, ui: &Ui) -> Result<(), Failure> {
    let paths = discover(format, &args.paths)?;
    let open = |path: &PathBuf| {
        let file = format.open(path).map_err(failed)?;
        Ok(Input { file, identity: Identity::of(path, ui)? })
    };
    let mut inputs = paths.iter().map(open).collect::<Result<Vec<_>, Failure>>()?;
    let name = stream_name(args, &inputs)?;
    let stream = open_or_create(args, &name, &inputs, ui)?;
    // Before anything is written: a file that does not fit the stream is an error now.
    inputs.iter().try_for_each(|input| source(args, input, &stream).map(drop))?;
    let home = Home::of(args, &stream)?;
    let mut ledger = home.ledger()?;
    let files: Vec<Identity> = inputs.iter().map(|input| input.identity.clone()).collect();
    let mut plan = Plan::new(&files, format.name(), &ledger, args.again, stream.stats()?.next_sequence)?;
    plan.withdrawn.iter().try_for_each(|id| ledger.withdraw(*id))?;
    plan.abandoned.iter().try_for_each(|id| ledger.abandon(*id))?;
    plan.restore_order(&mut inputs, |input| &input.identity);
    let outcome = if plan.wanted.contains(&true) {
        transfer(args, format, &inputs, &plan, (&home, &mut ledger), &stream, ui)?
    } else {
        Outcome::default()
    };
    print(&name, &reports(&inputs, &plan, &outcome), &outcome, ui)
}

/// The files, and those of folders and of folders in them, by name.
fn discover(format: Format, paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    for path in paths {
        if path.is_dir() {
            let before = found.len();
            add_folder(format, path, &mut found)?;
            if found.len() == before {
                let ends: Vec<String> = format.extensions().iter().map(|end| format!("*.{end}")).collect();
                let (path, ends) = (path.display(), ends.join(" or "));
                return Err(Failure::new(format!("{path} has no files named {ends}")));
            }
        } else {
            found.push(path.clone());
        }
    }
    Ok(found)
}

fn add_folder(format: Format, folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let cannot = |error: std::io::Error| Failure::new(format!("cannot read {}: {error}", folder.display()));
    let entries = fs::read_dir(folder).map_err(cannot)?;
    let mut paths =
        entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>, std::io::Error>>().map_err(cannot)?;
    paths.sort();
    for path in paths {
        if path.is_symlink() && path.is_dir() {
            continue;
        }
        if path.is_dir() {
            add_folder(format, &path, found)?;
        } else if ends_with(&path, format.extensions()) {
            found.push(path);
        }
    }
    Ok(())
}

/// The stream of --stream, or the one that all files were exported from.
fn stream_name(args: &Args, inputs: &[Input]) -> Result<String, Failure> {
    if let Some(name) = &args.stream {
        return Ok(name.clone());
    }
    let mut names: Vec<Option<&str>> =
        inputs.iter().map(|input| input.file.origin().map(|origin| origin.stream.as_str())).collect();
    names.dedup();
    match names[..] {
        [Some(only)] => Ok(only.into()),
        _ => Err(Failure::usage(
            "the files are not of one stream of `tapedb export`; name the stream to write to with --stream",
        )),
    }
}

/// The stream; if it does not exist, with the schema of the files.
fn open_or_create(args: &Args, name: &str, inputs: &[Input], ui: &Ui) -> Result<Stream, Failure> {
    // Without a database there is no stream, and nothing is created before the schema is accepted.
    let known = args.db.open_to_read().and_then(|db| Ok(db.streams()?)).unwrap_or_default();
    if known.iter().any(|known| known == name) {
        return open_stream(&args.db.open_to_write()?, name, ui);
    }
    crate::creation::check(&args.db.db, args.creation.create)?;
    let (schema, is_inferred) = schema(args, name, inputs)?;
    if is_inferred {
        ui.note(&format!("schema of the new stream {name:?}:\n\n{schema}"));
        let question = format!("Create stream {name:?} with this schema");
        if !args.parquet.yes && !confirm(&question, &format!("stream {name:?}"), ui)? {
            return Err(Failure::new(
                "nothing was written; create the stream with the schema that you want, and import again",
            ));
        }
    }
    let db: Database = args.db.open_or_create(args.creation.create)?;
    Ok(db.create_stream(name, schema, StreamOptions::default())?)
}

/// The schema in the files, or that of their columns; and whether it is the latter.
fn schema(args: &Args, name: &str, inputs: &[Input]) -> Result<(Schema, bool), Failure> {
    let origins: Vec<Option<&Origin>> = inputs.iter().map(|input| input.file.origin()).collect();
    if let Some(Some(first)) = origins.first() {
        if origins.iter().any(|origin| origin.is_none_or(|origin| origin.schema != first.schema)) {
            return Err(Failure::new(
                "the files have different schemas; import them into streams of their own",
            ));
        }
        let path = inputs[0].file.path().display();
        let wrong = |error| Failure::new(format!("{path}: the schema in it is damaged: {error}"));
        return Ok((first.schema.parse().map_err(wrong)?, false));
    }
    let record = args.parquet.record.as_ref().ok_or_else(|| {
        Failure::usage(format!(
            "stream {name:?} does not exist; name the record type of its messages with --type"
        ))
    })?;
    let mut schemas = inputs.iter().map(|input| {
        let columns = input.file.schema();
        let found = infer::schema(columns, record, &args.parquet.time, &args.parquet.symbol);
        found.map_err(|what| Failure::new(format!("{}: {what}", input.file.path().display())))
    });
    let first = schemas.next().unwrap_or_else(|| Err(Failure::usage("name a file")))?;
    for (other, input) in schemas.zip(&inputs[1..]) {
        if other? != first {
            let (path, before) = (input.file.path().display(), inputs[0].file.path().display());
            return Err(Failure::new(format!(
                "{path} has other columns than {before}; import them one by one"
            )));
        }
    }
    Ok((first, true))
}

/// A file with its encoder for the stream.
fn source(args: &Args, input: &Input, stream: &Stream) -> Result<Source, Failure> {
    let origin = input.file.origin();
    let record = args.parquet.record.clone().or_else(|| origin.map(|origin| origin.record.clone()));
    let options = AppendOptions { record, naive_is_utc: args.parquet.naive_utc };
    let encoder = RowEncoder::new(stream.name(), stream.layouts(), &options);
    let encoder =
        encoder.map_err(|error| Failure::new(format!("{}: {error}", input.file.path().display())))?;
    let (time, symbol) = (args.parquet.time.clone(), args.parquet.symbol.clone());
    for name in [&time, &symbol] {
        if input.file.schema().index_of(name).is_err() {
            let path = input.file.path().display();
            return Err(Failure::usage(format!(
                "{path} has no column {name:?}; name the columns with --time and --symbol"
            )));
        }
    }
    Ok(Source { file: input.file.clone(), encoder, time, symbol })
}

fn transfer(
    args: &Args,
    format: Format,
    inputs: &[Input],
    plan: &Plan,
    (home, ledger): (&Home, &mut Ledger),
    stream: &Stream,
    ui: &Ui,
) -> Result<Outcome, Failure> {
    let start = Instant::now();
    let wanted: Vec<&Input> =
        inputs.iter().zip(&plan.wanted).filter(|(_, wanted)| **wanted).map(|(input, _)| input).collect();
    let files = wanted.iter().map(|input| input.identity.clone()).collect();
    let sources = wanted.iter().map(|input| source(args, input, stream)).collect::<Result<Vec<_>, _>>()?;
    let mut progress = ui.progress("importing", wanted.iter().map(|input| input.file.length()).sum());
    let (resumed, format) = (plan.resumed.as_ref(), format.name());
    let id = resumed.map(|import| import.id);
    let mut bookkeeper = Bookkeeper { home, ledger, stream, format, files, id };
    let mut transfer = Transfer::new(stream, resumed, home)?;
    let (mut merge, mut messages, mut total) = (Merge::new(sources), vec![0; wanted.len()], 0);
    let mut move_all = || {
        while let Some(row) = merge.next().map_err(|error| stopped(&error, total))? {
            // Only when there is a message: an unreadable file leaves no record.
            bookkeeper.begin()?;
            transfer.take_body(row.symbol, Timestamp(row.time), row.type_id, row.body)?;
            messages[row.source] += 1;
            total += 1;
            if total % CHECK_INTERVAL == 0 {
                progress.update(merge.advance(), total);
                ui.check_interrupt()?;
            }
        }
        Ok(())
    };
    if let Err(failure) = move_all() {
        return Err(stop(failure, &mut transfer, ui));
    }
    bookkeeper.begin()?;
    transfer.finish()?;
    bookkeeper.end(messages.iter().sum())?;
    let seconds = start.elapsed().as_secs_f64();
    Ok(Outcome { messages, found: transfer.found, seconds, ..Outcome::default() })
}

fn reports(inputs: &[Input], plan: &Plan, outcome: &Outcome) -> Vec<FileReport> {
    let mut counts = outcome.messages.iter();
    let report = |(input, wanted): (&Input, &bool)| FileReport {
        file: input.file.path().display().to_string(),
        bytes: input.identity.bytes,
        messages: if *wanted { counts.next().copied() } else { None },
    };
    inputs.iter().zip(&plan.wanted).map(report).collect()
}

fn failed(error: tapedb_parquet::Error) -> Failure {
    Failure::new(error.to_string())
}

fn stopped(error: &tapedb_parquet::Error, messages: u64) -> Failure {
    match messages {
        0 => Failure::new(format!("{error}; nothing was imported")),
        messages => Failure::new(format!(
            "{error}; {} messages before it are in the stream; repair the file, and delete the stream or continue with \
             --again import",
            thousands(messages)
        )),
    }
}
