//! Numbers of very different sizes: how many bits each has, and those bits.
//!
//! A group of 128 is as wide as its widest number, so where most are small and many are not, most bits are zeros. Here
//! each number takes its own bits and those that tell how many. The highest bit of a number is 1 and not kept.

use super::EncodingError;
use super::bytes::{Reader, bit_width, in_range, low_bits, read_le};
use super::groups::{GROUP, Plan};
use super::packed::{self, Packed};

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
        bytes += Plan::of(widths).cost + 2 + bits / 8;
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
    Packed::read(reader, count)?.decode(out);
    let (mut widest, mut total) = (0, 0u64);
    for width in out.iter() {
        widest = widest.max(*width as u64);
        total = total.wrapping_add((*width as u64).saturating_sub(1));
    }
    // With widths beyond 64 the sum may have wrapped, so they come first.
    in_range("bits of a number", offset, widest, 64)?;
    let bytes = reader.take(total.div_ceil(8) as usize)?;
    reader.finish()?;
    let mut at = 0;
    for number in out.iter_mut() {
        let width = *number as usize;
        let kept = width.saturating_sub(1);
        let (byte, shift) = (at / 8, at % 8);
        let mut bits = read_le(bytes, byte, 8) >> shift;
        if kept > 56 {
            // Shifted in two steps: by 64 bits at once is not defined.
            bits |= read_le(bytes, byte + 8, 1) << (63 - shift) << 1;
        }
        let highest = u64::from(width > 0) << kept;
        *number = value(bits & low_bits(kept) | highest);
        at += kept;
    }
    Ok(())
}
