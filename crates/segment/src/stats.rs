//! Statistics of the integers of a column, computed once for all choices of an encoding.

use crate::coefficients::COEFFICIENT_BITS;
use crate::simd::widest;

/// Statistics of all integers of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stats {
    pub min: i64,
    pub max: i64,
    /// The bits that are not the same in all.
    pub differing: i64,
}

impl Stats {
    pub fn of(values: &[i64]) -> Self {
        let first = values.first().copied().unwrap_or(0);
        let (min, max, differing) = widest(
            #[inline(always)]
            || {
                values.iter().fold((i64::MAX, i64::MIN, 0), |(min, max, differing), value| {
                    (min.min(*value), max.max(*value), differing | (value ^ first))
                })
            },
        );
        Self { min, max, differing }
    }

    pub fn range(&self, values: &[i64]) -> Option<(i64, i64)> {
        (!values.is_empty()).then_some((self.min, self.max))
    }

    /// Whether decimals of these bits differ in their coefficients alone.
    pub fn are_plain_decimals(&self) -> bool {
        self.differing >> COEFFICIENT_BITS == 0
    }
}
