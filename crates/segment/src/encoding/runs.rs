//! Runs of rows of one symbol, given by their ends.

use super::EncodingError;
use super::groups::GROUP;
use std::ops::Range;

/// Ends of runs that ascend and cover a column.
#[derive(Clone, Copy)]
pub(super) struct Runs<'a> {
    ends: &'a [u32],
    count: usize,
}

impl<'a> Runs<'a> {
    /// Checks `ends` against the `count` rows of a column. No ends: one run.
    pub(super) fn new(ends: &'a [u32], count: usize) -> Result<Self, EncodingError> {
        let last = ends.last().map_or(count, |&end| end as usize);
        if last != count {
            return Err(EncodingError::Shape { what: "end of the last run", need: count, have: last });
        }
        let mut start = 0;
        for &end in ends {
            if end <= start && count > 0 {
                let need = start as usize + 1;
                return Err(EncodingError::Shape { what: "end of a run", need, have: end as usize });
            }
            start = end;
        }
        Ok(Self { ends, count })
    }

    /// Number of runs; none in an empty column.
    pub(super) fn len(&self) -> usize {
        if self.count == 0 { 0 } else { self.ends.len().max(1) }
    }

    /// First row of run `run`.
    pub(super) fn start(&self, run: usize) -> Option<usize> {
        match run {
            _ if run >= self.len() => None,
            0 => Some(0),
            _ => Some(self.ends[run - 1] as usize),
        }
    }

    /// Whether each group of 128 rows, the last one perhaps shorter, is a run.
    pub(super) fn are_groups(&self) -> bool {
        let is_group = |(run, end): (usize, &u32)| *end as usize == self.count.min((run + 1) * GROUP);
        self.ends.len() == self.count.div_ceil(GROUP) && self.ends.iter().enumerate().all(is_group)
    }

    /// First rows of all runs.
    pub(super) fn starts(&self) -> impl Iterator<Item = usize> {
        (0..self.len()).filter_map(|run| self.start(run))
    }

    /// The rows of each run.
    pub(super) fn ranges(&self) -> impl Iterator<Item = Range<usize>> {
        let end = |run| self.start(run + 1).unwrap_or(self.count);
        (0..self.len()).filter_map(move |run| Some(self.start(run)?..end(run)))
    }

    /// The first run that begins at `row` or later.
    pub(super) fn first_from(&self, row: usize) -> usize {
        match row {
            0 => 0,
            _ => (1 + self.ends.partition_point(|&end| (end as usize) < row)).min(self.len()),
        }
    }

    /// The first row of the run that holds `row`.
    pub(super) fn start_of(&self, row: usize) -> usize {
        let run = self.ends.partition_point(|&end| end as usize <= row);
        self.start(run).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_by_row() {
        let runs = Runs::new(&[3, 4, 9], 9).unwrap();
        assert_eq!(runs.starts().collect::<Vec<_>>(), [0, 3, 4]);
        assert_eq!([0, 2, 3, 4, 8].map(|row| runs.start_of(row)), [0, 0, 3, 4, 4]);
        assert_eq!([0, 1, 3, 4, 5].map(|row| runs.first_from(row)), [0, 1, 1, 2, 3]);
    }

    #[test]
    fn no_ends_are_one_run() {
        let runs = Runs::new(&[], 5).unwrap();
        assert_eq!((runs.len(), runs.start_of(4), runs.first_from(1)), (1, 0, 1));
        assert_eq!(Runs::new(&[], 0).unwrap().len(), 0);
    }

    #[test]
    fn runs_must_ascend_and_cover() {
        for ends in [&[3, 3, 5][..], &[0, 5], &[5, 4], &[4]] {
            assert!(Runs::new(ends, 5).is_err(), "{ends:?}");
        }
    }
}
