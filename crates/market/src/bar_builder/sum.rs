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
    /// Adds a number; `None` if the sum does not fit.
    pub(super) fn plus(self, coefficient: i128, exponent: i32) -> Option<Self> {
        if coefficient == 0 {
            return Some(self);
        }
        if self.coefficient == 0 {
            return Some(Self { coefficient, exponent });
        }
        let finer = self.exponent.min(exponent);
        let scaled = |coefficient: i128, exponent: i32| {
            coefficient.checked_mul(10i128.checked_pow(exponent.abs_diff(finer))?)
        };
        let coefficient =
            scaled(self.coefficient, self.exponent)?.checked_add(scaled(coefficient, exponent)?)?;
        Some(Self { coefficient, exponent: finer })
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
        self.decimal().and_then(|sum| sum.numeric_cmp(&limit)).is_some_and(|order| order.is_ge())
    }
}
