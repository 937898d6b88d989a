//! Writing owned values as bodies.

use super::error::{EncodeError, need};
use super::layouts::{ItemLayout, Layouts, RecordLayout, TypeLayout};
use super::op::{NEVER, Op, Opcode};
use super::value::{RecordValue, Value};
use crate::layout::{BODY_BYTES_MAX, END_WIDTH, MAX_DEPTH};

/// Why writing stopped. Boxed, so that success costs a register.
type Stopped = Box<EncodeError>;

impl Layouts {
    /// Appends the body of `record`.
    ///
    /// # Errors
    /// When a value does not fit its field, records and arrays are nested deeper than [`MAX_DEPTH`], or the body is 4 GiB
    /// or longer; `out` is then as before.
    pub fn encode(&self, record: &RecordValue, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        if let Some(layout) = self.records().get(usize::from(record.type_id))
            && layout.ops.is_empty()
            && record.fields.is_empty()
        {
            return Ok(());
        }
        self.encode_fields(record, out)
    }

    fn encode_fields(&self, record: &RecordValue, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let start = out.len();
        let mut to = Writer { start, at: start, out };
        let result = self.write_body(record, 0, &mut to).and_then(|()| to.check_length());
        let end = if result.is_ok() { to.at } else { start };
        out.truncate(end);
        result.map_err(|stopped| *stopped)
    }

    fn write_body(&self, record: &RecordValue, depth: u32, to: &mut Writer<'_>) -> Result<(), Stopped> {
        let Some(layout) = self.records().get(usize::from(record.type_id)) else {
            return Err(self.unknown_type(record.type_id));
        };
        if depth > MAX_DEPTH {
            return Err(too_deep(depth));
        }
        self.write_fields(layout, record, depth, to)
    }

    /// Writes a record of this layout.
    fn write_fields(
        &self,
        layout: &RecordLayout,
        record: &RecordValue,
        depth: u32,
        to: &mut Writer<'_>,
    ) -> Result<(), Stopped> {
        if record.fields.len() != layout.ops.len() {
            return Err(wrong_count(layout, record));
        }
        let base = to.take(layout.fixed);
        if layout.is_plain() {
            let row = &mut to.out[base..base + layout.fixed];
            let nulls = store_scalars(layout, &layout.ops, &record.fields, row)?;
            write_nulls(layout, nulls, row);
            return Ok(());
        }
        let (mut ops, mut values) = (layout.ops.as_slice(), record.fields.as_slice());
        let mut nulls = 0;
        for &scalars in &layout.runs {
            let ((run, [op, later @ ..]), (run_values, [value, later_values @ ..])) =
                (ops.split_at(scalars), values.split_at(scalars))
            else {
                break;
            };
            nulls |= store_scalars(layout, run, run_values, &mut to.out[base..base + layout.fixed])?;
            if !matches!(value, Value::Null) {
                let field = &layout.fields[usize::from(op.field)];
                if let Err(stopped) = self.write_content(&field.ty, value, depth + 1, to) {
                    return Err(stopped.within_field(layout, op));
                }
            } else if op.bit == NEVER {
                return Err(refused(layout, op, value));
            } else {
                set_null(op, &mut to.out[base..base + layout.fixed], &mut nulls);
            }
            let end = (to.at - base) as u32;
            save(&mut to.out[base..base + layout.fixed], op.offset, end.to_le_bytes());
            (ops, values) = (later, later_values);
        }
        let row = &mut to.out[base..base + layout.fixed];
        nulls |= store_scalars(layout, ops, values, row)?;
        write_nulls(layout, nulls, row);
        Ok(())
    }

    /// Writes the content of a variable value.
    fn write_content(
        &self,
        ty: &TypeLayout,
        value: &Value,
        depth: u32,
        to: &mut Writer<'_>,
    ) -> Result<(), Stopped> {
        match (ty, value) {
            (TypeLayout::String, Value::Text(text)) => to.extend(text.as_bytes()),
            (TypeLayout::Binary, Value::Binary(bytes)) => to.extend(bytes),
            (TypeLayout::Array(item), Value::Array(items)) => {
                return self.write_array(item, items, depth, to);
            }
            (TypeLayout::Record(types), Value::Record(record)) => {
                let tag = self.tag_of(types, record)?;
                if types.len() > 1 {
                    to.extend(&[tag]);
                }
                return self.write_body(record, depth, to);
            }
            (ty, value) => return Err(mismatch(ty, value)),
        }
        Ok(())
    }

