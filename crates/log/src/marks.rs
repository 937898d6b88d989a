//! Marks: what the first four bytes of a batch are in a log file.
//!
//! A search behind damage looks through bodies, and a body may be anything, also a batch with all its checksums. So in a file
//! of version 2 a batch does not begin with its magic, which everybody knows, but with a number made of the log's salt, the
//! file and the offset. What was sent as a body does not have it: its sender knew neither. In a file of version 1 a batch
//! begins with the magic, and a search believes less (`search.rs`).

use crate::format::{FILE_HEADER_BYTES, FileHeader, u32_at};
use tapedb_codec::batch::{HEADER_BYTES, MAGIC};

/// Bytes of a mark.
pub(crate) const MARK_BYTES: usize = 4;

/// The marks of a log file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marks {
    /// Version 1: the magic, wherever the batch is.
    Magic,
    /// Version 2: made with this key.
    Keyed(u64),
    /// The file's header is lost, and nothing else tells the salt.
    Unknown,
}

impl Marks {
    /// The marks of a file with this header.
    pub fn of(header: &FileHeader) -> Self {
        match header.is_salted() {
            true => Self::salted(header.salt, header.first_sequence),
            false => Self::Magic,
        }
    }

    /// The marks of a file of a log with this salt.
    pub fn salted(salt: u64, file: u64) -> Self {
        Self::Keyed(mix(salt ^ mix(file)))
    }

    /// Those of some that the first batch in the bytes of a file has: for one without a header.
    pub fn by_first_batch(known: impl IntoIterator<Item = Self>, bytes: &[u8]) -> Self {
        let first = bytes.get(FILE_HEADER_BYTES as usize..).filter(|bytes| bytes.len() >= HEADER_BYTES);
        let fits = |marks: &Self| first.is_some_and(|bytes| marks.fits(FILE_HEADER_BYTES, bytes));
        known.into_iter().find(fits).unwrap_or(Self::Unknown)
    }

    /// The first four bytes of a batch at an offset; `None`: they are not known.
    #[inline]
    pub fn at(self, offset: u64) -> Option<u32> {
        match self {
            Self::Magic => Some(MAGIC),
            Self::Keyed(key) => Some(mark(key, offset)),
            Self::Unknown => None,
        }
    }

    /// Whether the batch at an offset, of at least four bytes, begins with its mark.
    #[inline]
    pub fn fits(self, offset: u64, batch: &[u8]) -> bool {
        self.at(offset).is_none_or(|mark| u32_at(batch, 0) == mark)
    }

    /// Whether a batch that has its mark, and its checksums, cannot be part of a body.
    pub fn prove(self) -> bool {
        matches!(self, Self::Keyed(_))
    }
}

/// Never begins with a zero: zeros are spare capacity.
#[inline]
fn mark(key: u64, offset: u64) -> u32 {
    let mark = (mix(key ^ offset) >> 32) as u32;
    if mark.trailing_zeros() >= 8 { mark | 1 } else { mark }
}

/// Spreads every bit over all others (the last step of SplitMix64).
#[inline]
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_a_real_mark() {
        let page = include_str!("../../../docs/format/log.md");
        let mark = Marks::salted(0x0123_4567_89ab_cdef, 42).at(64).unwrap();
        assert!(page.contains(&format!("is {mark:#010x}.")), "{mark:#010x}");
    }

    #[test]
    fn a_mark_is_of_one_salt_one_file_and_one_offset() {
        let mut seen = std::collections::HashSet::new();
        for salt in [1, 2, u64::MAX] {
            for file in [0, 1, 1 << 40] {
                for offset in (64..2_000_u64).chain([1 << 30, (1 << 30) + 1]) {
                    let mark = Marks::salted(salt, file).at(offset).unwrap();
                    assert_ne!(mark.to_le_bytes()[0], 0);
                    seen.insert(mark);
                }
            }
        }
        // Two of 17,000 marks may be equal by chance; this many are not.
        assert!(seen.len() > 9 * 1_938 - 10, "{}", seen.len());
    }
}
