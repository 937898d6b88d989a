//! The last messages of a stream as of one moment: for each symbol and record type the one of the greatest time, of equal
//! times the one that a cursor returns last. A late subscriber needs them to begin with.
//!
//! Granules and blocks are searched from the latest time backwards. A pair of symbol and record type is settled when its last
//! message is later than everything not yet searched, a symbol when all its pairs are, and the search ends when every symbol of
//! the dictionary is settled. So the end of history is read; of older segments without an unsettled symbol, their index; of
//! older blocks with one, the head and the rows of that symbol. The only cost in proportion to history is one head (a few
//! hundred bytes) for each block of a symbol that has never had a message of one of the record types.

use crate::error::{Error, SegmentFailure, Unreadable};
use crate::interrupt;
use crate::read::block::{Block, Bounds, Key, Order};
use crate::read::filter::Filter;
use crate::read::merge_budget::MergeBudget;
use crate::read::segment_blocks::SegmentBlocks;
use crate::read::strand_runs::StrandRuns;
use crate::space::catalog::Part;
use crate::space::reader::OpenSegment;
use crate::stream::reader::{ReadContext, StreamReader};
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;
use tapedb_log::Granule;

/// Limit of segments that are open while others are searched.
const FILES_MAX: usize = 256;
/// With at most this many open symbols, each one that is settled may make blocks unnecessary.
const SYMBOLS_FEW: usize = 1024;

/// By record type: fields whose combinations of values each have their own last message.
pub(crate) type KeyFields = HashMap<String, Vec<String>>;

/// A message that is the last of its kind.
#[derive(Debug)]
pub(crate) struct LastMessage {
    key: Key,
    space: usize,
    symbol: u32,
    type_id: u16,
    body: Box<[u8]>,
}

/// What was found in a space, and the damage on the way.
#[derive(Debug)]
pub(crate) struct LastOfSpace {
    pub rows: Vec<LastMessage>,
    pub errors: VecDeque<Error>,
}

/// The last messages of a space, one after the other.
#[derive(Debug)]
pub(crate) struct LastMessages {
    block: Box<Block>,
    rows: VecDeque<LastMessage>,
    errors: VecDeque<Error>,
    positioned: bool,
}

impl LastMessages {
    /// Those of `rows` after `after`, in order; `errors` are reported first.
    pub fn new(
        mut rows: Vec<LastMessage>,
        order: Order,
        after: Option<Key>,
        errors: impl IntoIterator<Item = Error>,
    ) -> Self {
        rows.retain(|row| after.is_none_or(|after| order.rank(row.key) > order.rank(after)));
        rows.sort_unstable_by_key(|row| order.rank(row.key));
        let errors = errors.into_iter().collect();
        Self { block: Box::new(Block::new(order)), rows: rows.into(), errors, positioned: false }
    }

    /// Moves to the next message. `false`: there is none left.
    ///
    /// # Errors
    /// Damage that the search found, once each.
    pub fn advance(&mut self) -> Result<bool, Error> {
        self.positioned = false;
        if let Some(error) = self.errors.pop_front() {
            return Err(error);
        }
        let Some(row) = self.rows.pop_front() else { return Ok(false) };
        self.block.set_row(row.key, row.symbol, row.type_id, &row.body);
        self.positioned = true;
        Ok(true)
    }

    /// The block with the current message.
    pub fn current(&self) -> Option<&Block> {
        self.positioned.then_some(&*self.block)
    }

    /// The same, to be exchanged.
    pub fn current_mut(&mut self) -> Option<&mut Box<Block>> {
        self.positioned.then_some(&mut self.block)
    }
}

