//! Opens the log files of a directory and finds out what they hold: by index where it can be trusted, else by
//! scan.

use crate::end::{self, Noted};
use crate::error::LogError;
use crate::format::{
    FILE_HEADER_BYTES, FileHeader, FileKind, VERSION, index_bytes, index_bytes_max, index_header, index_name,
    index_of_name, log_name, log_of_name, parse_index,
};
use crate::granule::Granule;
use crate::marks::Marks;
use crate::producers;
use crate::report::{Damage, Reason};
use crate::scan::{Scan, scan_file, scan_region, zeros_at_end};
use crate::search::Region;
use crate::storage::{Storage, StorageFile, read_into};
use crate::writer::FILE_BYTES_MAX;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};
use tapedb_codec::batch::{HEADER_BYTES, MAX_BATCH_BYTES};

/// No log file is longer: whatever its limit, it may hold one batch that is larger.
const LOG_BYTES_MAX: u64 = FILE_BYTES_MAX + (HEADER_BYTES + MAX_BATCH_BYTES) as u64;

/// What is looked at before all of it is read: a file that is being written ends with room most of the time.
const PROBE_BYTES: u64 = 4096;

/// A directory of log files that belong to one space of one stream.
pub(crate) struct LogDir {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) path: PathBuf,
    pub(crate) stream_id: u64,
    pub(crate) space: u32,
}

impl fmt::Debug for LogDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LogDir({}, stream {}, space {})", self.path.display(), self.stream_id, self.space)
    }
}

/// What one log file holds.
#[derive(Debug)]
pub(crate) struct LoadedFile {
    pub(crate) file: u64,
    pub(crate) bytes: u64,
    pub(crate) scan: Scan,
    pub(crate) by_index: bool,
}

impl LogDir {
    pub(crate) fn log_path(&self, file: u64) -> PathBuf {
        self.path.join(log_name(file))
    }

    /// The log files in order.
    pub(crate) fn logs(&self) -> Result<Vec<u64>, LogError> {
        let names = self.storage.list(&self.path).map_err(|e| LogError::io("list", &self.path, e))?;
        let mut logs: Vec<_> = names.iter().filter_map(|name| log_of_name(name)).collect();
        logs.sort_unstable();
        Ok(logs)
    }

    /// Removes what a writer that died has left over: files that were being written, and log files and indexes
    /// before `first_file`.
    pub(crate) fn remove_left_over(&self, first_file: u64) -> Result<(), LogError> {
        let mut names = self.storage.list(&self.path).map_err(|e| LogError::io("list", &self.path, e))?;
        names.sort_unstable();
        let is_older = |file: Option<u64>| file.is_some_and(|file| file < first_file);
        for name in &names {
            let is_draft = name.ends_with(".idx.tmp") || [end::DRAFT, producers::DRAFT].contains(&&**name);
            if is_draft || is_older(index_of_name(name)) {
                self.remove(&self.path.join(name))?;
            } else if let Some(file) = log_of_name(name).filter(|&file| file < first_file) {
                self.check_is_ours(file)?;
                self.remove(&self.path.join(name))?;
            }
        }
        Ok(())
    }

    /// Removes a log file and its index, the index first: left over alone it would be no log's.
    pub(crate) fn remove_log(&self, file: u64) -> Result<(), LogError> {
        self.remove(&self.path.join(index_name(file)))?;
        self.remove(&self.log_path(file))
    }

    /// Removes a file, which may be gone already.
    fn remove(&self, path: &Path) -> Result<(), LogError> {
        match self.storage.remove(path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(LogError::io("remove", path, e)),
            _ => Ok(()),
        }
    }

    fn check_is_ours(&self, file: u64) -> Result<(), LogError> {
        let head = self.read(&*self.open_read(file)?, file, 0, FILE_HEADER_BYTES)?;
        self.check_owner(file, FileHeader::parse(FileKind::Log, &head).as_ref())
    }

    pub(crate) fn open_read(&self, file: u64) -> Result<Arc<dyn StorageFile>, LogError> {
        let path = self.log_path(file);
        self.storage.open_read(&path).map_err(|e| LogError::io("open", &path, e))
    }

