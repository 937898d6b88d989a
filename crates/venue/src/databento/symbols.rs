//! Which symbol an instrument's number stands for, at which time.
//!
//! Always true: the intervals of a number are sorted by their begin and do not overlap.

use std::collections::HashMap;
use std::fmt::Write;

/// Most mappings of one file.
pub(super) const MAX_MAPPINGS: usize = 1 << 22;

/// From `start` until before `end` (nanoseconds), a number stands for a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Interval {
    start: u64,
    end: u64,
    name: usize,
}

/// Names of instruments by number and time.
#[derive(Debug, Default)]
pub(super) struct Symbols {
    intervals: HashMap<u32, Vec<Interval>>,
    names: Vec<Box<str>>,
    /// What was looked up last, with the number: most records are about the same instrument as the one before.
    last: Option<(u32, Interval)>,
    /// The name of a number that no mapping has.
    number: String,
    /// Mappings added.
    count: usize,
}

impl Symbols {
    /// Adds a name; a later one wins where intervals overlap. `false`: there are too many.
    pub(super) fn add(&mut self, number: u32, start: u64, end: u64, name: &str) -> bool {
        if start >= end || name.is_empty() {
            return true;
        }
        if self.count >= MAX_MAPPINGS {
            return false;
        }
        self.count += 1;
        self.last = None;
        if self.names.last().is_none_or(|last| **last != *name) {
            self.names.push(name.into());
        }
        let new = Interval { start, end, name: self.names.len() - 1 };
        let intervals = self.intervals.entry(number).or_default();
        if intervals.last().is_none_or(|last| last.end <= start) {
            intervals.push(new);
            return true;
        }
        let before = intervals.iter().filter(|old| old.start < start);
        let before = before.map(|old| Interval { end: old.end.min(start), ..*old });
        let after = intervals.iter().filter(|old| old.end > end);
        let after = after.map(|old| Interval { start: old.start.max(end), ..*old });
        *intervals = before.chain([new]).chain(after).collect();
        true
    }

    /// The name of a number at a time; without a mapping, the number.
    #[inline]
    pub(super) fn name(&mut self, number: u32, time: u64) -> &str {
        match self.find(number, time) {
            Some(name) => &self.names[name],
            None => {
                self.number.clear();
                let _ = write!(self.number, "{number}");
                &self.number
            }
        }
    }

    /// Whether a number has a name at a time.
    pub(super) fn has(&mut self, number: u32, time: u64) -> bool {
        self.find(number, time).is_some()
    }

    #[inline]
    fn find(&mut self, number: u32, time: u64) -> Option<usize> {
        if let Some((known, interval)) = self.last
            && known == number
            && (interval.start..interval.end).contains(&time)
        {
            return Some(interval.name);
        }
        let intervals = self.intervals.get(&number)?;
        let index = intervals.partition_point(|interval| interval.start <= time).checked_sub(1)?;
        let interval = *intervals.get(index).filter(|interval| time < interval.end)?;
        self.last = Some((number, interval));
        Some(interval.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_its_name_of_the_time() {
        let mut symbols = Symbols::default();
        assert!(
            symbols.add(7, 100, 200, "ESH4")
                && symbols.add(7, 200, 300, "ESM4")
                && symbols.add(8, 0, 9, "NQ")
        );
        let names = [99, 100, 199, 200, 299, 300].map(|time| symbols.name(7, time).to_string());
        assert_eq!(names, ["7", "ESH4", "ESH4", "ESM4", "ESM4", "7"]);
        assert_eq!(symbols.name(8, 5), "NQ");
        assert!(!symbols.has(8, 9));
        // A later mapping wins in the middle of an earlier one.
        assert!(symbols.add(7, 120, 130, "X"));
        let names = [119, 120, 129, 130, 250].map(|time| symbols.name(7, time).to_string());
        assert_eq!(names, ["ESH4", "X", "X", "ESH4", "ESM4"]);
    }

    #[test]
    fn empty_intervals_and_names_are_left_out() {
        let mut symbols = Symbols::default();
        assert!(symbols.add(7, 100, 100, "A") && symbols.add(7, 0, 9, ""));
        assert_eq!(symbols.name(7, 5), "7");
    }
}
