//! Columns whose values are put apart by the values of other columns of the same record, their *keys*: bids from asks, one
//! venue from another. Each *class*, the values with the same keys, is a column of its own, with the runs of the whole.
//!
//! ```text
//! u8 keys | keys x u16 number of a column | for each class in order of its first value: u32 length, column
//! ```

use crate::column::{self, ColumnHabit, Scratch, take, take_array};
use crate::columns::Columns;
use crate::decimals::{self, Decimals};
use crate::encoding::Tier;
use crate::error::{Damage, Flaw};
use crate::level::Level;
use crate::plan::ColumnKind;
use crate::shred::Stats;

/// Columns that are keys of another one.
const KEYS_MAX: usize = 2;
/// Different values of a key.
const VALUES_MAX: usize = 16;
/// Places of a table that finds a key's values: so many that few have to be looked for twice.
const PLACES_BITS: u32 = 6;

/// The class of each value.
#[derive(Debug, Clone, Default)]
pub(crate) struct Classes {
    of: Vec<u8>,
    count: usize,
}

impl Classes {
    /// By the values of one key, numbered in order of appearance; `None` if there are too many different ones.
    pub fn of(values: &[i64]) -> Option<Self> {
        match values.iter().fold(0, |any, value| any | *value as u64) < VALUES_MAX as u64 {
            true => Some(Self::of_small(values)),
            false => Self::of_any(values),
        }
    }

    /// Flags and enums.
    fn of_small(values: &[i64]) -> Self {
        let place = |value: &i64| *value as usize % VALUES_MAX;
        let there = values.iter().fold(0u32, |there, value| there | 1 << place(value));
        let (mut numbers, mut count) = ([u8::MAX; VALUES_MAX], 0);
        for value in values {
            if count == there.count_ones() as usize {
                break;
            }
            if numbers[place(value)] == u8::MAX {
                numbers[place(value)] = count as u8;
                count += 1;
            }
        }
        Self { of: values.iter().map(|value| numbers[place(value)]).collect(), count }
    }

    fn of_any(values: &[i64]) -> Option<Self> {
        let (mut table, mut count) = ([(0, u8::MAX); 1 << PLACES_BITS], 0);
        let mut last = (values.first()?.wrapping_add(1), 0);
        let mut of = vec![0; values.len()];
        for (class, value) in of.iter_mut().zip(values) {
            if *value != last.0 {
                last = (*value, find(&mut table, *value, &mut count));
                if count > VALUES_MAX {
                    return None;
                }
            }
            *class = last.1;
        }
        Some(Self { of, count })
    }

