//! The batch header: fields, offsets, reading, writing and checking.

use super::{
    BatchError, FLAG_SORTED, HEADER_BYTES, KIND_COLUMNS, KIND_ROWS, MAGIC, MAX_BATCH_BYTES,
    MAX_BATCH_MESSAGES, MAX_MESSAGE_BYTES, UNFOLD_MAX,
};
use crate::bytes::{check_layout, crc32c, put, u16_at, u32_at, u64_at};
use std::ops::Range;

/// The decoded header of a batch. `magic` and `header_crc` are not fields: reading checks
/// them, writing makes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchHeader {
    /// Bytes after the header: columns, then bodies or the columns of fields.
    pub payload_len: u32,
    /// CRC-32C of the payload, made by the producer.
    pub payload_crc: u32,
    /// Sequence number of the first row in its space; 0 until the log assigns it.
    pub first_sequence: u64,
    /// Earliest time of a row, in nanoseconds since the Unix epoch.
    pub time_min: i64,
    /// Latest time of a row, in nanoseconds since the Unix epoch.
    pub time_max: i64,
    /// Rows, from 1 to [`MAX_BATCH_MESSAGES`].
    pub count: u32,
    /// Version of the stream's schema the bodies were encoded with.
    pub schema_version: u16,
    /// [`KIND_ROWS`] or [`KIND_COLUMNS`].
    pub kind: u8,
    /// [`FLAG_SORTED`] or nothing.
    pub flags: u8,
    /// Bytes per row of the time column (time minus `time_min`): 0, 1, 2, 4 or 8.
    pub time_width: u8,
    /// Bytes per row of the symbol column: 0, 1, 2 or 4. At 0 every row has `symbol_const`.
    pub symbol_width: u8,
    /// Bytes per row of the type column: 0, 1 or 2. At 0 every row has `type_const`.
    pub type_width: u8,
    /// Bytes per row of the length column: 0, 1, 2 or 4. At 0 every body has `length_const` bytes.
    pub length_width: u8,
    /// Symbol id of every row when there is no symbol column, else 0.
    pub symbol_const: u32,
    /// Body length of every row when there is no length column, else 0. Of a batch of columns: bytes of the fixed part.
    pub length_const: u32,
    /// Type id of every row when there is no type column, else 0.
    pub type_const: u16,
    /// The producer of the batch: a random number, the same as long as it numbers its batches; 0 for no producer.
    pub producer: u64,
    /// The producer's own number of the batch, from 1 on, by which a batch that is sent again is recognized. 0 without a
    /// producer.
    pub producer_number: u64,
}

/// Where each field begins.
pub(super) mod at {
    pub const MAGIC: usize = 0;
    pub const HEADER_CRC: usize = 4;
    pub const PAYLOAD_LEN: usize = 8;
    pub const PAYLOAD_CRC: usize = 12;
    pub const FIRST_SEQUENCE: usize = 16;
    pub const TIME_MIN: usize = 24;
    pub const TIME_MAX: usize = 32;
    pub const COUNT: usize = 40;
    pub const SCHEMA_VERSION: usize = 44;
    pub const KIND: usize = 46;
    pub const FLAGS: usize = 47;
    pub const TIME_WIDTH: usize = 48;
    pub const SYMBOL_WIDTH: usize = 49;
    pub const TYPE_WIDTH: usize = 50;
    pub const LENGTH_WIDTH: usize = 51;
    pub const SYMBOL_CONST: usize = 52;
    pub const LENGTH_CONST: usize = 56;
    pub const TYPE_CONST: usize = 60;
    pub const RESERVED: usize = 62;
    pub const PRODUCER: usize = 64;
    pub const PRODUCER_NUMBER: usize = 72;
}

