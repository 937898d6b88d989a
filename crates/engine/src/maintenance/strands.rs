//! Where segments are written in strands of blocks, each of symbols of its own: so that one symbol of many is in few blocks.
//!
//! It pays where single symbols are read, there are many of them, and so many messages that each strand has whole blocks: then one symbol
//! of a thousand is in a sixty-fourth of the blocks. A reader of all has more to merge, so a process does it only where it was asked to
//! ([`set_strands`]). Segments in strands that follow each other in time are merged by copying their blocks.

use crate::error::{Error, SegmentFailure};
use crate::maintenance::context::MaintenanceContext;
use crate::maintenance::forced;
use crate::maintenance::pace::Pace;
use crate::maintenance::part::{FillError, FilledSegment, Out, Work, fill, write_segment};
use crate::read::history::History;
use crate::space::catalog::{Content, Part};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tapedb_segment::{
    Block, BlockOptions, Decoder, Plan, Rows, SegmentError, SegmentHeader, SegmentWriter, Selection, Strands,
};

/// With fewer symbols a block has enough rows of each.
const SYMBOLS_MIN: u32 = 256;
/// With fewer messages blocks of strands would be small.
const MESSAGES_MIN: u64 = 1 << 21;

/// [`set_strands`].
static STRANDS: AtomicBool = AtomicBool::new(false);

/// Whether this process writes new segments of many symbols in strands (`docs/format/segment.md`); it does not unless this is called.
/// Every process reads them.
pub fn set_strands(are_written: bool) {
    STRANDS.store(are_written, Ordering::Relaxed);
}

/// The strands of a segment of so many messages; `None`: its blocks follow each other in time.
pub(super) fn strands_for(context: MaintenanceContext<'_>, messages: u64) -> Option<Strands> {
    if let Some(strands) = forced::strands() {
        return Some(strands);
    }
    let pays = STRANDS.load(Ordering::Relaxed)
        && messages >= MESSAGES_MIN
        && context.stream.dictionary.len() >= SYMBOLS_MIN;
    pays.then(Strands::default)
}

/// [`write_part`](super::part::write_part) of the messages of some parts, whose blocks are copied where they are in the same strands.
pub(super) fn write_merged(
    context: MaintenanceContext<'_>,
    parts: &[Arc<Part>],
    work: &Work,
    pace: &mut Pace<'_>,
) -> Result<Option<Part>, Error> {
    write_segment(context, work.sequences.clone(), |out, header| {
        if let Some(strands) = work.strands.filter(|_| work.copies_blocks)
            && may_copy(context, (parts, header.schema_version), strands)?
        {
            return copy(context, parts, (out, header), (work, strands), pace);
        }
        let mut history = History::of_parts(parts.iter().cloned());
        fill(context, &mut history, out, header, work, pace)
    })
}

/// Whether a segment of all blocks of these parts is one in strands: all have the same strands, follow each other in time, and have
/// lost no message. To be asked when the segment to be written has its number: deletions that are made later are carried out later.
///
/// # Errors
/// When a segment cannot be opened.
fn may_copy(
    context: MaintenanceContext<'_>,
    (parts, schema_version): (&[Arc<Part>], u16),
    strands: Strands,
) -> Result<bool, Error> {
    let mut last = None;
    for part in parts {
        let Some(content) = &part.content else { continue };
        let deletions = context.space.deletions_of_part(part)?;
        let is_cut = deletions
            .iter()
            .any(|deletion| deletion.overlaps(&part.sequences, content.time_min, content.time_max));
        let follows = last.is_none_or(|last| last < content.time_min);
        last = Some(content.time_max);
        if is_cut || !follows {
            return Ok(false);
        }
        let Some(opened) = context.space.open_segment(part, context.stream.schema_files())? else {
            return Ok(false);
        };
        let segment = &opened.segment;
        let is_in_strand = |(symbol, _): (u32, u64)| {
            segment.blocks_of(symbol).flatten().all(|block| segment.strand_of(block) == strands.of(symbol))
        };
        let is_alike = opened.failure().is_none()
            && segment.has_strands()
            && segment.header().schema_version == schema_version
            && segment.symbols().all(is_in_strand);
        if !is_alike {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Writes all blocks of these parts, which [`may_copy`]. `None`: stopped.
fn copy(
    context: MaintenanceContext<'_>,
    parts: &[Arc<Part>],
    (out, header): (Out, &SegmentHeader),
    (work, strands): (&Work, Strands),
    pace: &mut Pace<'_>,
) -> Result<Option<FilledSegment>, FillError> {
    let plan = Plan::new(context.stream.layouts.clone());
    let options = BlockOptions { tier: work.tier, ..BlockOptions::default() };
    let learned = context.space.learned(header.schema_version, work.tier);
    let writer = SegmentWriter::in_strands(out, plan, header, (options, strands))?;
    let mut writer = writer.with_learned(learned);
    let (mut block, mut decoder, mut rows) = (Block::new(), Decoder::new(), Rows::new());
    let (mut times, mut waiting) = (None::<(i64, i64)>, 0);
    for part in parts {
        let opened = context.space.open_segment(part, context.stream.schema_files())?;
        let Some(opened) = opened else { continue };
        let segment = &opened.segment;
        for (index, entry) in segment.blocks().iter().enumerate() {
            let failed = |error| SegmentFailure::of_block(&opened.path, entry, error);
            segment.read_block(index, &mut block).map_err(failed)?;
            decoder
                .rows(segment.plan(), &block, &Selection::default(), &mut rows)
                .and_then(|()| block.prove_rows(segment.plan(), &mut rows))
                .map_err(|damage| failed(damage.into()))?;
            writer.push_strand_block(&block, &rows)?;
            let of_block = (entry.time_min, entry.time_max);
            times = Some(times.map_or(of_block, |all| (all.0.min(of_block.0), all.1.max(of_block.1))));
            waiting += u64::from(entry.count);
            if waiting >= Pace::ROWS {
                waiting = 0;
                if !pace.proceed(context) {
                    return Ok(None);
                }
            }
        }
    }
    context.space.note_learned(header.schema_version, work.tier, writer.learned());
    let (_, written, proof) = writer.finish_with_proof()?;
    if written.messages != work.messages {
        return Err(SegmentError::Incomplete { need: work.messages, have: written.messages }.into());
    }
    let (time_min, time_max) = times.unwrap_or_default();
    let content = Content {
        number: 0,
        messages: written.messages,
        time_min,
        time_max,
        bytes: written.bytes,
        tier: work.tier,
        deleted_before: 0,
        object: None,
    };
    Ok(Some(FilledSegment { content, lost: work.lost, written, proof }))
}
