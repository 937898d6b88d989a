//! Values read in place: fields are decoded when they are asked for, nothing is copied or allocated.
//!
//! Bytes have been validated before a [`RecordRef`] exists. On bytes that were not (see [`Layouts::view_trusted`])
//! accessors may panic or give wrong values; memory stays safe.

use super::layouts::{
    FieldLayout, ItemLayout, Layouts, RecordLayout, TypeLayout, end_at, item_extent, tag_of,
};
use crate::array::Header;
use crate::error::DecodeError;
use std::fmt;
use tapedb_schema::{Ascii, Decimal64, TimeOfDay, Timestamp};

/// A value in place. The variants are those of [`super::Value`].
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub enum ValueRef<'a> {
    Null,
    Bool(bool),
    Int(i64),
    UInt(u64),
    F32(f32),
    F64(f64),
    Decimal(Decimal64),
    Scaled(i64, u8),
    Timestamp(Timestamp),
    TimeOfDay(TimeOfDay),
    Char(char),
    Ascii(Ascii<16>),
    Text(&'a str),
    Binary(&'a [u8]),
    /// An enum's ordinal and its symbol.
    Enum(u16, &'a str),
    Array(ArrayRef<'a>),
    Record(RecordRef<'a>),
}

/// A record in place.
#[derive(Clone, Copy)]
pub struct RecordRef<'a> {
    layouts: &'a Layouts,
    layout: &'a RecordLayout,
    type_id: u16,
    body: &'a [u8],
}

/// An array in place.
#[derive(Clone, Copy)]
pub struct ArrayRef<'a> {
    layouts: &'a Layouts,
    item: &'a ItemLayout,
    header: Header,
    content: &'a [u8],
}

impl Layouts {
    /// Validates a body and views it.
    ///
    /// # Errors
    /// The first place where it is not what encoding would have written.
    pub fn view<'a>(&'a self, type_id: u16, body: &'a [u8]) -> Result<RecordRef<'a>, DecodeError> {
        self.check(type_id, body)?;
        self.view_trusted(type_id, body)
    }

    /// Views a body that is known to be valid: encoded by this process, or validated before.
    ///
    /// # Errors
    /// When there is no such type, or the body is shorter than its fixed part.
    #[inline]
    pub fn view_trusted<'a>(&'a self, type_id: u16, body: &'a [u8]) -> Result<RecordRef<'a>, DecodeError> {
        let layout = self.record(type_id)?;
        layout.body_len(body, 0)?;
        Ok(RecordRef { layouts: self, layout, type_id, body })
    }
}

impl<'a> RecordRef<'a> {
    /// Index of the record type in its schema.
    pub fn type_id(&self) -> u16 {
        self.type_id
    }

    /// The layout of the record type.
    pub fn layout(&self) -> &'a RecordLayout {
        self.layout
    }

    /// Number of fields.
    pub fn len(&self) -> usize {
        self.layout.fields.len()
    }

    /// Whether the record type has no fields.
    pub fn is_empty(&self) -> bool {
        self.layout.fields.is_empty()
    }

    /// The body in its bytes.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.body
    }

    /// Value of the field of that name, `None` if there is no such field.
    pub fn get(&self, name: &str) -> Option<ValueRef<'a>> {
        self.layout.field(name).map(|index| self.at(index))
    }

    /// Value of the field with that index.
    ///
    /// # Panics
    /// When the index is not below [`RecordRef::len`].
    #[inline]
    pub fn at(&self, index: usize) -> ValueRef<'a> {
        self.field(&self.layout.fields[index])
    }

    /// Values of the fields in order.
    pub fn values(self) -> impl Iterator<Item = ValueRef<'a>> {
        self.layout.fields.iter().map(move |field| self.field(field))
    }

    /// Fields with their values in order.
    pub fn fields(self) -> impl Iterator<Item = (&'a FieldLayout, ValueRef<'a>)> {
        self.layout.fields.iter().map(move |field| (field, self.field(field)))
    }

    #[inline]
    fn field(&self, field: &'a FieldLayout) -> ValueRef<'a> {
        if let Some(bit) = field.null_bit
            && self.body[bit / 8] >> (bit % 8) & 1 == 1
        {
            return ValueRef::Null;
        }
        let bytes = if field.ty.is_variable() {
            let start = field.before.map_or(self.layout.fixed, |slot| end_at(self.body, slot));
            self.body.get(start..end_at(self.body, field.offset)).unwrap_or_default()
        } else {
            &self.body[field.offset..field.offset + field.width]
        };
        value_of(self.layouts, &field.ty, bytes)
    }
}

impl<'a> ArrayRef<'a> {
    /// Number of items.
    pub fn len(&self) -> usize {
        self.header.count
    }

    /// Whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.header.count == 0
    }

    /// The items in order.
    pub fn iter(&self) -> impl Iterator<Item = ValueRef<'a>> {
        let array = *self;
        let mut position = array.header.items;
        (0..array.header.count).map_while(move |item| {
            if array.item.nullable && array.header.is_null(array.content, item) {
                position += array.item.ty.null_item();
                return Some(ValueRef::Null);
            }
            let rest = array.content.get(position..)?;
            let (skip, length) = item_extent(array.layouts, &array.item.ty, rest, 0).ok()?;
            position += skip + length;
            Some(value_of(array.layouts, &array.item.ty, &rest[skip..skip + length]))
        })
    }
}

