//! The values of one group of a column, ready to be used: as long as they stay in the nearest cache, it costs little to
//! do one thing after the other with them.
//!
//! Most columns vary little within 128 values. So a strip stores them as one number of 64 bits and an offset of 32 bits
//! for each, which are half the bytes and twice the values in a register; only what does not fit is stored wide.

use super::groups::GROUP;
use crate::simd::widest;

/// Bits of an offset's magnitude. A sum of two strips still leaves space for a distance of this many bits plus one.
pub(crate) const OFFSET_BITS: usize = 29;

/// Up to 128 values of a column that begin at a multiple of 128.
///
/// Always true: if it is narrow, value `i` is `base` plus `offsets[i]` as a signed number, and the offsets of one that
/// was decoded lie within 29 bits and a sign; else it is `wide[i]`.
#[derive(Clone, Debug)]
pub(crate) struct Strip {
    pub base: i64,
    pub offsets: [u32; GROUP],
    pub wide: [i64; GROUP],
    pub is_narrow: bool,
}

impl Default for Strip {
    fn default() -> Self {
        Self { base: 0, offsets: [0; GROUP], wide: [0; GROUP], is_narrow: true }
    }
}

impl Strip {
    /// Makes all values the same.
    pub fn fill(&mut self, value: i64) {
        (self.base, self.is_narrow) = (value, true);
        self.offsets.fill(0);
    }

    /// Makes its first values these.
    pub fn set_wide(&mut self, values: &[i64]) {
        self.wide[..values.len()].copy_from_slice(values);
        self.is_narrow = false;
    }

    /// The value in one place.
    #[inline]
    pub fn value(&self, i: usize) -> i64 {
        match self.is_narrow {
            true => self.base.wrapping_add(i64::from(self.offsets[i] as i32)),
            false => self.wide[i],
        }
    }

    /// The offsets, if the base and they are below 2^29 and so the values below 2^30; those below 0 are numbers of 32
    /// bits that are larger than any row.
    pub fn small_offsets(&self) -> Option<&[u32; GROUP]> {
        let is_small = self.is_narrow && (0..1 << OFFSET_BITS).contains(&self.base);
        is_small.then_some(&self.offsets)
    }

    /// Multiplies the offsets, and adds to each `step` for its place and those before it.
    pub fn stretch(&mut self, factor: u32, step: u32) {
        if (factor, step) == (1, 0) {
            return;
        }
        let offsets = &mut self.offsets;
        widest(
            #[inline(always)]
            || {
                for (offset, place) in offsets.iter_mut().zip(1u32..) {
                    *offset = offset.wrapping_mul(factor).wrapping_add(step.wrapping_mul(place));
                }
            },
        );
    }

    /// Makes it wide.
    pub fn widen(&mut self) {
        if self.is_narrow {
            widen(self.base, &self.offsets, &mut self.wide);
            self.is_narrow = false;
        }
    }

    /// Makes it narrow if its first `count` values allow it; others become any.
    pub fn narrow(&mut self, count: usize) {
        let base = self.wide[0];
        let distances = || self.wide[..count].iter().map(|value| value.wrapping_sub(base));
        if self.is_narrow || !distances().all(is_small) {
            return;
        }
        self.offsets.iter_mut().zip(distances()).for_each(|(offset, distance)| *offset = distance as u32);
        (self.base, self.is_narrow) = (base, true);
    }

    /// Writes the first values, at most 128.
    pub fn write(&self, out: &mut [i64]) {
        match <&mut [i64; GROUP]>::try_from(&mut *out) {
            Ok(out) if self.is_narrow => widen(self.base, &self.offsets, out),
            Ok(out) => *out = self.wide,
            Err(_) => out.iter_mut().enumerate().for_each(|(i, value)| *value = self.value(i)),
        }
    }

    /// Writes the first values, at most 128, each with what stands in its place in `others` added.
    pub fn write_sum(&self, others: &[i64], out: &mut [i64]) {
        let full = (<&mut [i64; GROUP]>::try_from(&mut *out), <&[i64; GROUP]>::try_from(others));
        match full {
            (Ok(out), Ok(others)) if self.is_narrow => widest(
                #[inline(always)]
                || {
                    for ((value, offset), other) in out.iter_mut().zip(&self.offsets).zip(others) {
                        *value = self.base.wrapping_add(i64::from(*offset as i32)).wrapping_add(*other);
                    }
                },
            ),
            _ => {
                for (i, (value, other)) in out.iter_mut().zip(others).enumerate() {
                    *value = self.value(i).wrapping_add(*other);
                }
            }
        }
    }

    /// Adds `other`, value by value. Neither may be the sum of others: then offsets are below 2^29 each, and their sums
    /// below 2^30.
    pub fn add(&mut self, other: &Self) {
        if self.is_narrow && other.is_narrow {
            self.base = self.base.wrapping_add(other.base);
            let offsets = &mut self.offsets;
            return widest(
                #[inline(always)]
                || {
                    for (offset, other) in offsets.iter_mut().zip(&other.offsets) {
                        *offset = offset.wrapping_add(*other);
                    }
                },
            );
        }
        self.widen();
        for (i, value) in self.wide.iter_mut().enumerate() {
            *value = value.wrapping_add(other.value(i));
        }
    }

    /// Makes its values those of `other` one place before; `before` is what stands before them all, and becomes an offset if
    /// it is less than 2^28 from the base.
    pub fn set_previous(&mut self, other: &Self, before: i64) {
        let distance = before.wrapping_sub(other.base);
        if other.is_narrow && is_small(distance) {
            (self.base, self.is_narrow) = (other.base, true);
            self.offsets[0] = distance as u32;
            self.offsets[1..].copy_from_slice(&other.offsets[..GROUP - 1]);
            return;
        }
        self.is_narrow = false;
        self.wide[0] = before;
        (1..GROUP).for_each(|i| self.wide[i] = other.value(i - 1));
    }

