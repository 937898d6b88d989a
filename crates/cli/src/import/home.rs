//! Where the ledger of a stream lies: beside the stream's files, or on this machine for a stream behind a server.

use super::Args;
use super::ledger::Ledger;
use crate::failure::Failure;
use crate::remote;
use std::env;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use tapedb_engine::Stream;

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
    remote::url_of(&args.db.db).is_none()
}

fn folder(args: &Args) -> Result<PathBuf, Failure> {
    let in_home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(FOLDER));
    args.ledgers.clone().or_else(in_home).ok_or_else(|| {
        Failure::usage(
            "there is no home directory to remember in what has been imported; name a folder with --ledgers",
        )
    })
}

fn sync_tree(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_tree(&entry.path())?;
        } else {
            File::open(entry.path())?.sync_all()?;
        }
    }
    File::open(directory)?.sync_all()
}
