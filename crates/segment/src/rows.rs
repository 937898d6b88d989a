//! Messages as rows, out of a block.

use crate::row::RowHeader;

/// Rows of a block in order of time, then of sequence number. Loading other rows reuses the memory.
///
/// Always true: `times`, and `sequences` unless they count up from `first_sequence`, have an entry for each row; so has
/// `homes`; `starts` has one more, unless all bodies have `stride` bytes.
#[derive(Debug, Default)]
pub struct Rows {
    pub(crate) times: Vec<i64>,
    pub(crate) sequences: Vec<i64>,
    pub(crate) first_sequence: Option<u64>,
    /// Record type and symbol.
    pub(crate) lanes: Vec<(u16, u32)>,
    /// Index of the lane in the high half; the low half is the position of the values in the decoder.
    pub(crate) homes: Vec<u32>,
    pub(crate) stride: Option<u32>,
    pub(crate) starts: Vec<u32>,
    /// At least as long as all bodies.
    pub(crate) bodies: Vec<u8>,
    /// The serial number of the block whose rows these are, if they are all its rows and have the checksum of its content.
    pub(crate) proved: Option<u64>,
}

impl Rows {
    /// No rows.
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes all rows; others are appended with [`Self::push_header`].
    pub fn begin_headers(&mut self) {
        self.times.clear();
        self.clear();
    }

    /// Appends a row without a body; `place`: that of its values in the columns. At most 65,536 rows.
    #[inline]
    pub fn push_header(&mut self, row: RowHeader, place: u16) {
        self.homes.push((self.times.len() as u32) << 16 | u32::from(place));
        self.lanes.push((row.type_id, row.symbol));
        self.times.push(row.time);
        self.sequences.push(row.sequence as i64);
    }

    /// How many rows.
    #[inline]
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// Bytes of memory that are held.
    pub fn memory(&self) -> usize {
        let wide = self.times.capacity() + self.sequences.capacity() + self.lanes.capacity();
        wide * 8 + self.homes.capacity() * 4 + self.starts.capacity() * 4 + self.bodies.capacity()
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// Times of all rows, nanoseconds since the Unix epoch.
    #[inline]
    pub fn times(&self) -> &[i64] {
        &self.times
    }

    /// Sequence number of a row.
    ///
    /// # Panics
    /// When there is no such row.
    #[inline]
    pub fn sequence(&self, row: usize) -> u64 {
        match self.first_sequence {
            Some(first) => first.wrapping_add(row as u64),
            None => self.sequences[row] as u64,
        }
    }

    /// Whether sequence numbers ascend from row to row.
    pub fn is_in_order_of_arrival(&self) -> bool {
        self.first_sequence.is_some() || self.sequences.is_sorted()
    }

    /// Record type and symbol of a row.
    ///
    /// # Panics
    /// When there is no such row.
    #[inline]
    pub fn lane(&self, row: usize) -> (u16, u32) {
        match self.lanes[..] {
            [lane] => lane,
            _ => self.lanes[(self.homes[row] >> 16) as usize],
        }
    }

    /// The homes of some rows, as [`Decoder::headers`](crate::Decoder::headers) found them: the low half is the place among the
    /// values of a column.
    ///
    /// # Panics
    /// When there are no such rows.
    #[inline]
    pub fn homes(&self, rows: std::ops::Range<usize>) -> &[u32] {
        &self.homes[rows]
    }

    /// Whether all rows are of one symbol and record type: then the places of neighbouring rows follow each other.
    pub fn are_of_one_lane(&self) -> bool {
        self.lanes.len() == 1
    }

    /// A number that is greater than all ids of symbols of the rows.
    pub fn symbols_end(&self) -> u32 {
        self.lanes.iter().fold(0, |end, (_, symbol)| end.max(symbol.saturating_add(1)))
    }

    /// The place of a row among the values of a column.
    ///
    /// # Panics
    /// When there is no such row.
    #[inline]
    pub fn place(&self, row: usize) -> u32 {
        self.homes[row] & 0xffff
    }

    /// The end of the places of all rows: 1 more than the last of them.
    pub fn places_end(&self) -> usize {
        self.homes.iter().fold(0, |end, home| end.max((home & 0xffff) + 1)) as usize
    }

    /// Appends the symbols of some rows.
    ///
    /// # Panics
    /// When there are no such rows.
    pub fn append_symbols(&self, rows: std::ops::Range<usize>, out: &mut Vec<u32>) {
        match self.lanes[..] {
            [(_, symbol)] => out.resize(out.len() + rows.len(), symbol),
            _ => out.extend(self.homes[rows].iter().map(|home| self.lanes[(home >> 16) as usize].1)),
        }
    }

    /// Everything but the body of a row.
    ///
    /// # Panics
    /// When there is no such row.
    #[inline]
    pub fn header(&self, row: usize) -> RowHeader {
        let (type_id, symbol) = self.lane(row);
        RowHeader { time: self.times[row], sequence: self.sequence(row), symbol, type_id }
    }

    /// The body of a row.
    ///
    /// # Panics
    /// When there is no such row.
    #[inline]
    pub fn body(&self, row: usize) -> &[u8] {
        match self.stride {
            // One multiplication instead of the two that a range takes.
            Some(stride) => &self.bodies[row * stride as usize..][..stride as usize],
            None => &self.bodies[self.starts[row] as usize..self.starts[row + 1] as usize],
        }
    }

    /// All bodies, one after the other in row order.
    pub(crate) fn all_bodies(&self) -> &[u8] {
        let end = match self.stride {
            Some(stride) => stride as usize * self.len(),
            None => self.starts.last().map_or(0, |end| *end as usize),
        };
        &self.bodies[..end]
    }

    /// Clears everything but times: their memory is overwritten when others are read, and clearing it would take as
    /// long.
    pub(crate) fn clear(&mut self) {
        self.sequences.clear();
        self.first_sequence = None;
        self.lanes.clear();
        self.homes.clear();
        self.stride = None;
        self.starts.clear();
        self.starts.push(0);
        self.proved = None;
    }
}
