//! Chunks of columns, from segments and logs.
//!
//! A block of a segment that is wanted whole becomes a chunk without becoming rows. Wanted rows of everything else (blocks cut
//! by times or deletions, and the log) are packed into a new block, whose columns are read like those of any other.
//!
//! Always true: each message is in at most one piece that has not been read. Where files are replaced before they have been
//! read to the end, what has been read of the old ones is in `taken`, and is left out of the new ones.

use crate::error::{Error, SegmentFailure, Unreadable};
use crate::read::block::{Block, Bounds, Key, LAST, Order};
use crate::read::fields::Fields;
use crate::read::filter::Filter;
use crate::read::merge_budget::MergeBudget;
use crate::read::segment_blocks::SegmentBlocks;
use crate::space::catalog::Part;
use crate::space::deletion::Deletion;
use crate::space::lost_messages;
use crate::space::reader::{SpaceReader, end_of};
use crate::stream::reader::{ReadContext, StreamReader};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use tapedb_log::Granule;
use tapedb_segment::{
    self as segment, BlockBuilder, BlockOptions, ColumnValues, Damage, Flaw, Plan, RowHeader,
};

/// Limit of segments that are open for their next block.
const OPEN_MAX: usize = 64;

/// Consecutive rows of one symbol in a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SymbolRun {
    /// Id of the symbol in the stream's dictionary.
    pub symbol: u32,
    /// Index of the first row after the run.
    pub end: u32,
}

/// The columns of a chunk. Filling it again reuses the memory.
#[derive(Debug, Default)]
pub(crate) struct Filled {
    /// The source of the rows.
    pub source: usize,
    pub times: Vec<i64>,
    pub sequences: Vec<u64>,
    pub runs: Vec<SymbolRun>,
    /// As [`Fields::columns`].
    pub values: Vec<ColumnValues>,
}

/// One space of a stream, as columns are read from it.
#[derive(Debug)]
pub(crate) struct ColumnSource {
    pub stream: Arc<StreamReader>,
    pub space: Arc<SpaceReader>,
    pub plan: Arc<Plan>,
    pub fields: Fields,
    filter: Filter,
    /// Sequence number after the last message at the moment of opening.
    end: u64,
    generation: u64,
    /// Messages of pieces that have been read.
    done: Vec<Range<u64>>,
    /// What has been read of files that have been replaced: messages with these sequence numbers, up to a key.
    taken: Vec<(Range<u64>, Key)>,
}

/// Chunks in the order of their first times.
#[derive(Debug)]
pub(crate) struct Chunks {
    pub sources: Vec<ColumnSource>,
    pieces: Vec<Piece>,
    /// Pieces that are not finished.
    turns: BinaryHeap<Reverse<Turn>>,
    /// Number of open segments, and its limit.
    open: usize,
    open_max: usize,
    /// The source whose rows are in `block`, to be packed, and the length of `taken` that applies to them.
    packing: Option<(usize, usize)>,
    block: Block,
    packer: Packer,
    errors: VecDeque<Error>,
}

/// When a piece is read next: at its first time that has not been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Turn {
    time: i64,
    source: usize,
    sequence: u64,
    piece: usize,
}

#[derive(Debug)]
enum Piece {
    Granule(Granule),
    Segment(Box<InSegment>),
}

#[derive(Debug)]
struct InSegment {
    part: Arc<Part>,
    /// `None`: not opened yet, or closed to keep few files open.
    blocks: Option<SegmentBlocks>,
    /// Length of `taken` when the piece was planned; later entries are about the piece itself.
    taken: usize,
    /// Blocks before this one are done.
    next: usize,
    /// The last message of those blocks, noted when the segment is closed.
    last: Option<Key>,
}

/// Reads columns, and packs rows into blocks to be read.
#[derive(Debug)]
pub(crate) struct Packer {
    budget: MergeBudget,
    builder: BlockBuilder,
    packed: Vec<u8>,
    row_times: Vec<i64>,
    row_sequences: Vec<i64>,
    sequences: Vec<i64>,
    found: Vec<(u16, u32, u32)>,
    pub with_sequences: bool,
}

