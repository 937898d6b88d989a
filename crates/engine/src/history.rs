//! A space's messages up to one moment, in order, however they arrived and wherever they lie.
//!
//! Pieces, which are granules of the log and segments, are taken in the order of their first rank. As long as they follow
//! each other in time, which is what a feed writes, one is open at a time. Where late messages made them overlap, all those
//! that reach over the current time are open and merged. Of a segment one block is in memory at a time. Memory is bounded by
//! how many pieces overlap at any one time: each a granule of 256 KiB or one batch, or a block; and by the list of wanted
//! pieces.

use crate::block::{Block, Bounds, Key, LAST, Order};
use crate::catalog::{Catalog, Part};
use crate::error::{Error, SegmentFailure};
use crate::filter::Filter;
use crate::missing;
use crate::space::{Lane, OpenSegment};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::iter::once;
use std::ops::Range;
use std::sync::Arc;
use tapedb_log::{Granule, Snapshot};
use tapedb_segment as segment;

/// Where pieces come from.
#[derive(Debug, Clone)]
enum Piece {
    /// Of the log.
    Granule(Granule),
    /// A segment whose blocks follow each other.
    Segment(Arc<Part>),
    /// Runs of blocks of an open segment that follow each other.
    Blocks(Feed),
}

/// Messages in order up to an end.
///
/// Always true after a step: the lead's current row comes before all rows of `waiting` and of the pieces not yet opened, the
/// first of which is at `limit` or behind it.
#[derive(Debug)]
pub(crate) struct History {
    order: Order,
    /// Only messages after this place, in the order of reading.
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
    /// The lead needs no look at the others while its rank is below this.
    limit: Key,
    /// Nor does whoever reads need one at other histories while it is below this, and for so many rows.
    outer: (Key, usize),
    /// Whether the lead's current row has not been given yet.
    fresh: bool,
    errors: VecDeque<Error>,
    tools: Tools,
}

/// What all slots decode blocks of segments with.
#[derive(Debug, Default)]
pub(crate) struct Tools {
    pub decoder: segment::Decoder,
    pub raw: segment::Block,
}

/// An open piece: what of it is in memory, and what follows that.
#[derive(Debug)]
struct Slot {
    block: Block,
    feed: Option<Feed>,
}

/// The rest of a segment.
#[derive(Debug, Clone)]
pub(crate) struct Feed {
    pub segment: Arc<OpenSegment>,
    pub part: Arc<Part>,
    /// Runs of blocks that may hold wanted messages and have not been loaded.
    blocks: VecDeque<Range<usize>>,
}

impl History {
    /// All messages below `end` that `filter` wants, behind `after`, in order of time or backwards. What is known to be
    /// missing among them is told first, whatever the filter: nobody can say which messages they were.
    pub fn new(
        (catalog, snapshot): (&Catalog, &Snapshot),
        (lane, filter): (Lane<'_>, &Filter),
        order: Order,
        after: Option<Key>,
        end: u64,
    ) -> Self {
        let granules = snapshot.iter().filter(|granule| {
            granule.next_sequence() > catalog.sealed
                && granule.first_sequence < end
                && filter.wants_times(granule.time_min, granule.time_max)
        });
        let parts = catalog.parts_between(0..end).iter().filter(|part| {
            part.content
                .as_ref()
                .is_some_and(|content| filter.wants_times(content.time_min, content.time_max))
        });
        let granules = granules.map(|granule| Piece::Granule(*granule));
        let parts = parts.map(|part| Piece::Segment(part.clone()));
        let mut history = Self::of(parts.chain(granules), order, after, end);
        history.errors = missing::below(end, &lane.space.log, (catalog, snapshot));
        history.errors.extend(missing::sealed(end, &lane.space.directory, catalog));
        history
    }

    /// The messages of some granules, in order of time.
    pub fn of_granules(granules: impl IntoIterator<Item = Granule>) -> Self {
        Self::of(granules.into_iter().map(Piece::Granule), Order::Time, None, u64::MAX)
    }

    /// The messages of some parts, in order of time.
    pub fn of_parts(parts: impl IntoIterator<Item = Arc<Part>>) -> Self {
        Self::of(parts.into_iter().map(Piece::Segment), Order::Time, None, u64::MAX)
    }

    /// The messages of one part from a sequence number on, in order of arrival.
    ///
    /// # Errors
    /// When its segment cannot be opened.
    pub fn of_arrivals(lane: Lane<'_>, part: &Arc<Part>, from: u64) -> Result<Self, Error> {
        let after = from.checked_sub(1).map(|before| (i64::MAX, before));
        let segment = lane.space.open_segment(part, lane.stream)?;
        let failure = segment.as_ref().and_then(|segment| segment.failure());
        let blocks = segment.into_iter().flat_map(|segment| {
            let wanted = |index: &usize| segment.segment.blocks()[*index].sequence_max >= from;
            let blocks: Vec<usize> = (0..segment.segment.blocks().len()).filter(wanted).collect();
            // They may overlap in order of arrival, so each is a piece of its own.
            let feed = move |index| Feed::new(segment.clone(), part.clone(), once(index..index + 1));
            blocks.into_iter().map(move |index| Piece::Blocks(feed(index)))
        });
        let mut history = Self::of(blocks, Order::Arrival, after, u64::MAX);
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
            errors: VecDeque::new(),
            tools: Tools::default(),
        }
    }

