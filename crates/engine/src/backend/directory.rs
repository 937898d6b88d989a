//! The directory of a database: its marker, its lock, and the address of the server that has it open.

use crate::admin::identity::{self, DatabaseIdentity};
use crate::backend::STREAMS_DIRECTORY;
use crate::error::{Error, NotFound};
use crate::files::{is_there, sync_dir};
use crate::lock::WriterLock;
use crate::space::reserve;
use std::io;
use std::path::Path;
use tapedb_log::{Kind, Storage};

/// Marks the directory as a database.
const MARKER_FILE: &str = "tapedb.database";
const MARKER: &str = "tapedb-database 1\n";
/// Maximum size of a marker, of any version.
const MARKER_BYTES_MAX: u64 = 1 << 10;
const LOCK_FILE: &str = "lock";
/// The URL of the server that has the database open, while there is one.
pub(crate) const SERVER_FILE: &str = "server";
/// Maximum length of a URL.
const URL_BYTES_MAX: u64 = 4 << 10;

/// Opens a directory for writing, and makes a database of it if it is none yet. Returns the lock.
pub(crate) fn prepare(storage: &dyn Storage, path: &Path) -> Result<WriterLock, Error> {
    let streams = path.join(STREAMS_DIRECTORY);
    let is_new = !is_there(storage, &path.join(MARKER_FILE))?;
    if is_new {
        refuse_foreign(storage, path)?;
    } else {
        check_marker(storage, path)?;
    }
    storage.create_dir_all(&streams).map_err(Error::io("create", &streams))?;
    let lock = WriterLock::take(storage, path, LOCK_FILE).map_err(|error| with_server(storage, error))?;
    let lock = if is_new { lock } else { lock.with_marker(storage, MARKER_FILE)? };
    // A server that was killed has left its address.
    let _ = storage.remove(&path.join(SERVER_FILE));
    // An earlier writer may have created or removed names and ended before they were durable. What is acknowledged from now
    // on depends on them.
    sync_dir(storage, &streams)?;
    remove_leftovers(storage, &streams)?;
    if is_new {
        make_marker(storage, path)?;
        let lock = lock.with_marker(storage, MARKER_FILE)?;
        DatabaseIdentity::read_or_create(storage, path)?;
        reserve::create(storage, path);
        return Ok(lock);
    }
    sync_dir(storage, path)?;
    reserve::create(storage, path);
    // A damaged identity does not prevent writing; a backup reports it.
    match DatabaseIdentity::read_or_create(storage, path) {
        // Nor does a full disk: the next writer creates the identity.
        Err(Error::Io { source, .. }) if reserve::is_full(&source) => Ok(lock),
        Err(error @ Error::Io { .. }) => Err(error),
        _ => Ok(lock),
    }
}

/// Checks that a directory has no other files than an incomplete database has: only then it may become a database.
fn refuse_foreign(storage: &dyn Storage, path: &Path) -> Result<(), Error> {
    create_directories(storage, path)?;
    for entry in storage.entries(path).map_err(Error::io("list", path))? {
        // The marker: another process may be creating the same database. The files that are created after it: the marker has
        // been lost.
        let ours = [STREAMS_DIRECTORY, LOCK_FILE, MARKER_FILE, identity::FILE, reserve::FILE];
        if !ours.contains(&&*entry.name) {
            let why = "it holds other files; name an empty or new directory to make a database there";
            return Err(Error::NotFound(NotFound::Database { path: path.into(), why }));
        }
    }
    Ok(())
}

/// Creates a directory, and those above it that do not exist, so that their names survive a power cut.
fn create_directories(storage: &dyn Storage, path: &Path) -> Result<(), Error> {
    let changed = above_missing(storage, path)?;
    storage.create_dir_all(above(path)).map_err(Error::io("create", path))?;
    match storage.create_private_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        created => created.map_err(Error::io("create", path))?,
    }
    for directory in path.ancestors().filter(|path| !path.as_os_str().is_empty()).map(above) {
        let synced = sync_dir(storage, directory);
        if changed.contains(&directory) {
            synced?;
        }
        // An earlier attempt may have created the others. This process may have no right to sync them.
    }
    Ok(())
}

