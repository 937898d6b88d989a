//! The blocks of a segment that are still to be read, taken one by one from either end.

use crate::read::block::{Key, Order};
use crate::space::catalog::Part;
use crate::space::reader::OpenSegment;
use std::collections::VecDeque;
use std::iter::once;
use std::ops::Range;
use std::sync::Arc;

/// Blocks of an open segment that have not been loaded, in order.
#[derive(Debug, Clone)]
pub(crate) struct SegmentBlocks {
    pub segment: Arc<OpenSegment>,
    pub part: Arc<Part>,
    /// Runs of blocks that may hold wanted messages and have not been loaded.
    runs: VecDeque<Range<usize>>,
    /// Whether the last blocks are taken first.
    is_reversed: bool,
    /// Whether others read what is between these blocks at about the same time.
    is_shared: bool,
}

impl SegmentBlocks {
    pub fn new(
        segment: Arc<OpenSegment>,
        part: Arc<Part>,
        runs: impl IntoIterator<Item = Range<usize>>,
    ) -> Self {
        let runs = runs.into_iter().collect();
        Self { segment, part, runs, is_reversed: false, is_shared: false }
    }

    /// The same, if others read what is between the blocks at about the same time.
    pub fn shared(mut self, is_shared: bool) -> Self {
        self.is_shared = is_shared;
        self
    }

    /// Key of the first message of the next block, or a smaller key.
    pub fn first(&self) -> Option<Key> {
        let block = self.segment.segment.blocks().get(self.runs.front()?.start)?;
        Some((block.time_min, block.sequence_min))
    }

    /// Whether no block is left.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Removes all runs of blocks, and returns them.
    pub fn take(&mut self) -> VecDeque<Range<usize>> {
        std::mem::take(&mut self.runs)
    }

    /// Minima and maxima of times and sequence numbers.
    pub fn bounds(&self) -> ((i64, i64), (u64, u64)) {
        let blocks =
            self.runs.iter().flat_map(|run| self.segment.segment.blocks().get(run.clone())).flatten();
        blocks.fold(((i64::MAX, i64::MIN), (u64::MAX, 0)), |(times, sequences), block| {
            let times = (times.0.min(block.time_min), times.1.max(block.time_max));
            (times, (sequences.0.min(block.sequence_min), sequences.1.max(block.sequence_max)))
        })
    }

    /// Returns a block that could not be read.
    pub fn put_back(&mut self, index: usize, order: Order) {
        match order {
            Order::TimeReversed => self.runs.push_back(index..index + 1),
            _ => self.runs.push_front(index..index + 1),
        }
    }

    /// Prepares to read a block that was taken, more of it than its head: where the segment is in an object store, what comes next is
    /// known by this.
    pub fn prepare(&self, index: usize) {
        let Some(object) = &self.segment.object else { return };
        let blocks = self.segment.segment.blocks();
        let rest: Box<dyn Iterator<Item = usize>> = match self.is_reversed {
            true if self.is_shared => Box::new((0..index).rev()),
            false if self.is_shared => Box::new(index + 1..blocks.len()),
            true => Box::new(self.runs.iter().rev().flat_map(|run| run.clone().rev())),
            false => Box::new(self.runs.iter().flat_map(Clone::clone)),
        };
        let indexes = once(index).chain(rest);
        let ranges = indexes
            .filter_map(|index| blocks.get(index))
            .map(|block| block.offset..block.offset + u64::from(block.len));
        object.plan(ranges, self.is_reversed);
    }

    /// Takes the next block in the order of reading.
    pub fn next(&mut self, order: Order) -> Option<usize> {
        self.is_reversed = order == Order::TimeReversed;
        if self.is_reversed {
            let run = self.runs.back_mut()?;
            run.end -= 1;
            let index = run.end;
            if run.start >= run.end {
                self.runs.pop_back();
            }
            return Some(index);
        }
        let run = self.runs.front_mut()?;
        let index = run.start;
        run.start += 1;
        if run.start >= run.end {
            self.runs.pop_front();
        }
        Some(index)
    }
}
