//! A space's messages up to one moment, in order, wherever they are stored and in whatever order they arrived.
//!
//! Pieces, which are granules of the log and segments, are opened in the order of their first rank. As long as they follow
//! each other in time, as a feed writes them, one is open at a time. Where late messages make them overlap, all pieces that
//! include the current time are open and merged. Of a segment one block is in memory at a time. Where many pieces are open,
//! most hold a slice of their rows and no file: see [`crate::read::merge_budget`]. Other memory grows with the number of pieces.

mod strands;

use crate::counts::{note_blocks_skipped, note_segments_skipped};
use crate::error::Error;
use crate::interrupt;
use crate::read::block::{BatchRun, Block, Bounds, Key, LAST, Order};
use crate::read::filter::Filter;
use crate::read::merge_budget::{Held, MergeBudget};
use crate::read::segment_blocks::SegmentBlocks;
use crate::read::strand_runs::StrandRuns;
use crate::space::catalog::{Catalog, Part};
use crate::space::lost_messages;
use crate::stream::reader::ReadContext;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::iter::once;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use strands::Strands;
use tapedb_log::{Granule, Snapshot};
use tapedb_segment as segment;

/// Where at least one in this many blocks of a segment in strands is wanted, what is between them is read too.
const SHARED_PART: usize = 4;

/// A granule or a segment.
#[derive(Debug)]
enum Piece {
    /// In the log.
    Granule(Granule),
    /// A segment whose blocks follow each other.
    Segment(Arc<Part>),
    /// The unread rest of a piece that was open, or runs of consecutive blocks of an open segment.
    Rest(Box<Rest>),
}

/// Messages in order up to an end.
///
/// Always true after a step: the lead's current row is before all rows of `waiting` and of the pieces not yet opened, whose
/// ranks are at least `limit`.
#[derive(Debug)]
pub(crate) struct History {
    order: Order,
    /// Only messages after this key, in the order of reading.
    after: Option<Key>,
    /// Only messages with sequence numbers below this: the last granule may have grown since.
    end: u64,
    /// Wanted pieces and their first ranks, in the order in which they must be opened.
    pieces: Vec<(Key, Piece)>,
    opened: usize,
    slots: Vec<Slot>,
    free: Vec<usize>,
    lead: Option<usize>,
    /// Open slots but the lead, by the rank of their current row.
    waiting: BinaryHeap<Reverse<(Key, usize)>>,
    /// The lead stays the lead while its rank is below this.
    limit: Key,
    /// Limits from the reader, which compares this history with others: a rank, and a number of rows.
    outer: (Key, usize),
    /// Whether the lead's current row has not been returned yet.
    fresh: bool,
    /// Whether batches of columns stay columns.
    keeps_columns: bool,
    /// Whether the caller's thread may end the reading early, as of a cursor.
    is_interruptible: bool,
    errors: VecDeque<Error>,
    budget: Arc<Mutex<MergeBudget>>,
}

/// An open piece: its rows in memory, and its unread rest.
#[derive(Debug)]
struct Slot {
    block: Box<Block>,
    rest: Rest,
    /// The smallest possible rank in the piece.
    floor: Key,
    /// What the slot's memory counts as in the budget.
    held: Held,
}

/// The part of a piece that is not in memory: of the next granule or block, only messages after the key.
#[derive(Debug, Default)]
enum Rest {
    #[default]
    Nothing,
    Granule(Granule, Option<Key>),
    Open(SegmentBlocks, Option<Key>),
    /// The segment has been closed: its part, and the runs of blocks.
    Closed(Arc<Part>, VecDeque<Range<usize>>, Option<Key>),
    /// The strands of a segment.
    Strands(Box<Strands>),
}

