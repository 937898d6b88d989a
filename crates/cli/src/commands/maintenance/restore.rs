//! `tapedb restore`: create a database from a backup.

use crate::commands::maintenance::backup::copy;
use serde::Serialize;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use tapedb_engine::{Database, DeletedStreams};
use tapedb_terminal::{Failure, Ui, location, ui};

/// Create a database from a backup, or from its object store.
///
/// The backup is not changed. Every checksum is verified during the copy. The directory must not exist, or be empty; it gets its
/// name when the copy is complete, so an interrupted restore leaves no database of that name.
///
/// From an object store (`tapedb alter --tier`) comes what was moved there: all segments, as files of a new database without an object
/// tier. An interrupted restore is resumed by the same command.
///
/// Examples:
///   tapedb restore /mnt/backup/demo.tape demo.tape
///   tapedb restore s3://bucket/prefix demo.tape
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Directory of the backup, or URL of the object store.
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,

    /// Directory of the new database.
    #[arg(value_name = "DEST")]
    target: PathBuf,
}

/// Restores the database.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    let Args { backup, target } = args;
    location::directory(&target)?;
    if let Some(url) = location::url_of(&backup) {
        return restore_objects(url, &target, ui);
    }
    Database::open_read_only(location::directory(&backup)?)?;
    refuse_used(&target)?;
    let draft = draft_of(&target)?;
    let copied = copy(&backup, (&draft, &target), DeletedStreams::Delete, ui);
    // Damage of the backup has been reported and is accepted; a missing stream is not.
    let is_whole = copied.is_ok() || streams(&draft) == streams(&backup);
    if matches!(copied, Err(Failure::Interrupted { .. })) || !is_whole {
        return copied;
    }
    Database::open_read_only(&backup)?.restore_identity(&draft)?;
    fs::rename(&draft, &target).map_err(|error| {
        Failure::new(format!("cannot rename {} to {}: {error}", draft.display(), target.display()))
    })?;
    copied
}

/// Restores what is in an object store.
fn restore_objects(url: &str, target: &Path, ui: &Ui) -> Result<(), Failure> {
    refuse_used(target)?;
    let draft = draft_of(target)?;
    let restored = Database::restore_object_store(url, &draft, |_| match ui.check_interrupt().is_err() {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    });
    ui.check_interrupt()?;
    let restored = restored?;
    fs::rename(&draft, target).map_err(|error| {
        Failure::new(format!("cannot rename {} to {}: {error}", draft.display(), target.display()))
    })?;
    if ui.json() {
        return ui.print_json(&Restored { segments: restored.segments, bytes: restored.bytes });
    }
    let (count, bytes) = (restored.segments, ui::bytes(restored.bytes));
    ui.print(&format!("restored {count} segments ({bytes}) from {url} to {}\n", target.display()))
}

#[derive(Serialize)]
struct Restored {
    segments: u64,
    bytes: u64,
}

fn streams(path: &Path) -> Option<Vec<String>> {
    Database::open_read_only(path).and_then(|db| db.streams()).ok()
}

/// Refuses a directory that is in use.
fn refuse_used(target: &Path) -> Result<(), Failure> {
    let used = match fs::read_dir(target) {
        Ok(mut entries) => entries.next().is_some(),
        Err(_) => target.exists(),
    };
    match used {
        true => Err(Failure::usage(format!(
            "{} exists and is not overwritten; name another directory, or move it away",
            target.display()
        ))),
        false => Ok(()),
    }
}

/// The directory of the copy, beside the target; an interrupted restore is resumed there.
fn draft_of(target: &Path) -> Result<PathBuf, Failure> {
    let name = target.file_name().ok_or_else(|| Failure::usage("name a directory to restore to"))?;
    let mut draft = name.to_os_string();
    draft.push(".restoring");
    Ok(target.with_file_name(draft))
}