    fn write_array(
        &self,
        item: &ItemLayout,
        items: &[Value],
        depth: u32,
        to: &mut Writer<'_>,
    ) -> Result<(), Stopped> {
        if depth >= MAX_DEPTH {
            return Err(too_deep(depth));
        }
        to.extend(&(items.len() as u32).to_le_bytes());
        if item.nullable {
            for group in items.chunks(8) {
                let is_null = |(i, value): (usize, &Value)| u8::from(matches!(value, Value::Null)) << i;
                to.extend(&[group.iter().enumerate().map(is_null).sum()]);
            }
        }
        let mut last = None;
        for (i, value) in items.iter().enumerate() {
            let written = match (value, &item.ty) {
                (Value::Record(record), TypeLayout::Record(types)) => {
                    self.write_record_item(types, record, depth + 1, &mut last, to)
                }
                _ => self.write_item(item, value, depth, to),
            };
            if let Err(stopped) = written {
                return Err(stopped.within_item(i));
            }
        }
        Ok(())
    }

    /// Writes a record as an array item. Neighbours are mostly of one type: `last` remembers tag and layout.
    #[inline(always)]
    fn write_record_item<'a>(
        &'a self,
        types: &[u16],
        record: &RecordValue,
        depth: u32,
        last: &mut Option<(u8, &'a RecordLayout)>,
        to: &mut Writer<'_>,
    ) -> Result<(), Stopped> {
        let (tag, layout) = match *last {
            Some((tag, layout)) if layout.type_id == record.type_id => (tag, layout),
            _ => *last.insert((self.tag_of(types, record)?, &self.records()[usize::from(record.type_id)])),
        };
        // A record without fields takes a byte, so that a count never exceeds the bytes after it.
        let front = usize::from(types.len() > 1 || layout.fixed == 0);
        if !layout.is_plain() || record.fields.len() != layout.ops.len() {
            to.extend(&[tag][..front]);
            return self.write_fields(layout, record, depth, to);
        }
        let base = to.take(front + layout.fixed);
        let item = &mut to.out[base..base + front + layout.fixed];
        if front == 1 {
            // The only alternative's tag is zero, which is the byte of a record without fields.
            item[0] = tag;
        }
        let row = &mut item[front..];
        let nulls = store_scalars(layout, &layout.ops, &record.fields, row)?;
        write_nulls(layout, nulls, row);
        Ok(())
    }

    fn write_item(
        &self,
        item: &ItemLayout,
        value: &Value,
        depth: u32,
        to: &mut Writer<'_>,
    ) -> Result<(), Stopped> {
        let op = &item.op;
        if matches!(value, Value::Null) {
            if !item.nullable {
                return Err(mismatch(&item.ty, value));
            }
            to.take(item.ty.null_item());
        } else if op.code.is_variable() {
            let start = to.take(END_WIDTH);
            self.write_content(&item.ty, value, depth + 1, to)?;
            let length = (to.at - start - END_WIDTH) as u32;
            to.out[start..start + END_WIDTH].copy_from_slice(&length.to_le_bytes());
        } else {
            let width = usize::from(op.width);
            let start = to.take(width);
            if !store(op, value, &mut to.out[start..start + width], 0) {
                return Err(mismatch(&item.ty, value));
            }
        }
        Ok(())
    }

    /// The tag of a record among the alternatives.
    #[inline]
    fn tag_of(&self, types: &[u16], record: &RecordValue) -> Result<u8, Stopped> {
        match types.iter().position(|&type_id| type_id == record.type_id) {
            Some(tag) => Ok(tag as u8),
            None => Err(self.no_alternative(types, record)),
        }
    }

    #[cold]
    fn unknown_type(&self, type_id: u16) -> Stopped {
        let need = format!("a type id below {}", self.records().len());
        Box::new(EncodeError::new(need, format!("type id {type_id}")))
    }

    #[cold]
    fn no_alternative(&self, types: &[u16], record: &RecordValue) -> Stopped {
        let names: Vec<&str> =
            types.iter().map(|&id| self.records()[usize::from(id)].name.as_str()).collect();
        let have = match self.records().get(usize::from(record.type_id)) {
            Some(layout) => layout.name.clone(),
            None => format!("type id {}", record.type_id),
        };
        Box::new(EncodeError::new(format!("a {}", names.join(" or ")), have))
    }
}

