//! The log's salt, and with it the marks of its files.

use crate::directory::{LOG_BYTES_MAX, LogDir};
use crate::end::EndRecord;
use crate::error::LogError;
use crate::format::{FILE_HEADER_BYTES, FileHeader, FileKind, index_bytes_max, index_header, index_name};
use crate::marks::Marks;
use tapedb_codec::batch::HEADER_BYTES;

impl LogDir {
    /// The marks of a log file with this content and header. Without a header, the first batch shows whether the file has
    /// the marks of the other files of the log.
    pub(crate) fn marks(&self, file: u64, header: Option<&FileHeader>, content: &[u8]) -> Marks {
        if let Some(header) = header {
            return Marks::of(header);
        }
        let keyed = self.salt().map(|salt| Marks::salted(salt, file));
        Marks::by_first_batch(keyed.into_iter().chain([Marks::Magic]), content)
    }

    /// [`LogDir::marks`] of a file that has not been read.
    pub(crate) fn marks_of(&self, file: u64) -> Result<Marks, LogError> {
        let handle = self.open_read(file)?;
        let content = self.read(&*handle, file, 0, FILE_HEADER_BYTES + HEADER_BYTES as u64)?;
        Ok(self.marks(file, FileHeader::parse(FileKind::Log, &content).as_ref(), &content))
    }

    /// The log's salt, from the first file that has it; `None` when none has.
    pub(crate) fn salt(&self) -> Option<u64> {
        let recorded = EndRecord::read(self).ok().and_then(EndRecord::end).map(|end| end.salt);
        recorded.or_else(|| self.salt_among(&self.logs().ok()?))
    }

    /// The salt in the last of these log files that has it.
    pub(crate) fn salt_among(&self, files: &[u64]) -> Option<u64> {
        files.iter().rev().find_map(|&file| self.salt_of(file))
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
}

/// A random number, from the keys of the standard library's hash maps.
pub(crate) fn random_salt() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}
