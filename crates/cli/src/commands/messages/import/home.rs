//! Directory of a stream's ledger: beside the stream's files, or on this machine for a stream of a server.

use super::args::Args;
use super::ledger::Ledger;
use std::env;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use tapedb_engine::Stream;
use tapedb_terminal::{Failure, location};

/// Folder in the user's home for ledgers of streams of servers.
const FOLDER: &str = ".tapedb_imports";

/// The directory of a stream's ledger.
#[derive(Debug)]
pub struct Home {
    /// The directory.
    directory: PathBuf,
    /// Whether the stream's files are on this machine.
    pub is_local: bool,
}

impl Home {
    /// Refuses --ledgers if it would not be used, before anything is opened.
    ///
    /// # Errors
    /// When the database is local.
    pub fn check(args: &Args) -> Result<(), Failure> {
        if is_local(args) && args.ledgers.is_some() {
            return Err(Failure::usage(
                "--ledgers is for streams of a server: the ledger of a local stream is beside its files; omit it",
            ));
        }
        Ok(())
    }

    /// The directory of a stream's ledger.
    ///
    /// # Errors
    /// When it cannot be created, or is not known.
    pub fn of(args: &Args, stream: &Stream) -> Result<Self, Failure> {
        let is_local = is_local(args);
        if is_local {
            return Ok(Self { directory: stream.path().into(), is_local });
        }
        // Named by the stream's id, which does not depend on the stream's name or the server's address.
        let directory = folder(args)?.join(format!("{:016x}", stream.id()));
        fs::create_dir_all(&directory).map_err(|error| {
            let directory = directory.display();
            Failure::new(format!("cannot create {directory}: {error}; name another folder with --ledgers"))
        })?;
        Ok(Self { directory, is_local })
    }

    /// The ledger.
    ///
    /// # Errors
    /// As [`Ledger::open`].
    pub fn ledger(&self) -> Result<Ledger, Failure> {
        Ledger::open(&self.directory)
    }

    /// Syncs the stream's directory to the disk, regardless of the stream's durability. On a server, acknowledged messages have the
    /// stream's durability, and a client cannot request more.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn sync(&self) -> Result<(), Failure> {
        if !self.is_local {
            return Ok(());
        }
        sync_tree(&self.directory).map_err(|error| {
            let directory = self.directory.display();
            Failure::new(format!("cannot sync {directory}: {error}; check the disk"))
        })
    }
}

fn is_local(args: &Args) -> bool {
    location::url_of(&args.db.db).is_none()
}

fn folder(args: &Args) -> Result<PathBuf, Failure> {
    let in_home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(FOLDER));
    args.ledgers.clone().or_else(in_home).ok_or_else(|| {
        Failure::usage("there is no home directory for the records of imports; name a folder with --ledgers")
    })
}

/// Syncs all files in a directory and below it. Maintenance may replace files at the same time: the replacement is on the disk before
/// the old file is removed, so a missing file needs no sync.
fn sync_tree(directory: &Path) -> io::Result<()> {
    sync_tree_with(directory, &|path| File::open(path)?.sync_all())
}

fn sync_tree_with(directory: &Path, sync: &impl Fn(&Path) -> io::Result<()>) -> io::Result<()> {
    let Some(entries) = unless_removed(fs::read_dir(directory))? else { return Ok(()) };
    for entry in entries {
        let Some(entry) = unless_removed(entry)? else { continue };
        match unless_removed(entry.file_type())? {
            Some(kind) if kind.is_dir() => sync_tree_with(&entry.path(), sync)?,
            Some(_) => {
                unless_removed(sync(&entry.path()))?;
            }
            None => {}
        }
    }
    unless_removed(sync(directory)).map(drop)
}

/// `None` for a file that was removed.
fn unless_removed<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn removed_files_are_skipped_and_all_others_are_synced() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        for name in ["0", "1"] {
            fs::create_dir(root.join(name)).unwrap();
            ["a", "b", "c"].iter().for_each(|file| fs::write(root.join(name).join(file), "x").unwrap());
        }
        let synced = RefCell::new(Vec::new());
        let sync = |path: &Path| {
            // Maintenance removes other files while the first is synced.
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
