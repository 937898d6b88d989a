//! The decoder that the sources of a cursor share, and the memory and files that they may hold.
//!
//! A cursor over thousands of streams, or over thousands of segments whose times overlap, has as many pieces open at once.
//! One decoder serves them all. While the budget allows it, a piece holds a whole block or granule; then it holds a slice of
//! the rows and reads the block again for the next slice. So memory stays below a bound, whatever is merged: [`WHOLE_BYTES`]
//! and one block more, [`SLICES_BYTES`], the memory of the decoder and of a block being cut (about 16 MiB), and for each piece
//! [`SLICE_BYTES_MIN`] and its description. A message that is longer than a slice is held nevertheless.

use crate::counts::{note_block, note_blocks_skipped};
use crate::error::{Error, SegmentFailure};
use crate::read::block::{Block, Bounds, Key, Order};
use crate::read::fields::Fields;
use crate::read::filter::Filter;
use crate::read::segment_blocks::SegmentBlocks;
use crate::stream::reader::ReadContext;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use tapedb_segment::{self as segment, SegmentError, Selection};

/// Limit of all whole blocks.
pub(crate) const WHOLE_BYTES: usize = 48 << 20;
/// Limit of all slices, of equal size: every slice costs one more read of its block.
pub(crate) const SLICES_BYTES: usize = 64 << 20;
/// Minimum size of a slice.
pub(crate) const SLICE_BYTES_MIN: usize = 1 << 10;
/// Maximum size of a slice.
const SLICE_BYTES_MAX: usize = 256 << 10;
/// Limit of segments that are open while they wait.
const FILES_MAX: usize = 256;

/// A decoder, and the account of memory and files.
#[derive(Debug)]
pub(crate) struct MergeBudget {
    pub decoder: segment::Decoder,
    pub raw: segment::Block,
    /// Blocks are loaded here to be cut into slices.
    scratch: Option<Block>,
    whole: usize,
    slices: usize,
    /// Pieces that hold a slice.
    sharers: usize,
    /// Pieces that are expected to hold a slice.
    sharers_expected: usize,
    files: usize,
    limits: Limits,
    /// Whether whole blocks are compared with the checksum of their content, or with the reference decoder where they have
    /// none, because the rows are rewritten.
    pub verifies: bool,
    /// Where to count rows that are left out because they are deleted.
    pub removed: Option<Arc<AtomicU64>>,
    /// Whether a piece was read in slices: deleted rows may have been counted more than once.
    pub has_sliced: bool,
}

/// Limits of memory and files.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub whole: usize,
    pub slices: usize,
    pub files: usize,
}

/// What a piece holds: bytes of a whole block, or of a slice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Held {
    whole: usize,
    slice: usize,
}

impl Held {
    pub fn whole(bytes: usize) -> Self {
        Self { whole: bytes, slice: 0 }
    }

    pub fn slice(bytes: usize) -> Self {
        Self { whole: 0, slice: bytes }
    }
}

impl Default for MergeBudget {
    fn default() -> Self {
        Self::new(Limits { whole: WHOLE_BYTES, slices: SLICES_BYTES, files: FILES_MAX })
    }
}

impl MergeBudget {
    pub fn new(limits: Limits) -> Self {
        let (decoder, raw) = Default::default();
        Self {
            decoder,
            raw,
            scratch: None,
            whole: 0,
            slices: 0,
            sharers: 0,
            sharers_expected: 0,
            files: 0,
            limits,
            verifies: false,
            removed: None,
            has_sliced: false,
        }
    }

    /// Announces the number of sources that will be read at once: the first ones leave space for the others.
    pub fn expect(&mut self, sources: usize) {
        self.sharers_expected = sources;
    }

    /// Whether the next block may be held whole.
    pub fn may_hold_whole(&self) -> bool {
        self.whole < self.limits.whole
    }

