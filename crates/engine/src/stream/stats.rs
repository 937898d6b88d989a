//! Counts and sizes of a stream.

use tapedb_schema::Timestamp;

/// Size and contents of a stream, at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamStats {
    /// Messages in files. Those that have been deleted count until maintenance has removed them.
    pub messages: u64,
    /// Messages ever appended: in a stream of one space, the number the next message gets.
    pub next_sequence: u64,
    /// Bytes of the stream's files.
    pub bytes: u64,
    /// Symbols.
    pub symbols: u32,
    /// Times of the earliest and the latest message; `None` if there is none.
    pub times: Option<(Timestamp, Timestamp)>,
}
