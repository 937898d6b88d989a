//! Writes batches of columns.

use super::input::{InputColumn, Validity};
use super::prepare::{Misfit, Numbers, Prepared, Source, TextSlice, columns_of, prepare};
use super::{ENTRY_BYTES, FLAG_NULLS, Shape, at, bit, mask};
use crate::batch::builder::{range_width, width_and_const};
use crate::batch::{
    BatchHeader, FLAG_SORTED, HEADER_BYTES, KIND_COLUMNS, MAX_BATCH_BYTES, MAX_BATCH_MESSAGES,
    MAX_MESSAGE_BYTES, UNFOLD_MAX,
};
use crate::bytes::{crc32c, put};
use crate::dynamic::{Layouts, RecordLayout};
use std::ops::Range;
use tapedb_schema::{Decimal64, TimeOfDay, Timestamp};

/// Writes messages of one record type as batches of columns. All values have been checked when it exists.
#[derive(Debug)]
pub struct ColumnWriter<'a> {
    layouts: &'a Layouts,
    record: &'a RecordLayout,
    fields: Vec<(Shape, Prepared<'a>)>,
    rows: usize,
    /// Bytes of texts of each row; empty where there are none.
    text_bytes: Vec<u32>,
    /// The null bitmap of the field that is being written.
    nulls: Vec<u8>,
}

