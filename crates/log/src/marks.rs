//! Marks: the first four bytes of a batch in a log file.
//!
//! A search after damage reads through bodies, and a body may contain anything, even a batch with valid checksums. So in a
//! file from version 2 on a batch begins not with the public magic but with a number made of the log's salt, the file and the
//! offset. A sender cannot put it into a body, because it has neither. In a file of version 1 a batch begins with the
//! magic, and a search accepts less (`search.rs`).

use crate::format::{FILE_HEADER_BYTES, FileHeader};
use tapedb_codec::batch::{HEADER_BYTES, MAGIC};
use tapedb_codec::bytes::u32_at;

/// Bytes of a mark.
pub(crate) const MARK_BYTES: usize = 4;

/// The marks of a log file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marks {
    /// Version 1: the magic, wherever the batch is.
    Magic,
    /// Version 2: made with this key.
    Keyed(u64),
    /// The file's header is lost, and no other file has the salt.
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

    /// The one of `candidates` that the first batch of a file has: for a file without a header.
    pub fn by_first_batch(candidates: impl IntoIterator<Item = Self>, bytes: &[u8]) -> Self {
        let first = bytes.get(FILE_HEADER_BYTES as usize..).filter(|bytes| bytes.len() >= HEADER_BYTES);
        let fits = |marks: &Self| first.is_some_and(|bytes| marks.fits(FILE_HEADER_BYTES, bytes));
        candidates.into_iter().find(fits).unwrap_or(Self::Unknown)
    }

    /// The first four bytes of a batch at an offset; `None`: unknown.
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

    /// Whether a batch with the right mark and checksums cannot be part of a body.
    pub fn are_proof(self) -> bool {
        matches!(self, Self::Keyed(_))
    }
}

/// Never begins with a zero: zeros are preallocated space.
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