/// Finds the last messages that `filter` wants, in each space with sequence numbers below its end; by space.
///
/// # Errors
/// Errors of the system; a deleted stream.
pub(crate) fn find(
    stream: &StreamReader,
    filter: Filter,
    fields: &KeyFields,
    ends: &[u64],
    budget: &mut MergeBudget,
) -> Result<Vec<LastOfSpace>, Error> {
    let mut search = Search::new(stream, filter, fields, ends);
    search.run(budget)?;
    let of = |errors: VecDeque<Error>| LastOfSpace { rows: Vec::new(), errors };
    let mut found: Vec<LastOfSpace> = search.errors.into_iter().map(of).collect();
    let keyed = search.keyed.into_values();
    search.plain.into_values().chain(keyed).for_each(|row| found[row.space].rows.push(row));
    Ok(found)
}

/// What is wanted of a record type.
#[derive(Debug, Clone)]
enum Wanted {
    Nothing,
    Last,
    /// The last of each combination of values of these fields.
    LastBy(Vec<usize>),
}

/// A search in progress.
///
/// Always true: all messages later than the time of the next unit of `heap` have been searched, so a pair whose message is
/// later is settled; `pending` are pairs that have a message and are not settled.
struct Search<'a> {
    stream: &'a StreamReader,
    filter: Filter,
    ends: &'a [u64],
    types: Vec<Wanted>,
    plain: HashMap<(u32, u16), LastMessage>,
    keyed: HashMap<(u32, u16, String), LastMessage>,
    pending: Vec<(u32, u16)>,
    /// By symbol: record types that are not settled.
    unsettled: Vec<u16>,
    /// By record type: symbols for which it is not settled.
    unsettled_of: Vec<u32>,
    /// Symbols with an unsettled record type, ascending.
    open: Vec<u32>,
    heap: BinaryHeap<Unit>,
    /// By space: the generation of the catalog it was planned with.
    generations: Vec<u64>,
    errors: Vec<VecDeque<Error>>,
    block: Block,
    files: usize,
}

/// A unit of the search, which has no message later than a time.
#[derive(Debug)]
struct Unit {
    time_max: i64,
    space: usize,
    what: What,
}

#[derive(Debug)]
enum What {
    Granule(Granule),
    Segment(Arc<Part>),
    Blocks(Blocks),
}

/// Blocks of a segment that are still to be searched, the last first.
#[derive(Debug)]
struct Blocks {
    part: Arc<Part>,
    /// `None`: closed, because many are open.
    segment: Option<Arc<OpenSegment>>,
    runs: VecDeque<Range<usize>>,
    /// How many symbols were open when the runs were found.
    symbols: usize,
    /// The strand of the segment that they are of.
    strand: usize,
}

impl Ord for Unit {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        // Of equal times the last arrival is first: fewer messages are replaced.
        (self.time_max, self.space).cmp(&(other.time_max, other.space))
    }
}

impl PartialOrd for Unit {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Unit {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Unit {}

impl<'a> Search<'a> {
    fn new(stream: &'a StreamReader, filter: Filter, fields: &KeyFields, ends: &'a [u64]) -> Self {
        let records = (0u16..).zip(stream.layouts.records());
        let types: Vec<Wanted> = records
            .map(|(id, record)| match fields.get(&record.name) {
                _ if !record.message || !filter.wants_type(id) => Wanted::Nothing,
                None => Wanted::Last,
                Some(names) => Wanted::LastBy(names.iter().filter_map(|name| record.field(name)).collect()),
            })
            .collect();
        let wanted = types.iter().filter(|wanted| !matches!(wanted, Wanted::Nothing)).count() as u16;
        let symbols = stream.dictionary.len();
        let wants = |id: &u32| stream.dictionary.name(*id).is_some_and(|name| filter.wants_name(name));
        let open: Vec<u32> = (0..symbols).filter(wants).collect();
        let unsettled_of = types.iter().map(|wanted| match wanted {
            Wanted::Nothing => 0,
            _ => open.len() as u32,
        });
        Self {
            unsettled: vec![wanted; symbols as usize],
            unsettled_of: unsettled_of.collect(),
            open: if wanted > 0 { open } else { Vec::new() },
            stream,
            filter,
            ends,
            types,
            plain: HashMap::new(),
            keyed: HashMap::new(),
            pending: Vec::new(),
            heap: BinaryHeap::new(),
            generations: vec![0; ends.len()],
            errors: ends.iter().map(|_| VecDeque::new()).collect(),
            block: Block::new(Order::TimeReversed),
            files: 0,
        }
    }