    /// By two keys, numbered in order of appearance.
    pub fn and(&self, other: &Self) -> Self {
        let (mut numbers, mut count) = ([u8::MAX; VALUES_MAX * VALUES_MAX], 0);
        let both = |(a, b): (&u8, &u8)| {
            let number = &mut numbers[usize::from(*a) * VALUES_MAX + usize::from(*b)];
            if *number == u8::MAX {
                *number = count as u8;
                count += 1;
            }
            *number
        };
        let of = self.of.iter().zip(&other.of).map(both).collect();
        Self { of, count }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether all values of a class are the same, whichever class.
    pub fn decide(&self, value: impl Fn(usize) -> bool) -> bool {
        let mut values = [None; VALUES_MAX * VALUES_MAX];
        let mut each = self.of.iter().enumerate();
        each.all(|(i, class)| *values[usize::from(*class)].get_or_insert(value(i)) == value(i))
    }

    /// The level of each class; everything is wanted.
    fn levels(&self, ends: &[u32], levels: &mut Vec<Level>) {
        levels.resize_with(self.count, Level::default);
        levels.iter_mut().for_each(Level::begin);
        let mut start = 0;
        for end in ends {
            let run = &self.of[start..*end as usize];
            for (class, level) in levels.iter_mut().enumerate() {
                level.count += count_of(class as u8, run);
                level.close_run(level.count);
            }
            start = *end as usize;
        }
    }

    /// The values of each class.
    fn part(&self, values: &[i64]) -> Vec<Vec<i64>> {
        let mut parts = vec![Vec::new(); self.count];
        for (value, class) in values.iter().zip(&self.of) {
            parts[usize::from(*class)].push(*value);
        }
        parts
    }

    /// Replaces `out` by the values of all classes, which lie behind each other in `parts`.
    fn join(&self, levels: &[Level], parts: &[i64], out: &mut Vec<i64>) {
        let (mut next, mut end) = ([0; VALUES_MAX * VALUES_MAX], 0);
        for (next, level) in next.iter_mut().zip(levels) {
            *next = end;
            end += level.count;
        }
        out.clear();
        out.extend(self.of.iter().map(|class| {
            let next = &mut next[usize::from(*class)];
            *next += 1;
            parts[*next - 1]
        }));
    }
}

/// The number of a value, which is the next one if it is new.
fn find(table: &mut [(i64, u8); 1 << PLACES_BITS], value: i64, count: &mut usize) -> u8 {
    let hash = (value as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - PLACES_BITS);
    let mut place = hash as usize;
    loop {
        let (known, number) = table[place];
        if number == u8::MAX {
            table[place] = (value, *count as u8);
            *count += 1;
            return table[place].1;
        }
        if known == value {
            return number;
        }
        place = (place + 1) % table.len();
    }
}

/// How many of a run are of a class. Bytes are added up as long as a byte holds the sum: many at once.
fn count_of(class: u8, run: &[u8]) -> usize {
    let of_few = |few: &[u8]| usize::from(few.iter().map(|other| u8::from(*other == class)).sum::<u8>());
    run.chunks(u8::MAX.into()).map(of_few).sum()
}

/// Appends values by `classes`, which `keys` say. `habits` has one for each class.
pub(crate) fn write(
    (keys, classes): (&[u16], &Classes),
    (kind, values): (ColumnKind, &[i64]),
    ends: &[u32],
    tier: Tier,
    habits: &mut Vec<ColumnHabit>,
    out: &mut Vec<u8>,
) {
    out.push(column::KEYED);
    out.push(keys.len() as u8);
    keys.iter().for_each(|key| out.extend_from_slice(&key.to_le_bytes()));
    let mut levels = Vec::new();
    classes.levels(ends, &mut levels);
    if habits.len() < classes.count {
        habits.resize_with(classes.count, ColumnHabit::default);
    }
    for ((values, level), habit) in classes.part(values).iter().zip(&levels).zip(habits) {
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        write_class(kind, values, &level.ends, tier, habit, out);
        let length = (out.len() - start - 4) as u32;
        out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    }
}

/// Appends values as a column that stands alone.
pub(crate) fn write_class(
    kind: ColumnKind,
    values: &[i64],
    ends: &[u32],
    tier: Tier,
    habit: &mut ColumnHabit,
    out: &mut Vec<u8>,
) {
    if kind == ColumnKind::Decimal64 && !Stats::of(values).are_plain_decimals() {
        out.push(column::DECIMALS);
        return Decimals::of(values).write(ends, tier, habit, out);
    }
    column::write_ints(values, ends, tier, &mut habit.ints, out);
}

/// What has been read of the keys of a block's columns, and memory.
#[derive(Debug, Default)]
pub(crate) struct Keyed {
    /// Serial number of the block, and group.
    of: Option<(u64, u16)>,
    /// By keys; a single key stands there twice.
    known: Vec<([u16; KEYS_MAX], Classes, Vec<Level>)>,
    parts: Vec<i64>,
    part: Vec<i64>,
    /// The value of each class, as long as each has one only.
    constants: Vec<i64>,
}

/// Replaces `out` by the wanted values of a column of this kind.
pub(crate) fn read(
    columns: Columns<'_>,
    (number, kind): (usize, ColumnKind),
    mut bytes: &[u8],
    level: &Level,
    scratch: &mut Scratch,
    out: &mut Vec<i64>,
) -> Result<(), Damage> {
    let flawed = |flaw| columns.damage(number, flaw);
    let keys = keys_of(&mut bytes).map_err(flawed)?;
    let whole = if level.all { None } else { Some(level.whole()) };
    let all = whole.as_ref().unwrap_or(level);
    let mut keyed = std::mem::take(&mut scratch.keyed);
    let here = Some((columns.block.serial, columns.group));
    if keyed.of != here || !level.all {
        (keyed.of, keyed.known) = (here.filter(|_| level.all), Vec::new());
    }
    let read = keyed.find(columns, number, keys, all, scratch).and_then(|at| {
        keyed.read_parts(at, kind, bytes, scratch).map_err(flawed)?;
        keyed.join(at, out);
        level.compact(out);
        Ok(())
    });
    scratch.keyed = keyed;
    read
}

/// The keys; one key stands there twice.
fn keys_of(bytes: &mut &[u8]) -> Result<[u16; KEYS_MAX], Flaw> {
    match take_array(bytes)? {
        [1] => {
            let only = u16::from_le_bytes(take_array(bytes)?);
            Ok([only, only])
        }
        [2] => Ok([u16::from_le_bytes(take_array(bytes)?), u16::from_le_bytes(take_array(bytes)?)]),
        [count] => {
            Err(Flaw::Mismatch { what: "keys of a column", need: KEYS_MAX as u64, have: count.into() })
        }
    }
}

impl Keyed {
    /// Where the classes of these keys are known; reads them if they are not.
    fn find(
        &mut self,
        columns: Columns<'_>,
        number: usize,
        keys: [u16; KEYS_MAX],
        level: &Level,
        scratch: &mut Scratch,
    ) -> Result<usize, Damage> {
        let is_here = |known: &([u16; KEYS_MAX], Classes, Vec<Level>)| {
            known.0 == keys && known.1.of.len() == level.count
        };
        if let Some(at) = self.known.iter().position(is_here) {
            return Ok(at);
        }
        let classes = if keys[0] == keys[1] {
            columns.ints(keys[0].into(), level, scratch, &mut self.part)?;
            Classes::of(&self.part).ok_or_else(|| {
                let (need, have) = (VALUES_MAX as u64, VALUES_MAX as u64 + 1);
                columns.damage(number, Flaw::Mismatch { what: "values of a key", need, have })
            })?
        } else {
            let first = self.find(columns, number, [keys[0]; 2], level, scratch)?;
            let second = self.find(columns, number, [keys[1]; 2], level, scratch)?;
            self.known[first].1.and(&self.known[second].1)
        };
        let mut levels = Vec::new();
        classes.levels(&level.ends, &mut levels);
        self.known.push((keys, classes, levels));
        Ok(self.known.len() - 1)
    }

