//! The identity of a database, and of the original of a backup: the file `identity`, text like definitions.
//!
//! ```text
//! tapedb-identity 1
//! checksum 73c624e9
//! id 4c1d95052de1a1f5
//! backup-of 90ab4e0dd3f0c1d2
//! ```

use crate::clock::random;
use crate::error::{Error, Unreadable};
use crate::stream::copies;
use std::path::Path;
use tapedb_log::Storage;

/// Name of the file in the directory of a database.
pub(crate) const FILE: &str = "identity";
/// In the directory of streams, where the next writer removes it.
const DRAFT: &str = "streams/.new-identity";
const MAGIC: &str = "tapedb-identity 1";
const BYTES_MAX: u64 = 1 << 10;

/// The content of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DatabaseIdentity {
    /// The database: 64 random bits.
    pub id: u64,
    /// The id of the database of which it is a backup.
    pub backup_of: Option<u64>,
}

impl DatabaseIdentity {
    /// A new database.
    pub fn new() -> Self {
        Self { id: random(), backup_of: None }
    }

    /// Reads the file; `None`: it is missing, as in databases of earlier versions.
    ///
    /// # Errors
    /// When it is damaged or cannot be read.
    pub fn read(storage: &dyn Storage, database: &Path) -> Result<Option<Self>, Error> {
        let path = database.join(FILE);
        let Some(text) = copies::read_text(storage, &path, BYTES_MAX)? else { return Ok(None) };
        let damaged = |what: String| {
            let now =
                "remove it, and the next writer creates a new one; then run the next backup with `--adopt`";
            Error::Unreadable(Unreadable::Definition { path: path.clone(), what: format!("{what}; {now}") })
        };
        let body = copies::unsealed(MAGIC, &text).map_err(damaged)?;
        let parsed = Self::parse(body).ok_or_else(|| damaged("has an unknown line".into()))?;
        Ok(Some(parsed))
    }

    /// Reads the file, or creates it if there is none.
    ///
    /// # Errors
    /// As [`DatabaseIdentity::read`] and [`DatabaseIdentity::write`].
    pub fn read_or_create(storage: &dyn Storage, database: &Path) -> Result<Self, Error> {
        if let Some(found) = Self::read(storage, database)? {
            return Ok(found);
        }
        let new = Self::new();
        new.write(storage, database)?;
        Ok(new)
    }

    /// Writes the file, whole or not at all.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, storage: &dyn Storage, database: &Path) -> Result<(), Error> {
        copies::replace(storage, database, FILE, DRAFT, &self.to_text())
    }

    fn to_text(self) -> String {
        let backup_of = self.backup_of.map_or(String::new(), |id| format!("backup-of {id:016x}\n"));
        copies::sealed(MAGIC, &format!("id {:016x}\n{backup_of}", self.id))
    }

    fn parse(body: &str) -> Option<Self> {
        let mut lines = body.lines();
        let mut number = |name| {
            let line: Option<&str> = lines.next();
            line.map(|line| u64::from_str_radix(line.strip_prefix(name)?.strip_prefix(' ')?, 16).ok())
        };
        let id = number("id")??;
        let backup_of = match number("backup-of") {
            Some(number) => Some(number?),
            None => None,
        };
        lines.next().is_none().then_some(Self { id, backup_of })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tapedb_log::sim::SimStorage;

    #[test]
    fn what_is_written_is_read_and_damage_is_reported() {
        let storage = SimStorage::new(1);
        storage.create_dir_all(Path::new("/db/streams")).unwrap();
        let path = Path::new("/db");
        assert_eq!(DatabaseIdentity::read(&storage, path).unwrap(), None);
        for backup_of in [None, Some(7)] {
            let identity = DatabaseIdentity { id: 0x4c1d_9505_2de1_a1f5, backup_of };
            identity.write(&storage, path).unwrap();
            assert_eq!(DatabaseIdentity::read_or_create(&storage, path).unwrap(), identity);
            let content = storage.content(&path.join(FILE)).unwrap();
            for bit in 0..content.len() * 8 {
                let mut broken = content.clone();
                broken[bit / 8] ^= 1 << (bit % 8);
                storage.set_content(&path.join(FILE), &broken);
                assert!(DatabaseIdentity::read(&storage, path).is_err(), "bit {bit}");
            }
        }
    }

    #[test]
    fn the_page_shows_the_file() {
        let page = include_str!("../../../../docs/format/database.md");
        let identity = DatabaseIdentity { id: 0x4c1d_9505_2de1_a1f5, backup_of: Some(0x90ab_4e0d_d3f0_c1d2) };
        assert!(page.contains(&identity.to_text()), "it must show:\n{}", identity.to_text());
    }
}
