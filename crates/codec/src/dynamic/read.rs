//! Reading bodies into owned values that are reused: checked as far as safety and types need, in one pass.

use super::check::{content_end, enum_of, fits};
use super::layouts::{
    Alternatives, Found, ItemLayout, Layouts, RecordLayout, TypeLayout, item_extent, tag_of,
};
use super::op::{Nulls, Op, Opcode, load};
use super::reference::ascii;
use super::value::{RecordValue, Value, assign_binary, assign_text, set};
use crate::array::{Header, no_trailing, null_item};
use crate::error::DecodeError;
use crate::heap::str_of;
use crate::scalars::{bool_of, char_of, check_ascii, time_of_day_of};
use tapedb_schema::{Ascii, Decimal64, Timestamp};

impl Layouts {
    /// The record whose body is `body`, as a new value.
    ///
    /// # Errors
    /// The first place where the bytes are not such a record.
    pub fn decode(&self, type_id: u16, body: &[u8]) -> Result<RecordValue, DecodeError> {
        let mut value = RecordValue::default();
        self.decode_into(type_id, body, &mut value)?;
        Ok(value)
    }

    /// Replaces `value` by the record whose body is `body`, reusing the allocations of `value`.
    ///
    /// # Errors
    /// As [`Layouts::decode`]; `value` then holds a mixture, valid but meaningless.
    pub fn decode_into(&self, type_id: u16, body: &[u8], value: &mut RecordValue) -> Result<(), DecodeError> {
        self.read_body(self.record(type_id)?, body, 0, 0, value)
    }

    fn read_body(
        &self,
        layout: &RecordLayout,
        body: &[u8],
        at: usize,
        depth: u32,
        value: &mut RecordValue,
    ) -> Result<(), DecodeError> {
        fits(layout, body, at, depth)?;
        self.read_fields(layout, body, at, depth, value)
    }

    /// Reads a body whose fixed part is there.
    fn read_fields(
        &self,
        layout: &RecordLayout,
        body: &[u8],
        at: usize,
        depth: u32,
        value: &mut RecordValue,
    ) -> Result<(), DecodeError> {
        value.type_id = layout.type_id;
        if value.fields.len() != layout.ops.len() {
            value.fields.resize_with(layout.ops.len(), Value::default);
        }
        let nulls = Nulls::of(body, layout.nullable);
        if layout.is_plain() {
            read_scalars(&layout.ops, body, nulls, at, &mut value.fields)?;
            return no_trailing(body, layout.fixed, at);
        }
        let (mut ops, mut values) = (layout.ops.as_slice(), value.fields.as_mut_slice());
        let mut position = layout.fixed;
        for &scalars in &layout.runs {
            let ((run, [op, later @ ..]), (run_values, [value, later_values @ ..])) =
                (ops.split_at(scalars), std::mem::take(&mut values).split_at_mut(scalars))
            else {
                break;
            };
            read_scalars(run, body, nulls, at, run_values)?;
            let start = position;
            position = content_end(op, body, start, at)?;
            if nulls.has(op, body) {
                value.set_null();
            } else {
                let ty = &layout.fields[usize::from(op.field)].ty;
                self.read_content(ty, &body[start..position], at + start, depth + 1, value)?;
            }
            (ops, values) = (later, later_values);
        }
        read_scalars(ops, body, nulls, at, values)?;
        no_trailing(body, position, at)
    }

    /// Reads the content of a variable value.
    fn read_content(
        &self,
        ty: &TypeLayout,
        bytes: &[u8],
        at: usize,
        depth: u32,
        value: &mut Value,
    ) -> Result<(), DecodeError> {
        match ty {
            TypeLayout::String => assign_text(value, str_of(bytes, at)?),
            TypeLayout::Array(item) => return self.read_array(item, bytes, at, depth, value.array_slot()),
            TypeLayout::Record(types) => {
                let (type_id, tag) = tag_of(types, bytes, at)?;
                let layout = self.record(type_id)?;
                return self.read_body(layout, &bytes[tag..], at + tag, depth, value.record_slot());
            }
            _ => assign_binary(value, bytes),
        }
        Ok(())
    }

    fn read_array(
        &self,
        item: &ItemLayout,
        bytes: &[u8],
        at: usize,
        depth: u32,
        items: &mut Vec<Value>,
    ) -> Result<(), DecodeError> {
        let header = Header::parse(bytes, at, item.nullable, depth)?;
        if items.len() != header.count {
            items.resize_with(header.count, Value::default);
        }
        if item.op.code == Opcode::Record && !item.nullable {
            return self.read_records(&item.ty, header, bytes, at, depth, items);
        }
        let mut alternatives = Alternatives::new(self, &item.ty);
        let mut position = header.items;
        for (i, value) in items.iter_mut().enumerate() {
            let (rest, here) = (&bytes[position..], at + position);
            if item.nullable && header.is_null(bytes, i) {
                position += null_item(rest, here, item.ty.null_item())?;
                value.set_null();
            } else if item.op.code == Opcode::Record {
                let Found { layout, skip, extent } = alternatives.find(rest, here)?;
                // An array is never too deep for its items.
                let (body, record) = (&rest[skip..extent], value.record_slot());
                self.read_fields(layout, body, here + skip, depth + 1, record)?;
                position += extent;
            } else {
                let (skip, length) = item_extent(&item.op, rest, here)?;
                if item.op.code.is_variable() {
                    self.read_content(&item.ty, &rest[skip..skip + length], here + skip, depth + 1, value)?;
                } else {
                    read_scalar(&item.op, rest, 0, value).map_err(|error| error.shifted(here))?;
                }
                position += skip + length;
            }
        }
        no_trailing(bytes, position, at)
    }

