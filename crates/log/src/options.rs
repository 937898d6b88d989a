//! How a log is written: durability, file sizes, bounds.

/// Largest value of [`LogOptions::file_bytes_max`]: 1 GiB. Recovery reads the last file whole.
pub const FILE_BYTES_MAX: u64 = 1 << 30;
/// Default of [`LogOptions::file_bytes_max`]: 64 MiB.
pub const FILE_BYTES_MAX_DEFAULT: u64 = 64 << 20;

/// A bounded log has about this many files, so that trimming removes a small part at once.
const BOUNDED_FILES: u64 = 8;

/// What an acknowledged append survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// In this process's memory, and lost with it: for logs in a [`MemoryStorage`](crate::MemoryStorage), which
    /// [`LogOptions::bytes_max`] bounds.
    Transient,
    /// In the operating system's hands: survives a killed process, not a power cut.
    #[default]
    Async,
    /// On the disk: survives a power cut.
    Sync,
}

/// How a log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// The stream, written into every file.
    pub stream_id: u64,
    /// The space of the stream, written into every file.
    pub space: u32,
    /// What an acknowledged append survives.
    pub durability: Durability,
    /// A file that would grow past this many bytes is rolled; at most [`FILE_BYTES_MAX`]. A file holds one
    /// batch at least, whatever its size.
    pub file_bytes_max: u64,
    /// Bound of the log: when complete files together have more bytes, the oldest are removed, at each roll and at
    /// opening. Files are then no larger than an eighth of it (or one batch), and the active one is not counted. Readers
    /// that are too slow get [`LogError::Trimmed`](crate::LogError::Trimmed) with the new beginning of the log. The
    /// beginning is not stored: opening takes that of the first file.
    pub bytes_max: Option<u64>,
    /// Sequence number with which the log begins: messages below it are stored elsewhere. Opening removes files that hold
    /// no others, which an interrupted [`SharedWriter::trim`](crate::SharedWriter::trim) leaves. If the first file begins
    /// later, messages are missing, which is reported as damage. If there is no file with a message at or above it, one
    /// begins there.
    pub first_sequence: u64,
}

impl LogOptions {
    /// Asynchronous, files of 64 MiB, from sequence number 0.
    pub fn new(stream_id: u64, space: u32) -> Self {
        Self {
            stream_id,
            space,
            durability: Durability::Async,
            file_bytes_max: FILE_BYTES_MAX_DEFAULT,
            bytes_max: None,
            first_sequence: 0,
        }
    }

    /// Bytes at which a file is rolled.
    pub(crate) fn file_limit(&self) -> u64 {
        let share = self.bytes_max.map_or(u64::MAX, |bytes| bytes / BOUNDED_FILES);
        self.file_bytes_max.min(FILE_BYTES_MAX).min(share)
    }
}