impl ColumnSource {
    pub fn new(
        (stream, space): (Arc<StreamReader>, Arc<SpaceReader>),
        plan: Arc<Plan>,
        fields: Fields,
        filter: Filter,
    ) -> Self {
        let (done, taken) = (Vec::new(), Vec::new());
        Self { stream, space, plan, fields, filter, end: u64::MAX, generation: 0, done, taken }
    }

    /// Whether all rows of a block are wanted, and it has the columns of this schema.
    ///
    /// # Errors
    /// As [`Space::deletions_of_part`].
    fn wants_whole(&self, blocks: &SegmentBlocks, index: usize, taken: usize) -> Result<bool, Error> {
        if self.stream.is_untrusted() {
            // Rows are checked, columns are not.
            return Ok(false);
        }
        let deletions = self.space.deletions_of_part(&blocks.part)?;
        let Some(entry) = blocks.segment.segment.blocks().get(index) else { return Ok(false) };
        let sequences = entry.sequence_min..entry.sequence_max.saturating_add(1);
        let is_taken = |(taken, last): &(Range<u64>, Key)| {
            taken.start < sequences.end && sequences.start < taken.end && entry.time_min <= last.0
        };
        let is_whole = blocks.segment.segment.header().schema_version
            == self.stream.definition.schema_version
            && self.filter.wants_all_times(entry.time_min, entry.time_max)
            && sequences.end <= self.end
            && !self.taken[..taken].iter().any(is_taken);
        let is_cut = |deletion: &Arc<Deletion>| deletion.overlaps(&sequences, entry.time_min, entry.time_max);
        Ok(is_whole && !deletions.iter().any(is_cut))
    }
}

impl Chunks {
    pub fn new(sources: Vec<ColumnSource>, with_sequences: bool) -> Self {
        let mut chunks = Self {
            sources,
            pieces: Vec::new(),
            turns: BinaryHeap::new(),
            open: 0,
            open_max: OPEN_MAX,
            packing: None,
            block: Block::new(Order::Time),
            packer: Packer::new(with_sequences),
            errors: VecDeque::new(),
        };
        for index in 0..chunks.sources.len() {
            let (catalog, snapshot) = chunks.sources[index].space.view();
            chunks.sources[index].end = end_of(&catalog, &snapshot);
            let missing = chunks.plan(index);
            chunks.errors.extend(missing);
        }
        chunks
    }

    /// Lists the pieces of a source; returns the losses among them.
    fn plan(&mut self, index: usize) -> VecDeque<Error> {
        let Self { sources, pieces, turns, .. } = self;
        let ColumnSource { space, filter, end, generation, taken, .. } = &mut sources[index];
        let (catalog, snapshot) = space.view();
        *generation = catalog.generation;
        let mut add = |time: i64, sequence: u64, piece: Piece| {
            turns.push(Reverse(Turn { time, source: index, sequence, piece: pieces.len() }));
            pieces.push(piece);
        };
        for part in catalog.parts_between(0..*end) {
            let Some(content) = &part.content else { continue };
            if filter.wants_times(content.time_min, content.time_max) {
                let piece =
                    InSegment { part: part.clone(), blocks: None, taken: taken.len(), next: 0, last: None };
                add(content.time_min, part.sequences.start, Piece::Segment(Box::new(piece)));
            }
        }
        let in_log =
            |granule: &&Granule| granule.next_sequence() > catalog.sealed && granule.first_sequence < *end;
        for granule in snapshot.iter().filter(in_log) {
            if filter.wants_times(granule.time_min, granule.time_max) {
                add(granule.time_min, granule.first_sequence, Piece::Granule(*granule));
            }
        }
        lost_messages::below(*end, &space.log, (&catalog, &snapshot))
    }

