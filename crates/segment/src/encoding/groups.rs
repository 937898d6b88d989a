//! How a group of up to 128 integers is laid out: one base, one width, and exceptions where a few values would make all
//! the others wide.

use bitpacking::{BitPacker, BitPacker4x};

use super::bytes::{bit_width, byte_width, low_bits, read_le, zigzag};
use crate::simd::widest;

/// Values of a full group.
pub(crate) const GROUP: usize = BitPacker4x::BLOCK_LEN;

/// Widest residual that the 32-bit packer takes.
const NARROW: u8 = 32;

/// What an exception costs besides its bytes, in bytes: groups with exceptions decode slower.
const EXCEPTION_CHARGE: usize = 1;

/// A fifth of the group: with more exceptions than that, a wider group is as small and faster.
const EXCEPTIONS_MAX: usize = GROUP / 5;

/// With more exceptions than that, of three bytes at least, a group does not get smaller by so many bits a value.
const fn outside_max(bits: usize) -> usize {
    (GROUP / 8 * bits - 1) / 3
}

/// The search for a narrower window divides the range into this many equal parts, a power of two, and counts.
const PARTS: usize = 64;
const PARTS_BITS: usize = 6;

/// Base and width of a group. A value is an exception when it is below `base` or at least `base + 2^width`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packing {
    pub(super) base: i64,
    pub(super) width: u8,
    /// Values that are exceptions.
    pub(super) exceptions: u8,
    /// Bytes of values and exceptions.
    pub(super) cost: usize,
}

impl Packing {
    /// The cheapest plan for `values`, 1 to 128 of them.
    pub(super) fn of(values: &[i64]) -> Self {
        let (min, max) = bounds(values);
        let whole = Self::without_exceptions(values.len(), min, max);
        if whole.width < 2 || values.len() < GROUP / 4 || whole.is_even(values) {
            whole
        } else {
            whole.or_with_exceptions(values, min, max)
        }
    }

    /// Whether the values of a full group are spread so evenly over its range that exceptions cannot pay. Most groups of
    /// random values are, and this test costs a fraction of the search.
    ///
    /// Of the range's quarters, a window of half its length misses the first or the last one wholly, and a window of a quarter
    /// all but two neighbours; of its eighths, a shorter window all but two neighbours.
    fn is_even(&self, values: &[i64]) -> bool {
        let Ok(values) = <&[i64; GROUP]>::try_from(values) else { return false };
        if self.width < 3 || self.width > 31 {
            return false;
        }
        let (base, shift) = (self.base, self.width - 3);
        let below: [usize; 7] = widest(
            #[inline(always)]
            || {
                let eighths = values.map(|value| (value.wrapping_sub(base) as u32 >> shift) as u8);
                // At most 128 fit a byte, and so many more are compared at once.
                std::array::from_fn(|i| {
                    usize::from(eighths.iter().map(|eighth| u8::from(*eighth <= i as u8)).sum::<u8>())
                })
            },
        );
        let ends = [0, below[0], below[1], below[2], below[3], below[4], below[5], below[6], GROUP];
        let missed = |from: usize, eighths: usize| GROUP - (ends[from + eighths] - ends[from]);
        let missed_by_quarter = missed(0, 4).min(missed(2, 4)).min(missed(4, 4));
        let missed_by_less = (0..7).map(|from| missed(from, 2)).min().unwrap_or(0);
        let (first, last) = (ends[2], GROUP - ends[6]);
        first.min(last) > outside_max(1)
            && missed_by_quarter > outside_max(2)
            && missed_by_less > EXCEPTIONS_MAX
    }

    fn without_exceptions(count: usize, min: i64, max: i64) -> Self {
        let width = range_width(min, max) as u8;
        Self { base: min, width, exceptions: 0, cost: payload_size(count, width) }
    }

    /// Tries narrower windows where most values lie. When they all lie in one part of the range, tries that part.
    fn or_with_exceptions(self, values: &[i64], min: i64, max: i64) -> Self {
        let mut best = self;
        let mut range = (min, max);
        loop {
            let histogram = Histogram::of(values, range);
            let (cheapest, is_in_one_part) = histogram.cheapest_window(values.len(), (min, max));
            let Some((cost, window)) = cheapest else { return best };
            let is_worth_it = cost < best.cost + EXCEPTIONS_MAX;
            if !is_worth_it && !is_in_one_part {
                return best;
            }
            let window = bounds_within(values, window);
            if is_worth_it {
                let plan = Self::with_exceptions(values, (min, max), window);
                best = if plan.cost < best.cost { plan } else { best };
            }
            if !is_in_one_part || window == range {
                return best;
            }
            range = window;
        }
    }

    /// The plan that makes exceptions of what is not in `window`.
    fn with_exceptions(values: &[i64], (min, max): (i64, i64), (low, high): (i64, i64)) -> Self {
        let width = range_width(low, high) as u8;
        let plan = Self { base: low, width, exceptions: 0, cost: 0 };
        let (base, over) = (plan.base, !low_bits(width.into()));
        let exceptions = widest(
            #[inline(always)]
            || values.iter().map(|value| u64::from(value.wrapping_sub(base) as u64 & over != 0)).sum::<u64>(),
        );
        let exceptions = exceptions as usize;
        let size = exception_width(min, low).max(exception_width(max, low));
        let cost = cost_with_exceptions(values.len(), width, exceptions, size);
        Self { exceptions: exceptions as u8, cost, ..plan }
    }

