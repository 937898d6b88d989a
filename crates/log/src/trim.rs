//! Forgetting the oldest messages of a log, whole files at a time: they are kept elsewhere, or no longer wanted.
//!
//! The index forgets first, then the files go. So a reader who finds a place in the index either gets its bytes (files
//! that are open can be read after they are removed) or learns that they are gone.

use crate::error::LogError;
use crate::log::{FileEnd, Log, State};
use std::sync::{Arc, PoisonError};

/// A log file that no longer grows: another one follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompleteFile {
    /// The log file: the sequence number in its name.
    pub file: u64,
    /// Sequence number of its first message.
    pub first_sequence: u64,
    /// Sequence number with which the file after it goes on. Messages in between that are damaged or missing
    /// count as this file's.
    pub next_sequence: u64,
    /// Bytes up to the end of its last readable batch.
    pub bytes: u64,
}

impl Log {
    /// All files but the one that still grows, in order.
    pub fn complete_files(&self) -> Vec<CompleteFile> {
        self.state().complete().map(CompleteFile::of).collect()
    }

    /// Forgets the complete files all of whose messages are below `sequence`: for a reader whose writer, in another
    /// process, removes them. The log then begins with the first file that is left.
    pub fn forget_before(&self, sequence: u64) {
        self.forget(sequence);
    }

    /// Forgets the complete files all of whose messages are below `before`, and removes them; returns the bytes of
    /// those removed. One that cannot be removed is an error, and forgotten all the same.
    pub(crate) fn trim(&self, before: u64) -> Result<u64, LogError> {
        let (mut freed, mut failed) = (0, None);
        for file in self.forget(before) {
            match self.dir.remove_log(file.file) {
                Ok(()) => freed += file.bytes,
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(freed), Err)
    }

    /// Forgets and removes the oldest complete files until the others have `bytes_max` bytes together, or less.
    pub(crate) fn trim_to(&self, bytes_max: u64) -> Result<u64, LogError> {
        let (files, mut bytes) = (self.complete_files(), 0_u64);
        let too_much = files.iter().rev().find(|file| {
            bytes += file.bytes;
            bytes > bytes_max
        });
        too_much.map_or(Ok(0), |newest| self.trim(newest.next_sequence))
    }

    fn forget(&self, before: u64) -> Vec<CompleteFile> {
        let mut state = self.state_mut();
        let count = state.complete().take_while(|file| file.next_sequence <= before).count();
        let forgotten = state.forget_files(count);
        drop(state);
        if !forgotten.is_empty() {
            self.close_forgotten();
        }
        forgotten.iter().map(CompleteFile::of).collect()
    }

    /// Closes the files that are no longer known: one that is open keeps its room on the disk.
    pub(crate) fn close_forgotten(&self) {
        let known: Vec<u64> = self.state().files.iter().map(|known| known.file).collect();
        let mut open = self.open_files.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|(file, _)| known.binary_search(file).is_ok());
    }
}

impl State {
    fn complete(&self) -> impl Iterator<Item = &FileEnd> {
        self.files.iter().take(self.files.len().saturating_sub(1))
    }

    /// Forgets the first `count` files, which are complete.
    fn forget_files(&mut self, count: usize) -> Vec<FileEnd> {
        if count == 0 {
            return Vec::new();
        }
        let forgotten: Vec<_> = self.files.drain(..count).collect();
        if let Some(first) = self.files.first() {
            let granules = self.sealed.partition_point(|granule| granule.file < first.file);
            Arc::make_mut(&mut self.sealed).drain(..granules);
            self.first_sequence = self.first_sequence.max(first.file);
        }
        forgotten
    }
}

impl CompleteFile {
    fn of(file: &FileEnd) -> Self {
        let FileEnd { file, end, next_sequence } = *file;
        Self { file, first_sequence: file, next_sequence, bytes: end }
    }
}