    /// Replaces `out` by the next chunk. `false`: there is none left.
    ///
    /// # Errors
    /// Damage, once each; the next call continues after it. Errors of the system: the next call tries again.
    pub fn next(&mut self, out: &mut Filled) -> Result<bool, Error> {
        loop {
            if let Some(error) = self.errors.pop_front() {
                return Err(error);
            }
            if let Some((source, taken)) = self.packing {
                if self.pack(source, taken, out)? {
                    return Ok(true);
                }
                self.packing = None;
                continue;
            }
            let Some(Reverse(turn)) = self.turns.pop() else { return Ok(false) };
            match self.take(turn, out) {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(error) if error.is_damage() => return Err(error),
                Err(error) => {
                    self.turns.push(Reverse(turn));
                    self.recover_from(error, turn.source)?;
                }
            }
        }
    }

    /// # Errors
    /// The same error, unless the files that it is about have been replaced.
    #[cold]
    fn recover_from(&mut self, error: Error, source: usize) -> Result<(), Error> {
        let gone = error.is_missing_file().then(|| self.sources[source].stream.check_not_gone().err());
        let error = gone.flatten().unwrap_or(error);
        if error.is_gone() {
            self.turns.retain(|Reverse(turn)| turn.source != source);
        }
        if !error.is_missing_file() {
            return Err(error);
        }
        let space = &self.sources[source].space;
        space.refresh_catalog()?;
        if space.catalog().generation == self.sources[source].generation {
            return Err(if error.is_trimmed() { self.skip_dropped(source) } else { error });
        }
        self.replan(source)
    }

    /// Skips what a transient stream has dropped before it was read; the error states how many messages that is.
    #[cold]
    fn skip_dropped(&mut self, source: usize) -> Error {
        let (pieces, ColumnSource { stream, space, end, .. }) = (&self.pieces, &self.sources[source]);
        let (first_sequence, mut messages) = (space.log.first_sequence(), 0);
        self.turns.retain(|Reverse(turn)| match &pieces[turn.piece] {
            Piece::Granule(granule) if turn.source == source && granule.next_sequence() <= first_sequence => {
                messages += granule.next_sequence().min(*end) - granule.first_sequence;
                false
            }
            _ => true,
        });
        stream.dropped(messages, first_sequence)
    }

    /// Lists again what has not been read.
    ///
    /// # Errors
    /// When the last key that was read of an open segment cannot be found: the next call tries again.
    fn replan(&mut self, source: usize) -> Result<(), Error> {
        let Self { sources, pieces, turns, open, packer, .. } = self;
        let of_source = |turn: &&Reverse<Turn>| turn.0.source == source;
        for Reverse(turn) in turns.iter().filter(of_source) {
            if let Piece::Segment(piece) = &mut pieces[turn.piece] {
                piece.note_last(packer)?;
            }
        }
        let ColumnSource { taken, done, .. } = &mut sources[source];
        taken.extend(done.drain(..).map(|sequences| (sequences, LAST)));
        for Reverse(turn) in turns.iter().filter(of_source) {
            if let Piece::Segment(piece) = &mut pieces[turn.piece] {
                taken.extend(piece.last.map(|last| (piece.part.sequences.clone(), last)));
                *open -= usize::from(piece.blocks.take().is_some());
            }
        }
        turns.retain(|Reverse(turn)| turn.source != source);
        self.plan(source);
        Ok(())
    }

    /// Reads the next block of a piece. `true`: `out` has a chunk; `false`: call again.
    ///
    /// # Errors
    /// Damage: the piece continues after it. Any other error: the piece is unchanged.
    fn take(&mut self, turn: Turn, out: &mut Filled) -> Result<bool, Error> {
        match self.pieces[turn.piece] {
            Piece::Granule(granule) => self.take_granule(turn.source, &granule),
            Piece::Segment(_) => self.take_block(turn, out),
        }
    }

