//! Creates a database only on request, so that a mistyped path creates none.

use std::path::Path;
use tapedb_engine::{Database, Error, NotFound};
use tapedb_terminal::{Failure, location};

/// Whether a database may be created.
#[derive(clap::Args, Debug, Clone, Copy, Default)]
pub struct CreateArgs {
    /// Create the database if there is none.
    #[arg(long)]
    pub create: bool,
}

/// Fails if there is no database and `create` is not set. (The database of a server exists.)
pub fn check(place: &Path, create: bool) -> Result<(), Failure> {
    if create || location::url_of(place).is_some() || !is_free(place) {
        return Ok(());
    }
    // Also in an empty directory: it may be the mount point of a disk that is missing.
    Err(Failure::new(format!(
        "there is no database at {}; check the path, or add --create to create one",
        place.display()
    )))
}

/// Whether opening would create a database there.
fn is_free(place: &Path) -> bool {
    let is_empty = || place.read_dir().is_ok_and(|mut entries| entries.next().is_none());
    let is_none = matches!(Database::open_read_only(place), Err(Error::NotFound(NotFound::Database { .. })));
    is_none && (!place.exists() || is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_is_created_only_on_request() {
        let directory = tempfile::tempdir().unwrap();
        let typo = directory.path().join("typo");
        for place in [&typo, directory.path()] {
            assert!(check(place, false).unwrap_err().to_string().contains("--create"));
            assert!(check(place, true).is_ok());
        }
        assert!(!typo.exists());
        drop(Database::open(&typo).unwrap());
        assert!(check(&typo, false).is_ok());
        // Other content of the directory is refused when it is opened.
        assert!(check(directory.path(), false).is_ok());
        assert!(check(Path::new("tape://localhost"), false).is_ok());
    }
}
