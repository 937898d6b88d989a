//! Finds the rows of a batch: checks the columns and widens them into arrays.

use super::{BatchError, BatchHeader, HEADER_BYTES, KIND_ROWS, MAX_MESSAGE_BYTES};
use std::ops::Range;

/// The rows of one batch, decoded but for their bodies. Reused: loading the next batch keeps the memory.
///
/// Always true after a load that succeeded: the four arrays have `header().count` entries; `ends` never
/// decreases and ends with the last byte of the batch. After a load that failed there are no rows.
#[derive(Debug, Default)]
pub struct Rows {
    header: BatchHeader,
    bodies_start: u32,
    times: Vec<i64>,
    symbols: Vec<u32>,
    types: Vec<u16>,
    ends: Vec<u32>,
}

/// One row of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Nanoseconds since the Unix epoch.
    pub time: i64,
    /// Id in the stream's symbol dictionary.
    pub symbol: u32,
    /// Id of the record type in the stream's schema.
    pub type_id: u16,
    /// Where the body is in the batch, header included.
    pub body: Range<usize>,
}

impl Rows {
    /// Reads the rows of `batch`, which must be exactly one batch. Checks the header and that columns, times,
    /// lengths and bodies agree with it; the payload's checksum is the caller's choice
    /// ([`verify_payload`](super::verify_payload)).
    pub fn load(&mut self, batch: &[u8]) -> Result<(), BatchError> {
        self.clear();
        let header = BatchHeader::parse(batch)?;
        self.load_parsed(&header, batch)
    }

    /// Reads times, symbols and types of a batch of rows or of columns, whose header has been parsed. Bodies are empty, at the
    /// end of those columns.
    pub fn load_places(&mut self, header: &BatchHeader, batch: &[u8]) -> Result<(), BatchError> {
        self.clear();
        let loaded = check_length(header, batch).and_then(|()| {
            self.load_columns(header, batch)?;
            self.ends.resize(header.count as usize, self.bodies_start);
            Ok(())
        });
        if loaded.is_err() {
            self.clear();
        }
        loaded
    }

    /// [`load`](Self::load) for a caller that has parsed the header of this very batch already. A batch of columns is refused:
    /// [`to_rows`](super::to_rows) makes one of rows.
    pub fn load_parsed(&mut self, header: &BatchHeader, batch: &[u8]) -> Result<(), BatchError> {
        self.clear();
        let loaded = self.load_rows(header, batch);
        if loaded.is_err() {
            self.clear();
        }
        loaded
    }

    /// The header of the loaded batch.
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// Rows loaded.
    #[inline]
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// True when no rows are loaded.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    /// Row `i`, counted from 0.
    ///
    /// # Panics
    /// If `i` is not below [`len`](Self::len).
    #[inline]
    pub fn row(&self, i: usize) -> Row {
        Row { time: self.times[i], symbol: self.symbols[i], type_id: self.types[i], body: self.body(i) }
    }

    /// Where the body of row `i` is in the batch, header included.
    ///
    /// # Panics
    /// If `i` is not below [`len`](Self::len).
    #[inline]
    pub fn body(&self, i: usize) -> Range<usize> {
        let start = if i == 0 { self.bodies_start } else { self.ends[i - 1] };
        start as usize..self.ends[i] as usize
    }

    /// Times in row order, in nanoseconds since the Unix epoch.
    pub fn times(&self) -> &[i64] {
        &self.times
    }

    /// Symbol ids in row order.
    pub fn symbols(&self) -> &[u32] {
        &self.symbols
    }

    /// Type ids in row order.
    pub fn types(&self) -> &[u16] {
        &self.types
    }

    /// Where each body ends in the batch, header included. The first begins at
    /// [`bodies_start`](Self::bodies_start), every other where the one before it ends.
    pub fn ends(&self) -> &[u32] {
        &self.ends
    }

    /// Where the first body begins in the batch, header included.
    pub fn bodies_start(&self) -> u32 {
        self.bodies_start
    }

    /// Forgets the rows, keeping the memory.
    pub fn clear(&mut self) {
        self.header = BatchHeader::default();
        self.bodies_start = 0;
        self.times.clear();
        self.symbols.clear();
        self.types.clear();
        self.ends.clear();
    }

    fn load_rows(&mut self, header: &BatchHeader, batch: &[u8]) -> Result<(), BatchError> {
        check_length(header, batch)?;
        if header.kind != KIND_ROWS {
            let (need, have) = ("1 (rows) where messages are read row by row", header.kind.into());
            return Err(BatchError::Field { offset: 46, field: "kind", need, have });
        }
        let lengths = self.load_columns(header, batch)?;
        self.load_ends(lengths)
    }

