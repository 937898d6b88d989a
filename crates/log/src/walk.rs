//! Walks everything in the files of a log, to check, back up or inspect them.
//!
//! [`Log`](crate::Log) trusts indexes, and reads a file without one whole. A walk trusts no index, changes nothing, and has
//! little more than one batch in memory. A writer in another process may be appending: of each file, the bytes that were
//! there when the walk reached it are read.
//!
//! Damage is found and reported as by a scan at opening (`scan.rs`).

use crate::batches::BatchSlice;
use crate::directory::{LogDir, split_stale};
use crate::end::{End, EndRecord};
use crate::error::LogError;
use crate::format::{
    END_FILE, FILE_HEADER_BYTES, FileHeader, FileKind, PRODUCERS_FILE, index_bytes_max, index_name,
    parse_index,
};
use crate::granule::{self, Granule};
use crate::marks::Marks;
use crate::producers::Producers;
use crate::report::{Cut, Damage, Reason};
use crate::scan::zeros_at_end;
use crate::search::{AfterDamage, Region, Search};
use crate::storage::{Storage, StorageFile, read_full, read_into};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use tapedb_codec::batch::{BatchError, BatchHeader, HEADER_BYTES, MAX_BATCH_BYTES};

/// Bytes that are read at once.
const READ_BYTES: usize = 1 << 20;
/// The largest batch, and the header of the next one.
const BATCH_BYTES_MAX: usize = HEADER_BYTES + MAX_BATCH_BYTES + HEADER_BYTES;
/// Bytes in memory while searching for the next whole batch after damage.
const SEARCH_BYTES: usize = BATCH_BYTES_MAX + 4 * READ_BYTES;

/// What comes next in the files of a log.
#[derive(Debug)]
pub enum Found<'a> {
    /// A log file begins.
    File {
        /// The file: the sequence number in its name.
        file: u64,
        /// Its bytes, as far as they will be read.
        bytes: u64,
    },
    /// A whole batch, next in sequence, whose header and payload checksums are right.
    Batch(BatchSlice<'a>),
    /// Messages that are missing, or bytes that are not a batch although a batch or a file follows them.
    Damage(Damage),
    /// Bytes at the end of the last file that are not a whole batch: an append that is under way, or that was never
    /// finished and is cut off when the log is next opened for writing.
    Unfinished(Cut),
    /// Preallocated space: zeros at the end of a file, after everything else.
    Preallocated {
        /// Its earliest possible beginning: the bytes before it may end with zeros too.
        offset: u64,
        /// How many bytes.
        bytes: u64,
    },
    /// A file that cannot be read, or not to its end.
    Unreadable {
        /// The file: the sequence number in its name.
        file: u64,
        /// Why not.
        error: Box<LogError>,
        /// Sequence number of the first message that was not read because of it.
        first_sequence: u64,
        /// Number of those messages; `None` when no file follows.
        count: Option<u64>,
    },
    /// A file beside the log files, of the end or of producers, is damaged or of another log. It is ignored, and a writer
    /// replaces it.
    Rejected {
        /// Its name.
        name: &'static str,
    },
    /// A fault of the last file's index.
    Index {
        /// The file: the sequence number in its name.
        file: u64,
        /// What is wrong.
        fault: IndexFault,
    },
}

/// What is wrong with an index file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexFault {
    /// It is missing. The next writer creates it.
    Missing,
    /// It is damaged, or of another log file. It is ignored, and the next writer replaces it.
    Rejected,
    /// It is valid, but the log file, which is whole, contains something else.
    Wrong,
    /// It exists, so another file followed the log file, and that is missing.
    WithoutSuccessor,
}

impl fmt::Display for IndexFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "the index is missing",
            Self::Rejected => "the index is damaged and ignored",
            Self::Wrong => "the index is valid but does not match the log file",
            Self::WithoutSuccessor => {
                "the log file has an index, so another one followed it, which is missing"
            }
        })
    }
}