impl History {
    /// All messages below `end` that `filter` wants, after `after`, in order of time or backwards. Known losses among them are
    /// reported first, whatever the filter: it is unknown which messages they were.
    pub fn new(
        (catalog, snapshot): (&Catalog, &Snapshot),
        (context, filter): (ReadContext<'_>, &Filter),
        order: Order,
        after: Option<Key>,
        end: u64,
    ) -> Self {
        let granules = snapshot.iter().filter(|granule| {
            granule.next_sequence() > catalog.sealed
                && granule.first_sequence < end
                && filter.wants_times(granule.time_min, granule.time_max)
        });
        let parts = catalog.parts_between(0..end).filter(|part| {
            let Some(content) = &part.content else { return false };
            let is_wanted = filter.wants_times(content.time_min, content.time_max);
            note_segments_skipped(usize::from(!is_wanted));
            is_wanted
        });
        let granules = granules.map(|granule| Piece::Granule(*granule));
        let parts = parts.map(|part| Piece::Segment(part.clone()));
        let mut history = Self::of(parts.chain(granules), order, after, end);
        history.is_interruptible = true;
        history.errors = lost_messages::below(end, &context.space.log, (catalog, snapshot));
        history.errors.extend(lost_messages::sealed(end, &context.space.directory, catalog));
        history
    }

    /// The messages of some granules, in order of time, to be sealed. Deleted ones are counted.
    pub fn of_granules(granules: impl IntoIterator<Item = Granule>) -> Self {
        let history = Self::of(granules.into_iter().map(Piece::Granule), Order::Time, None, u64::MAX);
        lock(&history.budget).removed = Some(Arc::default());
        history
    }

    /// The same for a reader that takes runs wherever it can: batches of columns are not made rows for it.
    pub fn keeping_columns(mut self) -> Self {
        self.keeps_columns = true;
        self
    }

    /// The messages of some parts, in order of time, to be rewritten: each block is compared with the checksum of its content,
    /// before deleted messages are left out. These are counted.
    pub fn of_parts(parts: impl IntoIterator<Item = Arc<Part>>) -> Self {
        let history = Self::of(parts.into_iter().map(Piece::Segment), Order::Time, None, u64::MAX);
        let mut budget = lock(&history.budget);
        (budget.verifies, budget.removed) = (true, Some(Arc::default()));
        drop(budget);
        history
    }

    /// How many messages were left out because they are deleted, of a history that counts them. `false`: or fewer, because
    /// pieces were read in slices.
    pub fn removed(&self) -> (u64, bool) {
        let budget = lock(&self.budget);
        let removed = budget.removed.as_ref().map_or(0, |removed| removed.load(Ordering::Relaxed));
        (removed, removed == 0 || !budget.has_sliced)
    }

    /// The messages of one part from a sequence number on, in order of arrival.
    ///
    /// # Errors
    /// When its segment cannot be opened.
    pub fn of_arrivals(context: ReadContext<'_>, part: &Arc<Part>, from: u64) -> Result<Self, Error> {
        let after = from.checked_sub(1).map(|before| (i64::MAX, before));
        let segment = context.space.open_segment(part, context.stream.schema_files())?;
        let failure = segment.as_ref().and_then(|segment| segment.failure());
        let blocks = segment.into_iter().flat_map(|segment| {
            let wanted = |index: &usize| segment.segment.blocks()[*index].sequence_max >= from;
            let blocks: Vec<usize> = (0..segment.segment.blocks().len()).filter(wanted).collect();
            // They may overlap in order of arrival, so each is a piece of its own.
            let blocks_of =
                move |index| SegmentBlocks::new(segment.clone(), part.clone(), once(index..index + 1));
            blocks.into_iter().map(move |index| Piece::Rest(Box::new(Rest::Open(blocks_of(index), None))))
        });
        let mut history = Self::of(blocks, Order::Arrival, after, u64::MAX);
        history.is_interruptible = true;
        history.errors.extend(failure);
        Ok(history)
    }

    fn of(pieces: impl Iterator<Item = Piece>, order: Order, after: Option<Key>, end: u64) -> Self {
        let mut pieces: Vec<(Key, Piece)> = pieces.map(|piece| (piece.first_rank(order), piece)).collect();
        if !pieces.is_sorted_by_key(|(rank, _)| *rank) {
            pieces.sort_by_key(|(rank, _)| *rank);
        }
        Self {
            order,
            after,
            end,
            pieces,
            opened: 0,
            slots: Vec::new(),
            free: Vec::new(),
            lead: None,
            waiting: BinaryHeap::new(),
            limit: (i64::MIN, 0),
            outer: (LAST, usize::MAX),
            fresh: false,
            keeps_columns: false,
            is_interruptible: false,
            errors: VecDeque::new(),
            budget: Arc::default(),
        }
    }

    /// Shares a decoder and limits with other histories.
    pub fn sharing(mut self, budget: Arc<Mutex<MergeBudget>>) -> Self {
        self.budget = budget;
        self
    }

    /// The block with the current row; there is one after [`History::advance`] returned `true`.
    #[inline]
    pub fn current(&self) -> Option<&Block> {
        Some(&self.slots[self.lead?].block)
    }

    /// The same block, which the reader may exchange for another one temporarily.
    pub fn current_mut(&mut self) -> Option<&mut Box<Block>> {
        Some(&mut self.slots[self.lead?].block)
    }

    /// [`History::advance`] where the next row is a plain step of the lead; `false` otherwise.
    #[inline]
    pub fn advance_plainly(&mut self) -> bool {
        // After an error no step is plain.
        match self.lead {
            Some(lead) if !self.fresh => self.slots[lead].block.advance_plainly(),
            _ => false,
        }
    }

    /// Moves to the next wanted message. `false`: there is none left.
    ///
    /// # Errors
    /// Damage, once each; the next call continues after it. Errors of the system: the next call tries again.
    #[inline]
    pub fn advance(&mut self, filter: &mut Filter, context: ReadContext<'_>) -> Result<bool, Error> {
        if !self.errors.is_empty() {
            // That an earlier call was interrupted, but had something else to report first.
            self.errors.retain(|error| !matches!(error, Error::Interrupted));
        }
        let found = self.step(filter, context);
        if let Some(error) = self.errors.pop_front() {
            self.fresh = found;
            return Err(error);
        }
        Ok(found)
    }

    /// Gives all rows of a block of a segment at once, with the block, if the current row is the first of them and no other
    /// row comes between them. Then the last one is the current row.
    pub fn take_block<T>(&mut self, take: impl FnOnce(&segment::Block, &segment::Rows) -> T) -> Option<T> {
        let block = &mut self.slots[self.lead.filter(|_| !self.fresh)?].block;
        let taken = take(&lock(&self.budget).raw, block.whole_columns()?);
        block.advance_to_last();
        Some(taken)
    }

    /// Gives the rows from the current one on, at most `rows`, that are neighbours in a batch, if no other row comes between
    /// them. Then the last one is the current row. Only after [`History::advance`] has returned the current row.
    pub fn take_run<T>(
        &mut self,
        rows: usize,
        context: ReadContext<'_>,
        take: impl FnOnce(BatchRun<'_>) -> T,
    ) -> Option<T> {
        let block = &mut self.slots[self.lead.filter(|_| !self.fresh)?].block;
        let (taken, count) = block.run(rows, context, take)?;
        block.skip(count - 1);
        Some(taken)
    }

    /// Skips the piece that is to be opened next, because its file is missing and has not been replaced.
    pub fn skip_next(&mut self) {
        self.opened += 1;
    }

    /// Skips what is in the log before a sequence number and not in memory; returns the number of these messages. A granule of
    /// which some messages were returned counts whole.
    pub fn skip_before(&mut self, first_sequence: u64) -> u64 {
        let (opened, end) = (self.opened, self.end);
        let (mut index, mut skipped) = (0, 0);
        self.pieces.retain(|(_, piece)| {
            index += 1;
            match piece.granule() {
                Some(granule) if index > opened && granule.next_sequence() <= first_sequence => {
                    skipped += granule.next_sequence().min(end) - granule.first_sequence;
                    false
                }
                _ => true,
            }
        });
        skipped
    }

    /// Removes and returns the errors that have not been reported.
    pub fn take_errors(&mut self) -> VecDeque<Error> {
        std::mem::take(&mut self.errors)
    }

    /// Reports these errors before anything else.
    pub fn report_first(&mut self, errors: VecDeque<Error>) {
        self.errors = errors;
    }

    /// Finds the next row; `false` when there is none.
    #[inline]
    fn step(&mut self, filter: &mut Filter, context: ReadContext<'_>) -> bool {
        if self.fresh {
            self.fresh = false;
            return self.lead.is_some();
        }
        if !self.errors.is_empty() {
            // Reported before anything else is read.
            return false;
        }
        if let Some(lead) = self.lead {
            match self.advance_slot(lead, filter, context) {
                Ok(true) if self.slots[lead].block.rank() < self.limit => return true,
                Ok(true) => {}
                ended => {
                    self.lead = None;
                    self.release(lead);
                    if let Err(error) = ended {
                        // The next call tries again.
                        self.errors.push_back(error);
                        return false;
                    }
                }
            }
        }
        self.choose_lead(filter, context);
        self.lead.is_some()
    }

    /// Moves a slot to its next row, in its block or in its unread rest.
    ///
    /// # Errors
    /// Errors of the system: the unread rest has become the next piece.
    fn advance_slot(
        &mut self,
        index: usize,
        filter: &mut Filter,
        context: ReadContext<'_>,
    ) -> Result<bool, Error> {
        let Self { slots, budget, errors, order, after, end, is_interruptible, .. } = self;
        let slot = &mut slots[index];
        loop {
            if slot.block.advance(filter, context, errors) {
                return Ok(true);
            }
            let bounds = (*order, *after, *end);
            let checked = if *is_interruptible { interrupt::check() } else { Ok(()) };
            let loaded =
                checked.and_then(|()| slot.load(&mut lock(budget), bounds, (filter, context), errors));
            let loaded = match loaded {
                // While it waited for an object store.
                Err(error) if *is_interruptible && !error.is_damage() && interrupt::is_interrupted() => {
                    drop(error);
                    Err(Error::Interrupted)
                }
                loaded => loaded,
            };
            match loaded {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(error) if error.is_damage() => errors.push_back(error),
                Err(error) => {
                    lock(budget).close(slot.rest.is_open());
                    let piece = Piece::Rest(Box::new(std::mem::take(&mut slot.rest)));
                    self.pieces.insert(self.opened, (slot.floor, piece));
                    return Err(error);
                }
            }
        }
    }

    /// Makes the slot with the next row the lead, opening pieces that may hold it. There is no lead if there is no next row, or
    /// if a piece cannot be read: the next call continues with it.
    fn choose_lead(&mut self, filter: &mut Filter, context: ReadContext<'_>) {
        loop {
            let lead = self.lead.map(|lead| self.slots[lead].block.rank());
            let waiting = self.waiting.peek().map(|Reverse((rank, _))| *rank);
            let unopened = self.pieces.get(self.opened).map(|(rank, _)| *rank);
            if is_next(unopened, [lead, waiting]) {
                if let Err(error) = self.open_next(filter, context) {
                    self.errors.push_back(error);
                    self.park_lead();
                    return;
                }
            } else if lead.is_none_or(|lead| waiting.is_some_and(|waiting| waiting < lead)) {
                self.park_lead();
                self.lead = self.waiting.pop().map(|Reverse((_, slot))| slot);
                if self.lead.is_none() {
                    self.release_all();
                    return;
                }
            } else {
                self.limit = waiting.into_iter().chain(unopened).min().unwrap_or(LAST);
                self.limit_lead();
                return;
            }
        }
    }

    /// Limits plain steps to ranks below `limit` and to the next `rows`.
    pub fn set_limit(&mut self, limit: Key, rows: usize) {
        self.outer = (limit, rows);
        self.limit_lead();
    }

    fn limit_lead(&mut self) {
        let (outer, rows) = self.outer;
        if let Some(lead) = self.lead {
            _ = self.slots[lead].block.set_limit(self.limit.min(outer), rows);
        }
    }

    /// Puts the lead back among the waiting slots.
    fn park_lead(&mut self) {
        if let Some(lead) = self.lead.take() {
            self.waiting.push(Reverse((self.slots[lead].block.rank(), lead)));
        }
    }

    /// Opens the next piece, and adds its slot to the waiting ones. Damage is added to `errors`.
    ///
    /// # Errors
    /// When it cannot be read: it is still the next one.
    fn open_next(&mut self, filter: &mut Filter, context: ReadContext<'_>) -> Result<(), Error> {
        let (floor, piece) = &mut self.pieces[self.opened];
        let rest = match piece {
            Piece::Granule(granule) => Rest::Granule(*granule, None),
            Piece::Segment(part) => match context.space.open_segment(part, context.stream.schema_files()) {
                Ok(Some(segment)) => {
                    self.errors.extend(segment.failure());
                    let strands = filter.wanted_strands(&segment.segment, context);
                    let blocks = || strands.iter().flat_map(|strand| &strand.runs);
                    let wanted: usize = blocks().map(ExactSizeIterator::len).sum();
                    let all = segment.segment.blocks().len();
                    note_blocks_skipped(all - wanted);
                    let is_shared = strands.len() > 1 && wanted * SHARED_PART >= all;
                    let is_merged = strands.len() > 1;
                    let of_strand = |StrandRuns { runs, .. }| {
                        let blocks = SegmentBlocks::new(segment.clone(), part.clone(), runs);
                        Rest::Open(blocks.shared(is_shared), None)
                    };
                    let mut rests = strands.into_iter().map(of_strand);
                    if is_merged {
                        let mut budget = lock(&self.budget);
                        let member = |rest| {
                            budget.count_files(true);
                            let block = Box::new(Block::new(self.order));
                            Slot { block, rest, floor: *floor, held: Held::default() }
                        };
                        Rest::Strands(Box::new(Strands::new(rests.map(member).collect())))
                    } else {
                        rests.next().unwrap_or_default()
                    }
                }
                Ok(None) => Rest::Nothing,
                Err(error) if error.is_damage() => {
                    self.errors.push_back(error);
                    Rest::Nothing
                }
                Err(error) => return Err(error),
            },
            Piece::Rest(rest) => std::mem::take(&mut **rest),
        };
        let floor = *floor;
        // The piece is in its slot now.
        self.pieces[self.opened].1 = Piece::Rest(Box::default());
        self.opened += 1;
        let index = self.free.pop().unwrap_or_else(|| {
            let block = Box::new(Block::new(self.order));
            self.slots.push(Slot { block, rest: Rest::Nothing, floor, held: Held::default() });
            self.slots.len() - 1
        });
        let slot = &mut self.slots[index];
        // The rows of the slot's former piece are removed.
        slot.block.empty();
        slot.block.defer_rows(self.keeps_columns);
        (slot.rest, slot.floor) = (rest, floor);
        lock(&self.budget).count_files(slot.rest.is_open());
        let found = self.advance_slot(index, filter, context);
        if matches!(found, Ok(true)) {
            self.waiting.push(Reverse((self.slots[index].block.rank(), index)));
        } else {
            self.release(index);
        }
        found.map(|_| ())
    }

    /// Frees the slot for the next piece.
    fn release(&mut self, index: usize) {
        let Slot { block, rest, held, .. } = &mut self.slots[index];
        let mut budget = lock(&self.budget);
        std::mem::take(rest).release(&mut budget);
        block.empty();
        if !budget.may_reuse(held) {
            budget.release(held);
            **block = Block::new(self.order);
        }
        self.free.push(index);
    }

    /// Frees all slots: no piece is left for them.
    fn release_all(&mut self) {
        let mut budget = lock(&self.budget);
        self.slots.iter_mut().for_each(|slot| slot.release(&mut budget));
        for (_, piece) in self.pieces.iter_mut().skip(self.opened) {
            if let Piece::Rest(rest) = piece {
                // One that could not be read on has strands in memory.
                std::mem::take(&mut **rest).release_strands(&mut budget);
            }
        }
        drop(budget);
        (self.slots, self.free) = (Vec::new(), Vec::new());
    }
}

impl Drop for History {
    fn drop(&mut self) {
        self.release_all();
    }
}

fn lock(budget: &Mutex<MergeBudget>) -> MutexGuard<'_, MergeBudget> {
    budget.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Rest {
    fn is_open(&self) -> bool {
        matches!(self, Self::Open(..))
    }

    /// Whether all messages of the piece are in memory.
    fn is_nothing(&self) -> bool {
        matches!(self, Self::Nothing)
    }

    /// Ends the counts of what is open.
    fn release(self, budget: &mut MergeBudget) {
        budget.close(self.is_open());
        self.release_strands(budget);
    }

    fn release_strands(self, budget: &mut MergeBudget) {
        if let Self::Strands(mut strands) = self {
            strands.members.iter_mut().for_each(|member| member.release(budget));
        }
    }
}

impl Slot {
    /// Ends the counts of what the slot holds.
    fn release(&mut self, budget: &mut MergeBudget) {
        std::mem::take(&mut self.rest).release(budget);
        budget.release(&mut self.held);
    }

    /// Loads the next rows, or a slice of them. `false`: there are none.
    ///
    /// # Errors
    /// Damage: the next call continues after it. Any other error: the rest is unchanged.
    fn load(
        &mut self,
        budget: &mut MergeBudget,
        (order, after, end): (Order, Option<Key>, u64),
        (filter, context): (&mut Filter, ReadContext<'_>),
        errors: &mut VecDeque<Error>,
    ) -> Result<bool, Error> {
        if let Rest::Strands(strands) = &mut self.rest {
            budget.release(&mut self.held);
            let bounds = (order, after, end);
            let loaded = strands.load(budget, bounds, (filter, context), &mut self.block, errors)?;
            if !loaded {
                self.rest = Rest::Nothing;
            }
            budget.hold(&mut self.held, Held::whole(self.block.memory()));
            return Ok(loaded);
        }
        budget.close(self.rest.is_open());
        if let Rest::Closed(part, blocks, after_key) = &mut self.rest {
            let Some(segment) = context.space.open_segment(part, context.stream.schema_files())? else {
                return Ok(false);
            };
            self.rest =
                Rest::Open(SegmentBlocks::new(segment, part.clone(), std::mem::take(blocks)), *after_key);
        }
        budget.release(&mut self.held);
        let mut scratch = (!budget.may_hold_whole()).then(|| budget.scratch(order));
        let block = scratch.as_mut().unwrap_or(&mut *self.block);
        let loaded = self.rest.load(budget, (order, after, end), (filter, context), block, errors);
        let held = match &mut scratch {
            None => Held::whole(self.block.memory()),
            Some(scratch) => {
                if self.block.memory() > budget.slice_bytes() * 2 {
                    self.block.free();
                }
                let more = self.block.take_slice(scratch, budget.slice_bytes(), (filter, context), errors);
                if let (Some(after_key), Ok(Some(loaded))) = (more, &loaded) {
                    self.rest.put_back(*loaded, after_key, order);
                }
                Held::slice(self.block.memory())
            }
        };
        budget.hold(&mut self.held, held);
        budget.put_scratch(scratch);
        self.rest.close_if_idle(budget);
        loaded.map(|loaded| loaded.is_some())
    }
}

/// What has been loaded of a rest.
#[derive(Clone, Copy)]
enum Loaded {
    Granule(Granule),
    Block(usize),
}

impl Rest {
    /// Loads the next granule or block into `block`. `None`: there is none.
    fn load(
        &mut self,
        budget: &mut MergeBudget,
        (order, after, end): (Order, Option<Key>, u64),
        (filter, context): (&mut Filter, ReadContext<'_>),
        block: &mut Block,
        errors: &mut VecDeque<Error>,
    ) -> Result<Option<Loaded>, Error> {
        match self {
            Self::Nothing | Self::Closed(..) | Self::Strands(_) => Ok(None),
            Self::Granule(granule, after_key) => {
                let granule = *granule;
                block.empty();
                let sequences = granule.first_sequence..granule.next_sequence();
                let times = (granule.time_min, granule.time_max);
                let deletions = context.space.deletions_in_log(&sequences, times)?;
                context.stream.unless_gone(context.space.log.read(&granule, block.bytes_mut()))?;
                let removed = budget.removed.clone();
                let bounds = Bounds { after: after_key.or(after), end, deletions, removed };
                block.load(&granule.span(), granule.sorted, bounds, (filter, context), errors);
                *self = Self::Nothing;
                Ok(Some(Loaded::Granule(granule)))
            }
            Self::Open(blocks, after_key) => {
                let Some(index) = blocks.next(order) else { return Ok(None) };
                let bounds = (after_key.or(after), end);
                let loaded = budget.load(blocks, index, bounds, (filter, context), block, errors);
                if loaded.as_ref().is_err_and(|error| !error.is_damage()) {
                    blocks.put_back(index, order);
                }
                loaded.map(|()| Some(Loaded::Block(index)))
            }
        }
    }

    /// Returns what was loaded: only rows up to `after_key` have been copied from it.
    fn put_back(&mut self, loaded: Loaded, after_key: Key, order: Order) {
        match (loaded, self) {
            (Loaded::Granule(granule), rest) => *rest = Self::Granule(granule, Some(after_key)),
            (Loaded::Block(index), Self::Open(blocks, after)) => {
                blocks.put_back(index, order);
                *after = Some(after_key);
            }
            (Loaded::Block(_), _) => {}
        }
    }

    /// Closes the segment if no block is left, or if too many segments are open.
    fn close_if_idle(&mut self, budget: &mut MergeBudget) {
        if let Self::Open(blocks, after_key) = self {
            if blocks.is_empty() {
                *self = Self::Nothing;
            } else if !budget.may_open() {
                *self = Self::Closed(blocks.part.clone(), blocks.take(), *after_key);
            }
        }
        budget.count_files(self.is_open());
    }

    /// The smallest possible rank in it.
    fn first_rank(&self, order: Order) -> Key {
        match self {
            Self::Open(blocks, _) => first_of(blocks.bounds(), order),
            Self::Granule(granule, _) => Piece::Granule(*granule).first_rank(order),
            Self::Nothing | Self::Closed(..) | Self::Strands(_) => (i64::MIN, 0),
        }
    }
}

impl Piece {
    /// The granule that the piece is, or is the rest of.
    fn granule(&self) -> Option<&Granule> {
        match self {
            Self::Granule(granule) => Some(granule),
            Self::Rest(rest) => match &**rest {
                Rest::Granule(granule, _) => Some(granule),
                _ => None,
            },
            Self::Segment(_) => None,
        }
    }

    /// The smallest possible rank in the piece.
    fn first_rank(&self, order: Order) -> Key {
        let (times, sequences) = match self {
            Self::Granule(granule) => {
                ((granule.time_min, granule.time_max), (granule.first_sequence, granule.next_sequence() - 1))
            }
            Self::Segment(part) => {
                let times =
                    part.content.as_ref().map_or((0, 0), |content| (content.time_min, content.time_max));
                (times, (part.sequences.start, part.sequences.end - 1))
            }
            Self::Rest(rest) => return rest.first_rank(order),
        };
        first_of((times, sequences), order)
    }
}

/// The smallest possible rank with such times and sequence numbers.
fn first_of((times, sequences): ((i64, i64), (u64, u64)), order: Order) -> Key {
    match order {
        Order::TimeReversed => order.rank((times.1, sequences.1)),
        _ => order.rank((times.0, sequences.0)),
    }
}

/// Whether a row of the next piece may be before all of `others`, ranks of open pieces.
fn is_next(unopened: Option<Key>, others: [Option<Key>; 2]) -> bool {
    unopened.is_some_and(|unopened| others.into_iter().flatten().all(|other| unopened <= other))
}
