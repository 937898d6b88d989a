//! Merges the strands of a segment: each has its messages in order, and together they are a run of rows that is made again each time
//! it has been read.
//!
//! Where sequence numbers follow each other in order of time and none is missing, as a feed writes them, a row's number is its place in
//! the run, and nothing is compared but to prove it. Otherwise the strands are merged row by row.

use super::Slot;
use crate::error::Error;
use crate::read::block::{Block, Key, LAST, Order};
use crate::read::fields::Fields;
use crate::read::filter::Filter;
use crate::read::merge_budget::MergeBudget;
use crate::stream::reader::ReadContext;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use tapedb_segment::ColumnValues;

/// Rows with bodies that are merged together: so few that they stay in the processor's cache.
const ROWS_MAX: usize = 4 << 10;
/// The same of rows without bodies: values are taken strand by strand.
const ROWS_OF_COLUMNS_MAX: usize = 16 << 10;
/// Bytes of bodies that are merged together.
const BYTES_MAX: usize = 1 << 20;
/// No row.
const NONE: u32 = u32::MAX;

/// The strands that have rows left, and what merging them takes.
#[derive(Debug, Default)]
pub(super) struct Strands {
    pub members: Vec<Slot>,
    /// By place in the run: the strand in the high half, its row in the low half.
    places: Vec<u32>,
    /// Of each strand: its rows in the run, without bodies.
    rows: Vec<Vec<u16>>,
    values: Vec<ColumnValues>,
}

impl Strands {
    pub fn new(members: Vec<Slot>) -> Self {
        Self { members, ..Self::default() }
    }

