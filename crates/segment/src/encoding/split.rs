//! Numbers of very different sizes: how many bits each has, and those bits.
//!
//! A group of 128 is as wide as its widest number, so where most are small and many are not, most bits are zeros. Here
//! each number takes its own bits and those for their count. The highest bit of a number is 1 and not stored.

use super::EncodingError;
use super::bytes::{Reader, bit_width, low_bits, read_le};
use super::groups::{GROUP, Packing};
use super::packed::{self, Packed, Scale};
use super::strip::Strip;
use crate::simd::widest;

/// About the bytes that [`encode`] writes for `numbers`, from every `step`-th group.
pub(super) fn estimate(numbers: impl Fn(usize) -> u64, count: usize, step: usize) -> usize {
    let (mut bytes, mut groups) = (0, 0);
    for start in (0..count).step_by(GROUP * step) {
        let mut widths = [0; GROUP];
        let widths = &mut widths[..GROUP.min(count - start)];
        let mut bits = 0;
        for (i, width) in widths.iter_mut().enumerate() {
            *width = bit_width(numbers(start + i)) as i64;
            bits += width.saturating_sub(1).max(0) as usize;
        }
        bytes += Packing::of(widths).cost + 2 + bits / 8;
        groups += 1;
    }
    bytes * count.div_ceil(GROUP) / groups.max(1) + 3
}

/// Appends numbers.
pub(super) fn encode(numbers: impl Iterator<Item = u64>, out: &mut Vec<u8>) {
    let mut widths = Vec::new();
    let (mut bytes, mut held, mut bits) = (Vec::new(), 0u128, 0);
    for number in numbers {
        let width = bit_width(number);
        widths.push(width as i64);
        let kept = width.saturating_sub(1);
        held |= u128::from(number & low_bits(kept)) << bits;
        bits += kept;
        if bits >= 64 {
            bytes.extend_from_slice(&(held as u64).to_le_bytes());
            held >>= 64;
            bits -= 64;
        }
    }
    bytes.extend_from_slice(&(held as u64).to_le_bytes()[..bits.div_ceil(8)]);
    packed::encode(&widths, out);
    out.extend(bytes);
}

/// Replaces `out` by what `value` makes of the `count` numbers.
pub(super) fn decode(
    reader: &mut Reader,
    count: usize,
    out: &mut Vec<i64>,
    value: impl Fn(u64) -> i64,
) -> Result<(), EncodingError> {
    let offset = reader.offset();
    let widths = Packed::read(reader, count)?;
    let start = reader.offset();
    let bytes = reader.rest();
    let (mut cursor, mut strip, mut as_is) = (widths.cursor_at(0), Strip::default(), Scale::NONE);
    let (mut at, mut window) = (0, [0; WINDOW + 8]);
    // What is there already is overwritten.
    out.resize(count, 0);
    for (group, out) in out.chunks_mut(GROUP).enumerate() {
        widths.decode_group(group, &mut cursor, &mut as_is, &mut strip);
        let (widths, most) = widths_of(&strip, out.len());
        at = if most <= NEAR {
            extract(&widths, (bytes, at), &mut window, out, &value)
        } else if most <= 64 {
            extract_wide(&widths, (bytes, at), out, &value)
        } else {
            return Err(too_wide(offset, &strip, out.len()));
        };
    }
    let need = at.div_ceil(8);
    match bytes.len() {
        have if have < need => Err(EncodingError::Truncated { offset: start, need, have }),
        have if have > need => Err(EncodingError::Trailing { offset: start + need, have: have - need }),
        _ => Ok(()),
    }
}

/// The widest number whose stored bits lie within eight bytes wherever they begin.
const NEAR: u8 = 58;

/// A power of two that is more than the bytes of a group's stored bits, if no number is wider than [`NEAR`].
const WINDOW: usize = 1024;

/// Widths of a group of `length` numbers, then zeros; and the largest, or one that is too large.
fn widths_of(strip: &Strip, length: usize) -> ([u8; GROUP], u8) {
    let mut widths = [0; GROUP];
    if let Some(offsets) = strip.small_offsets().filter(|_| length == GROUP) {
        let base = strip.base as u32;
        let most = widest(
            #[inline(always)]
            || {
                let wide = widths.iter_mut().zip(offsets);
                wide.fold(0, |most, (width, offset)| {
                    let found = base.wrapping_add(*offset).min(u8::MAX.into()) as u8;
                    *width = found;
                    found.max(most)
                })
            },
        );
        return (widths, most);
    }
    for (i, width) in widths[..length].iter_mut().enumerate() {
        *width = u8::try_from(strip.value(i)).unwrap_or(u8::MAX);
    }
    (widths, widths.iter().copied().max().unwrap_or(0))
}

