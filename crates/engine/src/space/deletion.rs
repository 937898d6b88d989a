//! Deleted messages, which may still be in files.

use std::ops::Range;

/// A deleted range of times, of all symbols or some. Messages that arrive later are not deleted: the deletion ends at the last
/// sequence number of its moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Deletion {
    /// Deletions and segments of a space are numbered together, so the numbers state which came first.
    pub number: u64,
    /// First time deleted, nanoseconds since the Unix epoch.
    pub from: i64,
    /// Last time deleted.
    pub last: i64,
    /// Only messages with these sequence numbers.
    pub sequences: Range<u64>,
    /// Ids, ascending; `None`: all symbols.
    pub symbols: Option<Vec<u32>>,
}

impl Deletion {
    /// Whether a message is deleted.
    #[inline]
    pub fn covers(&self, time: i64, sequence: u64, symbol: u32) -> bool {
        (self.from..=self.last).contains(&time)
            && self.sequences.contains(&sequence)
            && self.symbols.as_ref().is_none_or(|symbols| symbols.binary_search(&symbol).is_ok())
    }

    /// Whether a message in these ranges of sequence numbers and times may be deleted.
    pub fn overlaps(&self, sequences: &Range<u64>, time_min: i64, time_max: i64) -> bool {
        self.from <= time_max
            && time_min <= self.last
            && self.sequences.start < sequences.end
            && sequences.start < self.sequences.end
    }

    /// Whether all messages in these ranges are deleted.
    pub fn covers_all(&self, sequences: &Range<u64>, time_min: i64, time_max: i64) -> bool {
        self.symbols.is_none()
            && self.from <= time_min
            && time_max <= self.last
            && self.sequences.start <= sequences.start
            && sequences.end <= self.sequences.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_those_that_are_stated() {
        let deletion = Deletion { number: 0, from: 5, last: 9, sequences: 10..20, symbols: Some(vec![2, 4]) };
        assert!(deletion.covers(5, 10, 2) && deletion.covers(9, 19, 4));
        assert!(!deletion.covers(4, 10, 2) && !deletion.covers(10, 10, 2));
        assert!(!deletion.covers(5, 9, 2) && !deletion.covers(5, 20, 2) && !deletion.covers(5, 10, 3));
        assert!(deletion.overlaps(&(0..11), 9, 30) && !deletion.overlaps(&(0..10), 9, 30));
        assert!(!deletion.overlaps(&(0..11), 10, 30));
    }
}
