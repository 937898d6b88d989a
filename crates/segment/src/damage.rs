//! Damage of a segment: what is wrong with its bytes, and where.

use crate::encoding::EncodingError;
use std::fmt;

/// What is wrong with bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Flaw {
    /// The bytes end before what they hold.
    Short {
        /// Bytes that are needed.
        need: u64,
        /// Bytes that are there.
        have: u64,
    },
    /// The bytes do not begin, or the file does not end, as this kind of thing does.
    Magic,
    /// The format is newer than this program.
    Version {
        /// The newest version that this program reads.
        need: u16,
        /// The version that is there.
        have: u16,
    },
    /// The bytes are not those that were written.
    Checksum {
        /// CRC-32C of the bytes that are there.
        need: u32,
        /// The checksum that was written.
        have: u32,
    },
    /// The rows that the bytes are decoded to are not those that were written: the encoder was wrong, or the decoder is.
    Content {
        /// Checksum of the content that is decoded.
        need: u64,
        /// The checksum that was written.
        have: u64,
    },
    /// The reference decoder gives other rows of the bytes: one of the two is wrong.
    Reference,
    /// Two things that must agree do not, or a number is beyond its limit.
    Mismatch {
        /// What the number is, as `docs/format/segment.md` calls it.
        what: &'static str,
        /// What it must be, or the most it may be.
        need: u64,
        /// What it is.
        have: u64,
    },
    /// The encoding of a column is broken.
    Encoding(EncodingError),
    /// The schema in the file's header cannot be read.
    Schema,
}

/// The damaged part of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DamagedPart {
    /// The file's header.
    Header,
    /// The footer, or the trailer that points to it.
    Footer,
    /// The head of a block: nothing of the block can be read.
    Block,
    /// A column of a block: the rest of the block can be read.
    Column {
        /// Record type that the column belongs to; `None`: the block's own columns.
        type_id: Option<u16>,
        /// Number of the column.
        column: u16,
    },
}

/// Damaged bytes. What is not named is not affected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Damage {
    /// The part.
    pub part: DamagedPart,
    /// Index of the block in its segment; `None`: a part of the file, or a block without a file.
    pub block: Option<u32>,
    /// Offset of the part: in the file, or in the block if `block` is `None`.
    pub offset: u64,
    /// What is wrong with it.
    pub flaw: Flaw,
}

impl Damage {
    #[cold]
    pub(crate) fn new(part: DamagedPart, offset: u64, flaw: Flaw) -> Self {
        Self { part, block: None, offset, flaw }
    }

    /// The same damage of a block that begins at `offset` of a file.
    pub(crate) fn of_block(self, block: u32, offset: u64) -> Self {
        Self { block: Some(block), offset: self.offset + offset, ..self }
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { need, have } => write!(f, "needs {need} bytes, has {have}"),
            Self::Magic => write!(f, "does not have its magic bytes"),
            Self::Version { need, have } => {
                write!(f, "has format version {have}; this program reads up to {need}: use a newer one")
            }
            Self::Checksum { need, have } => {
                write!(f, "has checksum {have:#010x}, but its bytes have {need:#010x}")
            }
            Self::Content { need, have } => write!(
                f,
                "content has checksum {have:#018x}, but is decoded to rows of {need:#018x}: it was encoded wrongly, or is \
                 decoded wrongly"
            ),
            Self::Reference => write!(
                f,
                "is decoded to other rows by the reference decoder; `tapedb check --thorough` reports which"
            ),
            Self::Mismatch { what, need, have } => write!(f, "{what} is {have}, not {need}"),
            Self::Encoding(error) => write!(f, "{error}"),
            Self::Schema => write!(f, "holds a schema that cannot be read"),
        }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(block) = self.block {
            write!(f, "block {block}, ")?;
        }
        match self.part {
            DamagedPart::Header => write!(f, "file header"),
            DamagedPart::Footer => write!(f, "file footer"),
            DamagedPart::Block => write!(f, "head"),
            DamagedPart::Column { type_id: Some(id), column } => {
                write!(f, "column {column} of record type {id}")
            }
            DamagedPart::Column { type_id: None, column } => write!(f, "column {column} of the rows"),
        }?;
        write!(f, " at offset {}: {}", self.offset, self.flaw)
    }
}

impl std::error::Error for Damage {}

impl From<EncodingError> for Flaw {
    fn from(error: EncodingError) -> Self {
        Self::Encoding(error)
    }
}