    /// Makes one value that of `other` in the same place; the two were made by [`Self::set_previous`].
    pub fn set_from(&mut self, other: &Self, i: usize) {
        match self.is_narrow {
            true => self.offsets[i] = other.offsets[i],
            false => self.wide[i] = other.value(i),
        }
    }

    /// Adds the same to the values of some places, once to each place of a strip that was just decoded. Makes the strip wide
    /// if it has to: offsets are below 2^28 then (see `Sums`), and below 2^29 with what is added.
    pub fn shift(&mut self, places: std::ops::Range<usize>, by: i64) {
        if self.is_narrow && !is_small(by) {
            self.widen();
        }
        match self.is_narrow {
            true => {
                self.offsets[places].iter_mut().for_each(|offset| *offset = offset.wrapping_add(by as u32))
            }
            false => self.wide[places].iter_mut().for_each(|value| *value = value.wrapping_add(by)),
        }
    }
}

/// Whether a distance leaves space in an offset for what is added to it.
fn is_small(distance: i64) -> bool {
    distance.unsigned_abs() < 1 << (OFFSET_BITS - 1)
}

fn widen(base: i64, offsets: &[u32; GROUP], out: &mut [i64; GROUP]) {
    widest(
        #[inline(always)]
        || {
            for (value, offset) in out.iter_mut().zip(offsets) {
                *value = base.wrapping_add(i64::from(*offset as i32));
            }
        },
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGEST: i64 = (1 << OFFSET_BITS) - 1;

    /// A strip of these offsets in turn.
    fn strip(base: i64, offsets: [i64; 2]) -> Strip {
        let offsets = std::array::from_fn(|i| offsets[i % 2] as u32);
        Strip { base, offsets, ..Strip::default() }
    }

    fn values(strip: &Strip) -> Vec<i64> {
        (0..GROUP).map(|i| strip.value(i)).collect()
    }

    #[test]
    fn the_largest_offsets_add_up() {
        for (own, other) in [([LARGEST, -LARGEST], [LARGEST, -LARGEST]), ([LARGEST, 0], [-LARGEST, LARGEST])]
        {
            for base in [0, i64::MAX, i64::MIN] {
                let (mut sum, other) = (strip(base, own), strip(3, other));
                let expected: Vec<i64> =
                    values(&sum).iter().zip(values(&other)).map(|(a, b)| a.wrapping_add(b)).collect();
                sum.add(&other);
                assert!(sum.is_narrow && values(&sum) == expected, "{base}");
                sum.widen();
                assert!(values(&sum) == expected, "{base}");
            }
        }
    }

    #[test]
    fn shifts_are_narrow_below_their_bound() {
        let space = (1 << (OFFSET_BITS - 1)) - 1;
        for by in [space, space + 1, space + 2, i64::MAX, i64::MIN] {
            for by in [by, by.wrapping_neg()] {
                let mut moved = strip(-9, [space, -space]);
                let expected: Vec<i64> = values(&moved)
                    .iter()
                    .enumerate()
                    .map(|(i, value)| if i < 64 { *value } else { value.wrapping_add(by) })
                    .collect();
                moved.shift(64..GROUP, by);
                assert!(values(&moved) == expected, "{by}");
                assert_eq!(moved.is_narrow, by.unsigned_abs() <= space as u64, "{by}");
            }
        }
    }

    #[test]
    fn short_groups_become_narrow_below_their_bound() {
        for distance in [(1 << 28) - 1, 1 << 28, (1 << 28) + 1, i64::MIN] {
            for base in [0, 7, i64::MIN, i64::MAX] {
                let mut short = Strip { is_narrow: false, ..Strip::default() };
                short.wide[0] = base;
                short.wide[1] = base.wrapping_add(distance);
                short.wide[2] = base.wrapping_sub(distance);
                // Values that do not count may be any.
                short.wide[3] = base.wrapping_add(1 << 60);
                let expected = values(&short);
                short.narrow(3);
                assert_eq!(
                    (short.is_narrow, &values(&short)[..3]),
                    (distance.unsigned_abs() < 1 << 28, &expected[..3])
                );
            }
        }
    }

    #[test]
    fn what_stands_before_is_near_or_far() {
        for distance in [(1 << 28) - 1, 1 << 28, (1 << 28) + 1, i64::MIN] {
            for distance in [distance, distance.wrapping_neg()] {
                let (mut previous, leader) = (Strip::default(), strip(1_000, [LARGEST, -LARGEST]));
                let before = leader.base.wrapping_add(distance);
                previous.set_previous(&leader, before);
                assert_eq!(previous.is_narrow, distance.unsigned_abs() < 1 << 28);
                assert_eq!(previous.value(0), before);
                assert!(values(&previous)[1..] == values(&leader)[..GROUP - 1]);
                previous.set_from(&leader, 5);
                assert_eq!(previous.value(5), leader.value(5));
            }
        }
    }

    #[test]
    fn small_offsets_have_a_small_base() {
        for (base, is_small) in
            [(-1, false), (0, true), (LARGEST, true), (LARGEST + 1, false), (i64::MIN, false)]
        {
            assert_eq!(strip(base, [0, LARGEST]).small_offsets().is_some(), is_small, "{base}");
        }
        let largest = strip(LARGEST, [LARGEST, 0]);
        let sum = (largest.base as u32).wrapping_add(largest.offsets[0]);
        assert_eq!(i64::from(sum), largest.value(0));
    }
}