    /// Size of the next slice of a piece that holds none.
    pub fn slice_bytes(&self) -> usize {
        let left = self.limits.slices.saturating_sub(self.slices);
        // Sources that were not announced leave space for as many more.
        let is_expected = self.sharers < self.sharers_expected;
        let shares = if is_expected { self.sharers_expected } else { 2 * (self.sharers + 1) };
        let share = self.limits.slices / shares;
        share.min(left).clamp(SLICE_BYTES_MIN, SLICE_BYTES_MAX)
    }

    /// Whether one more segment may stay open.
    pub fn may_open(&self) -> bool {
        self.files < self.limits.files
    }

    /// Whether a piece's memory may be reused by the next piece.
    pub fn may_reuse(&self, held: &Held) -> bool {
        held.slice == 0 && self.whole <= self.limits.whole / 2
    }

    /// Counts what a piece holds now.
    pub fn hold(&mut self, account: &mut Held, held: Held) {
        self.release(account);
        self.whole += held.whole;
        self.slices += held.slice;
        self.sharers += usize::from(held.slice > 0);
        *account = held;
    }

    /// Counts that a piece holds nothing any more.
    pub fn release(&mut self, account: &mut Held) {
        self.whole -= account.whole;
        self.slices -= account.slice;
        self.sharers -= usize::from(account.slice > 0);
        *account = Held::default();
    }

    /// Counts an open segment, if there is one.
    pub fn count_files(&mut self, is_open: bool) {
        self.files += usize::from(is_open);
    }

    /// Ends the count of a segment, if it was open.
    pub fn close(&mut self, was_open: bool) {
        self.files -= usize::from(was_open);
    }

    /// A block to load rows into that are then cut.
    pub fn scratch(&mut self, order: Order) -> Block {
        self.has_sliced = true;
        self.scratch.take().filter(|block| block.order() == order).unwrap_or_else(|| Block::new(order))
    }

    /// Returns the block.
    pub fn put_scratch(&mut self, scratch: Option<Block>) {
        self.scratch = scratch.or(self.scratch.take());
    }

    /// Bytes and files held, for tests.
    #[cfg(test)]
    pub fn held(&self) -> (usize, usize, usize) {
        (self.whole, self.slices, self.files)
    }