/// Replaces `out` by what `value` makes of the numbers of a group, none of them wider than [`NEAR`], whose bits begin at bit `at` of
/// `bytes`; returns where they end. `window` is memory: with the group's bytes in it, eight can be read wherever a number begins.
#[inline(always)]
fn extract(
    widths: &[u8; GROUP],
    (bytes, at): (&[u8], usize),
    window: &mut [u8; WINDOW + 8],
    out: &mut [i64],
    value: impl Fn(u64) -> i64,
) -> usize {
    // Loops instead of `map`, which is called for each number where it is not inlined.
    let mut kept = [0; GROUP];
    let mut bits = 0u32;
    for (kept, width) in kept.iter_mut().zip(widths) {
        *kept = width.saturating_sub(1);
        bits += u32::from(*kept);
    }
    let bits = at % 8 + bits as usize;
    let rest = bytes.get(at / 8..).unwrap_or_default();
    // Bytes that are missing are reported when all groups have been read.
    let here = &rest[..rest.len().min(bits.div_ceil(8))];
    window[..here.len()].copy_from_slice(here);
    widest(
        #[inline(always)]
        || {
            let (mut words, mut at) = ([0; GROUP], at % 8);
            for (word, kept) in words.iter_mut().zip(&kept) {
                let eight = window[at / 8 % WINDOW..].first_chunk().copied().unwrap_or_default();
                *word = u64::from_le_bytes(eight) >> (at % 8);
                at += usize::from(*kept);
            }
            for ((out, word), width) in out.iter_mut().zip(&words).zip(widths) {
                // The bit that is not stored.
                let highest = 1 << width >> 1;
                *out = value(word & u64::saturating_sub(highest, 1) | highest);
            }
        },
    );
    at - at % 8 + bits
}

/// [`extract`] of numbers of any width.
fn extract_wide(
    widths: &[u8; GROUP],
    (bytes, mut at): (&[u8], usize),
    out: &mut [i64],
    value: impl Fn(u64) -> i64,
) -> usize {
    for (out, width) in out.iter_mut().zip(widths) {
        let kept = usize::from(width.saturating_sub(1));
        let highest = if *width == 0 { 0 } else { 1 << kept };
        *out = value(word_at(bytes, at) & u64::saturating_sub(highest, 1) | highest);
        at += kept;
    }
    at
}

#[cold]
fn too_wide(offset: usize, strip: &Strip, length: usize) -> EncodingError {
    let mut widths = (0..length).map(|i| strip.value(i) as u64);
    let value = widths.find(|width| *width > 64).unwrap_or(u64::MAX);
    EncodingError::OutOfRange { what: "bits of a number", offset, value, max: 64 }
}

/// 64 bits from bit `at` on; those after the end are 0.
fn word_at(bytes: &[u8], at: usize) -> u64 {
    let (byte, shift) = (at / 8, at % 8);
    // Shifted in two steps: by 64 bits at once is not defined.
    read_le(bytes, byte, 8) >> shift | read_le(bytes, byte + 8, 1) << (63 - shift) << 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::at_every_level;
    use proptest::prelude::*;

    fn decoded(bytes: &[u8], count: usize) -> Result<Vec<i64>, EncodingError> {
        // What is in the memory is overwritten.
        let mut out = vec![-1; 77];
        decode(
            &mut Reader::new(bytes),
            count,
            &mut out,
            #[inline(always)]
            |number| number as i64,
        )?;
        Ok(out)
    }

    proptest! {
        #[test]
        fn numbers_of_any_size_come_back(
            pieces in prop::collection::vec((any::<u64>(), 0u32..=64, 1usize..200), 0..8),
            is_near in any::<bool>(),
        ) {
            let number = |(first, most, i): (u64, u32, usize)| {
                let mixed = first.wrapping_mul(2 * i as u64 + 1).rotate_left(i as u32);
                let most = if is_near { most.min(NEAR.into()) } else { most };
                mixed.checked_shr(64 - (i as u32 * 7 + most) % (most + 1)).unwrap_or(0)
            };
            let numbers = pieces.iter().flat_map(|(first, most, length)| {
                (0..*length).map(|i| number((*first, *most, i)))
            });
            let numbers: Vec<u64> = numbers.collect();
            let expected: Vec<i64> = numbers.iter().map(|number| *number as i64).collect();
            let mut bytes = Vec::new();
            encode(numbers.iter().copied(), &mut bytes);
            at_every_level(|level| {
                assert_eq!(decoded(&bytes, numbers.len()).unwrap(), expected, "{level}");
                if numbers.iter().any(|number| *number > 1) {
                    let cut = decoded(&bytes[..bytes.len() - 1], numbers.len());
                    assert!(matches!(cut, Err(EncodingError::Truncated { .. })), "{level}, {cut:?}");
                }
                let longer = [&bytes[..], &[0]].concat();
                let longer = decoded(&longer, numbers.len());
                assert!(matches!(longer, Err(EncodingError::Trailing { .. })), "{level}, {longer:?}");
            });
        }
    }

    #[test]
    fn numbers_of_more_bits_than_there_are_are_refused() {
        for wrong in [65, 127, 128, 255, 256, 1 << 40, -1] {
            for count in [5, GROUP] {
                let mut widths = vec![3; count];
                widths[4] = wrong;
                let mut bytes = Vec::new();
                packed::encode(&widths, &mut bytes);
                bytes.extend([0; 1024]);
                let error = decoded(&bytes, count).unwrap_err();
                let EncodingError::OutOfRange { value, max, .. } = error else { panic!("{error}") };
                assert_eq!((value, max), (wrong as u64, 64));
            }
        }
    }
}
