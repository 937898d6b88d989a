//! Collects messages in time order and makes a block of them.

use crate::column::write_ints;
use crate::encoding::{Habit, Tier};
use crate::error::SegmentError;
use crate::head::{BLOCK_BYTES_MAX, BLOCK_ROWS_MAX, BODY_BYTES_MAX, Group, Head, OWN, own};
use crate::lanes::{Lane, LaneOrder};
use crate::level::Level;
use crate::plan::{GroupPlan, Plan};
use crate::shred::{Chunks, Habits, Span, shred};

/// How large blocks become and how their columns are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockOptions {
    /// Rows that make a block full; 1 to 65,535 (values outside are brought to the nearest).
    pub rows: usize,
    /// Bytes of bodies that make a block full; at most 4 MiB. The message that reaches it is still in the block.
    pub bytes: usize,
    /// How much reading speed may be given up for size.
    pub tier: Tier,
}

impl Default for BlockOptions {
    fn default() -> Self {
        Self { rows: 16_384, bytes: 1 << 20, tier: Tier::Hot }
    }
}

/// The header of a message: everything but its body.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RowHeader {
    /// Nanoseconds since the Unix epoch.
    pub time: i64,
    /// Number of the message in its space.
    pub sequence: u64,
    /// Id in the stream's dictionary of symbols.
    pub symbol: u32,
    /// Id of the record type in the stream's schema.
    pub type_id: u16,
}

/// A block being filled. It remembers how the blocks before were encoded, and begins with that.
///
/// Always true: rows are in order of time, then of sequence number; `ends` has where each body ends in `bodies`. What is
/// written depends on the messages since the builder was made, and on nothing else.
#[derive(Debug)]
pub struct BlockBuilder {
    options: BlockOptions,
    rows: Vec<RowHeader>,
    ends: Vec<u32>,
    bodies: Vec<u8>,
    habits: Habits,
    places: Habit<Places>,
    /// Of the block written last.
    lanes: Vec<Lane>,
}

