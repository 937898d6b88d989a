//! Where a log ended when it was last closed.
//!
//! After a crash, damage at the end of the active file looks like an unfinished append. After a clean close it does not. So
//! closing writes the file `end` beside the log files: the active file, its end, and the sequence number there. The record
//! stays valid when the log is written again: bytes before that position do not change.

use crate::directory::LogDir;
use crate::error::LogError;
use crate::format::{END_DRAFT, END_FILE, FileHeader, FileKind, HEADER, at, is_whole, seal};
use crate::storage::{read_all, replace};
use std::io;
use tapedb_codec::bytes::{put, u64_at};

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

/// What the file `end` contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum EndRecord {
    /// The log ended there when it was closed.
    End(End),
    /// There is no file: the log has never been closed.
    #[default]
    Missing,
    /// The file is damaged, or of another log.
    Damaged,
}

impl EndRecord {
    /// Reads the file. Call it before the log files are listed: otherwise a log that is closed in between seems to miss
    /// messages.
    pub fn read(dir: &LogDir) -> Result<Self, LogError> {
        let path = dir.path.join(END_FILE);
        let file = match dir.storage.open_read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::Missing),
            opened => opened.map_err(|e| LogError::io("open", &path, e))?,
        };
        match read_all(&*file, HEADER as u64) {
            Ok(content) => Ok(End::parse(dir, &content).map_or(Self::Damaged, Self::End)),
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Ok(Self::Damaged),
            Err(error) => Err(LogError::io("read", &path, error)),
        }
    }

    /// The end, if it is recorded.
    pub fn end(self) -> Option<End> {
        match self {
            Self::End(end) => Some(end),
            Self::Missing | Self::Damaged => None,
        }
    }
}

impl End {
    /// Writes and syncs it, whole or not at all.
    pub fn write(&self, dir: &LogDir) -> Result<(), LogError> {
        let path = dir.path.join(END_FILE);
        let written = replace(&*dir.storage, (&dir.path, END_DRAFT), &path, &self.bytes(dir));
        written.map_err(|e| LogError::io("write", &path, e))
    }

    fn bytes(&self, dir: &LogDir) -> [u8; HEADER] {
        let header = FileHeader::new(dir.stream_id, dir.space, self.file).salted(self.salt);
        let mut out = header.open_bytes(FileKind::End);
        put(&mut out, at::LOG_BYTES, &self.offset.to_le_bytes());
        put(&mut out, at::NEXT_SEQUENCE, &self.next_sequence.to_le_bytes());
        seal(&mut out);
        out
    }

    fn parse(dir: &LogDir, bytes: &[u8]) -> Option<Self> {
        let head: &[u8; HEADER] = bytes.try_into().ok()?;
        let header = FileHeader::decode(head);
        let whole = is_whole(FileKind::End, head)
            && header.is_of(&FileHeader::new(dir.stream_id, dir.space, header.first_sequence));
        whole.then(|| Self {
            file: header.first_sequence,
            offset: u64_at(head, at::LOG_BYTES),
            next_sequence: u64_at(head, at::NEXT_SEQUENCE),
            salt: header.salt,
        })
    }
}
