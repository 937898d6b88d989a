//! How many values a column has, which of them belong to one symbol, and which of them are wanted.
//!
//! The rows of a record type are one level; the non-null values of a field are a level below, the items of an array
//! another one. Writer and reader work out levels from the same columns, so nothing of them is stored.

use crate::encoding::GROUP;
use crate::head::Head;
use std::ops::Range;

/// The values of a column.
///
/// Always true: `ends` ascends strictly, and its last is `count`, or it is empty and `count` is 0. `keep` ascends without
/// overlaps; where `all` is set, everything is wanted and `keep` means nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct Level {
    pub count: usize,
    /// Ends of the runs of one symbol.
    pub ends: Vec<u32>,
    pub all: bool,
    /// What is wanted.
    pub keep: Vec<Range<u32>>,
}

impl Level {
    /// Makes it a level of one run.
    pub fn one_run(&mut self, count: usize) {
        self.begin();
        self.count = count;
        self.close_run(count);
    }

    /// Makes it the level of a block's own columns, with everything wanted. Where a record type is cut, each group of 128
    /// rows is a run, so that it is decoded without the others.
    pub fn rows_in_order(&mut self, head: &Head) {
        self.of_rows(head.count as usize, head.is_cut());
    }

    /// [`Self::rows_in_order`] of `count` rows.
    pub fn of_rows(&mut self, count: usize, is_cut: bool) {
        self.one_run(count);
        if is_cut {
            self.ends.clear();
            self.ends.extend((GROUP as u32..count as u32).step_by(GROUP));
            self.ends.push(count as u32);
        }
    }

    /// Makes it empty with everything wanted.
    pub fn begin(&mut self) {
        (self.count, self.all) = (0, true);
        self.ends.clear();
        self.keep.clear();
    }

    /// Ends a run at `end`; a run without values is none.
    pub fn close_run(&mut self, end: usize) {
        if end as u32 > self.ends.last().copied().unwrap_or(0) {
            self.ends.push(end as u32);
        }
    }

    /// How many values are wanted.
    pub fn kept(&self) -> usize {
        if self.all { self.count } else { self.keep.iter().map(|range| range.len()).sum() }
    }

    /// Everything of it.
    pub fn whole(&self) -> Self {
        Self { count: self.count, ends: self.ends.clone(), all: true, keep: Vec::new() }
    }

    /// Ends of the wanted runs among the wanted values, if runs are wanted as a whole or not at all.
    pub fn wanted_runs(&self) -> Option<Vec<u32>> {
        if self.all {
            return Some(self.ends.clone());
        }
        let (mut wanted, mut before, mut run) = (Vec::new(), 0, 0);
        for range in &self.keep {
            run += self.ends[run..].partition_point(|end| *end <= range.start);
            let start = if run == 0 { 0 } else { self.ends[run - 1] };
            if start != range.start {
                return None;
            }
            while run < self.ends.len() && self.ends[run] <= range.end {
                wanted.push(before + self.ends[run] - range.start);
                run += 1;
            }
            before += range.len() as u32;
            if wanted.last() != Some(&before) {
                return None;
            }
        }
        Some(wanted)
    }

    /// Place of a value among the wanted ones, if it is one.
    pub fn place_of(&self, value: usize) -> Option<usize> {
        if self.all {
            return Some(value);
        }
        let mut before = 0;
        for range in &self.keep {
            if range.contains(&(value as u32)) {
                return Some(before + value - range.start as usize);
            }
            before += range.len();
        }
        None
    }

    /// Moves the wanted ones of `values`, which has all of them, to its front.
    pub fn compact<T: Copy>(&self, values: &mut Vec<T>) {
        if self.all {
            return;
        }
        let mut to = 0;
        for range in &self.keep {
            values.copy_within(range.start as usize..range.end as usize, to);
            to += range.len();
        }
        values.truncate(to);
    }

    /// Makes it the level of those values of `parent` of which `is_member` is true. `members` becomes the places of the
    /// wanted ones among the wanted ones of `parent`.
    pub fn filter(&mut self, parent: &Level, members: &mut Vec<u32>, is_member: impl Fn(usize) -> bool) {
        self.begin();
        self.all = parent.all;
        members.clear();
        let (mut start, mut count, mut ranges, mut dense) = (0, 0, parent.keep.iter(), 0);
        let mut next = ranges.next();
        // Bounds of wanted ranges and of runs cut the values into pieces that are wanted or not as a whole.
        for &end in &parent.ends {
            let end = end as usize;
            while start < end {
                let (stop, wanted) = match next {
                    _ if parent.all => (end, true),
                    Some(range) if start < range.start as usize => (end.min(range.start as usize), false),
                    Some(range) => (end.min(range.end as usize), true),
                    None => (end, false),
                };
                let before = count;
                count += if wanted {
                    push_members(members, dense, start..stop, &is_member)
                } else {
                    (start..stop).filter(|i| is_member(*i)).count()
                };
                if wanted && !parent.all {
                    self.push_kept(before..count);
                }
                if wanted {
                    dense += (stop - start) as u32;
                }
                start = stop;
                if next.is_some_and(|range| range.end as usize <= start) {
                    next = ranges.next();
                }
            }
            self.close_run(count);
        }
        self.count = count;
    }