/// The directories that get a new entry when `path` is created.
fn above_missing<'p>(storage: &dyn Storage, path: &'p Path) -> Result<Vec<&'p Path>, Error> {
    let mut changed = Vec::new();
    for path in path.ancestors().take_while(|path| !path.as_os_str().is_empty()) {
        if is_there(storage, path)? {
            break;
        }
        changed.push(above(path));
    }
    Ok(changed)
}

/// The directory that has, or is to have, `path`.
fn above(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        parent => parent.unwrap_or(path),
    }
}

/// Writes the marker. It is written last, so that the creation of an incomplete database is repeated.
pub(crate) fn make_marker(storage: &dyn Storage, path: &Path) -> Result<(), Error> {
    let marker = path.join(MARKER_FILE);
    let draft = path.join(STREAMS_DIRECTORY).join(".new-marker");
    storage.write(&draft, MARKER.as_bytes()).map_err(Error::io("write", &draft))?;
    storage.sync_file(&draft).map_err(Error::io("sync", &draft))?;
    storage.rename(&draft, &marker).map_err(Error::io("create", &marker))?;
    sync_dir(storage, path)
}

/// Checks that a directory is a database of this version.
pub(crate) fn check_marker(storage: &dyn Storage, path: &Path) -> Result<(), Error> {
    let marker = path.join(MARKER_FILE);
    let damaged = "its marker file is damaged; it should say \"tapedb-database 1\"";
    let why = match storage.read(&marker, MARKER_BYTES_MAX) {
        Ok(text) if text == MARKER.as_bytes() => return Ok(()),
        Ok(text) if text.starts_with(b"tapedb-database ") => {
            "it was made by another version; use that version"
        }
        Ok(_) => damaged,
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => damaged,
        Err(_) if !is_there(storage, path)? => "there is no such directory",
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(Error::io("read", &marker)(error));
        }
        Err(_) => "it has no marker file; check the path",
    };
    Err(Error::NotFound(NotFound::Database { path: path.into(), why }))
}

/// Adds the URL of the server that has the database open to [`Error::Locked`].
fn with_server(storage: &dyn Storage, error: Error) -> Error {
    match error {
        Error::Locked { path, .. } => Error::Locked { server: served_at(storage, &path), path },
        error => error,
    }
}

/// The URL that the server of a database has written.
fn served_at(storage: &dyn Storage, path: &Path) -> Option<String> {
    let text = String::from_utf8(storage.read(&path.join(SERVER_FILE), URL_BYTES_MAX).ok()?).ok()?;
    text.lines().next().filter(|url| url.contains("://")).map(str::to_string)
}

/// Removes the files of streams that a process was creating or deleting when it was killed.
fn remove_leftovers(storage: &dyn Storage, streams: &Path) -> Result<(), Error> {
    for entry in storage.entries(streams).map_err(Error::io("list", streams))? {
        if entry.name.starts_with(".new-") || entry.name.starts_with(".deleted-") {
            let path = streams.join(&entry.name);
            let removed = match entry.kind {
                Kind::Directory => storage.remove_dir_all(&path),
                Kind::File => storage.remove(&path),
            };
            removed.map_err(Error::io("remove", &path))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tapedb_log::DiskStorage;

    #[test]
    fn every_directory_that_gets_a_new_name_is_synced() {
        let directory = tempfile::tempdir().unwrap();
        let there = directory.path();
        let path = there.join("a/b/db");
        let above_missing = |path| above_missing(&DiskStorage, path).unwrap();
        assert_eq!(above_missing(&path), [&there.join("a/b"), &there.join("a"), there]);
        create_directories(&DiskStorage, &path).unwrap();
        assert!(path.is_dir() && above_missing(&path).is_empty());
        create_directories(&DiskStorage, &path).unwrap();
        assert_eq!(above_missing(Path::new("no such directory")), [Path::new(".")]);
        assert!(above_missing(Path::new("/")).is_empty());
    }
}