/// A walk through the log files of one space, from the first to the last that existed when it began.
pub struct Walk {
    dir: LogDir,
    files: Vec<u64>,
    /// Number of files that have been begun.
    begun: usize,
    next_sequence: u64,
    /// Where the log ended when it was last closed.
    end: Option<End>,
    /// The end of the last file that was walked completely.
    reached: u64,
    current: Option<Current>,
    window: Window,
    /// What has been found and not returned yet.
    found: VecDeque<Found<'static>>,
}

/// The file that is being walked.
struct Current {
    file: u64,
    marks: Marks,
    handle: Arc<dyn StorageFile>,
    /// Where the next batch begins.
    at: u64,
    search: Search,
    granules: Vec<Granule>,
    is_last: bool,
    is_damaged: bool,
    /// Offset at which bad bytes have been read twice.
    read_again: Option<u64>,
    /// Offset at which bad bytes have been read again after a whole batch was found after them.
    read_before_whole: Option<u64>,
}

enum Step {
    Batch(BatchHeader, u64),
    Bad(BatchError),
    End,
}

impl fmt::Debug for Walk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dir, begun, next_sequence, .. } = self;
        write!(f, "Walk({dir:?}, {begun} files begun, next {next_sequence})")
    }
}

impl Walk {
    /// Begins with the first log file in `dir`.
    ///
    /// # Errors
    /// When the directory cannot be listed.
    pub fn open(storage: Arc<dyn Storage>, dir: &Path, stream_id: u64, space: u32) -> Result<Self, LogError> {
        let dir = LogDir { storage, path: dir.to_path_buf(), stream_id, space };
        let record = EndRecord::read(&dir)?;
        let files = dir.logs()?;
        let next_sequence = files.first().copied().unwrap_or(0);
        let mut found: VecDeque<_> = (record == EndRecord::Damaged)
            .then_some(Found::Rejected { name: END_FILE })
            .into_iter()
            .collect();
        found.extend((!Producers::is_sound(&dir)).then_some(Found::Rejected { name: PRODUCERS_FILE }));
        let (end, window) = (record.end(), Window::default());
        Ok(Self {
            dir,
            files,
            begun: 0,
            next_sequence,
            end,
            reached: FILE_HEADER_BYTES,
            current: None,
            window,
            found,
        })
    }

    /// Walks the log as it is when it begins with message `first_sequence`: files that hold only messages below it are
    /// left out, and a first file that begins later is damage.
    pub fn beginning_with(mut self, first_sequence: u64) -> Self {
        let (stale, files) = split_stale(&self.files, first_sequence);
        self.next_sequence = files.first().map_or(first_sequence, |&file| file.min(first_sequence));
        if let Some(&file) = files.first()
            && file > first_sequence
        {
            let (count, reason) = (Some(file - first_sequence), Reason::Gap);
            self.found.push_back(Found::Damage(Damage {
                file,
                offset: 0,
                bytes: 0,
                first_sequence,
                count,
                reason,
            }));
        }
        self.files.drain(..stale.len());
        self
    }

    /// The log files, each by the sequence number in its name, in order.
    pub fn files(&self) -> &[u64] {
        &self.files
    }