    /// Replaces `out` by the next rows of all strands. `false`: there are none.
    ///
    /// # Errors
    /// Errors of the system: the next call tries again. Damage is added to `errors`.
    pub fn load(
        &mut self,
        budget: &mut MergeBudget,
        bounds: (Order, Option<Key>, u64),
        (filter, context): (&mut Filter, ReadContext<'_>),
        out: &mut Block,
        errors: &mut VecDeque<Error>,
    ) -> Result<bool, Error> {
        let mut index = 0;
        while let Some(member) = self.members.get_mut(index) {
            if member.block.has_next() {
                index += 1;
                continue;
            }
            match member.load(budget, bounds, (&mut *filter, context), errors) {
                Ok(true) => {}
                Ok(false) => {
                    let mut ended = self.members.swap_remove(index);
                    ended.release(budget);
                }
                Err(error) if error.is_damage() => errors.push_back(error),
                Err(error) => return Err(error),
            }
        }
        if self.members.is_empty() {
            out.empty();
            return Ok(false);
        }
        let fields = filter.take_fields();
        self.fill(bounds.0, fields.as_deref(), out);
        filter.put_fields(fields);
        Ok(true)
    }

    /// Takes the next rows. There are some of each strand.
    fn fill(&mut self, order: Order, fields: Option<&Fields>, out: &mut Block) {
        let has_columns = |member: &Slot| member.block.decoded().is_some();
        let columns = self.members.iter().filter(|member| has_columns(member)).count();
        let is_alike = columns == 0 || columns == self.members.len();
        let most = if columns == 0 { ROWS_MAX } else { ROWS_OF_COLUMNS_MAX };
        let is_placed = order == Order::Time && is_alike && self.place(most);
        match fields {
            Some(fields) if columns > 0 => {
                if !is_placed {
                    self.merge(order, most);
                }
                let is_of_columns =
                    self.places.first().is_some_and(|place| has_columns(&self.members[strand(*place)]));
                match is_of_columns {
                    true => self.gather_columns(fields, out),
                    false => self.gather(out),
                }
            }
            _ => {
                if !is_placed {
                    self.merge(order, most);
                }
                self.gather(out);
            }
        }
    }

    /// Copies rows with bodies, which have been taken.
    fn gather(&self, out: &mut Block) {
        out.begin_gathering();
        for place in &self.places {
            out.gather_row(&self.members[strand(*place)].block, row(*place));
        }
        out.end_gathering();
    }

    /// Copies the values of rows without bodies, which have been taken.
    fn gather_columns(&mut self, fields: &Fields, out: &mut Block) {
        let Self { members, places, rows, values } = self;
        rows.resize_with(members.len().max(rows.len()), Vec::new);
        rows.iter_mut().for_each(Vec::clear);
        places.iter().for_each(|place| rows[strand(*place)].push(row(*place) as u16));
        values.resize_with(fields.columns.len(), ColumnValues::new);
        values.iter_mut().zip(&fields.kinds).for_each(|(values, kind)| values.begin(*kind));
        // Where the values of each strand begin, and then of its next row.
        let (mut nexts, mut end) = (Vec::with_capacity(members.len()), 0);
        for (member, rows) in members.iter().zip(&*rows) {
            nexts.push(end as u16);
            end += rows.len();
            if !rows.is_empty() {
                member.block.append_values(fields, rows.iter().map(|row| usize::from(*row)), values);
            }
        }
        out.begin_gathering_columns();
        for place in &*places {
            let next = &mut nexts[strand(*place)];
            out.gather_header(&members[strand(*place)].block, row(*place), *next);
            *next = next.wrapping_add(1);
        }
        out.end_gathering_columns(fields, values);
    }

    /// Takes rows whose sequence numbers follow each other; `false`, and takes none, if they are not the next ones in order of time.
    fn place(&mut self, most: usize) -> bool {
        let Self { members, places, .. } = self;
        let (mut base, mut end) = (u64::MAX, u64::MAX);
        for Slot { block, rest, .. } in members.iter_mut() {
            let Some((first, last)) = block.arrivals() else { return false };
            base = base.min(first);
            // Its rows that are not in memory have larger numbers, or are missing.
            if !rest.is_nothing() {
                end = end.min(last.saturating_add(1));
            }
        }
        end = end.min(base.saturating_add(most as u64));
        let count = end.saturating_sub(base) as usize;
        places.clear();
        places.resize(count, NONE);
        let mut found = 0;
        for (index, Slot { block, .. }) in members.iter().enumerate() {
            found += block.place_arrivals(base, (index as u32) << 16, places);
        }
        // All strands may end before the run is full.
        let is_all = members.iter().all(|member| member.rest.is_nothing());
        if found < count && is_all && places[..found].iter().all(|place| *place != NONE) {
            places.truncate(found);
        }
        if found == 0 || found != places.len() {
            return false;
        }
        let (mut last, mut bytes, mut taken) = (i64::MIN, 0, 0);
        for place in places.iter() {
            let block = &members[strand(*place)].block;
            let time = block.time_at(row(*place));
            if time < last {
                return false;
            }
            last = time;
            bytes += block.body_bytes_at(row(*place));
            taken += 1;
            if bytes >= BYTES_MAX {
                break;
            }
        }
        places.truncate(taken);
        let end = base + taken as u64;
        if members.iter().any(|member| member.block.has_before(end, last)) {
            return false;
        }
        members.iter_mut().for_each(|member| member.block.skip_arrivals(end));
        true
    }

    /// Takes rows in order until a strand has no more in memory. Either all have bodies, or none.
    fn merge(&mut self, order: Order, most: usize) {
        let Self { members, places, .. } = self;
        places.clear();
        let ranked = members.iter().enumerate();
        let ranks = ranked.map(|(index, member)| Reverse((member.block.next_rank(order), index)));
        let mut heap: BinaryHeap<Reverse<(Key, usize)>> = ranks.collect();
        let (mut bytes, mut has_bodies) = (0, None);
        while let Some(Reverse((_, index))) = heap.pop() {
            let limit = heap.peek().map_or(LAST, |Reverse((rank, _))| *rank);
            let block = &mut members[index].block;
            if has_bodies.is_some_and(|has| has != block.decoded().is_none()) {
                return;
            }
            has_bodies = Some(block.decoded().is_none());
            loop {
                let row = block.take_next();
                places.push((index as u32) << 16 | row as u32);
                bytes += block.body_bytes_at(row);
                if bytes >= BYTES_MAX || places.len() >= most || !block.has_next() {
                    return;
                }
                let rank = block.next_rank(order);
                if rank >= limit {
                    heap.push(Reverse((rank, index)));
                    break;
                }
            }
        }
    }
}

fn strand(place: u32) -> usize {
    (place >> 16) as usize
}

fn row(place: u32) -> usize {
    (place & 0xffff) as usize
}
