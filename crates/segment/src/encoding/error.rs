//! Why bytes are not a column.

use std::fmt;

/// Bytes of a column that cannot be decoded. Offsets count from the first byte of the column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncodingError {
    /// The bytes end before the encoding does.
    Truncated {
        /// Where the missing part begins.
        offset: usize,
        /// Bytes that the encoding needs there.
        need: usize,
        /// Bytes that are there.
        have: usize,
    },
    /// The encoding ends before the bytes do.
    Trailing {
        /// Where the encoding ends.
        offset: usize,
        /// Bytes after it.
        have: usize,
    },
    /// No encoding has this tag, or not for this kind of column.
    UnknownTag {
        /// Where the tag is.
        offset: usize,
        /// The tag.
        tag: u8,
    },
    /// A number in the bytes is larger than its place allows.
    OutOfRange {
        /// What the number is, as `docs/format/segment-encodings.md` calls it.
        what: &'static str,
        /// Where it is.
        offset: usize,
        /// The number.
        value: u64,
        /// The largest allowed.
        max: u64,
    },
    /// The caller's count, rows or runs do not fit together; the bytes were not read.
    Shape {
        /// What does not fit.
        what: &'static str,
        /// What is requested.
        need: usize,
        /// What was given.
        have: usize,
    },
    /// A general compressor refused its part of the bytes.
    Compressed {
        /// The compressor: `pco`, `lz4` or `deflate`.
        by: &'static str,
        /// Where its part begins.
        offset: usize,
        /// Bytes of it.
        have: usize,
    },
}

impl EncodingError {
    /// The same error of a column that begins `start` bytes later.
    pub(super) fn shifted(mut self, start: usize) -> Self {
        match &mut self {
            Self::Truncated { offset, .. }
            | Self::Trailing { offset, .. }
            | Self::UnknownTag { offset, .. }
            | Self::OutOfRange { offset, .. }
            | Self::Compressed { offset, .. } => *offset += start,
            Self::Shape { .. } => {}
        }
        self
    }
}

impl fmt::Display for EncodingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Truncated { offset, need, have } => {
                write!(f, "column ends early: at byte {offset} it needs {need} more bytes and has {have}")
            }
            Self::Trailing { offset, have } => {
                write!(f, "column ends at byte {offset}, but {have} bytes follow")
            }
            Self::UnknownTag { offset, tag } => {
                write!(f, "unknown column encoding {tag:#04x} at byte {offset}")
            }
            Self::OutOfRange { what, offset, value, max } => {
                write!(f, "{what} at byte {offset} of the column is {value}; at most {max} is possible")
            }
            Self::Shape { what, need, have } => write!(f, "{what} must be {need}, not {have}"),
            Self::Compressed { by, offset, have } => {
                write!(f, "{by} cannot decompress the {have} bytes at byte {offset} of the column")
            }
        }
    }
}

impl std::error::Error for EncodingError {}
