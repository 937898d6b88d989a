//! `tapedb import` of CSV: rows become messages of one record type, with a schema from the rows where the stream has none.

use super::args::{Args, BadLine};
use super::bookkeeper::Bookkeeper;
use super::home::Home;
use super::identity::Identity;
use super::ledger::Ledger;
use super::plan::Plan;
use super::report::{FileReport, Outcome, print};
use super::transfer::{Transfer, stop};
use crate::args::open_stream;
use crate::input::confirm;
use std::collections::BTreeSet;
use std::time::Instant;
use tapedb_codec::dynamic::Layouts;
use tapedb_engine::{Stream, StreamOptions};
use tapedb_schema::Schema;
use tapedb_terminal::{Failure, Ui, ui::thousands};
use tapedb_venue::{
    ImportError, OnBadLine, TableFile, TableOptions, TableRows, TableSymbol, find_tables, infer_schema,
};

/// Name of the format in the ledger.
pub const FORMAT: &str = "csv";
/// Record type of a new stream, unless --type names another.
const RECORD: &str = "Row";
/// Messages between two checks for Ctrl-C and progress.
const CHECK_INTERVAL: u64 = 1024;

/// A file to import, with its tables: a zip file may have several.
struct Input {
    tables: Vec<TableFile>,
    identity: Identity,
}

/// Imports CSV into one stream.
pub fn run(args: &Args, ui: &Ui) -> Result<(), Failure> {
    let options = options(args)?;
    let name =
        args.stream.as_ref().ok_or_else(|| Failure::usage("name the stream to write to with --stream"))?;
    let tables = find_tables(&args.paths).map_err(failed)?;
    let Some(stream) = open_or_create(args, name, (&tables, &options), ui)? else { return Ok(()) };
    let type_id = type_id(args, stream.layouts())?;
    // Before anything is written: a file that does not fit the stream is an error now.
    let open = |table: &TableFile| {
        TableRows::open(table, &options, (stream.layouts(), type_id), on_bad_line(args)).map_err(failed)
    };
    tables.iter().try_for_each(|table| open(table).map(drop))?;
    if args.table.dry_run {
        return ui.print(&format!("{} tables fit stream {name:?}; nothing was written\n", tables.len()));
    }
    let mut inputs = identify(tables, ui)?;
    let home = Home::of(args, &stream)?;
    let mut ledger = home.ledger()?;
    let files: Vec<Identity> = inputs.iter().map(|input| input.identity.clone()).collect();
    let mut plan = Plan::new(&files, FORMAT, &ledger, args.again, stream.stats()?.next_sequence)?;
    plan.withdrawn.iter().try_for_each(|id| ledger.withdraw(*id))?;
    plan.abandoned.iter().try_for_each(|id| ledger.abandon(*id))?;
    plan.restore_order(&mut inputs, |input| &input.identity);
    let outcome = if plan.wanted.contains(&true) {
        transfer(&inputs, &plan, (&home, &mut ledger), (&stream, type_id), open, ui)?
    } else {
        Outcome::default()
    };
    print(name, &reports(&inputs, &plan, &outcome), &outcome, ui)
}

fn options(args: &Args) -> Result<TableOptions, Failure> {
    let renamed = args.table.map.iter().map(|pair| {
        let (column, field) = pair.rsplit_once('=').ok_or_else(|| {
            Failure::usage(format!("--map {pair:?}: write COLUMN=FIELD, or COLUMN= to leave the column out"))
        })?;
        Ok((column.to_string(), field.to_string()))
    });
    let delimiter = match args.table.delimiter.as_str() {
        "tab" => b'\t',
        text if text.len() == 1 => text.as_bytes()[0],
        _ => return Err(Failure::usage("--delimiter is one character of ASCII, or tab")),
    };
    let zone = args.table.zone.clone().or_else(|| args.parquet.naive_utc.then(|| "UTC".into()));
    Ok(TableOptions {
        time: args.parquet.time.clone(),
        date: args.table.date_column.clone(),
        time_unit: args.time_unit,
        zone,
        symbol: match &args.table.symbol_is {
            Some(symbol) => TableSymbol::All(symbol.clone()),
            None => TableSymbol::Column(args.parquet.symbol.clone()),
        },
        renamed: renamed.collect::<Result<_, Failure>>()?,
        columns: (!args.table.columns.is_empty()).then(|| args.table.columns.clone()),
        delimiter,
    })
}

fn on_bad_line(args: &Args) -> OnBadLine {
    match args.on_bad_line {
        BadLine::Stop => OnBadLine::Stop,
        BadLine::Skip => OnBadLine::Skip(args.bad_lines_max),
    }
}

/// The stream; if it does not exist, with the schema of the first file. `None`: it would be created, but for --dry-run.
fn open_or_create(
    args: &Args,
    name: &str,
    (tables, options): (&[TableFile], &TableOptions),
    ui: &Ui,
) -> Result<Option<Stream>, Failure> {
    // Without a database there is no stream, and nothing is created before the schema is accepted.
    let known = args.db.open_to_read().and_then(|db| Ok(db.streams()?)).unwrap_or_default();
    if known.iter().any(|known| known == name) {
        return open_stream(&args.db.open_to_write()?, name, ui).map(Some);
    }
    if !args.table.dry_run {
        crate::creation::check(&args.db.db, args.creation.create)?;
    }
    let schema = schema(args, tables, options)?;
    ui.note(&format!("schema of the new stream {name:?}:\n\n{schema}"));
    if args.table.dry_run {
        ui.note("nothing was written");
        return Ok(None);
    }
    let question = format!("Create stream {name:?} with this schema");
    if !args.parquet.yes && !confirm(&question, &format!("stream {name:?}"), ui)? {
        return Err(Failure::new(
            "nothing was written; create the stream with the schema that you want, and import again",
        ));
    }
    let db = args.db.open_or_create(args.creation.create)?;
    Ok(Some(db.create_stream(name, schema, StreamOptions::default())?))
}