    /// Finds out what a log file holds; `expected` is the sequence number after the file before it.
    pub(crate) fn load(&self, file: u64, expected: u64, trust_index: bool) -> Result<LoadedFile, LogError> {
        let handle = self.open_read(file)?;
        let bytes = self.size(&*handle, file)?;
        let head = self.read(&*handle, file, 0, bytes.min(FILE_HEADER_BYTES))?;
        let header = FileHeader::parse(FileKind::Log, &head);
        self.check_owner(file, header.as_ref())?;
        if trust_index && let Some(granules) = self.read_index(file, expected, bytes) {
            let scan = scan_of_index(file, expected, header, granules);
            return Ok(LoadedFile { file, bytes, scan, by_index: true });
        }
        let content = self.read(&*handle, file, 0, bytes)?;
        let region = Region { file, offset: 0, marks: self.marks(file, header.as_ref(), &content) };
        let scan =
            self.believed((&*handle, file, 0), &content, |bytes| scan_file(bytes, region, expected))?;
        // A writer may have taken room away since the size was asked for.
        let bytes = content.len() as u64;
        Ok(LoadedFile { file, bytes, scan, by_index: false })
    }

    /// Scans what was read from `offset` on. Damage is believed when it is read twice: a writer may have been filling room
    /// meanwhile, so that a batch was not there yet when the next one was. By then it is, as all that lies before a whole batch.
    fn believed(
        &self,
        (handle, file, offset): (&dyn StorageFile, u64, u64),
        content: &[u8],
        scan: impl Fn(&[u8]) -> Scan,
    ) -> Result<Scan, LogError> {
        let first = scan(content);
        if first.damaged.is_empty() {
            return Ok(first);
        }
        let again = scan(&self.read(handle, file, offset, first.end - offset)?);
        Ok(Scan { tail: first.tail, room: first.room, ..again })
    }

    /// Scans what a log file holds from `offset` on. Where that begins with room, there is nothing yet.
    pub(crate) fn load_from(&self, file: u64, offset: u64, expected: u64) -> Result<LoadedFile, LogError> {
        let handle = self.open_read(file)?;
        let bytes = self.size(&*handle, file)?;
        let rest = bytes.saturating_sub(offset);
        let mut content = self.read(&*handle, file, offset, rest.min(PROBE_BYTES))?;
        if zeros_at_end(&content) < content.len() {
            content = self.read(&*handle, file, offset, rest)?;
        }
        let region = Region { file, offset, marks: self.marks_of(file)? };
        let scan = |bytes: &[u8]| scan_region(bytes, region, expected);
        let scan = self.believed((&*handle, file, offset), &content, scan)?;
        Ok(LoadedFile { file, bytes, scan, by_index: false })
    }

    /// The marks of a log file that begins with `content`, which has this header. One that has none says by its first batch
    /// whether it has the marks of the other files of the log.
    pub(crate) fn marks(&self, file: u64, header: Option<&FileHeader>, content: &[u8]) -> Marks {
        if let Some(header) = header {
            return Marks::of(header);
        }
        let known = self.salt().map(|salt| Marks::salted(salt, file));
        Marks::by_first_batch(known.into_iter().chain([Marks::Magic]), content)
    }

    /// [`LogDir::marks`] of a file of which nothing has been read.
    pub(crate) fn marks_of(&self, file: u64) -> Result<Marks, LogError> {
        let handle = self.open_read(file)?;
        let content = self.read(&*handle, file, 0, FILE_HEADER_BYTES + HEADER_BYTES as u64)?;
        Ok(self.marks(file, FileHeader::parse(FileKind::Log, &content).as_ref(), &content))
    }

    /// The log's salt, from whichever file still says it; `None` when none does.
    pub(crate) fn salt(&self) -> Option<u64> {
        let noted = Noted::read(self).ok().and_then(Noted::end).map(|end| end.salt);
        noted.or_else(|| {
            let files = self.logs().ok()?;
            files.iter().rev().find_map(|&file| self.salt_of(file))
        })
    }

    /// The salt in the header of a log file, or of its index.
    fn salt_of(&self, file: u64) -> Option<u64> {
        let owner = FileHeader::new(self.stream_id, self.space, file);
        let log = || {
            let head = self.read(&*self.open_read(file).ok()?, file, 0, FILE_HEADER_BYTES).ok()?;
            FileHeader::parse(FileKind::Log, &head)
        };
        let index = || {
            let bytes = self.storage.read(&self.path.join(index_name(file)), index_bytes_max(LOG_BYTES_MAX));
            index_header(&bytes.ok()?)
        };
        let is_salted = |header: &FileHeader| header.is_of(&owner) && header.is_salted();
        let header = log().filter(is_salted).or_else(|| index().filter(is_salted))?;
        Some(header.salt)
    }

