//! Collects messages in time order and makes a block of them.

use crate::canonical::Canonicity;
use crate::column::{ColumnHabit, write_ints};
use crate::encoding::{Habit, Tier};
use crate::error::SegmentError;
use crate::follow::Field;
use crate::head::{BLOCK_BYTES_MAX, BLOCK_ROWS_MAX, BODY_BYTES_MAX, Group, OWN, lanes as numbers, own};
use crate::lanes::{Lane, LaneOrder};
use crate::level::Level;
use crate::plain;
use crate::plan::{GroupPlan, Plan, RecordNode};
use crate::row::RowHeader;
use crate::shred::{Bodies, Chunks, Habits, Span, gather_complete, shred};
use crate::simd::widest;
use crate::slots::Slots;
use crate::source::{ColumnRun, RowBuffer, RowRun, Source};

/// How large blocks become and how their columns are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockOptions {
    /// Rows that make a block full; 1 to 65,535 (values outside are clamped). From 16,384 on: unless symbols have
    /// fewer than 64 rows each; then it continues up to 65,535 rows or 4 MiB of bodies, because one symbol is found faster
    /// if more of its rows are together.
    pub rows: usize,
    /// Bytes of bodies that make a block full, with the same exception; at most 4 MiB. The message that reaches it is still
    /// in the block.
    pub bytes: usize,
    /// How much reading speed may be given up for size.
    pub tier: Tier,
}

impl Default for BlockOptions {
    fn default() -> Self {
        Self { rows: ROWS, bytes: 1 << 20, tier: Tier::Hot }
    }
}

/// Rows of a block by default.
const ROWS: usize = 16_384;
/// Rows of a symbol that are enough in a block.
const LANE_ROWS: usize = 64;
/// A record type of more symbols than this is cut into groups of whole lanes, …
const LANES_UNCUT: usize = 64;
/// … which have about so many rows each, if there are rows for two.
const GROUP_ROWS: usize = 4_096;

/// Steps of a group are even if fewer than one in this many is not.
const UNEVEN: usize = 32;

/// A block being filled. It caches how earlier blocks were encoded, and tries that first.
///
/// Always true: rows are in order of time, then of sequence number. The output depends only on the messages since the
/// builder was made, and on what it was given of earlier ones.
#[derive(Debug)]
pub struct BlockBuilder {
    options: BlockOptions,
    /// Rows and bytes that make the present block full, and whether an increase was considered.
    most: (usize, usize, bool),
    rows: RowBuffer,
    learned: Learned,
    /// The lanes of the rows, …
    lanes: LaneOrder,
    /// … if these rows have been sorted.
    is_sorted: bool,
}

/// How a writer has encoded columns: the next writer of the same stream tries that first. Another schema has other columns.
#[derive(Debug, Clone, Default)]
pub struct Learned {
    habits: Habits,
    lane_form: Habit<LaneForm>,
}

/// How the lanes of rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LaneForm {
    /// The rows of each lane.
    ByLane,
    /// The lane of each row.
    ByRow,
}

impl BlockBuilder {
    /// Replaces what is cached of earlier blocks.
    pub(crate) fn learn(&mut self, learned: Learned) {
        self.learned = learned;
    }

    /// What is cached of earlier blocks.
    pub(crate) fn learned(&self) -> &Learned {
        &self.learned
    }

    /// Exchanges what is cached of earlier blocks with another builder.
    pub(crate) fn swap_learned(&mut self, other: &mut Self) {
        std::mem::swap(&mut self.learned, &mut other.learned);
    }

    /// An empty block.
    pub fn new(options: BlockOptions) -> Self {
        let (rows, bytes) =
            (options.rows.clamp(1, BLOCK_ROWS_MAX), options.bytes.min(BLOCK_BYTES_MAX - BODY_BYTES_MAX));
        let options = BlockOptions { rows, bytes, ..options };
        Self {
            options,
            most: (rows, bytes, false),
            rows: RowBuffer::default(),
            learned: Learned::default(),
            lanes: LaneOrder::default(),
            is_sorted: false,
        }
    }

