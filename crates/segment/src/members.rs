//! Which values belong to what lies a level below: those that are there, or those of one alternative.
//!
//! A byte for each value, its *mark*, shows it. Eight are compared at once, and a table has
//! where the members among them are.

use crate::level::Level;
use crate::simd::widest;

/// Makes `child` the level of those values of `parent` whose mark is `mark`. `members` becomes the places of the wanted
/// ones among the wanted ones of `parent`. `marks` has all values of `parent`, wanted or not.
pub(crate) fn choose(child: &mut Level, members: &mut Vec<u32>, parent: &Level, marks: &[u8], mark: u8) {
    if !parent.all {
        return child.filter(parent, members, |i| marks[i] == mark);
    }
    find(marks, mark, members);
    child.begin();
    child.count = members.len();
    let mut before = 0;
    for end in &parent.ends {
        before += members_below(&members[before..], *end);
        child.close_run(before);
    }
}

/// [`choose`] where everything is wanted, and it does not matter where members are.
pub(crate) fn count(child: &mut Level, parent: &Level, marks: &[u8], mark: u8) {
    child.begin();
    let (mut start, mut members) = (0, 0);
    for end in &parent.ends {
        let run = &marks[start..*end as usize];
        members += widest(
            #[inline(always)]
            || run.iter().fold(0, |sum, found| sum + u32::from(*found == mark)),
        ) as usize;
        start = *end as usize;
        child.close_run(members);
    }
    child.count = members;
}

/// How many members at the front are below `end`. There may be one run or one for each value.
fn members_below(members: &[u32], end: u32) -> usize {
    let mut step = 8;
    while members.get(step).is_some_and(|member| *member < end) {
        step *= 2;
    }
    members[..members.len().min(step + 1)].partition_point(|member| *member < end)
}

/// Replaces `places` by where `mark` stands.
pub(crate) fn find(marks: &[u8], mark: u8, places: &mut Vec<u32>) {
    // Eight are written at a time, members or not.
    places.resize(marks.len() + EIGHT, 0);
    let out = &mut places[..];
    let count = widest(
        #[inline(always)]
        || {
            let (eights, rest) = marks.as_chunks::<EIGHT>();
            let (mut to, mut place) = (0, 0);
            for eight in eights {
                let found = bits_of(u64::from_le_bytes(*eight) ^ (ONES * u64::from(mark)));
                if let Some(out) = out[to..].first_chunk_mut::<EIGHT>() {
                    for (out, i) in out.iter_mut().zip(&CHOSEN[usize::from(found)]) {
                        *out = place + u32::from(*i);
                    }
                }
                to += found.count_ones() as usize;
                place += EIGHT as u32;
            }
            for (place, found) in (place..).zip(rest) {
                out[to] = place;
                to += usize::from(*found == mark);
            }
            to
        },
    );
    places.truncate(count);
}

const EIGHT: usize = 8;

const ONES: u64 = u64::from_le_bytes([1; EIGHT]);

/// A bit for each byte of a word, from the lowest on: 1 where the byte is zero.
#[inline(always)]
fn bits_of(word: u64) -> u8 {
    const LOW: u64 = ONES * 0x7f;
    // The highest bit of each byte says whether it is zero: sums of seven bits do not leave their byte.
    let zeros = !(((word & LOW) + LOW) | word | LOW);
    ((zeros >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8
}

/// For each choice among eight places those that are chosen, and then zeros.
static CHOSEN: [[u8; EIGHT]; 256] = {
    let mut chosen = [[0; EIGHT]; 256];
    let mut bits = 0;
    while bits < chosen.len() {
        let (mut to, mut place) = (0, 0);
        while place < EIGHT {
            if bits >> place & 1 == 1 {
                chosen[bits][to] = place as u8;
                to += 1;
            }
            place += 1;
        }
        bits += 1;
    }
    chosen
};

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parent(ends: &[u32], all: bool) -> Level {
        let count = ends.last().map_or(0, |end| *end as usize);
        let keep =
            if all { Vec::new() } else { vec![1..count as u32 / 2, count as u32 / 2 + 3..count as u32] };
        Level { count, ends: ends.into(), all, keep }
    }

    proptest! {
        #[test]
        fn members_are_those_that_have_the_mark(
            pieces in prop::collection::vec((0u8..4, 1usize..30), 1..40),
            cuts in prop::collection::btree_set(1u32..400, 0..30),
            all in any::<bool>(),
        ) {
            let marks: Vec<u8> = pieces.iter().flat_map(|(mark, length)| vec![*mark; *length]).collect();
            let mut ends: Vec<u32> = cuts.into_iter().filter(|cut| (*cut as usize) < marks.len()).collect();
            ends.push(marks.len() as u32);
            let parent = parent(&ends, all || marks.len() < 20);
            for mark in 0..5 {
                let (mut child, mut members) = (Level::default(), vec![7; 3]);
                let (mut expected, mut places) = (Level::default(), Vec::new());
                choose(&mut child, &mut members, &parent, &marks, mark);
                expected.filter(&parent, &mut places, |i| marks[i] == mark);
                prop_assert_eq!(&members, &places);
                prop_assert_eq!((child.count, &child.ends, child.all, &child.keep),
                    (expected.count, &expected.ends, expected.all, &expected.keep));
                if parent.all {
                    count(&mut child, &parent, &marks, mark);
                    prop_assert_eq!((child.count, &child.ends, child.all, &child.keep),
                        (expected.count, &expected.ends, expected.all, &expected.keep));
                }
            }
        }
    }
}
