//! Numbers of very different sizes: how many bits each has, and those bits.
//!
//! A group of 128 is as wide as its widest number, so where most are small and many are not, most bits are zeros. Here
//! each number takes its own bits and those for their count. The highest bit of a number is 1 and not stored.

use super::EncodingError;
use super::bytes::{Reader, bit_width, low_bits, read_le};
use super::groups::{GROUP, Packing};
use super::packed::{self, Packed, Scale};
use super::strip::Strip;

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
    let mut at = 0;
    // What is there already is overwritten.
    out.resize(count, 0);
    for (group, out) in out.chunks_mut(GROUP).enumerate() {
        widths.decode_group(group, &mut cursor, &mut as_is, &mut strip);
        let widths = widths_of(&strip, out.len()).map_err(|width| too_wide(offset, width))?;
        at = match widths.iter().all(|width| *width <= NEAR) {
            true => extract(&widths, at, out, |at| read_le(bytes, at / 8, 8) >> (at % 8), &value),
            false => extract(&widths, at, out, |at| word_at(bytes, at), &value),
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

/// Widths of a group of `length` numbers, then zeros; or the first one that is too large.
fn widths_of(strip: &Strip, length: usize) -> Result<[u8; GROUP], u64> {
    let mut widths = [0; GROUP];
    for (i, width) in widths[..length].iter_mut().enumerate() {
        *width = u8::try_from(strip.value(i)).unwrap_or(u8::MAX);
    }
    match widths.iter().position(|width| *width > 64) {
        Some(i) => Err(strip.value(i) as u64),
        None => Ok(widths),
    }
}

#[cold]
fn too_wide(offset: usize, width: u64) -> EncodingError {
    EncodingError::OutOfRange { what: "bits of a number", offset, value: width, max: 64 }
}

/// Replaces `out` by what `value` makes of the numbers of a group, whose bits begin at bit `at`, of words that `word` gives from a bit
/// on; returns where the bits end.
#[inline]
fn extract(
    widths: &[u8; GROUP],
    mut at: usize,
    out: &mut [i64],
    word: impl Fn(usize) -> u64,
    value: impl Fn(u64) -> i64,
) -> usize {
    for (out, width) in out.iter_mut().zip(widths) {
        let Split { kept, mask, highest } = SPLITS[usize::from(*width) % SPLITS.len()];
        *out = value(word(at) & mask | highest);
        at += kept;
    }
    at
}

/// 64 bits from bit `at` on; those after the end are 0.
fn word_at(bytes: &[u8], at: usize) -> u64 {
    let (byte, shift) = (at / 8, at % 8);
    // Shifted in two steps: by 64 bits at once is not defined.
    read_le(bytes, byte, 8) >> shift | read_le(bytes, byte + 8, 1) << (63 - shift) << 1
}

/// How a number of some width is split into the bits that are stored and the one that is not.
#[derive(Clone, Copy)]
struct Split {
    /// Bits that are stored, and all of them set.
    kept: usize,
    mask: u64,
    /// The bit that is not stored.
    highest: u64,
}

/// By width. No number has more than 64 bits; a power of two needs no check.
const SPLITS: [Split; 128] = {
    let mut splits = [Split { kept: 0, mask: 0, highest: 0 }; 128];
    let mut width = 1;
    while width <= 64 {
        let highest = 1 << (width - 1);
        splits[width] = Split { kept: width - 1, mask: highest - 1, highest };
        width += 1;
    }
    splits
};
