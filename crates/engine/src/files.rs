//! Small operations on files and directories.

use crate::error::{Error, Unreadable};
use std::io;
use std::path::Path;
use tapedb_log::{Kind, Storage};

/// The symbol file in a stream's directory.
pub(crate) const SYMBOLS_FILE: &str = "symbols";

/// The directory of a space in the directory of its stream.
pub(crate) fn space_directory(space: u32) -> String {
    space.to_string()
}

/// Whether a path exists.
pub(crate) fn is_there(storage: &dyn Storage, path: &Path) -> Result<bool, Error> {
    match storage.kind(path) {
        // A file in place of one of its directories.
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(false),
        kind => Ok(kind.map_err(Error::io("look for", path))?.is_some()),
    }
}

/// Checks that a path that a stream needs exists.
pub(crate) fn check_there(storage: &dyn Storage, path: &Path, what: &str) -> Result<(), Error> {
    if is_there(storage, path)? {
        return Ok(());
    }
    Err(Error::Unreadable(Unreadable::Definition { path: path.into(), what: what.into() }))
}

/// Bytes of all files in a directory and those below it.
pub(crate) fn bytes_of(storage: &dyn Storage, directory: &Path) -> Result<u64, Error> {
    let mut bytes = 0;
    for entry in storage.entries(directory).map_err(Error::io("list", directory))? {
        let path = directory.join(&entry.name);
        bytes += match entry.kind {
            Kind::Directory => bytes_of(storage, &path)?,
            // A file that was removed since the listing takes no space.
            Kind::File => storage.size(&path).unwrap_or(0),
        };
    }
    Ok(bytes)
}

/// Makes the names in a directory durable.
pub(crate) fn sync_dir(storage: &dyn Storage, directory: &Path) -> Result<(), Error> {
    storage.sync_dir(directory).map_err(Error::io("sync", directory))
}
