//! How a group of up to 128 integers is laid out: one base, one width, and exceptions where a few values would make all
//! the others wide.

use bitpacking::{BitPacker, BitPacker4x};

use super::bytes::{bit_width, byte_width, read_le, zigzag};

/// Values of a full group.
pub(super) const GROUP: usize = BitPacker4x::BLOCK_LEN;

/// Widest residual that the 32-bit packer takes.
const NARROW: u8 = 32;

/// What an exception costs besides its bytes, in bytes: groups with exceptions decode slower.
const EXCEPTION_CHARGE: usize = 1;

/// A fifth of the group: with more exceptions than that, a wider group is as small and faster.
const EXCEPTIONS_MAX: usize = GROUP / 5;

/// Base and width of a group. A value is an exception when it is below `base` or at least `base + 2^width`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) base: i64,
    pub(super) width: u8,
    /// Bytes of values and exceptions.
    pub(super) cost: usize,
}

impl Plan {
    /// The cheapest plan for `values`, 1 to 128 of them.
    pub(super) fn of(values: &[i64]) -> Self {
        let (min, max) = bounds(values);
        let whole = Self::without_exceptions(values.len(), min, max);
        if whole.width < 2 || values.len() < GROUP / 4 { whole } else { whole.or_with_exceptions(values) }
    }

    fn without_exceptions(count: usize, min: i64, max: i64) -> Self {
        let width = bit_width(max.wrapping_sub(min) as u64) as u8;
        Self { base: min, width, cost: payload_size(count, width) }
    }

    /// Tries narrower windows over the sorted values, each where it holds the most of them.
    fn or_with_exceptions(self, values: &[i64]) -> Self {
        let mut buffer = [0; GROUP];
        let sorted = &mut buffer[..values.len()];
        sorted.copy_from_slice(values);
        sorted.sort_unstable();
        let mut best = self;
        for width in (0..self.width).rev() {
            let window = fullest_window(sorted, width);
            let exceptions = sorted.len() - window.len();
            if exceptions > EXCEPTIONS_MAX {
                break;
            }
            let base = sorted[window.start];
            let size = exception_width(sorted[0], base).max(exception_width(sorted[sorted.len() - 1], base));
            let cost = payload_size(sorted.len(), width) + 1 + exceptions * (1 + size + EXCEPTION_CHARGE);
            if cost < best.cost {
                best = Self { base, width, cost };
            }
        }
        best
    }

    /// What is packed for `value`: its distance from the base, or `None` for an exception.
    pub(super) fn residual(&self, value: i64) -> Option<u64> {
        let residual = value.wrapping_sub(self.base) as u64;
        (bit_width(residual) <= usize::from(self.width)).then_some(residual)
    }
}

/// Bytes that an exception of `value` needs.
pub(super) fn exception_width(value: i64, base: i64) -> usize {
    byte_width(zigzag(value.wrapping_sub(base))).max(1)
}

/// Bytes that `count` values of `width` bits take.
pub(super) fn payload_size(count: usize, width: u8) -> usize {
    (count * usize::from(width)).div_ceil(8)
}

fn bounds(values: &[i64]) -> (i64, i64) {
    values.iter().fold((i64::MAX, i64::MIN), |(min, max), &value| (min.min(value), max.max(value)))
}

fn fullest_window(sorted: &[i64], width: u8) -> std::ops::Range<usize> {
    let mut best = 0..0;
    let mut end = 0;
    for start in 0..sorted.len() {
        let fits = |value: i64| value.wrapping_sub(sorted[start]) as u64 >> width == 0;
        while end < sorted.len() && fits(sorted[end]) {
            end += 1;
        }
        if end - start > best.len() {
            best = start..end;
        }
    }
    best
}

/// Appends `residuals`, each of at most `width` bits.
pub(super) fn pack(residuals: &[u64], width: u8, out: &mut Vec<u8>) {
    match <&[u64; GROUP]>::try_from(residuals) {
        Ok(full) => pack_full(full, width, out),
        Err(_) => pack_tail(residuals, width, out),
    }
}

