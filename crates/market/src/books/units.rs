//! Decimals as integers: the scale of a book is the finest that was seen, so nothing is rounded.

use std::fmt;
use tapedb_schema::Decimal64;

/// Largest price and size of a book, in its units.
pub const MAX_UNITS: i64 = 1 << 62;
/// Most decimals of a book.
const SCALE_MAX: u8 = 18;

/// A number that a book cannot hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Misfit {
    /// No finite number, or one of too many digits.
    Number,
    /// It has more decimals than the book: this many. See `Units::finer`.
    Finer(u8),
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number => write!(f, "a price or size is not finite, is negative, or has too many digits"),
            Self::Finer(scale) => write!(f, "a number has {scale} decimals, more than the book"),
        }
    }
}

impl std::error::Error for Misfit {}

/// Number of decimals of a book's prices or sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Units(u8);

impl Units {
    /// Units of this many decimals.
    ///
    /// # Errors
    /// [`Misfit::Number`] for more than 18.
    pub fn new(scale: u8) -> Result<Self, Misfit> {
        if scale <= SCALE_MAX { Ok(Self(scale)) } else { Err(Misfit::Number) }
    }

    /// Number of decimals.
    pub fn scale(self) -> u8 {
        self.0
    }

    /// A decimal in these units.
    ///
    /// # Errors
    /// [`Misfit`].
    #[inline]
    pub fn of(self, number: Decimal64) -> Result<i64, Misfit> {
        match number.parts() {
            // Nearly always: venues write the same number of decimals each time. A coefficient has at most sixteen digits.
            Some((coefficient, exponent)) if exponent == -i32::from(self.0) => Ok(coefficient),
            Some((coefficient, exponent)) => self.converted(coefficient, exponent),
            None => Err(Misfit::Number),
        }
    }

    /// The decimal of a number of units.
    pub fn decimal(self, units: i64) -> Decimal64 {
        // Sums of sizes may have more than sixteen digits; the nearest decimal is then shown.
        Decimal64::from_scaled(units, self.0)
            .unwrap_or_else(|_| Decimal64::from_f64(units as f64 / 10f64.powi(i32::from(self.0))))
    }

    /// The factor to units of `scale` decimals; `None` if they are not finer.
    pub(super) fn finer(&mut self, scale: u8) -> Option<i64> {
        let factor = 10i64.checked_pow(u32::from(scale.checked_sub(self.0)?))?;
        self.0 = scale;
        Some(factor)
    }

    /// Numbers with other decimals than the book, such as those whose trailing zeros are not written.
    #[inline(never)]
    fn converted(self, mut coefficient: i64, mut exponent: i32) -> Result<i64, Misfit> {
        if coefficient == 0 {
            return Ok(0);
        }
        let written = -exponent;
        while exponent < -i32::from(self.0) && coefficient % 10 == 0 {
            coefficient /= 10;
            exponent += 1;
        }
        let shift = exponent + i32::from(self.0);
        if shift < 0 {
            // As many as are written, so that the next numbers need no conversion.
            let fits = |scale: &u8| *scale <= SCALE_MAX;
            let scale = u8::try_from(written).ok().filter(fits);
            let scale = scale.or_else(|| u8::try_from(-exponent).ok().filter(fits));
            return Err(scale.map_or(Misfit::Number, Misfit::Finer));
        }
        let factor = POWERS.get(shift as usize).ok_or(Misfit::Number)?;
        let units = coefficient.checked_mul(*factor).ok_or(Misfit::Number)?;
        if units.unsigned_abs() <= MAX_UNITS as u64 { Ok(units) } else { Err(Misfit::Number) }
    }
}

const POWERS: [i64; 19] = {
    let mut powers = [1; 19];
    let mut at = 1;
    while at < powers.len() {
        powers[at] = powers[at - 1] * 10;
        at += 1;
    }
    powers
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(scale: u8, text: &str) -> Result<i64, Misfit> {
        Units::new(scale).unwrap().of(text.parse().unwrap())
    }

    #[test]
    fn numbers_are_exact_or_refused() {
        assert_eq!((of(2, "4810.25"), of(2, "4810.2500"), of(2, "-3")), (Ok(481_025), Ok(481_025), Ok(-300)));
        assert_eq!((of(2, "1.005"), of(0, "1E15")), (Err(Misfit::Finer(3)), Ok(1_000_000_000_000_000)));
        for bad in ["1E300", "1E-19", "9E18", "NaN", "Infinity"] {
            assert_eq!(of(0, bad), Err(Misfit::Number), "{bad}");
        }
        let mut units = Units::default();
        assert_eq!((units.finer(3), units.scale(), units.finer(2)), (Some(1_000), 3, None));
        assert_eq!(Units::new(2).unwrap().decimal(481_025).to_string(), "4810.25");
    }

    proptest! {
        #[test]
        fn any_bits_are_converted_or_refused(bits: u64, scale in 0u8..19) {
            let (units, number) = (Units::new(scale).unwrap(), Decimal64::from_bits(bits));
            if let Ok(value) = units.of(number) {
                prop_assert!(units.decimal(value).numeric_eq(&number));
            }
        }
    }
}