    /// What is packed for `value`: its distance from the base, or `None` for an exception.
    pub(super) fn residual(&self, value: i64) -> Option<u64> {
        let residual = value.wrapping_sub(self.base) as u64;
        (residual & !low_bits(self.width.into()) == 0).then_some(residual)
    }
}

fn cost_with_exceptions(count: usize, width: u8, exceptions: usize, size: usize) -> usize {
    payload_size(count, width) + 1 + exceptions * (1 + size + EXCEPTION_CHARGE)
}

/// Bytes that an exception of `value` needs.
pub(super) fn exception_width(value: i64, base: i64) -> usize {
    byte_width(zigzag(value.wrapping_sub(base))).max(1)
}

/// Bytes that `count` values of `width` bits take.
pub(super) fn payload_size(count: usize, width: u8) -> usize {
    (count * usize::from(width)).div_ceil(8)
}

/// Smallest and largest value.
pub(crate) fn bounds(values: &[i64]) -> (i64, i64) {
    widest(
        #[inline(always)]
        || values.iter().fold((i64::MAX, i64::MIN), |(min, max), value| (min.min(*value), max.max(*value))),
    )
}

/// Smallest and largest value of those that are in `window`.
fn bounds_within(values: &[i64], (low, high): (i64, i64)) -> (i64, i64) {
    widest(
        #[inline(always)]
        || {
            values.iter().fold((high, low), |(min, max), &value| {
                let is_outside = (value < low) | (value > high);
                (
                    min.min(if is_outside { high } else { value }),
                    max.max(if is_outside { low } else { value }),
                )
            })
        },
    )
}

fn range_width(min: i64, max: i64) -> usize {
    bit_width(max.wrapping_sub(min) as u64)
}

/// About the cost of a group with a window of values, and the first and last value of that window.
type CostedWindow = (usize, (i64, i64));

/// How many values lie in each part of a range.
struct Histogram {
    /// Values below the beginning of each part; those after the end of the range count as many as there are below it.
    below: [u8; 2 * PARTS],
    start: i64,
    end: i64,
    /// Bits of the width of a part.
    width: usize,
}

impl Histogram {
    fn of(values: &[i64], (start, end): (i64, i64)) -> Self {
        let width = range_width(start, end).saturating_sub(PARTS_BITS);
        // What is outside counts into the part behind the last one, which is cut off below.
        let mut parts = [PARTS as u8; GROUP];
        widest(
            #[inline(always)]
            || {
                for (part, value) in parts.iter_mut().zip(values) {
                    *part = (value.wrapping_sub(start) as u64 >> width).min(PARTS as u64) as u8;
                }
            },
        );
        // Several counters for each part: neighbours are often of one part, and would wait for each other.
        let mut counters = [[0u8; 2 * PARTS]; COUNTERS];
        for some in parts.as_chunks::<COUNTERS>().0 {
            for (counts, part) in counters.iter_mut().zip(some) {
                counts[usize::from(*part) % (2 * PARTS)] += 1;
            }
        }
        let mut below = [0; 2 * PARTS];
        let mut sum = 0u64;
        for (eight, below) in below[..PARTS].as_chunks_mut::<8>().0.iter_mut().enumerate() {
            // At most 128 values: eight sums fit a word side by side.
            let counts: u64 = counters.iter().map(|counts| word_at(counts, 8 * eight)).sum();
            let sums = counts.wrapping_mul(EACH_BYTE);
            *below = ((sums << 8).wrapping_add(sum.wrapping_mul(EACH_BYTE))).to_le_bytes();
            sum += sums >> 56;
        }
        below[PARTS..].fill(sum as u8);
        Self { below, start, end, width }
    }

    /// The window that makes the group cheapest, and about its cost, where not too many of `count` values are outside; and whether
    /// so many are in a single part, which can be divided again.
    fn cheapest_window(&self, count: usize, (min, max): (i64, i64)) -> (Option<CostedWindow>, bool) {
        let mut cheapest: Option<CostedWindow> = None;
        for width in (self.width..range_width(self.start, self.end)).rev() {
            // A narrower window has no fewer values outside.
            let Some((exceptions, window)) = self.fullest_window(width, count) else {
                return (cheapest, false);
            };
            let size = exception_width(min, window.0).max(exception_width(max, window.0));
            let cost = cost_with_exceptions(count, width as u8, exceptions, size);
            if cheapest.is_none_or(|(least, _)| cost < least) {
                cheapest = Some((cost, window));
            }
        }
        (cheapest, self.width > 0)
    }

