//! Chunks of columns, from segments and logs.
//!
//! A block of a segment that is wanted whole becomes a chunk as its columns are, and one that is cut by times without what is outside
//! them. Of blocks that are cut by deletions the wanted values are gathered, and the bodies of rows in the log become columns together.
//!
//! Always true: each message is in at most one piece that has not been read. Where files are replaced before they have been
//! read to the end, what has been read of the old ones is in `taken`, and is left out of the new ones.

use crate::counts::{note_block, note_blocks_skipped, note_segments_skipped};
use crate::error::{Error, SegmentFailure, Unreadable};
use crate::interrupt;
use crate::read::block::{Block, Bounds, Key, LAST, Order};
use crate::read::chooser::{OfferedRows, RowChooser};
use crate::read::decoded::{Decoded, RowPlaces, are_right_by_symbol};
use crate::read::fields::Fields;
use crate::read::filled::{CHUNK_BYTES, Filled, SymbolRun};
use crate::read::filter::Filter;
use crate::read::merge_budget::MergeBudget;
use crate::read::segment_blocks::SegmentBlocks;
use crate::read::strand_runs::StrandRuns;
use crate::space::catalog::{Catalog, Part};
use crate::space::deletion::Deletion;
use crate::space::lost_messages;
use crate::space::reader::{OpenSegment, SpaceReader, end_of};
use crate::stream::reader::{ReadContext, StreamReader};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use tapedb_log::{Granule, Snapshot};
use tapedb_segment::{BLOCK_ROWS_MAX, ColumnValues, Damage, Plan, ReadAt, Segment, Selection, transpose};

/// Limit of segments that are open for their next block.
const OPEN_MAX: usize = 64;

/// One space of a stream, as columns are read from it.
#[derive(Debug)]
pub(crate) struct ColumnSource {
    pub stream: Arc<StreamReader>,
    /// Index of the stream among those of the cursor.
    pub stream_index: usize,
    pub space: Arc<SpaceReader>,
    /// Sources whose schemas are equal have the same.
    pub plan: Arc<Plan>,
    pub fields: Fields,
    /// Sources of the same form fit in one chunk.
    pub form: usize,
    filter: Filter,
    /// Sequence number after the last message at the moment of opening; before it, the largest one that may be.
    pub end: u64,
    generation: u64,
    /// No source before it is of the same space, so what is counted of all record types is counted here.
    is_first: bool,
    /// Pieces that have been read.
    done: Vec<ReadBefore>,
    /// What has been read of files that have been replaced.
    taken: Vec<ReadBefore>,
}

/// Messages with these sequence numbers, up to a key.
#[derive(Debug, Clone)]
struct ReadBefore {
    sequences: Range<u64>,
    last: Key,
    /// Only those of these symbols, ascending.
    symbols: Option<Arc<Vec<u32>>>,
}

impl ReadBefore {
    fn all(sequences: Range<u64>) -> Self {
        Self { sequences, last: LAST, symbols: None }
    }

    fn has(&self, key: Key, symbol: u32) -> bool {
        self.sequences.contains(&key.1)
            && key <= self.last
            && self.symbols.as_ref().is_none_or(|symbols| symbols.binary_search(&symbol).is_ok())
    }

    fn overlaps(&self, sequences: &Range<u64>) -> bool {
        self.sequences.start < sequences.end && sequences.start < self.sequences.end
    }
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
    /// The source whose rows are in `block`, to be sorted, and the length of `taken` that applies to them.
    sorting: Option<(usize, usize)>,
    block: Block,
    packer: Packer,
    errors: VecDeque<Error>,
    /// Rows that were counted instead of read; `None`: they are read.
    counted: Option<Counted>,
    /// No later chunk has a message before this time.
    pub reached: i64,
    /// The last time of what has been read.
    last: i64,
    /// Sequence numbers are wanted where a message of another chunk may have the same time.
    of_ties_only: bool,
}

/// Rows that were counted.
#[derive(Debug, Clone, Copy)]
struct Counted {
    rows: u64,
    /// All record types and symbols are wanted, and of whole files and blocks the number counts that catalog and index state.
    is_stated: bool,
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
    /// The symbols of a strand of its blocks, ascending, if it is that: it stays open.
    symbols: Option<Arc<Vec<u32>>>,
}

