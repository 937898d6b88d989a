//! Runs of blocks of a segment, by strand.

use std::collections::VecDeque;
use std::ops::Range;
use tapedb_segment::{ReadAt, Segment};

/// Blocks of a strand that are wanted.
pub(crate) struct StrandRuns {
    pub strand: usize,
    pub runs: VecDeque<Range<usize>>,
}

/// Divides runs of blocks of a segment by strand: the blocks of each follow each other in time. Strands without a block are left out.
pub(crate) fn by_strand<R: ReadAt>(
    segment: &Segment<R>,
    runs: impl IntoIterator<Item = Range<usize>>,
) -> Vec<StrandRuns> {
    if !segment.has_strands() {
        let runs: VecDeque<_> = runs.into_iter().collect();
        return if runs.is_empty() { Vec::new() } else { vec![StrandRuns { strand: 0, runs }] };
    }
    let mut strands: Vec<StrandRuns> = Vec::new();
    // The place in `strands` of each strand.
    let mut places: Vec<usize> = vec![usize::MAX; segment.strand_count()];
    for index in runs.into_iter().flatten() {
        let strand = segment.strand_of(index);
        if places[strand] == usize::MAX {
            places[strand] = strands.len();
            strands.push(StrandRuns { strand, runs: VecDeque::new() });
        }
        let runs = &mut strands[places[strand]].runs;
        match runs.back_mut() {
            Some(run) if run.end == index => run.end += 1,
            _ => runs.push_back(index..index + 1),
        }
    }
    strands
}
