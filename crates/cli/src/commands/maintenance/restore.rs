//! `tapedb restore`: makes a database of a backup.

use crate::commands::maintenance::backup::copy;
use std::fs;
use std::path::{Path, PathBuf};
use tapedb_engine::{Database, DeletedStreams};
use tapedb_terminal::{Failure, Ui, location};

/// Make a database of a backup.
///
/// The backup stays as it is. Every checksum is verified while it is copied. The directory must not be there, or be empty; it
/// gets its name when all is in it, so what is cut short leaves nothing that looks like a database of that name.
///
/// Example: tapedb restore /mnt/backup/demo.tape demo.tape
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Directory of the backup.
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,

    /// Directory of the database to make.
    #[arg(value_name = "DEST")]
    target: PathBuf,
}

/// Makes the database.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    let Args { backup, target } = args;
    location::directory(&target)?;
    Database::open_read_only(location::directory(&backup)?)?;
    refuse_used(&target)?;
    let draft = draft_of(&target)?;
    let copied = copy(&backup, (&draft, &target), DeletedStreams::Delete, ui);
    // With damage it is as good as the backup is, which has been said; without all streams it is not a restored database.
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

fn streams(path: &Path) -> Option<Vec<String>> {
    Database::open_read_only(path).and_then(|db| db.streams()).ok()
}

/// What is there already stays.
fn refuse_used(target: &Path) -> Result<(), Failure> {
    let used = match fs::read_dir(target) {
        Ok(mut entries) => entries.next().is_some(),
        Err(_) => target.exists(),
    };
    match used {
        true => Err(Failure::usage(format!(
            "{} is there already and is not overwritten; name another directory, or move it away",
            target.display()
        ))),
        false => Ok(()),
    }
}

/// Beside the target; what an interrupted restore left there is gone on with.
fn draft_of(target: &Path) -> Result<PathBuf, Failure> {
    let name = target.file_name().ok_or_else(|| Failure::usage("name a directory to restore to"))?;
    let mut draft = name.to_os_string();
    draft.push(".restoring");
    Ok(target.with_file_name(draft))
}
