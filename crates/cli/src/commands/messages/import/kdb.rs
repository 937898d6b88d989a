//! `tapedb import` of kdb+ files: each table becomes a stream, with a schema from the data.

use super::args::{Args, BadLine};
use super::bookkeeper::Bookkeeper;
use super::home::Home;
use super::identity::Identity;
use super::ledger::Ledger;
use super::plan::Plan;
use super::report::{FileReport, Outcome, print};
use super::transfer::{Transfer, stop};
use crate::args::open_stream;
use std::time::Instant;
use tapedb_engine::{Database, Stream, StreamOptions};
use tapedb_terminal::{Failure, Ui, ui};
use tapedb_tick::Date;
use tapedb_tick::kdb::import::{Format, ImportError, ImportOptions, Partition, Reader, Source, discover};

/// Maximum bytes of a text that defines tables.
const SCHEMA_BYTES_MAX: u64 = tapedb_tick::DEFINITION_BYTES_MAX as u64;

/// Imports the tables of kdb+ files.
pub fn run(args: &Args, format: Format, ui: &Ui) -> Result<(), Failure> {
    let options = options(args)?;
    let sources = discover(format, &args.paths, &options).map_err(|error| failed(&error))?;
    if let Some(missing) =
        args.tables.iter().find(|name| sources.iter().all(|source| source.table.name() != *name))
    {
        return Err(Failure::new(format!("the files have no table {missing:?}; check --tables")));
    }
    if sources.is_empty() {
        ui.note("the files have no tables");
    }
    let db = args.db.open_or_create(args.creation.create)?;
    for source in &sources {
        let name = stream_name(args, source, sources.len());
        if source.has_no_names {
            ui.warn(&format!(
                "{name:?}: the log has no names for columns: the third and later ones are named c2, c3, …; give a sym.q with --schema"
            ));
        }
        table(args, format, source, &options, &open(&db, &name, source, ui)?, ui)?;
    }
    Ok(())
}

fn options(args: &Args) -> Result<ImportOptions, Failure> {
    let date: Option<Date> = args.date.as_deref().map(str::parse).transpose().map_err(Failure::usage)?;
    let schema = match &args.schema {
        None => Vec::new(),
        Some(path) => {
            let cannot = |what: String| Failure::new(format!("{}: {what}", path.display()));
            let bytes = std::fs::metadata(path).map_err(|error| cannot(error.to_string()))?.len();
            if bytes > SCHEMA_BYTES_MAX {
                return Err(cannot(format!("it has {bytes} bytes; the maximum is {SCHEMA_BYTES_MAX}")));
            }
            let text = std::fs::read_to_string(path).map_err(|error| cannot(error.to_string()))?;
            tapedb_tick::tables(&text).map_err(|error| cannot(error.to_string()))?
        }
    };
    Ok(ImportOptions { date, schema, only: args.tables.clone() })
}

/// A single table gets the given name; several get it as a prefix, as in a plant.
fn stream_name(args: &Args, source: &Source, tables: usize) -> String {
    let table = source.table.name();
    match &args.stream {
        None => table.into(),
        Some(name) if tables == 1 => name.clone(),
        Some(name) => format!("{name}/{table}"),
    }
}

fn open(db: &Database, name: &str, source: &Source, ui: &Ui) -> Result<Stream, Failure> {
    let schema = source.table.schema();
    if !db.streams()?.iter().any(|known| known == name) {
        return Ok(db.create_stream(name, schema, StreamOptions::default())?);
    }
    let stream = open_stream(db, name, ui)?;
    if *stream.schema() != schema {
        return Err(Failure::new(format!(
            "stream {name:?} exists with another schema than table {}; name another stream",
            source.table.name()
        )));
    }
    Ok(stream)
}

/// Imports one table.
fn table(
    args: &Args,
    format: Format,
    source: &Source,
    options: &ImportOptions,
    stream: &Stream,
    ui: &Ui,
) -> Result<(), Failure> {
    let mut parts = source
        .partitions
        .iter()
        .map(|part| Ok((part, identity(part, options, ui)?)))
        .collect::<Result<Vec<_>, Failure>>()?;
    let home = Home::of(args, stream)?;
    let mut ledger = home.ledger()?;
    let files: Vec<Identity> = parts.iter().map(|(_, identity)| identity.clone()).collect();
    let mut plan = Plan::new(&files, format.name(), &ledger, args.again, stream.stats()?.next_sequence)?;
    plan.withdrawn.iter().try_for_each(|id| ledger.withdraw(*id))?;
    plan.abandoned.iter().try_for_each(|id| ledger.abandon(*id))?;
    plan.restore_order(&mut parts, |(_, identity)| identity);
    let outcome = if plan.wanted.contains(&true) {
        Import { args, home: &home, format, source, options, stream, ui }.run(&parts, &plan, &mut ledger)?
    } else {
        Outcome::default()
    };
    report(stream, &parts, &plan, &outcome, ui)
}

/// The columns of a folder have one identity, with its date: an empty table of another day differs.
fn identity(part: &Partition, options: &ImportOptions, ui: &Ui) -> Result<Identity, Failure> {
    if part.files.len() == 1 {
        return Identity::of(&part.path, ui);
    }
    let date = options.date.or(part.date).map(|date| date.to_string()).unwrap_or_default();
    Identity::of_all(&part.path, &date, &part.files, ui)
}

/// The import of one table.
struct Import<'a> {
    args: &'a Args,
    home: &'a Home,
    format: Format,
    source: &'a Source,
    options: &'a ImportOptions,
    stream: &'a Stream,
    ui: &'a Ui,
}

