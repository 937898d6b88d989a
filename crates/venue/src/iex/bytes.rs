//! Little-endian fields of a message.

use crate::error::BadRecord;
use tapedb_schema::{Ascii, Decimal64, Timestamp};

/// The bytes of one message; fields are read at offsets that its length has been compared with.
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
    pub(super) fn u32(self, at: usize) -> u32 {
        u32::from_le_bytes(self.array(at))
    }

    #[inline]
    fn i64(self, at: usize) -> i64 {
        i64::from_le_bytes(self.array(at))
    }

    /// A number of a trade.
    #[inline]
    pub(super) fn id(self, at: usize) -> Result<u64, BadRecord> {
        u64::try_from(self.i64(at))
            .map_err(|_| BadRecord { offset: at, expected: "a number of at least zero" })
    }

    /// Nanoseconds since 1970.
    #[inline]
    pub(super) fn time(self, at: usize) -> Timestamp {
        Timestamp(self.i64(at))
    }

    /// A price with four decimals.
    #[inline]
    pub(super) fn price(self, at: usize) -> Result<Decimal64, BadRecord> {
        let price = Decimal64::from_parts(self.i64(at), -4);
        price.map_err(|_| BadRecord { offset: at, expected: "a price of at most 16 digits" })
    }

    /// A price with four decimals; `None`: there is none, which is written as zero.
    #[inline]
    pub(super) fn some_price(self, at: usize) -> Result<Option<Decimal64>, BadRecord> {
        if self.i64(at) == 0 { Ok(None) } else { self.price(at).map(Some) }
    }

    #[inline]
    pub(super) fn size(self, at: usize) -> Decimal64 {
        Decimal64::from_parts(i64::from(self.u32(at)), 0).expect("ten digits")
    }

    /// A text without the spaces behind it.
    #[inline]
    pub(super) fn text(self, at: usize, width: usize) -> Result<&'a str, BadRecord> {
        let text = self.0[at..at + width].trim_ascii_end();
        match std::str::from_utf8(text) {
            Ok(text) if text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ') => Ok(text),
            _ => Err(BadRecord { offset: at, expected: "a text of ASCII characters" }),
        }
    }

    /// One letter.
    pub(super) fn letter(self, at: usize) -> Result<Option<Ascii<8>>, BadRecord> {
        Ok(Ascii::new(self.text(at, 1)?).ok().filter(|text| !text.as_str().is_empty()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_every_digit_or_are_refused() {
        let bytes = [1_234_500i64, 0, -15, i64::MAX].map(i64::to_le_bytes).concat();
        let fields = Fields(&bytes);
        assert_eq!(fields.price(0).unwrap().to_string(), "123.4500");
        assert_eq!((fields.some_price(8), fields.id(16).unwrap_err().offset), (Ok(None), 16));
        assert_eq!(fields.price(16).unwrap().to_string(), "-0.0015");
        assert_eq!(fields.price(24).unwrap_err().offset, 24);
    }

    #[test]
    fn texts_end_before_their_spaces() {
        let fields = Fields(b"ZIEXT    \x80\0");
        assert_eq!((fields.text(0, 8), fields.letter(8)), (Ok("ZIEXT"), Ok(None)));
        assert!(fields.text(9, 1).is_err() && fields.letter(10).is_err());
    }
}
