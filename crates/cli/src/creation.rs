//! No database by a typo: one that is not there is made only where that was asked for.

use crate::failure::Failure;
use crate::remote;
use std::path::Path;
use tapedb_engine::{Database, Error};

/// Whether a database may be made.
#[derive(clap::Args, Debug, Clone, Copy, Default)]
pub struct CreateArgs {
    /// Make the database if there is none.
    #[arg(long)]
    pub create: bool,
}

/// Fails where there is no database and none is to be made. (What a server has is there.)
pub fn check(place: &Path, create: bool) -> Result<(), Failure> {
    if create || remote::url_of(place).is_some() || !is_free(place) {
        return Ok(());
    }
    // Also in an empty directory: it may be where a disk is mounted when all is well.
    Err(Failure::new(format!(
        "there is no database at {}; check the path, or add --create to make one",
        place.display()
    )))
}

/// Whether a database would be made there.
fn is_free(place: &Path) -> bool {
    let is_empty = || place.read_dir().is_ok_and(|mut entries| entries.next().is_none());
    let is_none = matches!(Database::open_read_only(place), Err(Error::NotADatabase { .. }));
    is_none && (!place.exists() || is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_asked_for_is_made() {
        let directory = tempfile::tempdir().unwrap();
        let typo = directory.path().join("typo");
        for place in [&typo, directory.path()] {
            assert!(check(place, false).unwrap_err().to_string().contains("--create"));
            assert!(check(place, true).is_ok());
        }
        assert!(!typo.exists());
        drop(Database::open(&typo).unwrap());
        assert!(check(&typo, false).is_ok());
        // What else may lie there is told by who opens it.
        assert!(check(directory.path(), false).is_ok());
        assert!(check(Path::new("tape://localhost"), false).is_ok());
    }
}