/// Reads columns, and sorts rows by symbol.
#[derive(Debug, Default)]
struct Packer {
    budget: MergeBudget,
    row_times: Vec<i64>,
    row_sequences: Vec<i64>,
    sequences: Vec<i64>,
    found: Vec<(u16, u32, u32)>,
    rows: Vec<SortedRow>,
    /// Bodies of these rows, if they have any.
    bodies: Vec<u8>,
    chooser: Option<Arc<dyn RowChooser>>,
    /// Rows that were chosen, and the columns that they are taken from.
    chosen: Vec<u32>,
    decoded: Decoded,
    /// Rows of a block that is cut by times.
    within: Within,
}

/// The wanted rows of a block, where they are those between two times, and their headers.
#[derive(Debug, Default)]
struct Within {
    rows: Vec<u32>,
    times: Vec<i64>,
    runs: Vec<SymbolRun>,
}

/// A row to be sorted by symbol.
#[derive(Debug, Clone, Copy)]
struct SortedRow {
    key: Key,
    symbol: u32,
    /// Place of its values, or the beginning of its body.
    at: u32,
}

impl ColumnSource {
    pub fn new(
        (stream, stream_index, space): (Arc<StreamReader>, usize, Arc<SpaceReader>),
        plan: Arc<Plan>,
        fields: Fields,
        filter: Filter,
    ) -> Self {
        let (done, taken) = (Vec::new(), Vec::new());
        Self {
            stream,
            stream_index,
            space,
            plan,
            fields,
            form: 0,
            filter,
            end: u64::MAX,
            generation: 0,
            is_first: true,
            done,
            taken,
        }
    }

    /// Checks that a body matches the record type.
    ///
    /// # Errors
    /// [`Unreadable::Message`].
    pub fn check(&self, sequence: u64, body: &[u8]) -> Result<(), Error> {
        self.plan.layouts().check(self.fields.type_id, body).map_err(|error| {
            let (stream, error) = (self.stream.name.clone(), Box::new(error));
            Error::Unreadable(Unreadable::Message { stream, sequence, error })
        })
    }

    /// Appends the columns of bodies that have been checked, which begin at these places of the bytes.
    pub fn transpose(&self, bodies: (&[u8], &[u32]), out: &mut [ColumnValues]) {
        if let Some(group) = self.plan.group(self.fields.type_id) {
            transpose(group, bodies, &self.fields.columns, out);
        }
    }

    /// Whether a message was in what had been read of replaced files when `taken` was so long.
    #[inline]
    fn has_taken(&self, key: Key, symbol: u32, taken: usize) -> bool {
        self.taken[..taken].iter().any(|taken| taken.has(key, symbol))
    }

    /// Which rows of a block are wanted, as far as that is known by times and the block has the columns of this schema.
    ///
    /// # Errors
    /// As [`Space::deletions_of_part`].
    fn wants(&self, blocks: &SegmentBlocks, index: usize, taken: usize) -> Result<Wants, Error> {
        let deletions = self.space.deletions_of_part(&blocks.part)?;
        let Some(entry) = blocks.segment.segment.blocks().get(index) else { return Ok(Wants::Some) };
        let sequences = entry.sequence_min..entry.sequence_max.saturating_add(1);
        let is_taken = |taken: &ReadBefore| taken.overlaps(&sequences) && entry.time_min <= taken.last.0;
        let is_whole = blocks.segment.segment.header().schema_version
            == self.stream.definition.schema_version
            && sequences.end <= self.end
            && !self.taken[..taken].iter().any(is_taken);
        let is_cut = |deletion: &Arc<Deletion>| deletion.overlaps(&sequences, entry.time_min, entry.time_max);
        Ok(match is_whole && !deletions.iter().any(is_cut) {
            true if self.filter.wants_all_times(entry.time_min, entry.time_max) => Wants::All,
            true => Wants::Between(self.filter.times()),
            false => Wants::Some,
        })
    }
}

impl Chunks {
    pub fn new(sources: Vec<ColumnSource>) -> Self {
        Self::with(sources, None)
    }

    /// The same chunks, some rows of which `chooser` leaves out; with sequence numbers, if they are wanted, only `of_ties_only`.
    pub fn choosing(mut self, chooser: Option<Arc<dyn RowChooser>>, of_ties_only: bool) -> Self {
        (self.packer.chooser, self.of_ties_only) = (chooser, of_ties_only);
        self
    }