/// Every field of the header in file order: offset, bytes, name. The format page's table is tested against
/// it.
pub(super) const LAYOUT: [(usize, usize, &str); 22] = [
    (at::MAGIC, 4, "magic"),
    (at::HEADER_CRC, 4, "header_crc"),
    (at::PAYLOAD_LEN, 4, "payload_len"),
    (at::PAYLOAD_CRC, 4, "payload_crc"),
    (at::FIRST_SEQUENCE, 8, "first_sequence"),
    (at::TIME_MIN, 8, "time_min"),
    (at::TIME_MAX, 8, "time_max"),
    (at::COUNT, 4, "count"),
    (at::SCHEMA_VERSION, 2, "schema_version"),
    (at::KIND, 1, "kind"),
    (at::FLAGS, 1, "flags"),
    (at::TIME_WIDTH, 1, "time_width"),
    (at::SYMBOL_WIDTH, 1, "symbol_width"),
    (at::TYPE_WIDTH, 1, "type_width"),
    (at::LENGTH_WIDTH, 1, "length_width"),
    (at::SYMBOL_CONST, 4, "symbol_const"),
    (at::LENGTH_CONST, 4, "length_const"),
    (at::TYPE_CONST, 2, "type_const"),
    (at::RESERVED, 2, "reserved"),
    (at::PRODUCER, 8, "producer"),
    (at::PRODUCER_NUMBER, 8, "producer_number"),
    (HEADER_BYTES, 0, "payload"),
];

const _: () = {
    check_layout(&LAYOUT, HEADER_BYTES);
    // Every number is aligned to its size.
    let mut i = 0;
    while i + 1 < LAYOUT.len() {
        assert!(LAYOUT[i].0.is_multiple_of(LAYOUT[i].1));
        i += 1;
    }
};