/// Writes forward into a vector that is zeroed some bytes ahead: a record takes its fixed part without a call, and
/// nulls need no work.
struct Writer<'a> {
    out: &'a mut Vec<u8>,
    /// Where the message begins.
    start: usize,
    /// Where the next byte goes; all bytes from here on are zero.
    at: usize,
}

impl Writer<'_> {
    /// Bytes zeroed beyond the requested ones, at least.
    const AHEAD: usize = 128;

    /// The place of so many zero bytes.
    #[inline(always)]
    fn take(&mut self, bytes: usize) -> usize {
        let place = self.at;
        if self.out.len() - place < bytes {
            self.grow(bytes);
        }
        self.at = place + bytes;
        place
    }

    /// Counts, lengths and ends are exact if they fit into their `u32`, as they do if the whole does.
    #[inline(always)]
    fn check_length(&self) -> Result<(), Stopped> {
        let length = self.at - self.start;
        if length <= BODY_BYTES_MAX { Ok(()) } else { Err(too_long(length)) }
    }

    /// As much again as the message has, so that long ones grow seldom.
    #[cold]
    #[inline(never)]
    fn grow(&mut self, bytes: usize) {
        let ahead = (self.at - self.start).max(Self::AHEAD);
        self.out.resize(self.at + bytes + ahead, 0);
    }

    #[inline(always)]
    fn extend(&mut self, bytes: &[u8]) {
        let place = self.take(bytes.len());
        self.out[place..place + bytes.len()].copy_from_slice(bytes);
    }
}

/// Fills the slots of a run of fields, which are of fixed width, and gives the bits of those that are null. A function of
/// its own, so that the loop runs in registers.
#[inline(never)]
fn store_scalars(
    layout: &RecordLayout,
    ops: &[Op],
    values: &[Value],
    row: &mut [u8],
) -> Result<u64, Stopped> {
    let mut nulls = 0;
    for (op, value) in ops.iter().zip(values) {
        if store(op, value, row, op.offset) {
            continue;
        }
        if !matches!(value, Value::Null) || op.bit == NEVER {
            return Err(refused(layout, op, value));
        }
        set_null(op, row, &mut nulls);
    }
    Ok(nulls)
}

/// Fills the slot of a fixed-width value at `offset` of `row`; returns whether the value fits.
#[inline(always)]
fn store(op: &Op, value: &Value, row: &mut [u8], offset: u32) -> bool {
    match (op.code, value) {
        (Opcode::Bool, Value::Bool(x)) => save(row, offset, [u8::from(*x)]),
        (Opcode::I64, Value::Int(x)) => save(row, offset, x.to_le_bytes()),
        (Opcode::I32, Value::Int(x)) => {
            return i32::try_from(*x).is_ok_and(|x| saved(row, offset, x.to_le_bytes()));
        }
        (Opcode::I16, Value::Int(x)) => {
            return i16::try_from(*x).is_ok_and(|x| saved(row, offset, x.to_le_bytes()));
        }
        (Opcode::I8, Value::Int(x)) => {
            return i8::try_from(*x).is_ok_and(|x| saved(row, offset, x.to_le_bytes()));
        }
        (Opcode::U64, Value::UInt(x)) => save(row, offset, x.to_le_bytes()),
        (Opcode::U32, Value::UInt(x)) => {
            return u32::try_from(*x).is_ok_and(|x| saved(row, offset, x.to_le_bytes()));
        }
        (Opcode::U16, Value::UInt(x)) => {
            return u16::try_from(*x).is_ok_and(|x| saved(row, offset, x.to_le_bytes()));
        }
        (Opcode::U8, Value::UInt(x)) => return u8::try_from(*x).is_ok_and(|x| saved(row, offset, [x])),
        (Opcode::F32, Value::F32(x)) => save(row, offset, x.to_le_bytes()),
        (Opcode::F64, Value::F64(x)) => save(row, offset, x.to_le_bytes()),
        (Opcode::Decimal64, Value::Decimal(x)) if x.is_canonical() => {
            save(row, offset, x.to_bits().to_le_bytes())
        }
        (Opcode::Scaled, Value::Scaled(x, scale)) if *scale == op.scale => save(row, offset, x.to_le_bytes()),
        (Opcode::Timestamp, Value::Timestamp(x)) => save(row, offset, x.0.to_le_bytes()),
        (Opcode::TimeOfDay, Value::TimeOfDay(x)) => save(row, offset, x.nanos().to_le_bytes()),
        (Opcode::Char, Value::Char(x)) => save(row, offset, u32::from(*x).to_le_bytes()),
        (Opcode::Ascii8, Value::Ascii(x)) => {
            // A byte after the eighth is there only if all before it are.
            let [a, b, c, d, e, f, g, h, behind, ..] = *x.as_bytes();
            return behind == 0 && saved(row, offset, [a, b, c, d, e, f, g, h]);
        }
        (Opcode::Ascii, Value::Ascii(x)) if x.len() <= usize::from(op.width) => {
            let width = usize::from(op.width);
            row[offset as usize..offset as usize + width].copy_from_slice(&x.as_bytes()[..width]);
        }
        (Opcode::Enum8, Value::Enum(x)) if *x <= op.last => save(row, offset, [*x as u8]),
        (Opcode::Enum16, Value::Enum(x)) if *x <= op.last => save(row, offset, x.to_le_bytes()),
        _ => return false,
    }
    true
}