impl Import<'_> {
    fn run(
        &self,
        parts: &[(&Partition, Identity)],
        plan: &Plan,
        ledger: &mut Ledger,
    ) -> Result<Outcome, Failure> {
        let start = Instant::now();
        let wanted: Vec<&(&Partition, Identity)> =
            parts.iter().zip(&plan.wanted).filter(|(_, wanted)| **wanted).map(|(part, _)| part).collect();
        let files = wanted.iter().map(|(_, identity)| identity.clone()).collect();
        let (format, stream, resumed) = (self.format.name(), self.stream, plan.resumed.as_ref());
        let id = resumed.map(|import| import.id);
        let home = self.home;
        let mut bookkeeper = Bookkeeper { home, ledger, stream, format, files, id };
        let mut transfer = Transfer::new(stream, resumed, home)?;
        let mut outcome = Outcome::default();
        let bytes = wanted.iter().map(|(_, identity)| identity.bytes).sum();
        let mut progress = self.ui.progress("importing", bytes);
        let mut done = 0;
        for (part, identity) in wanted {
            let mut moved = |bytes, messages| progress.update(done + bytes, messages);
            if let Err(failure) = self.part(part, &mut transfer, &mut bookkeeper, &mut outcome, &mut moved) {
                return Err(stop(failure, &mut transfer, self.ui));
            }
            done += identity.bytes;
        }
        bookkeeper.begin()?;
        transfer.finish()?;
        bookkeeper.end(outcome.messages.iter().sum())?;
        outcome.found = transfer.found;
        outcome.seconds = start.elapsed().as_secs_f64();
        Ok(outcome)
    }

    fn part(
        &self,
        part: &Partition,
        transfer: &mut Transfer,
        bookkeeper: &mut Bookkeeper<'_>,
        outcome: &mut Outcome,
        moved: &mut dyn FnMut(u64, u64),
    ) -> Result<(), Failure> {
        let index = self.source.partitions.iter().position(|known| known == part).unwrap_or(0);
        let reader = self.source.open(index, self.stream.layouts(), self.options);
        let mut reader = reader.map_err(|error| failed(&error))?;
        let before: u64 = outcome.messages.iter().sum();
        outcome.messages.push(0);
        while let Some(messages) = self.rows(part, &mut reader, transfer, bookkeeper, outcome, before)? {
            if let Some(count) = outcome.messages.last_mut() {
                *count += messages;
            }
            moved(reader.bytes_read(), outcome.messages.iter().sum());
            self.ui.check_interrupt()?;
        }
        if reader.skipped() > 0 {
            *outcome.ignored.entry("other function".into()).or_default() += reader.skipped();
        }
        Ok(())
    }

    /// Moves the next rows; `None` at the end.
    fn rows(
        &self,
        part: &Partition,
        reader: &mut Reader,
        transfer: &mut Transfer,
        bookkeeper: &mut Bookkeeper<'_>,
        outcome: &mut Outcome,
        before: u64,
    ) -> Result<Option<u64>, Failure> {
        let so_far = before + outcome.messages.last().copied().unwrap_or(0);
        let piece = match reader.next_chunk() {
            Ok(Some(piece)) => piece,
            Ok(None) => return Ok(None),
            Err(error @ ImportError::Damaged { .. }) if self.skips(outcome) => {
                self.ui.warn(&format!("{error}; the rows before it are imported"));
                return Ok(None);
            }
            Err(error) => return Err(stopped(&error.to_string(), so_far)),
        };
        let (mut body, mut messages) = (Vec::new(), 0);
        for row in 0..piece.len() {
            match reader.row(&piece, row, &mut body) {
                Ok((time, symbol)) => {
                    bookkeeper.begin()?;
                    transfer.take_body(symbol, time, reader.type_id(), &body)?;
                    messages += 1;
                }
                Err(_) if self.skips(outcome) => {}
                Err(what) => {
                    return Err(stopped(&format!("{}: {what}", part.path.display()), so_far + messages));
                }
            }
        }
        Ok(Some(messages))
    }

    /// Whether one more unreadable row is skipped; counts it if so.
    fn skips(&self, outcome: &mut Outcome) -> bool {
        let skips =
            matches!(self.args.on_bad_line, BadLine::Skip) && outcome.bad_lines < self.args.bad_lines_max;
        outcome.bad_lines += u64::from(skips);
        skips
    }
}

fn report(
    stream: &Stream,
    parts: &[(&Partition, Identity)],
    plan: &Plan,
    outcome: &Outcome,
    ui: &Ui,
) -> Result<(), Failure> {
    let mut counts = outcome.messages.iter();
    let file = |((part, identity), wanted): (&(&Partition, Identity), &bool)| FileReport {
        file: part.path.display().to_string(),
        bytes: identity.bytes,
        messages: if *wanted { counts.next().copied() } else { None },
    };
    let files: Vec<FileReport> = parts.iter().zip(&plan.wanted).map(file).collect();
    print(stream.name(), &files, outcome, ui)
}

fn stopped(what: &str, messages: u64) -> Failure {
    let so_far = match messages {
        0 => "nothing was imported".into(),
        messages => format!("{} messages before it are in the stream", ui::thousands(messages)),
    };
    Failure::new(format!(
        "{what}; {so_far}; to continue without it, import the same files with --on-bad-line skip"
    ))
}

fn failed(error: &ImportError) -> Failure {
    match error {
        ImportError::NoDate { .. } => Failure::usage(format!("{error} with --date")),
        error => Failure::new(error.to_string()),
    }
}
