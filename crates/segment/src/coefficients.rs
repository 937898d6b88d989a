//! Coefficients become decimals, many at once.
//!
//! Nearly all numbers have the small form: a sign, an exponent, and a coefficient below 2^53. What the numbers of a strip become
//! is worked out as if all had it, without a branch, and at the end one comparison shows whether they have. If not, the strip
//! is worked out number by number.

use crate::damage::Flaw;
use crate::encoding::GROUP;
use crate::simd::widest;
use tapedb_schema::Decimal64;

pub(crate) const EXPONENT_MIN: i32 = -398;
pub(crate) const EXPONENT_MAX: i32 = 369;
/// Digits that fit 64 bits whatever they are.
pub(crate) const SHIFT_MAX: i64 = 18;
pub(crate) const POWERS: [i64; 19] = {
    let mut powers = [1i64; 19];
    let mut i = 1;
    while i < powers.len() {
        powers[i] = powers[i - 1] * 10;
        i += 1;
    }
    powers
};

/// Bits of a decimal below its sign and exponent.
pub(crate) const COEFFICIENT_BITS: u32 = 53;

/// What the coefficients of a column are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DecimalsWritten {
    /// Those of the numbers, whose exponents are the smallest one and a shift.
    Unscaled,
    /// Brought to the smallest exponent, with shifts.
    Scaled,
    /// Brought to the smallest exponent, of numbers with as few digits after the point as possible.
    Shortest,
}

/// How coefficients become decimals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DecimalForm {
    pub written: DecimalsWritten,
    /// The smallest exponent.
    pub exponent: i32,
}

/// Replaces up to 128 coefficients by the bits of the decimals with these shifts.
pub(crate) fn restore(header: DecimalForm, numbers: &mut [i64], shifts: &[i64]) -> Result<(), Flaw> {
    if restore_small(header, numbers, shifts) {
        return Ok(());
    }
    for (number, shift) in numbers.iter_mut().zip(shifts) {
        *number = restored(header, *number, *shift).ok_or(Flaw::Mismatch {
            what: "coefficient of a decimal",
            need: 9_999_999_999_999_999,
            have: number.unsigned_abs(),
        })?;
    }
    Ok(())
}

/// Replaces numbers by the bits of the decimals. `false`: one of them has not the small form, or is none; all are what they were
/// then.
fn restore_small(header: DecimalForm, numbers: &mut [i64], shifts: &[i64]) -> bool {
    if let (Ok(numbers), Ok(shifts)) = (<&mut [i64; GROUP]>::try_from(&mut *numbers), shifts.try_into()) {
        return restore_group(header, numbers, shifts);
    }
    let (mut all, mut all_shifts) = ([0; GROUP], [shifts.first().copied().unwrap_or(0); GROUP]);
    all[..numbers.len()].copy_from_slice(numbers);
    all_shifts[..shifts.len()].copy_from_slice(shifts);
    let is_done = restore_group(header, &mut all, &all_shifts);
    numbers.copy_from_slice(&all[..numbers.len()]);
    is_done
}

/// [`restore_small`] of 128: loops of known length.
fn restore_group(header: DecimalForm, numbers: &mut [i64; GROUP], shifts: &[i64; GROUP]) -> bool {
    let mut magnitudes = [0; GROUP];
    for (magnitude, number) in magnitudes.iter_mut().zip(&*numbers) {
        *magnitude = number.unsigned_abs();
    }
    match header.written {
        DecimalsWritten::Unscaled => join(header.exponent, &magnitudes, shifts, numbers),
        DecimalsWritten::Scaled => {
            divide(&mut magnitudes, shifts) && join(header.exponent, &magnitudes, shifts, numbers)
        }
        DecimalsWritten::Shortest => {
            let mut zeros = [0; GROUP];
            shorten(&mut magnitudes, &mut zeros, i64::from(-header.exponent).clamp(0, SHIFT_MAX));
            join(header.exponent, &magnitudes, &zeros, numbers)
        }
    }
}

/// Divides each magnitude by ten to the power of its shift; `false` if one is no multiple, or a shift is too large.
fn divide(magnitudes: &mut [u64], shifts: &[i64]) -> bool {
    let Some(first) = shifts.first() else { return true };
    let differing = shifts.iter().fold(0, |bits, shift| bits | (shift ^ first));
    if differing == 0 {
        let Some(tens) = Tens::by_shift(*first).copied() else { return false };
        return widest(
            #[inline(always)]
            move || {
                let mut is_whole = true;
                for magnitude in magnitudes {
                    *magnitude = tens.quotient_or_more(*magnitude);
                    is_whole &= tens.is_quotient(*magnitude);
                }
                is_whole
            },
        );
    }
    let mut is_whole = true;
    for (magnitude, shift) in magnitudes.iter_mut().zip(shifts) {
        let Some(tens) = Tens::by_shift(*shift) else { return false };
        *magnitude = tens.quotient_or_more(*magnitude);
        is_whole &= tens.is_quotient(*magnitude);
    }
    is_whole
}

