//! Verifies the blocks of segments: that their bytes are those that were written, that they decode to the rows that the
//! writer was given, and that heads and index describe them correctly.
//!
//! Three things prove rows. The checksum of the content, which blocks have since version 2 of the format, was computed from
//! the messages as they arrived. The reference decoder shares no code with the one that serves reads: both return the same
//! rows, or one of them is wrong. And the facts in the head (times, sequence numbers, minima and maxima) were computed before
//! anything was encoded. Blocks of version 1 have the last two only.

use crate::admin::checker::{BlockScratch, Checker};
use crate::admin::finding::{CheckDepth, CheckEvent, Finding, REPORT, RESTORE};
use crate::admin::stored::{StoredPart, StoredSegment};
use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};
use tapedb_codec::dynamic::Layouts;
use tapedb_segment::{Block, BlockEntry, Damage, Rows, SegmentError, Selection};

const KEEP: &str =
    "keep the file, which is right, and report this: this version of TapeDB decodes it wrongly";

/// What proves that the rows of a whole block are right.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Proof {
    /// The checksum of its content.
    pub by_content: bool,
    /// The reference decoder, and the facts in the head about its columns.
    pub by_reference: bool,
    /// Version 0.1 wrote the block, and decoded it to wrong values.
    pub was_misread: bool,
}

/// What is wrong with a block: offset, what, for how many messages, and what to do.
type Wrong = (u64, String, u64, &'static str);

/// What the index of a segment must state of its symbols: messages, and runs of blocks that have them.
#[derive(Default)]
pub(crate) struct SymbolBlocks(BTreeMap<u32, (u64, Vec<Range<usize>>)>);

impl<T: FnMut(CheckEvent) -> ControlFlow<()>> Checker<'_, T> {
    /// Verifies a block; what proves its rows, or `None` if something is wrong. `last`: time and sequence number of the message
    /// before it.
    pub fn check_block(
        &mut self,
        part: &StoredPart,
        segment: &StoredSegment,
        index: usize,
        last: &mut Option<(i64, u64)>,
        symbols: &mut SymbolBlocks,
    ) -> ControlFlow<(), Option<Proof>> {
        let (entry, mut scratch) = (segment.blocks()[index], std::mem::take(&mut self.scratch));
        let found = self.wrong_block(part, segment, index, &mut scratch, last);
        if found.is_ok()
            && scratch.decoder.lanes(&scratch.block, &Selection::default(), &mut scratch.lanes).is_ok()
        {
            symbols.add(index, &scratch.lanes);
        }
        self.scratch = scratch;
        let path = part.path.clone().unwrap_or_default();
        let wrong = match found {
            Ok(proof) => return ControlFlow::Continue(Some(proof)),
            Err(wrong) => wrong,
        };
        for (offset, what, messages, now) in wrong {
            let (bytes, first_sequence) = (entry.len.into(), Some(entry.sequence_min));
            let finding = Finding { offset, bytes, now, ..Finding::damage(path.clone(), what) };
            self.find(Finding { first_sequence, messages: Some(messages), ..finding })?;
        }
        ControlFlow::Continue(None)
    }

    fn wrong_block(
        &mut self,
        part: &StoredPart,
        segment: &StoredSegment,
        index: usize,
        scratch: &mut BlockScratch,
        last: &mut Option<(i64, u64)>,
    ) -> Result<Proof, Vec<Wrong>> {
        let entry = &segment.blocks()[index];
        let count = u64::from(entry.count);
        let BlockScratch { decoder, block, rows, .. } = scratch;
        if let Err(error) = segment.read_block(index, block) {
            let offset = match &error {
                SegmentError::Damaged(damage) => damage.offset,
                _ => entry.offset,
            };
            return Err(vec![(offset, error.to_string(), count, RESTORE)]);
        }
        let damaged = block.damaged_columns();
        if !damaged.is_empty() {
            // Other columns can be read; whole messages cannot be put together.
            let messages = |i: usize| if i == 0 { count } else { 0 };
            let damaged = damaged.iter().enumerate();
            return Err(damaged
                .map(|(i, damage)| (damage.offset, damage.to_string(), messages(i), RESTORE))
                .collect());
        }
        let wrong = |damage: Damage, now| vec![(damage.offset, damage.to_string(), count, now)];
        decoder
            .rows(segment.plan(), block, &Selection::default(), rows)
            .map_err(|damage| wrong(damage, self.advice(segment, block)))?;
        let by_content =
            block.check_content(rows).map_err(|damage| wrong(damage, self.advice(segment, block)))?;
        if let Some((messages, what)) =
            self.wrong_rows_of(part, (entry, segment.plan().layouts()), rows, last)
        {
            return Err(vec![(entry.offset, what, messages, REPORT)]);
        }
        let by_reference = match self.depth {
            CheckDepth::Quick => false,
            CheckDepth::Full => !by_content,
            CheckDepth::Thorough => true,
        };
        if by_reference {
            block.check_reference(segment.plan(), rows).map_err(|what| {
                let what = format!("the reference decoder returns other rows: {what}");
                vec![(entry.offset, what, count, REPORT)]
            })?;
            decoder.check_ranges(segment.plan(), block).map_err(|damage| wrong(damage, REPORT))?;
        }
        let was_misread = !by_content
            && self.depth != CheckDepth::Quick
            && decoder.was_misread_by_0_1(segment.plan(), block).unwrap_or(false);
        Ok(Proof { by_content, by_reference, was_misread })
    }

    /// What to do about a block whose rows are not those that were written: the bytes are right if the reference decoder
    /// returns rows that match the checksum of the content.
    fn advice(&self, segment: &StoredSegment, block: &Block) -> &'static str {
        let by_reference = block.content_by_reference(segment.plan()).ok();
        match by_reference.is_some() && by_reference == block.head().content {
            true => KEEP,
            false => REPORT,
        }
    }

    /// How many messages of a block are wrong, and what is wrong with the first.
    fn wrong_rows_of(
        &mut self,
        part: &StoredPart,
        (entry, layouts): (&BlockEntry, &Layouts),
        rows: &Rows,
        last: &mut Option<(i64, u64)>,
    ) -> Option<(u64, String)> {
        if rows.len() != entry.count as usize {
            return Some((
                entry.count.into(),
                format!("has {} rows, its head states {}", rows.len(), entry.count),
            ));
        }
        let (mut wrong, mut first) = (0, None);
        for row in 0..rows.len() {
            let header = rows.header(row);
            let key = (header.time, header.sequence);
            let what = if last.is_some_and(|last| key <= last) {
                Some(format!("is not after the one before it, of time and sequence number {last:?}"))
            } else if !(part.first_sequence..part.next_sequence).contains(&header.sequence) {
                Some("is outside of the segment's sequence numbers".into())
            } else if !(entry.time_min..=entry.time_max).contains(&header.time) {
                Some("is outside of the times of its block".into())
            } else {
                self.wrong_message((header.symbol, header.type_id), rows.body(row), layouts)
            };
            *last = Some(key);
            if let Some(what) = what {
                wrong += 1;
                first.get_or_insert_with(|| format!("message {}: {what}", header.sequence));
            }
        }
        first.map(|what| (wrong, what)).or_else(|| wrong_bounds(entry, rows))
    }

    /// Compares the symbols of the index with those of the blocks, all of which are whole.
    pub fn check_symbols_of(
        &mut self,
        segment: &StoredSegment,
        symbols: &SymbolBlocks,
        part: &StoredPart,
    ) -> ControlFlow<()> {
        let stated =
            segment.symbols().map(|(symbol, count)| (symbol, count, segment.blocks_of(symbol).collect()));
        let stated: Vec<(u32, u64, Vec<Range<usize>>)> = stated.collect();
        let found = symbols.0.iter().map(|(symbol, (count, blocks))| (*symbol, *count, blocks));
        if stated.iter().map(|(symbol, count, blocks)| (*symbol, *count, blocks)).eq(found) {
            return ControlFlow::Continue(());
        }
        let what = "the index names other symbols, or other blocks for one, than the blocks have".into();
        let path = part.path.clone().unwrap_or_default();
        self.find(Finding { now: REPORT, ..Finding::damage(path, what) })
    }
}

