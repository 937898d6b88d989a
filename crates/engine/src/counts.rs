//! What threads have read: bytes, blocks and segments, and those that the index or their heads left out.
//!
//! Reading is done on the thread of the caller, so what a thread counts between two moments is what its calls have read.

use std::cell::Cell;

thread_local! {
    static COUNTS: Cell<ReadCounts> = const { Cell::new(ReadCounts::NONE) };
}

/// What a thread has read.
///
/// ```
/// use tapedb_engine::{Database, ReadCounts};
///
/// # fn main() -> Result<(), tapedb_engine::Error> {
/// # let directory = tempfile::tempdir().unwrap();
/// let db = Database::open(directory.path().join("db"))?;
/// let before = ReadCounts::of_this_thread();
/// db.streams()?;
/// assert_eq!(ReadCounts::of_this_thread().since(before).blocks, 0);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReadCounts {
    /// Bytes of segments and of the log.
    pub bytes: u64,
    /// Blocks of segments of which columns or rows were read.
    pub blocks: u64,
    /// Blocks of opened segments that were left out by their times and symbols in the index, or by the values in their heads.
    pub blocks_skipped: u64,
    /// Segments that were left out by their times, without opening them. Where maintenance replaces segments during a read, what is
    /// left out of the new ones counts too.
    pub segments_skipped: u64,
}

impl ReadCounts {
    const NONE: Self = Self { bytes: 0, blocks: 0, blocks_skipped: 0, segments_skipped: 0 };

    /// All that the calling thread has read so far.
    pub fn of_this_thread() -> Self {
        COUNTS.get()
    }

    /// What was read since an earlier moment.
    pub fn since(self, before: Self) -> Self {
        Self {
            bytes: self.bytes.wrapping_sub(before.bytes),
            blocks: self.blocks.wrapping_sub(before.blocks),
            blocks_skipped: self.blocks_skipped.wrapping_sub(before.blocks_skipped),
            segments_skipped: self.segments_skipped.wrapping_sub(before.segments_skipped),
        }
    }

    fn add(self) {
        let total = COUNTS.get();
        COUNTS.set(Self {
            bytes: total.bytes.wrapping_add(self.bytes),
            blocks: total.blocks.wrapping_add(self.blocks),
            blocks_skipped: total.blocks_skipped.wrapping_add(self.blocks_skipped),
            segments_skipped: total.segments_skipped.wrapping_add(self.segments_skipped),
        });
    }
}

/// Notes bytes that were read.
#[inline]
pub(crate) fn note_bytes(bytes: usize) {
    ReadCounts { bytes: bytes as u64, ..ReadCounts::NONE }.add();
}

/// Notes a block that is read.
#[inline]
pub(crate) fn note_block() {
    ReadCounts { blocks: 1, ..ReadCounts::NONE }.add();
}

/// Notes blocks that are left out.
#[inline]
pub(crate) fn note_blocks_skipped(blocks: usize) {
    ReadCounts { blocks_skipped: blocks as u64, ..ReadCounts::NONE }.add();
}

/// Notes segments that are left out.
#[inline]
pub(crate) fn note_segments_skipped(segments: usize) {
    ReadCounts { segments_skipped: segments as u64, ..ReadCounts::NONE }.add();
}