impl BatchHeader {
    /// Reads the header at the start of `bytes`, which may be longer, and checks everything that can be
    /// checked without the payload: magic, checksum, limits, that the columns fit `payload_len`, reserved
    /// bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, BatchError> {
        if let Some(bytes) = bytes.first_chunk::<HEADER_BYTES>() {
            let magic = u32_at(bytes, at::MAGIC);
            if magic != MAGIC {
                return Err(BatchError::Magic { have: magic });
            }
        }
        Self::parse_stored(bytes)
    }

    /// [`parse`](Self::parse) of a batch as in a log file, where its first four bytes are not the magic but the mark of its
    /// offset (`docs/format/log.md`): they are not checked. For bytes where a batch is expected.
    #[inline]
    pub fn parse_stored(bytes: &[u8]) -> Result<Self, BatchError> {
        let Some(bytes) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Err(BatchError::Truncated { offset: 0, need: HEADER_BYTES, have: bytes.len() });
        };
        let (need, have) = (crc32c(&bytes[at::PAYLOAD_LEN..]), u32_at(bytes, at::HEADER_CRC));
        if need != have {
            return Err(BatchError::HeaderChecksum { need, have });
        }
        let header = Self::decode(bytes);
        header.check_fields()?;
        header.check_layout()?;
        match bytes[at::RESERVED..at::PRODUCER].iter().position(|&b| b != 0) {
            Some(i) => Err(BatchError::Field {
                offset: at::RESERVED + i,
                field: "reserved",
                need: "zero",
                have: bytes[at::RESERVED + i].into(),
            }),
            None => Ok(header),
        }
    }

    /// Writes the header with its magic and a fresh checksum.
    pub fn write(&self, out: &mut [u8; HEADER_BYTES]) {
        out[at::RESERVED..at::PRODUCER].fill(0);
        put(out, at::MAGIC, &MAGIC.to_le_bytes());
        put(out, at::PAYLOAD_LEN, &self.payload_len.to_le_bytes());
        put(out, at::PAYLOAD_CRC, &self.payload_crc.to_le_bytes());
        put(out, at::FIRST_SEQUENCE, &self.first_sequence.to_le_bytes());
        put(out, at::TIME_MIN, &self.time_min.to_le_bytes());
        put(out, at::TIME_MAX, &self.time_max.to_le_bytes());
        put(out, at::COUNT, &self.count.to_le_bytes());
        put(out, at::SCHEMA_VERSION, &self.schema_version.to_le_bytes());
        out[at::KIND] = self.kind;
        out[at::FLAGS] = self.flags;
        out[at::TIME_WIDTH] = self.time_width;
        out[at::SYMBOL_WIDTH] = self.symbol_width;
        out[at::TYPE_WIDTH] = self.type_width;
        out[at::LENGTH_WIDTH] = self.length_width;
        put(out, at::SYMBOL_CONST, &self.symbol_const.to_le_bytes());
        put(out, at::LENGTH_CONST, &self.length_const.to_le_bytes());
        put(out, at::TYPE_CONST, &self.type_const.to_le_bytes());
        put(out, at::PRODUCER, &self.producer.to_le_bytes());
        put(out, at::PRODUCER_NUMBER, &self.producer_number.to_le_bytes());
        let header_crc = crc32c(&out[at::PAYLOAD_LEN..]);
        put(out, at::HEADER_CRC, &header_crc.to_le_bytes());
    }

    /// Bytes of the whole batch: header and payload.
    pub fn batch_bytes(&self) -> usize {
        HEADER_BYTES + self.payload_len as usize
    }

    /// Sequence number after the last row. Cannot overflow in a header that [`parse`](Self::parse) accepted.
    pub fn next_sequence(&self) -> u64 {
        self.first_sequence.saturating_add(u64::from(self.count))
    }

    /// The sequence numbers of the rows.
    pub fn sequences(&self) -> Range<u64> {
        self.first_sequence..self.next_sequence()
    }

    /// Whether it is a batch of columns.
    pub fn is_columnar(&self) -> bool {
        self.kind == KIND_COLUMNS
    }

    /// True when the times of the rows never decrease in row order.
    pub fn sorted(&self) -> bool {
        self.flags & FLAG_SORTED != 0
    }

    /// Bytes of all columns together, before the bodies.
    pub(super) fn column_bytes(&self) -> usize {
        let row = self.time_width + self.symbol_width + self.type_width + self.length_width;
        self.count as usize * usize::from(row)
    }

    /// Bytes of all bodies together.
    pub(super) fn bodies_bytes(&self) -> usize {
        self.payload_len as usize - self.column_bytes()
    }

    fn decode(b: &[u8; HEADER_BYTES]) -> Self {
        Self {
            payload_len: u32_at(b, at::PAYLOAD_LEN),
            payload_crc: u32_at(b, at::PAYLOAD_CRC),
            first_sequence: u64_at(b, at::FIRST_SEQUENCE),
            time_min: u64_at(b, at::TIME_MIN).cast_signed(),
            time_max: u64_at(b, at::TIME_MAX).cast_signed(),
            count: u32_at(b, at::COUNT),
            schema_version: u16_at(b, at::SCHEMA_VERSION),
            kind: b[at::KIND],
            flags: b[at::FLAGS],
            time_width: b[at::TIME_WIDTH],
            symbol_width: b[at::SYMBOL_WIDTH],
            type_width: b[at::TYPE_WIDTH],
            length_width: b[at::LENGTH_WIDTH],
            symbol_const: u32_at(b, at::SYMBOL_CONST),
            length_const: u32_at(b, at::LENGTH_CONST),
            type_const: u16_at(b, at::TYPE_CONST),
            producer: u64_at(b, at::PRODUCER),
            producer_number: u64_at(b, at::PRODUCER_NUMBER),
        }
    }

    /// Each field against its own range.
    fn check_fields(&self) -> Result<(), BatchError> {
        let count = self.count as usize;
        let range = self.time_max.wrapping_sub(self.time_min).cast_unsigned();
        let sequence_ok = self.first_sequence.checked_add(self.count.into()).is_some();
        let rule = |well, offset, field, need, have| {
            if well { Ok(()) } else { Err(BatchError::Field { offset, field, need, have }) }
        };
        let payload_fits = self.payload_len as usize <= MAX_BATCH_BYTES;
        rule(payload_fits, at::PAYLOAD_LEN, "payload_len", "at most 16 MiB", self.payload_len.into())?;
        let need = "small enough to number every row";
        rule(sequence_ok, at::FIRST_SEQUENCE, "first_sequence", need, self.first_sequence)?;
        let time_max = self.time_max.cast_unsigned();
        rule(self.time_max >= self.time_min, at::TIME_MAX, "time_max", "not before time_min", time_max)?;
        let count_ok = (1..=MAX_BATCH_MESSAGES).contains(&count);
        rule(count_ok, at::COUNT, "count", "1 to 1,048,576", self.count.into())?;
        let kind_known = matches!(self.kind, KIND_ROWS | KIND_COLUMNS);
        rule(kind_known, at::KIND, "kind", "1 (rows) or 2 (columns)", self.kind.into())?;
        rule(self.flags & !FLAG_SORTED == 0, at::FLAGS, "flags", "0 or 1", self.flags.into())?;
        let known = |width, offset, field, widths: &[u8], need| {
            rule(widths.contains(&width), offset, field, need, width.into())
        };
        known(self.time_width, at::TIME_WIDTH, "time_width", &[0, 1, 2, 4, 8], "0, 1, 2, 4 or 8")?;
        known(self.symbol_width, at::SYMBOL_WIDTH, "symbol_width", &[0, 1, 2, 4], "0, 1, 2 or 4")?;
        known(self.type_width, at::TYPE_WIDTH, "type_width", &[0, 1, 2], "0, 1 or 2")?;
        known(self.length_width, at::LENGTH_WIDTH, "length_width", &[0, 1, 2, 4], "0, 1, 2 or 4")?;
        let unused = |width: u8, offset, field, value: u32| {
            rule(width == 0 || value == 0, offset, field, "0 with its column", value.into())
        };
        unused(self.symbol_width, at::SYMBOL_CONST, "symbol_const", self.symbol_const)?;
        unused(self.length_width, at::LENGTH_CONST, "length_const", self.length_const)?;
        unused(self.type_width, at::TYPE_CONST, "type_const", self.type_const.into())?;
        let length_fits = self.length_const as usize <= MAX_MESSAGE_BYTES;
        rule(length_fits, at::LENGTH_CONST, "length_const", "at most 4 MiB", self.length_const.into())?;
        let time_fits = self.time_width == 8 || range >> (8 * self.time_width) == 0;
        let need = "wide enough for time_max - time_min";
        rule(time_fits, at::TIME_WIDTH, "time_width", need, self.time_width.into())?;
        let numbered = (self.producer == 0) == (self.producer_number == 0);
        let need = "from 1 on with a producer, 0 without";
        rule(numbered, at::PRODUCER_NUMBER, "producer_number", need, self.producer_number)?;
        Ok(())
    }

    /// Columns and, where their length is constant, bodies against `payload_len`.
    fn check_layout(&self) -> Result<(), BatchError> {
        let (columns, payload) = (self.column_bytes(), self.payload_len as usize);
        let wrong = |need| {
            Err(BatchError::Field {
                offset: at::PAYLOAD_LEN,
                field: "payload_len",
                need,
                have: payload as u64,
            })
        };
        if columns > payload {
            return wrong("at least the bytes of the columns");
        }
        let bodies = self.count as usize * self.length_const as usize;
        if self.is_columnar() {
            return self.check_columnar(bodies);
        }
        if self.length_width == 0 && columns + bodies != payload {
            return wrong("the bytes of the columns plus count times length_const");
        }
        Ok(())
    }
}