/// Whether the first and last times and sequence numbers are those in the head, which were computed before times were encoded.
fn wrong_bounds(entry: &BlockEntry, rows: &Rows) -> Option<(u64, String)> {
    let times = (rows.times().first().copied(), rows.times().last().copied());
    let sequences = || (0..rows.len()).map(|row| rows.sequence(row));
    let sequences = (sequences().min(), sequences().max());
    let all = |what| Some((entry.count.into(), what));
    if times != (Some(entry.time_min), Some(entry.time_max)) {
        return all(format!(
            "has rows of times {times:?}, its head states {} and {}",
            entry.time_min, entry.time_max
        ));
    }
    if sequences != (Some(entry.sequence_min), Some(entry.sequence_max)) {
        return all(format!(
            "has sequence numbers {sequences:?}, its head states {} and {}",
            entry.sequence_min, entry.sequence_max
        ));
    }
    None
}

impl SymbolBlocks {
    /// Adds the lanes of a block.
    fn add(&mut self, index: usize, lanes: &[(u16, u32, u32)]) {
        for (_, symbol, count) in lanes {
            let (messages, blocks) = self.0.entry(*symbol).or_default();
            *messages += u64::from(*count);
            match blocks.last_mut() {
                Some(run) if run.end > index => {}
                Some(run) if run.end == index => run.end += 1,
                _ => blocks.push(index..index + 1),
            }
        }
    }
}