    fn take_granule(&mut self, index: usize, granule: &Granule) -> Result<bool, Error> {
        let Self { sources, block, errors, .. } = self;
        let source = &mut sources[index];
        let at = ReadContext { stream: &source.stream, space: &source.space };
        let sequences = granule.first_sequence..granule.next_sequence();
        let deletions = at.space.deletions_in_log(&sequences, (granule.time_min, granule.time_max))?;
        block.empty();
        at.stream.unless_gone(at.space.log.read(granule, block.bytes_mut()))?;
        let bounds = Bounds { after: None, end: source.end, deletions };
        block.load(&granule.span(), granule.sorted, bounds, (&mut source.filter, at), errors);
        source.done.push(sequences);
        self.packing = Some((index, source.taken.len()));
        Ok(false)
    }

    fn take_block(&mut self, turn: Turn, out: &mut Filled) -> Result<bool, Error> {
        let Self { sources, pieces, turns, open, open_max, packer, block, packing, errors } = self;
        let Piece::Segment(piece) = &mut pieces[turn.piece] else { return Ok(false) };
        let source = &mut sources[turn.source];
        if piece.blocks.is_none() {
            errors.extend(piece.open(source)?);
            *open += usize::from(piece.blocks.is_some());
        }
        let Some(index) = piece.blocks.as_mut().and_then(|blocks| blocks.next(Order::Time)) else {
            *open -= usize::from(piece.blocks.take().is_some());
            source.done.push(piece.part.sequences.clone());
            return Ok(false);
        };
        let taken = match &piece.blocks {
            Some(blocks) => match source.wants_whole(blocks, index, piece.taken) {
                Ok(true) => packer.read(blocks, index, source, out),
                wanted => wanted.map(|_| Taken::AsRows),
            },
            None => Ok(Taken::AsRows),
        };
        let taken = match (taken, &piece.blocks) {
            (Ok(Taken::AsRows), Some(blocks)) => {
                let at = ReadContext { stream: &source.stream, space: &source.space };
                let loaded = packer.budget.load(
                    blocks,
                    index,
                    (None, source.end),
                    (&mut source.filter, at),
                    block,
                    errors,
                );
                loaded.map(|()| {
                    *packing = Some((turn.source, piece.taken));
                    false
                })
            }
            (taken, _) => taken.map(|taken| matches!(taken, Taken::Chunk)),
        };
        out.source = turn.source;
        if taken.as_ref().is_err_and(|error| !error.is_damage()) {
            piece.blocks.as_mut().into_iter().for_each(|blocks| blocks.put_back(index, Order::Time));
            return taken;
        }
        piece.next = index + 1;
        if let Some((time, sequence)) = piece.blocks.as_ref().and_then(SegmentBlocks::first) {
            turns.push(Reverse(Turn { time, sequence, ..turn }));
            if *open > *open_max && source.taken.is_empty() {
                *open -= usize::from(piece.close(packer));
            }
        } else {
            *open -= usize::from(piece.blocks.take().is_some());
            source.done.push(piece.part.sequences.clone());
        }
        taken
    }

    /// Makes a chunk of the next rows of the block. `false`: there are no more.
    fn pack(&mut self, index: usize, taken: usize, out: &mut Filled) -> Result<bool, Error> {
        let Self { sources, block, errors, packer, .. } = self;
        let source = &mut sources[index];
        let at = ReadContext { stream: &source.stream, space: &source.space };
        while !packer.builder.is_full()
            && errors.is_empty()
            && (block.advance_plainly() || block.advance(&mut source.filter, at, errors))
        {
            let (time, sequence) = block.key();
            let is_wanted = block.type_id() == source.fields.type_id
                && !source.taken[..taken]
                    .iter()
                    .any(|(taken, last)| taken.contains(&sequence) && (time, sequence) <= *last);
            if is_wanted {
                let header = RowHeader { time, sequence, symbol: block.symbol(), type_id: block.type_id() };
                packer.push(source, header, block.body())?;
            }
        }
        out.source = index;
        packer.finish(source, out)
    }
}

