//! Whether the files in a directory are still those of the stream that was opened.
//!
//! The id in its definition identifies a stream; the identity of the definition's file is the quick check: while it is the
//! same, the stream is unchanged. Another file with the same id is the same stream with other options.

use crate::error::Error;
use crate::names;
use crate::stream::definition::{self, Definition, FILES, StoredDefinition};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tapedb_log::{Storage, StorageFile};

/// The definition that a stream was opened with.
pub(crate) struct Identity {
    storage: Arc<dyn Storage>,
    directory: PathBuf,
    id: u64,
    /// Held open: no other file can get its identity.
    file: Mutex<Arc<dyn StorageFile>>,
}

/// The state of a stream's directory.
#[derive(Debug)]
pub(crate) enum Seen {
    /// Unchanged.
    Same,
    /// The definition has changed; the stream is the same.
    Altered(Box<Definition>),
    /// It has been deleted or renamed, or another stream has its name.
    Gone,
}

impl Identity {
    /// Opens the definition in a directory.
    ///
    /// # Errors
    /// When there is no definition, or no copy of it is good.
    pub fn open(storage: Arc<dyn Storage>, directory: &Path) -> Result<(Self, Definition, Copies), Error> {
        let found = definition::read(&*storage, directory)?;
        let found = found.ok_or_else(|| definition::missing(directory.join(FILES[0])))?;
        let StoredDefinition { definition, file, damage, is_uneven } = found;
        let identity =
            Self { storage, directory: directory.into(), id: definition.id, file: Mutex::new(file) };
        Ok((identity, definition, Copies { damage, is_uneven }))
    }

    /// Writes both copies of the definition again.
    ///
    /// # Errors
    /// As [`definition::write`].
    pub fn write(&self, definition: &Definition) -> Result<(), Error> {
        definition::write(&*self.storage, &self.directory, definition)
    }

    /// Checks the directory. If it cannot be read, it counts as unchanged.
    pub fn look(&self) -> Seen {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let there = self.storage.identity(&self.directory.join(FILES[0]));
        match (there, file.identity()) {
            (Ok(there), Ok(ours)) if there == ours => return Seen::Same,
            (Err(error), _) if error.kind() != io::ErrorKind::NotFound => return Seen::Same,
            _ => {}
        }
        match definition::read(&*self.storage, &self.directory) {
            Ok(Some(found)) if found.definition.id == self.id => {
                *file = found.file;
                Seen::Altered(Box::new(found.definition))
            }
            Ok(_) => Seen::Gone,
            Err(_) => Seen::Same,
        }
    }

    /// The stream's present name, if it exists under another one.
    pub fn name_now(&self) -> Option<String> {
        let streams = self.directory.parent()?;
        let entries = self.storage.entries(streams).ok()?;
        entries.into_iter().find_map(|entry| {
            let name = names::name_of(&entry.name)?;
            let found = definition::read(&*self.storage, &streams.join(&entry.name)).ok()??;
            (found.definition.id == self.id).then_some(name)
        })
    }
}

/// State of the copies of a definition.
#[derive(Debug)]
pub(crate) struct Copies {
    /// The fault of one of them.
    pub damage: Option<Error>,
    /// Whether they must be written again.
    pub is_uneven: bool,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").field("directory", &self.directory).finish_non_exhaustive()
    }
}
