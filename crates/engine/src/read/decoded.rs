//! Columns of a block in memory, and which of their values belong to which rows.

use crate::read::fields::Fields;
use std::borrow::Cow;
use std::ops::Range;
use tapedb_segment::{ColumnValues, LaneColumns, StepKind, Values};

/// The wanted columns of a block.
///
/// Always true: columns that determine which values exist below them are slices. After [`Decoded::find_starts`]: `levels` has an
/// entry for each level of the fields.
#[derive(Debug, Default)]
pub(crate) struct Decoded {
    /// As [`Fields::columns`].
    pub columns: LaneColumns,
    levels: Vec<Below>,
    /// Values at the level of the rows.
    rows: usize,
}

/// The values of a level, below those of the level above.
#[derive(Debug, Default)]
struct Below {
    /// Each value above has one: they are in the same places, and `starts` means nothing.
    is_each: bool,
    /// Where the values below each value above begin, and where the last ones end.
    starts: Vec<u32>,
    /// How many there are.
    len: usize,
}

/// Which rows of a block are wanted, in this order.
#[derive(Debug, Clone)]
pub(crate) enum RowPlaces<'a> {
    /// Their values are next to each other.
    Range(Range<usize>),
    /// The low half of each is the place of the row's values.
    Homes(Cow<'a, [u32]>),
}

/// Places of values below rows, in the order in which they are wanted.
#[derive(Debug, Clone)]
enum Places {
    Range(Range<usize>),
    Each(Vec<u32>),
}

impl RowPlaces<'_> {
    /// The places of what begins at `starts` and lies below these rows.
    fn below(&self, starts: &[u32]) -> Places {
        match self {
            Self::Range(range) => below_range(range, starts),
            Self::Homes(homes) => below_each(homes.iter().map(|home| usize::from(*home as u16)), starts),
        }
    }
}

impl Places {
    /// The places of what begins at `starts` and lies below these.
    fn below(&self, starts: &[u32]) -> Self {
        match self {
            Self::Range(range) => below_range(range, starts),
            Self::Each(places) => below_each(places.iter().map(|place| *place as usize), starts),
        }
    }
}

fn below_range(range: &Range<usize>, starts: &[u32]) -> Places {
    Places::Range(starts[range.start] as usize..starts[range.end] as usize)
}

fn below_each(places: impl ExactSizeIterator<Item = usize>, starts: &[u32]) -> Places {
    let mut below = Vec::with_capacity(places.len());
    places.for_each(|place| below.extend(starts[place]..starts[place + 1]));
    Places::Each(below)
}

impl Decoded {
    /// Prepares columns that have just been decoded. `false`: their numbers of values do not fit each other, as in a forged
    /// block, or they are fewer than the rows' places.
    pub fn find_starts(&mut self, fields: &Fields, places: usize) -> bool {
        let Self { columns, levels, rows } = self;
        let columns = columns.columns();
        *rows = match fields.level_of.iter().position(|level| *level == 0) {
            Some(column) => columns[column].len(),
            None => places,
        };
        let marks = |column: usize| columns[column].values();
        *rows >= places
            && find_all_starts(fields, *rows, (marks, |column: usize| columns[column].len()), levels)
    }

    /// Whether all values are values of their types. The columns are slices.
    pub fn are_right(&self, fields: &Fields) -> bool {
        are_right(fields, |column| self.columns.columns()[column].values())
    }

    /// Appends the values of some rows.
    pub fn append_to(&self, fields: &Fields, rows: &RowPlaces<'_>, out: &mut [ColumnValues]) {
        // Of each level the index of its places; `None`: those of the rows.
        let mut of_levels: Vec<Option<usize>> = Vec::with_capacity(fields.levels.len());
        let mut places: Vec<Places> = Vec::new();
        for (level, below) in fields.levels.iter().zip(&self.levels) {
            let above = level.above.checked_sub(1).and_then(|above| of_levels[above]);
            if below.is_each {
                of_levels.push(above);
                continue;
            }
            of_levels.push(Some(places.len()));
            places.push(match above {
                None => rows.below(&below.starts),
                Some(above) => places[above].below(&below.starts),
            });
        }
        for ((column, level), out) in self.columns.columns().iter().zip(&fields.level_of).zip(out) {
            let below = level.checked_sub(1).and_then(|level| of_levels[level]).map(|index| &places[index]);
            match (below, rows) {
                (None, RowPlaces::Range(range)) => column.append_range(range.clone(), out),
                (None, RowPlaces::Homes(homes)) => column.append_homes(homes, out),
                (Some(Places::Range(range)), _) => column.append_range(range.clone(), out),
                (Some(Places::Each(places)), _) => column.append_at(places, out),
            }
        }
    }

    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        self.columns.memory()
            + self.levels.iter().map(|below| below.starts.capacity() * size_of::<u32>()).sum::<usize>()
    }
}