/// The result of reading a block.
enum Taken {
    Chunk,
    /// It has no wanted rows.
    Nothing,
    /// It can only be read as rows.
    AsRows,
}

impl InSegment {
    /// Opens the segment after the blocks that are done, unless it has no messages. Returns the damage to be reported once.
    fn open(&mut self, source: &mut ColumnSource) -> Result<Option<Error>, Error> {
        let Some(segment) = source.space.open_segment(&self.part, source.stream.schema_files())? else {
            return Ok(None);
        };
        let failure = segment.failure().filter(|_| self.last.is_none());
        let at = ReadContext { stream: &source.stream, space: &source.space };
        let blocks = source.filter.wanted_blocks(&segment.segment, at);
        let rest = blocks.into_iter().map(|run| run.start.max(self.next)..run.end);
        self.blocks =
            Some(SegmentBlocks::new(segment, self.part.clone(), rest.filter(|run| !run.is_empty())));
        Ok(failure)
    }

    /// Notes the last message of the blocks that are done, if the segment is open.
    fn note_last(&mut self, packer: &mut Packer) -> Result<(), Error> {
        let (Some(blocks), Some(done)) = (&self.blocks, self.next.checked_sub(1)) else { return Ok(()) };
        let segment = &blocks.segment.segment;
        let Some(entry) = segment.blocks().get(done) else { return Ok(()) };
        let read = segment.read_columns(done, &mut packer.budget.raw, |_, _| false);
        match read.map_err(|error| SegmentFailure::of_block(&blocks.segment.path, entry, error)) {
            // Maintenance does not touch a damaged segment, so it is not replaced.
            Err(error) if error.is_damage() => self.last = Some((entry.time_max, entry.sequence_max)),
            read => {
                read?;
                self.last = packer.last_key();
            }
        }
        Ok(())
    }

    /// Closes the segment whose last block `packer` holds; `false`: its last key cannot be found.
    fn close(&mut self, packer: &mut Packer) -> bool {
        self.last = packer.last_key();
        self.last.is_some() && self.blocks.take().is_some()
    }
}

impl Packer {
    pub fn new(with_sequences: bool) -> Self {
        Self {
            budget: MergeBudget::default(),
            builder: BlockBuilder::new(BlockOptions::default()),
            packed: Vec::new(),
            row_times: Vec::new(),
            row_sequences: Vec::new(),
            sequences: Vec::new(),
            found: Vec::new(),
            with_sequences,
        }
    }

    /// Reads the wanted columns of a block of a segment.
    fn read(
        &mut self,
        blocks: &SegmentBlocks,
        index: usize,
        source: &mut ColumnSource,
        out: &mut Filled,
    ) -> Result<Taken, Error> {
        let segment = &blocks.segment.segment;
        let Some(entry) = segment.blocks().get(index) else { return Ok(Taken::Nothing) };
        let failed = |error| SegmentFailure::of_block(&blocks.segment.path, entry, error);
        let at = ReadContext { stream: &source.stream, space: &source.space };
        loop {
            let fields = &mut source.fields;
            let wants = |type_id, column| fields.needs(type_id, column);
            segment.read_columns(index, &mut self.budget.raw, wants).map_err(failed)?;
            let groups = &self.budget.raw.head().groups;
            if groups.iter().any(|group| group.is_whole && group.type_id == fields.type_id) {
                return Ok(Taken::AsRows);
            }
            let symbols = source.filter.selection(at).symbols;
            match self.fill(segment.plan(), fields, symbols, out) {
                Ok(true) => return Ok(Taken::Chunk),
                Ok(false) => return Ok(Taken::Nothing),
                // Only its bytes state which column a column follows.
                Err(damage) if needs_another(&damage, fields) => {}
                Err(damage) => return Err(failed(damage.into())),
            }
        }
    }