    /// Loads times, symbols and types; returns the column of lengths, and where it begins.
    fn load_columns<'a>(
        &mut self,
        header: &BatchHeader,
        batch: &'a [u8],
    ) -> Result<(usize, &'a [u8]), BatchError> {
        self.header = *header;
        let count = header.count as usize;
        let mut columns = Columns { batch, offset: HEADER_BYTES, count };
        self.load_times(columns.next(header.time_width))?;
        self.load_symbols(columns.next(header.symbol_width));
        self.load_types(columns.next(header.type_width));
        let lengths = columns.next(header.length_width);
        self.bodies_start = columns.offset as u32;
        Ok(lengths)
    }

    fn load_times(&mut self, (offset, column): (usize, &[u8])) -> Result<(), BatchError> {
        let header = self.header;
        let (base, count) = (header.time_min, header.count as usize);
        let wrong = |need, have| Err(BatchError::Column { offset, column: "time", need, have });
        let sorted = match header.time_width {
            0 => fill(&mut self.times, base, count),
            1 => widen_times(column, base, &mut self.times, |c: [u8; 1]| c[0].into()),
            2 => widen_times(column, base, &mut self.times, |c| u16::from_le_bytes(c).into()),
            4 => widen_times(column, base, &mut self.times, |c| u32::from_le_bytes(c).into()),
            _ => widen_times(column, base, &mut self.times, u64::from_le_bytes),
        };
        let range = header.time_max.wrapping_sub(base).cast_unsigned();
        // Compared as deltas: a delta past the end of i64 would wrap to an early time.
        let delta = |time: &i64| time.wrapping_sub(base).cast_unsigned();
        let late = if sorted { self.times.last().map(delta) } else { self.times.iter().map(delta).max() };
        let late = late.unwrap_or(0);
        if late != range {
            return wrong("time_max - time_min in the latest row", late);
        }
        if header.sorted() != sorted {
            return wrong("in time order exactly when the sorted flag is set", u64::from(sorted));
        }
        Ok(())
    }

    fn load_symbols(&mut self, (_, column): (usize, &[u8])) {
        let out = &mut self.symbols;
        match self.header.symbol_width {
            1 => out.extend(column.iter().map(|&b| u32::from(b))),
            2 => out.extend(column.as_chunks().0.iter().map(|&c| u32::from(u16::from_le_bytes(c)))),
            4 => out.extend(column.as_chunks().0.iter().map(|&c| u32::from_le_bytes(c))),
            _ => out.resize(self.header.count as usize, self.header.symbol_const),
        }
    }

    fn load_types(&mut self, (_, column): (usize, &[u8])) {
        let out = &mut self.types;
        match self.header.type_width {
            1 => out.extend(column.iter().map(|&b| u16::from(b))),
            2 => out.extend(column.as_chunks().0.iter().map(|&c| u16::from_le_bytes(c))),
            _ => out.resize(self.header.count as usize, self.header.type_const),
        }
    }

    fn load_ends(&mut self, (offset, column): (usize, &[u8])) -> Result<(), BatchError> {
        let (header, start) = (self.header, self.bodies_start);
        let (sum, longest) = match header.length_width {
            0 => return self.load_equal_ends(),
            1 => widen_ends(column, start, &mut self.ends, |c: [u8; 1]| c[0].into()),
            2 => widen_ends(column, start, &mut self.ends, |c| u16::from_le_bytes(c).into()),
            _ => widen_ends(column, start, &mut self.ends, u32::from_le_bytes),
        };
        let wrong = |need, have| Err(BatchError::Column { offset, column: "length", need, have });
        if longest as usize > MAX_MESSAGE_BYTES {
            return wrong("at most 4 MiB a message", longest.into());
        }
        if sum != header.bodies_bytes() as u64 {
            return wrong("lengths that sum to the bytes of the bodies", sum);
        }
        Ok(())
    }

    /// All bodies of one length: the header check has made sure that they fill the payload.
    fn load_equal_ends(&mut self) -> Result<(), BatchError> {
        let (start, length) = (self.bodies_start, self.header.length_const);
        self.ends.extend((0..self.header.count).map(|i| start + (i + 1) * length));
        Ok(())
    }
}

/// Walks the columns of a batch whose length has been checked.
struct Columns<'a> {
    batch: &'a [u8],
    offset: usize,
    count: usize,
}

impl<'a> Columns<'a> {
    fn next(&mut self, width: u8) -> (usize, &'a [u8]) {
        let start = self.offset;
        self.offset += usize::from(width) * self.count;
        (start, &self.batch[start..self.offset])
    }
}

fn check_length(header: &BatchHeader, batch: &[u8]) -> Result<(), BatchError> {
    let (need, have) = (header.batch_bytes(), batch.len());
    if have < need {
        return Err(BatchError::Truncated { offset: 0, need, have });
    }
    if have > need {
        return Err(BatchError::Trailing { offset: need, have: have - need });
    }
    Ok(())
}

fn fill(times: &mut Vec<i64>, base: i64, count: usize) -> bool {
    times.resize(count, base);
    true
}

/// Widens the time column; true when the deltas, and so the times, never decrease.
#[inline]
fn widen_times<const N: usize>(
    column: &[u8],
    base: i64,
    times: &mut Vec<i64>,
    delta: impl Fn([u8; N]) -> u64,
) -> bool {
    let cells = column.as_chunks::<N>().0;
    times.extend(cells.iter().map(|&c| base.wrapping_add_unsigned(delta(c))));
    let later = cells.get(1..).unwrap_or_default();
    // Counted, not tested with `all`: a loop without an exit is vectorised.
    cells.iter().zip(later).map(|(&a, &b)| u32::from(delta(b) < delta(a))).sum::<u32>() == 0
}

/// Widens the length column into running ends; gives the sum of the lengths and the longest (0 when all are
/// short). When the sum is too large the ends are cut to 32 bits, and the caller refuses them.
#[inline]
fn widen_ends<const N: usize>(
    column: &[u8],
    start: u32,
    ends: &mut Vec<u32>,
    length: impl Fn([u8; N]) -> u32,
) -> (u64, u32) {
    let cells = column.as_chunks::<N>().0;
    ends.resize(cells.len(), 0);
    // A local, not a captured, running end: it stays in a register.
    let mut end = u64::from(start);
    for (place, &cell) in ends.iter_mut().zip(cells) {
        end += u64::from(length(cell));
        *place = end as u32;
    }
    // Lengths of one or two bytes are within every limit.
    let longest = if N < 4 { 0 } else { cells.iter().fold(0, |longest, &cell| longest.max(length(cell))) };
    (end - u64::from(start), longest)
}