/// What only batches of columns need.
impl BatchHeader {
    fn check_columnar(&self, bodies: usize) -> Result<(), BatchError> {
        let wrong = |offset, field, need, have: usize| {
            Err(BatchError::Field { offset, field, need, have: have as u64 })
        };
        if self.type_width != 0 {
            let need = "0 in a batch of columns";
            return wrong(at::TYPE_WIDTH, "type_width", need, self.type_width.into());
        }
        if self.length_width != 0 {
            let need = "0 in a batch of columns";
            return wrong(at::LENGTH_WIDTH, "length_width", need, self.length_width.into());
        }
        if bodies > UNFOLD_MAX * self.payload_len as usize {
            let need = "at least a 16th of count times length_const";
            return wrong(at::PAYLOAD_LEN, "payload_len", need, self.payload_len as usize);
        }
        Ok(())
    }
}

/// Checks the payload against the header's checksum. `payload` must be exactly the bytes after the header.
pub fn verify_payload(header: &BatchHeader, payload: &[u8]) -> Result<(), BatchError> {
    let (need, have) = (header.payload_len as usize, payload.len());
    if have < need {
        return Err(BatchError::Truncated { offset: HEADER_BYTES, need, have });
    }
    if have > need {
        return Err(BatchError::Trailing { offset: HEADER_BYTES + need, have: have - need });
    }
    let (need, have) = (crc32c(payload), header.payload_crc);
    if need != have {
        return Err(BatchError::PayloadChecksum { need, have });
    }
    Ok(())
}