    /// Adds a message. Any bytes are stored unchanged; canonical bodies of their type take fewer bytes.
    ///
    /// # Errors
    /// [`SegmentError::OutOfOrder`] if it does not follow the one before, [`SegmentError::TooLong`] if its body is
    /// too long, [`SegmentError::Full`] if [`Self::is_full`]. The block is as before.
    pub fn push(&mut self, row: RowHeader, body: &[u8]) -> Result<(), SegmentError> {
        let given = (row.time, row.sequence);
        if let Some(before) = self.rows.last().filter(|last| given <= *last) {
            return Err(SegmentError::OutOfOrder { before, given });
        }
        if body.len() > BODY_BYTES_MAX {
            return Err(SegmentError::TooLong { need: BODY_BYTES_MAX, have: body.len() });
        }
        if self.is_full() {
            return Err(SegmentError::Full { what: "rows in a block", most: self.most.0 as u64 });
        }
        self.rows.push(row, body);
        self.pushed();
        Ok(())
    }

    /// Adds rows of a run from row `first` on, as many as the block takes; returns how many. The caller has checked them, and
    /// that the block is not full.
    pub(crate) fn push_run(&mut self, run: &RowRun<'_>, first: usize) -> usize {
        let (rows, bytes) = (self.most.0 - self.rows.len(), self.most.1 - self.rows.body_bytes());
        let count = run.fitting(first, rows, bytes);
        self.rows.push_run(run, first..first + count);
        self.pushed();
        count
    }

    /// [`Self::push_run`] of columns, whose record type `record` is the layout of.
    pub(crate) fn push_columns(&mut self, run: &ColumnRun<'_>, first: usize, record: &RecordNode) -> usize {
        let (rows, bytes) = (self.most.0 - self.rows.len(), self.most.1 - self.rows.body_bytes());
        let count = run.fitting(first, rows, bytes);
        self.rows.push_columns(run, first..first + count, record);
        self.pushed();
        count
    }

    fn pushed(&mut self) {
        self.is_sorted = false;
        if self.is_full() && !self.most.2 {
            self.go_on_for_small_lanes();
        }
    }

    /// Lets a full block become larger if its symbols have few rows each.
    fn go_on_for_small_lanes(&mut self) {
        self.most.2 = true;
        let (rows, most) = (self.rows.len(), BLOCK_BYTES_MAX - BODY_BYTES_MAX);
        let is_wanted = self.options.rows >= ROWS && rows > LANES_UNCUT && self.rows.body_bytes() < most;
        if is_wanted && self.lanes().len() * LANE_ROWS > rows {
            (self.most.0, self.most.1) = (BLOCK_ROWS_MAX, most);
        }
    }

    /// The lanes of the rows.
    fn lanes(&mut self) -> &[Lane] {
        if !self.is_sorted {
            let Source { types, symbols, .. } = self.rows.source();
            self.lanes.sort(types, symbols);
            self.is_sorted = true;
        }
        &self.lanes.lanes
    }

    /// Whether the block has at least half of the rows or bytes with which it is full.
    pub(crate) fn is_itself_half_full(&mut self) -> bool {
        let (rows, bytes) = (self.rows.len(), self.rows.body_bytes());
        // As few lanes as there can be: where these are not too many, their number is not needed.
        let is_perhaps = self.is_half_full(rows, bytes, 1);
        is_perhaps && {
            let lanes = self.lanes().len();
            self.is_half_full(rows, bytes, lanes)
        }
    }

    /// Bytes of all bodies.
    pub(crate) fn body_bytes(&self) -> usize {
        self.rows.body_bytes()
    }

    /// [`Self::is_itself_half_full`] of a block of so many rows, bytes of bodies, and lanes.
    pub(crate) fn is_half_full(&self, rows: usize, bytes: usize, lanes: usize) -> bool {
        let goes_on = self.options.rows >= ROWS && lanes * LANE_ROWS > rows;
        let (most_rows, most_bytes) = match goes_on {
            true => (BLOCK_ROWS_MAX, BLOCK_BYTES_MAX - BODY_BYTES_MAX),
            false => (self.options.rows, self.options.bytes),
        };
        2 * rows >= most_rows || 2 * bytes >= most_bytes
    }

    /// Whether it is time for [`Self::finish`].
    pub fn is_full(&self) -> bool {
        self.rows.len() >= self.most.0 || self.rows.body_bytes() > self.most.1
    }