/// Divides each magnitude by ten as often as that is possible, at most `most` times: by the powers 16, 8, 4, 2 and 1 of ten in
/// turn, for each number of times is a sum of some of them.
fn shorten(magnitudes: &mut [u64], zeros: &mut [i64], most: i64) {
    for power in [16, 8, 4, 2, 1].into_iter().filter(|power| *power <= most) {
        let Some(tens) = Tens::by_shift(power).copied() else { return };
        let (last, magnitudes, zeros) = (most - power, &mut *magnitudes, &mut *zeros);
        widest(
            #[inline(always)]
            move || {
                for (magnitude, zeros) in magnitudes.iter_mut().zip(zeros) {
                    let quotient = tens.quotient_or_more(*magnitude);
                    let is_divided = tens.is_quotient(quotient) & (*zeros <= last);
                    *magnitude = if is_divided { quotient } else { *magnitude };
                    *zeros += if is_divided { power } else { 0 };
                }
            },
        );
    }
}

/// The most that an exponent can be above the smallest.
const EXPONENT_RANGE: u64 = (EXPONENT_MAX - EXPONENT_MIN) as u64;

/// Replaces numbers by the bits that have their signs; `false`, and they are what they were, if one is not of the small form.
fn join(exponent: i32, magnitudes: &[u64; GROUP], zeros: &[i64; GROUP], numbers: &mut [i64; GROUP]) -> bool {
    const SIGN: u64 = 1 << 63;
    let lowest = i64::from(exponent - EXPONENT_MIN);
    let excess = widest(
        #[inline(always)]
        || {
            magnitudes.iter().zip(zeros).fold(0, |excess, (magnitude, zeros)| {
                let exponent = lowest.wrapping_add(*zeros) as u64;
                // One of them has bits that it should not have.
                excess
                    | magnitude >> COEFFICIENT_BITS
                    | (EXPONENT_RANGE.wrapping_sub(exponent) | exponent) & SIGN
            })
        },
    );
    if excess != 0 {
        return false;
    }
    widest(
        #[inline(always)]
        || {
            for (number, (magnitude, zeros)) in numbers.iter_mut().zip(magnitudes.iter().zip(zeros)) {
                let exponent = lowest.wrapping_add(*zeros) as u64;
                *number = (*number as u64 & SIGN | exponent << COEFFICIENT_BITS | magnitude) as i64;
            }
        },
    );
    true
}

/// Bits of the decimal with this coefficient and shift; `None`: there is none.
#[inline]
fn restored(header: DecimalForm, coefficient: i64, shift: i64) -> Option<i64> {
    let DecimalForm { written, exponent } = header;
    match written {
        DecimalsWritten::Unscaled => bits_of(coefficient, exponent.checked_add(i32::try_from(shift).ok()?)?),
        DecimalsWritten::Scaled => unscaled(coefficient, exponent, shift),
        DecimalsWritten::Shortest => shortened(coefficient, exponent),
    }
}

/// Bits of a decimal whose coefficient has been multiplied by 10 to the power of `shift`.
#[inline]
fn unscaled(coefficient: i64, exponent: i32, shift: i64) -> Option<i64> {
    let magnitude = Tens::by_shift(shift)?.quotient(coefficient.unsigned_abs())?;
    bits_of(signed(magnitude, coefficient), exponent + shift as i32)
}

/// Bits of a decimal with as few digits after the point as possible, which has been scaled to `exponent`.
#[inline]
fn shortened(coefficient: i64, exponent: i32) -> Option<i64> {
    let most = (-exponent).clamp(0, SHIFT_MAX as i32);
    if coefficient == 0 {
        return bits_of(0, exponent + most);
    }
    let (mut magnitude, mut zeros) = (coefficient.unsigned_abs(), 0);
    while zeros < most
        && let Some(quotient) = TENS[1].quotient(magnitude)
    {
        (magnitude, zeros) = (quotient, zeros + 1);
    }
    bits_of(signed(magnitude, coefficient), exponent + zeros)
}

/// The magnitude with the sign of `like`.
#[inline]
fn signed(magnitude: u64, like: i64) -> i64 {
    if like < 0 { (magnitude as i64).wrapping_neg() } else { magnitude as i64 }
}

/// Divides by a power of ten what can be divided by it, without a division: numbers that are multiples of an odd divisor
/// come back from a multiplication by its inverse modulo 2^64, others come out too large; twos are shifted out.
#[derive(Clone, Copy)]
struct Tens {
    inverse: u64,
    shift: u32,
    quotient_max: u64,
}

