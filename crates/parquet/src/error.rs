//! What can go wrong with a Parquet file.

use std::fmt;
use std::path::{Path, PathBuf};

/// Why a file cannot be read or written.
#[derive(Debug)]
pub struct Error {
    /// The file.
    pub path: PathBuf,
    /// What is wrong, and what to do.
    pub what: String,
}

impl Error {
    pub(crate) fn new(path: &Path, what: impl fmt::Display) -> Self {
        Self { path: path.into(), what: what.to_string() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.what)
    }
}

impl std::error::Error for Error {}
