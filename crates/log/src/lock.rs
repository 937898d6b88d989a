//! Locks of files on the disk, and whether they still hold.
//!
//! A lock is on a file, not on its name: if the file is removed or replaced, another process can lock the file that has the
//! name then. So a thread checks twice a second whether each locked file still has its name. A lock that was lost once is
//! lost for good.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::Duration;

/// How often a locked file is checked.
const INTERVAL: Duration = Duration::from_millis(500);
/// How often locking is tried again when the file loses its name at that moment.
const ATTEMPTS_MAX: u32 = 16;

/// A file that is locked.
pub(crate) struct LockedFile {
    file: File,
    path: PathBuf,
    is_lost: AtomicBool,
}

impl LockedFile {
    /// Locks a file, which is created if it does not exist; `None`: it is locked already.
    pub fn lock(path: &Path) -> io::Result<Option<Arc<Self>>> {
        for _ in 0..ATTEMPTS_MAX {
            let file = OpenOptions::new().create(true).truncate(false).write(true).open(path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
            let path = fs::canonicalize(path).unwrap_or_else(|_| path.into());
            let locked = Arc::new(Self { file, path, is_lost: AtomicBool::new(false) });
            // It may have been removed between opening and locking.
            if locked.has_its_name() {
                watch(&locked);
                return Ok(Some(locked));
            }
        }
        Err(io::Error::new(io::ErrorKind::ResourceBusy, "the lock file was removed each time it was locked"))
    }

    /// Whether the file has been found without its name.
    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
    }

    /// Checks whether the file still has its name.
    pub fn check(&self) -> bool {
        if !self.has_its_name() {
            self.is_lost.store(true, Ordering::Relaxed);
        }
        !self.is_lost()
    }

    /// If it cannot be checked, the answer is yes.
    fn has_its_name(&self) -> bool {
        let id = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
        match (fs::metadata(&self.path).map(id), self.file.metadata().map(id)) {
            (Ok(named), Ok(locked)) => named == locked,
            (Err(error), _) => error.kind() != io::ErrorKind::NotFound,
            (_, Err(_)) => true,
        }
    }
}

/// The thread that checks all locked files; `None`: it could not be started.
static WATCHER: OnceLock<Option<thread::Thread>> = OnceLock::new();

fn watch(locked: &Arc<LockedFile>) {
    static WATCHED: Mutex<Vec<Weak<LockedFile>>> = Mutex::new(Vec::new());
    let watched = || WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
    watched().push(Arc::downgrade(locked));
    let watcher = WATCHER.get_or_init(|| {
        let check = move || {
            loop {
                let held: Vec<_> = {
                    let mut watched = watched();
                    watched.retain(|locked| locked.strong_count() > 0);
                    watched.iter().filter_map(Weak::upgrade).collect()
                };
                if held.is_empty() {
                    thread::park();
                    continue;
                }
                for locked in &held {
                    locked.check();
                }
                drop(held);
                thread::park_timeout(INTERVAL);
            }
        };
        let started = thread::Builder::new().name("tapedb-lock".into()).spawn(check);
        // Without the thread, only callers of `check` check.
        started.ok().map(|handle| handle.thread().clone())
    });
    if let Some(watcher) = watcher {
        watcher.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn wait_until_lost(locked: &LockedFile) {
        let begun = Instant::now();
        while !locked.is_lost() {
            assert!(begun.elapsed() < Duration::from_secs(60), "the thread has not checked");
            // Without waiting for its interval.
            WATCHER.get().into_iter().flatten().for_each(thread::Thread::unpark);
            thread::yield_now();
        }
    }

    #[test]
    fn a_lock_whose_file_is_removed_or_replaced_is_lost_for_good() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let removed = LockedFile::lock(&path).unwrap().unwrap();
        assert!(removed.check() && LockedFile::lock(&path).unwrap().is_none());
        fs::remove_file(&path).unwrap();
        wait_until_lost(&removed);
        let second = LockedFile::lock(&path).unwrap().unwrap();
        fs::write(dir.path().join("other"), "").unwrap();
        fs::rename(dir.path().join("other"), &path).unwrap();
        assert!(!second.check() && second.is_lost() && !removed.check());
    }

    #[test]
    fn a_lock_holds_while_the_file_is_written_and_linked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let locked = LockedFile::lock(&path).unwrap().unwrap();
        fs::write(&path, "x").unwrap();
        fs::hard_link(&path, dir.path().join("link")).unwrap();
        assert!(locked.check());
        drop(locked);
        assert!(LockedFile::lock(&path).unwrap().is_some());
    }
}