    /// The block that stands on the current row; there is one after [`History::advance`] returned `true`.
    #[inline]
    pub fn current(&self) -> Option<&Block> {
        Some(&self.slots[self.lead?].block)
    }

    /// [`History::advance`] where nothing but the next row of the lead needs a look; `false` where more does.
    #[inline]
    pub fn advance_plainly(&mut self) -> bool {
        // After an error each row takes a closer look.
        match self.lead {
            Some(lead) if !self.fresh => self.slots[lead].block.advance_plainly(),
            _ => false,
        }
    }

    /// Moves to the next wanted message. `false`: there is none left.
    ///
    /// # Errors
    /// Damage, once each; the next call goes on after it. What the system refuses: the next call tries it again.
    #[inline]
    pub fn advance(&mut self, filter: &mut Filter, lane: Lane<'_>) -> Result<bool, Error> {
        let found = self.step(filter, lane);
        if let Some(error) = self.errors.pop_front() {
            self.fresh = found;
            return Err(error);
        }
        Ok(found)
    }

    /// Leaves out the piece that is to be opened next, for its file is not there and no other has taken its place.
    pub fn leave_out_next(&mut self) {
        self.opened += 1;
    }

    /// The errors that have not been told; from now on there are none.
    pub fn take_errors(&mut self) -> VecDeque<Error> {
        std::mem::take(&mut self.errors)
    }

    /// Gives these errors before anything else.
    pub fn tell_first(&mut self, errors: VecDeque<Error>) {
        self.errors = errors;
    }

    /// Finds the next row; `false` when there is none.
    #[inline]
    fn step(&mut self, filter: &mut Filter, lane: Lane<'_>) -> bool {
        if self.fresh {
            self.fresh = false;
            return self.lead.is_some();
        }
        if !self.errors.is_empty() {
            // Told before anything new is looked at.
            return false;
        }
        if let Some(lead) = self.lead {
            if self.advance_slot(lead, filter, lane) {
                if self.slots[lead].block.rank() < self.limit {
                    return true;
                }
            } else {
                self.release(lead);
                self.lead = None;
            }
        }
        self.choose_lead(filter, lane);
        self.lead.is_some()
    }

    /// Moves a slot to its next row, in its block or in the next block of its segment.
    fn advance_slot(&mut self, slot: usize, filter: &mut Filter, lane: Lane<'_>) -> bool {
        let Self { slots, tools, errors, order, after, end, .. } = self;
        let Slot { block, feed: rest } = &mut slots[slot];
        loop {
            if block.advance(filter, lane, errors) {
                return true;
            }
            let Some(feed) = rest else { return false };
            let Some(index) = feed.next(*order) else { return false };
            match tools.load(feed, index, (*after, *end), (filter, lane), block, errors) {
                Ok(()) => {}
                Err(error) if error.is_damage() => errors.push_back(error),
                Err(error) => {
                    // The next call tries again: what is left becomes the next piece.
                    errors.push_back(error);
                    feed.put_back(index, *order);
                    let piece = rest.take().map(Piece::Blocks);
                    let piece = piece.map(|piece| (piece.first_rank(self.order), piece));
                    self.pieces.splice(self.opened..self.opened, piece);
                    return false;
                }
            }
        }
    }

