//! Opening a log for reading, and following what a writer in another process does to it: it appends, begins files
//! and removes old ones.
//!
//! What is missing when a log is opened is damage. What vanishes while a reader looks has been trimmed, for a writer
//! removes whole files, the oldest first, and never its last.

use crate::end::Noted;
use crate::error::LogError;
use crate::files::{LogDir, split_stale};
use crate::log::{Log, State};
use crate::report::Recovery;
use crate::storage::Storage;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

/// How often a reader looks again because files vanished while it looked. A writer trims far less often.
const TRIES_MAX: usize = 16;

impl Log {
    /// Opens the log in `dir` for reading, while a writer in another process may be appending. Bytes at the
    /// end that are not a whole batch are not there yet; [`refresh`](Self::refresh) looks again.
    ///
    /// Messages below `first_sequence` are elsewhere, and files that hold no others are ignored. If the first
    /// file begins later, that is reported as damage. (Or a writer has moved the messages between elsewhere
    /// since the caller learned `first_sequence`: look there first.)
    ///
    /// # Errors
    /// When a file cannot be read, or is another stream's.
    pub fn open(
        storage: Arc<dyn Storage>,
        dir: &Path,
        stream_id: u64,
        space: u32,
        first_sequence: u64,
    ) -> Result<(Arc<Self>, Recovery), LogError> {
        let mut tries = TRIES_MAX;
        let mut begin = first_sequence;
        loop {
            let dir = LogDir { storage: Arc::clone(&storage), path: dir.to_path_buf(), stream_id, space };
            let noted = Noted::read(&dir)?;
            let files = dir.logs()?;
            if tries < TRIES_MAX {
                begin = files.first().copied().unwrap_or(0).max(first_sequence);
            }
            let log = Self::empty(dir, begin, false);
            match log.load_all(&files, noted) {
                Err(error) if error.is_not_found() && tries > 0 => tries -= 1,
                loaded => return loaded.map(|recovery| (Arc::new(log), recovery)),
            }
        }
    }

    fn load_all(&self, files: &[u64], noted: Noted) -> Result<Recovery, LogError> {
        let mut recovery = Recovery::default();
        let (_, files) = split_stale(files, self.first_sequence());
        for (i, &file) in files.iter().enumerate() {
            let is_last = i + 1 == files.len();
            let loaded = self.dir.load(file, self.next_expected(file), !is_last)?;
            if !(is_last && self.is_before_start(&loaded)) {
                self.take_file(&loaded, is_last, &mut recovery);
            }
        }
        self.miss(noted, &mut recovery);
        self.finish(&mut recovery);
        Ok(recovery)
    }

    /// Looks for what a writer in another process has done: the growth of the active file, new files, and old
    /// ones that it has removed, which are then forgotten. Scans only what is new. Returns whether there is more to
    /// read. Does nothing on the log of a writer in this process.
    ///
    /// If the files that were known are all gone, the log begins with the first that is there: messages
    /// before it that were not known yet are [`LogError::Trimmed`] too.
    ///
    /// # Errors
    /// When the files cannot be read.
    pub fn refresh(&self) -> Result<bool, LogError> {
        let owned = self.refreshing.lock().unwrap_or_else(PoisonError::into_inner);
        if *owned {
            return Ok(false);
        }
        let before = self.next_sequence();
        let mut tries = TRIES_MAX;
        loop {
            // Listed first: once a newer file is there, the file before it has its final content.
            let files = self.dir.logs()?;
            match self.follow(&files) {
                Err(error) if error.is_not_found() && tries > 0 => tries -= 1,
                followed => return followed.map(|()| self.next_sequence() > before),
            }
        }
    }

    fn follow(&self, files: &[u64]) -> Result<(), LogError> {
        self.forget_removed(files);
        let files = match self.active_end() {
            Some(active) => {
                let (file, expected) = (active.file, self.next_expected(active.file));
                let grown = self.dir.load_from(file, active.end, expected)?;
                self.publish(&grown.scan.granules, grown.scan.end, grown.scan.next_sequence);
                &files[files.partition_point(|&new| new <= file)..]
            }
            None => split_stale(files, self.first_sequence()).1,
        };
        for &file in files {
            let loaded = self.dir.load(file, self.next_expected(file), false)?;
            if self.active_end().is_none() {
                if self.is_before_start(&loaded) {
                    continue;
                }
                self.begin_at(file);
            }
            self.take_quietly(&loaded);
        }
        Ok(())
    }

    /// Forgets what the writer has removed, which is what lies before the first of `files`.
    fn forget_removed(&self, files: &[u64]) {
        let (Some(active), Some(&first)) = (self.active_end(), files.first()) else { return };
        if first > active.file {
            self.begin_at(first);
        } else if self.state().files.first().is_some_and(|known| known.file < first) {
            self.forget_before(first);
        }
    }

    /// Forgets all; the log begins with `sequence`, unless it is said to begin later.
    fn begin_at(&self, sequence: u64) {
        let mut state = self.state_mut();
        let first_sequence = sequence.max(state.first_sequence);
        let next_sequence = first_sequence.max(state.next_sequence);
        *state = State { first_sequence, next_sequence, ..State::default() };
        drop(state);
        self.end.store(next_sequence, Ordering::Release);
        self.close_forgotten();
    }
}
