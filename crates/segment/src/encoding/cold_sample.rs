//! A sample of a column tells what the cold tier encodes, so that not all of it is encoded in every way.

use super::runs::Runs;
use super::{cold, lag};

/// Values of a sample, which pieces of the column give in equal parts.
pub(super) const VALUES: usize = 2_048;
/// Few: neighbours are what differences are about.
const PIECES: usize = 4;
const PIECE: usize = VALUES / PIECES;

/// From how many places before the differences of `numbers` are to be taken, or that none are, so that pco's bytes are fewest; `None`
/// where they will hardly be fewer than `most`. There are at least [`VALUES`] numbers.
pub(super) fn choose(
    numbers: &[i64],
    lags: impl Iterator<Item = Option<usize>>,
    most: usize,
) -> Option<Option<usize>> {
    let encoded = lags.filter_map(|lag| Some((lag, cold::encode(&sample(numbers, lag))?.len())));
    let (lag, bytes) = encoded.min_by_key(|(_, bytes)| *bytes)?;
    // What pco stores once for a column is a larger part of the sample.
    (bytes * numbers.len() / VALUES * 2 < most * 3).then_some(lag)
}

/// Pieces of the numbers, or of their differences.
fn sample(numbers: &[i64], lag: Option<usize>) -> Vec<i64> {
    let one_run = Runs::new(&[], PIECE).expect("no ends are one run");
    let mut sample = Vec::with_capacity(VALUES);
    for piece in 0..PIECES {
        let start = (numbers.len() - PIECE) * piece / (PIECES - 1);
        let piece = &numbers[start..start + PIECE];
        match lag {
            None => sample.extend_from_slice(piece),
            Some(lag) => sample.extend_from_slice(&lag::differences(piece, one_run, lag)),
        }
    }
    sample
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(i: u64) -> u64 {
        let mixed = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb) >> 32
    }

    /// Numbers of several kinds: near one value, walking, two that walk in turn, of all sizes.
    fn columns() -> [Vec<i64>; 4] {
        const COUNT: u64 = 40_000;
        let numbers = |number: &mut dyn FnMut(u64) -> i64| (0..COUNT).map(number).collect::<Vec<i64>>();
        let (mut at, mut turns) = (0, [0, 1 << 40]);
        [
            numbers(&mut |i| (random(i) % 1_000).cast_signed()),
            numbers(&mut |i| {
                at += (random(i) % 64).cast_signed() - 31;
                at
            }),
            numbers(&mut |i| {
                let turn = &mut turns[i as usize % 2];
                *turn += (random(i) % 1_000).cast_signed() - 499;
                *turn
            }),
            numbers(&mut |i| (random(i) >> (random(i + COUNT) % 32)).cast_signed()),
        ]
    }

    #[test]
    fn a_sample_chooses_what_all_values_would() {
        let lags = || [None, Some(1), Some(2)].into_iter();
        let mut chosen = Vec::new();
        for numbers in columns() {
            let one_run = Runs::new(&[], numbers.len()).unwrap();
            let bytes = |lag: Option<usize>| match lag {
                None => cold::encode(&numbers).unwrap().len(),
                Some(lag) => cold::encode(&lag::differences(&numbers, one_run, lag)).unwrap().len(),
            };
            let least = lags().map(bytes).min().unwrap();
            let lag = choose(&numbers, lags(), least).expect("as small as the best of all");
            assert!(bytes(lag) <= least + least / 50, "{lag:?}: {} instead of {least}", bytes(lag));
            assert_eq!(choose(&numbers, lags(), least / 2), None);
            chosen.push(lag);
        }
        assert_eq!(chosen[2], Some(2));
    }
}
