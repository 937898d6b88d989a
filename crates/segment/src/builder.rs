//! Collects messages in time order and makes a block of them.

use crate::encoding::Tier;
use crate::error::SegmentError;
use crate::head::{BLOCK_BYTES_MAX, BLOCK_ROWS_MAX, BODY_BYTES_MAX, Group, Head, OWN, own};
use crate::level::Level;
use crate::plan::Plan;
use crate::shred::{Chunks, Span, shred};

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

/// A block being filled.
///
/// Always true: rows are in order of time, then of sequence number; `ends` has where each body ends in `bodies`.
#[derive(Debug)]
pub struct BlockBuilder {
    options: BlockOptions,
    rows: Vec<RowHeader>,
    ends: Vec<u32>,
    bodies: Vec<u8>,
}

/// The rows of one record type and symbol.
#[derive(Debug, Clone, Copy)]
struct Lane {
    type_id: u16,
    symbol: u32,
    count: u32,
}

impl BlockBuilder {
    /// An empty block.
    pub fn new(options: BlockOptions) -> Self {
        let (rows, bytes) =
            (options.rows.clamp(1, BLOCK_ROWS_MAX), options.bytes.min(BLOCK_BYTES_MAX - BODY_BYTES_MAX));
        let options = BlockOptions { rows, bytes, ..options };
        Self { options, rows: Vec::new(), ends: Vec::new(), bodies: Vec::new() }
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

    /// Appends the block to `out` and starts with an empty one. Without messages nothing is appended.
    pub fn finish(&mut self, plan: &Plan, out: &mut Vec<u8>) {
        if !self.rows.is_empty() {
            self.write(plan, out);
        }
        self.rows.clear();
        self.ends.clear();
        self.bodies.clear();
    }

    fn write(&self, plan: &Plan, out: &mut Vec<u8>) {
        let order = self.lane_order();
        let lanes = self.lanes(&order);
        let mut chunks = Chunks { tier: self.options.tier, list: Vec::new(), bytes: Vec::new() };
        let mut groups = Vec::new();
        let mut rest = &order[..];
        for lanes in lanes.chunk_by(|a, b| a.type_id == b.type_id) {
            let count: u32 = lanes.iter().map(|lane| lane.count).sum();
            let (rows, others) = rest.split_at(count as usize);
            rest = others;
            let is_whole = self.write_group(plan, groups.len() as u16, lanes, rows, &mut chunks);
            groups.push(Group { type_id: lanes[0].type_id, is_whole, count, lanes: lanes.len() as u32 });
        }
        self.write_order(&groups, &lanes, &order, &mut chunks);
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
    }

    /// The rows by record type, then by symbol, then as they are.
    fn lane_order(&self) -> Vec<u16> {
        let key = |(i, row): (usize, &RowHeader)| {
            u64::from(row.type_id) << 48 | u64::from(row.symbol) << 16 | i as u64
        };
        let mut keys: Vec<u64> = self.rows.iter().enumerate().map(key).collect();
        keys.sort_unstable();
        keys.iter().map(|key| *key as u16).collect()
    }

    fn lanes(&self, order: &[u16]) -> Vec<Lane> {
        let key = |row: &u16| (self.rows[usize::from(*row)].type_id, self.rows[usize::from(*row)].symbol);
        let lanes = order.chunk_by(|a, b| key(a) == key(b));
        lanes
            .map(|rows| {
                let (type_id, symbol) = key(&rows[0]);
                Lane { type_id, symbol, count: rows.len() as u32 }
            })
            .collect()
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
        let mut level = Level::default();
        level.begin();
        for lane in lanes {
            level.count += lane.count as usize;
            level.close_run(level.count);
        }
        let bodies: Vec<Span> = rows.iter().map(|row| self.body(usize::from(*row))).collect();
        let type_id = lanes[0].type_id;
        let bytes = |body: &Span| &self.bodies[body.start as usize..body.end as usize];
        let is_canonical = |body: &Span| plan.layouts().check(type_id, bytes(body)).is_ok();
        match plan.group(type_id).filter(|_| bodies.iter().all(is_canonical)) {
            Some(plan) => {
                shred(plan, group, &self.bodies, &bodies, &level, chunks);
                false
            }
            None => {
                chunks.add_strings(group, 0, &bodies, &self.bodies);
                true
            }
        }
    }

    fn body(&self, row: usize) -> Span {
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        start..self.ends[row]
    }

    /// Writes times, sequence numbers, and which row is whose.
    fn write_order(&self, groups: &[Group], lanes: &[Lane], order: &[u16], chunks: &mut Chunks) {
        let count = self.rows.len();
        let one_run = [count as u32];
        let times: Vec<i64> = self.rows.iter().map(|row| row.time).collect();
        chunks.add_ints(OWN, own::TIME.into(), &times, &one_run);
        let sequences: Vec<i64> = self.rows.iter().map(|row| row.sequence as i64).collect();
        if sequences.windows(2).any(|pair| pair[0].wrapping_add(1) != pair[1]) {
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
        if lanes.len() > 1 {
            write_places(lanes, order, chunks);
        }
    }
}

/// Either the lane of each row, or the rows of each lane: whichever takes less room.
fn write_places(lanes: &[Lane], order: &[u16], chunks: &mut Chunks) {
    let positions: Vec<i64> = order.iter().map(|row| i64::from(*row)).collect();
    let (mut lane_of, mut ends) = (vec![0; order.len()], Vec::with_capacity(lanes.len()));
    let mut end = 0;
    for (index, lane) in lanes.iter().enumerate() {
        let start = end;
        end += lane.count as usize;
        ends.push(end as u32);
        order[start..end].iter().for_each(|row| lane_of[usize::from(*row)] = index as i64);
    }
    let (mut by_row, mut by_lane) = (Vec::new(), Vec::new());
    crate::column::write_ints(&lane_of, &[order.len() as u32], chunks.tier, &mut by_row);
    crate::column::write_ints(&positions, &ends, chunks.tier, &mut by_lane);
    // The rows of one lane are found faster where they are listed.
    if by_lane.len() <= by_row.len() + by_row.len() / 16 {
        chunks.add(OWN, own::POSITION.into(), None, |_, out| out.extend_from_slice(&by_lane));
    } else {
        chunks.add(OWN, own::LANE.into(), None, |_, out| out.extend_from_slice(&by_row));
    }
}
