//! Big-endian fields of a message, and what their values mean.

use crate::error::BadRecord;
use tapedb_market::Side;
use tapedb_schema::{Ascii, Decimal64};

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
    pub(super) fn u16(self, at: usize) -> u16 {
        u16::from_be_bytes(self.array(at))
    }

    #[inline]
    pub(super) fn u32(self, at: usize) -> u32 {
        u32::from_be_bytes(self.array(at))
    }

    #[inline]
    pub(super) fn u64(self, at: usize) -> u64 {
        u64::from_be_bytes(self.array(at))
    }

    /// Nanoseconds since midnight, of six bytes.
    #[inline]
    pub(super) fn nanos(self, at: usize) -> i64 {
        let [a, b, c, d, e, f] = self.array(at);
        i64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }

    /// A price with four decimals.
    #[inline]
    pub(super) fn price(self, at: usize) -> Decimal64 {
        Decimal64::from_parts(i64::from(self.u32(at)), -4).expect("ten digits")
    }

    /// A price with four decimals; `None`: there is none, which is written as zero.
    #[inline]
    pub(super) fn some_price(self, at: usize) -> Option<Decimal64> {
        if self.u32(at) == 0 { None } else { Some(self.price(at)) }
    }

    /// A price with eight decimals.
    pub(super) fn long_price(self, at: usize) -> Result<Decimal64, BadRecord> {
        decimal(self.u64(at), -8, at)
    }

    /// A size of four bytes.
    #[inline]
    pub(super) fn size(self, at: usize) -> Decimal64 {
        Decimal64::from_parts(i64::from(self.u32(at)), 0).expect("ten digits")
    }

    /// A size of eight bytes.
    pub(super) fn long_size(self, at: usize) -> Result<Decimal64, BadRecord> {
        decimal(self.u64(at), 0, at)
    }

    /// The side of an order.
    #[inline]
    pub(super) fn side(self, at: usize) -> Result<Side, BadRecord> {
        match self.u8(at) {
            b'B' => Ok(Side::Bid),
            b'S' => Ok(Side::Ask),
            _ => Err(BadRecord { offset: at, expected: "a side B or S" }),
        }
    }

    /// A text of at most eight characters, without the spaces behind it; `None` if there is nothing else.
    pub(super) fn ascii(self, at: usize, width: usize) -> Result<Option<Ascii<8>>, BadRecord> {
        let text = trimmed(&self.0[at..at + width]);
        let mut bytes = [0; 8];
        bytes[..text.len()].copy_from_slice(text);
        let found = Ascii::from_bytes(bytes);
        let found = found.map_err(|_| BadRecord { offset: at, expected: "a text of ASCII characters" })?;
        Ok((!text.is_empty()).then_some(found))
    }

    /// As [`Fields::ascii`]; empty if there is nothing.
    pub(super) fn text(self, at: usize, width: usize) -> Result<String, BadRecord> {
        Ok(self.ascii(at, width)?.map(|text| text.as_str().to_string()).unwrap_or_default())
    }
}

/// Without the spaces at the end.
pub(super) fn trimmed(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|&byte| byte != b' ').map_or(0, |last| last + 1);
    &text[..end]
}

fn decimal(value: u64, exponent: i32, offset: usize) -> Result<Decimal64, BadRecord> {
    let decimal = i64::try_from(value).ok().and_then(|value| Decimal64::from_parts(value, exponent).ok());
    decimal.ok_or(BadRecord { offset, expected: "a number of at most 16 digits" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_every_digit_or_are_refused() {
        let bytes = [&1_234_500u32.to_be_bytes()[..], &u64::MAX.to_be_bytes(), &[0, 0, 0, 0, 1, 2]].concat();
        let fields = Fields(&bytes);
        assert_eq!(fields.price(0).to_string(), "123.4500");
        assert_eq!(fields.long_size(4).unwrap_err().offset, 4);
        assert_eq!((fields.nanos(12), fields.some_price(12)), (258, None));
        assert_eq!(
            Fields(&99_999_999_999u64.to_be_bytes()).long_price(0).unwrap().to_string(),
            "999.99999999"
        );
    }

    #[test]
    fn texts_end_before_their_spaces() {
        let fields = Fields(b"BRK A   \x80       ");
        assert_eq!(fields.text(0, 8).unwrap(), "BRK A");
        assert_eq!(fields.ascii(5, 3), Ok(None));
        assert!(fields.ascii(8, 8).is_err());
    }
}
