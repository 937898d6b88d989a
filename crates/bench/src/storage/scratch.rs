//! A database that is removed at the end.

use std::path::{Path, PathBuf};
use tapedb_codec::{Record, SchemaBuilder};
use tapedb_engine::{Database, Stream, StreamOptions};
use tapedb_terminal::Failure;

/// The database of a benchmark.
pub struct Scratch {
    pub db: Database,
    pub path: PathBuf,
}

impl Scratch {
    /// Creates it.
    ///
    /// # Errors
    /// When the path exists.
    pub fn new(path: &Path) -> Result<Self, Failure> {
        if path.exists() {
            let path = path.display();
            return Err(Failure::new(format!(
                "{path} exists; remove it, or name another directory with --db"
            )));
        }
        Ok(Self { db: Database::open(path)?, path: path.into() })
    }

    /// Closes the database, and leaves it where it is.
    #[cfg(feature = "sql")]
    pub fn keep(mut self) {
        // What is dropped removes nothing then.
        self.path = PathBuf::new();
    }

    /// Creates a stream.
    pub fn stream<T: Record>(&self, name: &str, options: StreamOptions) -> Result<Stream, Failure> {
        Ok(self.db.create_stream(name, SchemaBuilder::new().with::<T>().finish(), options)?)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// A directory beside the benchmark's database that is removed at the end.
pub struct ScratchDir(pub PathBuf);

impl ScratchDir {
    /// A directory of that name, which is not created.
    pub fn beside(db: &Path, name: &str) -> Self {
        let path = PathBuf::from(format!("{}.{name}", db.display()));
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