    /// Makes the slot with the next row the lead, opening pieces that may hold it. There is no lead where there is no next
    /// row, and where a piece cannot be read: the next call goes on with it.
    fn choose_lead(&mut self, filter: &mut Filter, lane: Lane<'_>) {
        loop {
            let lead = self.lead.map(|lead| self.slots[lead].block.rank());
            let waiting = self.waiting.peek().map(|Reverse((rank, _))| *rank);
            let unopened = self.pieces.get(self.opened).map(|(rank, _)| *rank);
            if is_next(unopened, [lead, waiting]) {
                if let Err(error) = self.open_next(filter, lane) {
                    self.errors.push_back(error);
                    self.park_lead();
                    return;
                }
            } else if lead.is_none_or(|lead| waiting.is_some_and(|waiting| waiting < lead)) {
                self.park_lead();
                self.lead = self.waiting.pop().map(|Reverse((_, slot))| slot);
                if self.lead.is_none() {
                    return;
                }
            } else {
                self.limit = waiting.into_iter().chain(unopened).min().unwrap_or(LAST);
                self.limit_lead();
                return;
            }
        }
    }

    /// From now on rows at this rank or behind it are no plain steps, nor is any behind the next `rows`.
    pub fn set_limit(&mut self, limit: Key, rows: usize) {
        self.outer = (limit, rows);
        self.limit_lead();
    }

    fn limit_lead(&mut self) {
        let (outer, rows) = self.outer;
        if let Some(lead) = self.lead {
            self.slots[lead].block.set_limit(self.limit.min(outer), rows);
        }
    }

    /// Lets the lead wait like the others.
    fn park_lead(&mut self) {
        if let Some(lead) = self.lead.take() {
            self.waiting.push(Reverse((self.slots[lead].block.rank(), lead)));
        }
    }

    /// Opens the next piece and lets its first wanted row wait. Damage goes to `errors`.
    ///
    /// # Errors
    /// When it cannot be read: it is still the next one.
    fn open_next(&mut self, filter: &mut Filter, lane: Lane<'_>) -> Result<(), Error> {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { block: Block::new(self.order), feed: None });
            self.slots.len() - 1
        });
        let opened = self.open_in(slot, filter, lane);
        if opened.is_err() {
            self.free.push(slot);
            return opened;
        }
        self.opened += 1;
        if self.advance_slot(slot, filter, lane) {
            self.waiting.push(Reverse((self.slots[slot].block.rank(), slot)));
        } else {
            self.release(slot);
        }
        Ok(())
    }

    fn release(&mut self, slot: usize) {
        self.slots[slot].feed = None;
        self.free.push(slot);
    }

    fn open_in(&mut self, slot: usize, filter: &mut Filter, lane: Lane<'_>) -> Result<(), Error> {
        let Self { slots, errors, after, end, .. } = self;
        let Slot { block, feed } = &mut slots[slot];
        // Nothing of what the slot held before is left.
        block.empty();
        match &self.pieces[self.opened].1 {
            Piece::Granule(granule) => {
                lane.stream.unless_gone(lane.space.log.read(granule, block.bytes_mut()))?;
                let sequences = granule.first_sequence..granule.next_sequence();
                let times = (granule.time_min, granule.time_max);
                let deletions = lane.space.deletions_in_log(&sequences, times);
                let bounds = Bounds { after: *after, end: *end, deletions };
                block.load(&granule.span(), granule.sorted, bounds, (filter, lane), errors);
            }
            Piece::Segment(part) => match lane.space.open_segment(part, lane.stream) {
                Ok(Some(segment)) => {
                    errors.extend(segment.failure());
                    let blocks = filter.wanted_blocks(&segment.segment, lane);
                    *feed = Some(Feed::new(segment, part.clone(), blocks));
                }
                Ok(None) => {}
                Err(error) if error.is_damage() => errors.push_back(error),
                Err(error) => return Err(error),
            },
            Piece::Blocks(rest) => *feed = Some(rest.clone()),
        }
        Ok(())
    }
}

