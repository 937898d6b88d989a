//! Scaled integers: `decimal(18,s)`.

use std::fmt;
use std::str::FromStr;

use crate::decimal64::POWERS_OF_TEN;
use crate::{Decimal64, DecimalError};

/// A decimal with exactly `S` digits after the point, 0 to 18, stored as an `i64` that counts units of 10^-S.
///
/// The whole range of `i64` is valid, so that eighteen digits always fit and some numbers of nineteen do too.
///
/// ```
/// use tapedb_schema::Fixed;
/// let price: Fixed<4> = "12.5".parse()?;
/// assert_eq!(price, Fixed(125_000));
/// assert_eq!(price.to_string(), "12.5000");
/// # Ok::<(), tapedb_schema::DecimalError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Fixed<const S: u8>(pub i64);

impl<const S: u8> Fixed<S> {
    /// Digits after the point.
    pub const SCALE: u8 = {
        assert!(S <= crate::MAX_SCALE, "the scale of decimal(18,s) is 0 to 18");
        S
    };

    /// The value that counts `units` of 10^-S.
    #[inline]
    pub const fn from_units(units: i64) -> Self {
        Self(units)
    }

    /// Units of 10^-S.
    #[inline]
    pub const fn units(self) -> i64 {
        self.0
    }

    /// The same number, if `S` digits after the point hold it.
    ///
    /// # Errors
    /// As [`Decimal64::to_scaled`].
    #[inline]
    pub fn from_decimal64(value: Decimal64) -> Result<Self, DecimalError> {
        value.to_scaled(Self::SCALE).map(Self)
    }

    /// The same number, with scale `S` where sixteen digits allow it.
    ///
    /// # Errors
    /// [`DecimalError::Digits`] if the value has more than sixteen significant digits.
    #[inline]
    pub fn to_decimal64(self) -> Result<Decimal64, DecimalError> {
        Decimal64::from_scaled(self.0, Self::SCALE)
    }

    /// The nearest `f64`.
    pub fn to_f64(self) -> f64 {
        match self.to_decimal64() {
            Ok(decimal) => decimal.to_f64(),
            Err(_) => self.to_string().parse().unwrap_or(f64::NAN),
        }
    }

    /// Reads `[+-]digits[.digits]` exactly, without allocating. Digits beyond the scale must be zeros.
    ///
    /// # Errors
    /// [`DecimalError::Syntax`], [`DecimalError::Scale`] or [`DecimalError::Overflow`].
    pub fn parse_bytes(text: &[u8]) -> Result<Self, DecimalError> {
        parse(text, Self::SCALE).map(Self)
    }
}

impl<const S: u8> FromStr for Fixed<S> {
    type Err = DecimalError;

    fn from_str(text: &str) -> Result<Self, DecimalError> {
        Self::parse_bytes(text.as_bytes())
    }
}

/// All `S` digits after the point, always.
impl<const S: u8> fmt::Display for Fixed<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = POWERS_OF_TEN[usize::from(Self::SCALE)];
        let magnitude = self.0.unsigned_abs();
        let sign = if self.0 < 0 { "-" } else { "" };
        if S == 0 {
            return write!(f, "{sign}{magnitude}");
        }
        write!(f, "{sign}{}.{:0width$}", magnitude / unit, magnitude % unit, width = usize::from(S))
    }
}

fn parse(text: &[u8], scale: u8) -> Result<i64, DecimalError> {
    let negative = text.first() == Some(&b'-');
    let start = usize::from(matches!(text.first(), Some(b'-' | b'+')));
    let overflow = DecimalError::Overflow { scale };
    let (mut units, mut any, mut after_point) = (0i64, false, None);
    for (at, &byte) in text.iter().enumerate().skip(start) {
        match byte {
            b'0'..=b'9' => {
                any = true;
                if after_point == Some(scale) {
                    if byte != b'0' {
                        return Err(DecimalError::Scale { have: scale });
                    }
                    continue;
                }
                after_point = after_point.map(|count| count + 1);
                units = append_digit(units, byte, negative).ok_or(overflow)?;
            }
            b'.' if after_point.is_none() => after_point = Some(0),
            _ => return Err(DecimalError::Syntax { at }),
        }
    }
    if !any {
        return Err(DecimalError::Syntax { at: text.len() });
    }
    let missing = scale - after_point.unwrap_or(0);
    units.checked_mul(POWERS_OF_TEN[usize::from(missing)] as i64).ok_or(overflow)
}

/// Negative numbers are built downwards, because `i64` reaches one further below zero.
fn append_digit(units: i64, byte: u8, negative: bool) -> Option<i64> {
    let digit = i64::from(byte - b'0');
    units.checked_mul(10)?.checked_add(if negative { -digit } else { digit })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_and_prints() {
        for (text, units, printed) in [
            ("12.5", 1250, "12.50"),
            ("-0.05", -5, "-0.05"),
            ("+7", 700, "7.00"),
            (".5", 50, "0.50"),
            ("1.5000", 150, "1.50"),
            ("-92233720368547758.08", i64::MIN, "-92233720368547758.08"),
        ] {
            assert_eq!(text.parse(), Ok(Fixed::<2>(units)), "{text}");
            assert_eq!(Fixed::<2>(units).to_string(), printed);
        }
        assert_eq!(Fixed::<0>(-3).to_string(), "-3");
    }

    #[test]
    fn refuses_what_does_not_fit() {
        let parse = |text: &str| text.parse::<Fixed<2>>();
        assert_eq!(parse("1.505"), Err(DecimalError::Scale { have: 2 }));
        assert_eq!(parse("92233720368547758.08"), Err(DecimalError::Overflow { scale: 2 }));
        for (text, at) in [("", 0), ("-", 1), (".", 1), ("1.2.3", 3), ("1e5", 1), ("1.00x", 4)] {
            assert_eq!(parse(text), Err(DecimalError::Syntax { at }), "{text}");
        }
    }

    #[test]
    fn meets_decimal64() {
        assert_eq!(Fixed::<4>::from_decimal64("1.5".parse().unwrap()), Ok(Fixed(15_000)));
        assert_eq!(Fixed::<4>(15_000).to_decimal64().unwrap().to_string(), "1.5000");
        assert_eq!(Fixed::<0>(i64::MAX).to_decimal64(), Err(DecimalError::Digits { need: 19, have: 16 }));
        assert_eq!(Fixed::<2>(i64::MAX).to_f64(), 92_233_720_368_547_758.07);
    }

    proptest! {
        #[test]
        fn texts_read_back(units: i64) {
            prop_assert_eq!(Fixed::<0>(units).to_string().parse(), Ok(Fixed::<0>(units)));
            prop_assert_eq!(Fixed::<7>(units).to_string().parse(), Ok(Fixed::<7>(units)));
            prop_assert_eq!(Fixed::<18>(units).to_string().parse(), Ok(Fixed::<18>(units)));
        }

        #[test]
        fn no_bytes_panic(bytes in any::<Vec<u8>>()) {
            let _ = Fixed::<9>::parse_bytes(&bytes);
        }
    }
}
