//! Batches of columns: messages of one record type, field by field.
//!
//! Header, times and symbols are those of a batch of rows. Instead of bodies there is a directory with one entry for each word or
//! text of a field, and then their values. [`ColumnWriter`] makes such a batch from slices ([`InputColumn`]); [`BatchColumns`]
//! finds the columns again and checks them; [`to_rows`] makes the batch of rows that holds the same messages.
//! `docs/format/batch.md` draws every byte.

mod check;
mod input;
mod prepare;
mod read;
mod rows;
mod values;
mod words;
mod write;

pub use input::{FieldValues, InputColumn, Validity};
pub use prepare::{Misfit, is_columnar};
pub use read::{BatchColumns, Content, FieldColumn, Texts};
pub use rows::to_rows;
pub use values::RowMaker;
pub use words::Words;
pub use write::ColumnWriter;

use crate::dynamic::{FieldLayout, TypeLayout};

/// Bytes of an entry of the directory.
pub(super) const ENTRY_BYTES: usize = 16;

/// Where an entry's fields are.
mod at {
    /// Bytes of each delta.
    pub const WIDTH: usize = 0;
    /// [`super::FLAG_NULLS`] or nothing.
    pub const FLAGS: usize = 1;
    /// Zero.
    pub const RESERVED: usize = 2;
    /// Bytes of all texts; 0 for numbers.
    pub const HEAP: usize = 4;
    /// The number that deltas are added to.
    pub const BASE: usize = 8;
}

/// Flag of an entry: its field has a null bitmap.
const FLAG_NULLS: u8 = 1;

/// What a field's slot or content is in columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// A slot of up to eight bytes: one word.
    Word,
    /// A longer slot: its first eight bytes and the others.
    Wide,
    /// A text or binary: lengths, then the bytes.
    Text,
}

impl Shape {
    /// `None` for records and arrays, which have no columns here.
    fn of(field: &FieldLayout) -> Option<Self> {
        match &field.ty {
            TypeLayout::String | TypeLayout::Binary => Some(Self::Text),
            TypeLayout::Array(_) | TypeLayout::Record(_) => None,
            TypeLayout::Scalar(_) | TypeLayout::Enum { .. } if field.width > 8 => Some(Self::Wide),
            TypeLayout::Scalar(_) | TypeLayout::Enum { .. } => Some(Self::Word),
        }
    }

    /// Entries of the directory.
    fn entries(self) -> usize {
        if self == Self::Wide { 2 } else { 1 }
    }
}

/// The low bytes of a word.
#[inline(always)]
fn mask(bytes: usize) -> u64 {
    u64::MAX.checked_shr(64 - 8 * bytes.min(8) as u32).unwrap_or(0)
}

/// Whether the row's bit is set in a bitmap.
#[inline(always)]
fn bit(bitmap: &[u8], row: usize) -> bool {
    bitmap.get(row / 8).is_some_and(|byte| byte >> (row % 8) & 1 == 1)
}

#[cfg(test)]
mod tests;
