//! A database that is removed in the end.

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
    /// Makes it, where nothing is yet.
    pub fn new(path: &Path) -> Result<Self, Failure> {
        if path.exists() {
            let path = path.display();
            return Err(Failure::new(format!(
                "{path} exists; remove it, or name another directory with --db"
            )));
        }
        Ok(Self { db: Database::open(path)?, path: path.into() })
    }

    /// Makes a stream.
    pub fn stream<T: Record>(&self, name: &str, options: StreamOptions) -> Result<Stream, Failure> {
        Ok(self.db.create_stream(name, SchemaBuilder::new().with::<T>().finish(), options)?)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// A directory that is removed in the end, beside the benchmark's database.
pub struct Place(pub PathBuf);

impl Place {
    /// A directory of that name, which is not made.
    pub fn beside(db: &Path, name: &str) -> Self {
        let path = PathBuf::from(format!("{}.{name}", db.display()));
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