    /// Sequence number after the last message seen or known to be missing.
    pub fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// What comes next; `None` at the end. After an error in one file the walk continues with the next.
    pub fn next_found(&mut self) -> Option<Found<'_>> {
        loop {
            if let Some(found) = self.found.pop_front() {
                return Some(found);
            }
            if self.current.is_none() {
                if self.begin_file().is_none() {
                    self.report_lost_end()?;
                }
                continue;
            }
            match self.step() {
                Ok(Some((header, offset))) => {
                    let bytes = self.window.held(offset, header.batch_bytes());
                    return Some(Found::Batch(BatchSlice { header, bytes, offset }));
                }
                Ok(None) => {}
                Err(error) => self.give_up(error),
            }
        }
    }

    /// Begins the next file; `None` when there is none.
    fn begin_file(&mut self) -> Option<()> {
        let file = *self.files.get(self.begun)?;
        self.begun += 1;
        self.next_sequence = self.next_sequence.max(file);
        match self.open_file(file) {
            Ok(current) => self.current = Some(current),
            Err(error) => self.unreadable(file, error),
        }
        Some(())
    }

    fn open_file(&mut self, file: u64) -> Result<Current, LogError> {
        let handle = self.dir.open_read(file)?;
        let bytes = self.dir.size(&*handle, file)?;
        let is_last = self.begun == self.files.len();
        self.window.begin(bytes);
        let head = self.window.read(&*handle, 0, FILE_HEADER_BYTES as usize + HEADER_BYTES);
        let head = head.map_err(|e| LogError::io("read", &self.dir.log_path(file), e))?;
        let header = FileHeader::parse(FileKind::Log, head);
        self.dir.check_owner(file, header.as_ref())?;
        let marks = self.dir.marks(file, header.as_ref(), head);
        self.found.push_back(Found::File { file, bytes });
        // The last file may be one that is being created.
        let was_closed = self.end.is_some_and(|end| end.file == file);
        let is_damaged = header.is_none() && !(is_last && bytes <= FILE_HEADER_BYTES && !was_closed);
        if is_damaged {
            let (bytes, count, reason) = (bytes.min(FILE_HEADER_BYTES), Some(0), Reason::FileHeader);
            self.found.push_back(Found::Damage(Damage {
                file,
                offset: 0,
                bytes,
                first_sequence: file,
                count,
                reason,
            }));
        }
        Ok(Current {
            file,
            marks,
            handle,
            at: FILE_HEADER_BYTES,
            search: Search::default(),
            granules: Vec::new(),
            is_last,
            is_damaged,
            read_again: None,
            read_before_whole: None,
        })
    }

    /// Moves past a batch, which is returned if it is next in sequence, past damage, or to the next file.
    fn step(&mut self) -> Result<Option<(BatchHeader, u64)>, LogError> {
        let Some(mut current) = self.current.take() else { return Ok(None) };
        let (file, at) = (current.file, current.at);
        let io = |e| LogError::io("read", &self.dir.log_path(file), e);
        match current.read_batch(&mut self.window).map_err(io) {
            Ok(Step::Batch(header, at)) => {
                let taken = self.accept(&mut current, header, at);
                self.current = Some(current);
                Ok(taken)
            }
            Ok(Step::Bad(error)) => match current.next_whole(&mut self.window, self.next_sequence) {
                // A writer may have been filling preallocated space: the bytes before a whole batch are complete now.
                Ok(Some(_)) if current.is_last && current.read_before_whole != Some(at) => {
                    current.read_before_whole = Some(at);
                    self.window.clear();
                    self.current = Some(current);
                    Ok(None)
                }
                Ok(Some((next, header))) => {
                    self.damage(&mut current, next - at, header.first_sequence, Reason::Batch(error));
                    current.at = next;
                    self.current = Some(current);
                    Ok(None)
                }
                Ok(None) => match self.exclude_preallocated(&current) {
                    Ok(()) => {
                        self.end_file(current, Some(error));
                        Ok(None)
                    }
                    Err(error) => {
                        self.current = Some(current);
                        Err(error)
                    }
                },
                Err(e) => {
                    self.current = Some(current);
                    Err(LogError::io("read", &self.dir.log_path(file), e))
                }
            },
            Ok(Step::End) => {
                self.end_file(current, None);
                Ok(None)
            }
            Err(error) => {
                self.current = Some(current);
                Err(error)
            }
        }
    }

    /// Adds a whole batch; returns it if it is the next one.
    fn accept(&mut self, current: &mut Current, header: BatchHeader, at: u64) -> Option<(BatchHeader, u64)> {
        let bytes = header.batch_bytes() as u64;
        if header.first_sequence > self.next_sequence {
            // The batch itself comes with the next step.
            self.damage(current, 0, header.first_sequence, Reason::Gap);
            return None;
        }
        if header.first_sequence < self.next_sequence {
            let (file, offset, first_sequence) = (current.file, at, header.first_sequence);
            let (count, reason) = (Some(0), Reason::Duplicate);
            self.found.push_back(Found::Damage(Damage {
                file,
                offset,
                bytes,
                first_sequence,
                count,
                reason,
            }));
            current.is_damaged = true;
            current.at += bytes;
            return None;
        }
        granule::extend(&mut current.granules, Granule::of(current.file, at, &header));
        current.at += bytes;
        self.next_sequence = header.next_sequence();
        Some((header, at))
    }

    /// Reports damage at the current offset; reading continues with message `next`.
    fn damage(&mut self, current: &mut Current, bytes: u64, next: u64, reason: Reason) {
        let first_sequence = self.next_sequence;
        let (file, offset, count) = (current.file, current.at, Some(next - first_sequence));
        self.found.push_back(Found::Damage(Damage { file, offset, bytes, first_sequence, count, reason }));
        current.is_damaged = true;
        self.next_sequence = next;
    }

    /// Limits the walk to the last byte that is not preallocated.
    fn exclude_preallocated(&mut self, current: &Current) -> Result<(), LogError> {
        let (mut at, mut end) = (current.at, current.at);
        while at < self.window.len {
            let bytes = self.window.read(&*current.handle, at, READ_BYTES);
            let bytes = bytes.map_err(|e| LogError::io("read", &self.dir.log_path(current.file), e))?;
            let (have, zeros) = (bytes.len() as u64, zeros_at_end(bytes) as u64);
            if zeros < have {
                end = at + have - zeros;
            }
            at += have.max(1);
        }
        if end < self.window.len {
            self.found.push_back(Found::Preallocated { offset: end, bytes: self.window.len - end });
        }
        self.window.len = end;
        Ok(())
    }

    /// Checks the bytes after the last batch of a file, and its index.
    fn end_file(&mut self, mut current: Current, error: Option<BatchError>) {
        let (file, offset) = (current.file, current.at);
        self.reached = offset;
        let bytes = self.window.len.saturating_sub(offset);
        let error = error.filter(|_| bytes > 0);
        let is_missing = self.end.is_some_and(|end| end.next_sequence > self.next_sequence);
        if current.is_last {
            if let Some(error) = error
                && !is_missing
            {
                let reason = Reason::Batch(error);
                self.found.push_back(Found::Unfinished(Cut { file, offset, bytes, reason }));
            }
            self.check_no_index(&current);
            return;
        }
        let next = self.next_file().max(self.next_sequence);
        if let Some(error) = error {
            self.damage(&mut current, bytes, next, Reason::Batch(error));
        } else if next > self.next_sequence {
            self.damage(&mut current, 0, next, Reason::Gap);
        }
        self.check_index(&current);
    }

    /// Reports messages that the log had when it was closed and that are not in its files; `None`: there are none, or they
    /// have been reported.
    fn report_lost_end(&mut self) -> Option<()> {
        let end = self.end.take()?;
        let first_sequence = self.next_sequence;
        let missing = end.next_sequence.saturating_sub(first_sequence);
        if missing == 0 && self.files.iter().any(|file| *file >= end.file) {
            return None;
        }
        let count = Some(missing);
        let file = self.files.last().copied().unwrap_or(end.file);
        let offset = if file == end.file { self.reached.min(end.offset) } else { 0 };
        let bytes = if file == end.file { end.offset - offset } else { 0 };
        self.next_sequence += missing;
        let reason = Reason::Gone;
        self.found.push_back(Found::Damage(Damage { file, offset, bytes, first_sequence, count, reason }));
        Some(())
    }

    /// The file after the one that was begun last.
    fn next_file(&self) -> u64 {
        self.files.get(self.begun).copied().unwrap_or(self.next_sequence)
    }

    fn check_index(&mut self, current: &Current) {
        let file = current.file;
        let fault = match self.read_granules(file) {
            Ok(Some(granules)) if current.is_damaged || granules == current.granules => return,
            Ok(Some(_)) => IndexFault::Wrong,
            Err(error) if error.kind() == io::ErrorKind::NotFound => IndexFault::Missing,
            Ok(None) | Err(_) => IndexFault::Rejected,
        };
        self.found.push_back(Found::Index { file, fault });
    }

    /// The last file must have no index, unless a writer has just rolled it.
    fn check_no_index(&mut self, current: &Current) {
        let file = current.file;
        let has_index = matches!(self.read_granules(file), Ok(Some(_)));
        // The next file is created before the index.
        let is_last = || self.dir.logs().is_ok_and(|files| files.last() == Some(&file));
        if has_index && is_last() {
            self.found.push_back(Found::Index { file, fault: IndexFault::WithoutSuccessor });
        }
    }

    /// The granules of a file's index; `None` when it is not valid.
    fn read_granules(&self, file: u64) -> io::Result<Option<Vec<Granule>>> {
        let handle = self.dir.storage.open_read(&self.dir.path.join(index_name(file)))?;
        let (bytes, log_bytes) = (handle.len()?, self.window.len);
        if bytes > index_bytes_max(log_bytes) {
            return Ok(None);
        }
        let mut content = Vec::new();
        read_into(&*handle, &mut content, 0, bytes as usize)?;
        let header = FileHeader::new(self.dir.stream_id, self.dir.space, file);
        Ok(parse_index(&content, &header, log_bytes))
    }

    /// Ends the current file after an error.
    fn give_up(&mut self, error: LogError) {
        if let Some(current) = self.current.take() {
            self.unreadable(current.file, error);
        }
    }

    fn unreadable(&mut self, file: u64, error: LogError) {
        let first_sequence = self.next_sequence;
        let next = self.files.get(self.begun).map(|&next| next.max(first_sequence));
        let count = next.map(|next| next - first_sequence);
        self.next_sequence = next.unwrap_or(first_sequence);
        self.found.push_back(Found::Unreadable { file, error: error.into(), first_sequence, count });
    }
}

