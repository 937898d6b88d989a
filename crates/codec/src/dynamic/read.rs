//! Reading bodies into owned values that are reused: checked as far as safety and types ask, in one pass.

use super::check::{content_end, enum_of, fits, is_null};
use super::layouts::{ItemLayout, Layouts, RecordLayout, TypeLayout, item_extent, tag_of};
use super::reference::{array, ascii};
use super::value::{RecordValue, Value, assign_binary, assign_text};
use crate::array::{Header, no_trailing, null_item};
use crate::error::DecodeError;
use crate::heap::str_of;
use crate::scalars::{bool_of, char_of, check_ascii, time_of_day_of};
use tapedb_schema::{Decimal64, Timestamp};

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

    /// Replaces `value` by the record whose body is `body`, reusing what `value` has allocated.
    ///
    /// # Errors
    /// As [`Layouts::decode`]; `value` then holds a mixture, valid but meaningless.
    pub fn decode_into(&self, type_id: u16, body: &[u8], value: &mut RecordValue) -> Result<(), DecodeError> {
        value.type_id = type_id;
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
        if value.fields.len() != layout.fields.len() {
            value.fields.resize_with(layout.fields.len(), Value::default);
        }
        let mut position = layout.fixed;
        for (field, value) in layout.fields.iter().zip(&mut value.fields) {
            let (start, end, at, depth) = if field.ty.is_variable() {
                let start = position;
                position = content_end(field, body, start, at)?;
                (start, position, at + start, depth + 1)
            } else {
                (field.offset, field.offset + field.width, at + field.offset, depth)
            };
            if is_null(field, body) {
                *value = Value::Null;
            } else {
                self.read_value(&field.ty, &body[start..end], at, depth, value)?;
            }
        }
        no_trailing(body, position, at)
    }

    #[inline]
    fn read_value(
        &self,
        ty: &TypeLayout,
        bytes: &[u8],
        at: usize,
        depth: u32,
        value: &mut Value,
    ) -> Result<(), DecodeError> {
        *value = match ty {
            TypeLayout::Bool => Value::Bool(bool_of(bytes[0], at)?),
            TypeLayout::I8 => Value::Int(i8::from_le_bytes(array(bytes)).into()),
            TypeLayout::I16 => Value::Int(i16::from_le_bytes(array(bytes)).into()),
            TypeLayout::I32 => Value::Int(i32::from_le_bytes(array(bytes)).into()),
            TypeLayout::I64 => Value::Int(i64::from_le_bytes(array(bytes))),
            TypeLayout::U8 => Value::UInt(bytes[0].into()),
            TypeLayout::U16 => Value::UInt(u16::from_le_bytes(array(bytes)).into()),
            TypeLayout::U32 => Value::UInt(u32::from_le_bytes(array(bytes)).into()),
            TypeLayout::U64 => Value::UInt(u64::from_le_bytes(array(bytes))),
            TypeLayout::F32 => Value::F32(f32::from_le_bytes(array(bytes))),
            TypeLayout::F64 => Value::F64(f64::from_le_bytes(array(bytes))),
            TypeLayout::Decimal64 => Value::Decimal(Decimal64::from_bits(u64::from_le_bytes(array(bytes)))),
            TypeLayout::Decimal(scale) => Value::Scaled(i64::from_le_bytes(array(bytes)), *scale),
            TypeLayout::Timestamp => Value::Timestamp(Timestamp(i64::from_le_bytes(array(bytes)))),
            TypeLayout::TimeOfDay => Value::TimeOfDay(time_of_day_of(i64::from_le_bytes(array(bytes)), at)?),
            TypeLayout::Char => Value::Char(char_of(u32::from_le_bytes(array(bytes)), at)?),
            TypeLayout::Ascii(_) => {
                check_ascii(bytes, at)?;
                Value::Ascii(ascii(bytes))
            }
            TypeLayout::Enum { width, symbols, .. } => Value::Enum(enum_of(bytes, *width, *symbols, at)?),
            TypeLayout::String => {
                assign_text(value, str_of(bytes, at)?);
                return Ok(());
            }
            TypeLayout::Binary => {
                assign_binary(value, bytes);
                return Ok(());
            }
            TypeLayout::Array(item) => return self.read_array(item, bytes, at, depth, value.array_slot()),
            TypeLayout::Record(types) => {
                let (type_id, tag) = tag_of(types, bytes, at)?;
                let record = value.record_slot();
                record.type_id = type_id;
                return self.read_body(self.record(type_id)?, &bytes[tag..], at + tag, depth, record);
            }
        };
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
        items.resize_with(header.count, Value::default);
        let mut position = header.items;
        for (i, value) in items.iter_mut().enumerate() {
            let (rest, here) = (&bytes[position..], at + position);
            if item.nullable && header.is_null(bytes, i) {
                position += null_item(rest, here, item.ty.null_item())?;
                *value = Value::Null;
            } else {
                let (skip, length) = item_extent(self, &item.ty, rest, here)?;
                self.read_value(&item.ty, &rest[skip..skip + length], here + skip, depth + 1, value)?;
                position += skip + length;
            }
        }
        no_trailing(bytes, position, at)
    }
}
