//! Collects messages in time order and makes a block of them.

use crate::column::{ColumnHabit, write_ints};
use crate::content::Source;
use crate::encoding::{Habit, Tier};
use crate::error::SegmentError;
use crate::head::{BLOCK_BYTES_MAX, BLOCK_ROWS_MAX, BODY_BYTES_MAX, Group, Head, OWN, lanes as numbers, own};
use crate::lanes::{Lane, LaneOrder};
use crate::level::Level;
use crate::plain;
use crate::plan::{GroupPlan, Plan};
use crate::row::RowHeader;
use crate::shred::{Chunks, Habits, Span, shred};

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
/// Always true: rows are in order of time, then of sequence number; `ends` has the end of each body in `bodies`. The
/// output depends only on the messages since the builder was made.
#[derive(Debug)]
pub struct BlockBuilder {
    options: BlockOptions,
    /// Rows and bytes that make the present block full, and whether an increase was considered.
    most: (usize, usize, bool),
    rows: Vec<RowHeader>,
    ends: Vec<u32>,
    bodies: Vec<u8>,
    habits: Habits,
    places: Habit<Places>,
    /// Of the block written last.
    lanes: Vec<Lane>,
}

/// How the lanes of rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Places {
    /// The rows of each lane.
    ByLane,
    /// The lane of each row.
    ByRow,
}

impl BlockBuilder {
    /// An empty block.
    pub fn new(options: BlockOptions) -> Self {
        let (rows, bytes) =
            (options.rows.clamp(1, BLOCK_ROWS_MAX), options.bytes.min(BLOCK_BYTES_MAX - BODY_BYTES_MAX));
        let options = BlockOptions { rows, bytes, ..options };
        Self {
            options,
            most: (rows, bytes, false),
            rows: Vec::new(),
            ends: Vec::new(),
            bodies: Vec::new(),
            habits: Habits::default(),
            places: Habit::default(),
            lanes: Vec::new(),
        }
    }

    /// Adds a message. Any bytes are stored unchanged; canonical bodies of their type take fewer bytes.
    ///
    /// # Errors
    /// [`SegmentError::OutOfOrder`] if it does not follow the one before, [`SegmentError::TooLong`] if its body is
    /// too long, [`SegmentError::Full`] if [`Self::is_full`]. The block is as before.
    pub fn push(&mut self, row: RowHeader, body: &[u8]) -> Result<(), SegmentError> {
        if let Some(last) = self.rows.last()
            && (row.time, row.sequence) <= (last.time, last.sequence)
        {
            let (before, given) = ((last.time, last.sequence), (row.time, row.sequence));
            return Err(SegmentError::OutOfOrder { before, given });
        }
        if body.len() > BODY_BYTES_MAX {
            return Err(SegmentError::TooLong { need: BODY_BYTES_MAX, have: body.len() });
        }
        if self.is_full() {
            return Err(SegmentError::Full { what: "rows in a block", most: self.most.0 as u64 });
        }
        self.rows.push(row);
        self.bodies.extend_from_slice(body);
        self.ends.push(self.bodies.len() as u32);
        if self.is_full() && !self.most.2 {
            self.go_on_for_small_lanes();
        }
        Ok(())
    }

    /// Lets a full block become larger if its symbols have few rows each.
    fn go_on_for_small_lanes(&mut self) {
        self.most.2 = true;
        let (rows, most) = (self.rows.len(), BLOCK_BYTES_MAX - BODY_BYTES_MAX);
        let is_wanted = self.options.rows >= ROWS && rows > LANES_UNCUT && self.bodies.len() < most;
        if is_wanted && LaneOrder::of(&self.rows).lanes.len() * LANE_ROWS > rows {
            (self.most.0, self.most.1) = (BLOCK_ROWS_MAX, most);
        }
    }

    /// Whether the block has at least half of the rows or bytes with which it is full.
    pub(crate) fn is_itself_half_full(&self) -> bool {
        let rows = self.rows.len();
        // As few lanes as there can be: where these are not too many, their number is not needed.
        self.is_half_full(rows, self.bodies.len(), 1)
            && self.is_half_full(rows, self.bodies.len(), LaneOrder::of(&self.rows).lanes.len())
    }

    /// Bytes of all bodies.
    pub(crate) fn body_bytes(&self) -> usize {
        self.bodies.len()
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
        self.rows.len() >= self.most.0 || self.bodies.len() > self.most.1
    }

    /// Whether there is no message.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The messages' headers.
    pub fn rows(&self) -> &[RowHeader] {
        &self.rows
    }

    /// Symbols of the block written last and how many rows each has; a symbol is listed once for each record type.
    pub(crate) fn last_symbols(&self) -> impl Iterator<Item = (u32, u32)> {
        self.lanes.iter().map(|lane| (lane.symbol, lane.count))
    }

