//! Where a log ended when it was last closed.
//!
//! The end of a file that was being written when its writer died cannot be told from damage: an append may have been under way.
//! The end of one that was closed can. So closing writes the file `end` beside the log files: the active file, where it ended,
//! and the sequence number there. It need not be taken back when the log is written again: what lies before that place
//! does not change, so it must be there as long as the file is.

use crate::error::LogError;
use crate::files::LogDir;
use crate::format::{FileHeader, FileKind, HEADER, at, crc, put, u32_at, u64_at};
use crate::producers::replace;
use crate::storage::{Storage, read_all};
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Name of the file that says where a log ended when it was closed.
pub const END_FILE: &str = "end";
pub(crate) const DRAFT: &str = "end.tmp";

/// The end of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct End {
    /// The active file.
    pub file: u64,
    /// Where it ends.
    pub offset: u64,
    /// The sequence number there.
    pub next_sequence: u64,
    /// The log's salt.
    pub salt: u64,
}

/// Notes for a log that nobody writes where its last file ends, and the sequence number there: what lies before must be there from
/// then on. For a copy of a log; a writer does it by itself. Does nothing where no file of the log has a salt.
///
/// # Errors
/// What the system refuses.
pub fn note_end(
    storage: Arc<dyn Storage>,
    dir: &Path,
    (stream_id, space): (u64, u32),
    (file, offset, next_sequence): (u64, u64, u64),
) -> Result<(), LogError> {
    let dir = LogDir { storage, path: dir.to_path_buf(), stream_id, space };
    match dir.salt() {
        Some(salt) => End { file, offset, next_sequence, salt }.write(&dir),
        None => Ok(()),
    }
}

/// What the file says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Noted {
    /// The log ended there when it was closed.
    End(End),
    /// There is no file: the log has never been closed.
    #[default]
    Nothing,
    /// The file is damaged, or of another log.
    Damaged,
}

impl Noted {
    /// Reads the file. Before the log files are listed: what is written after that is then not missed in them.
    pub fn read(dir: &LogDir) -> Result<Self, LogError> {
        let path = dir.path.join(END_FILE);
        let file = match dir.storage.open_read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::Nothing),
            opened => opened.map_err(|e| LogError::io("open", &path, e))?,
        };
        match read_all(&*file, HEADER as u64) {
            Ok(content) => Ok(End::parse(dir, &content).map_or(Self::Damaged, Self::End)),
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Ok(Self::Damaged),
            Err(error) => Err(LogError::io("read", &path, error)),
        }
    }

    /// The end, if it is known.
    pub fn end(self) -> Option<End> {
        match self {
            Self::End(end) => Some(end),
            Self::Nothing | Self::Damaged => None,
        }
    }
}

impl End {
    /// Puts it on the disk, whole or not at all.
    pub fn write(&self, dir: &LogDir) -> Result<(), LogError> {
        let path = dir.path.join(END_FILE);
        let written = replace(&*dir.storage, (&dir.path, DRAFT), &path, &self.bytes(dir));
        written.map_err(|e| LogError::io("write", &path, e))
    }

    fn bytes(&self, dir: &LogDir) -> [u8; HEADER] {
        let header = FileHeader::new(dir.stream_id, dir.space, self.file).salted(self.salt);
        let mut out = header.open_bytes(FileKind::End);
        put(&mut out, at::LOG_BYTES, &self.offset.to_le_bytes());
        put(&mut out, at::NEXT_SEQUENCE, &self.next_sequence.to_le_bytes());
        let checksum = crc(&out[..at::HEADER_CRC]);
        put(&mut out, at::HEADER_CRC, &checksum.to_le_bytes());
        out
    }

    fn parse(dir: &LogDir, bytes: &[u8]) -> Option<Self> {
        let head: &[u8; HEADER] = bytes.try_into().ok()?;
        let header = FileHeader::decode(head);
        let whole = head.starts_with(FileKind::End.magic())
            && u32_at(head, at::HEADER_CRC) == crc(&head[..at::HEADER_CRC])
            && header.is_of(&FileHeader::new(dir.stream_id, dir.space, header.first_sequence));
        whole.then(|| Self {
            file: header.first_sequence,
            offset: u64_at(head, at::LOG_BYTES),
            next_sequence: u64_at(head, at::NEXT_SEQUENCE),
            salt: header.salt,
        })
    }
}

/// A random number: the keys of the standard library's hashes are.
pub(crate) fn random_salt() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}
