//! The numbers of a column: a base, and a delta for each row.

use super::mask;
use std::ops::Range;

/// The words of a column: of each row its slot, lowest byte first, as a number.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a> {
    /// Bytes of each delta: 0, 1, 2, 4 or 8.
    width: usize,
    base: u64,
    /// The slot's bits.
    mask: u64,
    cells: &'a [u8],
}

impl<'a> Words<'a> {
    /// `cells`: the deltas, each of `width` bytes, which is one of those that are allowed; `slot`: bytes of the slot.
    pub(super) fn new(width: u8, base: u64, slot: usize, cells: &'a [u8]) -> Self {
        Self { width: width.into(), base, mask: mask(slot), cells }
    }

    /// The word of all rows, where the column states that they have the same.
    pub fn constant(&self) -> Option<u64> {
        (self.width == 0).then_some(self.base & self.mask)
    }

    /// The number that deltas are added to.
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// The word of a row, of those that there are.
    #[inline]
    pub fn get(&self, row: usize) -> u64 {
        self.base.wrapping_add(self.delta(row)) & self.mask
    }

    /// The delta of a row: 0 for nulls.
    #[inline]
    pub(super) fn delta(&self, row: usize) -> u64 {
        let mut word = [0; 8];
        let start = row * self.width;
        if let Some(cell) = self.cells.get(start..start + self.width) {
            word[..self.width].copy_from_slice(cell);
        }
        u64::from_le_bytes(word)
    }

    /// Calls `take` with the word of each row of a range, in order.
    #[inline]
    pub fn for_each(&self, rows: Range<usize>, mut take: impl FnMut(u64)) {
        let (base, mask) = (self.base, self.mask);
        let cells = self.cells.get(rows.start * self.width..rows.end * self.width).unwrap_or_default();
        match self.width {
            0 => rows.for_each(|_| take(base & mask)),
            1 => cells.iter().for_each(|&c| take(base.wrapping_add(c.into()) & mask)),
            2 => cells
                .as_chunks()
                .0
                .iter()
                .for_each(|&c| take(base.wrapping_add(u16::from_le_bytes(c).into()) & mask)),
            4 => cells
                .as_chunks()
                .0
                .iter()
                .for_each(|&c| take(base.wrapping_add(u32::from_le_bytes(c).into()) & mask)),
            _ => cells
                .as_chunks()
                .0
                .iter()
                .for_each(|&c| take(base.wrapping_add(u64::from_le_bytes(c)) & mask)),
        }
    }

    /// Appends the words of a range of rows.
    pub fn widen(&self, rows: Range<usize>, out: &mut Vec<u64>) {
        out.reserve(rows.len());
        let start = out.len();
        out.resize(start + rows.len(), 0);
        let mut places = out[start..].iter_mut();
        self.for_each(rows, |word| {
            if let Some(place) = places.next() {
                *place = word;
            }
        });
    }

    /// A number that no word is above, without looking at each; `None` where a sum may wrap.
    pub(super) fn bound(&self) -> Option<u64> {
        let delta = if self.width == 0 { 0 } else { mask(self.width) };
        self.base.checked_add(delta).filter(|bound| *bound <= self.mask)
    }
}
