//! Values of fields.

use crate::text::Text;
use std::fmt;

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// A floating-point number: `1.5`, or eight binary bytes.
    F64(Number<'a>),
    /// `3i`.
    I64(i64),
    /// `3u`.
    U64(u64),
    /// `"text"`. The bytes may not be UTF-8.
    Text(Text<'a>),
    /// `t`, `true`, `f`, `false`.
    Bool(bool),
    /// `3t` in microseconds, `3n` in nanoseconds: nanoseconds since 1970.
    Time(i64),
    /// An array of doubles.
    Array(Array<'a>),
    /// `1.50d`, or its binary form.
    Decimal(Decimal<'a>),
    /// A binary value that states to be none.
    Null,
}

impl Value<'_> {
    /// The type, for errors.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::F64(_) => "a float",
            Self::I64(_) => "an integer",
            Self::U64(_) => "an unsigned integer",
            Self::Text(_) => "a string",
            Self::Bool(_) => "a boolean",
            Self::Time(_) => "a timestamp",
            Self::Array(_) => "an array",
            Self::Decimal(_) => "a decimal",
            Self::Null => "nothing",
        }
    }
}

/// A floating-point number, and how it is written.
#[derive(Debug, Clone, Copy)]
pub struct Number<'a> {
    /// The nearest double.
    pub value: f64,
    /// The text, from which an exact decimal can be read; empty where the number is binary.
    pub text: &'a [u8],
}

impl PartialEq for Number<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.value.to_bits() == other.value.to_bits()
    }
}

/// An array of doubles with one dimension or more.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Array<'a> {
    shape: &'a [u8],
    data: &'a [u8],
}

impl<'a> Array<'a> {
    /// `shape`: four bytes for each dimension; `data`: eight for each value, as many as the shape states.
    pub(crate) fn new(shape: &'a [u8], data: &'a [u8]) -> Self {
        Self { shape, data }
    }

    /// How many dimensions: at least one.
    pub fn dimensions(&self) -> usize {
        self.shape.len() / 4
    }

    /// The length of each dimension, the outermost first.
    pub fn shape(&self) -> impl ExactSizeIterator<Item = u32> + 'a {
        self.shape.chunks_exact(4).map(|bytes| bytes.try_into().map_or(0, u32::from_le_bytes))
    }

    /// The values, the innermost dimension first.
    pub fn values(&self) -> impl ExactSizeIterator<Item = f64> + 'a {
        self.data.chunks_exact(8).map(|bytes| bytes.try_into().map_or(0.0, f64::from_le_bytes))
    }
}

/// An exact decimal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Decimal<'a> {
    /// As text: a number, perhaps with an exponent.
    Text(&'a [u8]),
    /// `unscaled` × 10^-`scale`.
    Binary {
        /// Digits behind the point.
        scale: u8,
        /// A number in two's complement, the most significant byte first; at least one byte.
        unscaled: &'a [u8],
    },
}

impl Decimal<'_> {
    /// The unscaled number of a binary decimal; `None`: a text, or more than 128 bits.
    pub fn unscaled(&self) -> Option<i128> {
        let Self::Binary { unscaled, .. } = self else { return None };
        let sign = if unscaled.first()? & 0x80 == 0 { 0 } else { 0xFF };
        let excess = unscaled.len().saturating_sub(16);
        let (ahead, low) = unscaled.split_at(excess);
        let is_sign = ahead.iter().all(|byte| *byte == sign) && low.first()? & 0x80 == sign & 0x80;
        if !is_sign {
            return None;
        }
        let mut bytes = [sign; 16];
        bytes[16 - low.len()..].copy_from_slice(low);
        Some(i128::from_be_bytes(bytes))
    }
}

impl fmt::Display for Decimal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.unscaled()) {
            (Self::Text(text), _) => f.write_str(&String::from_utf8_lossy(text)),
            (Self::Binary { scale, .. }, Some(unscaled)) => write!(f, "{unscaled}e-{scale}"),
            (Self::Binary { unscaled, .. }, None) => write!(f, "a number of {} bytes", unscaled.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_decimals_extend_their_sign() {
        let unscaled = |bytes: &'static [u8]| Decimal::Binary { scale: 0, unscaled: bytes }.unscaled();
        assert_eq!(unscaled(&[0x30, 0xD4]), Some(12_500));
        assert_eq!(unscaled(&[0xFF]), Some(-1));
        let mut long = vec![0xFFu8; 20];
        long[19] = 0xFE;
        assert_eq!(Decimal::Binary { scale: 0, unscaled: &long }.unscaled(), Some(-2));
        long[3] = 0;
        assert_eq!(Decimal::Binary { scale: 0, unscaled: &long }.unscaled(), None);
        long[..4].fill(0);
        assert_eq!(Decimal::Binary { scale: 0, unscaled: &long }.unscaled(), None);
    }
}
