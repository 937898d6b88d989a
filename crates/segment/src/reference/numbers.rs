//! How numbers are laid out: in groups of 128, or split.

use super::input::{Input, at_most, beyond, unzigzag};
use crate::damage::Flaw;

/// Numbers of a full group.
const GROUP: usize = 128;

/// The next `count` numbers in groups, as the section "Groups" of the page has them.
pub(super) fn groups(input: &mut Input, count: usize) -> Result<Vec<i64>, Flaw> {
    let flags = input.byte()?;
    let base_bytes = usize::from(flags & 0x0f);
    at_most("flags", 0x1f, flags.into())?;
    at_most("bytes of a base", 8, base_bytes as u64)?;
    let column_base = input.signed_varint()?;
    let lengths: Vec<usize> = (0..count).step_by(GROUP).map(|start| GROUP.min(count - start)).collect();
    let widths = limited(input, "width", lengths.len(), 64)?;
    let exceptions = match flags & 0x10 {
        0 => vec![0; lengths.len()],
        _ => limited(input, "exceptions of a group", lengths.len(), 128)?,
    };
    let mut bases = Vec::new();
    for _ in &lengths {
        bases.push(column_base.wrapping_add(input.number(base_bytes)? as i64));
    }
    let mut numbers = Vec::with_capacity(count);
    for ((length, width), base) in lengths.iter().zip(&widths).zip(&bases) {
        let residuals = if *length == GROUP { full(input, *width)? } else { short(input, *length, *width)? };
        numbers.extend(residuals.iter().map(|residual| base.wrapping_add(*residual as i64)));
    }
    for (group, count) in exceptions.iter().enumerate().filter(|(_, count)| **count > 0) {
        let bytes = usize::from(input.byte()?);
        if !(1..=8).contains(&bytes) {
            return Err(beyond("bytes of an exception", 8, bytes as u64));
        }
        let positions = limited(input, "position of an exception", *count, lengths[group] - 1)?;
        for position in positions {
            let distance = unzigzag(input.number(bytes)?);
            numbers[group * GROUP + position] = bases[group].wrapping_add(distance);
        }
    }
    Ok(numbers)
}

/// So many bytes, none of them above `most`.
fn limited(input: &mut Input, what: &'static str, count: usize, most: usize) -> Result<Vec<usize>, Flaw> {
    let bytes = input.take(count)?;
    bytes.iter().try_for_each(|byte| at_most(what, most as u64, (*byte).into()))?;
    Ok(bytes.iter().map(|byte| usize::from(*byte)).collect())
}

/// Residuals of a full group: of more than 32 bits, the low 32 bits of all, then the high ones.
fn full(input: &mut Input, width: usize) -> Result<Vec<u64>, Flaw> {
    if width <= 32 {
        return Ok(four_lanes(input.take(16 * width)?, width));
    }
    let low = four_lanes(input.take(512)?, 32);
    let high = four_lanes(input.take(16 * (width - 32))?, width - 32);
    Ok(low.iter().zip(high).map(|(low, high)| low | high << 32).collect())
}

/// Number `i` is in lane `i % 4`. A lane is a stream of bits in words of four bytes; the words of the lanes alternate.
fn four_lanes(payload: &[u8], width: usize) -> Vec<u64> {
    let lanes: [Vec<u8>; 4] = std::array::from_fn(|lane| {
        payload.chunks_exact(16).flat_map(|words| &words[4 * lane..4 * lane + 4]).copied().collect()
    });
    (0..GROUP).map(|i| bits(&lanes[i % 4], i / 4 * width, width)).collect()
}

/// Residuals of a shorter group: one stream of bits.
fn short(input: &mut Input, length: usize, width: usize) -> Result<Vec<u64>, Flaw> {
    let payload = input.take((length * width).div_ceil(8))?;
    Ok((0..length).map(|i| bits(payload, i * width, width)).collect())
}

/// The number of `width` bits, at most 64, from bit `at` on; low bits come first. Bits after the end are 0.
fn bits(bytes: &[u8], at: usize, width: usize) -> u64 {
    let nine = bytes.iter().skip(at / 8).take(9);
    let word = nine.rev().fold(0u128, |word, byte| word << 8 | u128::from(*byte));
    ((word >> (at % 8)) & ((1 << width) - 1)) as u64
}

/// All that is left: `count` split numbers.
pub(super) fn split(input: &mut Input, count: usize) -> Result<Vec<u64>, Flaw> {
    let widths = groups(input, count)?;
    let stream = input.rest();
    let (mut numbers, mut at) = (Vec::with_capacity(count), 0);
    for width in widths {
        at_most("bits of a number", 64, width as u64)?;
        numbers.push(match width as usize {
            0 => 0,
            width => 1 << (width - 1) | bits(stream, at, width - 1),
        });
        at += (width as usize).saturating_sub(1);
    }
    match (at.div_ceil(8), stream.len()) {
        (need, have) if need == have => Ok(numbers),
        (need, have) => Err(beyond("bytes of split numbers", need as u64, have as u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_taken_from_anywhere() {
        let bytes: Vec<u8> = (1..=40).map(|i: u8| i.wrapping_mul(37)).collect();
        let bit = |at: usize| u64::from(bytes[at / 8] >> (at % 8) & 1);
        for at in 0..100 {
            for width in 0..=64 {
                let expected = (0..width).fold(0, |number, i| number | bit(at + i) << i);
                assert_eq!(bits(&bytes, at, width), expected, "{width} bits from {at}");
            }
        }
    }
}
