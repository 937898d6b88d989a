//! How a stream's own files are reached: its definition, and what of its files there is.

use crate::definition::Definition;
use crate::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tapedb_log::{Kind, Storage, StorageFile, read_all};

/// The definition file in a stream's directory.
pub(crate) const DEFINITION_FILE: &str = "stream.tape";
/// No definition is longer: a schema has a few thousand fields at most.
const DEFINITION_BYTES_MAX: u64 = 64 << 20;

/// A stream's definition file, kept open: while it is, no other file has its identity, so a stream that was deleted can be
/// told from another one of its name.
pub(crate) struct DefinitionFile {
    storage: Arc<dyn Storage>,
    path: PathBuf,
    file: Arc<dyn StorageFile>,
}

impl fmt::Debug for DefinitionFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DefinitionFile({})", self.path.display())
    }
}

impl DefinitionFile {
    /// Opens and reads the definition in the directory of a stream.
    ///
    /// # Errors
    /// When it is missing, cannot be read or is damaged.
    pub fn open(storage: &Arc<dyn Storage>, directory: &Path) -> Result<(Self, Definition), Error> {
        let path = directory.join(DEFINITION_FILE);
        check_there(&**storage, &path, "is missing, and with it the schema")?;
        let file = storage.open_read(&path).map_err(Error::io("open", &path))?;
        let bytes = read_all(&*file, DEFINITION_BYTES_MAX).map_err(Error::io("read", &path))?;
        let text = String::from_utf8(bytes)
            .map_err(|_| Error::Definition { path: path.clone(), what: "is damaged: not UTF-8".into() })?;
        let definition = Definition::parse(&text, &path)?;
        Ok((Self { storage: storage.clone(), path, file }, definition))
    }

    /// Whether the name stands for another file by now, or for none.
    pub fn is_replaced(&self) -> bool {
        match (self.storage.identity(&self.path), self.file.identity()) {
            (Ok(there), Ok(ours)) => there != ours,
            (Err(error), _) => error.kind() == io::ErrorKind::NotFound,
            _ => false,
        }
    }
}

/// Whether there is something at a path.
pub(crate) fn is_there(storage: &dyn Storage, path: &Path) -> Result<bool, Error> {
    match storage.kind(path) {
        // Nor is it where a directory above it is a file.
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(false),
        kind => Ok(kind.map_err(Error::io("look for", path))?.is_some()),
    }
}

/// Checks that there is something at a path that a stream cannot do without.
pub(crate) fn check_there(storage: &dyn Storage, path: &Path, what: &str) -> Result<(), Error> {
    if is_there(storage, path)? {
        return Ok(());
    }
    Err(Error::Definition { path: path.into(), what: what.into() })
}

/// Bytes of all files in a directory and those below it.
pub(crate) fn bytes_of(storage: &dyn Storage, directory: &Path) -> Result<u64, Error> {
    let mut bytes = 0;
    for entry in storage.entries(directory).map_err(Error::io("list", directory))? {
        let path = directory.join(&entry.name);
        bytes += match entry.kind {
            Kind::Directory => bytes_of(storage, &path)?,
            // A file that has gone meanwhile takes no room.
            Kind::File => storage.size(&path).unwrap_or(0),
        };
    }
    Ok(bytes)
}

/// Makes the names in a directory survive a power cut.
pub(crate) fn sync_dir(storage: &dyn Storage, directory: &Path) -> Result<(), Error> {
    storage.sync_dir(directory).map_err(Error::io("sync", directory))
}
