//! A block of little-endian fields, of which an older version may lack the last.

use crate::error::BadRecord;
use tapedb_schema::{Decimal64, Timestamp};

const NANOS_PER_DAY: i64 = 86_400_000_000_000;

/// A block: the root of a message, or an entry of a group. A field that is not in it, or has its null value, is `None`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block<'a> {
    pub(super) bytes: &'a [u8],
    /// Place of its first byte in the packet.
    pub(super) at: usize,
    /// Decimals of prices: 7 in older templates, 9 in newer ones.
    pub(super) decimals: u32,
}

impl<'a> Block<'a> {
    #[inline]
    fn array<const N: usize>(self, at: usize) -> Option<[u8; N]> {
        self.bytes.get(at..)?.first_chunk().copied()
    }

    /// A byte, whatever its value.
    #[inline]
    pub(super) fn byte(self, at: usize) -> u8 {
        self.bytes.get(at).copied().unwrap_or(0)
    }

    #[inline]
    pub(super) fn u8(self, at: usize) -> Option<u8> {
        self.bytes.get(at).copied().filter(|value| *value != u8::MAX)
    }

    #[inline]
    pub(super) fn i8(self, at: usize) -> Option<i8> {
        self.bytes.get(at).map(|value| *value as i8).filter(|value| *value != i8::MAX)
    }

    #[inline]
    pub(super) fn u16(self, at: usize) -> Option<u16> {
        self.array(at).map(u16::from_le_bytes).filter(|value| *value != u16::MAX)
    }

    #[inline]
    pub(super) fn i32(self, at: usize) -> Option<i32> {
        self.array(at).map(i32::from_le_bytes).filter(|value| *value != i32::MAX)
    }

    #[inline]
    pub(super) fn u32(self, at: usize) -> Option<u32> {
        self.array(at).map(u32::from_le_bytes).filter(|value| *value != u32::MAX)
    }

    #[inline]
    pub(super) fn u64(self, at: usize) -> Option<u64> {
        self.array(at).map(u64::from_le_bytes).filter(|value| *value != u64::MAX)
    }

    #[inline]
    pub(super) fn i64(self, at: usize) -> Option<i64> {
        self.array(at).map(i64::from_le_bytes).filter(|value| *value != i64::MAX)
    }

    /// A price with the fewest of 2, 4, 6 or all decimals that keep it whole.
    #[inline]
    pub(super) fn price(self, at: usize) -> Result<Option<Decimal64>, BadRecord> {
        let Some(value) = self.i64(at) else { return Ok(None) };
        match fixed(value, self.decimals) {
            Some(price) => Ok(Some(price)),
            None => Err(self.bad(at, "a price of at most 16 digits")),
        }
    }

    #[inline]
    pub(super) fn size(self, at: usize) -> Option<Decimal64> {
        Decimal64::from_parts(i64::from(self.i32(at)?), 0).ok()
    }

    /// Nanoseconds since 1970.
    #[inline]
    pub(super) fn time(self, at: usize) -> Result<Option<Timestamp>, BadRecord> {
        let Some(nanos) = self.u64(at) else { return Ok(None) };
        let nanos = i64::try_from(nanos).map_err(|_| self.bad(at, "a time before the year 2262"))?;
        Ok(Some(Timestamp(nanos)))
    }

    /// Midnight of a day, counted from 1970.
    pub(super) fn date(self, at: usize) -> Option<Timestamp> {
        self.u16(at).filter(|days| *days > 0).map(|days| Timestamp(i64::from(days) * NANOS_PER_DAY))
    }

    /// A text of a fixed width, up to its first zero, without the spaces behind it.
    pub(super) fn text(self, at: usize, width: usize) -> Result<Option<&'a str>, BadRecord> {
        let Some(bytes) = self.bytes.get(at..at + width) else { return Ok(None) };
        let length = bytes.iter().position(|&byte| byte == 0).unwrap_or(width);
        let text = bytes[..length].trim_ascii_end();
        let text = std::str::from_utf8(text).map_err(|_| self.bad(at, "a text in UTF-8"))?;
        Ok((!text.is_empty()).then_some(text))
    }

    #[cold]
    pub(super) fn bad(self, at: usize, expected: &'static str) -> BadRecord {
        BadRecord { offset: self.at + at, expected }
    }
}

/// A fixed-point number with the fewest decimals of 2, 4, 6 or all that keep it whole; `None` if it has more than 16 digits.
#[inline]
pub(super) fn fixed(value: i64, decimals: u32) -> Option<Decimal64> {
    for kept in [2, 4, 6] {
        let unit = 10i64.pow(decimals - kept);
        if value % unit == 0 {
            return Decimal64::from_parts(value / unit, -(kept as i32)).ok();
        }
    }
    Decimal64::from_parts(value, -(decimals as i32)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_keep_every_digit_or_are_refused() {
        let text = |value, decimals| fixed(value, decimals).map(|price| price.to_string());
        assert_eq!(text(41_302_500_000, 7).as_deref(), Some("4130.25"));
        assert_eq!(text(-1, 7).as_deref(), Some("-0.0000001"));
        assert_eq!(text(1_121_500_000, 9).as_deref(), Some("1.1215"));
        assert_eq!(text(9_000_000_000_000_000_001, 9), None);
    }

    #[test]
    fn what_a_block_lacks_is_null() {
        let block = Block { bytes: &[0xFF; 8], at: 100, decimals: 9 };
        assert_eq!((block.u8(0), block.u16(6), block.u16(7), block.u64(0)), (None, None, None, None));
        assert_eq!((block.i32(0), block.price(1)), (Some(-1), Ok(None)));
        assert_eq!(block.text(0, 8).unwrap_err(), BadRecord { offset: 100, expected: "a text in UTF-8" });
        assert_eq!(block.time(0), Ok(None));
        let text = Block { bytes: b"ESZ6 \0..", at: 0, decimals: 9 };
        assert_eq!(
            (text.text(0, 8), text.text(5, 3), text.text(0, 9)),
            (Ok(Some("ESZ6")), Ok(None), Ok(None))
        );
    }
}