/// The schema that the files show, which is the same for all of them.
fn schema(args: &Args, tables: &[TableFile], options: &TableOptions) -> Result<Schema, Failure> {
    let record = args.parquet.record.as_deref().unwrap_or(RECORD);
    let mut schemas = tables.iter().map(|table| infer_schema(table, options, record).map_err(failed));
    let first = schemas.next().unwrap_or_else(|| Err(Failure::usage("name a file")))?;
    for (other, table) in schemas.zip(&tables[1..]) {
        if other? != first {
            return Err(Failure::new(format!(
                "{} has other columns, or other types in them, than {}; create the stream first, or import them one by one",
                table.path().display(),
                tables[0].path().display()
            )));
        }
    }
    Ok(first)
}

/// The record type of the rows.
fn type_id(args: &Args, layouts: &Layouts) -> Result<u16, Failure> {
    let records = layouts.records().iter().enumerate().filter(|(_, record)| record.message);
    let wanted = |name: &str| args.parquet.record.as_deref().is_none_or(|wanted| wanted == name);
    let found: Vec<(u16, &str)> = records
        .filter(|(_, record)| wanted(&record.name))
        .map(|(id, record)| (id as u16, record.name.as_str()))
        .collect();
    match found[..] {
        [(id, _)] => Ok(id),
        [] => Err(Failure::usage("the stream has no such record type; `tapedb desc` shows them")),
        _ => {
            let names: Vec<&str> = found.iter().map(|(_, name)| *name).collect();
            Err(Failure::usage(format!("name the record type of the rows with --type: {}", names.join(", "))))
        }
    }
}

/// Groups the members of each zip file, and reads every file for its checksum.
fn identify(tables: Vec<TableFile>, ui: &Ui) -> Result<Vec<Input>, Failure> {
    let mut inputs: Vec<Input> = Vec::new();
    for table in tables {
        match inputs.last_mut().filter(|input| table.is_further_member(&input.tables)) {
            Some(input) => input.tables.push(table),
            None => inputs.push(Input { identity: Identity::of(table.path(), ui)?, tables: vec![table] }),
        }
    }
    Ok(inputs)
}

/// Writes the rows of the wanted files, one file after another.
fn transfer(
    inputs: &[Input],
    plan: &Plan,
    (home, ledger): (&Home, &mut Ledger),
    (stream, type_id): (&Stream, u16),
    open: impl Fn(&TableFile) -> Result<TableRows, Failure>,
    ui: &Ui,
) -> Result<Outcome, Failure> {
    let start = Instant::now();
    let wanted: Vec<&Input> =
        inputs.iter().zip(&plan.wanted).filter(|(_, wanted)| **wanted).map(|(input, _)| input).collect();
    let files = wanted.iter().map(|input| input.identity.clone()).collect();
    let resumed = plan.resumed.as_ref();
    let id = resumed.map(|import| import.id);
    let mut bookkeeper = Bookkeeper { home, ledger, stream, format: FORMAT, files, id };
    let mut transfer = Transfer::new(stream, resumed, home)?;
    let mut progress = ui.progress("importing", wanted.iter().map(|input| input.identity.bytes).sum());
    let (mut messages, mut total, mut before) = (vec![0; wanted.len()], 0, 0);
    let (mut bad_lines, mut guessed) = (0, BTreeSet::new());
    let mut move_all = || {
        for (input, messages) in wanted.iter().zip(&mut messages) {
            for table in &input.tables {
                let mut rows = open(table)?;
                while let Some(row) = rows.next_row().map_err(|error| stopped(&error, total))? {
                    bookkeeper.begin()?;
                    transfer.take_body(row.symbol, row.time, type_id, row.body)?;
                    *messages += 1;
                    total += 1;
                    if total % CHECK_INTERVAL == 0 {
                        progress.update(before + rows.progress().0, total);
                        ui.check_interrupt()?;
                    }
                }
                before += rows.progress().0;
                progress.update(before, total);
                bad_lines += rows.bad_lines();
                guessed.extend(rows.guessed_units().map(tapedb_schema::TimeUnit::name));
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
    let (seconds, guessed_units) = (start.elapsed().as_secs_f64(), guessed.into_iter().collect());
    Ok(Outcome { messages, found: transfer.found, bad_lines, guessed_units, seconds, ..Outcome::default() })
}

fn reports(inputs: &[Input], plan: &Plan, outcome: &Outcome) -> Vec<FileReport> {
    let mut counts = outcome.messages.iter();
    let report = |(input, wanted): (&Input, &bool)| FileReport {
        file: input.tables[0].path().display().to_string(),
        bytes: input.identity.bytes,
        messages: if *wanted { counts.next().copied() } else { None },
    };
    inputs.iter().zip(&plan.wanted).map(report).collect()
}

fn failed(error: ImportError) -> Failure {
    Failure::new(error.to_string())
}

fn stopped(error: &ImportError, messages: u64) -> Failure {
    let what_now = match error {
        ImportError::Line { .. } => "to continue, import the same files again with --on-bad-line skip",
        _ => "repair the file; delete the stream, or continue with --again import",
    };
    match messages {
        0 => Failure::new(format!("{error}; nothing was imported")),
        messages => Failure::new(format!(
            "{error}; {} messages before it are in the stream; {what_now}",
            thousands(messages)
        )),
    }
}