    /// Number of all rows. Blocks that are wanted whole are counted by their heads; with `is_stated`, which is for sources that want all
    /// record types and symbols, whole files and blocks are counted as catalog and index state it.
    ///
    /// `None`: catalogs have changed in between, so that not every record type was counted as of one moment; count again.
    ///
    /// # Errors
    /// As [`Chunks::next`].
    pub fn count(sources: Vec<ColumnSource>, is_stated: bool) -> Result<Option<u64>, Error> {
        let generations = |sources: &[ColumnSource]| -> Vec<u64> {
            sources.iter().map(|source| source.space.catalog().generation).collect()
        };
        let before = generations(&sources);
        let mut chunks = Self::with(sources, Some(Counted { rows: 0, is_stated }));
        // Rows are counted, not given.
        let mut nothing = Filled::new(false);
        while chunks.next(&mut nothing)? {}
        let is_certain = !is_stated || generations(&chunks.sources) == before;
        Ok(chunks.counted.filter(|_| is_certain).map(|counted| counted.rows))
    }

    fn with(sources: Vec<ColumnSource>, counted: Option<Counted>) -> Self {
        let mut chunks = Self {
            sources,
            pieces: Vec::new(),
            turns: BinaryHeap::new(),
            open: 0,
            open_max: OPEN_MAX,
            sorting: None,
            block: Block::new(Order::Time),
            packer: Packer::default(),
            errors: VecDeque::new(),
            counted,
            reached: i64::MIN,
            last: i64::MIN,
            of_ties_only: false,
        };
        let mut views: Vec<(Arc<Catalog>, Snapshot)> = Vec::new();
        for index in 0..chunks.sources.len() {
            // Several record types of one space are read as of one moment, and its losses are reported once.
            let (before, rest) = chunks.sources.split_at_mut(index);
            let source = &mut rest[0];
            let same = before.iter().position(|other| Arc::ptr_eq(&other.space, &source.space));
            let view = same.map_or_else(|| source.space.view(), |same| views[same].clone());
            source.end = same.map_or(source.end.min(end_of(&view.0, &view.1)), |same| before[same].end);
            source.filter.want_columns(source.fields.clone());
            let is_first = same.is_none();
            source.is_first = is_first;
            let missing = chunks.plan(index, &view);
            views.push(view);
            chunks.errors.extend(missing.into_iter().filter(|_| is_first));
        }
        chunks
    }