/// Whether columns of `rows` rows, by symbol, are values of their types, as many as there have to be: for servers that are not
/// trusted.
pub(crate) fn are_right_by_symbol(fields: &Fields, rows: usize, columns: &[ColumnValues]) -> bool {
    let values = |column: usize| columns[column].values();
    let counts = |column: usize| values(column).len();
    find_all_starts(fields, rows, (values, counts), &mut Vec::new()) && are_right(fields, values)
}

fn are_right<'v>(fields: &Fields, values: impl Fn(usize) -> Values<'v>) -> bool {
    fields.rules.len() == fields.columns.len()
        && fields.rules.iter().enumerate().all(|(column, rule)| rule.holds(values(column)))
}

/// Finds the values of each level. `false`: numbers of values do not fit each other.
fn find_all_starts<'v>(
    fields: &Fields,
    rows: usize,
    (marks, count): (impl Fn(usize) -> Values<'v>, impl Fn(usize) -> usize),
    levels: &mut Vec<Below>,
) -> bool {
    levels.resize_with(fields.levels.len(), Below::default);
    for (index, level) in fields.levels.iter().enumerate() {
        let above = level_len(levels, rows, level.above);
        let Values::Ints(marks) = marks(level.step.values) else { return false };
        if marks.len() != above || !levels[index].find(marks, level.step.kind) {
            return false;
        }
    }
    let mut numbered = fields.level_of.iter().enumerate();
    numbered.all(|(column, level)| count(column) == level_len(levels, rows, *level))
}

/// Number of values at a level.
fn level_len(levels: &[Below], rows: usize, level: usize) -> usize {
    level.checked_sub(1).map_or(rows, |index| levels[index].len)
}

impl Below {
    /// Finds the values below `marks`. `false`: there are too many.
    fn find(&mut self, marks: &[i64], kind: StepKind) -> bool {
        let one = if let StepKind::Is(tag) = kind { tag.into() } else { 1 };
        // A comparison for each would be a branch for each.
        let mut parts = marks.chunks(64);
        self.is_each = parts.all(|marks| marks.iter().fold(0, |differs, mark| differs | (mark ^ one)) == 0);
        let fits = self.is_each || find_starts(marks, kind, &mut self.starts);
        self.len = match self.is_each {
            true => marks.len(),
            false => self.starts.last().map_or(0, |end| *end as usize),
        };
        fits
    }
}

/// Replaces `starts` by where the values below each of `marks` begin. `false`: there are too many.
fn find_starts(marks: &[i64], kind: StepKind, starts: &mut Vec<u32>) -> bool {
    starts.clear();
    starts.reserve(marks.len() + 1);
    let mut end = 0u32;
    starts.push(end);
    let mut push = |count: u32| {
        let (sum, is_over) = end.overflowing_add(count);
        end = sum;
        starts.push(end);
        !is_over
    };
    match kind {
        StepKind::Present => marks.iter().all(|mark| push(u32::from(*mark == 1))),
        StepKind::Is(tag) => marks.iter().all(|mark| push(u32::from(*mark == i64::from(tag)))),
        StepKind::Items => marks.iter().all(|mark| u32::try_from(*mark).is_ok_and(&mut push)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_below_follow_their_places() {
        let mut starts = Vec::new();
        assert!(find_starts(&[2, 0, 3], StepKind::Items, &mut starts));
        assert_eq!(starts, [0, 2, 2, 5]);
        let homes = RowPlaces::Homes(Cow::Owned(vec![2, 7 << 16 | 1, 3 << 16]));
        let Places::Each(below) = homes.below(&starts) else { panic!() };
        assert_eq!(below, [2, 3, 4, 0, 1]);
        let Places::Range(below) = RowPlaces::Range(1..3).below(&starts) else { panic!() };
        assert_eq!(below, 2..5);
        let Places::Each(below) = Places::Each(vec![1, 0]).below(&starts) else { panic!() };
        assert_eq!(below, [0, 1]);
        assert!(find_starts(&[1, 0, 1], StepKind::Present, &mut starts));
        assert_eq!(starts, [0, 1, 1, 2]);
        assert!(find_starts(&[7, 0, 7], StepKind::Is(7), &mut starts));
        assert_eq!(starts, [0, 1, 1, 2]);
    }

    #[test]
    fn forged_counts_are_refused() {
        let mut starts = Vec::new();
        assert!(!find_starts(&[-1], StepKind::Items, &mut starts));
        assert!(!find_starts(&[i64::from(u32::MAX), 1], StepKind::Items, &mut starts));
        assert!(!find_starts(&[1 << 40], StepKind::Items, &mut starts));
    }
}
