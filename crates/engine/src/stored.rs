//! A stream as its files stand: for looking after them without opening, mending or believing anything.

use crate::database::Database;
use crate::definition::Definition;
use crate::error::Error;
use crate::stream::{DEFINITION_FILE, SYMBOLS_FILE, check_there, read_definition, space_directory};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tapedb_codec::dynamic::Layouts;
use tapedb_log::{DiskStorage, SymbolFile, SymbolRecovery, Walk};

/// The files of a stream; only its definition has been read. See [`Database::stored`].
#[derive(Debug)]
pub struct StoredStream {
    name: String,
    directory: PathBuf,
    definition: Definition,
    layouts: Layouts,
    /// Kept open, so that another stream of the name is told apart by its inode.
    definition_file: File,
}

impl StoredStream {
    pub(crate) fn open(name: &str, directory: PathBuf) -> Result<Self, Error> {
        let (definition_file, definition) = read_definition(&directory)?;
        let layouts = Layouts::new(definition.schema.clone())?;
        Ok(Self { name: name.into(), directory, definition, layouts, definition_file })
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
        check_there(&path, "is missing, and with it the names of all symbols")?;
        Ok(SymbolFile::open_read(&DiskStorage, &path, self.definition.id)?)
    }

    /// Begins a walk through the log files.
    ///
    /// # Errors
    /// When their directory is not there or cannot be listed.
    pub fn walk(&self) -> Result<Walk, Error> {
        let path = self.log_path();
        check_there(&path, "is missing, and with it all messages")?;
        Ok(Walk::open(Arc::new(DiskStorage), &path, self.definition.id, 0)?)
    }

    /// Whether the stream has been deleted meanwhile, or replaced by another of its name.
    pub fn is_gone(&self) -> bool {
        crate::stream::is_replaced(&self.directory.join(DEFINITION_FILE), &self.definition_file)
    }
}

impl Database {
    /// The files of a stream as they stand, also where [`Database::stream`] would not open them, or only after it has
    /// read much.
    ///
    /// # Errors
    /// [`Error::NoStream`], or what is wrong with its definition.
    pub fn stored(&self, name: &str) -> Result<StoredStream, Error> {
        StoredStream::open(name, self.existing_directory_of(name)?)
    }
}