    /// Lists the pieces of a source; returns the losses among them.
    fn plan(&mut self, index: usize, (catalog, snapshot): &(Arc<Catalog>, Snapshot)) -> VecDeque<Error> {
        let Self { sources, pieces, turns, counted, .. } = self;
        let mut stated = counted.as_mut().filter(|counted| counted.is_stated);
        let ColumnSource { space, filter, end, generation, taken, is_first, done, .. } = &mut sources[index];
        *generation = catalog.generation;
        let mut add = |time: i64, sequence: u64, piece: Piece| {
            turns.push(Reverse(Turn { time, source: index, sequence, piece: pieces.len() }));
            pieces.push(piece);
        };
        // What is wanted whole, and has not been read in part.
        let is_whole = |sequences: &Range<u64>, times: (i64, i64)| {
            let is_taken = taken.iter().any(|taken| taken.overlaps(sequences));
            filter.wants_all_times(times.0, times.1) && sequences.end <= *end && !is_taken
        };
        for part in catalog.parts_between(0..*end) {
            let Some(content) = &part.content else { continue };
            if !filter.wants_times(content.time_min, content.time_max) {
                note_segments_skipped(1);
            } else if let Some(stated) = &mut stated
                && is_whole(&part.sequences, (content.time_min, content.time_max))
                && !catalog.deletions.iter().any(|deletion| part.is_affected_by(deletion))
            {
                stated.rows += if *is_first { content.messages } else { 0 };
                done.push(ReadBefore::all(part.sequences.clone()));
            } else {
                let piece = InSegment {
                    part: part.clone(),
                    blocks: None,
                    taken: taken.len(),
                    next: 0,
                    last: None,
                    symbols: None,
                };
                add(content.time_min, part.sequences.start, Piece::Segment(Box::new(piece)));
            }
        }
        let in_log =
            |granule: &&Granule| granule.next_sequence() > catalog.sealed && granule.first_sequence < *end;
        for granule in snapshot.iter().filter(in_log) {
            let sequences = granule.first_sequence..granule.next_sequence();
            let times = (granule.time_min, granule.time_max);
            if let Some(stated) = &mut stated
                && sequences.start >= catalog.sealed
                && is_whole(&sequences, times)
                && !catalog.deletions.iter().any(|deletion| deletion.overlaps(&sequences, times.0, times.1))
            {
                stated.rows += if *is_first { granule.count } else { 0 };
                done.push(ReadBefore::all(sequences));
            } else if filter.wants_times(granule.time_min, granule.time_max) {
                add(granule.time_min, granule.first_sequence, Piece::Granule(*granule));
            }
        }
        lost_messages::below(*end, &space.log, (catalog, snapshot))
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
            if let Some((source, taken)) = self.sorting {
                if self.counted.is_some() {
                    self.count_rows(source, taken);
                } else if self.sort(source, taken, out) {
                    return Ok(true);
                }
                self.sorting = None;
                continue;
            }
            interrupt::check()?;
            let Some(Reverse(turn)) = self.turns.pop() else { return Ok(false) };
            // Files that replaced others may begin earlier, with messages that have been read.
            self.reached = self.reached.max(turn.time);
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
        taken.append(done);
        for Reverse(turn) in turns.iter().filter(of_source) {
            if let Piece::Segment(piece) = &mut pieces[turn.piece] {
                let sequences = || piece.part.sequences.clone();
                let of_piece =
                    |last| ReadBefore { sequences: sequences(), last, symbols: piece.symbols.clone() };
                taken.extend(piece.last.map(of_piece));
                *open -= piece.end();
            }
        }
        turns.retain(|Reverse(turn)| turn.source != source);
        let view = self.sources[source].space.view();
        self.plan(source, &view);
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
        let Self { sources, block, errors, last, .. } = self;
        *last = granule.time_max.max(*last);
        let source = &mut sources[index];
        let at = ReadContext { stream: &source.stream, space: &source.space };
        let sequences = granule.first_sequence..granule.next_sequence();
        let deletions = at.space.deletions_in_log(&sequences, (granule.time_min, granule.time_max))?;
        block.empty();
        at.stream.unless_gone(at.space.log.read(granule, block.bytes_mut()))?;
        let bounds = Bounds { after: None, end: source.end, deletions, removed: None };
        block.load(&granule.span(), granule.sorted, bounds, (&mut source.filter, at), errors);
        source.done.push(ReadBefore::all(sequences));
        self.sorting = Some((index, source.taken.len()));
        Ok(false)
    }

