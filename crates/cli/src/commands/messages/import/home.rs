//! Where the ledger of a stream lies: beside the stream's files, or on this machine for a stream behind a server.

use super::Args;
use super::ledger::Ledger;
use std::env;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use tapedb_engine::Stream;
use tapedb_terminal::{Failure, location};

/// Folder of the ledgers of streams behind servers, in the user's home.
const FOLDER: &str = ".tapedb_imports";

/// A stream's place for what is remembered of imports.
#[derive(Debug)]
pub struct Home {
    /// The folder of the ledger.
    directory: PathBuf,
    /// Whether the stream's files are on this machine.
    pub is_here: bool,
}

impl Home {
    /// Refuses a folder that would not be used, before anything is opened.
    ///
    /// # Errors
    /// When the database is here.
    pub fn check(args: &Args) -> Result<(), Failure> {
        if is_here(args) && args.ledgers.is_some() {
            return Err(Failure::usage(
                "--ledgers is for streams behind a server: here the ledger lies beside the stream's files; leave it out",
            ));
        }
        Ok(())
    }

    /// The place of a stream's ledger.
    ///
    /// # Errors
    /// When it cannot be made, or nothing says where it should be.
    pub fn of(args: &Args, stream: &Stream) -> Result<Self, Failure> {
        let is_here = is_here(args);
        if is_here {
            return Ok(Self { directory: stream.path().into(), is_here });
        }
        // By the stream's id: it stays when the stream is renamed, and under whatever address the server is reached.
        let directory = folder(args)?.join(format!("{:016x}", stream.id()));
        fs::create_dir_all(&directory).map_err(|error| {
            let directory = directory.display();
            Failure::new(format!("cannot make {directory}: {error}; name another folder with --ledgers"))
        })?;
        Ok(Self { directory, is_here })
    }

    /// The ledger.
    ///
    /// # Errors
    /// As [`Ledger::open`].
    pub fn ledger(&self) -> Result<Ledger, Failure> {
        Ledger::open(&self.directory)
    }

    /// Makes everything in the stream's directory survive a power cut, whatever the stream's durability. Behind a server what
    /// is acknowledged is as durable as the stream promises, and no more can be asked for.
    ///
    /// # Errors
    /// What the disk says.
    pub fn sync(&self) -> Result<(), Failure> {
        if !self.is_here {
            return Ok(());
        }
        sync_tree(&self.directory).map_err(|error| {
            let directory = self.directory.display();
            Failure::new(format!("cannot sync {directory}: {error}; see that the disk works"))
        })
    }
}

fn is_here(args: &Args) -> bool {
    location::url_of(&args.db.db).is_none()
}

fn folder(args: &Args) -> Result<PathBuf, Failure> {
    let in_home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(FOLDER));
    args.ledgers.clone().or_else(in_home).ok_or_else(|| {
        Failure::usage(
            "there is no home directory to remember in what has been imported; name a folder with --ledgers",
        )
    })
}

/// Syncs all files in a directory and those below it. Maintenance may replace files by others meanwhile: what takes a file's
/// place is on the disk before that goes, so a file that is gone needs nothing.
fn sync_tree(directory: &Path) -> io::Result<()> {
    sync_tree_with(directory, &|path| File::open(path)?.sync_all())
}

fn sync_tree_with(directory: &Path, sync: &impl Fn(&Path) -> io::Result<()>) -> io::Result<()> {
    let Some(entries) = unless_gone(fs::read_dir(directory))? else { return Ok(()) };
    for entry in entries {
        let Some(entry) = unless_gone(entry)? else { continue };
        match unless_gone(entry.file_type())? {
            Some(kind) if kind.is_dir() => sync_tree_with(&entry.path(), sync)?,
            Some(_) => {
                unless_gone(sync(&entry.path()))?;
            }
            None => {}
        }
    }
    unless_gone(sync(directory)).map(drop)
}

/// `None` for what is not there any more.
fn unless_gone<T>(looked: io::Result<T>) -> io::Result<Option<T>> {
    match looked {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        looked => looked.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn files_that_go_meanwhile_are_left_out_and_all_others_synced() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        for name in ["0", "1"] {
            fs::create_dir(root.join(name)).unwrap();
            ["a", "b", "c"].iter().for_each(|file| fs::write(root.join(name).join(file), "x").unwrap());
        }
        let synced = RefCell::new(Vec::new());
        let sync = |path: &Path| {
            // Maintenance takes all other files and directories away while the first is synced.
            if synced.borrow().is_empty() {
                for other in ["0/a", "0/b", "1/b", "1/c"].map(|name| root.join(name)) {
                    if other != path {
                        fs::remove_file(other).unwrap();
                    }
                }
            }
            synced.borrow_mut().push(path.to_path_buf());
            File::open(path)?.sync_all()
        };
        sync_tree_with(root, &sync).unwrap();
        for name in ["0/c", "1/a", "0", "1", ""] {
            assert!(synced.borrow().contains(&root.join(name)), "{name}: {synced:?}");
        }
        let refused = |path: &Path| match path.ends_with("c") {
            true => Err(io::ErrorKind::PermissionDenied.into()),
            false => Ok(()),
        };
        assert_eq!(sync_tree_with(root, &refused).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }
}