impl Tools {
    /// Reads and decodes a block of a segment.
    ///
    /// # Errors
    /// Damage: nothing of the block is given.
    pub fn load(
        &mut self,
        feed: &Feed,
        index: usize,
        (after, end): (Option<Key>, u64),
        (filter, lane): (&mut Filter, Lane<'_>),
        block: &mut Block,
        errors: &mut VecDeque<Error>,
    ) -> Result<(), Error> {
        let segment = &feed.segment.segment;
        let Some(entry) = segment.blocks().get(index) else { return Ok(()) };
        let failed = |error| SegmentFailure::of_block(&feed.segment.path, entry, error);
        block.empty();
        segment.read_block(index, &mut self.raw).map_err(failed)?;
        let version = segment.header().schema_version;
        let is_other = version != lane.stream.definition.schema_version;
        let mut selection = filter.selection(lane);
        if is_other {
            // Types have other numbers there.
            selection.types = None;
        }
        let rows = block.columns_mut();
        let decoded = self.decoder.rows(segment.plan(), &self.raw, &selection, rows);
        decoded.map_err(|damage| failed(damage.into()))?;
        let sequences = entry.sequence_min..entry.sequence_max.saturating_add(1);
        let mut deletions = lane.space.deletions_of_part(&feed.part);
        deletions.retain(|deletion| deletion.overlaps(&sequences, entry.time_min, entry.time_max));
        let end = if feed.part.sequences.end <= end { u64::MAX } else { end };
        let bounds = Bounds { after, end, deletions };
        if is_other {
            let evolution = lane.stream.evolution(version)?;
            block.load_converted(&evolution, bounds, (filter, lane), errors);
        } else {
            block.load_columns(bounds, entry.sequence_max);
        }
        Ok(())
    }
}

impl Feed {
    pub fn new(
        segment: Arc<OpenSegment>,
        part: Arc<Part>,
        blocks: impl IntoIterator<Item = Range<usize>>,
    ) -> Self {
        Self { segment, part, blocks: blocks.into_iter().collect() }
    }

    /// Place of the first message of the next block, or before it.
    pub fn first(&self) -> Option<Key> {
        let block = self.segment.segment.blocks().get(self.blocks.front()?.start)?;
        Some((block.time_min, block.sequence_min))
    }

    /// Smallest and largest times and sequence numbers.
    fn bounds(&self) -> ((i64, i64), (u64, u64)) {
        let blocks =
            self.blocks.iter().flat_map(|run| self.segment.segment.blocks().get(run.clone())).flatten();
        blocks.fold(((i64::MAX, i64::MIN), (u64::MAX, 0)), |(times, sequences), block| {
            let times = (times.0.min(block.time_min), times.1.max(block.time_max));
            (times, (sequences.0.min(block.sequence_min), sequences.1.max(block.sequence_max)))
        })
    }

    /// Takes a block back that could not be read.
    pub fn put_back(&mut self, index: usize, order: Order) {
        match order {
            Order::TimeReversed => self.blocks.push_back(index..index + 1),
            _ => self.blocks.push_front(index..index + 1),
        }
    }

    /// Takes the next block in the order of reading.
    pub fn next(&mut self, order: Order) -> Option<usize> {
        if order == Order::TimeReversed {
            let run = self.blocks.back_mut()?;
            run.end -= 1;
            let index = run.end;
            if run.start >= run.end {
                self.blocks.pop_back();
            }
            return Some(index);
        }
        let run = self.blocks.front_mut()?;
        let index = run.start;
        run.start += 1;
        if run.start >= run.end {
            self.blocks.pop_front();
        }
        Some(index)
    }
}

impl Piece {
    /// Nothing in the piece comes before this.
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
            Self::Blocks(feed) => feed.bounds(),
        };
        match order {
            Order::TimeReversed => order.rank((times.1, sequences.1)),
            _ => order.rank((times.0, sequences.0)),
        }
    }
}

/// Whether something of the next piece may come before all of `others`, which are not there or open.
fn is_next(unopened: Option<Key>, others: [Option<Key>; 2]) -> bool {
    unopened.is_some_and(|unopened| others.into_iter().flatten().all(|other| unopened <= other))
}
