//! Makes batches: collects rows, then writes header, columns and bodies.

use super::{
    BatchHeader, FLAG_SORTED, HEADER_BYTES, KIND_ROWS, MAX_BATCH_BYTES, MAX_BATCH_MESSAGES, MAX_MESSAGE_BYTES,
};
use crate::bytes::crc32c;
use std::convert::Infallible;
use std::fmt;

/// Collects messages and writes them as one batch. Reused: [`finish`](Self::finish) empties it and keeps its
/// memory.
///
/// Always true: `bodies` holds exactly the bodies of `rows`, and the batch they make is within the limits.
#[derive(Debug, Default)]
pub struct BatchBuilder {
    rows: Vec<RowHead>,
    bodies: Vec<u8>,
}

/// One row without its body. One array of these, not four: a push pays one capacity check.
#[derive(Clone, Copy, Debug)]
struct RowHead {
    time: i64,
    symbol: u32,
    length: u32,
    type_id: u16,
}

/// Column bytes of a row at most: time 8, symbol 4, type 2, length 4.
const ROW_BYTES_MAX: usize = 18;

/// Why a message was not added. The builder is as it was before the push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushError {
    /// The body has more than [`MAX_MESSAGE_BYTES`]; it can never be stored.
    MessageTooLarge {
        /// Bytes of the body.
        bytes: usize,
    },
    /// The batch would pass [`MAX_BATCH_BYTES`] or [`MAX_BATCH_MESSAGES`]: finish it and push again.
    BatchFull {
        /// Messages in the batch so far.
        count: usize,
    },
}

impl fmt::Display for PushError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MessageTooLarge { bytes } => {
                write!(f, "message of {bytes} bytes is over the limit of {MAX_MESSAGE_BYTES}; split it")
            }
            Self::BatchFull { count } => {
                write!(f, "batch is full with {count} messages; finish it and push the message again")
            }
        }
    }
}

impl std::error::Error for PushError {}

/// An encoder that cannot fail still needs an error type to carry the push's own.
impl From<Infallible> for PushError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl BatchBuilder {
    /// An empty builder.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a message whose body `encode` appends to the buffer it is given. `time` is in nanoseconds since
    /// the Unix epoch. On error the message is not in the batch.
    ///
    /// # Panics
    /// If `encode` shortens the buffer: it must only append.
    #[inline]
    pub fn push(
        &mut self,
        time: i64,
        symbol: u32,
        type_id: u16,
        encode: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), PushError> {
        let start = self.bodies.len();
        encode(&mut self.bodies);
        self.close_row(start, time, symbol, type_id)
    }

    /// [`push`](Self::push) with an encoder that may fail: on any error the message is not in the batch.
    ///
    /// # Panics
    /// If `encode` shortens the buffer: it must only append.
    #[inline]
    pub fn try_push<E: From<PushError>>(
        &mut self,
        time: i64,
        symbol: u32,
        type_id: u16,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let start = self.bodies.len();
        if let Err(error) = encode(&mut self.bodies) {
            self.bodies.truncate(start);
            return Err(error);
        }
        Ok(self.close_row(start, time, symbol, type_id)?)
    }

    /// Adds a message whose body is already encoded.
    #[inline]
    pub fn push_bytes(&mut self, time: i64, symbol: u32, type_id: u16, body: &[u8]) -> Result<(), PushError> {
        self.push(time, symbol, type_id, |bodies| bodies.extend_from_slice(body))
    }

    /// Messages so far.
    #[inline]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// True when there is no message.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Upper bound of the payload [`finish`](Self::finish) would write, in bytes: for deciding when to flush.
    #[inline]
    pub fn payload_bytes(&self) -> usize {
        self.bodies.len() + self.rows.len() * ROW_BYTES_MAX
    }

