//! Decimal digits of numbers, eight at a time.
//!
//! A word holds eight digits, a byte each, the first one in the lowest byte. Two divisions are made at once in the halves of a word, four in its
//! quarters. Digits are copied in pieces of constant length: what is copied too much is behind the text, where it is of no use.

use crate::TEXT_MAX;

/// Digits that [`Digits`] holds.
pub(crate) const DIGITS: usize = 16;

/// The first number with more digits than [`Digits`] holds.
const LIMIT: u64 = 10_000_000_000_000_000;
const EIGHT_DIGITS: u64 = 100_000_000;
const ZEROS: u64 = 0x3030_3030_3030_3030;

/// The digits of a number below 10^16, with zeros in front, and zero bytes behind them.
pub(crate) struct Digits {
    text: [u8; 2 * DIGITS],
    /// Digits of the number without zeros in front; at least one.
    pub needed: usize,
}

impl Digits {
    /// The digits of a number below 10^16.
    #[inline]
    pub fn of(value: u64) -> Self {
        let (high, low) = if value < EIGHT_DIGITS {
            (0, eight(value))
        } else {
            (eight(value / EIGHT_DIGITS), eight(value % EIGHT_DIGITS))
        };
        let zeros = if high != 0 { high.trailing_zeros() / 8 } else { 8 + (low.trailing_zeros() / 8).min(7) };
        let mut text = [0; 2 * DIGITS];
        text[..8].copy_from_slice(&(high | ZEROS).to_le_bytes());
        text[8..DIGITS].copy_from_slice(&(low | ZEROS).to_le_bytes());
        Self { text, needed: DIGITS - zeros as usize }
    }

    /// The last `count` digits, at most [`DIGITS`], and zero bytes behind them.
    #[inline]
    pub fn last(&self, count: usize) -> &[u8; DIGITS] {
        let start = DIGITS.saturating_sub(count);
        self.text[start..].first_chunk().unwrap_or(&[0; DIGITS])
    }
}

/// Writes a number at the start of the buffer, and returns its length. What follows it in the buffer is of no use.
///
/// ```
/// let mut buffer = [0; tapedb_schema::TEXT_MAX];
/// let length = tapedb_schema::format_integer(1_234_567, &mut buffer);
/// assert_eq!(&buffer[..length], b"1234567");
/// ```
#[inline]
pub fn format_integer(value: u64, buffer: &mut [u8; TEXT_MAX]) -> usize {
    put_integer(buffer, 0, value)
}

/// Writes a number, whose digits fit; returns the end.
#[inline]
pub(crate) fn put_integer(buffer: &mut [u8; TEXT_MAX], at: usize, value: u64) -> usize {
    if value >= LIMIT {
        return put_long(buffer, at, value);
    }
    let digits = Digits::of(value);
    buffer[at..at + DIGITS].copy_from_slice(digits.last(digits.needed));
    at + digits.needed
}

/// The first four digits, then the sixteen others.
#[cold]
fn put_long(buffer: &mut [u8; TEXT_MAX], at: usize, value: u64) -> usize {
    let front = Digits::of(value / LIMIT);
    buffer[at..at + DIGITS].copy_from_slice(front.last(front.needed));
    let at = at + front.needed;
    buffer[at..at + DIGITS].copy_from_slice(Digits::of(value % LIMIT).last(DIGITS));
    at + DIGITS
}

/// Two digits of a number below 100.
#[inline]
pub(crate) fn two(value: u32) -> [u8; 2] {
    let tens = (value * 103) >> 10;
    [b'0' + tens as u8, b'0' + (value - tens * 10) as u8]
}

/// Eight digits of a number below 10^8, as numbers from 0 to 9.
#[inline]
fn eight(value: u64) -> u64 {
    let fours = (value / 10_000) | ((value % 10_000) << 32);
    // Each half is below 10,000, each quarter then below 100: the products stay within them and divide exactly.
    let hundreds = ((fours * 10_486) >> 20) & 0x7f_0000_007f;
    let twos = hundreds | ((fours - hundreds * 100) << 16);
    let tens = ((twos * 103) >> 10) & 0x000f_000f_000f_000f;
    tens | ((twos - tens * 10) << 8)
}

/// Nine digits of a number below 10^9.
#[inline]
pub(crate) fn nine(value: u32) -> [u8; 9] {
    let (first, rest) = (value / 100_000_000, value % 100_000_000);
    let mut text = [b'0' + first as u8; 9];
    text[1..].copy_from_slice(&(eight(rest.into()) | ZEROS).to_le_bytes());
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(value: u64) -> String {
        let mut buffer = [b'x'; TEXT_MAX];
        let length = format_integer(value, &mut buffer);
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }

    #[test]
    fn every_part_of_a_word_divides_exactly() {
        for value in 0..10_000 {
            let expected = format!("{value:08}");
            assert_eq!((eight(value) | ZEROS).to_le_bytes(), expected.as_bytes());
            let expected = format!("{value:04}0000");
            assert_eq!((eight(value * 10_000) | ZEROS).to_le_bytes(), expected.as_bytes());
        }
        for value in 0..100 {
            assert_eq!(two(value), format!("{value:02}").as_bytes());
        }
    }

    #[test]
    fn numbers_of_every_length_are_as_the_standard_library_prints_them() {
        let mut power = 1u64;
        loop {
            for value in [power - 1, power, power + 1] {
                assert_eq!(text(value), value.to_string());
            }
            match power.checked_mul(10) {
                Some(next) => power = next,
                None => break,
            }
        }
        assert_eq!(text(u64::MAX), u64::MAX.to_string());
    }

    proptest! {
        #[test]
        fn any_number_is_as_the_standard_library_prints_it(value: u64, shift in 0..64) {
            let value = value >> shift;
            prop_assert_eq!(text(value), value.to_string());
            let below = (value % 1_000_000_000) as u32;
            prop_assert_eq!(nine(below).to_vec(), format!("{below:09}").into_bytes());
        }
    }
}
