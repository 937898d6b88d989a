//! A directory of log files: their names, owners, sizes and indexes.

use crate::error::LogError;
use crate::format::{
    END_DRAFT, FILE_HEADER_BYTES, FileHeader, FileKind, PRODUCERS_DRAFT, VERSION, index_bytes,
    index_bytes_max, index_name, index_of_name, log_name, log_of_name, parse_index,
};
use crate::granule::Granule;
use crate::options::FILE_BYTES_MAX;
use crate::storage::{Storage, StorageFile, read_into};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, io};
use tapedb_codec::batch::{HEADER_BYTES, MAX_BATCH_BYTES};

/// Most bytes of a log file: one batch may exceed the limit of the file.
pub(crate) const LOG_BYTES_MAX: u64 = FILE_BYTES_MAX + (HEADER_BYTES + MAX_BATCH_BYTES) as u64;

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

impl LogDir {
    pub(crate) fn log_path(&self, file: u64) -> PathBuf {
        self.path.join(log_name(file))
    }

    /// The log files in order.
    pub(crate) fn logs(&self) -> Result<Vec<u64>, LogError> {
        let listed = self.storage.list_where(&self.path, &mut |name| log_of_name(name).is_some());
        Ok(logs_among(&listed.map_err(|e| LogError::io("list", &self.path, e))?))
    }

    /// Names of the files in the directory.
    pub(crate) fn names(&self) -> Result<Vec<String>, LogError> {
        self.storage.list(&self.path).map_err(|e| LogError::io("list", &self.path, e))
    }

    /// Removes what a killed writer has left: drafts, and log files and indexes before `first_file`.
    pub(crate) fn remove_left_over(&self, first_file: u64, names: &[String]) -> Result<(), LogError> {
        let mut names: Vec<&String> = names.iter().collect();
        names.sort_unstable();
        let is_older = |file: Option<u64>| file.is_some_and(|file| file < first_file);
        for name in names {
            let is_draft = name.ends_with(".idx.tmp") || [END_DRAFT, PRODUCERS_DRAFT].contains(&&**name);
            if is_draft || is_older(index_of_name(name)) {
                self.remove(&self.path.join(name))?;
            } else if let Some(file) = log_of_name(name).filter(|&file| file < first_file) {
                self.check_file(file)?;
                self.remove(&self.path.join(name))?;
            }
        }
        Ok(())
    }

    /// Removes a log file and its index, the index first: it must not be left without its log file.
    pub(crate) fn remove_log(&self, file: u64) -> Result<(), LogError> {
        self.remove(&self.path.join(index_name(file)))?;
        self.remove(&self.log_path(file))
    }

    /// Removes a file, which may not exist.
    fn remove(&self, path: &Path) -> Result<(), LogError> {
        match self.storage.remove(path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(LogError::io("remove", path, e)),
            _ => Ok(()),
        }
    }

    fn check_file(&self, file: u64) -> Result<(), LogError> {
        let head = self.read(&*self.open_read(file)?, file, 0, FILE_HEADER_BYTES)?;
        self.check_owner(file, FileHeader::parse(FileKind::Log, &head).as_ref())
    }

    pub(crate) fn open_read(&self, file: u64) -> Result<Arc<dyn StorageFile>, LogError> {
        let path = self.log_path(file);
        self.storage.open_read(&path).map_err(|e| LogError::io("open", &path, e))
    }

    /// Writes the index of a log file to a draft and renames that: the index is whole or it does not exist. `salt` is the
    /// log's, where the log file has one.
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
            // If this fails too, the next opening removes it.
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

    /// Bytes of a log file. Files are read whole, so one that is longer than any log file would exhaust the memory.
    pub(crate) fn size(&self, handle: &dyn StorageFile, file: u64) -> Result<u64, LogError> {
        let path = self.log_path(file);
        let bytes = handle.len().map_err(|e| LogError::io("size", &path, e))?;
        if bytes > LOG_BYTES_MAX {
            let what = "it is longer than a log file can be (1 GiB and one batch)";
            return Err(LogError::Unreadable { path, what });
        }
        Ok(bytes)
    }

    pub(crate) fn read(
        &self,
        handle: &dyn StorageFile,
        file: u64,
        offset: u64,
        len: u64,
    ) -> Result<Vec<u8>, LogError> {
        let mut buf = Vec::new();
        let read = read_into(handle, &mut buf, offset, len as usize);
        read.map_err(|e| LogError::io("read", &self.log_path(file), e))?;
        Ok(buf)
    }

    /// A valid header must be of this log. After a damaged one, the batches are checked by themselves.
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

    /// The granules from the index file; `None` when it is missing, damaged, or of another log file.
    pub(crate) fn read_index(&self, file: u64, expected: u64, log_bytes: u64) -> Option<Vec<Granule>> {
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

/// The log files, in order, among these names.
pub(crate) fn logs_among(names: &[String]) -> Vec<u64> {
    let mut logs: Vec<_> = names.iter().filter_map(|name| log_of_name(name)).collect();
    logs.sort_unstable();
    logs
}

/// Splits the files of a log, in order, into those whose messages are all below `first_sequence` (the next file begins at
/// or before it) and the rest.
pub(crate) fn split_stale(files: &[u64], first_sequence: u64) -> (&[u64], &[u64]) {
    let begin_at_or_before = files.partition_point(|&file| file <= first_sequence);
    files.split_at(begin_at_or_before.saturating_sub(1))
}