    /// Writes the index of a log file beside its place and renames it there: it is whole or it is not there. `salt`: the
    /// log's, which the index has too where the log file has it.
    pub(crate) fn write_index(
        &self,
        (file, salt): (u64, Option<u64>),
        log_bytes: u64,
        granules: &[Granule],
        sync: bool,
    ) -> io::Result<()> {
        let header = FileHeader::new(self.stream_id, self.space, file);
        let header = salt.map_or(header, |salt| header.salted(salt));
        let temporary = self.path.join(format!("{}.tmp", index_name(file)));
        let written = self.write_new(&temporary, &index_bytes(&header, log_bytes, granules), sync);
        let placed =
            written.and_then(|()| self.storage.rename(&temporary, &self.path.join(index_name(file))));
        if placed.is_err() {
            // Left over it would be removed at the next open.
            let _ = self.storage.remove(&temporary);
        }
        placed
    }

    fn write_new(&self, path: &Path, content: &[u8], sync: bool) -> io::Result<()> {
        match self.storage.remove(path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let file = self.storage.create_new(path)?;
        file.write_at(content, 0)?;
        if sync { file.sync_data() } else { Ok(()) }
    }

    /// Bytes of a log file, which is read whole: one that no log can have grown to would take all memory.
    pub(crate) fn size(&self, handle: &dyn StorageFile, file: u64) -> Result<u64, LogError> {
        let path = self.log_path(file);
        let bytes = handle.len().map_err(|e| LogError::io("size", &path, e))?;
        if bytes > LOG_BYTES_MAX {
            let what = "it is longer than a log file can be (1 GiB and one batch)";
            return Err(LogError::Unreadable { path, what });
        }
        Ok(bytes)
    }

    fn read(&self, handle: &dyn StorageFile, file: u64, offset: u64, len: u64) -> Result<Vec<u8>, LogError> {
        let mut buf = Vec::new();
        let read = read_into(handle, &mut buf, offset, len as usize);
        read.map_err(|e| LogError::io("read", &self.log_path(file), e))?;
        Ok(buf)
    }

    /// A header that is whole must be ours; a damaged one says nothing and the batches speak for themselves.
    pub(crate) fn check_owner(&self, file: u64, header: Option<&FileHeader>) -> Result<(), LogError> {
        let Some(header) = header else { return Ok(()) };
        let path = self.log_path(file);
        let (need, have) = ((self.stream_id, self.space), (header.stream_id, header.space));
        if header.version > VERSION {
            return Err(LogError::Version { path, need: VERSION, have: header.version });
        }
        if need != have {
            return Err(LogError::Foreign { path, need, have });
        }
        if header.first_sequence != file {
            return Err(LogError::Unreadable {
                path,
                what: "its header begins with another sequence than its name",
            });
        }
        Ok(())
    }

    /// The granules from the index file; `None` when there is none that can be trusted.
    fn read_index(&self, file: u64, expected: u64, log_bytes: u64) -> Option<Vec<Granule>> {
        let handle = self.storage.open_read(&self.path.join(index_name(file))).ok()?;
        let bytes = handle.len().ok().filter(|&bytes| bytes <= index_bytes_max(log_bytes))?;
        let mut content = Vec::new();
        read_into(&*handle, &mut content, 0, bytes as usize).ok()?;
        let header = FileHeader::new(self.stream_id, self.space, file);
        let granules = parse_index(&content, &header, log_bytes)?;
        let overlaps = granules.first().is_some_and(|first| first.first_sequence < expected);
        (!overlaps).then_some(granules)
    }
}

/// Splits the files of a log, in order, into those all of whose messages are below `first_sequence`, for the next file
/// begins no later, and the rest.
pub(crate) fn split_stale(files: &[u64], first_sequence: u64) -> (&[u64], &[u64]) {
    let begin_before_or_there = files.partition_point(|&file| file <= first_sequence);
    files.split_at(begin_before_or_there.saturating_sub(1))
}

/// What a scan would have found, as far as the index tells: what lies between its granules was not readable.
fn scan_of_index(file: u64, expected: u64, header: Option<FileHeader>, granules: Vec<Granule>) -> Scan {
    let mut scan = Scan { header, end: FILE_HEADER_BYTES, next_sequence: expected, ..Scan::default() };
    for granule in &granules {
        if granule.offset > scan.end || granule.first_sequence > scan.next_sequence {
            scan.damaged.push(Damage {
                file,
                offset: scan.end,
                bytes: granule.offset - scan.end,
                first_sequence: scan.next_sequence,
                count: Some(granule.first_sequence - scan.next_sequence),
                reason: Reason::Unindexed,
            });
        }
        (scan.end, scan.next_sequence) = (granule.end(), granule.next_sequence());
    }
    scan.granules = granules;
    scan
}