    /// Makes it the level of the items of arrays: `counts` of them in each value of `parent`.
    pub fn expand(&mut self, parent: &Level, counts: &[u32]) {
        self.begin();
        self.all = parent.all;
        let (mut start, mut total) = (0, 0);
        for &end in &parent.ends {
            total += sum(&counts[start..end as usize]);
            start = end as usize;
            self.close_run(total);
        }
        self.count = total;
        let (mut at, mut place) = (0, 0);
        for range in &parent.keep {
            at += sum(&counts[place..range.start as usize]);
            let end = at + sum(&counts[range.start as usize..range.end as usize]);
            self.push_kept(at..end);
            (at, place) = (end, range.end as usize);
        }
    }

    fn push_kept(&mut self, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        match self.keep.last_mut() {
            Some(last) if last.end as usize == range.start => last.end = range.end as u32,
            _ => self.keep.push(range.start as u32..range.end as u32),
        }
    }
}

/// Appends the places of members, counted from `dense`; returns how many. Without a branch for each value: which of them
/// are members is hard to foresee.
fn push_members(
    members: &mut Vec<u32>,
    dense: u32,
    values: Range<usize>,
    is_member: impl Fn(usize) -> bool,
) -> usize {
    let start = members.len();
    members.resize(start + values.len(), 0);
    let mut to = start;
    for (place, i) in (dense..).zip(values) {
        members[to] = place;
        to += usize::from(is_member(i));
    }
    members.truncate(to);
    to - start
}

fn sum(counts: &[u32]) -> usize {
    counts.iter().map(|&count| count as usize).sum()
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "a list of ranges that has one")]
mod tests {
    use super::*;

    fn level(ends: &[u32], keep: &[Range<u32>]) -> Level {
        Level {
            count: *ends.last().unwrap() as usize,
            ends: ends.into(),
            all: keep.is_empty(),
            keep: keep.into(),
        }
    }

    #[test]
    fn members_of_wanted_values_are_wanted() {
        let parent = level(&[4, 8, 10], &[2..6, 9..10]);
        let (mut child, mut members) = (Level::default(), Vec::new());
        child.filter(&parent, &mut members, |i| i % 2 == 1);
        assert_eq!((child.count, &child.ends[..], &child.keep[..]), (5, &[2, 4, 5][..], &[1..3, 4..5][..]));
        assert_eq!(members, [1, 3, 4]);
        assert_eq!(child.kept(), members.len());
    }

    #[test]
    fn all_members_of_everything() {
        let parent = level(&[2, 5], &[]);
        let (mut child, mut members) = (Level::default(), Vec::new());
        child.filter(&parent, &mut members, |i| i != 0 && i != 1);
        assert_eq!((child.count, &child.ends[..], child.all), (3, &[3][..], true));
        assert_eq!(members, [2, 3, 4]);
    }

    #[test]
    fn runs_are_wanted_as_a_whole_or_not() {
        assert_eq!(level(&[2, 5, 9, 12], &[2..5, 9..12]).wanted_runs(), Some(vec![3, 6]));
        assert_eq!(level(&[2, 5, 9], &[0..5]).wanted_runs(), Some(vec![2, 5]));
        assert_eq!(level(&[2, 5, 9], &[0..4]).wanted_runs(), None);
        assert_eq!(level(&[2, 5, 9], &[1..5]).wanted_runs(), None);
    }

    #[test]
    fn items_follow_their_arrays() {
        let mut child = Level::default();
        child.expand(&level(&[2, 3, 5], &[1..2, 4..5]), &[3, 1, 0, 2, 5]);
        assert_eq!((child.count, &child.ends[..], &child.keep[..]), (11, &[4, 11][..], &[3..4, 6..11][..]));
        let mut values: Vec<u32> = (0..11).collect();
        child.compact(&mut values);
        assert_eq!(values, [3, 6, 7, 8, 9, 10]);
    }
}