    fn read_parts(
        &mut self,
        at: usize,
        kind: ColumnKind,
        mut bytes: &[u8],
        scratch: &mut Scratch,
    ) -> Result<(), Flaw> {
        self.parts.clear();
        self.constants.clear();
        for level in &self.known[at].2 {
            let length = u32::from_le_bytes(take_array(&mut bytes)?) as usize;
            let (tag, bytes) = column::kind_of(take(&mut bytes, length)?)?;
            match tag {
                column::CONSTANT => {
                    let value = column::constant_of(bytes)?;
                    self.constants.push(value);
                    self.parts.resize(self.parts.len() + level.count, value);
                    continue;
                }
                column::INTS => column::get_ints(bytes, level, &mut scratch.ints, &mut self.part)?,
                column::DECIMALS if kind == ColumnKind::Decimal64 => {
                    decimals::read(bytes, level, &mut scratch.ints, &mut scratch.more, &mut self.part)?;
                }
                tag => return Err(column::unknown_kind(tag)),
            }
            self.parts.extend_from_slice(&self.part);
        }
        column::nothing_left(bytes)
    }

    /// Replaces `out` by the values of all classes.
    fn join(&self, at: usize, out: &mut Vec<i64>) {
        let (_, classes, levels) = &self.known[at];
        if self.constants.len() < levels.len() {
            return classes.join(levels, &self.parts, out);
        }
        out.clear();
        out.extend(classes.of.iter().map(|class| self.constants[usize::from(*class)]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Columns like this are in files: the bytes must stay what they are.
    #[test]
    fn bytes_stay_as_they_are() {
        let classes = Classes::of(&[7, 7, 9, 7, 9, 9]).unwrap();
        let values = [100, 101, 5, 102, 5, 5];
        let mut bytes = Vec::new();
        let kind = ColumnKind::Int { width: 8, signed: true };
        write((&[258], &classes), (kind, &values), &[2, 6], Tier::Hot, &mut Vec::new(), &mut bytes);
        let ints = [1, 2, 0, 200, 1, 2, 0b10_01_00];
        let constant = [0, 5, 0, 0, 0, 0, 0, 0, 0];
        let expected = [&[7, 1, 2, 1, 7, 0, 0, 0][..], &ints, &[9, 0, 0, 0], &constant].concat();
        assert_eq!(bytes, expected);
    }

    #[test]
    fn too_many_values_are_no_classes() {
        let values: Vec<i64> = (0..VALUES_MAX as i64 + 1).map(|i| i << 40).collect();
        assert!(Classes::of(&values).is_none());
        assert_eq!(Classes::of(&values[1..]).unwrap().count(), VALUES_MAX);
    }

    #[test]
    fn what_follows_from_a_key_is_found() {
        let classes = Classes::of(&[3, 4, 3, 5]).unwrap();
        assert!(classes.decide(|i| [true, false, true, true][i]));
        assert!(!classes.decide(|i| [true, false, false, true][i]));
    }

    proptest! {
        #[test]
        fn parts_are_joined_again(
            rows in prop::collection::vec((0i64..5, -2i64..3, any::<i64>()), 1..300),
            cut in any::<prop::sample::Index>(),
        ) {
            let column = |of: fn(&(i64, i64, i64)) -> i64| rows.iter().map(of).collect::<Vec<i64>>();
            let (a, b, values) = (column(|row| row.0), column(|row| row.1 << 50), column(|row| row.2));
            let classes = Classes::of(&a).unwrap().and(&Classes::of(&b).unwrap());
            let (mut levels, mut back) = (Vec::new(), Vec::new());
            let ends = [cut.index(rows.len()) as u32, rows.len() as u32];
            classes.levels(&ends[usize::from(ends[0] == 0)..], &mut levels);
            prop_assert_eq!(levels.iter().map(|level| level.count).sum::<usize>(), rows.len());
            prop_assert!(levels.iter().all(|level| level.ends.last() == Some(&(level.count as u32))));
            let parts = classes.part(&values).concat();
            classes.join(&levels, &parts, &mut back);
            prop_assert_eq!(back, values);
        }
    }
}