    /// What books are made of, without the detours.
    fn read_records(
        &self,
        ty: &TypeLayout,
        header: Header,
        bytes: &[u8],
        at: usize,
        depth: u32,
        items: &mut [Value],
    ) -> Result<(), DecodeError> {
        let mut alternatives = Alternatives::new(self, ty);
        let mut rest = &bytes[header.items..];
        for value in items {
            let here = at + bytes.len() - rest.len();
            let Found { layout, skip, extent } = alternatives.find(rest, here)?;
            let (body, record) = (&rest[skip..extent], value.record_slot());
            if layout.is_plain() && record.fields.len() == layout.ops.len() {
                record.type_id = layout.type_id;
                let nulls = Nulls::of(body, layout.nullable);
                read_scalars(&layout.ops, body, nulls, here + skip, &mut record.fields)?;
            } else {
                // An array is never too deep for its items.
                self.read_fields(layout, body, here + skip, depth + 1, record)?;
            }
            rest = &rest[extent..];
        }
        no_trailing(bytes, bytes.len() - rest.len(), at)
    }
}

/// Reads the fields of a run, which are of fixed width. A function of its own, so that the loop runs in registers.
#[inline(never)]
fn read_scalars(
    ops: &[Op],
    body: &[u8],
    nulls: Nulls,
    at: usize,
    values: &mut [Value],
) -> Result<(), DecodeError> {
    if nulls.are_long() {
        return read_far_scalars(ops, body, nulls, at, values);
    }
    for (op, value) in ops.iter().zip(values) {
        if nulls.any(op.mask) {
            value.set_null();
        } else if let Err(error) = read_scalar(op, body, op.offset, value) {
            return Err(error.shifted(at));
        }
    }
    Ok(())
}

/// The same for a record with more nullable fields than a word has bits.
#[cold]
fn read_far_scalars(
    ops: &[Op],
    body: &[u8],
    nulls: Nulls,
    at: usize,
    values: &mut [Value],
) -> Result<(), DecodeError> {
    for (op, value) in ops.iter().zip(values) {
        if nulls.has(op, body) {
            value.set_null();
        } else {
            read_scalar(op, body, op.offset, value).map_err(|error| error.shifted(at))?;
        }
    }
    Ok(())
}

/// Reads the fixed-width value at `offset` of `bytes`, which is there and not null. Errors count from `bytes`.
#[inline(always)]
fn read_scalar(op: &Op, bytes: &[u8], offset: u32, value: &mut Value) -> Result<(), DecodeError> {
    let at = offset as usize;
    match op.code {
        Opcode::Bool => set!(value, Bool, bool_of(bytes[at], at)?),
        Opcode::I8 => set!(value, Int, i8::from_le_bytes(load(bytes, offset)).into()),
        Opcode::I16 => set!(value, Int, i16::from_le_bytes(load(bytes, offset)).into()),
        Opcode::I32 => set!(value, Int, i32::from_le_bytes(load(bytes, offset)).into()),
        Opcode::I64 => set!(value, Int, i64::from_le_bytes(load(bytes, offset))),
        Opcode::U8 => set!(value, UInt, bytes[at].into()),
        Opcode::U16 => set!(value, UInt, u16::from_le_bytes(load(bytes, offset)).into()),
        Opcode::U32 => set!(value, UInt, u32::from_le_bytes(load(bytes, offset)).into()),
        Opcode::U64 => set!(value, UInt, u64::from_le_bytes(load(bytes, offset))),
        Opcode::F32 => set!(value, F32, f32::from_le_bytes(load(bytes, offset))),
        Opcode::F64 => set!(value, F64, f64::from_le_bytes(load(bytes, offset))),
        Opcode::Decimal64 => {
            set!(value, Decimal, Decimal64::from_bits(u64::from_le_bytes(load(bytes, offset))));
        }
        Opcode::Scaled => set!(value, Scaled, i64::from_le_bytes(load(bytes, offset)), op.scale),
        Opcode::Timestamp => set!(value, Timestamp, Timestamp(i64::from_le_bytes(load(bytes, offset)))),
        Opcode::TimeOfDay => {
            let time = time_of_day_of(i64::from_le_bytes(load(bytes, offset)), at)?;
            set!(value, TimeOfDay, time);
        }
        Opcode::Char => set!(value, Char, char_of(u32::from_le_bytes(load(bytes, offset)), at)?),
        Opcode::Ascii8 => {
            let bytes = load::<8>(bytes, offset);
            let Ok(text) = Ascii::from_bytes(bytes) else { return check_ascii(&bytes, at) };
            set!(value, Ascii, text.widened());
        }
        Opcode::Ascii => {
            let bytes = &bytes[at..at + usize::from(op.width)];
            check_ascii(bytes, at)?;
            set!(value, Ascii, ascii(bytes));
        }
        Opcode::Enum8 => set!(value, Enum, enum_of(op, bytes[at].into(), at)?),
        Opcode::Enum16 => {
            set!(value, Enum, enum_of(op, u16::from_le_bytes(load(bytes, offset)), at)?);
        }
        Opcode::Text | Opcode::Binary | Opcode::Array | Opcode::Record => {}
    }
    Ok(())
}
