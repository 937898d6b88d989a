//! A stream as its files stand: for looking after them without opening, mending or believing anything.

use crate::database::Database;
use crate::definition::Definition;
use crate::error::Error;
use crate::files::check_there;
use crate::identity::{Identity, Seen};
use crate::stream::{SYMBOLS_FILE, space_directory};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tapedb_codec::dynamic::Layouts;
use tapedb_log::{Storage, SymbolFile, SymbolRecovery, Walk};

/// The files of a stream; only its definition has been read. See [`Database::stored`].
pub struct StoredStream {
    storage: Arc<dyn Storage>,
    name: String,
    directory: PathBuf,
    definition: Definition,
    layouts: Layouts,
    identity: Identity,
    /// What is wrong with one of the copies of the definition.
    pub(crate) definition_damage: Option<Error>,
}

impl fmt::Debug for StoredStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredStream").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl StoredStream {
    pub(crate) fn open(storage: Arc<dyn Storage>, name: &str, directory: PathBuf) -> Result<Self, Error> {
        let (identity, definition, copies) = Identity::open(storage.clone(), &directory)?;
        let layouts = Layouts::new(definition.schema.clone())?;
        let definition_damage = copies.damage;
        Ok(Self { storage, name: name.into(), directory, definition, layouts, identity, definition_damage })
    }

    /// Name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The directory of the stream's files.
    pub fn path(&self) -> &Path {
        &self.directory
    }

    /// The schema prepared for the interpreted codec.
    pub fn layouts(&self) -> &Layouts {
        &self.layouts
    }

    /// Version of the schema; batches say with which one they were written.
    pub fn schema_version(&self) -> u16 {
        self.definition.schema_version
    }

    /// The symbol file.
    pub fn symbols_path(&self) -> PathBuf {
        self.directory.join(SYMBOLS_FILE)
    }

    /// The directory of the log files.
    pub fn log_path(&self) -> PathBuf {
        self.directory.join(space_directory(0))
    }

    /// Reads the symbol file.
    ///
    /// # Errors
    /// When it is not there, cannot be read, or belongs to another stream.
    pub fn symbols(&self) -> Result<(SymbolFile, SymbolRecovery), Error> {
        let path = self.symbols_path();
        check_there(&*self.storage, &path, "is missing, and with it the names of all symbols")?;
        Ok(SymbolFile::open_read(&*self.storage, &path, self.definition.id)?)
    }

    /// Begins a walk through the log files.
    ///
    /// # Errors
    /// When their directory is not there or cannot be listed.
    pub fn walk(&self) -> Result<Walk, Error> {
        let path = self.log_path();
        check_there(&*self.storage, &path, "is missing, and with it all messages")?;
        Ok(Walk::open(self.storage.clone(), &path, self.definition.id, 0)?)
    }

    /// Whether the stream has been deleted meanwhile, or replaced by another of its name.
    pub fn is_gone(&self) -> bool {
        matches!(self.identity.look(), Seen::Gone)
    }
}

impl Database {
    /// The files of a stream as they stand, also where [`Database::stream`] would not open them, or only after it has
    /// read much.
    ///
    /// # Errors
    /// [`Error::NoStream`], or what is wrong with its definition.
    pub fn stored(&self, name: &str) -> Result<StoredStream, Error> {
        StoredStream::open(self.storage().clone(), name, self.existing_directory_of(name)?)
    }
}
