//! Differences to the value some places before, within each run: for values that take turns, as the sides of a book do.

use super::bytes::{bit_width, zigzag};
use super::groups::GROUP;
use super::runs::Runs;
use crate::simd::widest;
use crate::spare::Ints;

/// The farthest that a difference may reach back.
pub(super) const LAG_MAX: usize = 8;

/// The farthest that is tried: more sides than two take turns rarely.
const TRIED_MAX: usize = 4;

/// Groups of a column that are looked at when a distance is searched.
const SAMPLE_GROUPS: usize = 8;

/// From how many places before differences are smallest, if they are clearly smaller than from one place, and than distances from
/// the smallest value.
pub(super) fn best(values: &[i64]) -> Option<usize> {
    let step = (values.len() / GROUP).div_ceil(SAMPLE_GROUPS).max(1);
    let min = values.iter().copied().min()?;
    let mut bits = [0usize; TRIED_MAX + 1];
    for group in values.chunks_exact(GROUP).step_by(step) {
        for i in TRIED_MAX..GROUP {
            bits[0] += bit_width(group[i].wrapping_sub(min) as u64);
            for lag in 1..=TRIED_MAX {
                bits[lag] += bit_width(zigzag(group[i].wrapping_sub(group[i - lag])));
            }
        }
    }
    // Of distances that are about as good, the nearest.
    let (lag, least) =
        (2..=TRIED_MAX).map(|lag| (lag, bits[lag])).min_by_key(|(lag, bits)| bits * (32 + lag))?;
    (least * 8 < bits[0].min(bits[1]) * 7).then_some(lag)
}

/// Differences of `values` to those `lag` places before. What a run has no such place for is the difference to its first value, and
/// its first is 0.
pub(super) fn differences(values: &[i64], runs: Runs, lag: usize) -> Ints {
    let mut deltas = Ints::unset(values.len());
    for run in runs.ranges() {
        let (values, deltas) = (&values[run.clone()], &mut deltas[run]);
        let near = lag.min(values.len());
        for (delta, value) in deltas.iter_mut().zip(&values[..near]) {
            *delta = value.wrapping_sub(values[0]);
        }
        widest(
            #[inline(always)]
            || {
                let pairs = values.iter().zip(values.iter().skip(near));
                deltas.iter_mut().skip(near).zip(pairs).for_each(|(to, (a, b))| *to = b.wrapping_sub(*a));
            },
        );
    }
    deltas
}

/// Replaces differences by the values, of runs that begin with `firsts`.
pub(super) fn add_up(firsts: &[i64], runs: Runs, lag: usize, values: &mut [i64]) {
    for (run, first) in runs.ranges().zip(firsts) {
        let values = &mut values[run];
        let near = lag.min(values.len());
        values[0] = *first;
        for value in &mut values[1..near] {
            *value = value.wrapping_add(*first);
        }
        match lag {
            1 => add_up_by::<1>(values),
            2 => add_up_by::<2>(values),
            4 => add_up_by::<4>(values),
            _ => (near..values.len()).for_each(|i| values[i] = values[i].wrapping_add(values[i - lag])),
        }
    }
}

/// Sums of every `LAG`-th value, all of them at once.
fn add_up_by<const LAG: usize>(values: &mut [i64]) {
    let (chunks, rest) = values.as_chunks_mut::<LAG>();
    let mut sums = [0i64; LAG];
    for chunk in chunks {
        for (value, sum) in chunk.iter_mut().zip(&mut sums) {
            *sum = sum.wrapping_add(*value);
            *value = *sum;
        }
    }
    for (value, sum) in rest.iter_mut().zip(sums) {
        *value = sum.wrapping_add(*value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_add_up_to_the_values() {
        let values: Vec<i64> =
            (0..400i64).map(|i| i.wrapping_mul(0x5851_f42d_4c95_7f2d) >> (i % 60)).collect();
        let ends = [1, 2, 4, 7, 11, 17, 26, 128, 300, 400];
        for lag in 1..=LAG_MAX {
            for ends in [&ends[..], &[]] {
                let runs = Runs::new(ends, values.len()).unwrap();
                let mut found = differences(&values, runs, lag).to_vec();
                let firsts: Vec<i64> = runs.starts().map(|start| values[start]).collect();
                add_up(&firsts, runs, lag, &mut found);
                assert_eq!(found, values, "{lag}");
            }
        }
    }

    #[test]
    fn values_that_take_turns_are_found() {
        let random = |i: u64| {
            let mixed = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb) >> 60
        };
        let turns = |count: u64| -> Vec<i64> {
            (0..1_000).map(|i| (1_000_000 * (i % count) + random(i)).cast_signed()).collect()
        };
        assert_eq!([1, 2, 3, 4].map(|count| best(&turns(count))), [None, Some(2), Some(3), Some(4)]);
        assert_eq!(
            [best(&[]), best(&[1, 2, 3]), best(&[i64::MIN, i64::MAX].repeat(200))],
            [None, None, Some(2)]
        );
    }
}