impl<'a> ColumnWriter<'a> {
    /// Checks all values of all columns.
    ///
    /// # Errors
    /// The first column, and of it the first row, that does not fit its field; for columns that are missing, unknown, given
    /// twice, or not of `rows` rows; for a record type that has records or arrays ([`is_columnar`](super::is_columnar)).
    pub fn new(
        layouts: &'a Layouts,
        record: &'a RecordLayout,
        columns: &[InputColumn<'a>],
        rows: usize,
    ) -> Result<Self, Misfit> {
        let columns = columns_of(record, columns, rows)?;
        let fields = record.fields.iter().zip(columns).map(|(field, column)| {
            let what = "records and arrays cannot be stored as columns";
            let shape = Shape::of(field).ok_or_else(|| Misfit::column(&field.name, what))?;
            Ok((shape, prepare(layouts, field, column, rows)?))
        });
        let fields: Vec<_> = fields.collect::<Result<_, Misfit>>()?;
        let text_bytes = text_bytes(record, &fields, rows)?;
        Ok(Self { layouts, record, fields, rows, text_bytes, nulls: Vec::new() })
    }

    /// The rows of the batch that begins with row `start`: at least one, at most `rows_max`, and as many as take about
    /// `bytes_max` as rows.
    pub fn next(&self, start: usize, rows_max: usize, bytes_max: usize) -> Range<usize> {
        let left = (self.rows - start).min(rows_max).min(MAX_BATCH_MESSAGES);
        let row = self.record.fixed + super::rows::ROW_BYTES_MAX;
        let bytes_max = bytes_max.min(MAX_BATCH_BYTES / 2);
        if self.text_bytes.is_empty() {
            return start..start + left.min(bytes_max / row).max(1);
        }
        let (mut bytes, mut end) = (0, start);
        while end < start + left && (end == start || bytes + row + self.text_bytes[end] as usize <= bytes_max)
        {
            bytes += row + self.text_bytes[end] as usize;
            end += 1;
        }
        start..end
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Appends the batch of these rows to `out`: of columns, or of rows where columns would unfold too far. `times` and `symbols` are those of the rows, with symbol ids of the
    /// stream. Returns its header.
    ///
    /// # Panics
    /// When `times` or `symbols` are not as long as `rows`, there are no rows, or more than [`ColumnWriter::next`] gives.
    pub fn write(
        &mut self,
        rows: Range<usize>,
        (times, symbols): (&[i64], &[u32]),
        schema_version: u16,
        out: &mut Vec<u8>,
    ) -> BatchHeader {
        assert!(times.len() == rows.len() && symbols.len() == rows.len() && !rows.is_empty());
        let start = out.len();
        let mut header = header_of(times, symbols);
        header.schema_version = schema_version;
        header.type_const = self.record.type_id;
        header.length_const = self.record.fixed as u32;
        out.resize(start + HEADER_BYTES, 0);
        write_times(&header, times, out);
        write_symbols(&header, symbols, out);
        let entries: usize = self.fields.iter().map(|(shape, _)| shape.entries()).sum();
        let mut entry = out.len();
        out.resize(entry + entries * ENTRY_BYTES, 0);
        let Self { fields, nulls, record, .. } = self;
        for ((shape, prepared), field) in fields.iter().zip(&record.fields) {
            let has_nulls = null_bitmap(prepared, &rows, nulls);
            let known = has_nulls.then_some(&nulls[..]);
            out.extend_from_slice(known.unwrap_or_default());
            let mut note = |width: u8, flags: u8, heap: u32, base: u64, out: &mut Vec<u8>| {
                let place = &mut out[entry..entry + ENTRY_BYTES];
                place[at::WIDTH] = width;
                place[at::FLAGS] = flags;
                put(place, at::HEAP, &heap.to_le_bytes());
                put(place, at::BASE, &base.to_le_bytes());
                entry += ENTRY_BYTES;
            };
            let flags = if has_nulls { FLAG_NULLS } else { 0 };
            match &prepared.source {
                Source::Numbers(numbers) => {
                    let (width, base) = write_numbers(numbers, &rows, known, field.width, out);
                    note(width, flags, 0, base, out);
                }
                Source::Wide(first, rest) => {
                    let (width, base) = write_cells(&first[rows.clone()], known, 8, out);
                    note(width, flags, 0, base, out);
                    let (width, base) = write_cells(&rest[rows.clone()], known, field.width - 8, out);
                    note(width, 0, 0, base, out);
                }
                Source::Texts(texts) => {
                    let (width, base, heap) = write_texts(texts, &rows, known, out);
                    note(width, flags, heap, base, out);
                }
                Source::Nulls => {
                    note(0, flags, 0, 0, out);
                    (1..shape.entries()).for_each(|_| note(0, 0, 0, 0, out));
                }
            }
        }
        let payload = start + HEADER_BYTES;
        header.payload_len = (out.len() - payload) as u32;
        header.payload_crc = crc32c(&out[payload..]);
        if let Some(place) = out[start..].first_chunk_mut() {
            header.write(place);
        }
        if unfolds_too_far(&header) { self.as_rows(&header, start, out) } else { header }
    }

    /// Replaces a batch of columns at `start` by one of rows.
    #[cold]
    fn as_rows(&self, header: &BatchHeader, start: usize, out: &mut Vec<u8>) -> BatchHeader {
        let mut rows = Vec::new();
        let unfolded = super::to_rows(header, &out[start..], self.layouts, &mut rows);
        let Ok(unfolded) = unfolded else { return *header };
        let unfolded = BatchHeader { payload_crc: crc32c(&rows[HEADER_BYTES..]), ..unfolded };
        if let Some(place) = rows.first_chunk_mut() {
            unfolded.write(place);
        }
        out.truncate(start);
        out.append(&mut rows);
        unfolded
    }
}

/// Whether a batch of columns with this header unfolds into too many bytes: it has to be stored as rows.
fn unfolds_too_far(header: &BatchHeader) -> bool {
    header.count as usize * header.length_const as usize > UNFOLD_MAX * header.payload_len as usize
}

/// Bytes of the texts of each row, if there are any. No message is too long.
fn text_bytes(
    record: &RecordLayout,
    fields: &[(Shape, Prepared<'_>)],
    rows: usize,
) -> Result<Vec<u32>, Misfit> {
    if record.last_end.is_none() {
        return Ok(Vec::new());
    }
    let mut bytes = vec![0u32; rows];
    for (_, Prepared { validity, source }) in fields {
        let Source::Texts(texts) = source else { continue };
        for (row, sum) in bytes.iter_mut().enumerate() {
            if validity.is_none_or(|validity| validity.get(row)) {
                // Each is at most 4 MiB, as has been checked.
                *sum = sum.saturating_add(texts.get(row).len() as u32);
            }
        }
    }
    let too_long = |sum: &u32| *sum as usize + record.fixed > MAX_MESSAGE_BYTES;
    match bytes.iter().position(too_long) {
        Some(row) => {
            let all = bytes[row] as usize + record.fixed;
            let what = format!("a message of {all} bytes; at most {MAX_MESSAGE_BYTES}; split it");
            Err(Misfit::value(&record.name, row, what))
        }
        None => Ok(bytes),
    }
}

/// The header for these rows; payload, type and schema version are still open.
fn header_of(times: &[i64], symbols: &[u32]) -> BatchHeader {
    let first = times[0];
    let (time_min, time_max) =
        times.iter().fold((first, first), |(min, max), &time| (min.min(time), max.max(time)));
    // Counted, not tested with `all`: a loop without an exit is vectorised.
    let decreases = times.iter().zip(&times[1..]).map(|(a, b)| u32::from(b < a)).sum::<u32>();
    let first = symbols[0];
    let (least, greatest) =
        symbols.iter().fold((first, first), |(min, max), &symbol| (min.min(symbol), max.max(symbol)));
    let (symbol_width, symbol_const) = width_and_const((least, greatest));
    BatchHeader {
        time_min,
        time_max,
        count: times.len() as u32,
        kind: KIND_COLUMNS,
        flags: if decreases == 0 { FLAG_SORTED } else { 0 },
        time_width: range_width(time_max.wrapping_sub(time_min).cast_unsigned()),
        symbol_width,
        symbol_const,
        ..BatchHeader::default()
    }
}

fn write_times(header: &BatchHeader, times: &[i64], out: &mut Vec<u8>) {
    let base = header.time_min;
    cells(header.time_width, times, |time| time.wrapping_sub(base).cast_unsigned(), out);
}

fn write_symbols(header: &BatchHeader, symbols: &[u32], out: &mut Vec<u8>) {
    cells(header.symbol_width, symbols, |symbol| symbol.into(), out);
}

/// Fills `nulls` with the null bitmap of a field in these rows; whether one is null.
fn null_bitmap(prepared: &Prepared<'_>, rows: &Range<usize>, nulls: &mut Vec<u8>) -> bool {
    nulls.clear();
    let count = rows.len();
    match (&prepared.source, prepared.validity) {
        (Source::Nulls, _) => {
            nulls.resize(count.div_ceil(8), 0xff);
        }
        (_, None) => return false,
        (_, Some(Validity::Bits { bytes, offset })) if (offset + rows.start).is_multiple_of(8) => {
            let first = (offset + rows.start) / 8;
            nulls.extend(bytes[first..first + count.div_ceil(8)].iter().map(|byte| !byte));
        }
        (_, Some(Validity::Bools(bools))) => {
            let byte = |eight: &[bool]| {
                eight.iter().enumerate().fold(0, |byte, (bit, valid)| byte | u8::from(!valid) << bit)
            };
            nulls.extend(bools[rows.clone()].chunks(8).map(byte));
        }
        (_, Some(validity)) => {
            let byte = |first: usize| {
                let rows = first..rows.end.min(first + 8);
                rows.fold(0, |byte, row| byte | u8::from(!validity.get(row)) << (row - first))
            };
            nulls.extend(rows.clone().step_by(8).map(byte));
        }
    }
    if let Some(last) = nulls.last_mut().filter(|_| !count.is_multiple_of(8)) {
        *last &= mask_bits(count % 8);
    }
    nulls.iter().fold(0, |all, byte| all | byte) != 0
}

fn mask_bits(bits: usize) -> u8 {
    (1u16 << bits).wrapping_sub(1) as u8
}

/// A number of a slice: its slot, and its place in the order of its type.
trait Number: Copy {
    /// What turns a rank into the slot's bits: the sign bit, of signed types.
    const FLIP: u64 = 0;
    /// Whether ranges of such numbers are not worth looking for.
    const IS_FLOAT: bool = false;
    fn rank(self) -> u64;
}

const SIGN: u64 = 1 << 63;

macro_rules! number {
    ($($type:ty, $flip:expr, $is_float:expr, |$value:ident| $rank:expr;)*) => {$(
        impl Number for $type {
            const FLIP: u64 = $flip;
            const IS_FLOAT: bool = $is_float;
            #[inline(always)]
            fn rank(self) -> u64 {
                let $value = self;
                $rank
            }
        }
    )*};
}

number! {
    bool, 0, false, |value| value.into();
    i8, SIGN, false, |value| i64::from(value).cast_unsigned() ^ SIGN;
    i16, SIGN, false, |value| i64::from(value).cast_unsigned() ^ SIGN;
    i32, SIGN, false, |value| i64::from(value).cast_unsigned() ^ SIGN;
    i64, SIGN, false, |value| value.cast_unsigned() ^ SIGN;
    Timestamp, SIGN, false, |value| value.0.cast_unsigned() ^ SIGN;
    TimeOfDay, 0, false, |value| value.nanos().cast_unsigned();
    u8, 0, false, |value| value.into();
    u16, 0, false, |value| value.into();
    u32, 0, false, |value| value.into();
    u64, 0, false, |value| value;
    char, 0, false, |value| u32::from(value).into();
    Decimal64, 0, false, |value| value.to_bits();
    f32, 0, true, |value| value.to_bits().into();
    f64, 0, true, |value| value.to_bits();
}

/// Appends the cells of a field; their width and base.
fn write_numbers(
    numbers: &Numbers<'_>,
    rows: &Range<usize>,
    nulls: Option<&[u8]>,
    slot: usize,
    out: &mut Vec<u8>,
) -> (u8, u64) {
    use Numbers as N;
    let rows = rows.clone();
    match numbers {
        N::Bools(values) => write_cells(&values[rows], nulls, slot, out),
        N::I8(values) => write_cells(&values[rows], nulls, slot, out),
        N::I16(values) => write_cells(&values[rows], nulls, slot, out),
        N::I32(values) => write_cells(&values[rows], nulls, slot, out),
        N::I64(values) => write_cells(&values[rows], nulls, slot, out),
        N::U8(values) => write_cells(&values[rows], nulls, slot, out),
        N::U16(values) => write_cells(&values[rows], nulls, slot, out),
        N::U32(values) => write_cells(&values[rows], nulls, slot, out),
        N::U64(values) => write_cells(&values[rows], nulls, slot, out),
        N::F32(values) => write_cells(&values[rows], nulls, slot, out),
        N::F64(values) => write_cells(&values[rows], nulls, slot, out),
        N::Decimals(values) => write_cells(&values[rows], nulls, slot, out),
        N::Timestamps(values) => write_cells(&values[rows], nulls, slot, out),
        N::TimesOfDay(values) => write_cells(&values[rows], nulls, slot, out),
        N::Chars(values) => write_cells(&values[rows], nulls, slot, out),
        N::Words(values) => write_cells(&values[rows], nulls, slot, out),
    }
}

/// Appends cells as narrow as these values allow; their width and base.
fn write_cells<T: Number>(values: &[T], nulls: Option<&[u8]>, slot: usize, out: &mut Vec<u8>) -> (u8, u64) {
    let (least, greatest) = match nulls {
        None => range(values),
        Some(nulls) => range_of_present(values, nulls),
    };
    let full = if slot > 4 { 8 } else { slot.next_power_of_two() as u8 };
    let (width, least) = match range_width(greatest - least) {
        // Added to nothing, so that they are copied.
        width if width >= full => (full, T::FLIP),
        width => (width, least),
    };
    match nulls {
        None => cells(width, values, |value| value.rank().wrapping_sub(least), out),
        Some(nulls) => {
            let delta = |(row, value): (usize, T)| {
                if bit(nulls, row) { 0 } else { value.rank().wrapping_sub(least) }
            };
            cells_of(width, values.iter().copied().enumerate(), delta, out);
        }
    }
    (width, (least ^ T::FLIP) & mask(slot))
}

/// Least and greatest rank.
fn range<T: Number>(values: &[T]) -> (u64, u64) {
    let Some(first) = values.first().map(|value| value.rank()) else { return (T::FLIP, T::FLIP) };
    if T::IS_FLOAT {
        // As good as always the second differs.
        let is_one = values.iter().all(|value| value.rank() == first);
        return if is_one { (first, first) } else { (0, u64::MAX) };
    }
    values.iter().fold((first, first), |(least, greatest), value| {
        let rank = value.rank();
        (least.min(rank), greatest.max(rank))
    })
}

fn range_of_present<T: Number>(values: &[T], nulls: &[u8]) -> (u64, u64) {
    let present =
        values.iter().enumerate().filter(|(row, _)| !bit(nulls, *row)).map(|(_, value)| value.rank());
    let (least, greatest) =
        present.fold((u64::MAX, 0), |(least, greatest), rank| (least.min(rank), greatest.max(rank)));
    match least > greatest {
        true => (T::FLIP, T::FLIP),
        false if T::IS_FLOAT && least < greatest => (0, u64::MAX),
        false => (least, greatest),
    }
}

/// Appends a cell of `width` bytes for each value.
#[inline]
fn cells<T: Copy>(width: u8, values: &[T], delta: impl Fn(T) -> u64, out: &mut Vec<u8>) {
    cells_of(width, values.iter().copied(), delta, out);
}

#[inline]
fn cells_of<T>(
    width: u8,
    values: impl ExactSizeIterator<Item = T>,
    delta: impl Fn(T) -> u64,
    out: &mut Vec<u8>,
) {
    match width {
        1 => wide(values, |value| [delta(value) as u8], out),
        2 => wide(values, |value| (delta(value) as u16).to_le_bytes(), out),
        4 => wide(values, |value| (delta(value) as u32).to_le_bytes(), out),
        8 => wide(values, |value| delta(value).to_le_bytes(), out),
        _ => {}
    }
}

#[inline]
fn wide<T, const N: usize>(
    values: impl ExactSizeIterator<Item = T>,
    bytes: impl Fn(T) -> [u8; N],
    out: &mut Vec<u8>,
) {
    let start = out.len();
    out.resize(start + values.len() * N, 0);
    let (places, _) = out[start..].as_chunks_mut::<N>();
    for (place, value) in places.iter_mut().zip(values) {
        *place = bytes(value);
    }
}

/// Appends lengths and bytes of texts; width and base of the lengths, and bytes.
fn write_texts(
    texts: &TextSlice<'_>,
    rows: &Range<usize>,
    nulls: Option<&[u8]>,
    out: &mut Vec<u8>,
) -> (u8, u64, u32) {
    let text = |row: usize| match nulls {
        Some(nulls) if bit(nulls, row) => &[][..],
        _ => texts.get(rows.start + row),
    };
    let lengths: Vec<u32> = (0..rows.len()).map(|row| text(row).len() as u32).collect();
    let (least, greatest) = range(&lengths);
    // Of nulls the length is the base, which is nothing.
    let (least, greatest) = if nulls.is_some() { (0, greatest) } else { (least, greatest) };
    let width = range_width(greatest - least);
    cells(width, &lengths, |length| u64::from(length) - least, out);
    let before = out.len();
    (0..rows.len()).for_each(|row| out.extend_from_slice(text(row)));
    (width, least, (out.len() - before) as u32)
}
