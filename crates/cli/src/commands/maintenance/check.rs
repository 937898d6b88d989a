//! `tapedb check`: verify all stored data.

use crate::args::DatabaseArgs;
use crate::commands::messages::import::{LEDGER_FILE, Ledger};
use serde::Serialize;
use std::fs;
use std::ops::ControlFlow;
use tapedb_engine::{CheckDepth, CheckEvent, CheckReport, Database, Finding, Severity, StoredStream};
use tapedb_terminal::{Failure, Ui, ui};

/// Verify all data of a database, or of the given streams.
///
/// Reads every byte: definitions, symbol files, manifests, segments with every column of every block, log files and their
/// indexes, every batch's header, checksums, sequence numbers, times, symbols and types, every message's body, and the ledger
/// of imports. Sealed blocks are decoded, and the messages compared with the checksum that was computed before they were encoded;
/// blocks of versions before 0.2.0 have none, and are compared with the result of the reference decoder. The last lines count the
/// blocks by the way of their verification. Each finding is one of:
///
/// damage      stored data is lost or wrong: the location, the messages, and what to do
///
/// unfinished  the end of a file is an append in progress, or an incomplete one that the next writer truncates
///
/// note        nothing is lost, and it will be repaired
///
/// Changes no file, and works while another process writes: data written during the check is not included. Memory grows only with
/// the number of symbols. Exit code: 0 without damage, 1 with damage.
///
/// With --json: an object for each finding (with `severity`), then one for each stream (with `result`).
///
/// Example: tapedb check --db demo.tape
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    db: DatabaseArgs,

    /// Only these streams.
    #[arg(value_name = "STREAM")]
    streams: Vec<String>,

    /// Skip the bodies of messages, and the comparison of blocks of versions before 0.2.0; all other data is verified.
    #[arg(long, conflicts_with = "thorough")]
    quick: bool,

    /// Compare all sealed blocks with the reference decoder, which shares no code with the normal one, and every value with the
    /// recorded minimum and maximum of its column. Takes many times longer.
    #[arg(long)]
    thorough: bool,

    /// Also read all segments that are in an object store; otherwise what is here of them is verified.
    #[arg(long)]
    objects: bool,
}

/// A finding in JSON output.
#[derive(Serialize)]
struct FindingLine<'a> {
    stream: &'a str,
    severity: &'static str,
    file: String,
    offset: u64,
    bytes: u64,
    first_sequence: Option<u64>,
    messages: Option<u64>,
    what: &'a str,
    now: &'a str,
}

/// A stream in JSON output.
#[derive(Serialize)]
struct Outcome<'a> {
    stream: &'a str,
    result: &'static str,
    messages: u64,
    batches: u64,
    files: u64,
    segments: u64,
    blocks: u64,
    blocks_by_content: u64,
    blocks_by_reference: u64,
    blocks_unproved: u64,
    bytes: u64,
    symbols: u32,
    damaged: u64,
    messages_damaged: u64,
    unfinished: u64,
    notes: u64,
}

/// Verifies the streams.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    let db = args.db.open_files_to_read()?;
    let names = if args.streams.is_empty() { db.streams()? } else { args.streams };
    let depth = match (args.quick, args.thorough) {
        (true, _) => CheckDepth::Quick,
        (_, true) => CheckDepth::Thorough,
        _ => CheckDepth::Full,
    };
    check_streams(&db, &names, (depth, args.objects), ui)
}

/// Verifies streams and prints the findings; `depth`: how much, and whether segments in object stores are read.
pub fn check_streams(
    db: &Database,
    names: &[String],
    depth: (CheckDepth, bool),
    ui: &Ui,
) -> Result<(), Failure> {
    let mut damaged = 0;
    let identity = db.check_identity();
    if let Some(finding) = &identity {
        print_finding(db, "", finding, ui)?;
    }
    for name in names {
        damaged += u64::from(!check_stream(db, name, depth, ui)?);
    }
    match damaged {
        0 if identity.is_some() => {
            Err(Failure::new("the identity of the database is damaged, as listed; all messages can be read"))
        }
        0 => Ok(()),
        _ => Err(Failure::new(format!(
            "{damaged} of {} streams damaged, as listed; all other messages can be read",
            names.len()
        ))),
    }
}

/// Verifies a stream and prints the findings; returns whether it has no damage.
fn check_stream(
    db: &Database,
    name: &str,
    (depth, with_objects): (CheckDepth, bool),
    ui: &Ui,
) -> Result<bool, Failure> {
    let stream = match db.stored(name) {
        Ok(stream) => stream.checking_objects(with_objects),
        Err(error @ tapedb_engine::Error::NotFound(tapedb_engine::NotFound::Stream { .. })) => {
            return Err(error.into());
        }
        Err(error) => return unusable(db, name, &error, ui),
    };
    let mut checked = verify(db, &stream, depth, ui)?;
    if let Err(failure) = Ledger::open(stream.path()) {
        let (path, what) = (stream.path().join(LEDGER_FILE), failure.to_string());
        let finding = Finding { path, what, now: "see docs/format/imports.md", ..unknown_damage(db) };
        print_finding(db, name, &finding, ui)?;
        checked.damaged += 1;
    }
    print_outcome(name, &checked, ui)?;
    Ok(checked.damaged == 0 || checked.is_gone)
}

