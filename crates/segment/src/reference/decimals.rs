//! Columns of `decimal64` whose exponents or signs differ.

use super::column::integer_pieces;
use super::input::{Input, at_most, beyond};
use crate::damage::Flaw;

/// Coefficients are scaled: each times 10 to the power of its shift.
const SCALED: u8 = 1;
/// Numbers are as short as possible: shifts follow from the coefficients.
const SHORTEST: u8 = 2;
/// Shifts are there.
const SHIFTS: u8 = 4;

const COEFFICIENT_MAX: u64 = 9_999_999_999_999_999;
/// What is added to an exponent, and the largest sum.
const BIAS: i128 = 398;
const BIASED_MAX: i128 = 767;
/// The largest shift of a scaled coefficient.
const SHIFT_MAX: i128 = 18;

/// The bits of `count` decimals.
pub(super) fn decimals(bytes: &[u8], count: usize, ends: &[u32]) -> Result<Vec<i64>, Flaw> {
    let mut input = Input::new(bytes);
    let flags = input.byte()?;
    let exponent = i128::from(input.number(2)? as i16);
    let exceptions = input.number(4)? as usize;
    let mut exceptions = Input::new(input.take(exceptions.saturating_mul(12))?);
    let length = input.number(4)? as usize;
    let shifts = input.take(length)?;
    let coefficients = integer_pieces(input.rest(), count, ends)?;
    const ALL_SHIFTED: u8 = SCALED | SHIFTS;
    const ALL_SHORTEST: u8 = SCALED | SHORTEST;
    let shifts = match flags {
        0 | ALL_SHORTEST if shifts.is_empty() => vec![0; count],
        SHIFTS | ALL_SHIFTED => integer_pieces(shifts, count, ends)?,
        flags => return Err(beyond("flags of decimals", 5, flags.into())),
    };
    let mut values = Vec::with_capacity(count);
    for (coefficient, shift) in coefficients.into_iter().zip(shifts) {
        let (coefficient, mut shift) = (i128::from(coefficient), i128::from(shift));
        if flags & SHORTEST != 0 {
            shift = zeros(coefficient, (-exponent).clamp(0, SHIFT_MAX));
        }
        let own = if flags & SCALED != 0 { unscaled(coefficient, shift)? } else { coefficient };
        values.push(bits_of(own, exponent + shift)?);
    }
    while let Ok(row) = exceptions.number(4) {
        let value = values.get_mut(row as usize);
        *value.ok_or(beyond("row of a decimal", count as u64, row))? = exceptions.number(8)? as i64;
    }
    Ok(values)
}

/// How often a coefficient can be divided by 10, at most `most` times; 0 can be that often.
fn zeros(coefficient: i128, most: i128) -> i128 {
    let divides = |power: &i128| coefficient % 10i128.pow(*power as u32) == 0;
    (0..=most).rev().find(divides).unwrap_or(0)
}

/// The coefficient that was multiplied by 10 to the power of `shift`.
fn unscaled(coefficient: i128, shift: i128) -> Result<i128, Flaw> {
    if !(0..=SHIFT_MAX).contains(&shift) {
        return Err(beyond("shift of a decimal", SHIFT_MAX as u64, shift as u64));
    }
    let power = 10i128.pow(shift as u32);
    match coefficient % power {
        0 => Ok(coefficient / power),
        _ => Err(beyond("coefficient of a decimal", COEFFICIENT_MAX, coefficient.unsigned_abs() as u64)),
    }
}

/// The bits of a decimal, as `docs/format/message.md` has them.
fn bits_of(coefficient: i128, exponent: i128) -> Result<i64, Flaw> {
    let (magnitude, biased) = (coefficient.unsigned_abs() as u64, exponent + BIAS);
    at_most("coefficient of a decimal", COEFFICIENT_MAX, magnitude)?;
    if !(0..=BIASED_MAX).contains(&biased) {
        return Err(beyond("exponent of a decimal", BIASED_MAX as u64, biased as u64));
    }
    let sign = u64::from(coefficient < 0) << 63;
    let bits = match magnitude >> 53 {
        0 => (biased as u64) << 53 | magnitude,
        _ => 0b11 << 61 | (biased as u64) << 51 | (magnitude - (1 << 53)),
    };
    Ok((sign | bits) as i64)
}
