//! Writing owned values as bodies.

use super::layouts::{FieldLayout, ItemLayout, Layouts, TypeLayout};
use super::value::{RecordValue, Value};
use crate::layout::{END_WIDTH, MAX_DEPTH};
use std::fmt;

/// A value that does not fit the schema. Nothing of it has been written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodeError {
    /// Where: the record type, then field names and item numbers, such as `Package.entries[3].price`.
    pub path: String,
    /// What the schema asks for there.
    pub need: String,
    /// What the value is.
    pub have: String,
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: needs {}, has {}", self.path, self.need, self.have)
    }
}

impl std::error::Error for EncodeError {}

impl EncodeError {
    #[cold]
    pub(super) fn new(need: impl Into<String>, have: impl Into<String>) -> Self {
        Self { path: String::new(), need: need.into(), have: have.into() }
    }

    /// The same error, seen from the field or item that holds the value.
    #[cold]
    pub(super) fn within(mut self, outer: impl fmt::Display) -> Self {
        let separator = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("{outer}{separator}{}", self.path);
        self
    }
}

impl Layouts {
    /// Appends the body of `record`.
    ///
    /// # Errors
    /// When a value does not fit its field; `out` is then as before.
    pub fn encode(&self, record: &RecordValue, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let start = out.len();
        self.write_body(record, 0, out).inspect_err(|_| out.truncate(start))
    }

    fn write_body(&self, record: &RecordValue, depth: u32, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let Some(layout) = self.records().get(usize::from(record.type_id)) else {
            let have = format!("type id {}", record.type_id);
            return Err(EncodeError::new(format!("a type id below {}", self.records().len()), have));
        };
        if depth > MAX_DEPTH {
            return Err(EncodeError::new(format!("at most {MAX_DEPTH} levels"), format!("{depth}")));
        }
        if record.fields.len() != layout.fields.len() {
            let need = format!("{} fields", layout.fields.len());
            return Err(EncodeError::new(need, format!("{}", record.fields.len())).within(&layout.name));
        }
        let base = out.len();
        out.resize(base + layout.fixed, 0);
        for (field, value) in layout.fields.iter().zip(&record.fields) {
            self.write_field(field, value, base, depth, out)
                .map_err(|e| e.within(&field.name).within(&layout.name))?;
        }
        Ok(())
    }

    #[inline]
    fn write_field(
        &self,
        field: &FieldLayout,
        value: &Value,
        base: usize,
        depth: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let slot = base + field.offset;
        match (value, field.null_bit) {
            (Value::Null, Some(bit)) => out[base + bit / 8] |= 1 << (bit % 8),
            (Value::Null, None) => return Err(EncodeError::new(need(&field.ty), "null")),
            (value, _) if field.ty.is_variable() => self.write_content(&field.ty, value, depth + 1, out)?,
            (value, _) => return self.store(&field.ty, value, &mut out[slot..slot + field.width]),
        }
        if field.ty.is_variable() {
            let end = ((out.len() - base) as u32).to_le_bytes();
            out[slot..slot + END_WIDTH].copy_from_slice(&end);
        }
        Ok(())
    }

    /// Fills the slot of a fixed-width value.
    #[inline]
    fn store(&self, ty: &TypeLayout, value: &Value, slot: &mut [u8]) -> Result<(), EncodeError> {
        match (ty, value) {
            (TypeLayout::Bool, Value::Bool(x)) => slot[0] = u8::from(*x),
            (TypeLayout::I64, Value::Int(x)) => slot.copy_from_slice(&x.to_le_bytes()),
            (TypeLayout::I8 | TypeLayout::I16 | TypeLayout::I32, Value::Int(x)) => {
                let bits = 8 * slot.len() as u32;
                if *x >> (bits - 1) != 0 && *x >> (bits - 1) != -1 {
                    return Err(EncodeError::new(need(ty), x.to_string()));
                }
                slot.copy_from_slice(&x.to_le_bytes()[..slot.len()]);
            }
            (TypeLayout::U64, Value::UInt(x)) => slot.copy_from_slice(&x.to_le_bytes()),
            (TypeLayout::U8 | TypeLayout::U16 | TypeLayout::U32, Value::UInt(x)) => {
                if *x >> (8 * slot.len()) != 0 {
                    return Err(EncodeError::new(need(ty), x.to_string()));
                }
                slot.copy_from_slice(&x.to_le_bytes()[..slot.len()]);
            }
            (TypeLayout::F32, Value::F32(x)) => slot.copy_from_slice(&x.to_le_bytes()),
            (TypeLayout::F64, Value::F64(x)) => slot.copy_from_slice(&x.to_le_bytes()),
            (TypeLayout::Decimal64, Value::Decimal(x)) if x.is_canonical() => {
                slot.copy_from_slice(&x.to_bits().to_le_bytes());
            }
            (TypeLayout::Decimal(scale), Value::Scaled(x, had)) if scale == had => {
                slot.copy_from_slice(&x.to_le_bytes());
            }
            (TypeLayout::Timestamp, Value::Timestamp(x)) => slot.copy_from_slice(&x.0.to_le_bytes()),
            (TypeLayout::TimeOfDay, Value::TimeOfDay(x)) => slot.copy_from_slice(&x.nanos().to_le_bytes()),
            (TypeLayout::Char, Value::Char(x)) => slot.copy_from_slice(&u32::from(*x).to_le_bytes()),
            (TypeLayout::Ascii(width), Value::Ascii(x)) if x.len() <= usize::from(*width) => {
                slot.copy_from_slice(&x.as_bytes()[..slot.len()]);
            }
            (TypeLayout::Enum { symbols, .. }, Value::Enum(x)) if usize::from(*x) < *symbols => {
                slot.copy_from_slice(&x.to_le_bytes()[..slot.len()]);
            }
            (ty, value) => return Err(mismatch(ty, value)),
        }
        Ok(())
    }

