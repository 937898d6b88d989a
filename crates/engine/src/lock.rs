//! The lock that excludes a second writer of a database.
//!
//! A writer locks two files: `lock`, and the marker, without which a directory is no database and which is hardly removed by
//! mistake. So a second writer that finds `lock` removed still finds the marker locked. If a locked file loses its name
//! nevertheless, the writer stops: another one may be writing.

use crate::error::Error;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use tapedb_log::{LogError, Storage, StorageLock};

/// Attempts, and the pause between them, before the database counts as locked.
const ATTEMPTS: u32 = 10;
const INTERVAL: Duration = Duration::from_millis(10);

/// Held by the writer of a database; the system releases it when the process ends, in whatever way.
#[derive(Debug)]
pub(crate) struct WriterLock {
    path: PathBuf,
    lock: StorageLock,
    marker: Option<StorageLock>,
}

impl WriterLock {
    /// Locks a file of the database at `path`.
    pub fn take(storage: &dyn Storage, path: &Path, file: &str) -> Result<Self, Error> {
        Ok(Self { path: path.into(), lock: try_lock(storage, path, file)?, marker: None })
    }

    /// Locks the marker as well.
    pub fn with_marker(self, storage: &dyn Storage, file: &str) -> Result<Self, Error> {
        Ok(Self { marker: Some(try_lock(storage, &self.path, file)?), ..self })
    }

    /// Checks that no loss of the locks was found. Cheap: called before every append.
    #[inline]
    pub fn check(&self) -> Result<(), Error> {
        let is_lost = self.lock.is_lost() || self.marker.as_ref().is_some_and(StorageLock::is_lost);
        if is_lost { Err(self.lost()) } else { Ok(()) }
    }

    /// Checks the lock files now.
    pub fn check_now(&self) -> Result<(), Error> {
        let holds = self.lock.check() && self.marker.as_ref().is_none_or(StorageLock::check);
        if holds { Ok(()) } else { Err(self.lost()) }
    }

    #[cold]
    fn lost(&self) -> Error {
        let cause = format!(
            "the lock of {} was removed or replaced, so another process may be writing; make sure that there is one writer, and \
             that nothing removes its lock",
            self.path.display()
        );
        LogError::Poisoned { cause }.into()
    }
}

fn try_lock(storage: &dyn Storage, path: &Path, file: &str) -> Result<StorageLock, Error> {
    let file = path.join(file);
    // A child process that is being started holds a copy of a lock that this process has released.
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            thread::sleep(INTERVAL);
        }
        if let Some(lock) = storage.try_lock(&file).map_err(Error::io("lock", &file))? {
            return Ok(lock);
        }
    }
    Err(Error::Locked { path: path.into(), server: None })
}