impl Current {
    /// The batch at `at`, whole or not.
    fn read_batch(&mut self, window: &mut Window) -> io::Result<Step> {
        loop {
            if self.at >= window.len {
                return Ok(Step::End);
            }
            let head = window.read(&*self.handle, self.at, HEADER_BYTES)?;
            let bytes = BatchHeader::parse_stored(head).map_or(HEADER_BYTES, |header| header.batch_bytes());
            let region = self.region(self.at);
            match region.check(window.read(&*self.handle, self.at, bytes)?, 0) {
                Ok(header) => return Ok(Step::Batch(header, self.at)),
                // A writer may have cut and rewritten the end of the file while it was being read.
                Err(_) if self.is_last && self.read_again != Some(self.at) => {
                    self.read_again = Some(self.at);
                    window.clear();
                }
                Err(error) => return Ok(Step::Bad(error)),
            }
        }
    }

    fn region(&self, offset: u64) -> Region {
        Region { file: self.file, offset, marks: self.marks }
    }

    /// The next whole batch after the bad one at `at`, as [`Search::next`] finds it.
    fn next_whole(&mut self, window: &mut Window, expected: u64) -> io::Result<Option<(u64, BatchHeader)>> {
        let after = AfterDamage { expected, offset: self.at };
        let mut from = self.after_bad(window, expected)?;
        while from < window.len {
            let bytes = window.read(&*self.handle, from, SEARCH_BYTES)?;
            let have = bytes.len();
            // A batch that begins before this offset is completely in memory.
            let is_end = have < SEARCH_BYTES;
            let to = if is_end { have } else { have - BATCH_BYTES_MAX + 1 };
            let region = Region { file: self.file, offset: from, marks: self.marks };
            match self.search.next_before(region, bytes, 0..to, after) {
                Ok((at, header)) => return Ok(Some((from + at as u64, header))),
                Err(at) => from += at.max(1) as u64,
            }
        }
        Ok(None)
    }