    /// Reads and decodes a block of a segment.
    ///
    /// # Errors
    /// Damage: no row of the block is loaded.
    pub fn load(
        &mut self,
        blocks: &SegmentBlocks,
        index: usize,
        (after, end): (Option<Key>, u64),
        (filter, context): (&mut Filter, ReadContext<'_>),
        block: &mut Block,
        errors: &mut VecDeque<Error>,
    ) -> Result<(), Error> {
        let segment = &blocks.segment.segment;
        let Some(entry) = segment.blocks().get(index) else { return Ok(()) };
        let failed = |error| SegmentFailure::of_block(&blocks.segment.path, entry, error);
        block.empty();
        let version = segment.header().schema_version;
        let is_other = version != context.stream.definition.schema_version;
        // First: where the part has been replaced, this fails and the new part is read.
        let mut deletions = context.space.deletions_of_part(&blocks.part)?;
        let sequences = entry.sequence_min..entry.sequence_max.saturating_add(1);
        deletions.retain(|deletion| deletion.overlaps(&sequences, entry.time_min, entry.time_max));
        let end = if blocks.part.sequences.end <= end { u64::MAX } else { end };
        let bounds = Bounds { after, end, deletions, removed: self.removed.clone() };
        // Slices hold rows, and rows of another version are converted one by one.
        let has_columns = !is_other && !self.verifies && self.may_hold_whole();
        let checks_below = context.stream.is_untrusted().then(|| context.stream.dictionary.len());
        if has_columns && let Some(mut fields) = filter.take_fields() {
            let selection = filter.selection(context);
            let decoded = self.decode((blocks, index), &mut fields, &selection, checks_below, block);
            filter.put_fields(Some(fields));
            match decoded.map_err(failed)? {
                Decoding::Columns => {
                    note_block();
                    block.load_decoded(bounds, entry.sequence_max);
                    return Ok(());
                }
                Decoding::Nothing => return Ok(()),
                Decoding::AsRows => {}
            }
        }
        let mut selection = filter.selection(context);
        if is_other {
            // Types have other ids there.
            selection.types = None;
        }
        note_block();
        blocks.prepare(index);
        segment.read_selected(index, &mut self.raw, &selection).map_err(failed)?;
        let rows = block.columns_mut();
        let decoded = self.decoder.rows(segment.plan(), &self.raw, &selection, rows);
        decoded.map_err(|damage| failed(damage.into()))?;
        if self.verifies {
            self.raw.prove_rows(segment.plan(), rows).map_err(|damage| failed(damage.into()))?;
        }
        if is_other {
            match context.stream.evolution(version) {
                Ok(evolution) => block.load_converted(&evolution, bounds, (filter, context), errors),
                // It would be the same each time.
                Err(error) if error.is_conversion() => {
                    block.empty();
                    errors.push_back(error);
                }
                Err(error) => return Err(error),
            }
        } else {
            block.load_columns(bounds, entry.sequence_max);
        }
        if context.stream.is_untrusted()
            && let Err(error) = block.check_rows(context)
        {
            block.empty();
            errors.push_back(error);
        }
        Ok(())
    }

    /// Decodes the wanted rows of a block without bodies, and their columns. `checks_below`: values are checked, and symbols are
    /// below this number; where one is wrong, or may be, rows are to be read, which names it.
    fn decode(
        &mut self,
        (blocks, index): (&SegmentBlocks, usize),
        fields: &mut Fields,
        selection: &Selection<'_>,
        checks_below: Option<u32>,
        block: &mut Block,
    ) -> Result<Decoding, SegmentError> {
        let segment = &blocks.segment.segment;
        let Self { decoder, raw, .. } = self;
        if fields.has_ranges() {
            segment.read_head(index, raw)?;
            if !fields.may_match(raw.head()) {
                note_blocks_skipped(1);
                return Ok(Decoding::Nothing);
            }
        }
        blocks.prepare(index);
        loop {
            segment.read_wanted(index, raw, selection, |type_id, column| fields.needs(type_id, column))?;
            let groups = &raw.head().groups;
            if groups.iter().any(|group| group.is_whole && group.type_id == fields.type_id) {
                return Ok(Decoding::AsRows);
            }
            let (rows, decoded) = block.decoded_mut();
            decoder.headers(raw, selection, rows)?;
            if rows.is_empty() {
                note_block();
                return Ok(Decoding::Nothing);
            }
            let is_step = |index| fields.levels.iter().any(|level| level.step.values == index);
            let is_slice = |index| checks_below.is_some() || is_step(index);
            let of = ((segment.plan(), &*raw), (fields.type_id, &fields.columns[..]));
            match decoder.lane_columns(of.0, of.1, (selection.symbols, None), is_slice, &mut decoded.columns)
            {
                Ok(()) => {}
                // Only its bytes state which column a column follows.
                Err(damage) if fields.needs_too(&damage) => continue,
                Err(damage) => return Err(damage.into()),
            }
            let places = rows.places_end();
            let fits = decoded.find_starts(fields, places)
                && checks_below
                    .is_none_or(|symbols| rows.symbols_end() <= symbols && decoded.are_right(fields));
            return Ok(if fits { Decoding::Columns } else { Decoding::AsRows });
        }
    }
}

/// The result of [`MergeBudget::decode`].
enum Decoding {
    Columns,
    /// No row is wanted.
    Nothing,
    /// It has no columns, or they do not fit each other, which reading rows reports.
    AsRows,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maintenance::context::MaintenanceContext;
    use crate::maintenance::pace::Pace;
    use crate::maintenance::seal::seal_next;
    use crate::stream::Stream;
    use crate::{Access, CursorBuilder, Database, StreamOptions};
    use std::sync::{Arc, Mutex};
    use tapedb_codec::{Record, SchemaBuilder};
    use tapedb_log::MemoryStorage;
    use tapedb_schema::Timestamp;