/// How is written which row belongs to which lane.
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
            rows: Vec::new(),
            ends: Vec::new(),
            bodies: Vec::new(),
            habits: Habits::default(),
            places: Habit::default(),
            lanes: Vec::new(),
        }
    }

    /// Adds a message. Any bytes are kept as they are; those that are the canonical body of their type take less room.
    ///
    /// # Errors
    /// [`SegmentError::OutOfOrder`] if it does not come behind the one before, [`SegmentError::TooLong`] if its body is
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
            return Err(SegmentError::Full { what: "rows in a block", most: self.options.rows as u64 });
        }
        self.rows.push(row);
        self.bodies.extend_from_slice(body);
        self.ends.push(self.bodies.len() as u32);
        Ok(())
    }

    /// Whether it is time for [`Self::finish`].
    pub fn is_full(&self) -> bool {
        self.rows.len() >= self.options.rows || self.bodies.len() > self.options.bytes
    }

    /// Whether there is no message.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The messages' headers.
    pub fn rows(&self) -> &[RowHeader] {
        &self.rows
    }

    /// Symbols of the block written last and how many rows each has; a symbol comes once for each record type.
    pub(crate) fn last_symbols(&self) -> impl Iterator<Item = (u32, u32)> {
        self.lanes.iter().map(|lane| (lane.symbol, lane.count))
    }

    /// Appends the block to `out` and starts with an empty one. Without messages nothing is appended.
    pub fn finish(&mut self, plan: &Plan, out: &mut Vec<u8>) {
        if !self.rows.is_empty() {
            self.write(plan, out);
        }
        self.rows.clear();
        self.ends.clear();
        self.bodies.clear();
    }

    fn write(&mut self, plan: &Plan, out: &mut Vec<u8>) {
        let LaneOrder { lanes, lane_of, order } = LaneOrder::of(&self.rows);
        let mut habits = std::mem::take(&mut self.habits);
        let mut chunks = Chunks {
            tier: self.options.tier,
            habits: &mut habits,
            type_id: OWN,
            list: Vec::new(),
            bytes: Vec::new(),
        };
        let mut groups = Vec::new();
        let mut rest = &order[..];
        for lanes in lanes.chunk_by(|a, b| a.type_id == b.type_id) {
            let count: u32 = lanes.iter().map(|lane| lane.count).sum();
            let (rows, others) = rest.split_at(count as usize);
            rest = others;
            chunks.type_id = lanes[0].type_id;
            let is_whole = self.write_group(plan, groups.len() as u16, lanes, rows, &mut chunks);
            groups.push(Group { type_id: lanes[0].type_id, is_whole, count, lanes: lanes.len() as u32 });
        }
        chunks.type_id = OWN;
        self.write_order(&groups, &lanes, &mut chunks);
        if lanes.len() > 1 {
            self.places = write_places(&lanes, &lane_of, &order, self.places.clone(), &mut chunks);
        }
        let sequences = || self.rows.iter().map(|row| row.sequence);
        let head = Head {
            count: self.rows.len() as u32,
            body_bytes: self.bodies.len() as u32,
            time_min: self.rows.first().map_or(0, |row| row.time),
            time_max: self.rows.last().map_or(0, |row| row.time),
            sequence_min: sequences().min().unwrap_or(0),
            sequence_max: sequences().max().unwrap_or(0),
            groups,
            chunks: chunks.list,
            ..Head::default()
        };
        head.write(out);
        out.extend_from_slice(&chunks.bytes);
        (self.habits, self.lanes) = (habits, lanes);
    }

    /// Writes the columns of one record type; tells whether the bodies had to stay whole.
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
            // Where there is one record type only, bodies need not be looked at in the order of lanes.
            if bodies.len() == self.rows.len() {
                let mut bodies = self.bodies.chunks_exact(root.fixed as usize);
                bodies.all(|body| is_beyond_doubt(body, decimals))
            } else {
                bodies.iter().all(|body| is_beyond_doubt(bytes(body), decimals))
            }
        });
        certain || bodies.iter().all(|body| plan.layouts().check(type_id, bytes(body)).is_ok())
    }

    fn body(&self, row: usize) -> Span {
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        start..self.ends[row]
    }

    /// Writes times, sequence numbers, and the lanes.
    fn write_order(&self, groups: &[Group], lanes: &[Lane], chunks: &mut Chunks) {
        let count = self.rows.len();
        let one_run = [count as u32];
        let times: Vec<i64> = self.rows.iter().map(|row| row.time).collect();
        chunks.add_ints(OWN, own::TIME.into(), &times, &one_run);
        if self.rows.windows(2).any(|pair| pair[0].sequence.wrapping_add(1) != pair[1].sequence) {
            let sequences: Vec<i64> = self.rows.iter().map(|row| row.sequence as i64).collect();
            chunks.add_ints(OWN, own::SEQUENCE.into(), &sequences, &one_run);
        }
        let symbols: Vec<i64> = lanes.iter().map(|lane| lane.symbol.into()).collect();
        let mut end = 0;
        let group_ends = groups.iter().map(|group| {
            end += group.lanes;
            end
        });
        chunks.add_ints(OWN, own::LANE_SYMBOL.into(), &symbols, &group_ends.collect::<Vec<u32>>());
        let counts: Vec<i64> = lanes.iter().map(|lane| lane.count.into()).collect();
        chunks.add_ints(OWN, own::LANE_COUNT.into(), &counts, &[lanes.len() as u32]);
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

/// Either the lane of each row, or the rows of each lane unless they take more room.
fn write_places(
    lanes: &[Lane],
    lane_of: &[u16],
    order: &[u16],
    mut habit: Habit<Places>,
    chunks: &mut Chunks,
) -> Habit<Places> {
    let (rows, start) = (order.len(), chunks.bytes.len());
    match habit.usual() {
        Some(Places::ByLane) => write_by_lane(lanes, order, chunks),
        Some(Places::ByRow) => write_by_row(lane_of, chunks),
        None => {
            let before = chunks.list.len();
            write_by_row(lane_of, chunks);
            let by_row = chunks.bytes.len() - start;
            write_by_lane(lanes, order, chunks);
            let by_lane = chunks.bytes.len() - start - by_row;
            // The rows of one lane are found faster where they are listed: that is worth two bytes for each lane.
            if by_lane <= by_row + by_row / 16 + 2 * lanes.len() {
                chunks.list.remove(before);
                chunks.bytes.drain(start..start + by_row);
                habit.learn(Places::ByLane, rows, by_lane);
            } else {
                chunks.list.truncate(before + 1);
                chunks.bytes.truncate(start + by_row);
                habit.learn(Places::ByRow, rows, by_row);
            }
            return habit;
        }
    }
    habit.holds(rows, chunks.bytes.len() - start);
    habit
}

fn write_by_row(lane_of: &[u16], chunks: &mut Chunks) {
    let lane_of: Vec<i64> = lane_of.iter().map(|lane| i64::from(*lane)).collect();
    chunks.add(OWN, own::LANE.into(), None, |tier, habit, out| {
        write_ints(&lane_of, &[lane_of.len() as u32], tier, &mut habit.ints, out);
    });
}

fn write_by_lane(lanes: &[Lane], order: &[u16], chunks: &mut Chunks) {
    let positions: Vec<i64> = order.iter().map(|row| i64::from(*row)).collect();
    let mut end = 0;
    let ends = lanes.iter().map(|lane| {
        end += lane.count;
        end
    });
    let ends: Vec<u32> = ends.collect();
    chunks.add(OWN, own::POSITION.into(), None, |tier, habit, out| {
        write_ints(&positions, &ends, tier, &mut habit.ints, out);
    });
}
