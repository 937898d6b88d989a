//! Columns of a block in memory, and which of their values belong to which rows.

use crate::read::fields::Fields;
use std::ops::Range;
use tapedb_segment::{ColumnValues, StepKind, Values};

/// The wanted columns of a block.
///
/// Always true after [`Decoded::find_starts`]: `starts` has for each level of the fields where the values below each value of the
/// level above begin, and where the last ones end.
#[derive(Debug, Default)]
pub(crate) struct Decoded {
    /// As [`Fields::columns`].
    pub values: Vec<ColumnValues>,
    starts: Vec<Vec<u32>>,
    /// Values at the level of the rows.
    rows: usize,
}

/// Places of values at one level, in the order in which they are wanted.
#[derive(Debug, Clone)]
pub(crate) enum Places {
    Range(Range<usize>),
    Each(Vec<u32>),
}

impl Places {
    /// Makes the places a range if they are one.
    pub fn of_rows(places: Vec<u32>) -> Self {
        match (places.first(), places.last()) {
            (Some(first), Some(last))
                if last.wrapping_sub(*first) as usize == places.len() - 1
                    && places.is_sorted_by(|a, b| a < b) =>
            {
                Self::Range(*first as usize..*last as usize + 1)
            }
            _ => Self::Each(places),
        }
    }

    /// The places of what begins at `starts` and lies below these.
    fn below(&self, starts: &[u32]) -> Self {
        match self {
            Self::Range(range) => Self::Range(starts[range.start] as usize..starts[range.end] as usize),
            Self::Each(places) => {
                let mut below = Vec::with_capacity(places.len());
                for place in places {
                    let place = *place as usize;
                    below.extend(starts[place]..starts[place + 1]);
                }
                Self::Each(below)
            }
        }
    }
}

impl Decoded {
    /// Prepares columns that have just been decoded. `false`: their numbers of values do not fit each other, as in a forged
    /// block, or they are fewer than the rows' places.
    pub fn find_starts(&mut self, fields: &Fields, places: usize) -> bool {
        let Self { values, starts, rows } = self;
        starts.resize_with(fields.levels.len(), Vec::new);
        *rows = places;
        if let Some(column) = fields.level_of.iter().position(|level| *level == 0) {
            *rows = values[column].values().len();
        }
        for (index, level) in fields.levels.iter().enumerate() {
            let above = level_len(starts, *rows, level.above);
            let Values::Ints(marks) = values[level.step.values].values() else { return false };
            let mut found = std::mem::take(&mut starts[index]);
            let fits = marks.len() == above && find_starts(marks, level.step.kind, &mut found);
            starts[index] = found;
            if !fits {
                return false;
            }
        }
        let fits = |(values, level): (&ColumnValues, &usize)| {
            values.values().len() == level_len(starts, *rows, *level)
        };
        *rows >= places && values.iter().zip(&fields.level_of).all(fits)
    }

    /// Appends the values of the rows in these places.
    pub fn append_to(&self, fields: &Fields, rows: Places, out: &mut [ColumnValues]) {
        let mut places = Vec::with_capacity(1 + fields.levels.len());
        places.push(rows);
        for (level, starts) in fields.levels.iter().zip(&self.starts) {
            let below = places[level.above].below(starts);
            places.push(below);
        }
        for ((values, level), out) in self.values.iter().zip(&fields.level_of).zip(out) {
            match &places[*level] {
                Places::Range(range) => out.append_range(values, range.clone()),
                Places::Each(places) => out.append_at(values, places),
            }
        }
    }

    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        self.values.iter().map(ColumnValues::memory).sum::<usize>()
            + self.starts.iter().map(|starts| starts.capacity() * size_of::<u32>()).sum::<usize>()
    }
}

/// Number of values at a level.
fn level_len(starts: &[Vec<u32>], rows: usize, level: usize) -> usize {
    match level.checked_sub(1) {
        None => rows,
        Some(index) => starts[index].last().map_or(0, |last| *last as usize),
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
        let Places::Each(below) = Places::of_rows(vec![2, 1, 0]).below(&starts) else { panic!() };
        assert_eq!(below, [2, 3, 4, 0, 1]);
        let Places::Range(below) = Places::of_rows(vec![1, 2]).below(&starts) else { panic!() };
        assert_eq!(below, 2..5);
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

    #[test]
    fn rows_that_ascend_without_gaps_are_a_range() {
        assert!(matches!(Places::of_rows(vec![4, 5, 6]), Places::Range(range) if range == (4..7)));
        assert!(matches!(Places::of_rows(vec![4, 6, 5, 7]), Places::Each(_)));
        assert!(matches!(Places::of_rows(vec![4, 4, 6]), Places::Each(_)));
        assert!(matches!(Places::of_rows(Vec::new()), Places::Each(_)));
    }
}
