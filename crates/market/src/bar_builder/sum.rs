//! Exact sums of decimals.

use tapedb_schema::Decimal64;

/// Most digits of a decimal.
const DIGITS_MAX: u128 = 9_999_999_999_999_999;

/// An integer times a power of ten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Sum {
    coefficient: i128,
    exponent: i32,
}

impl Sum {
    /// Adds a number. The sum is exact as long as it fits 38 digits; beyond, digits that are too small for it are dropped, so that one number
    /// out of all proportion does not keep the others out.
    pub(super) fn plus(self, coefficient: i128, exponent: i32) -> Self {
        if coefficient == 0 {
            return self;
        }
        let other = Self { coefficient, exponent };
        if self.coefficient == 0 {
            return other;
        }
        self.exactly(other).unwrap_or_else(|| self.nearly(other))
    }

    fn exactly(self, other: Self) -> Option<Self> {
        let finer = self.exponent.min(other.exponent);
        let scaled = |of: Self| of.coefficient.checked_mul(10i128.checked_pow(of.exponent.abs_diff(finer))?);
        Some(Self { coefficient: scaled(self)?.checked_add(scaled(other)?)?, exponent: finer })
    }

    #[cold]
    fn nearly(self, other: Self) -> Self {
        let (a, b) = (self.spread(), other.spread());
        let (coarse, fine) = if a.exponent >= b.exponent { (a, b) } else { (b, a) };
        let rest = 10i128
            .checked_pow(coarse.exponent.abs_diff(fine.exponent))
            .map_or(0, |factor| fine.coefficient / factor);
        Self { coefficient: coarse.coefficient + rest, exponent: coarse.exponent }
    }

    /// The number with 37 digits, cut where it has more: two of them have a sum.
    fn spread(self) -> Self {
        const LEAST: u128 = 10u128.pow(36);
        let Self { mut coefficient, mut exponent } = self;
        while coefficient.unsigned_abs() < LEAST {
            (coefficient, exponent) = (coefficient * 10, exponent - 1);
        }
        while coefficient.unsigned_abs() >= 10 * LEAST {
            (coefficient, exponent) = (coefficient / 10, exponent + 1);
        }
        Self { coefficient, exponent }
    }

    /// The nearest decimal of sixteen digits.
    pub(super) fn decimal(self) -> Option<Decimal64> {
        let (mut coefficient, mut exponent) = (self.coefficient, self.exponent);
        while coefficient.unsigned_abs() > DIGITS_MAX {
            // Only the last digit that goes decides; ties away from zero.
            let is_up = (coefficient % 10).abs() >= 5;
            coefficient /= 10;
            exponent += 1;
            if is_up && coefficient.unsigned_abs() <= DIGITS_MAX {
                coefficient += coefficient.signum();
            }
        }
        Decimal64::from_parts(i64::try_from(coefficient).ok()?, exponent).ok()
    }

    /// Whether it is at least this.
    pub(super) fn reaches(self, limit: Decimal64) -> bool {
        match self.decimal() {
            Some(sum) => sum.numeric_cmp(&limit).is_some_and(|order| order.is_ge()),
            // Larger than every decimal, or nearer to zero than all of them.
            None => self.coefficient > 0 && self.exponent > 0,
        }
    }
}
