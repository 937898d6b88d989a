//! Trimming: the oldest messages of a log are removed, whole files at a time, because they are sealed or expired.
//!
//! Files leave the index first and are removed then. So a reader that finds a granule in the index either gets its bytes
//! (open files can be read after they are removed) or the error that they were trimmed.

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
    /// Sequence number with which the next file begins. Messages in between that are damaged or missing
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

    /// Drops the complete files whose messages are all below `sequence` from the index: for a reader whose writer, in
    /// another process, removes them. The log then begins with the first file that is left.
    pub fn drop_before(&self, sequence: u64) {
        self.drop_files(sequence);
    }

    /// Removes the complete files whose messages are all below `before`; returns the bytes of those removed. A file that
    /// cannot be removed is an error, and leaves the index all the same.
    pub(crate) fn trim(&self, before: u64) -> Result<u64, LogError> {
        let (mut freed, mut failed) = (0, None);
        for file in self.drop_files(before) {
            match self.dir.remove_log(file.file) {
                Ok(()) => freed += file.bytes,
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(freed), Err)
    }

    /// Removes the oldest complete files until the others have at most `bytes_max` bytes together.
    pub(crate) fn trim_to(&self, bytes_max: u64) -> Result<u64, LogError> {
        let (files, mut bytes) = (self.complete_files(), 0_u64);
        let too_much = files.iter().rev().find(|file| {
            bytes += file.bytes;
            bytes > bytes_max
        });
        too_much.map_or(Ok(0), |newest| self.trim(newest.next_sequence))
    }

    fn drop_files(&self, before: u64) -> Vec<CompleteFile> {
        let mut state = self.state_mut();
        let count = state.complete().take_while(|file| file.next_sequence <= before).count();
        let dropped = state.drop_first(count);
        drop(state);
        if !dropped.is_empty() {
            self.close_dropped();
        }
        dropped.iter().map(CompleteFile::of).collect()
    }

    /// Closes the files that are no longer in the index: an open file holds its disk space.
    pub(crate) fn close_dropped(&self) {
        let files: Vec<u64> = self.state().files.iter().map(|file| file.file).collect();
        let mut open = self.open_files.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|(file, _)| files.binary_search(file).is_ok());
    }
}

impl State {
    fn complete(&self) -> impl Iterator<Item = &FileEnd> {
        self.files.iter().take(self.files.len().saturating_sub(1))
    }

    /// Drops the first `count` files, which are complete.
    fn drop_first(&mut self, count: usize) -> Vec<FileEnd> {
        if count == 0 {
            return Vec::new();
        }
        let dropped: Vec<_> = self.files.drain(..count).collect();
        if let Some(first) = self.files.first() {
            let granules = self.sealed.partition_point(|granule| granule.file < first.file);
            Arc::make_mut(&mut self.sealed).drain(..granules);
            self.first_sequence = self.first_sequence.max(first.file);
        }
        dropped
    }
}

impl CompleteFile {
    fn of(file: &FileEnd) -> Self {
        let FileEnd { file, end, next_sequence } = *file;
        Self { file, first_sequence: file, next_sequence, bytes: end }
    }
}