fn verify(db: &Database, stream: &StoredStream, depth: CheckDepth, ui: &Ui) -> Result<CheckReport, Failure> {
    let (mut done, mut seen) = (0, 0);
    let mut progress = ui.progress(&format!("checking {:?}", stream.name()), bytes_in(stream));
    let mut failed = Ok(());
    let checked = stream.check(depth, |checking| {
        let shown = match checking {
            CheckEvent::Progress { bytes, messages } => {
                (done, seen) = (done + bytes, seen + messages);
                progress.update(done, seen);
                ui.check_interrupt()
            }
            CheckEvent::Found(finding) => {
                progress.hide();
                print_finding(db, stream.name(), &finding, ui)
            }
        };
        match shown {
            Ok(()) => ControlFlow::Continue(()),
            Err(failure) => {
                failed = Err(failure);
                ControlFlow::Break(())
            }
        }
    });
    failed.map(|()| checked)
}

/// Reports a stream whose definition cannot be read: the rest cannot be verified.
fn unusable(db: &Database, name: &str, error: &tapedb_engine::Error, ui: &Ui) -> Result<bool, Failure> {
    let now = "then check again: the rest of the stream cannot be verified without it";
    let finding = Finding { what: error.to_string(), now, ..unknown_damage(db) };
    print_finding(db, name, &finding, ui)?;
    print_outcome(name, &CheckReport { damaged: 1, ..CheckReport::default() }, ui)?;
    Ok(false)
}

/// Damage without any details.
fn unknown_damage(db: &Database) -> Finding {
    let (severity, path, what, now) = (Severity::Damage, db.path().into(), String::new(), "");
    Finding { severity, path, offset: 0, bytes: 0, first_sequence: None, messages: None, what, now }
}

fn print_finding(db: &Database, stream: &str, finding: &Finding, ui: &Ui) -> Result<(), Failure> {
    let Finding { severity, path, offset, bytes, first_sequence, messages, what, now } = finding;
    let file = path.strip_prefix(db.path()).unwrap_or(path).display().to_string();
    let severity = match severity {
        Severity::Damage => "damage",
        Severity::Unfinished => "unfinished",
        Severity::Note => "note",
    };
    if ui.json() {
        let (offset, bytes, first_sequence, messages) = (*offset, *bytes, *first_sequence, *messages);
        let line = FindingLine { stream, severity, file, offset, bytes, first_sequence, messages, what, now };
        return ui.print_json(&line);
    }
    let location = if file.is_empty() { String::new() } else { format!("{file}, ") };
    let extent = if *bytes > 0 { format!("{bytes} bytes at offset {offset}: ") } else { String::new() };
    let what = what.replace('\n', "; ");
    ui.print(&format!(
        "{severity}: {location}{extent}{what}{}; {now}\n",
        messages_of(*first_sequence, *messages)
    ))
}

/// The messages that a finding concerns.
fn messages_of(first_sequence: Option<u64>, messages: Option<u64>) -> String {
    let Some(first) = first_sequence else { return String::new() };
    match messages {
        None => format!("; messages from {first} on"),
        Some(1) => format!("; message {first}"),
        Some(n) => {
            format!("; {} messages, {first} to {}", ui::thousands(n), first.saturating_add(n.max(1) - 1))
        }
    }
}

fn print_outcome(stream: &str, checked: &CheckReport, ui: &Ui) -> Result<(), Failure> {
    let &CheckReport { messages, batches, files, segments, blocks, bytes, symbols, .. } = checked;
    let &CheckReport { blocks_by_content, blocks_by_reference, blocks_unproved, .. } = checked;
    let &CheckReport { damaged, messages_damaged, unfinished, notes, is_gone, .. } = checked;
    let result = match (is_gone, damaged) {
        (true, _) => "deleted",
        (_, 0) => "clean",
        _ => "damaged",
    };
    if ui.json() {
        return ui.print_json(&Outcome {
            stream,
            result,
            messages,
            batches,
            files,
            segments,
            blocks,
            blocks_by_content,
            blocks_by_reference,
            blocks_unproved,
            bytes,
            symbols,
            damaged,
            messages_damaged,
            unfinished,
            notes,
        });
    }
    let [messages, batches, files] = [messages, batches, files].map(ui::thousands);
    let verdict = match result {
        "damaged" => format!("damaged in {damaged} locations, {} messages", ui::thousands(messages_damaged)),
        "deleted" => "deleted during the check".into(),
        clean => clean.into(),
    };
    let sealed = match segments {
        0 => String::new(),
        _ => format!(
            "{} blocks of {} segments{}, ",
            ui::thousands(blocks),
            ui::thousands(segments),
            proved(checked)
        ),
    };
    let bytes = ui::bytes(bytes);
    ui.print(&format!(
        "{stream}: {messages} messages in {sealed}{batches} batches, {files} files, {bytes}: {verdict}\n"
    ))
}

/// How blocks were verified.
fn proved(checked: &CheckReport) -> String {
    let &CheckReport { blocks_by_content, blocks_by_reference, blocks_unproved, .. } = checked;
    let by = [
        (blocks_by_content, "by checksum of content"),
        (blocks_by_reference, "by reference decoder"),
        (blocks_unproved, "by checksums of bytes only"),
    ];
    let used = by.iter().filter(|(count, _)| *count > 0);
    let used: Vec<String> = used.map(|(count, by)| format!("{} {by}", ui::thousands(*count))).collect();
    if used.is_empty() { String::new() } else { format!(" (verified: {})", used.join(", ")) }
}

/// Bytes of the readable files in a stream's spaces.
fn bytes_in(stream: &StoredStream) -> u64 {
    let directories = (0..stream.spaces()).map(|space| stream.space_path(space));
    let entries = directories.filter_map(|path| fs::read_dir(path).ok()).flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
}
