//! The blocks of a segment that are still to be read, taken one by one from either end.

use crate::read::block::{Key, Order};
use crate::space::catalog::Part;
use crate::space::reader::OpenSegment;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

/// Blocks of an open segment that have not been loaded, in order.
#[derive(Debug, Clone)]
pub(crate) struct SegmentBlocks {
    pub segment: Arc<OpenSegment>,
    pub part: Arc<Part>,
    /// Runs of blocks that may hold wanted messages and have not been loaded.
    runs: VecDeque<Range<usize>>,
}

impl SegmentBlocks {
    pub fn new(
        segment: Arc<OpenSegment>,
        part: Arc<Part>,
        runs: impl IntoIterator<Item = Range<usize>>,
    ) -> Self {
        Self { segment, part, runs: runs.into_iter().collect() }
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

    /// Takes the next block in the order of reading.
    pub fn next(&mut self, order: Order) -> Option<usize> {
        if order == Order::TimeReversed {
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