    /// Decodes the columns of the block in `budget`. `false`: it has no wanted rows.
    fn fill(
        &mut self,
        plan: &Plan,
        fields: &Fields,
        symbols: Option<&[u32]>,
        out: &mut Filled,
    ) -> Result<bool, Damage> {
        let MergeBudget { decoder, raw, .. } = &mut self.budget;
        decoder.lanes(raw, &mut self.found)?;
        out.runs.clear();
        let mut end = 0;
        for (type_id, symbol, count) in &self.found {
            let is_wanted = symbols.is_none_or(|symbols| symbols.binary_search(symbol).is_ok());
            if *type_id == fields.type_id && is_wanted {
                end += count;
                out.runs.push(SymbolRun { symbol: *symbol, end });
            }
        }
        if end == 0 {
            return Ok(false);
        }
        // Rows of one lane are stored in the order of the chunk.
        let is_one = self.found.len() == 1;
        match is_one {
            true => decoder.times(raw, &mut out.times)?,
            false => {
                let rows = &mut self.row_times;
                decoder.times_by_lane(raw, fields.type_id, symbols, rows, &mut out.times)?;
            }
        }
        if self.with_sequences && is_one {
            decoder.sequences(raw, &mut self.sequences)?;
        } else if self.with_sequences {
            decoder.sequences(raw, &mut self.row_sequences)?;
            let places = decoder.places(raw, fields.type_id, symbols)?;
            places.pick(&self.row_sequences, &mut self.sequences);
        }
        out.sequences.clear();
        if self.with_sequences {
            out.sequences.extend(self.sequences.iter().map(|sequence| *sequence as u64));
        }
        self.fill_values(plan, fields, symbols, out)?;
        Ok(true)
    }

    fn fill_values(
        &mut self,
        plan: &Plan,
        fields: &Fields,
        symbols: Option<&[u32]>,
        out: &mut Filled,
    ) -> Result<(), Damage> {
        let MergeBudget { decoder, raw, .. } = &mut self.budget;
        out.values.resize_with(fields.columns.len(), ColumnValues::new);
        for (column, values) in fields.columns.iter().zip(&mut out.values) {
            decoder.column(plan, raw, (fields.type_id, *column), symbols, values)?;
        }
        Ok(())
    }

    /// Time and sequence number of the last message of the block that was read last.
    fn last_key(&mut self) -> Option<Key> {
        let MergeBudget { decoder, raw, .. } = &mut self.budget;
        decoder.times(raw, &mut self.row_times).ok()?;
        decoder.sequences(raw, &mut self.row_sequences).ok()?;
        Some((*self.row_times.last()?, *self.row_sequences.last()? as u64))
    }

    /// Whether no more rows go into the chunk being packed.
    pub fn is_full(&self) -> bool {
        self.builder.is_full()
    }

    /// Appends a row to the chunk being packed.
    ///
    /// # Errors
    /// [`Unreadable::Message`] when its bytes do not match its type: it is left out.
    pub fn push(&mut self, source: &ColumnSource, header: RowHeader, body: &[u8]) -> Result<(), Error> {
        source.plan.layouts().check(header.type_id, body).map_err(|error| {
            Error::Unreadable(Unreadable::Message {
                stream: source.stream.name.clone(),
                sequence: header.sequence,
                error: Box::new(error),
            })
        })?;
        self.builder.push(header, body).map_err(|error| Error::not_written(&source.space.directory, error))
    }

    /// Makes a chunk of the rows that have been packed. `false`: there are none.
    ///
    /// # Errors
    /// None is expected: packed rows are whole.
    pub fn finish(&mut self, source: &ColumnSource, out: &mut Filled) -> Result<bool, Error> {
        if self.builder.is_empty() {
            return Ok(false);
        }
        self.packed.clear();
        self.builder.finish(&source.plan, &mut self.packed);
        let read = self.budget.raw.load(&self.packed);
        let filled = read.and_then(|()| self.fill(&source.plan, &source.fields, None, out));
        filled.map_err(|damage| Error::not_written(&source.space.directory, damage.into()))
    }
}