/// Reads the header of the batch at the start of `bytes` and checks header and payload by checksum. `bytes`
/// may be longer than the batch, which ends at [`BatchHeader::batch_bytes`].
pub fn check(bytes: &[u8]) -> Result<BatchHeader, BatchError> {
    let header = BatchHeader::parse(bytes)?;
    let end = header.batch_bytes().min(bytes.len());
    verify_payload(&header, &bytes[HEADER_BYTES..end])?;
    Ok(header)
}

/// [`check`] of a batch as in a log file: see [`BatchHeader::parse_stored`].
pub fn check_stored(bytes: &[u8]) -> Result<BatchHeader, BatchError> {
    let header = BatchHeader::parse_stored(bytes)?;
    let end = header.batch_bytes().min(bytes.len());
    verify_payload(&header, &bytes[HEADER_BYTES..end])?;
    Ok(header)
}

/// Sets the first four bytes of a batch, which no checksum covers: to the mark of its offset in a log file, or back to
/// [`MAGIC`]. Does nothing to fewer than four bytes.
#[inline]
pub fn assign_mark(batch: &mut [u8], mark: u32) {
    if let Some(start) = batch.first_chunk_mut() {
        *start = mark.to_le_bytes();
    }
}

/// Sets the first sequence number of a batch in place and renews the header's checksum; the payload stays
/// untouched.
///
/// The header is trusted: check it first ([`BatchHeader::parse`]). Fails only on fewer than 80 bytes.
pub fn assign_sequence(batch: &mut [u8], first_sequence: u64) -> Result<(), BatchError> {
    let have = batch.len();
    let Some(header) = batch.first_chunk_mut::<HEADER_BYTES>() else {
        return Err(BatchError::Truncated { offset: 0, need: HEADER_BYTES, have });
    };
    put(header, at::FIRST_SEQUENCE, &first_sequence.to_le_bytes());
    let header_crc = crc32c(&header[at::PAYLOAD_LEN..]);
    put(header, at::HEADER_CRC, &header_crc.to_le_bytes());
    Ok(())
}

/// Sets the producer of a batch and its number in place, both from 1 on, and renews the header's checksum; the payload
/// stays untouched.
///
/// The header is trusted: check it first ([`BatchHeader::parse`]). Fails only on fewer than 80 bytes.
pub fn assign_producer(batch: &mut [u8], producer: u64, number: u64) -> Result<(), BatchError> {
    let have = batch.len();
    let Some(header) = batch.first_chunk_mut::<HEADER_BYTES>() else {
        return Err(BatchError::Truncated { offset: 0, need: HEADER_BYTES, have });
    };
    put(header, at::PRODUCER, &producer.to_le_bytes());
    put(header, at::PRODUCER_NUMBER, &number.to_le_bytes());
    let header_crc = crc32c(&header[at::PAYLOAD_LEN..]);
    put(header, at::HEADER_CRC, &header_crc.to_le_bytes());
    Ok(())
}
