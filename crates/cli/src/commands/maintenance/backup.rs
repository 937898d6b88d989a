//! `tapedb backup`: bring a copy of a database up to date.

use crate::commands::maintenance::check::check_streams;
use serde::Serialize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use tapedb_engine::{BackupReport, CheckDepth, Database, DeletedStreams};
use tapedb_terminal::{Failure, Ui, location, ui};

/// Bring a backup of a database up to date.
///
/// A backup is a database: it can be opened, read and checked like any other, also during a backup and after an interrupted one,
/// which loses nothing. Segments never change and are copied once; of log files only new data is copied. Every checksum is
/// verified. Works while another process writes to the database: each space is copied as of one moment. Do not write to a backup.
///
/// With --verify the whole backup is checked afterwards, as by `tapedb check`, not only the copied files.
///
/// A backup belongs to one database: the backup of another database is refused, and so is an independent database, unless --adopt
/// is given. Streams that were deleted in the database are deleted in the backup too, but never all of them.
///
/// Exit code: 0 if the backup is complete and without damage, 1 if a stream could not be copied or has damage.
///
/// Example: tapedb backup demo.tape /mnt/backup/demo.tape
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Directory of the database.
    #[arg(value_name = "SRC")]
    source: PathBuf,

    /// Directory of the backup; created if it does not exist.
    #[arg(value_name = "DEST")]
    target: PathBuf,

    /// Keep streams that were deleted since the last backup; one whose name is used again is renamed.
    #[arg(long)]
    keep_deleted: bool,

    /// Check the whole backup afterwards: sealed messages are decoded and compared with the checksum of their content.
    #[arg(long)]
    verify: bool,

    /// Continue although the backup would lose all its streams, because the database has none of them.
    #[arg(long, conflicts_with = "keep_deleted")]
    allow_loss: bool,

    /// Make DEST the backup of this database although it is the backup of another one, or an independent database: streams that are
    /// not in this database are deleted there.
    #[arg(long)]
    adopt: bool,
}

/// The result in JSON output.
#[derive(Serialize)]
struct Outcome {
    streams: u64,
    segments_copied: u64,
    bytes_copied: u64,
    damaged: u64,
    removed: Vec<String>,
    failed: Vec<String>,
}

/// Brings the backup up to date.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    let deleted = match (args.keep_deleted, args.allow_loss) {
        (true, _) => DeletedStreams::Keep,
        (_, true) => DeletedStreams::DeleteAll,
        _ => DeletedStreams::Delete,
    };
    let (source, target) = (location::directory(&args.source)?, location::directory(&args.target)?);
    if args.adopt {
        refuse_itself(source, target)?;
        Database::open_read_only(source)?.adopt_backup(target)?;
    }
    let copied = copy(source, (target, target), deleted, ui);
    // Verifies the backup also after a stream could not be copied.
    let verified = if args.verify { verify(target, ui) } else { Ok(()) };
    copied.and(verified)
}

/// Checks the whole backup.
fn verify(target: &Path, ui: &Ui) -> Result<(), Failure> {
    ui.check_interrupt()?;
    let db = Database::open_read_only(target)?;
    check_streams(&db, &db.streams()?, (CheckDepth::Full, false), ui)
}

/// Copies a database and prints the result; `shown` is the final path of the target.
pub fn copy(
    source: &Path,
    (target, shown): (&Path, &Path),
    deleted: DeletedStreams,
    ui: &Ui,
) -> Result<(), Failure> {
    let db = Database::open_read_only(source)?;
    refuse_itself(source, target)?;
    let mut progress = ui.progress(&format!("copying {}", source.display()), bytes_in(source));
    let mut copied = 0;
    let done = db.backup(target, deleted, |bytes| {
        copied += bytes;
        progress.update(copied, 0);
        if ui.is_interrupted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    ui.check_interrupt()?;
    drop(progress);
    report(&done?, shown, ui)
}

fn refuse_itself(source: &Path, target: &Path) -> Result<(), Failure> {
    match (source.canonicalize(), target.canonicalize()) {
        (Ok(source), Ok(target)) if source.starts_with(&target) || target.starts_with(&source) => {
            Err(Failure::usage("a database cannot be copied into itself; name another directory"))
        }
        _ => Ok(()),
    }
}

fn report(done: &BackupReport, target: &Path, ui: &Ui) -> Result<(), Failure> {
    let BackupReport { streams, segments, bytes, damaged, removed, failed } = done;
    let failed: Vec<String> = failed.iter().map(|(name, error)| format!("{name}: {error}")).collect();
    if ui.json() {
        ui.print_json(&Outcome {
            streams: *streams,
            segments_copied: *segments,
            bytes_copied: *bytes,
            damaged: *damaged,
            removed: removed.clone(),
            failed: failed.clone(),
        })?;
    } else {
        failed.iter().for_each(|failed| ui.warn(failed));
        removed.iter().for_each(|name| ui.note(&format!("stream {name:?} is no longer in the database")));
        let (target, bytes) = (target.display(), ui::bytes(*bytes));
        ui.print(&format!("{target}: {streams} streams up to date; {segments} segments, {bytes} copied\n"))?;
    }
    match (failed.len(), damaged) {
        (0, 0) => Ok(()),
        (0, damaged) => Err(Failure::new(format!(
            "{damaged} locations are damaged in the database, and were copied unchanged; `tapedb check` lists them"
        ))),
        (failed, _) => {
            Err(Failure::new(format!("{failed} streams could not be copied; see their errors above")))
        }
    }
}

/// Bytes of the readable files of a database.
fn bytes_in(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_in(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    });
    bytes.sum()
}