    /// Whether there is no message.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Number of messages.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Symbols of the block written last and how many rows each has; a symbol is listed once for each record type.
    pub(crate) fn last_symbols(&self) -> impl Iterator<Item = (u32, u32)> {
        self.lanes.lanes.iter().map(|lane| (lane.symbol, lane.count))
    }

    /// The messages.
    pub(crate) fn source(&self) -> Source<'_> {
        self.rows.source()
    }

    /// Appends the block to `out` and starts with an empty one. Without messages nothing is appended. The block has no
    /// checksum of its content: that is for blocks in files, which [`SegmentWriter`](crate::SegmentWriter) writes.
    pub fn finish(&mut self, plan: &Plan, out: &mut Vec<u8>) {
        if !self.rows.is_empty() {
            self.write(plan, None, Canonicity::Checked, out);
        }
        self.clear();
    }

    /// Starts with an empty block.
    pub(crate) fn clear(&mut self) {
        self.most = (self.options.rows, self.options.bytes, false);
        self.rows.clear();
        self.is_sorted = false;
    }

    /// Appends the plainest encoding of the block, which has messages.
    pub(crate) fn write_plainly(&self, content: u64, out: &mut Vec<u8>) {
        plain::write(self.source(), content, out);
    }

    /// Whether a block that was written with [`Canonicity::Proved`] may differ from its source because of bodies that are not
    /// canonical.
    #[cold]
    pub(crate) fn has_bodies_that_are_not_canonical(&self, plan: &Plan) -> bool {
        let source = self.rows.source();
        (0..source.len()).any(|row| plan.layouts().check(source.types[row], source.body(row)).is_err())
    }

    /// Appends the block, which has messages.
    pub(crate) fn write(
        &mut self,
        plan: &Plan,
        content: Option<u64>,
        canonicity: Canonicity,
        out: &mut Vec<u8>,
    ) {
        self.lanes();
        let Self { lanes: LaneOrder { lanes, lane_of, order, .. }, rows, learned, options, .. } = self;
        let Learned { habits, lane_form } = learned;
        let source = rows.source();
        let mut chunks =
            Chunks { tier: options.tier, habits, type_id: OWN, list: Vec::new(), bytes: Vec::new() };
        let cut = cut(lanes);
        let is_cut = cut.windows(2).any(|pair| pair[0][0].type_id == pair[1][0].type_id);
        write_order(source, is_cut, &mut chunks);
        let by_lane =
            lanes.len() > 1 && (is_cut || !write_lane_of(lanes, lane_of, order, lane_form, &mut chunks));
        let (mut groups, mut rest) = (Vec::new(), &order[..]);
        for (index, lanes) in cut.into_iter().enumerate() {
            let first = lanes[0];
            let count: u32 = lanes.iter().map(|lane| lane.count).sum();
            let (rows, others) = rest.split_at(count as usize);
            rest = others;
            chunks.type_id = first.type_id;
            let group = GroupRows { source, group: index as u16, lanes, rows, canonicity };
            let is_whole = group.write_bodies(plan, &mut chunks);
            group.write_times(&mut chunks);
            group.write_lanes(by_lane, &mut chunks);
            groups.push(Group {
                type_id: first.type_id,
                is_whole,
                count,
                lanes: lanes.len() as u32,
                first_symbol: first.symbol,
            });
        }
        source.head(content, groups, chunks.list).write(out);
        out.extend_from_slice(&chunks.bytes);
    }
}

/// Writes times, and sequence numbers unless they count up from row to row.
fn write_order(source: Source<'_>, is_cut: bool, chunks: &mut Chunks) {
    let mut level = Level::default();
    level.of_rows(source.len(), is_cut);
    chunks.add_ints(OWN, own::TIME.into(), source.times, &level.ends);
    if !source.counts_up() {
        let sequences: Vec<i64> = source.sequences.iter().map(|sequence| *sequence as i64).collect();
        chunks.add_ints(OWN, own::SEQUENCE.into(), &sequences, &level.ends);
    }
}

/// Rows of one record type in the order of lanes.
#[derive(Clone, Copy)]
struct GroupRows<'a> {
    source: Source<'a>,
    canonicity: Canonicity,
    /// Index of the group.
    group: u16,
    lanes: &'a [Lane],
    rows: &'a [u16],
}