    /// [`Region::after_bad`] of the bad batch at `at`, a batch at a time.
    fn after_bad(&self, window: &mut Window, expected: u64) -> io::Result<u64> {
        let (mut at, mut expected) = (self.at, expected);
        while at < window.len {
            let bytes = window.read(&*self.handle, at, BATCH_BYTES_MAX)?;
            match self.region(at).step_after_bad(bytes, at == self.at, expected) {
                Some(header) => (at, expected) = (at + header.batch_bytes() as u64, header.next_sequence()),
                None => break,
            }
        }
        Ok(at.max(self.at + 1))
    }
}

/// A section of a file in memory.
#[derive(Default)]
struct Window {
    bytes: Vec<u8>,
    /// Where `bytes` begins in the file.
    start: u64,
    /// Bytes of the file that are read.
    len: u64,
}

impl Window {
    /// Begins another file.
    fn begin(&mut self, len: u64) {
        self.clear();
        self.len = len;
    }

    fn clear(&mut self) {
        self.bytes.clear();
    }

    /// `len` bytes from `at` on, or fewer where the file ends.
    fn read(&mut self, file: &dyn StorageFile, at: u64, len: usize) -> io::Result<&[u8]> {
        let len = self.len.saturating_sub(at).min(len as u64) as usize;
        if !self.has(at, len) {
            self.fill(file, at, len)?;
        }
        let have = (self.start + self.bytes.len() as u64).saturating_sub(at).min(len as u64) as usize;
        Ok(self.held(at, have))
    }