    fn take_block(&mut self, turn: Turn, out: &mut Filled) -> Result<bool, Error> {
        let (reached, of_ties_only) = (self.reached, self.of_ties_only);
        let Self {
            sources,
            pieces,
            turns,
            open,
            open_max,
            packer,
            block,
            sorting,
            errors,
            counted,
            last,
            ..
        } = self;
        let Piece::Segment(piece) = &mut pieces[turn.piece] else { return Ok(false) };
        let source = &mut sources[turn.source];
        if piece.blocks.is_none() {
            let (failure, strands) = piece.open(source)?;
            errors.extend(failure);
            *open += usize::from(piece.blocks.is_some());
            if !strands.is_empty() {
                // They are read instead, each in its turn.
                for strand in strands {
                    let first = strand.blocks.as_ref().and_then(SegmentBlocks::first);
                    let (time, sequence) = first.unwrap_or((turn.time, turn.sequence));
                    turns.push(Reverse(Turn { time, sequence, piece: pieces.len(), ..turn }));
                    pieces.push(Piece::Segment(Box::new(strand)));
                }
                return Ok(false);
            }
        }
        let Some(index) = piece.blocks.as_mut().and_then(|blocks| blocks.next(Order::Time)) else {
            *open -= piece.end();
            source.done.push(piece.whole());
            return Ok(false);
        };
        let entry = piece.blocks.as_ref().and_then(|blocks| blocks.segment.segment.blocks().get(index));
        let times = entry.map_or((i64::MIN, i64::MAX), |entry| (entry.time_min, entry.time_max));
        let nexts = [
            turns.peek().map(|next| next.0.time),
            piece.blocks.as_ref().and_then(|blocks| Some(blocks.first()?.0)),
        ];
        let may_tie = times.0 <= *last || nexts.into_iter().flatten().any(|next| next <= times.1);
        *last = times.1.max(*last);
        let with_sequences = may_tie || !of_ties_only;
        let whole = |times| Whole { index, source: turn.source, reached, with_sequences, times };
        let taken = match &piece.blocks {
            Some(blocks) => match (source.wants(blocks, index, piece.taken), counted) {
                (Ok(Wants::All), Some(counted)) => packer.count(blocks, index, source, counted),
                (Ok(Wants::All), None) => packer.read(blocks, whole(None), source, out),
                (Ok(Wants::Between(times)), None) => packer.read(blocks, whole(Some(times)), source, out),
                (wanted, _) => wanted.map(|_| Taken::AsRows),
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
                    *sorting = Some((turn.source, piece.taken));
                    false
                })
            }
            (taken, _) => taken.map(|taken| matches!(taken, Taken::Chunk)),
        };
        if taken.as_ref().is_err_and(|error| !error.is_damage()) {
            piece.blocks.as_mut().into_iter().for_each(|blocks| blocks.put_back(index, Order::Time));
            return taken;
        }
        piece.next = index + 1;
        if let Some((time, sequence)) = piece.blocks.as_ref().and_then(SegmentBlocks::first) {
            turns.push(Reverse(Turn { time, sequence, ..turn }));
            if *open > *open_max && source.taken.is_empty() && piece.symbols.is_none() {
                *open -= usize::from(piece.close(packer));
            }
        } else {
            *open -= piece.end();
            source.done.push(piece.whole());
        }
        taken
    }

    /// Counts the rows of the block, up to one that is damaged.
    fn count_rows(&mut self, index: usize, taken: usize) {
        let Self { sources, block, errors, counted, .. } = self;
        let source = &mut sources[index];
        let at = ReadContext { stream: &source.stream, space: &source.space };
        let mut rows = 0;
        while errors.is_empty() && (block.advance_plainly() || block.advance(&mut source.filter, at, errors))
        {
            let key = block.key();
            if block.type_id() != source.fields.type_id || source.has_taken(key, block.symbol(), taken) {
                continue;
            }
            if block.place().is_none()
                && let Err(error) = source.check(key.1, block.body())
            {
                errors.push_back(error);
            }
            rows += 1;
        }
        counted.as_mut().into_iter().for_each(|counted| counted.rows += rows);
    }

    /// Makes a chunk of the next rows of the block, sorted by symbol. `false`: there are no more.
    fn sort(&mut self, index: usize, taken: usize, out: &mut Filled) -> bool {
        let Self { sources, block, errors, packer: Packer { rows, bodies, .. }, .. } = self;
        let source = &mut sources[index];
        let at = ReadContext { stream: &source.stream, space: &source.space };
        rows.clear();
        bodies.clear();
        // All rows of a block of a segment are in memory as columns, and at most 65,535.
        while bodies.len() < CHUNK_BYTES
            && rows.len() < BLOCK_ROWS_MAX
            && errors.is_empty()
            && (block.advance_plainly() || block.advance(&mut source.filter, at, errors))
        {
            let (key, symbol) = (block.key(), block.symbol());
            if block.type_id() != source.fields.type_id || source.has_taken(key, symbol, taken) {
                continue;
            }
            let at = match block.place() {
                Some(place) => place,
                None => {
                    if let Err(error) = source.check(key.1, block.body()) {
                        errors.push_back(error);
                        break;
                    }
                    bodies.extend_from_slice(block.body());
                    (bodies.len() - block.body().len()) as u32
                }
            };
            rows.push(SortedRow { key, symbol, at });
        }
        if rows.is_empty() {
            return false;
        }
        if !rows.is_sorted_by_key(|row| row.symbol) {
            rows.sort_by_key(|row| row.symbol);
        }
        out.begin(&source.fields);
        rows.iter().for_each(|row| out.push_row(row.key, row.symbol));
        let places: Vec<u32> = rows.iter().map(|row| row.at).collect();
        match block.decoded() {
            Some(decoded) => {
                decoded.append_to(&source.fields, &RowPlaces::Homes(Cow::Owned(places)), &mut out.values);
            }
            None => source.transpose((&bodies[..], &places), &mut out.values),
        }
        out.close_source(index);
        true
    }
}

/// Which rows of a block are wanted, apart from record types and symbols.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wants {
    All,
    /// Those from one time to another one.
    Between((i64, i64)),
    /// Some, which are found row by row.
    Some,
}