/// The value of `ty` in its bytes: the slot of a fixed-width type, the content of a variable one.
#[inline]
fn value_of<'a>(layouts: &'a Layouts, ty: &'a TypeLayout, bytes: &'a [u8]) -> ValueRef<'a> {
    match ty {
        TypeLayout::Bool => ValueRef::Bool(bytes[0] != 0),
        TypeLayout::I8 => ValueRef::Int(i8::from_le_bytes(array(bytes)).into()),
        TypeLayout::I16 => ValueRef::Int(i16::from_le_bytes(array(bytes)).into()),
        TypeLayout::I32 => ValueRef::Int(i32::from_le_bytes(array(bytes)).into()),
        TypeLayout::I64 => ValueRef::Int(i64::from_le_bytes(array(bytes))),
        TypeLayout::U8 => ValueRef::UInt(bytes[0].into()),
        TypeLayout::U16 => ValueRef::UInt(u16::from_le_bytes(array(bytes)).into()),
        TypeLayout::U32 => ValueRef::UInt(u32::from_le_bytes(array(bytes)).into()),
        TypeLayout::U64 => ValueRef::UInt(u64::from_le_bytes(array(bytes))),
        TypeLayout::F32 => ValueRef::F32(f32::from_le_bytes(array(bytes))),
        TypeLayout::F64 => ValueRef::F64(f64::from_le_bytes(array(bytes))),
        TypeLayout::Decimal64 => ValueRef::Decimal(Decimal64::from_bits(u64::from_le_bytes(array(bytes)))),
        TypeLayout::Decimal(scale) => ValueRef::Scaled(i64::from_le_bytes(array(bytes)), *scale),
        TypeLayout::Timestamp => ValueRef::Timestamp(Timestamp(i64::from_le_bytes(array(bytes)))),
        TypeLayout::TimeOfDay => {
            ValueRef::TimeOfDay(TimeOfDay::from_nanos(i64::from_le_bytes(array(bytes))).unwrap_or_default())
        }
        TypeLayout::Char => ValueRef::Char(char::from_u32(u32::from_le_bytes(array(bytes))).unwrap_or('\0')),
        TypeLayout::Ascii(_) => ValueRef::Ascii(ascii(bytes)),
        TypeLayout::String => ValueRef::Text(str::from_utf8(bytes).unwrap_or_default()),
        TypeLayout::Binary => ValueRef::Binary(bytes),
        TypeLayout::Enum { index, width, .. } => {
            let ordinal = if *width == 1 { bytes[0].into() } else { u16::from_le_bytes(array(bytes)) };
            let symbol = layouts.schema().enums[*index].symbols.get(usize::from(ordinal));
            ValueRef::Enum(ordinal, symbol.map_or("", |(name, _)| name))
        }
        TypeLayout::Array(item) => match Header::parse(bytes, 0, item.nullable, 0) {
            Ok(header) => ValueRef::Array(ArrayRef { layouts, item, header, content: bytes }),
            Err(_) => ValueRef::Null,
        },
        TypeLayout::Record(types) => record_of(layouts, types, bytes),
    }
}

#[inline]
fn record_of<'a>(layouts: &'a Layouts, types: &[u16], content: &'a [u8]) -> ValueRef<'a> {
    let Ok((type_id, tag)) = tag_of(types, content, 0) else { return ValueRef::Null };
    match layouts.view_trusted(type_id, &content[tag..]) {
        Ok(record) => ValueRef::Record(record),
        Err(_) => ValueRef::Null,
    }
}

#[inline]
pub(super) fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.first_chunk().copied().unwrap_or([0; N])
}

/// A shorter ascii text widened to sixteen bytes.
#[inline]
pub(super) fn ascii(bytes: &[u8]) -> Ascii<16> {
    let mut wide = [0; 16];
    wide[..bytes.len()].copy_from_slice(bytes);
    Ascii::from_bytes(wide).unwrap_or_default()
}

impl ValueRef<'_> {
    /// Whether the value is null.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }
}

/// For people: scalars plainly, texts as they are, arrays and records in their canonical JSON.
impl fmt::Display for ValueRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Char(letter) => write!(f, "{letter}"),
            Self::Ascii(text) => write!(f, "{text}"),
            Self::Enum(_, symbol) => f.write_str(symbol),
            Self::Decimal(number) => write!(f, "{number}"),
            Self::Timestamp(time) => write!(f, "{time}"),
            Self::TimeOfDay(time) => write!(f, "{time}"),
            other => {
                let mut json = Vec::new();
                super::json::write_value(*other, &mut json);
                f.write_str(&String::from_utf8_lossy(&json))
            }
        }
    }
}

impl fmt::Debug for RecordRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut record = f.debug_struct(&self.layout.name);
        for (field, value) in self.fields() {
            record.field(&field.name, &value);
        }
        record.finish()
    }
}

impl fmt::Debug for ArrayRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