#[inline(always)]
fn save<const N: usize>(row: &mut [u8], offset: u32, bytes: [u8; N]) {
    row[offset as usize..offset as usize + N].copy_from_slice(&bytes);
}

#[inline(always)]
fn saved<const N: usize>(row: &mut [u8], offset: u32, bytes: [u8; N]) -> bool {
    save(row, offset, bytes);
    true
}

/// Marks a field as null: in the word that [`write_nulls`] writes, if its bit is there.
#[inline(always)]
fn set_null(op: &Op, row: &mut [u8], nulls: &mut u64) {
    if op.mask != 0 {
        *nulls |= op.mask;
    } else {
        row[usize::from(op.bit / 8)] |= 1 << (op.bit % 8);
    }
}

/// Writes the first eight bytes of the null bitmap, or as many as there are.
#[inline(always)]
fn write_nulls(layout: &RecordLayout, nulls: u64, row: &mut [u8]) {
    match layout.nullable.div_ceil(8) {
        0 => {}
        1 => row[0] = nulls as u8,
        several => {
            let bytes = several.min(8);
            row[..bytes].copy_from_slice(&nulls.to_le_bytes()[..bytes]);
        }
    }
}

impl EncodeError {
    #[cold]
    fn within_field(self, layout: &RecordLayout, op: &Op) -> Stopped {
        let field = &layout.fields[usize::from(op.field)];
        Box::new(self.within(&field.name).within(&layout.name))
    }

    #[cold]
    fn within_item(self, item: usize) -> Stopped {
        Box::new(self.within(format_args!("[{item}]")))
    }
}

#[cold]
fn too_deep(depth: u32) -> Stopped {
    Box::new(EncodeError::new(format!("at most {MAX_DEPTH} levels"), format!("{depth}")))
}

#[cold]
fn too_long(length: usize) -> Stopped {
    Box::new(EncodeError::new(format!("at most {BODY_BYTES_MAX} bytes"), format!("{length}")))
}

#[cold]
fn wrong_count(layout: &RecordLayout, record: &RecordValue) -> Stopped {
    let need = format!("{} fields", layout.fields.len());
    Box::new(EncodeError::new(need, format!("{}", record.fields.len())).within(&layout.name))
}

#[cold]
fn refused(layout: &RecordLayout, op: &Op, value: &Value) -> Stopped {
    mismatch(&layout.fields[usize::from(op.field)].ty, value).within_field(layout, op)
}

#[cold]
fn mismatch(ty: &TypeLayout, value: &Value) -> Stopped {
    let have = match value {
        Value::Ascii(text) => format!("{:?}", text.as_str()),
        Value::Enum(ordinal) => format!("ordinal {ordinal}"),
        Value::Decimal(number) => format!("decimal64 {number}"),
        Value::Scaled(_, scale) => format!("decimal(18,{scale})"),
        other => other.kind().into(),
    };
    Box::new(EncodeError::new(need(ty), have))
}
