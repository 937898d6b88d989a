//! What can be wrong with the bytes of a batch.

use std::fmt;

/// Why bytes are not a batch. Offsets count from the first byte of the batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchError {
    /// The bytes end too early: `need` bytes from `offset` on, `have` are there.
    Truncated {
        /// Where the missing part begins.
        offset: usize,
        /// Bytes needed from there.
        need: usize,
        /// Bytes present from there.
        have: usize,
    },
    /// There are bytes after the end of the batch.
    Trailing {
        /// Where the batch ends.
        offset: usize,
        /// Bytes after its end.
        have: usize,
    },
    /// The first four bytes are not `TPB1`.
    Magic {
        /// What is there instead, as a little-endian number.
        have: u32,
    },
    /// The header's checksum (bytes 8 to 80) does not match.
    HeaderChecksum {
        /// The checksum of the bytes.
        need: u32,
        /// The checksum the header states.
        have: u32,
    },
    /// The payload's checksum does not match.
    PayloadChecksum {
        /// The checksum of the bytes.
        need: u32,
        /// The checksum the header states.
        have: u32,
    },
    /// A header field holds a value it must not hold.
    Field {
        /// Where the field begins.
        offset: usize,
        /// The field's name, as in `docs/format/batch.md`.
        field: &'static str,
        /// What the field must be.
        need: &'static str,
        /// What it is.
        have: u64,
    },
    /// A column of the payload contradicts the header.
    Column {
        /// Where the column begins.
        offset: usize,
        /// The column's name.
        column: &'static str,
        /// What must be true of the column.
        need: &'static str,
        /// The number found instead.
        have: u64,
    },
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Truncated { offset, need, have } => {
                write!(f, "batch cut short: {need} bytes needed at offset {offset}, {have} there")
            }
            Self::Trailing { offset, have } => {
                write!(f, "{have} bytes too many after the end of the batch at offset {offset}")
            }
            Self::Magic { have } => write!(f, "not a batch: it begins with {have:#010x}, not with TPB1"),
            Self::HeaderChecksum { need, have } => {
                write!(f, "batch header damaged: its checksum is {need:#010x}, it states {have:#010x}")
            }
            Self::PayloadChecksum { need, have } => {
                write!(
                    f,
                    "batch payload damaged: its checksum is {need:#010x}, the header states {have:#010x}"
                )
            }
            Self::Field { offset, field, need, have } => {
                write!(f, "batch header field {field} at offset {offset} is {have}; it must be {need}")
            }
            Self::Column { offset, column, need, have } => {
                write!(f, "{column} column of the batch at offset {offset}: {have} found; must be {need}")
            }
        }
    }
}

impl std::error::Error for BatchError {}
