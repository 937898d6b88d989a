//! Aggregates of rows that come in runs of one group: a group is a range of rows, so nothing is looked up for a row.
//!
//! What they leave is what DataFusion's first step of an aggregation leaves: states, which its second step puts together.

use datafusion::arrow::array::{ArrayRef, BooleanArray};
use datafusion::error::Result;
use std::cell::OnceCell;
use std::ops::Range;

/// Some neighbouring rows, and the groups that they are in.
#[derive(Debug)]
pub(crate) struct Runs<'a> {
    /// Where each group ends; it begins where the one before it ends.
    ends: &'a [usize],
    /// The rows.
    rows: Range<usize>,
    /// Their times, which ascend within each group.
    times: &'a [i64],
    /// The group of the first row.
    first: usize,
    /// The group of each row, for functions that take them so.
    groups: OnceCell<Vec<usize>>,
}

impl<'a> Runs<'a> {
    /// Rows that are in groups that end there; the last group ends behind them. `times` are those of all rows, and ascend within each
    /// group.
    pub fn new(ends: &'a [usize], rows: Range<usize>, times: &'a [i64]) -> Self {
        let first = ends.partition_point(|end| *end <= rows.start);
        let times = &times[rows.clone()];
        Self { ends, rows, times, first, groups: OnceCell::new() }
    }

    /// Times of the rows, which ascend within each group.
    pub fn times(&self) -> &[i64] {
        self.times
    }

    /// Number of all groups.
    pub fn total(&self) -> usize {
        self.ends.len()
    }

    /// Groups, and their rows, counted from the first one of these.
    pub fn iter(&self) -> impl Iterator<Item = (usize, Range<usize>)> {
        let Range { start: from, end: to } = self.rows;
        let mut start = from;
        let groups = self.ends.iter().enumerate().skip(self.first);
        groups.take_while(move |(group, _)| *group == 0 || self.ends[group - 1] < to).map(
            move |(group, end)| {
                let end = (*end).min(to);
                let rows = start - from..end - from;
                start = end;
                (group, rows)
            },
        )
    }

    /// The group of each row.
    pub fn groups(&self) -> &[usize] {
        self.groups.get_or_init(|| {
            let mut groups = Vec::with_capacity(self.rows.len());
            for (group, rows) in self.iter() {
                groups.resize(groups.len() + rows.len(), group);
            }
            groups
        })
    }
}

/// The states of the groups of a block.
pub(crate) trait RunStates: Send {
    /// Adds rows.
    ///
    /// # Errors
    /// When a value cannot be an argument, or a state does not fit its type.
    fn add(&mut self, columns: &[ArrayRef], filter: Option<&BooleanArray>, runs: &Runs<'_>) -> Result<()>;

    /// Adds ranges of rows, each to the group of its number; there are so many groups. Only to states that
    /// [`of_ranges`](super::of_ranges) gave.
    ///
    /// # Errors
    /// As [`RunStates::add`].
    fn add_ranges(
        &mut self,
        columns: &[ArrayRef],
        ranges: &[(usize, Range<usize>)],
        total: usize,
    ) -> Result<()>;

    /// The results of so many groups. It has none after that.
    ///
    /// # Errors
    /// When one does not fit its type.
    fn finish(&mut self, total: usize) -> Result<ArrayRef>;

    /// The states of all groups so far, as columns. It has none after that.
    ///
    /// # Errors
    /// When they cannot be columns.
    fn take(&mut self) -> Result<Vec<ArrayRef>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_cut_where_the_rows_end() {
        let ends = [3, 4, 9];
        let found = |rows| Runs::new(&ends, rows, &[0; 9]).iter().collect::<Vec<_>>();
        assert_eq!(found(0..9), [(0, 0..3), (1, 3..4), (2, 4..9)]);
        assert_eq!(found(1..4), [(0, 0..2), (1, 2..3)]);
        assert_eq!(found(3..5), [(1, 0..1), (2, 1..2)]);
        assert_eq!(found(5..6), [(2, 0..1)]);
        assert_eq!(Runs::new(&ends, 2..6, &[0; 9]).groups(), [0, 1, 2, 2]);
    }
}