    /// Exceptions, first and last value of the window of `width` bits that holds most values, unless too many of `count` are outside.
    fn fullest_window(&self, width: usize, count: usize) -> Option<(usize, (i64, i64))> {
        let parts = 1 << (width - self.width);
        let (starts, ends) =
            (self.below.first_chunk::<PARTS>()?, self.below[parts..].first_chunk::<PARTS>()?);
        // Windows that reach beyond the range hold no more than the last one that does not, which stands before them.
        let mut inside = [0u8; PARTS];
        for ((inside, end), start) in inside.iter_mut().zip(ends).zip(starts) {
            *inside = end.wrapping_sub(*start);
        }
        let fullest = inside.iter().copied().fold(0, u8::max);
        let exceptions = count - usize::from(fullest);
        if exceptions > EXCEPTIONS_MAX {
            return None;
        }
        // Without an exit from the loop many are compared at once.
        let place = |(first, inside): (u8, &u8)| if *inside == fullest { first } else { u8::MAX };
        let first = (0..).zip(&inside).map(place).fold(u8::MAX, u8::min);
        let low = self.start.wrapping_add((u64::from(first) << self.width) as i64);
        let high = low.wrapping_add(((1u64 << width) - 1) as i64);
        // The last parts may reach beyond the range, and beyond what an integer holds.
        Some((exceptions, (low, if high < low { self.end } else { high.min(self.end) })))
    }
}

/// Counters of a [`Histogram`] for each part.
const COUNTERS: usize = 4;
/// One in each byte.
const EACH_BYTE: u64 = 0x0101_0101_0101_0101;

fn word_at(bytes: &[u8; 2 * PARTS], at: usize) -> u64 {
    bytes[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word))
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

pub(super) fn pack_words(words: &[u32; GROUP], width: u8, out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + payload_size(GROUP, width), 0);
    BitPacker4x::new().compress(words, &mut out[start..], width);
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

/// Unpacks a full group of at most 32 bits, and makes each number the sum of those up to it.
pub(super) fn unpack_sums(payload: &[u8], width: u8, out: &mut [u32; GROUP]) {
    BitPacker4x::new().decompress_sorted(0, payload, out, width);
}

/// Unpacks a group of any width and length, and adds `base`.
pub(super) fn unpack_any(payload: &[u8], width: u8, base: i64, words: &mut [u32; GROUP], out: &mut [i64]) {
    if out.len() < GROUP {
        return unpack_tail(payload, width, base, out);
    }
    let (low, high) = payload.split_at(payload_size(GROUP, width.min(NARROW)));
    unpack_narrow(low, width.min(NARROW), words);
    for (value, &word) in out.iter_mut().zip(&*words) {
        *value = base.wrapping_add(i64::from(word));
    }
    if width > NARROW {
        unpack_narrow(high, width - NARROW, words);
        for (value, &word) in out.iter_mut().zip(&*words) {
            *value = value.wrapping_add((u64::from(word) << NARROW) as i64);
        }
    }
}

fn unpack_tail(payload: &[u8], width: u8, base: i64, out: &mut [i64]) {
    let width = usize::from(width);
    for (i, value) in out.iter_mut().enumerate() {
        let (byte, shift) = (i * width / 8, i * width % 8);
        let low = read_le(payload, byte, 8) >> shift;
        // Shifted in two steps: by 64 bits at once is not defined.
        let high = read_le(payload, byte + 8, 1) << (63 - shift) << 1;
        *value = base.wrapping_add(((low | high) & low_bits(width)) as i64);
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
        let plan = Packing::of(&values);
        assert_eq!((plan.base, plan.width), (1_000, 2));
        assert_eq!(values.iter().filter(|&&value| plan.residual(value).is_none()).count(), 2);
    }

    #[test]
    fn exceptions_never_pay_where_values_are_even() {
        let mut random = 1u64;
        let mut next = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) as i64
        };
        let mut even = 0;
        for round in 0..3_000 {
            // Sums of more and more numbers, and outliers: from a flat distribution to a steep one.
            let (terms, outliers, range) = (1 + round % 5, round / 5 % 6, 8 << (round % 20));
            let mut values: Vec<i64> = (0..GROUP).map(|_| (0..terms).map(|_| next() % range).sum()).collect();
            (0..outliers).for_each(|_| values[(next() % 128) as usize] *= 1 + next() % 9);
            let (min, max) = bounds(&values);
            let whole = Packing::without_exceptions(GROUP, min, max);
            if whole.is_even(&values) {
                even += 1;
                assert_eq!(whole.or_with_exceptions(&values, min, max), whole, "{values:?}");
            }
        }
        assert!(even > 100, "{even}");
    }

    #[test]
    fn equal_values_cost_nothing() {
        assert_eq!(Packing::of(&[-5; GROUP]), Packing { base: -5, width: 0, exceptions: 0, cost: 0 });
    }

    #[test]
    fn the_whole_range_of_64_bits_fits() {
        let plan = Packing::of(&[i64::MIN, i64::MAX]);
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
                unpack_any(&payload, width, 0, &mut [0; GROUP], &mut out);
                prop_assert!(out.iter().map(|&value| value as u64).eq(residuals));
            }
        }
    }
}
