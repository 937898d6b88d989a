//! Which fields of a record are written as differences from another one, as high from open and ask from bid.

use crate::column::{AGAINST, PREVIOUS, difference};
use crate::encoding::{Habit, estimate_bits, estimate_difference_bits};
use crate::plan::ColumnKind;
use crate::spare::Ints;
use crate::stats::Stats;

/// A field of eight bytes that every record has.
pub(crate) struct Field {
    pub column: usize,
    pub kind: ColumnKind,
    pub values: Ints,
    pub stats: Stats,
}

impl Field {
    pub fn new(column: usize, kind: ColumnKind, values: Ints) -> Self {
        let stats = Stats::of(&values);
        Self { column, kind, values, stats }
    }

    /// Whether no value can be one that is not canonical: all but decimals are, and these if they are of the small form and
    /// not negative. Others may be too.
    pub fn is_beyond_doubt(&self) -> bool {
        const GREATEST: i64 = (0b11 << 61) - 1;
        self.kind != ColumnKind::Decimal64 || self.stats.min >= 0 && self.stats.max <= GREATEST
    }

    fn is_candidate(&self) -> bool {
        self.stats.differing != 0 && (self.kind != ColumnKind::Decimal64 || self.stats.are_plain_decimals())
    }
}

/// For each field the kind of column and the index of the field that it follows, if it follows one.
type Choices = Vec<Option<(u8, usize)>>;

/// What is cached of a record from block to block.
#[derive(Debug, Clone, Default)]
pub(crate) struct RecordHabit {
    /// The fields' columns.
    columns: Vec<usize>,
    choices: Choices,
    cached: Habit<()>,
    is_new: bool,
}

/// What was chosen for the fields of a record.
pub(crate) struct Followed {
    pub choices: Choices,
    /// Columns for which it is not what was chosen before.
    pub changed: Vec<usize>,
}

impl RecordHabit {
    /// What each field follows: as before, or by trying all pairs when that is due or a field can no longer follow as it did.
    pub fn choose(&mut self, fields: &[Field], ends: &[u32]) -> Followed {
        let is_same = self.columns.iter().copied().eq(fields.iter().map(|field| field.column));
        self.is_new = !is_same || self.cached.usual().is_none() || !self.can_be_repeated(fields);
        if !self.is_new {
            // A field whose values are all the same in this block follows none, and follows again when they are not.
            let choice =
                |(field, choice): (&Field, &Option<_>)| choice.filter(|_| field.stats.differing != 0);
            let choices = fields.iter().zip(&self.choices).map(choice).collect();
            return Followed { choices, changed: Vec::new() };
        }
        let choices = choose(fields, ends);
        let before = std::mem::replace(&mut self.choices, choices.clone());
        let is_changed = |i: &usize| !is_same || before.get(*i) != choices.get(*i);
        let changed = (0..fields.len()).filter(is_changed).map(|i| fields[i].column).collect();
        self.columns = fields.iter().map(|field| field.column).collect();
        Followed { choices, changed }
    }

    /// Whether each field that follows can, if it has different values.
    fn can_be_repeated(&self, fields: &[Field]) -> bool {
        let can_follow = |field: &Field, leader: &Field| {
            field.stats.differing == 0 || field.is_candidate() && leader.is_candidate()
        };
        let mut pairs = fields.iter().zip(&self.choices);
        pairs.all(|(field, choice)| choice.is_none_or(|(_, leader)| can_follow(field, &fields[leader])))
    }

    /// Records the bytes that the fields took, of so many values each.
    pub fn note(&mut self, values: usize, bytes: usize) {
        if self.is_new {
            self.cached.learn((), values, bytes);
        } else {
            self.cached.holds(values, bytes);
        }
    }
}