    fn has(&self, at: u64, len: usize) -> bool {
        at >= self.start && at + len as u64 <= self.start + self.bytes.len() as u64
    }

    /// Bytes in memory.
    fn held(&self, at: u64, len: usize) -> &[u8] {
        let start = at.saturating_sub(self.start) as usize;
        self.bytes.get(start..start + len).unwrap_or_default()
    }

    /// Reads at least `len` bytes from `at` on; bytes in memory are moved, not read again.
    fn fill(&mut self, file: &dyn StorageFile, at: u64, len: usize) -> io::Result<()> {
        let kept = match at.checked_sub(self.start) {
            Some(before) if before < self.bytes.len() as u64 => {
                self.bytes.drain(..before as usize);
                self.bytes.len()
            }
            _ => {
                self.bytes.clear();
                0
            }
        };
        self.start = at;
        let rest = self.len.saturating_sub(at);
        let want = (len.max(READ_BYTES) as u64).min(rest) as usize;
        self.bytes.resize(want.max(kept), 0);
        let read = read_full(file, &mut self.bytes[kept..], at + kept as u64);
        self.bytes.truncate(kept + read.as_ref().copied().unwrap_or(0));
        read?;
        if self.bytes.len() < want {
            // A writer has cut the file.
            self.len = at + self.bytes.len() as u64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::log_name;
    use crate::scan::scan_file;
    use crate::sim::SimStorage;
    use crate::test_batches;
    use proptest::prelude::*;
    use tapedb_codec::batch::check;

    const STREAM: u64 = 7;

    fn batch_of(first_sequence: u64, count: usize, body_bytes: usize) -> Vec<u8> {
        test_batches::batch_of(first_sequence, count, &vec![0x54; body_bytes])
    }

    fn walk(files: &[(u64, &[u8])]) -> Walk {
        let disk = SimStorage::new(1);
        let dir = Path::new("/log");
        disk.create_dir_all(dir).unwrap();
        for (file, bytes) in files {
            disk.create_new(&dir.join(log_name(*file))).unwrap().write_at(bytes, 0).unwrap();
        }
        Walk::open(Arc::new(disk), dir, STREAM, 0).unwrap()
    }

    /// Batches, damage and unfinished append of the only file, as a scan finds them.
    fn walked(bytes: &[u8]) -> (Vec<u64>, Vec<Damage>, Option<Cut>, u64) {
        let mut walk = walk(&[(0, bytes)]);
        let (mut offsets, mut damaged, mut unfinished) = (Vec::new(), Vec::new(), None);
        while let Some(found) = walk.next_found() {
            match found {
                Found::Batch(batch) => {
                    assert_eq!(check(batch.bytes), Ok(batch.header));
                    offsets.push(batch.offset);
                }
                Found::Damage(damage) if damage.reason == Reason::FileHeader => {}
                Found::Damage(damage) => damaged.push(damage),
                Found::Unfinished(cut) => unfinished = Some(cut),
                Found::File { .. } | Found::Preallocated { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        (offsets, damaged, unfinished, walk.next_sequence())
    }

    fn check_like_a_scan(bytes: &[u8]) {
        let marks = Marks::of(&FileHeader::new(STREAM, 0, 0));
        let scan = scan_file(bytes, Region { file: 0, offset: 0, marks }, 0);
        let (offsets, damaged, unfinished, next_sequence) = walked(bytes);
        assert_eq!(offsets.len() as u64, scan.batches);
        assert_eq!(damaged, scan.damaged);
        assert_eq!(unfinished.map(|cut| cut.reason), scan.end_error.map(Reason::Batch));
        assert!(unfinished.is_none_or(|cut| {
            let (offset, end) = (scan.end.max(FILE_HEADER_BYTES), bytes.len() as u64 - scan.preallocated);
            (cut.offset, cut.bytes) == (offset, end - offset)
        }));
        assert_eq!(next_sequence, scan.next_sequence);
    }

    fn file(batches: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = FileHeader::new(STREAM, 0, 0).bytes(FileKind::Log).to_vec();
        batches.iter().for_each(|batch| bytes.extend(batch));
        bytes
    }

    #[test]
    fn batches_larger_than_one_read_and_damage_between_them() {
        let large = |first| batch_of(first, 4, 3 << 20);
        let mut bytes = file(&[large(0), batch_of(4, 1, 10), large(5), large(9), batch_of(13, 2, 7)]);
        check_like_a_scan(&bytes);
        // Bad bytes in the payload of the third batch, then in its header too.
        bytes[20 << 20] ^= 1;
        check_like_a_scan(&bytes);
        let start = 64 + large(0).len() + batch_of(4, 1, 10).len();
        bytes[start + 30] ^= 1;
        check_like_a_scan(&bytes);
        let (offsets, damaged, unfinished, _) = walked(&bytes);
        assert_eq!((offsets.len(), damaged.len(), unfinished), (4, 1, None));
        assert_eq!((damaged[0].first_sequence, damaged[0].count), (5, Some(4)));
        // The rest is bad.
        bytes[start + large(5).len()..].fill(0x54);
        check_like_a_scan(&bytes);
    }

    #[test]
    fn preallocated_space_is_excluded() {
        let mut bytes = file(&[batch_of(0, 2, 5), batch_of(2, 1, 9)]);
        bytes.resize(bytes.len() + (3 << 20), 0);
        check_like_a_scan(&bytes);
        assert_eq!(found(walk(&[(0, &bytes)])), ["file 0", "batch 0", "batch 2", "preallocated 3145728"]);
        let next = file(&[]);
        let next = [&next[..24], &3_u64.to_le_bytes(), &next[32..]].concat();
        let found = found(walk(&[(0, &bytes), (3, &next)]));
        assert!(!found.iter().any(|line| line.starts_with("damage 0")), "{found:?}");
    }

    #[test]
    fn a_read_error_in_preallocated_space_is_reported() {
        let mut bytes = file(&[batch_of(0, 2, 5)]);
        bytes.resize(bytes.len() + (3 << 20), 0);
        let disk = SimStorage::new(1);
        let dir = Path::new("/log");
        disk.create_dir_all(dir).unwrap();
        disk.create_new(&dir.join(log_name(0))).unwrap().write_at(&bytes, 0).unwrap();
        let open = || Walk::open(Arc::new(disk.clone()), dir, STREAM, 0).unwrap();
        let before = disk.reads();
        assert_eq!(found(open()), ["file 0", "batch 0", "preallocated 3145728"]);
        // The first reads are of the end record, of the directory and of the file's header.
        let in_file = 4..disk.reads() - before;
        for read in in_file.clone() {
            disk.fail_read_at(disk.reads() + read, io::ErrorKind::Other, true);
            let found = found(open());
            disk.make_readable();
            assert!(found.iter().any(|line| line.starts_with("unreadable 0")), "read {read}: {found:?}");
        }
        assert!(in_file.count() > 1);
    }

    #[test]
    fn files_are_chained() {
        let head = |first| FileHeader::new(STREAM, 0, first).bytes(FileKind::Log).to_vec();
        let whole = |first: u64| [head(first), batch_of(first, 2, 5)].concat();
        let torn = [head(2), vec![1, 2, 3]].concat();
        let foreign = [FileHeader::new(8, 0, 4).bytes(FileKind::Log).to_vec(), batch_of(4, 2, 5)].concat();
        let (first, last) = (whole(0), whole(9));
        let found = found(walk(&[(0, &first), (2, &torn), (4, &foreign), (9, &last)]));
        assert_eq!(
            found,
            [
                "file 0",
                "batch 0",
                "index 0 Missing",
                "file 2",
                "damage 2 3 Some(2)",
                "index 2 Missing",
                "unreadable 4 Some(5)",
                "file 9",
                "batch 9",
            ]
        );
    }

    fn found(mut walk: Walk) -> Vec<String> {
        let mut lines = Vec::new();
        while let Some(found) = walk.next_found() {
            lines.push(match found {
                Found::File { file, .. } => format!("file {file}"),
                Found::Batch(batch) => format!("batch {}", batch.header.first_sequence),
                Found::Damage(damage) => {
                    format!("damage {} {} {:?}", damage.file, damage.bytes, damage.count)
                }
                Found::Unreadable { file, count, .. } => format!("unreadable {file} {count:?}"),
                Found::Index { file, fault } => format!("index {file} {fault:?}"),
                Found::Unfinished(cut) => format!("unfinished {}", cut.bytes),
                Found::Preallocated { bytes, .. } => format!("preallocated {bytes}"),
                Found::Rejected { name } => name.into(),
            });
        }
        lines
    }

    #[test]
    fn a_log_that_begins_later() {
        let head = |first| FileHeader::new(STREAM, 0, first).bytes(FileKind::Log).to_vec();
        let files = [4, 6, 8].map(|first: u64| (first, [head(first), batch_of(first, 2, 5)].concat()));
        let from = |first_sequence| {
            let files = files.each_ref().map(|(file, bytes)| (*file, bytes.as_slice()));
            let walk = walk(&files).beginning_with(first_sequence);
            let (count, found) = (walk.files().len(), found(walk));
            let batches = found.iter().filter(|line| line.starts_with("batch")).count();
            (count, batches, found[0].clone())
        };
        assert_eq!(from(1), (3, 3, "damage 4 0 Some(3)".into()));
        assert_eq!(from(4), (3, 3, "file 4".into()));
        assert_eq!(from(7), (2, 2, "file 6".into()));
        assert_eq!(from(8), (1, 1, "file 8".into()));
        assert_eq!(walk(&[]).beginning_with(5).next_sequence(), 5);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]
        #[test]
        fn finds_what_a_scan_finds(
            sizes in prop::collection::vec((1usize..4, 0usize..60), 0..12),
            flips in prop::collection::vec((any::<prop::sample::Index>(), 0u8..8), 0..4),
            cut in any::<prop::sample::Index>(),
            order in any::<bool>(),
            preallocated in prop_oneof![Just(0), 1usize..200],
        ) {
            let mut next = 0;
            let mut batches: Vec<_> = sizes.iter().map(|&(count, body)| {
                let batch = batch_of(next, count, body);
                next += count as u64;
                batch
            }).collect();
            if order { batches.reverse() }
            let mut bytes = file(&batches);
            for (position, bit) in flips {
                // A whole header of another stream would be refused.
                let at = 64 + position.index(bytes.len().max(65) - 64);
                if let Some(byte) = bytes.get_mut(at) { *byte ^= 1 << bit }
            }
            bytes.truncate(64.max(cut.index(2 * bytes.len())));
            bytes.resize(bytes.len() + preallocated, 0);
            check_like_a_scan(&bytes);
        }
    }
}