impl GroupRows<'_> {
    /// Writes the columns of the bodies; returns whether they had to stay whole.
    fn write_bodies(self, plan: &Plan, chunks: &mut Chunks) -> bool {
        let Self { source, group, lanes, rows, .. } = self;
        let type_id = lanes[0].type_id;
        let of_type = plan.group(type_id);
        let is_short = of_type.is_some_and(|of_type| self.are_all_of(of_type.root.fixed));
        let is_alone = is_short && rows.len() == source.len();
        let starts: Vec<u32> = match of_type.filter(|_| is_alone) {
            Some(of_type) => rows.iter().map(|row| u32::from(*row) * of_type.root.fixed).collect(),
            None => rows.iter().map(|row| source.span((*row).into()).start).collect(),
        };
        let mut level = Level::default();
        level.begin();
        for lane in lanes {
            level.count += lane.count as usize;
            level.close_run(level.count);
        }
        // What came as columns is put into the order of lanes without its bodies.
        let slots = of_type.filter(|_| is_alone && !source.fields.is_empty());
        let slots = slots.map(|of_type| Slots::new(&of_type.root, source.fields, rows));
        // Records without anything else that has to be right are checked by their columns.
        let open = of_type.filter(|of_type| is_short && of_type.root.open.is_some());
        let fields = open.map(|open| {
            gather_complete(&open.root, source.bodies, &starts, (is_alone.then_some(rows), slots.as_ref()))
        });
        let is_certain = fields.as_ref().is_some_and(|fields| fields.iter().all(Field::is_beyond_doubt));
        // Records of one length are checked together, faster than they can be column by column.
        let is_proved = self.canonicity == Canonicity::Proved && !is_short;
        let rules = of_type.filter(|_| is_proved).and_then(GroupPlan::rules_that_are_enough);
        let are_split = of_type
            .filter(|_| is_certain || rules.is_some() || self.are_canonical(plan, is_short))
            .is_some_and(|of_type| {
                let bodies = Bodies { arena: source.bodies, starts: &starts, slots, rules };
                shred(of_type, group, bodies, &level, fields, chunks).is_ok()
            });
        if !are_split {
            let bodies: Vec<Span> = rows.iter().map(|row| source.span((*row).into())).collect();
            chunks.add_strings(group, 0, &bodies, source.bodies);
        }
        !are_split
    }

    /// Whether all bodies have so many bytes, and at least one.
    fn are_all_of(self, fixed: u32) -> bool {
        let Self { source, rows, .. } = self;
        if fixed == 0 {
            return false;
        }
        if rows.len() == source.len() {
            let is_even = |(row, end): (u64, &u32)| row * u64::from(fixed) == u64::from(*end);
            return (1..).zip(source.ends).all(is_even);
        }
        rows.iter().all(|row| source.span((*row).into()).len() == fixed as usize)
    }

    /// Checks body by body.
    fn are_canonical(self, plan: &Plan, is_short: bool) -> bool {
        let Self { source, lanes, rows, .. } = self;
        let type_id = lanes[0].type_id;
        let are_right = || rows.len() == source.len() && plan.layouts().are_right(type_id, source.bodies);
        let is_right = |row: &u16| plan.layouts().check(type_id, source.body((*row).into())).is_ok();
        is_short && are_right() || rows.iter().all(is_right)
    }

    /// Writes the times of a group in the order of lanes too, where those of each symbol have even steps. That takes few
    /// bytes, and readers of columns need not fetch each row's time from its position among all.
    fn write_times(self, chunks: &mut Chunks) {
        let Self { source, group, lanes, rows, .. } = self;
        let is_alone = lanes.len() == 1 && rows.len() == source.len();
        if is_alone || rows.len() < lanes.len() * LANE_ROWS {
            return;
        }
        let times: Vec<i64> = rows.iter().map(|row| source.times[usize::from(*row)]).collect();
        if are_even(&times) {
            chunks.add_ints(group, numbers::TIME.into(), &times, &ends_of(lanes));
        }
    }

    /// Writes which symbols the group has, and which rows, if they are listed.
    fn write_lanes(self, by_lane: bool, chunks: &mut Chunks) {
        let Self { group, lanes, rows, .. } = self;
        if lanes.len() > 1 {
            let one_run = [lanes.len() as u32];
            let symbols: Vec<i64> = lanes.iter().map(|lane| lane.symbol.into()).collect();
            chunks.add_ints(group, numbers::SYMBOL.into(), &symbols, &one_run);
            let counts: Vec<i64> = lanes.iter().map(|lane| lane.count.into()).collect();
            chunks.add_ints(group, numbers::COUNT.into(), &counts, &one_run);
        }
        if by_lane {
            let rows: Vec<i64> = rows.iter().map(|row| i64::from(*row)).collect();
            let ends = ends_of(lanes);
            chunks.add(group, numbers::POSITION.into(), None, |tier, habit, out| {
                write_ints(&rows, &ends, tier, &mut habit.ints, out);
            });
        }
    }
}

