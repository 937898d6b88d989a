//! Opening a log for reading, and following a writer in another process, which appends, begins files and removes old
//! ones.
//!
//! Files missing when a log is opened are damage. Files that disappear while it is being read have been trimmed: a writer
//! removes whole files, the oldest first, and never its last.

use crate::directory::{LogDir, split_stale};
use crate::end::EndRecord;
use crate::error::LogError;
use crate::log::{Log, State};
use crate::report::Recovery;
use crate::storage::Storage;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

/// How often a reader tries again because files disappeared while it read. A writer trims far less often.
const TRIES_MAX: usize = 16;

impl Log {
    /// Opens the log in `dir` for reading, while a writer in another process may be appending. Bytes at the
    /// end that are not a whole batch yet are ignored; [`refresh`](Self::refresh) reads them again.
    ///
    /// Messages below `first_sequence` are stored elsewhere, and files that hold no others are ignored. If the first file
    /// begins later, that is reported as damage. (Or a writer has sealed the messages between since the caller read
    /// `first_sequence`: check there first.)
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
            let end = EndRecord::read(&dir)?;
            let files = dir.logs()?;
            if tries < TRIES_MAX {
                begin = files.first().copied().unwrap_or(0).max(first_sequence);
            }
            let log = Self::empty(dir, begin, false);
            match log.load_all(&files, end) {
                Err(error) if error.is_not_found() && tries > 0 => tries -= 1,
                loaded => return loaded.map(|recovery| (Arc::new(log), recovery)),
            }
        }
    }

    fn load_all(&self, files: &[u64], end: EndRecord) -> Result<Recovery, LogError> {
        let mut recovery = Recovery::default();
        let (_, files) = split_stale(files, self.first_sequence());
        for (i, &file) in files.iter().enumerate() {
            let is_last = i + 1 == files.len();
            let loaded = self.dir.load(file, self.next_expected(file), !is_last)?;
            if !(is_last && self.is_before_start(&loaded)) {
                self.add_file(&loaded, is_last, &mut recovery);
            }
        }
        self.report_lost_end(end, &mut recovery);
        self.finish(&mut recovery);
        Ok(recovery)
    }

    /// Reads what a writer in another process has changed: growth of the active file, new files, and removed ones, which
    /// leave the index. Scans only what is new. Returns whether there is more to read. Does nothing on the log of a writer
    /// in this process.
    ///
    /// If all indexed files have been removed, the log begins with the first that exists: messages before it that were
    /// not indexed yet are [`LogError::Trimmed`] too.
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
            // Listed first: once a newer file exists, the file before it has its final content.
            let files = self.dir.logs()?;
            match self.follow(&files) {
                Err(error) if error.is_not_found() && tries > 0 => tries -= 1,
                followed => return followed.map(|()| self.next_sequence() > before),
            }
        }
    }

    fn follow(&self, files: &[u64]) -> Result<(), LogError> {
        self.drop_removed(files);
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
            self.add_loaded(&loaded);
        }
        Ok(())
    }

    /// Drops the files that the writer has removed: those before the first of `files`.
    fn drop_removed(&self, files: &[u64]) {
        let (Some(active), Some(&first)) = (self.active_end(), files.first()) else { return };
        if first > active.file {
            self.begin_at(first);
        } else if self.state().files.first().is_some_and(|file| file.file < first) {
            self.drop_before(first);
        }
    }

    /// Drops all files; the log begins with `sequence`, unless it begins later already.
    fn begin_at(&self, sequence: u64) {
        let mut state = self.state_mut();
        let first_sequence = sequence.max(state.first_sequence);
        let next_sequence = first_sequence.max(state.next_sequence);
        *state = State { first_sequence, next_sequence, ..State::default() };
        drop(state);
        self.end.store(next_sequence, Ordering::Release);
        self.close_dropped();
    }
}