    fn context(&self, space: usize) -> ReadContext<'a> {
        ReadContext { stream: self.stream, space: &self.stream.spaces[space] }
    }

    fn run(&mut self, budget: &mut MergeBudget) -> Result<(), Error> {
        (0..self.ends.len()).for_each(|space| self.plan(space));
        while let Some(unit) = self.heap.pop() {
            self.settle(unit.time_max);
            if self.open.is_empty() {
                return Ok(());
            }
            interrupt::check()?;
            let space = unit.space;
            match self.search(unit, budget) {
                Ok(()) => {}
                Err(error) if error.is_missing_file() => self.replan(space, error)?,
                Err(error) if error.is_damage() => self.errors[space].push_back(error),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Adds everything in a space that may have a wanted message to the heap.
    fn plan(&mut self, space: usize) {
        let (catalog, snapshot) = self.context(space).space.view();
        let (filter, end) = (&self.filter, self.ends[space]);
        self.generations[space] = catalog.generation;
        let granules = snapshot.iter().filter(|granule| {
            granule.next_sequence() > catalog.sealed
                && granule.first_sequence < end
                && filter.wants_times(granule.time_min, granule.time_max)
        });
        self.heap.extend(granules.map(|granule| Unit {
            time_max: granule.time_max,
            space,
            what: What::Granule(*granule),
        }));
        let parts = catalog.parts_between(0..end).filter_map(|part| {
            let content = part.content.as_ref()?;
            let is_wanted = filter.wants_times(content.time_min, content.time_max);
            is_wanted.then(|| Unit { time_max: content.time_max, space, what: What::Segment(part.clone()) })
        });
        self.heap.extend(parts);
    }

    /// A file was missing: continues with the files that have replaced it.
    ///
    /// # Errors
    /// When the stream has been deleted.
    fn replan(&mut self, space: usize, error: Error) -> Result<(), Error> {
        self.stream.check_not_gone()?;
        let context = self.context(space);
        context.space.refresh_catalog()?;
        if context.space.catalog().generation != self.generations[space] {
            self.heap.retain(|unit| unit.space != space);
            self.files = self.heap.iter().filter(|unit| matches!(unit.what, What::Blocks(_))).count();
            self.plan(space);
        } else if !error.is_trimmed() {
            self.errors[space].push_back(error);
        }
        // What a transient stream has dropped during the search is ignored, like all that it dropped before.
        Ok(())
    }

    /// Settles pairs: no message later than this time is left to search.
    fn settle(&mut self, time_max: i64) {
        let Self { plain, pending, unsettled, unsettled_of, .. } = self;
        let mut has_closed = false;
        pending.retain(|(symbol, type_id)| {
            if plain.get(&(*symbol, *type_id)).is_none_or(|found| found.key.0 <= time_max) {
                return true;
            }
            unsettled_of[usize::from(*type_id)] -= 1;
            if let Some(left) = unsettled.get_mut(*symbol as usize) {
                *left -= 1;
                has_closed |= *left == 0;
            }
            false
        });
        if has_closed {
            self.open.retain(|symbol| unsettled[*symbol as usize] > 0);
        }
    }

    fn search(&mut self, unit: Unit, budget: &mut MergeBudget) -> Result<(), Error> {
        let space = unit.space;
        match unit.what {
            What::Granule(granule) => self.search_granule(&granule, space),
            What::Segment(part) => {
                let Some(segment) =
                    self.context(space).space.open_segment(&part, self.stream.schema_files())?
                else {
                    return Ok(());
                };
                self.errors[space].extend(segment.failure());
                let context = self.context(space);
                self.filter.select(self.open.clone(), Vec::new());
                let strands = self.filter.wanted_strands(&segment.segment, context);
                let symbols = self.open.len();
                for StrandRuns { strand, runs } in strands {
                    self.files += 1;
                    let (part, segment) = (part.clone(), Some(segment.clone()));
                    self.wait(Blocks { part, segment, runs, symbols, strand }, space)?;
                }
                Ok(())
            }
            What::Blocks(mut blocks) => {
                if !blocks.are_stale(self.open.len())
                    && let Some(index) = blocks.next()
                {
                    match self.search_block(&blocks, index, space, budget) {
                        Err(error) if error.is_damage() => self.errors[space].push_back(error),
                        searched => searched?,
                    }
                }
                self.wait(blocks, space)
            }
        }
    }

    fn search_granule(&mut self, granule: &Granule, space: usize) -> Result<(), Error> {
        let context = self.context(space);
        self.block.empty();
        let sequences = granule.first_sequence..granule.next_sequence();
        // First: this fails for messages that have been sealed, which are then read in their segment.
        let deletions = context.space.deletions_in_log(&sequences, (granule.time_min, granule.time_max))?;
        context.stream.unless_gone(context.space.log.read(granule, self.block.bytes_mut()))?;
        let bounds = Bounds { after: None, end: self.ends[space], deletions, removed: None };
        let Self { block, filter, errors, .. } = self;
        block.load(&granule.span(), granule.sorted, bounds, (filter, context), &mut errors[space]);
        self.take_rows(space);
        Ok(())
    }

    fn search_block(
        &mut self,
        blocks: &Blocks,
        index: usize,
        space: usize,
        budget: &mut MergeBudget,
    ) -> Result<(), Error> {
        let context = self.context(space);
        let Some(segment) = blocks.open(context)? else { return Ok(()) };
        let of_type = (0u16..).zip(&self.unsettled_of);
        let types = of_type.filter(|(_, unsettled)| **unsettled > 0).map(|(id, _)| id).collect();
        self.filter.select(self.open.clone(), types);
        let is_ours = segment.segment.header().schema_version == context.stream.definition.schema_version;
        let Some(entry) = segment.segment.blocks().get(index) else { return Ok(()) };
        let mut selection = self.filter.selection(context);
        if !is_ours {
            // Types have other ids there.
            selection.types = None;
        }
        let may_hold = segment.segment.may_hold(index, &mut budget.raw, &selection);
        if !may_hold.map_err(|error| SegmentFailure::of_block(&segment.path, entry, error))? {
            return Ok(());
        }
        let blocks = SegmentBlocks::new(segment, blocks.part.clone(), []);
        let Self { block, filter, errors, ends, .. } = self;
        let bounds = (None, ends[space]);
        budget.load(&blocks, index, bounds, (filter, context), block, &mut errors[space])?;
        self.take_rows(space);
        Ok(())
    }

    /// Puts the remaining blocks that have an open symbol back into the heap.
    fn wait(&mut self, mut blocks: Blocks, space: usize) -> Result<(), Error> {
        let context = self.context(space);
        let Some(segment) = blocks.open(context)? else { return Ok(()) };
        if blocks.are_stale(self.open.len()) {
            let limit = blocks.runs.back().map_or(0, |run| run.end);
            self.filter.select(self.open.clone(), Vec::new());
            let strands = self.filter.wanted_strands(&segment.segment, context);
            let found = strands.into_iter().find(|strand| strand.strand == blocks.strand);
            blocks.runs = found.map(|strand| strand.runs).unwrap_or_default();
            blocks.cut(limit);
            blocks.symbols = self.open.len();
        }
        let time_max = blocks.last().and_then(|index| Some(segment.segment.blocks().get(index)?.time_max));
        let Some(time_max) = time_max else {
            self.files -= 1;
            return Ok(());
        };
        blocks.segment = (self.files <= FILES_MAX).then_some(segment);
        self.heap.push(Unit { time_max, space, what: What::Blocks(blocks) });
        Ok(())
    }

    /// Takes the rows of the block that are later than those found so far.
    fn take_rows(&mut self, space: usize) {
        let context = self.context(space);
        loop {
            let Self { block, filter, errors, .. } = self;
            if !block.advance(filter, context, &mut errors[space]) {
                return;
            }
            match self.types.get(usize::from(block.type_id())) {
                Some(Wanted::Last) => self.take_plain(space),
                Some(Wanted::LastBy(_)) => self.take_keyed(space),
                Some(Wanted::Nothing) | None => {}
            }
        }
    }

    fn take_plain(&mut self, space: usize) {
        let Self { block, plain, pending, unsettled, .. } = self;
        let pair = (block.symbol(), block.type_id());
        match plain.get_mut(&pair) {
            Some(found) if found.is_later_than(block.key(), space) => {}
            Some(found) => *found = LastMessage::of(block, space),
            None => {
                plain.insert(pair, LastMessage::of(block, space));
                if (pair.0 as usize) < unsettled.len() {
                    pending.push(pair);
                }
            }
        }
    }

    fn take_keyed(&mut self, space: usize) {
        let Self { block, keyed, types, stream, errors, .. } = self;
        let (symbol, type_id) = (block.symbol(), block.type_id());
        let Some(Wanted::LastBy(fields)) = types.get(usize::from(type_id)) else { return };
        let record = match stream.layouts.view(type_id, block.body()) {
            Ok(record) => record,
            Err(error) => {
                let (stream, sequence) = (stream.name.clone(), block.sequence());
                errors[space].push_back(Error::Unreadable(Unreadable::Message {
                    stream,
                    sequence,
                    error: Box::new(error),
                }));
                return;
            }
        };
        let mut values = String::new();
        for field in fields {
            let start = values.len();
            let _ = write!(values, "{}", record.at(*field));
            // Its length ends a value, so different combinations have different texts.
            let _ = write!(values, " {} ", values.len() - start);
        }
        let found = keyed.entry((symbol, type_id, values));
        found
            .and_modify(|found| {
                if !found.is_later_than(block.key(), space) {
                    *found = LastMessage::of(block, space);
                }
            })
            .or_insert_with(|| LastMessage::of(block, space));
    }
}

impl Blocks {
    fn open(&self, context: ReadContext<'_>) -> Result<Option<Arc<OpenSegment>>, Error> {
        match &self.segment {
            Some(segment) => Ok(Some(segment.clone())),
            None => context.space.open_segment(&self.part, context.stream.schema_files()),
        }
    }

    /// Whether the runs are to be found again, because fewer symbols are open now. With many symbols that is slow.
    fn are_stale(&self, open: usize) -> bool {
        self.symbols != open && (open < SYMBOLS_FEW || open < self.symbols / 2)
    }

    /// The block to search next.
    fn last(&self) -> Option<usize> {
        self.runs.back()?.end.checked_sub(1)
    }

    /// Removes and returns the block to search next.
    fn next(&mut self) -> Option<usize> {
        let index = self.last()?;
        self.cut(index);
        Some(index)
    }

    /// Removes blocks from an index on.
    fn cut(&mut self, end: usize) {
        while self.runs.back().is_some_and(|run| run.start >= end) {
            self.runs.pop_back();
        }
        if let Some(run) = self.runs.back_mut() {
            run.end = run.end.min(end);
        }
    }
}

impl LastMessage {
    fn of(block: &Block, space: usize) -> Self {
        let body = block.body().into();
        Self { key: block.key(), space, symbol: block.symbol(), type_id: block.type_id(), body }
    }

    /// Equal times are in the order of spaces, and within a space in order of arrival.
    fn is_later_than(&self, (time, sequence): Key, space: usize) -> bool {
        (self.key.0, self.space, self.key.1) >= (time, space, sequence)
    }
}