/// Writes the lane of each row, unless the rows of each lane take hardly more bytes; returns whether it did.
fn write_lane_of(
    lanes: &[Lane],
    lane_of: &[u16],
    order: &[u16],
    habit: &mut Habit<LaneForm>,
    chunks: &mut Chunks,
) -> bool {
    let size = |values: &[u16], ends: &[u32]| {
        let values: Vec<i64> = values.iter().map(|value| i64::from(*value)).collect();
        let mut bytes = Vec::new();
        write_ints(&values, ends, chunks.tier, &mut ColumnHabit::default().ints, &mut bytes);
        bytes.len()
    };
    let rows = order.len();
    let form = habit.usual().unwrap_or_else(|| {
        let by_row = size(lane_of, &[rows as u32]);
        let by_lane = size(order, &ends_of(lanes));
        // The rows of one lane are found faster where they are listed: that is worth two bytes for each lane.
        match by_lane <= by_row + by_row / 16 + 2 * lanes.len() {
            true => habit.learn(LaneForm::ByLane, rows, by_lane),
            false => habit.learn(LaneForm::ByRow, rows, by_row),
        }
        habit.usual().unwrap_or(LaneForm::ByLane)
    });
    if form == LaneForm::ByRow {
        let start = chunks.bytes.len();
        let lane_of: Vec<i64> = lane_of.iter().map(|lane| i64::from(*lane)).collect();
        chunks.add(OWN, own::LANE.into(), None, |tier, habit, out| {
            write_ints(&lane_of, &[rows as u32], tier, &mut habit.ints, out);
        });
        habit.holds(rows, chunks.bytes.len() - start);
    } else {
        // Only how often the choice is made again matters: its cost is spread over the record types.
        habit.holds(rows, 0);
    }
    form == LaneForm::ByRow
}

/// Whether nearly all times have the same step from the one before as that one from its own.
fn are_even(times: &[i64]) -> bool {
    let is_uneven = |three: &[i64]| three[2].wrapping_sub(three[1]) != three[1].wrapping_sub(three[0]);
    // The first ones mostly tell; counted without an exit, a loop is vectorised.
    let uneven = |times: &[i64]| {
        widest(
            #[inline(always)]
            || times.windows(3).map(|three| u32::from(is_uneven(three))).sum::<u32>() as usize,
        )
    };
    let most = times.len() / UNEVEN;
    uneven(&times[..times.len().min(LANE_ROWS * UNEVEN)]) <= most && uneven(times) <= most
}

/// The lanes of each group: those of a record type, or if they are many, some neighbours of them.
fn cut(lanes: &[Lane]) -> Vec<&[Lane]> {
    let mut groups = Vec::new();
    for mut lanes in lanes.chunk_by(|a, b| a.type_id == b.type_id) {
        let mut left: usize = lanes.iter().map(|lane| lane.count as usize).sum();
        let is_cut = lanes.len() > LANES_UNCUT;
        while is_cut && left >= 2 * GROUP_ROWS {
            let (mut rows, mut end) = (0, 0);
            while rows < GROUP_ROWS {
                rows += lanes[end].count as usize;
                end += 1;
            }
            let (group, rest) = lanes.split_at(end);
            left -= rows;
            groups.push(group);
            lanes = rest;
        }
        groups.extend(Some(lanes).filter(|lanes| !lanes.is_empty()));
    }
    groups
}

fn ends_of(lanes: &[Lane]) -> Vec<u32> {
    let mut end = 0;
    let ends = lanes.iter().map(|lane| {
        end += lane.count;
        end
    });
    ends.collect()
}