    /// Forgets all messages, keeping the memory.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.bodies.clear();
    }

    /// Appends the batch to `out` and empties the builder. Returns the bytes appended: 0 when there was no
    /// message.
    pub fn finish(&mut self, schema_version: u16, out: &mut Vec<u8>) -> usize {
        if self.rows.is_empty() {
            return 0;
        }
        let start = out.len();
        let mut header = Ranges::of(&self.rows).header();
        header.schema_version = schema_version;
        header.payload_len = (header.column_bytes() + self.bodies.len()) as u32;
        out.resize(start + HEADER_BYTES, 0);
        out.reserve(header.payload_len as usize);
        self.write_columns(&header, out);
        out.extend_from_slice(&self.bodies);
        header.payload_crc = crc32c(&out[start + HEADER_BYTES..]);
        if let Some(place) = out[start..].first_chunk_mut() {
            header.write(place);
        }
        self.clear();
        out.len() - start
    }

    /// Takes what the encoder appended after `start` as the body of a new row, or takes it out again.
    #[inline]
    fn close_row(&mut self, start: usize, time: i64, symbol: u32, type_id: u16) -> Result<(), PushError> {
        let end = self.bodies.len();
        assert!(end >= start, "an encoder must only append to the buffer");
        let length = end - start;
        let full =
            self.payload_bytes() + ROW_BYTES_MAX > MAX_BATCH_BYTES || self.rows.len() >= MAX_BATCH_MESSAGES;
        if full || length > MAX_MESSAGE_BYTES {
            return Err(self.refuse(start, length));
        }
        self.rows.push(RowHead { time, symbol, length: length as u32, type_id });
        Ok(())
    }

    #[cold]
    fn refuse(&mut self, start: usize, length: usize) -> PushError {
        self.bodies.truncate(start);
        if length > MAX_MESSAGE_BYTES {
            return PushError::MessageTooLarge { bytes: length };
        }
        PushError::BatchFull { count: self.rows.len() }
    }

    fn write_columns(&self, header: &BatchHeader, out: &mut Vec<u8>) {
        let base = header.time_min;
        write_column(out, header.time_width, &self.rows, |r| r.time.wrapping_sub(base).cast_unsigned());
        write_column(out, header.symbol_width, &self.rows, |r| r.symbol.into());
        write_column(out, header.type_width, &self.rows, |r| r.type_id.into());
        write_column(out, header.length_width, &self.rows, |r| r.length.into());
    }
}

/// Smallest and largest of every column, and whether the times never decrease.
struct Ranges {
    time: (i64, i64),
    symbol: (u32, u32),
    length: (u32, u32),
    type_id: (u16, u16),
    count: u32,
    sorted: bool,
}

impl Ranges {
    fn of(rows: &[RowHead]) -> Self {
        let first = rows[0];
        let mut ranges = Self {
            time: (first.time, first.time),
            symbol: (first.symbol, first.symbol),
            length: (first.length, first.length),
            type_id: (first.type_id, first.type_id),
            count: rows.len() as u32,
            sorted: true,
        };
        let mut last = first.time;
        for row in rows {
            widen(&mut ranges.time, row.time);
            widen(&mut ranges.symbol, row.symbol);
            widen(&mut ranges.length, row.length);
            widen(&mut ranges.type_id, row.type_id);
            ranges.sorted &= row.time >= last;
            last = row.time;
        }
        ranges
    }

    /// The header for these ranges; payload, schema version and sequence are still open.
    fn header(&self) -> BatchHeader {
        let (symbol_width, symbol_const) = width_and_const(self.symbol);
        let (length_width, length_const) = width_and_const(self.length);
        let (type_width, type_const) = width_and_const((self.type_id.0.into(), self.type_id.1.into()));
        BatchHeader {
            time_min: self.time.0,
            time_max: self.time.1,
            count: self.count,
            kind: KIND_ROWS,
            flags: if self.sorted { FLAG_SORTED } else { 0 },
            time_width: range_width(self.time.1.wrapping_sub(self.time.0).cast_unsigned()),
            symbol_width,
            symbol_const,
            length_width,
            length_const,
            type_width,
            type_const: type_const as u16,
            ..BatchHeader::default()
        }
    }
}

fn widen<T: Ord + Copy>(range: &mut (T, T), value: T) {
    *range = (range.0.min(value), range.1.max(value));
}

/// The smallest width that holds the difference of two numbers; none for 0.
pub(super) fn range_width(range: u64) -> u8 {
    match range {
        0 => 0,
        1..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xffff_ffff => 4,
        _ => 8,
    }
}

/// No column for one value throughout, else the smallest width that holds the largest.
pub(super) fn width_and_const((min, max): (u32, u32)) -> (u8, u32) {
    match max {
        _ if min == max => (0, max),
        0..=0xff => (1, 0),
        0x100..=0xffff => (2, 0),
        _ => (4, 0),
    }
}

#[inline]
fn write_column(out: &mut Vec<u8>, width: u8, rows: &[RowHead], value: impl Fn(&RowHead) -> u64) {
    match width {
        1 => out.extend(rows.iter().map(|r| value(r) as u8)),
        2 => write_wide(out, rows, |r| (value(r) as u16).to_le_bytes()),
        4 => write_wide(out, rows, |r| (value(r) as u32).to_le_bytes()),
        8 => write_wide(out, rows, |r| value(r).to_le_bytes()),
        _ => {}
    }
}

#[inline]
fn write_wide<const N: usize>(out: &mut Vec<u8>, rows: &[RowHead], bytes: impl Fn(&RowHead) -> [u8; N]) {
    let start = out.len();
    out.resize(start + rows.len() * N, 0);
    let (places, _) = out[start..].as_chunks_mut::<N>();
    for (place, row) in places.iter_mut().zip(rows) {
        *place = bytes(row);
    }
}
