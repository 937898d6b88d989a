//! `tapedb backup`: brings a copy of a database up to date.

use crate::commands::maintenance::check::check_streams;
use serde::Serialize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use tapedb_engine::{BackupReport, CheckDepth, Database, DeletedStreams};
use tapedb_terminal::{Failure, Ui, location, ui};

/// Bring a backup of a database up to date.
///
/// A backup is a database: it can be opened, read and checked like any other, also while it is brought up to date and after
/// that was cut short; nothing that was in it is lost by that. Segments never change and are copied once; of log files only
/// what is new is. Every checksum is verified. Works while another process writes to the database: each space is copied as it
/// was at one moment. Do not write to a backup.
///
/// With --verify the backup is checked when it is up to date, as `tapedb check` does it: all of it, not only what was copied.
///
/// A backup belongs to one database: another one's is refused, and so is a database of its own, unless --adopt says that it
/// is meant. Streams that have been deleted in the database are deleted in the backup too, but never all of them.
///
/// Exit code: 0 when all is in the backup and whole, 1 when a stream could not be copied or has damage.
///
/// Example: tapedb backup demo.tape /mnt/backup/demo.tape
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Directory of the database.
    #[arg(value_name = "SRC")]
    source: PathBuf,

    /// Directory of the backup; made if it is not there.
    #[arg(value_name = "DEST")]
    target: PathBuf,

    /// Keep streams that have been deleted since the last backup; one whose name is used again is renamed.
    #[arg(long)]
    keep_deleted: bool,

    /// Then check the whole backup: sealed messages are decoded and compared with the checksum of their content.
    #[arg(long)]
    verify: bool,

    /// Go on where the backup would lose all its streams, for the database has none of them any more.
    #[arg(long, conflicts_with = "keep_deleted")]
    allow_loss: bool,

    /// Make DEST the backup of this database though it is another one's backup, or a database of its own: what is not in this
    /// database is deleted there.
    #[arg(long)]
    adopt: bool,
}

/// What was done, as programs see it.
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
    // What could be copied is verified although a stream could not be.
    let verified = if args.verify { verify(target, ui) } else { Ok(()) };
    copied.and(verified)
}

/// Checks the whole backup.
fn verify(target: &Path, ui: &Ui) -> Result<(), Failure> {
    ui.check_interrupt()?;
    let db = Database::open_read_only(target)?;
    check_streams(&db, &db.streams()?, CheckDepth::Full, ui)
}

/// Copies a database, and says what came of it; `shown`: what the target will be called.
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
            "{damaged} places were damaged before, and are copied as they are; `tapedb check` names them"
        ))),
        (failed, _) => {
            Err(Failure::new(format!("{failed} streams could not be copied; see what is said of them")))
        }
    }
}

/// Bytes of all files of a database, as far as they can be looked at.
fn bytes_in(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_in(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    });
    bytes.sum()
}