fn pack_full(residuals: &[u64; GROUP], width: u8, out: &mut Vec<u8>) {
    pack_words(&residuals.map(|residual| residual as u32), width.min(NARROW), out);
    if width > NARROW {
        pack_words(&residuals.map(|residual| (residual >> NARROW) as u32), width - NARROW, out);
    }
}

fn pack_words(words: &[u32; GROUP], width: u8, out: &mut Vec<u8>) {
    let mut packed = [0; 4 * GROUP];
    let size = BitPacker4x::new().compress(words, &mut packed, width);
    out.extend_from_slice(&packed[..size]);
}

fn pack_tail(residuals: &[u64], width: u8, out: &mut Vec<u8>) {
    let (mut bits, mut held) = (0u128, 0);
    for &residual in residuals {
        bits |= u128::from(residual) << held;
        held += u32::from(width);
        while held >= 8 {
            out.push(bits as u8);
            bits >>= 8;
            held -= 8;
        }
    }
    if held > 0 {
        out.push(bits as u8);
    }
}

/// Unpacks a full group of at most 32 bits.
pub(super) fn unpack_narrow(payload: &[u8], width: u8, out: &mut [u32; GROUP]) {
    BitPacker4x::new().decompress(payload, out, width);
}

/// Unpacks a group of any width and length.
pub(super) fn unpack_wide(payload: &[u8], width: u8, out: &mut [u64]) {
    if out.len() < GROUP {
        return unpack_tail(payload, width, out);
    }
    let (low, high) = payload.split_at(payload_size(GROUP, width.min(NARROW)));
    let mut words = [0; GROUP];
    unpack_narrow(low, width.min(NARROW), &mut words);
    for (value, word) in out.iter_mut().zip(words) {
        *value = u64::from(word);
    }
    if width > NARROW {
        unpack_narrow(high, width - NARROW, &mut words);
        for (value, word) in out.iter_mut().zip(words) {
            *value |= u64::from(word) << NARROW;
        }
    }
}

fn unpack_tail(payload: &[u8], width: u8, out: &mut [u64]) {
    let width = usize::from(width);
    let mask = u64::MAX.checked_shr(64 - width as u32).unwrap_or(0);
    for (i, value) in out.iter_mut().enumerate() {
        let (byte, shift) = (i * width / 8, i * width % 8);
        let end = (byte + 9).min(payload.len());
        let bytes = &payload[byte.min(end)..end];
        let low = read_le(&bytes[..bytes.len().min(8)]) >> shift;
        let high = bytes.get(8).map_or(0, |&high| u128::from(high) << (64 - shift));
        *value = (low | high as u64) & mask;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn outliers_on_both_sides_become_exceptions() {
        let mut values: Vec<i64> = (0..128).map(|i| 1_000 + i % 4).collect();
        (values[7], values[90]) = (-1_000_000, 1_000_000);
        let plan = Plan::of(&values);
        assert_eq!((plan.base, plan.width), (1_000, 2));
        assert_eq!(values.iter().filter(|&&value| plan.residual(value).is_none()).count(), 2);
    }

    #[test]
    fn equal_values_cost_nothing() {
        assert_eq!(Plan::of(&[-5; GROUP]), Plan { base: -5, width: 0, cost: 0 });
    }

    #[test]
    fn the_whole_range_of_64_bits_fits() {
        let plan = Plan::of(&[i64::MIN, i64::MAX]);
        assert_eq!((plan.width, plan.residual(i64::MAX)), (64, Some(u64::MAX)));
    }

    proptest! {
        #[test]
        fn every_width_and_length_comes_back(width in 0u8..=64, values in prop::collection::vec(any::<u64>(), 1..=128)) {
            let mask = u64::MAX.checked_shr(64 - u32::from(width)).unwrap_or(0);
            for count in [values.len(), GROUP] {
                let residuals: Vec<u64> = (0..count).map(|i| values[i % values.len()] & mask).collect();
                let mut payload = Vec::new();
                pack(&residuals, width, &mut payload);
                prop_assert_eq!(payload.len(), payload_size(count, width));
                let mut out = vec![0; count];
                unpack_wide(&payload, width, &mut out);
                prop_assert_eq!(out, residuals);
            }
        }
    }
}