impl Tens {
    /// Of ten to the power of `shift`, if 64 bits hold it.
    #[inline]
    fn by_shift(shift: i64) -> Option<&'static Self> {
        TENS.get(usize::try_from(shift).ok()?)
    }

    /// `None` if there is a remainder.
    #[inline]
    fn quotient(&self, number: u64) -> Option<u64> {
        let quotient = self.quotient_or_more(number);
        self.is_quotient(quotient).then_some(quotient)
    }

    /// The quotient, or where there is a remainder, a number that [is none](Self::is_quotient).
    #[inline(always)]
    fn quotient_or_more(&self, number: u64) -> u64 {
        number.wrapping_mul(self.inverse).rotate_right(self.shift)
    }

    /// Whether there was no remainder.
    #[inline(always)]
    fn is_quotient(&self, quotient: u64) -> bool {
        quotient <= self.quotient_max
    }
}

/// By exponent.
static TENS: [Tens; POWERS.len()] = {
    /// The inverse of five.
    const FIFTH: u64 = 0xcccc_cccc_cccc_cccd;
    let mut tens = [Tens { inverse: 1, shift: 0, quotient_max: u64::MAX }; POWERS.len()];
    let mut i = 1;
    while i < tens.len() {
        tens[i] = Tens {
            inverse: tens[i - 1].inverse.wrapping_mul(FIFTH),
            shift: i as u32,
            quotient_max: u64::MAX / POWERS[i] as u64,
        };
        i += 1;
    }
    tens
};

/// Bits of the decimal of exactly this coefficient and exponent.
#[inline]
pub(crate) fn bits_of(coefficient: i64, exponent: i32) -> Option<i64> {
    let magnitude = coefficient.unsigned_abs();
    if magnitude < 1 << 53 && (EXPONENT_MIN..=EXPONENT_MAX).contains(&exponent) {
        let sign = coefficient as u64 & 1 << 63;
        return Some((sign | ((exponent - EXPONENT_MIN) as u64) << 53 | magnitude) as i64);
    }
    let value = Decimal64::from_parts(coefficient, exponent).ok()?;
    (value.parts() == Some((coefficient, exponent))).then_some(value.to_bits() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::at_every_level;

    #[test]
    fn only_multiples_are_divided() {
        for (tens, power) in TENS.iter().zip(POWERS.map(|power| power as u64)) {
            for quotient in [0, 1, 7, 12_345, u64::MAX / power].into_iter().filter(|q| *q <= u64::MAX / power)
            {
                assert_eq!(tens.quotient(quotient * power), Some(quotient));
                assert!(power == 1 || quotient == 0 || tens.quotient(quotient * power - 1).is_none());
            }
        }
        assert_eq!(unscaled(i64::MIN, 0, 0), bits_of(i64::MIN, 0));
        assert_eq!(unscaled(-1_500, -3, 2), bits_of(-15, -1));
        assert_eq!((unscaled(1_550, -3, 2), unscaled(1, -3, 19), unscaled(1, -3, -1)), (None, None, None));
    }

    /// Many at once and one by one: the same decimals, or none.
    #[test]
    fn many_at_once_are_what_each_is() {
        let mut state = 7u64;
        let mut noise = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 11
        };
        at_every_level(|level| {
            for round in 0..3_000 {
                let written = [DecimalsWritten::Unscaled, DecimalsWritten::Scaled, DecimalsWritten::Shortest]
                    [round % 3];
                let exponent = [0, -2, -8, -18, -25, 3, -398, 369, 368][noise() as usize % 9];
                let (count, bits, kind) = (1 + noise() as usize % GROUP, 1 + noise() % 53, noise() % 8);
                let shift = noise() as i64 % 5;
                let shifts: Vec<i64> = (0..count)
                    .map(|_| match kind {
                        0..4 => shift,
                        4..7 => noise() as i64 % 4,
                        _ => [i64::MAX, i64::MIN, -1, 19, 18, 767, 768, 0][noise() as usize % 8],
                    })
                    .collect();
                let numbers: Vec<i64> = shifts
                    .iter()
                    .map(|shift| {
                        let digits = (noise() & ((1 << bits) - 1)) as i64;
                        let power = POWERS.get(*shift as usize).copied().unwrap_or(10);
                        match noise() % 64 {
                            0 if kind > 3 => {
                                [i64::MIN, i64::MAX, 1 << 53, (1 << 53) - 1][noise() as usize % 4]
                            }
                            other if written != DecimalsWritten::Unscaled && other > 3 => {
                                digits.wrapping_mul(power)
                            }
                            other => digits * [1, -1, 0][other as usize % 3],
                        }
                    })
                    .collect();
                let header = DecimalForm { written, exponent };
                let expected: Option<Vec<i64>> = numbers
                    .iter()
                    .zip(&shifts)
                    .map(|(number, shift)| restored(header, *number, *shift))
                    .collect();
                let mut found = numbers.clone();
                let done = restore(header, &mut found, &shifts);
                assert_eq!(done.ok().map(|()| found), expected, "{header:?} {numbers:?} {shifts:?} {level}");
            }
        });
    }
}