    const STREAMS: u64 = 20;
    const PARTS: u64 = 250;
    const ROWS: u64 = 30;
    const LIMITS: Limits = Limits { whole: 256 << 10, slices: 64 << 10, files: 16 };

    #[derive(Record, Debug, Default)]
    #[record(message)]
    struct Tick {
        number: u64,
        note: String,
    }

    /// Parts that all overlap, those of the last rounds still in the log.
    fn load(stream: &Stream, nth: u64) {
        let mut loader = stream.loader().unwrap();
        let (reader, writer) = (&*stream.state.reader, &**stream.state.writer().unwrap());
        let context = MaintenanceContext { stream: reader, writer, space: &writer.spaces[0] };
        for part in 0..PARTS {
            for row in 0..ROWS {
                let number = row * PARTS * STREAMS + part * STREAMS + nth;
                let tick = Tick { number, note: "x".repeat((number % 40) as usize) };
                loader
                    .append(["A", "B", "C"][(number % 3) as usize], Timestamp(number as i64), &tick)
                    .unwrap();
            }
            loader.flush().unwrap();
            context.space.writer.roll().unwrap();
            // Without merging, which would leave few.
            let _maintenance = context.space.hold_maintenance();
            if part < PARTS - 10 {
                assert_eq!(seal_next(context, &mut Pace::immediate()).unwrap(), Some(ROWS));
            }
        }
    }

    /// Checks the messages, and returns the maxima of bytes whole, bytes in slices, and open files.
    fn check(builder: CursorBuilder, mut expected: impl Iterator<Item = u64>) -> (usize, usize, usize) {
        let budget = Arc::new(Mutex::new(MergeBudget::new(LIMITS)));
        let mut cursor = builder.open_with(&budget).unwrap();
        let mut most = (0, 0, 0);
        while let Some(message) = cursor.next().unwrap() {
            let tick = message.decode::<Tick>().unwrap();
            assert_eq!(Some(tick.number), expected.next());
            assert_eq!((tick.number as i64, tick.note.len() as u64), (message.time().0, tick.number % 40));
            let held = budget.lock().unwrap().held();
            most = (most.0.max(held.0), most.1.max(held.1), most.2.max(held.2));
        }
        assert_eq!(expected.next(), None);
        assert_eq!(budget.lock().unwrap().held(), (0, 0, 0), "all is released");
        most
    }

    #[test]
    fn thousands_of_sources_keep_to_the_bounds() {
        let storage = Arc::new(MemoryStorage::new());
        let db = Database::open_on(storage, "db", Access::WriteWithoutMaintenance).unwrap();
        let schema = SchemaBuilder::new().with::<Tick>().finish();
        let names: Vec<String> = (0..STREAMS).map(|nth| format!("s{nth}")).collect();
        for (nth, name) in names.iter().enumerate() {
            let stream = db.create_stream(name, schema.clone(), StreamOptions::default()).unwrap();
            load(&stream, nth as u64);
        }
        let all = || db.cursor(names.iter().map(String::as_str)).unwrap();
        let count = STREAMS * PARTS * ROWS;
        let (whole, slices, files) = check(all(), 0..count);
        assert!((LIMITS.whole..LIMITS.whole + (64 << 10)).contains(&whole), "{whole}");
        // Vectors grow by doubling.
        let sources = (STREAMS * PARTS) as usize;
        assert!((1..LIMITS.slices + sources * SLICE_BYTES_MIN * 2).contains(&slices), "{slices}");
        assert!((1..=LIMITS.files).contains(&files), "{files}");
        check(all().reverse(), (0..count).rev());
        check(all().symbols(["B"]), (0..count).filter(|number| number % 3 == 1));
    }
}