/// A block of which all rows are wanted, or all between two times.
#[derive(Debug, Clone, Copy)]
struct Whole {
    index: usize,
    /// Index of its source.
    source: usize,
    /// It has no message before this time.
    reached: i64,
    /// Sequence numbers are read if they are wanted.
    with_sequences: bool,
    /// First and last time; `None`: all are wanted.
    times: Option<(i64, i64)>,
}

/// The result of reading a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Taken {
    Chunk,
    /// It has no wanted rows.
    Nothing,
    /// It can only be read as rows.
    AsRows,
}

/// Whether a chunk has symbols that the stream has, and values of their types.
fn are_right(source: &ColumnSource, chunk: &Filled) -> bool {
    let symbols = source.stream.dictionary.len();
    chunk.runs.iter().all(|run| run.symbol < symbols)
        && are_right_by_symbol(&source.fields, chunk.len(), &chunk.values)
}

/// The symbols that blocks of each strand have, ascending.
fn symbols_by_strand<R: ReadAt>(segment: &Segment<R>) -> Vec<Vec<u32>> {
    let mut strands = vec![Vec::new(); segment.strand_count()];
    for (symbol, _) in segment.symbols() {
        for block in segment.blocks_of(symbol).flatten() {
            let symbols: &mut Vec<u32> = &mut strands[segment.strand_of(block)];
            if symbols.last() != Some(&symbol) {
                symbols.push(symbol);
            }
        }
    }
    strands
}

impl InSegment {
    /// Opens the segment after the blocks that are done, unless it has no messages. Returns the damage to be reported once, and
    /// pieces to be read instead if blocks are in strands.
    fn open(&mut self, source: &mut ColumnSource) -> Result<(Option<Error>, Vec<Self>), Error> {
        let Some(segment) = source.space.open_segment(&self.part, source.stream.schema_files())? else {
            return Ok((None, Vec::new()));
        };
        let failure = segment.failure().filter(|_| self.last.is_none());
        let at = ReadContext { stream: &source.stream, space: &source.space };
        let strands = source.filter.wanted_strands(&segment.segment, at);
        if self.next == 0 {
            let runs = strands.iter().flat_map(|strand| &strand.runs);
            let wanted: usize = runs.map(ExactSizeIterator::len).sum();
            note_blocks_skipped(segment.segment.blocks().len() - wanted);
        }
        if segment.segment.has_strands() {
            return Ok((failure, self.strands(&segment, strands)));
        }
        let blocks = strands.into_iter().flat_map(|strand| strand.runs);
        let rest = blocks.map(|run| run.start.max(self.next)..run.end);
        self.blocks =
            Some(SegmentBlocks::new(segment, self.part.clone(), rest.filter(|run| !run.is_empty())));
        Ok((failure, Vec::new()))
    }

    /// A piece for each strand.
    fn strands(&self, segment: &Arc<OpenSegment>, strands: Vec<StrandRuns>) -> Vec<Self> {
        let mut symbols = symbols_by_strand(&segment.segment);
        let of_strand = |StrandRuns { strand, runs }| Self {
            part: self.part.clone(),
            blocks: Some(SegmentBlocks::new(segment.clone(), self.part.clone(), runs)),
            taken: self.taken,
            next: 0,
            last: None,
            symbols: Some(Arc::new(std::mem::take(&mut symbols[strand]))),
        };
        strands.into_iter().map(of_strand).collect()
    }

    /// Closes the segment; how many open ones are fewer now.
    fn end(&mut self) -> usize {
        usize::from(self.blocks.take().is_some() && self.symbols.is_none())
    }