/// Marks the missing column as needed, if it was not read.
fn needs_another(damage: &Damage, fields: &mut Fields) -> bool {
    let segment::Part::Column { type_id: Some(type_id), column } = damage.part else { return false };
    let is_unread = matches!(damage.flaw, Flaw::Short { have: 0, .. }) && type_id == fields.type_id;
    match fields.needed.get_mut(usize::from(column)) {
        Some(needed) if is_unread && !*needed => {
            *needed = true;
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stream;
    use crate::{Database, StreamOptions};
    use tapedb_codec::{Record, SchemaBuilder};
    use tapedb_schema::Timestamp;
    use tapedb_segment::Values;

    #[derive(Record, Debug, Default)]
    #[record(message)]
    struct Wide {
        number: u64,
        pad: String,
    }

    /// Sealed parts of some blocks each, whose times overlap.
    fn parts(db: &Database) -> Stream {
        let schema = SchemaBuilder::new().with::<Wide>().finish();
        let stream = db.create_stream("s", schema, StreamOptions::default()).unwrap();
        for part in 0..4u64 {
            let mut loader = stream.loader().unwrap();
            for i in 0..12 {
                let wide = Wide { number: part * 12 + i, pad: "x".repeat(256 << 10) };
                let time = Timestamp((i * 10 + part) as i64);
                loader.append(["A", "B"][(i % 2) as usize], time, &wide).unwrap();
            }
            loader.close().unwrap();
            stream.seal().unwrap();
        }
        stream
    }

    fn numbers(chunks: &mut Chunks, filled: &mut Filled) -> Option<Vec<i64>> {
        if !chunks.next(filled).unwrap() {
            return None;
        }
        let Values::Ints(numbers) = filled.values[0].values() else { panic!() };
        assert!(filled.sequences.iter().zip(numbers).all(|(sequence, number)| *sequence == *number as u64));
        Some(numbers.to_vec())
    }

    #[test]
    fn segments_are_closed_and_replaced_and_no_row_is_lost_or_given_twice() {
        for replaced_after in [1, 3, 6, usize::MAX] {
            let directory = tempfile::tempdir().unwrap();
            let db = Database::open_without_maintenance(directory.path().join("db")).unwrap();
            let stream = parts(&db);
            let plan = Arc::new(Plan::new(stream.layouts().clone()));
            let fields = Fields::find(&plan, "s", "Wide", &["number".into()]).unwrap();
            let reader = stream.state.reader.clone();
            let space = reader.spaces[0].clone();
            let source = ColumnSource::new((reader, space), plan, fields, Filter::all());
            let mut chunks = Chunks::new(vec![source], true);
            chunks.open_max = 2;
            let (mut filled, mut found, mut count) = (Filled::default(), Vec::new(), 0);
            while let Some(numbers) = numbers(&mut chunks, &mut filled) {
                found.extend(numbers);
                count += 1;
                assert!(chunks.open <= 4);
                if count == replaced_after {
                    // All parts become others: one symbol less, of messages that are new.
                    stream.delete(Timestamp(1_000)..Timestamp(1_001), Some(["A"])).unwrap();
                    let mut loader = stream.loader().unwrap();
                    for number in 48..48 + 12 {
                        loader.append("A", Timestamp(50), &Wide { number, pad: String::new() }).unwrap();
                    }
                    loader.close().unwrap();
                    for _ in 0..5 {
                        append_and_seal(&stream);
                    }
                }
            }
            assert!(count > 8, "{count}");
            found.sort_unstable();
            assert_eq!(found, (0..48).collect::<Vec<_>>(), "replaced after {replaced_after}");
        }
    }

    /// Makes small parts until there are so many that all are merged.
    fn append_and_seal(stream: &Stream) {
        let mut loader = stream.loader().unwrap();
        loader.append("C", Timestamp(60), &Wide { number: 1_000, pad: String::new() }).unwrap();
        loader.close().unwrap();
        stream.seal().unwrap();
    }
}
