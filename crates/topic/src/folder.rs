//! Folders and file names of topics.
//!
//! Topics are in memory: by default under `/dev/shm`, in a folder of the user's. Those of a database are there too, in a
//! folder whose name is made from the database's path, so that a process that opens the database by any path finds them, with or
//! without a server. Nothing of a topic survives a restart of the machine but its copy in a stream.

use crate::error::TopicError;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use tapedb_shm::system::user_id;

/// Longest name of a topic, in bytes.
pub const TOPIC_NAME_BYTES_MAX: usize = 80;

/// Extension of topic files.
pub(crate) const EXTENSION: &str = "topic";

/// A folder of topics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    path: PathBuf,
    /// Created here, under a folder that all users may write: only this user may have rights to it.
    is_private: bool,
}

impl Folder {
    /// Topics of this user that belong to no database.
    pub fn shared() -> Self {
        Self { path: user_folder(), is_private: true }
    }

    /// Topics of the database in directory `database`.
    ///
    /// # Errors
    /// When there is no such directory.
    pub fn of_database(database: impl AsRef<Path>) -> Result<Self, TopicError> {
        let database = database.as_ref();
        let whole =
            fs::canonicalize(database).map_err(|error| failed("find the database", database, error))?;
        let digest = fnv(whole.as_os_str().as_encoded_bytes());
        Ok(Self { path: user_folder().join(format!("{digest:016x}")), is_private: true })
    }

    /// Topics in a folder of the caller's choice. One on a disk works, but slower.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), is_private: false }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file of a topic.
    ///
    /// # Errors
    /// When the name is invalid. A valid one is 1 to 80 bytes of ASCII letters, digits, `_`, `-` and `.`, the first not a `.`.
    pub fn file(&self, name: &str) -> Result<PathBuf, TopicError> {
        check_name(name)?;
        Ok(self.path.join(format!("{name}.{EXTENSION}")))
    }

    /// Names of the topics in the folder, sorted.
    ///
    /// # Errors
    /// When it cannot be read, or other users may write it.
    pub fn list(&self) -> Result<Vec<String>, TopicError> {
        let entries = match fs::read_dir(&self.path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed("list", &self.path, error)),
        };
        self.check()?;
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.map_err(|error| failed("list", &self.path, error))?.file_name();
            let stem = name.to_str().and_then(|name| name.strip_suffix(".topic"));
            names.extend(stem.filter(|stem| check_name(stem).is_ok()).map(String::from));
        }
        names.sort();
        Ok(names)
    }

    /// Creates the folder if it does not exist.
    ///
    /// # Errors
    /// When it cannot be created, or other users may write it.
    pub(crate) fn create(&self) -> Result<(), TopicError> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(&self.path).map_err(|error| failed("create", &self.path, error))?;
        self.check()
    }

    /// All users may create folders in `/dev/shm`: one that other users may write is refused.
    pub(crate) fn check(&self) -> Result<(), TopicError> {
        if !self.is_private {
            return Ok(());
        }
        let is_ours = |path: &Path| -> io::Result<bool> {
            let found = fs::symlink_metadata(path)?;
            Ok(found.is_dir() && found.uid() == user_id() && found.mode() & 0o022 == 0)
        };
        for path in [&user_folder(), &self.path] {
            match is_ours(path) {
                Ok(true) => {}
                Ok(false) => return Err(TopicError::Folder { path: path.clone() }),
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
                Err(error) => return Err(failed("check", path, error)),
            }
        }
        Ok(())
    }
}

fn user_folder() -> PathBuf {
    let memory = Path::new("/dev/shm");
    let under = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    under.join(format!("tapedb-{}", user_id()))
}

fn check_name(name: &str) -> Result<(), TopicError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let rule = if name.is_empty() {
        "it is empty"
    } else if name.len() > TOPIC_NAME_BYTES_MAX {
        "it is longer than 80 bytes"
    } else if name.starts_with('.') {
        "it begins with a dot"
    } else if !name.bytes().all(plain) {
        "it has other characters than ASCII letters, digits, `_`, `-` and `.`"
    } else {
        return Ok(());
    };
    Err(TopicError::Name { name: name.chars().take(100).collect(), rule })
}

/// FNV-1a: it only has to distinguish the paths of one user, and to be the same in every program.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

pub(crate) fn failed(what: &'static str, path: &Path, error: io::Error) -> TopicError {
    TopicError::Io { what, path: path.to_path_buf(), error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_be_other_files_are_refused() {
        let folder = Folder::at("/tmp/x");
        for name in ["", ".hidden", "a/b", "..", "ä", "a b", &"x".repeat(81)] {
            assert!(matches!(folder.file(name), Err(TopicError::Name { .. })), "{name}");
        }
        assert_eq!(folder.file("md.l2-eu_1").unwrap(), Path::new("/tmp/x/md.l2-eu_1.topic"));
    }

    #[test]
    fn a_database_has_one_folder_by_any_path() {
        let home = tempfile::tempdir().unwrap();
        let inner = home.path().join("db");
        fs::create_dir(&inner).unwrap();
        let one = Folder::of_database(&inner).unwrap();
        assert_eq!(one, Folder::of_database(home.path().join("./db/../db")).unwrap());
        assert_ne!(one, Folder::of_database(home.path()).unwrap());
        assert!(Folder::of_database(home.path().join("none")).is_err());
    }
}