    /// All of it.
    fn whole(&self) -> ReadBefore {
        ReadBefore { symbols: self.symbols.clone(), ..ReadBefore::all(self.part.sequences.clone()) }
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

impl Within {
    /// Finds the rows from one time to another one: those of a run ascend.
    fn find(&mut self, (times, runs): (&[i64], &[SymbolRun]), (from, last): (i64, i64)) {
        self.rows.clear();
        self.times.clear();
        self.runs.clear();
        let mut at = 0;
        for run in runs {
            let (start, end) = (std::mem::replace(&mut at, run.end as usize), run.end as usize);
            let first = start + times[start..end].partition_point(|time| *time < from);
            let end = first + times[first..end].partition_point(|time| *time <= last);
            if first < end {
                self.rows.extend(first as u32..end as u32);
                self.times.extend_from_slice(&times[first..end]);
                self.runs.push(SymbolRun { symbol: run.symbol, end: self.rows.len() as u32 });
            }
        }
    }
}

impl Packer {
    /// Counts the rows of a block that is wanted whole: by its head, or, where few symbols are wanted, by its list of symbols.
    fn count(
        &mut self,
        blocks: &SegmentBlocks,
        index: usize,
        source: &mut ColumnSource,
        counted: &mut Counted,
    ) -> Result<Taken, Error> {
        let segment = &blocks.segment.segment;
        let Some(entry) = segment.blocks().get(index) else { return Ok(Taken::Nothing) };
        if counted.is_stated {
            counted.rows += if source.is_first { u64::from(entry.count) } else { 0 };
            return Ok(Taken::Nothing);
        }
        let failed = |error| SegmentFailure::of_block(&blocks.segment.path, entry, error);
        let at = ReadContext { stream: &source.stream, space: &source.space };
        let type_id = source.fields.type_id;
        let selection = source.filter.selection(at);
        match selection.symbols {
            None => segment.read_head(index, &mut self.budget.raw),
            Some(_) => {
                blocks.prepare(index);
                segment.read_wanted(index, &mut self.budget.raw, &selection, |_, _| false)
            }
        }
        .map_err(failed)?;
        let MergeBudget { decoder, raw, .. } = &mut self.budget;
        let mut groups = raw.head().groups.iter().filter(|group| group.type_id == type_id);
        // Bodies that stayed whole may not match the record type.
        if groups.clone().any(|group| group.is_whole) {
            return Ok(Taken::AsRows);
        }
        let Some(symbols) = selection.symbols else {
            counted.rows += groups.by_ref().map(|group| u64::from(group.count)).sum::<u64>();
            return Ok(Taken::Nothing);
        };
        decoder.lanes(raw, &selection, &mut self.found).map_err(|damage| failed(damage.into()))?;
        let is_wanted =
            |(of, symbol, _): &&(u16, u32, u32)| *of == type_id && symbols.binary_search(symbol).is_ok();
        counted.rows += self.found.iter().filter(is_wanted).map(|(_, _, rows)| u64::from(*rows)).sum::<u64>();
        Ok(Taken::Nothing)
    }

    /// Reads the wanted columns of a block of a segment.
    fn read(
        &mut self,
        blocks: &SegmentBlocks,
        whole: Whole,
        source: &mut ColumnSource,
        out: &mut Filled,
    ) -> Result<Taken, Error> {
        let index = whole.index;
        let segment = &blocks.segment.segment;
        let Some(entry) = segment.blocks().get(index) else { return Ok(Taken::Nothing) };
        let failed = |error| SegmentFailure::of_block(&blocks.segment.path, entry, error);
        let at = ReadContext { stream: &source.stream, space: &source.space };
        if source.fields.has_ranges() {
            segment.read_head(index, &mut self.budget.raw).map_err(failed)?;
            if !source.fields.may_match(self.budget.raw.head()) {
                note_blocks_skipped(1);
                return Ok(Taken::Nothing);
            }
        }
        blocks.prepare(index);
        loop {
            let fields = &mut source.fields;
            let wants = |type_id, column| fields.needs(type_id, column);
            let selection = source.filter.selection(at);
            segment.read_wanted(index, &mut self.budget.raw, &selection, wants).map_err(failed)?;
            let groups = &self.budget.raw.head().groups;
            if groups.iter().any(|group| group.is_whole && group.type_id == fields.type_id) {
                return Ok(Taken::AsRows);
            }
            out.begin_whole();
            match self.fill(segment.plan(), (fields, &source.stream), &selection, whole, out) {
                Ok(Taken::Chunk) => {
                    if source.stream.is_untrusted() && !are_right(source, out) {
                        // What is wrong is found and named there.
                        return Ok(Taken::AsRows);
                    }
                    note_block();
                    out.close_source(whole.source);
                    return Ok(Taken::Chunk);
                }
                Ok(taken) => {
                    if taken == Taken::Nothing {
                        note_block();
                    }
                    return Ok(taken);
                }
                // Only its bytes state which column a column follows.
                Err(damage) if fields.needs_too(&damage) => {}
                Err(damage) => return Err(failed(damage.into())),
            }
        }
    }

    /// Decodes the columns of the block in `budget`.
    fn fill(
        &mut self,
        plan: &Plan,
        (fields, stream): (&Fields, &StreamReader),
        selection: &Selection<'_>,
        whole: Whole,
        out: &mut Filled,
    ) -> Result<Taken, Damage> {
        let MergeBudget { decoder, raw, .. } = &mut self.budget;
        let symbols = selection.symbols;
        decoder.lanes(raw, selection, &mut self.found)?;
        let mut end = 0;
        for (type_id, symbol, count) in &self.found {
            let is_wanted = symbols.is_none_or(|symbols| symbols.binary_search(symbol).is_ok());
            if *type_id == fields.type_id && is_wanted {
                end += count;
                out.runs.push(SymbolRun { symbol: *symbol, end });
            }
        }
        if end == 0 {
            return Ok(Taken::Nothing);
        }
        // Rows of one lane are stored in the order of the chunk.
        let is_one = matches!(raw.head().groups[..], [group] if group.lanes == 1);
        match is_one {
            true => decoder.times(raw, &mut out.times)?,
            false => {
                let rows = &mut self.row_times;
                decoder.times_by_lane(raw, fields.type_id, symbols, rows, &mut out.times)?;
            }
        }
        let is_cut = self.choose((out, stream), whole);
        if is_cut && self.chosen.is_empty() {
            return Ok(Taken::Nothing);
        }
        let MergeBudget { decoder, raw, .. } = &mut self.budget;
        let with_sequences = out.with_sequences && whole.with_sequences;
        out.are_without_ties = !whole.with_sequences;
        if with_sequences && is_one {
            decoder.sequences(raw, &mut self.sequences)?;
        } else if with_sequences {
            decoder.sequences(raw, &mut self.row_sequences)?;
            let places = decoder.places(raw, fields.type_id, symbols)?;
            places.pick(&self.row_sequences, &mut self.sequences);
        }
        if with_sequences {
            out.sequences.extend(self.sequences.iter().map(|sequence| *sequence as u64));
        }
        let MergeBudget { decoder, raw, .. } = &mut self.budget;
        let wanted = (fields.type_id, &fields.columns[..]);
        if !is_cut {
            decoder.columns((plan, raw), wanted, symbols, &mut out.values)?;
            return Ok(Taken::Chunk);
        }
        let is_step = |index| fields.levels.iter().any(|level| level.step.values == index);
        let rows = (symbols, Some(&self.chosen[..]));
        decoder.lane_columns((plan, raw), wanted, rows, is_step, &mut self.decoded.columns)?;
        if !self.decoded.find_starts(fields, out.len()) {
            return Ok(Taken::AsRows);
        }
        out.keep_headers(&self.chosen);
        out.begin_values(fields);
        let rows = RowPlaces::Homes(Cow::Borrowed(&self.chosen));
        self.decoded.append_to(fields, &rows, &mut out.values);
        Ok(Taken::Chunk)
    }

    /// Chooses rows of a block, whose headers have been read, by times and as the chooser wants them; `false`: all are wanted.
    fn choose(&mut self, (out, stream): (&Filled, &StreamReader), whole: Whole) -> bool {
        let Self { chooser, chosen, within, .. } = self;
        let (mut times, mut runs) = (&out.times[..], &out.runs[..]);
        if let Some(between) = whole.times {
            within.find((times, runs), between);
            (times, runs) = (&within.times, &within.runs);
        }
        let offered = OfferedRows { times, runs, reached: whole.reached, stream };
        let is_asked = chooser.as_ref().filter(|_| !times.is_empty());
        let is_chosen =
            is_asked.is_some_and(|chooser| chooser.choose(&offered, chosen) && chosen.len() < times.len());
        match whole.times {
            None => is_chosen,
            Some(_) if is_chosen => {
                chosen.iter_mut().for_each(|row| *row = within.rows[*row as usize]);
                true
            }
            Some(_) => {
                std::mem::swap(chosen, &mut within.rows);
                true
            }
        }
    }

    /// Time and sequence number of the last message of the block that was read last.
    fn last_key(&mut self) -> Option<Key> {
        let MergeBudget { decoder, raw, .. } = &mut self.budget;
        decoder.times(raw, &mut self.row_times).ok()?;
        decoder.sequences(raw, &mut self.row_sequences).ok()?;
        Some((*self.row_times.last()?, *self.row_sequences.last()? as u64))
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
            let source = ColumnSource::new((reader, 0, space), plan, fields, Filter::all());
            let mut chunks = Chunks::new(vec![source]);
            chunks.open_max = 2;
            let mut filled = Filled::new(true);
            let (mut found, mut count) = (Vec::new(), 0);
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