    /// Appends the content of a variable value.
    #[inline]
    fn write_content(
        &self,
        ty: &TypeLayout,
        value: &Value,
        depth: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        match (ty, value) {
            (TypeLayout::String, Value::Text(text)) => out.extend_from_slice(text.as_bytes()),
            (TypeLayout::Binary, Value::Binary(bytes)) => out.extend_from_slice(bytes),
            (TypeLayout::Array(item), Value::Array(items)) => {
                return self.write_array(item, items, depth, out);
            }
            (TypeLayout::Record(types), Value::Record(record)) => {
                return self.write_record(types, record, depth, out);
            }
            (ty, value) => return Err(mismatch(ty, value)),
        }
        Ok(())
    }

    fn write_record(
        &self,
        types: &[u16],
        record: &RecordValue,
        depth: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let Some(tag) = types.iter().position(|&type_id| type_id == record.type_id) else {
            let names: Vec<&str> =
                types.iter().map(|&id| self.records()[usize::from(id)].name.as_str()).collect();
            let have = match self.records().get(usize::from(record.type_id)) {
                Some(layout) => layout.name.clone(),
                None => format!("type id {}", record.type_id),
            };
            return Err(EncodeError::new(format!("a {}", names.join(" or ")), have));
        };
        if types.len() > 1 {
            out.push(tag as u8);
        }
        self.write_body(record, depth, out)
    }

    fn write_array(
        &self,
        item: &ItemLayout,
        items: &[Value],
        depth: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        if depth >= MAX_DEPTH {
            return Err(EncodeError::new(format!("at most {MAX_DEPTH} levels"), format!("{depth}")));
        }
        out.extend_from_slice(&(items.len() as u32).to_le_bytes());
        if item.nullable {
            for group in items.chunks(8) {
                let is_null = |(i, value): (usize, &Value)| u8::from(*value == Value::Null) << i;
                out.push(group.iter().enumerate().map(is_null).sum());
            }
        }
        for (i, value) in items.iter().enumerate() {
            self.write_item(item, value, depth, out).map_err(|e| e.within(format_args!("[{i}]")))?;
        }
        Ok(())
    }

    fn write_item(
        &self,
        item: &ItemLayout,
        value: &Value,
        depth: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let start = out.len();
        match (value, &item.ty) {
            (Value::Null, ty) if item.nullable => out.resize(start + ty.null_item(), 0),
            (Value::Null, ty) => return Err(EncodeError::new(need(ty), "null")),
            (Value::Record(record), TypeLayout::Record(types)) => {
                self.write_record(types, record, depth + 1, out)?;
                // A record without fields takes a byte, so that a count never exceeds the bytes behind it.
                if out.len() == start {
                    out.push(0);
                }
            }
            (value, ty) if ty.is_variable() => {
                out.extend_from_slice(&[0; END_WIDTH]);
                self.write_content(ty, value, depth + 1, out)?;
                let length = (out.len() - start - END_WIDTH) as u32;
                out[start..start + END_WIDTH].copy_from_slice(&length.to_le_bytes());
            }
            (value, ty) => {
                out.resize(start + ty.width(), 0);
                self.store(ty, value, &mut out[start..])?;
            }
        }
        Ok(())
    }
}

#[cold]
fn mismatch(ty: &TypeLayout, value: &Value) -> EncodeError {
    let have = match value {
        Value::Ascii(text) => format!("{:?}", text.as_str()),
        Value::Enum(ordinal) => format!("ordinal {ordinal}"),
        Value::Decimal(number) => format!("decimal64 {number}"),
        Value::Scaled(_, scale) => format!("decimal(18,{scale})"),
        other => other.kind().into(),
    };
    EncodeError::new(need(ty), have)
}

/// What a type asks for, for messages to people.
pub(super) fn need(ty: &TypeLayout) -> String {
    match ty {
        TypeLayout::Bool => "a bool".into(),
        TypeLayout::I8 => "an i8".into(),
        TypeLayout::I16 => "an i16".into(),
        TypeLayout::I32 => "an i32".into(),
        TypeLayout::I64 => "an i64".into(),
        TypeLayout::U8 => "a u8".into(),
        TypeLayout::U16 => "a u16".into(),
        TypeLayout::U32 => "a u32".into(),
        TypeLayout::U64 => "a u64".into(),
        TypeLayout::F32 => "an f32".into(),
        TypeLayout::F64 => "an f64".into(),
        TypeLayout::Decimal64 => "a decimal64 in canonical form".into(),
        TypeLayout::Decimal(scale) => format!("a decimal(18,{scale})"),
        TypeLayout::Timestamp => "a timestamp".into(),
        TypeLayout::TimeOfDay => "a time of day".into(),
        TypeLayout::Char => "a char".into(),
        TypeLayout::Ascii(width) => format!("at most {width} ASCII characters"),
        TypeLayout::String => "a string".into(),
        TypeLayout::Binary => "binary".into(),
        TypeLayout::Enum { symbols, .. } => format!("one of {symbols} enum symbols"),
        TypeLayout::Array(_) => "an array".into(),
        TypeLayout::Record(_) => "a record".into(),
    }
}