    /// The messages.
    pub(crate) fn source(&self) -> Source<'_> {
        Source { rows: &self.rows, ends: &self.ends, bodies: &self.bodies }
    }

    /// Appends the block to `out` and starts with an empty one. Without messages nothing is appended. The block has no
    /// checksum of its content: that is for blocks in files, which [`SegmentWriter`](crate::SegmentWriter) writes.
    pub fn finish(&mut self, plan: &Plan, out: &mut Vec<u8>) {
        if !self.rows.is_empty() {
            self.write(plan, None, out);
        }
        self.clear();
    }

    /// Starts with an empty block.
    pub(crate) fn clear(&mut self) {
        self.most = (self.options.rows, self.options.bytes, false);
        self.rows.clear();
        self.ends.clear();
        self.bodies.clear();
    }

    /// Appends the plainest encoding of the block, which has messages.
    pub(crate) fn write_plainly(&mut self, content: u64, out: &mut Vec<u8>) {
        self.lanes = plain::write(self.source(), content, out);
    }

    /// Appends the block, which has messages.
    pub(crate) fn write(&mut self, plan: &Plan, content: Option<u64>, out: &mut Vec<u8>) {
        let LaneOrder { lanes, lane_of, order } = LaneOrder::of(&self.rows);
        let mut habits = std::mem::take(&mut self.habits);
        let mut chunks = Chunks {
            tier: self.options.tier,
            habits: &mut habits,
            type_id: OWN,
            list: Vec::new(),
            bytes: Vec::new(),
        };
        let cut = cut(&lanes);
        let is_cut = cut.windows(2).any(|pair| pair[0][0].type_id == pair[1][0].type_id);
        let counts_up = self.write_order(is_cut, &mut chunks);
        let by_lane =
            lanes.len() > 1 && (is_cut || !self.write_lane_of(&lanes, &lane_of, &order, &mut chunks));
        let (mut groups, mut rest) = (Vec::new(), &order[..]);
        for (index, lanes) in cut.into_iter().enumerate() {
            let first = lanes[0];
            let count: u32 = lanes.iter().map(|lane| lane.count).sum();
            let (rows, others) = rest.split_at(count as usize);
            rest = others;
            chunks.type_id = first.type_id;
            let is_whole = self.write_group(plan, index as u16, lanes, rows, &mut chunks);
            self.write_times(index as u16, lanes, rows, &mut chunks);
            write_lanes(index as u16, lanes, rows, by_lane, &mut chunks);
            groups.push(Group {
                type_id: first.type_id,
                is_whole,
                count,
                lanes: lanes.len() as u32,
                first_symbol: first.symbol,
            });
        }
        let (sequence_min, sequence_max) = self.sequence_bounds(counts_up);
        let head = Head {
            count: self.rows.len() as u32,
            body_bytes: self.bodies.len() as u32,
            time_min: self.rows.first().map_or(0, |row| row.time),
            time_max: self.rows.last().map_or(0, |row| row.time),
            sequence_min,
            sequence_max,
            content,
            groups,
            chunks: chunks.list,
            ..Head::default()
        };
        head.write(out);
        out.extend_from_slice(&chunks.bytes);
        (self.habits, self.lanes) = (habits, lanes);
    }

    /// Writes the columns of one record type; returns whether the bodies had to stay whole.
    fn write_group(
        &self,
        plan: &Plan,
        group: u16,
        lanes: &[Lane],
        rows: &[u16],
        chunks: &mut Chunks,
    ) -> bool {
        let type_id = lanes[0].type_id;
        let bodies: Vec<Span> = rows.iter().map(|row| self.body(usize::from(*row))).collect();
        match plan.group(type_id).filter(|group| self.are_canonical(plan, group, type_id, &bodies)) {
            Some(plan) => {
                let mut level = Level::default();
                level.begin();
                for lane in lanes {
                    level.count += lane.count as usize;
                    level.close_run(level.count);
                }
                let starts: Vec<u32> = bodies.iter().map(|body| body.start).collect();
                shred(plan, group, &self.bodies, &starts, &level, chunks);
                false
            }
            None => {
                chunks.add_strings(group, 0, &bodies, &self.bodies);
                true
            }
        }
    }

    fn are_canonical(&self, plan: &Plan, group: &GroupPlan, type_id: u16, bodies: &[Span]) -> bool {
        let bytes = |body: &Span| &self.bodies[body.start as usize..body.end as usize];
        let root = &group.root;
        let is_short = root.fixed > 0 && bodies.iter().all(|body| body.end - body.start == root.fixed);
        let certain = root.open.as_ref().filter(|_| is_short).is_some_and(|decimals| {
            // Where there is one record type only, bodies need not be read in the order of lanes.
            if bodies.len() == self.rows.len() {
                let mut bodies = self.bodies.chunks_exact(root.fixed as usize);
                bodies.all(|body| is_beyond_doubt(body, decimals))
            } else {
                bodies.iter().all(|body| is_beyond_doubt(bytes(body), decimals))
            }
        });
        let are_right = || bodies.len() == self.rows.len() && plan.layouts().are_right(type_id, &self.bodies);
        certain
            || is_short && are_right()
            || bodies.iter().all(|body| plan.layouts().check(type_id, bytes(body)).is_ok())
    }

    fn body(&self, row: usize) -> Span {
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        start..self.ends[row]
    }

    /// Smallest and largest sequence number.
    fn sequence_bounds(&self, counts_up: bool) -> (u64, u64) {
        let sequences = || self.rows.iter().map(|row| row.sequence);
        let bounds = match counts_up {
            true => (sequences().next(), sequences().next_back()),
            false => (sequences().min(), sequences().max()),
        };
        (bounds.0.unwrap_or(0), bounds.1.unwrap_or(0))
    }

    /// Writes times, and sequence numbers unless they count up from row to row; returns whether they do.
    fn write_order(&self, is_cut: bool, chunks: &mut Chunks) -> bool {
        let mut level = Level::default();
        level.of_rows(self.rows.len(), is_cut);
        let times: Vec<i64> = self.rows.iter().map(|row| row.time).collect();
        chunks.add_ints(OWN, own::TIME.into(), &times, &level.ends);
        let counts_up = self.rows.windows(2).all(|pair| pair[0].sequence.wrapping_add(1) == pair[1].sequence);
        if !counts_up {
            let sequences: Vec<i64> = self.rows.iter().map(|row| row.sequence as i64).collect();
            chunks.add_ints(OWN, own::SEQUENCE.into(), &sequences, &level.ends);
        }
        counts_up
    }

    /// Writes the times of a group in the order of lanes too, where those of each symbol have even steps. That takes few
    /// bytes, and readers of columns need not fetch each row's time from its position among all.
    fn write_times(&self, group: u16, lanes: &[Lane], rows: &[u16], chunks: &mut Chunks) {
        let is_alone = lanes.len() == 1 && rows.len() == self.rows.len();
        if is_alone || rows.len() < lanes.len() * LANE_ROWS || !self.are_even(rows) {
            return;
        }
        let times: Vec<i64> = rows.iter().map(|row| self.rows[usize::from(*row)].time).collect();
        chunks.add_ints(group, numbers::TIME.into(), &times, &ends_of(lanes));
    }

    /// Whether nearly all of these rows have the same step from the row before as that row from its own.
    fn are_even(&self, rows: &[u16]) -> bool {
        let time = |row: u16| self.rows[usize::from(row)].time;
        let is_uneven = |three: &&[u16]| {
            let [a, b, c] = [three[0], three[1], three[2]].map(time);
            c.wrapping_sub(b) != b.wrapping_sub(a)
        };
        rows.windows(3).filter(is_uneven).nth(rows.len() / UNEVEN).is_none()
    }

    /// Writes the lane of each row, unless the rows of each lane take hardly more bytes; returns whether it did.
    fn write_lane_of(&mut self, lanes: &[Lane], lane_of: &[u16], order: &[u16], chunks: &mut Chunks) -> bool {
        let size = |values: &[u16], ends: &[u32]| {
            let values: Vec<i64> = values.iter().map(|value| i64::from(*value)).collect();
            let mut bytes = Vec::new();
            write_ints(&values, ends, chunks.tier, &mut ColumnHabit::default().ints, &mut bytes);
            bytes.len()
        };
        let rows = order.len();
        let places = self.places.usual().unwrap_or_else(|| {
            let by_row = size(lane_of, &[rows as u32]);
            let by_lane = size(order, &ends_of(lanes));
            // The rows of one lane are found faster where they are listed: that is worth two bytes for each lane.
            match by_lane <= by_row + by_row / 16 + 2 * lanes.len() {
                true => self.places.learn(Places::ByLane, rows, by_lane),
                false => self.places.learn(Places::ByRow, rows, by_row),
            }
            self.places.usual().unwrap_or(Places::ByLane)
        });
        if places == Places::ByRow {
            let start = chunks.bytes.len();
            let lane_of: Vec<i64> = lane_of.iter().map(|lane| i64::from(*lane)).collect();
            chunks.add(OWN, own::LANE.into(), None, |tier, habit, out| {
                write_ints(&lane_of, &[rows as u32], tier, &mut habit.ints, out);
            });
            self.places.holds(rows, chunks.bytes.len() - start);
        } else {
            // Only how often the choice is made again matters: its cost is spread over the record types.
            self.places.holds(rows, 0);
        }
        places == Places::ByRow
    }
}

/// Whether the decimals of a body are of the small form and not negative, and so canonical. Others may be too.
#[inline]
fn is_beyond_doubt(body: &[u8], decimals: &[u32]) -> bool {
    const GREATEST: u64 = (0b11 << 61) - 1;
    let is_small = |at: &u32| {
        let bytes = body.get(*at as usize..).and_then(|rest| rest.first_chunk());
        bytes.is_some_and(|bytes| u64::from_le_bytes(*bytes) <= GREATEST)
    };
    decimals.iter().all(is_small)
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

/// Writes which symbols a group has, and which `rows`, if they are listed.
fn write_lanes(group: u16, lanes: &[Lane], rows: &[u16], by_lane: bool, chunks: &mut Chunks) {
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
