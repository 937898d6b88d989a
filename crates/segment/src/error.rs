//! What can be wrong with a segment, where, and what is there instead.

use crate::encoding::EncodingError;
use crate::mismatch::Mismatch;
use std::fmt;
use std::io;

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
    /// The rows that the bytes are decoded to are not those that were written: whoever encoded or decodes them is wrong.
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

/// Which part of a segment is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
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
    pub part: Part,
    /// Index of the block in its segment; `None`: a part of the file, or a block that stands alone.
    pub block: Option<u32>,
    /// Offset of the part: in the file, or in the block if `block` is `None`.
    pub offset: u64,
    /// What is wrong with it.
    pub flaw: Flaw,
}

/// Why a segment cannot be written or read.
#[derive(Debug)]
#[non_exhaustive]
pub enum SegmentError {
    /// The system refused to read or write.
    Io {
        /// Offset in the file.
        offset: u64,
        /// What the system says.
        source: io::Error,
    },
    /// Bytes are damaged.
    Damaged(Damage),
    /// A message given to the writer does not come behind the one before, by time and then by sequence number.
    OutOfOrder {
        /// Time and sequence number of the message before.
        before: (i64, u64),
        /// Time and sequence number of the message.
        given: (i64, u64),
    },
    /// A message body is longer than a block may be.
    TooLong {
        /// The most bytes.
        need: usize,
        /// Bytes of the body.
        have: usize,
    },
    /// A limit of the file is reached: seal it and go on in another one.
    Full {
        /// What there is too much of.
        what: &'static str,
        /// The most there may be.
        most: u64,
    },
    /// A block is not decoded to the rows that it was made from, not even in the plainest encoding: throw the file away,
    /// and keep what it was made from.
    Unfaithful(Box<Mismatch>),
    /// There is no such block or column.
    Unknown {
        /// What was asked for.
        what: &'static str,
        /// How many there are.
        need: u64,
        /// The number that was asked for.
        have: u64,
    },
}

impl Damage {
    #[cold]
    pub(crate) fn new(part: Part, offset: u64, flaw: Flaw) -> Self {
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
            Self::Magic => write!(f, "is not what it should be: its magic bytes are missing"),
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
                "is decoded to other rows by the reference decoder; `tapedb check --thorough` says which"
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
            Part::Header => write!(f, "file header"),
            Part::Footer => write!(f, "file footer"),
            Part::Block => write!(f, "head"),
            Part::Column { type_id: Some(id), column } => write!(f, "column {column} of record type {id}"),
            Part::Column { type_id: None, column } => write!(f, "column {column} of the rows"),
        }?;
        write!(f, " at offset {}: {}", self.offset, self.flaw)
    }
}

impl fmt::Display for SegmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { offset, source } => write!(f, "segment offset {offset}: {source}"),
            Self::Damaged(damage) => write!(f, "segment is damaged: {damage}"),
            Self::OutOfOrder { before, given } => write!(
                f,
                "message {} of time {} does not come behind message {} of time {}: sort by time, then by sequence",
                given.1, given.0, before.1, before.0
            ),
            Self::TooLong { need, have } => {
                write!(f, "message body has {have} bytes, at most {need} are allowed")
            }
            Self::Full { what, most } => {
                write!(f, "segment is full: it has {most} {what}; begin another one")
            }
            Self::Unfaithful(mismatch) => write!(
                f,
                "segment is not written, for a block is not decoded to what it was made from, not even in the plainest \
                 encoding: {mismatch}"
            ),
            Self::Unknown { what, need, have } => write!(f, "no {what} {have}: there are {need}"),
        }
    }
}

impl std::error::Error for SegmentError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl std::error::Error for Damage {}

impl From<Damage> for SegmentError {
    fn from(damage: Damage) -> Self {
        Self::Damaged(damage)
    }
}

impl From<EncodingError> for Flaw {
    fn from(error: EncodingError) -> Self {
        Self::Encoding(error)
    }
}
