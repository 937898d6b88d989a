//! Which stretches of numbers share a bin: few where numbers are spread evenly, one for each number that is frequent.
//!
//! A number costs the bits that tell its bin, fewer the more numbers are in it, and those that tell its place in the bin. The
//! sorted numbers are cut into parts of about as many, which no bin divides; which neighbours are put
//! together, so that all numbers and bins cost least, follows from the best ways to do it for all parts before.

use super::bytes::bit_width;

/// A stretch of numbers: `lower` and those above it that differ from it in `bits` bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bin {
    pub(super) lower: i64,
    pub(super) bits: u8,
    /// Numbers in it.
    pub(super) count: u32,
}

/// Bins that a writer makes at most: a power of two.
pub(super) const BINS_MAX: usize = 512;
/// Parts of about as many numbers. Between two of them a frequent number may lie, and the last part may be small.
const PARTS: usize = BINS_MAX / 2 - 1;
/// Numbers of a part, at least, but for numbers that are as frequent themselves.
const PART_MIN: usize = 12;
/// Parts that are put together at most; more would take time and save little.
const PARTS_OF_BIN: usize = 64;
/// Bits that a bin itself takes.
const BIN_BITS: u64 = 28;

/// What is counted in parts of a bit.
const FRACTION: u32 = 16;

/// Bins for `numbers`, in order, and about the bits that bins and numbers take.
pub(super) fn choose(numbers: &[i64]) -> (Vec<Bin>, u64) {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    let parts = parts(&sorted);
    let all = log2(sorted.len() as u32);
    // For each number of parts from the front, what it costs at least, and where its last bin begins.
    let mut best = vec![(0, 0)];
    for end in 1..=parts.len() {
        let Part { max, end: upper, .. } = parts[end - 1];
        let from = |start: usize| {
            let count = upper - if start == 0 { 0 } else { parts[start - 1].end };
            let bits = bit_width(max.wrapping_sub(parts[start].min) as u64) as u64;
            let each = (all - log2(count)) + (bits << FRACTION);
            (best[start].0 + (BIN_BITS << FRACTION) + u64::from(count) * each, start)
        };
        let least = (end.saturating_sub(PARTS_OF_BIN)..end).map(from).min();
        best.extend(least);
    }
    let (mut bins, mut end) = (Vec::new(), parts.len());
    while end > 0 {
        let start = best[end].1;
        let (first, last) = (&parts[start], &parts[end - 1]);
        let bits = bit_width(last.max.wrapping_sub(first.min) as u64) as u8;
        let count = last.end - if start == 0 { 0 } else { parts[start - 1].end };
        bins.push(Bin { lower: first.min, bits, count });
        end = start;
    }
    bins.reverse();
    (bins, best[parts.len()].0 >> FRACTION)
}

/// Neighbours among the sorted numbers, all that are equal.
struct Part {
    min: i64,
    max: i64,
    /// Numbers in it and before it.
    end: u32,
}

fn parts(sorted: &[i64]) -> Vec<Part> {
    let size = sorted.len().div_ceil(PARTS).max(PART_MIN);
    let (mut parts, mut open, mut end) = (Vec::<Part>::new(), 0, 0);
    for equal in sorted.chunk_by(|a, b| a == b) {
        let is_frequent = equal.len() >= size;
        end += equal.len() as u32;
        match parts.last_mut().filter(|_| open > 0 && open < size && !is_frequent) {
            Some(part) => (part.max, part.end) = (equal[0], end),
            None => {
                open = 0;
                parts.push(Part { min: equal[0], max: equal[0], end });
            }
        }
        // A frequent number stays alone.
        open = if is_frequent { 0 } else { open + equal.len() };
    }
    parts
}

/// Binary logarithm of 1 to 65,536, in parts of a bit; wrong by less than a hundredth of a bit.
fn log2(number: u32) -> u64 {
    let whole = number.max(1).ilog2();
    let rest = ((u64::from(number.max(1)) << FRACTION) >> whole) - (1 << FRACTION);
    // A parabola through both ends.
    let bend = (((rest * ((1 << FRACTION) - rest)) >> FRACTION) * 22_528) >> FRACTION;
    (u64::from(whole) << FRACTION) + rest + bend
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn logarithms_are_near() {
        for number in (1..=65_536u32).step_by(7) {
            let exact = f64::from(number).log2();
            assert!((log2(number) as f64 / 65_536.0 - exact).abs() < 0.01, "{number}");
        }
    }

    #[test]
    fn frequent_numbers_have_bins_of_their_own() {
        let numbers: Vec<i64> =
            (0..4_000).map(|i| if i % 2 == 0 { 500 } else { i * 7_919 % 1_000 }).collect();
        let (bins, bits) = choose(&numbers);
        let own = bins.iter().find(|bin| bin.lower == 500).unwrap();
        assert!(own.bits == 0 && own.count >= 2_000, "{own:?}");
        assert!(bits < 4_000 * 7, "{bits}");
    }

    #[test]
    fn even_numbers_share_bins() {
        let numbers: Vec<i64> = (0..20_000).map(|i| i * 7_919 % 65_536).collect();
        let (bins, bits) = choose(&numbers);
        assert!(bins.len() < 64 && bits < 20_000 * 33 / 2, "{} {bits}", bins.len());
    }

    proptest! {
        #[test]
        fn each_number_is_in_one_bin(
            numbers in prop::collection::vec(prop_oneof![0i64..40, any::<i64>(), 0i64..1 << 30], 1..900),
        ) {
            let (bins, _) = choose(&numbers);
            prop_assert!(bins.len() <= BINS_MAX);
            prop_assert!(bins.windows(2).all(|pair| pair[0].lower < pair[1].lower));
            prop_assert_eq!(bins.iter().map(|bin| bin.count as usize).sum::<usize>(), numbers.len());
            for number in numbers {
                let bin = &bins[bins.partition_point(|bin| bin.lower <= number) - 1];
                prop_assert!(bit_width(number.wrapping_sub(bin.lower) as u64) <= usize::from(bin.bits));
            }
        }
    }
}
