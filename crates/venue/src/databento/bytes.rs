//! Little-endian fields of a record, and what their values mean.

use crate::error::BadRecord;
use tapedb_market::Side;
use tapedb_schema::{Ascii, Decimal64, Timestamp};

/// Decimals of a fixed-point number.
const SCALE: i32 = 9;

/// The bytes of one record; fields are read at offsets that its length has been compared with.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    #[inline]
    fn array<const N: usize>(self, at: usize) -> [u8; N] {
        self.0[at..at + N].try_into().expect("a slice of N bytes")
    }

    #[inline]
    pub(super) fn u8(self, at: usize) -> u8 {
        self.0[at]
    }

    #[inline]
    pub(super) fn u16(self, at: usize) -> u16 {
        u16::from_le_bytes(self.array(at))
    }

    #[inline]
    pub(super) fn u32(self, at: usize) -> u32 {
        u32::from_le_bytes(self.array(at))
    }

    #[inline]
    pub(super) fn i32(self, at: usize) -> i32 {
        i32::from_le_bytes(self.array(at))
    }

    #[inline]
    pub(super) fn u64(self, at: usize) -> u64 {
        u64::from_le_bytes(self.array(at))
    }

    #[inline]
    pub(super) fn i64(self, at: usize) -> i64 {
        i64::from_le_bytes(self.array(at))
    }

    /// A price; `None` if it is undefined.
    #[inline]
    pub(super) fn price(self, at: usize) -> Result<Option<Decimal64>, BadRecord> {
        match self.i64(at) {
            i64::MAX => Ok(None),
            value => fixed(value)
                .map(Some)
                .ok_or(BadRecord { offset: at, expected: "a number of at most 16 digits" }),
        }
    }

    /// A size; `None` if it is undefined.
    #[inline]
    pub(super) fn size(self, at: usize) -> Option<Decimal64> {
        let size = self.u32(at);
        if size == u32::MAX { None } else { Decimal64::from_parts(i64::from(size), 0).ok() }
    }

    /// A time; `None` if it is undefined.
    #[inline]
    pub(super) fn time(self, at: usize) -> Result<Option<Timestamp>, BadRecord> {
        match self.u64(at) {
            u64::MAX => Ok(None),
            nanos => match i64::try_from(nanos) {
                Ok(nanos) => Ok(Some(Timestamp(nanos))),
                Err(_) => Err(BadRecord { offset: at, expected: "a time before the year 2262" }),
            },
        }
    }

    /// A side; `None` for `N`.
    #[inline]
    pub(super) fn side(self, at: usize) -> Result<Option<Side>, BadRecord> {
        match self.u8(at) {
            b'B' => Ok(Some(Side::Bid)),
            b'A' => Ok(Some(Side::Ask)),
            b'N' => Ok(None),
            _ => Err(BadRecord { offset: at, expected: "a side A, B or N" }),
        }
    }

    /// One character; `None` if it is zero.
    pub(super) fn character(self, at: usize) -> Result<Option<Ascii<8>>, BadRecord> {
        match self.u8(at) {
            0 => Ok(None),
            byte => {
                let mut text = [0; 8];
                text[0] = byte;
                Ascii::from_bytes(text)
                    .map(Some)
                    .map_err(|_| BadRecord { offset: at, expected: "an ASCII character" })
            }
        }
    }

    /// A text of a fixed width, up to its first zero.
    pub(super) fn text(self, at: usize, width: usize) -> Result<&'a str, BadRecord> {
        let bytes = &self.0[at..at + width];
        let length = bytes.iter().position(|&byte| byte == 0).unwrap_or(width);
        std::str::from_utf8(&bytes[..length])
            .map_err(|_| BadRecord { offset: at, expected: "a text in UTF-8" })
    }
}

/// A fixed-point number with the fewest of 2, 4, 6 or 9 decimals that keep it whole; `None` if it has more than 16 digits.
#[inline]
pub(super) fn fixed(value: i64) -> Option<Decimal64> {
    let (coefficient, decimals) = if value % 10_000_000 == 0 {
        (value / 10_000_000, SCALE - 7)
    } else if value % 100_000 == 0 {
        (value / 100_000, SCALE - 5)
    } else if value % 1_000 == 0 {
        (value / 1_000, SCALE - 3)
    } else {
        (value, SCALE)
    };
    Decimal64::from_parts(coefficient, -decimals).ok()
}

/// A whole number; `None` if it has more than 16 digits.
pub(super) fn whole(value: u64) -> Option<Decimal64> {
    i64::try_from(value).ok().and_then(|value| Decimal64::from_parts(value, 0).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_keep_every_digit_or_are_refused() {
        let text = |value| fixed(value).map(|price| price.to_string());
        assert_eq!(text(4_810_250_000_000).as_deref(), Some("4810.25"));
        assert_eq!(text(4_810_000_000_000).as_deref(), Some("4810.00"));
        assert_eq!(text(-1_121_500_000).as_deref(), Some("-1.1215"));
        assert_eq!(text(1_000).as_deref(), Some("0.000001"));
        assert_eq!(text(1).as_deref(), Some("0.000000001"));
        assert_eq!(text(9_000_000_000_000_000_000).as_deref(), Some("9000000000.00"));
        assert_eq!(text(9_000_000_000_000_000_001), None);
    }

    #[test]
    fn undefined_is_null() {
        let bytes =
            [&i64::MAX.to_le_bytes()[..], &u64::MAX.to_le_bytes(), &u32::MAX.to_le_bytes(), b"N\0x\xff"]
                .concat();
        let fields = Fields(&bytes);
        assert_eq!((fields.price(0), fields.time(8), fields.size(16)), (Ok(None), Ok(None), None));
        assert_eq!((fields.side(20), fields.character(21)), (Ok(None), Ok(None)));
        assert_eq!(fields.character(22).unwrap().unwrap().as_str(), "x");
        assert_eq!(fields.side(21).unwrap_err().offset, 21);
        assert!(fields.text(22, 2).is_err());
    }
}
