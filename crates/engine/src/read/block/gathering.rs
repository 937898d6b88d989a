//! What merging the strands of a segment takes of a block: its next rows in order of arrival, and a block that is made of rows of others.

use super::{Block, Bounds, Gathered, Key, Order, RowsIn};
use crate::read::decoded::RowPlaces;
use crate::read::fields::Fields;
use std::borrow::Cow;
use tapedb_segment::{ColumnValues, RowHeader};

impl Block {
    /// Removes all rows; others are copied from other blocks with [`Block::gather_row`].
    pub fn begin_gathering(&mut self) {
        self.clear(Bounds::default());
        self.rows_in = RowsIn::Gathered;
        self.gathered.clear();
        self.bytes.clear();
    }

    /// Copies a row of a block of a segment, or one that was gathered.
    #[inline]
    pub fn gather_row(&mut self, from: &Self, row: usize) {
        let start = self.bytes.len() as u32;
        let row = match from.rows_in {
            RowsIn::Columns => {
                self.bytes.extend_from_slice(from.columns.body(row));
                let RowHeader { time, sequence, symbol, type_id } = from.columns.header(row);
                Gathered { time, sequence, symbol, type_id, body: (start, self.bytes.len() as u32) }
            }
            _ => {
                let found = from.gathered[row];
                self.bytes.extend_from_slice(&from.bytes[found.body.0 as usize..found.body.1 as usize]);
                Gathered { body: (start, self.bytes.len() as u32), ..found }
            }
        };
        self.gathered.push(row);
    }

    /// Begins the run of the rows that were gathered.
    pub fn end_gathering(&mut self) {
        self.stop = self.gathered.len();
        self.find_plain_stop();
    }

    /// Removes all rows; others without bodies follow, of blocks that have columns, and then the values of their columns.
    pub fn begin_gathering_columns(&mut self) {
        self.clear(Bounds::default());
        self.rows_in = RowsIn::Columns;
        self.columns.begin_headers();
    }

    /// Appends everything but the values of a row; `place`: where these will be.
    #[inline]
    pub fn gather_header(&mut self, from: &Self, row: usize, place: u16) {
        self.columns.push_header(from.columns.header(row), place);
    }

    /// Appends the values of some rows, which have no bodies.
    pub fn append_values(
        &self,
        fields: &Fields,
        rows: impl Iterator<Item = usize>,
        out: &mut [ColumnValues],
    ) {
        let homes = rows.map(|row| self.columns.place(row)).collect();
        self.decoded.append_to(fields, &RowPlaces::Homes(Cow::Owned(homes)), out);
    }

    /// Begins the run of the rows whose headers were gathered, with the values of their columns.
    pub fn end_gathering_columns(&mut self, fields: &Fields, values: &mut [ColumnValues]) {
        self.decoded.columns.swap_values(values);
        let fits = self.decoded.find_starts(fields, self.columns.places_end());
        debug_assert!(fits, "they are those of blocks in which they fit");
        self.has_decoded = true;
        self.stop = self.columns.len();
        self.find_plain_stop();
    }

    /// Whether there is a row that has not been returned, in a block of a segment.
    #[inline]
    pub fn has_next(&self) -> bool {
        self.next < self.stop
    }

    /// Rank of the next row, which there is.
    #[inline]
    pub fn next_rank(&self, order: Order) -> Key {
        order.rank(self.key_at(self.next))
    }

    /// Steps over the next row, which there is; returns it.
    #[inline]
    pub fn take_next(&mut self) -> usize {
        self.next += 1;
        self.row_at(self.next - 1)
    }

    /// Sequence numbers of the next row and of the last one, if the rows of the block are in order of arrival too.
    pub fn arrivals(&mut self) -> Option<(u64, u64)> {
        let is_plain = self.rows_in == RowsIn::Columns && self.picks.is_none();
        let Self { columns, is_of_arrivals, .. } = self;
        let is_of_arrivals =
            is_of_arrivals.get_or_insert_with(|| is_plain && columns.is_in_order_of_arrival());
        is_of_arrivals.then(|| (columns.sequence(self.next), columns.sequence(self.stop - 1)))
    }

    /// Writes the next rows, as `part` and their index, to the places that their sequence numbers are behind `base`, as far as there are
    /// places; returns how many. Only after [`Block::arrivals`].
    pub fn place_arrivals(&self, base: u64, part: u32, places: &mut [u32]) -> usize {
        let mut found = 0;
        for row in self.next..self.stop {
            let place = self.columns.sequence(row).wrapping_sub(base);
            let Some(place) = usize::try_from(place).ok().and_then(|place| places.get_mut(place)) else {
                break;
            };
            *place = part | row as u32;
            found += 1;
        }
        found
    }

    /// Steps over the rows with sequence numbers below `end`. Only after [`Block::arrivals`].
    pub fn skip_arrivals(&mut self, end: u64) {
        while self.next < self.stop && self.columns.sequence(self.next) < end {
            self.next += 1;
        }
    }

    /// Bytes of the body of a row of a block of a segment, or of one that was gathered; 0 if it has none.
    #[inline]
    pub fn body_bytes_at(&self, row: usize) -> usize {
        match self.rows_in {
            RowsIn::Columns if self.has_decoded => 0,
            RowsIn::Columns => self.columns.body(row).len(),
            _ => {
                let (start, end) = self.gathered[row].body;
                (end - start) as usize
            }
        }
    }

    /// Time of a row of a block of a segment.
    #[inline]
    pub fn time_at(&self, row: usize) -> i64 {
        self.columns.times()[row]
    }

    /// Whether a row with a sequence number from `end` on has a time before `time`. Only after [`Block::arrivals`].
    pub fn has_before(&self, end: u64, time: i64) -> bool {
        let next = (self.next..self.stop).find(|row| self.columns.sequence(*row) >= end);
        next.is_some_and(|row| self.time_at(row) < time)
    }
}
