//! What opening a log found: cut bytes, damage, messages.

use std::fmt;
use tapedb_codec::batch::BatchError;

/// Why bytes of a log file are not readable as the next batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The bytes are not a whole, undamaged batch.
    Batch(BatchError),
    /// The file's own header is damaged.
    FileHeader,
    /// The next batch is whole, but messages before it are missing.
    Gap,
    /// The batch is whole, but its sequence numbers have been seen already.
    Duplicate,
    /// Nothing was readable there when the file was indexed.
    Unindexed,
    /// The messages were there when the log was closed, and are missing now.
    Gone,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Batch(error) => error.fmt(f),
            Self::FileHeader => f.write_str("the file's header is damaged"),
            Self::Gap => f.write_str("messages are missing before the next batch"),
            Self::Duplicate => f.write_str("the batch repeats earlier sequence numbers"),
            Self::Unindexed => f.write_str("not readable when the file was indexed"),
            Self::Gone => f.write_str("messages that were there when the log was closed are missing"),
        }
    }
}

/// Bytes in a log file that cannot be read as batches, and the messages that cannot be read with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The log file: the sequence number in its name.
    pub file: u64,
    /// Where the damage begins in the file.
    pub offset: u64,
    /// Damaged bytes; 0 when messages are missing between whole batches.
    pub bytes: u64,
    /// Sequence number of the first message that cannot be read.
    pub first_sequence: u64,
    /// Messages that cannot be read; `None` when nothing after the damage shows how many.
    pub count: Option<u64>,
    /// What is wrong.
    pub reason: Reason,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, offset, bytes, first_sequence, count, reason } = self;
        write!(f, "{file:020}.log: {bytes} bytes at offset {offset}: {reason}; ")?;
        match count {
            Some(0) => write!(f, "no message lost"),
            Some(1) => write!(f, "message {first_sequence} cannot be read"),
            Some(n) => {
                write!(
                    f,
                    "messages {first_sequence} to {} cannot be read",
                    first_sequence.saturating_add(n - 1)
                )
            }
            None => write!(f, "messages from {first_sequence} on cannot be read"),
        }
    }
}

/// Bytes cut off the end of a file: an unfinished append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The log file: the sequence number in its name.
    pub file: u64,
    /// Where the file now ends.
    pub offset: u64,
    /// Bytes that were after it.
    pub bytes: u64,
    /// Why they were not a batch.
    pub reason: Reason,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, offset, bytes, reason } = self;
        write!(f, "{file:020}.log: cut {bytes} bytes of an unfinished append at offset {offset}: {reason}")
    }
}

/// What opening a log found. Its `Display` is for the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Unfinished appends cut off (writers only; readers ignore them).
    pub cut: Vec<Cut>,
    /// Damage in the middle, left in place.
    pub damaged: Vec<Damage>,
    /// Files whose index was missing or damaged and was rebuilt by scanning.
    pub indexes_rebuilt: Vec<u64>,
    /// Log files.
    pub files: usize,
    /// Batches read while scanning; those of files with a good index are not counted.
    pub batches_scanned: u64,
    /// Messages that can be read.
    pub messages: u64,
    /// Sequence number with which the log begins; messages below it are stored elsewhere.
    pub first_sequence: u64,
    /// Sequence number the next message gets.
    pub next_sequence: u64,
}

impl Recovery {
    /// True when nothing was cut and nothing is damaged.
    pub fn is_clean(&self) -> bool {
        self.cut.is_empty() && self.damaged.is_empty()
    }
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} messages in {} files, next sequence {}",
            self.messages, self.files, self.next_sequence
        )?;
        for file in &self.indexes_rebuilt {
            write!(f, "\n{file:020}.idx: rebuilt by scanning the log file")?;
        }
        for cut in &self.cut {
            write!(f, "\n{cut}")?;
        }
        for damage in &self.damaged {
            write!(f, "\n{damage}")?;
        }
        Ok(())
    }
}