/// What each field is predicted from. All follow the same one, which is not
/// predicted itself but from its own past: each is tried as the one to follow, and the one that saves most wins.
fn choose(fields: &[Field], ends: &[u32]) -> Choices {
    let candidates: Vec<usize> = (0..fields.len()).filter(|i| fields[*i].is_candidate()).collect();
    let mut best = (0, vec![None; fields.len()]);
    if !(2..=CANDIDATES_MAX).contains(&candidates.len()) {
        return best.1;
    }
    let samples: Vec<Sample> = fields.iter().map(|field| Sample::new(&field.values, ends)).collect();
    for &leader in &candidates {
        let follows =
            |i: usize| candidates.contains(&i) && i != leader && fields[i].kind == fields[leader].kind;
        let gains: Vec<Option<(u8, u64)>> = (0..fields.len())
            .map(|i| if follows(i) { samples[i].gain(&samples[leader]) } else { None })
            .collect();
        let saved: u64 = gains.iter().flatten().map(|(_, gain)| gain).sum();
        if saved > best.0 {
            best = (saved, gains.iter().map(|gain| gain.map(|(kind, _)| (kind, leader))).collect());
        }
    }
    best.1
}

/// Records with more columns than this that might be predicted from each other are not tried: the cost is their square.
const CANDIDATES_MAX: usize = 16;

/// The first values of a field, which represent all when ways to predict it are compared.
struct Sample<'a> {
    values: &'a [i64],
    ends: Vec<u32>,
    /// Bits that the values take alone.
    bits: u64,
}

/// Values of a [`Sample`].
const SAMPLE: usize = 4_096;

impl<'a> Sample<'a> {
    fn new(values: &'a [i64], ends: &[u32]) -> Self {
        let values = &values[..values.len().min(SAMPLE)];
        let mut ends: Vec<u32> =
            ends.iter().copied().take_while(|end| (*end as usize) < values.len()).collect();
        ends.push(values.len() as u32);
        let bits = estimate_bits(values, &ends);
        Self { values, ends, bits }
    }

    /// The better way to follow `leader`, and the bits it saves, if it saves enough.
    fn gain(&self, leader: &Self) -> Option<(u8, u64)> {
        let one = |kind| {
            let difference = difference(kind, self.values, leader.values, &self.ends);
            // A prediction costs time to decode: it must save something worth having.
            let gain = (self.bits - self.bits / 16)
                .saturating_sub(estimate_difference_bits(&difference, &self.ends));
            (gain > 0).then_some((kind, gain))
        };
        [AGAINST, PREVIOUS].into_iter().filter_map(one).max_by_key(|(_, gain)| *gain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fields of a block: random numbers, and what is near it.
    fn fields(seed: i64, is_constant: bool) -> Vec<Field> {
        let random = |i: i64| (i + seed).wrapping_mul(6_364_136_223_846_793_005) >> 40;
        let kind = ColumnKind::Int { width: 8, signed: true };
        let leader: Vec<i64> = (0..1_000).map(random).collect();
        let near = leader.iter().zip(0..).map(|(value, i)| if is_constant { 7 } else { value + i % 3 });
        let near = near.collect::<Vec<i64>>().into();
        vec![Field::new(3, kind, leader.into()), Field::new(5, kind, near)]
    }

    #[test]
    fn a_field_that_is_constant_for_a_while_follows_again() {
        let (ends, mut habit) = ([1_000], RecordHabit::default());
        let mut block = |seed, is_constant| {
            let followed = habit.choose(&fields(seed, is_constant), &ends);
            habit.note(1_000, 4_000);
            (followed.choices, followed.changed)
        };
        let (choices, changed) = block(0, false);
        // Each could follow the other; the first one leads.
        assert!(choices[0].is_none() && choices[1].is_some());
        assert_eq!(changed, [3, 5]);
        assert_eq!(block(1, false), (choices.clone(), vec![]));
        assert_eq!(block(2, true), (vec![None, None], vec![]));
        assert_eq!(block(3, false), (choices, vec![]));
    }
}
