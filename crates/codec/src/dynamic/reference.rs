//! Values read in place: fields are decoded on access, nothing is copied or allocated.
//!
//! Bytes have been validated before a [`RecordRef`] exists. On bytes that were not (see [`Layouts::view_trusted`])
//! accessors may panic or give wrong values; memory stays safe.

use super::layouts::{
    Alternatives, FieldLayout, Found, ItemLayout, Layouts, RecordLayout, TypeLayout, end_at, item_extent,
    tag_of,
};
use super::names::Name;
use super::op::{Nulls, Op, Opcode, load};
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
    Ascii(AsciiRef<'a>),
    Text(&'a str),
    Binary(&'a [u8]),
    Enum(EnumRef<'a>),
    Array(ArrayRef<'a>),
    Record(RecordRef<'a>),
}

/// A record in place.
#[derive(Clone, Copy)]
pub struct RecordRef<'a> {
    layouts: &'a Layouts,
    layout: &'a RecordLayout,
    /// The fixed part is there.
    body: &'a [u8],
}

/// An array in place.
#[derive(Clone, Copy)]
pub struct ArrayRef<'a> {
    layouts: &'a Layouts,
    item: &'a ItemLayout,
    content: &'a [u8],
}

/// An `ascii(n)` in place.
#[derive(Clone, Copy)]
pub struct AsciiRef<'a>(&'a [u8]);

impl<'a> AsciiRef<'a> {
    /// All bytes with their padding.
    #[inline]
    pub fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// The text without padding.
    #[inline]
    pub fn as_str(self) -> &'a str {
        let end = self.0.iter().position(|&byte| byte == 0).unwrap_or(self.0.len());
        str::from_utf8(&self.0[..end]).unwrap_or_default()
    }

    /// A copy.
    #[inline]
    pub fn value(self) -> Ascii<16> {
        match self.0.try_into() {
            Ok(eight) => Ascii::<8>::from_valid_bytes(eight).widened(),
            Err(_) => ascii(self.0),
        }
    }
}

/// An enum's value in place: an ordinal, and its symbol on request.
#[derive(Clone, Copy)]
pub struct EnumRef<'a> {
    layouts: &'a Layouts,
    index: u16,
    ordinal: u16,
}

impl<'a> EnumRef<'a> {
    /// Its place among the symbols, from 0.
    #[inline]
    pub fn ordinal(self) -> u16 {
        self.ordinal
    }

    /// Its symbol in JSON.
    #[inline]
    pub(super) fn name(self) -> Option<&'a Name> {
        self.layouts.symbols[usize::from(self.index)].get(usize::from(self.ordinal))
    }

    /// Its symbol.
    #[inline]
    pub fn symbol(self) -> &'a str {
        let symbols = &self.layouts.schema().enums[usize::from(self.index)].symbols;
        symbols.get(usize::from(self.ordinal)).map_or("", |(name, _)| name)
    }
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

    /// Views a valid body: encoded by this process, or validated before.
    ///
    /// # Errors
    /// When there is no such type, or the body is shorter than its fixed part.
    #[inline]
    pub fn view_trusted<'a>(&'a self, type_id: u16, body: &'a [u8]) -> Result<RecordRef<'a>, DecodeError> {
        let layout = self.record(type_id)?;
        layout.body_len(body, 0)?;
        Ok(RecordRef { layouts: self, layout, body })
    }
}

impl<'a> RecordRef<'a> {
    /// Index of the record type in its schema.
    pub fn type_id(&self) -> u16 {
        self.layout.type_id
    }

    /// The layout of the record type.
    pub fn layout(&self) -> &'a RecordLayout {
        self.layout
    }

    /// The prepared schema that it belongs to.
    pub fn layouts(&self) -> &'a Layouts {
        self.layouts
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
        let op = &self.layout.ops[index];
        if Nulls::of(self.body, self.layout.nullable).has(op, self.body) {
            ValueRef::Null
        } else if op.code.is_variable() {
            let before = self.layout.fields[index].before;
            let start = before.map_or(self.layout.fixed, |slot| end_at(self.body, slot));
            self.variable(op, start, end_at(self.body, op.offset as usize))
        } else {
            scalar(self.layouts, op, self.body, op.offset)
        }
    }

    /// Values of the fields in order.
    #[inline]
    pub fn values(self) -> Values<'a> {
        Values {
            ops: self.layout.ops.iter(),
            nulls: Nulls::of(self.body, self.layout.nullable),
            start: self.layout.fixed,
            record: self,
        }
    }

    /// Fields with their values in order.
    #[inline]
    pub fn fields(self) -> impl Iterator<Item = (&'a FieldLayout, ValueRef<'a>)> {
        self.layout.fields.iter().zip(self.values())
    }

    /// The variable value with this content.
    #[inline(always)]
    fn variable(&self, op: &Op, start: usize, end: usize) -> ValueRef<'a> {
        let content = self.body.get(start..end).unwrap_or_default();
        variable(self.layouts, &self.layout.fields[usize::from(op.field)].ty, content)
    }
}

/// Values of the fields of a [`RecordRef`] in order.
#[derive(Clone)]
pub struct Values<'a> {
    ops: std::slice::Iter<'a, Op>,
    nulls: Nulls,
    /// Where the content of the next variable field begins.
    start: usize,
    record: RecordRef<'a>,
}

impl<'a> Iterator for Values<'a> {
    type Item = ValueRef<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<ValueRef<'a>> {
        let op = self.ops.next()?;
        let body = self.record.body;
        let null = if self.nulls.are_long() { self.nulls.has(op, body) } else { self.nulls.any(op.mask) };
        if op.code.is_variable() {
            let start = self.start;
            self.start = end_at(body, op.offset as usize);
            return Some(if null { ValueRef::Null } else { self.record.variable(op, start, self.start) });
        }
        Some(if null { ValueRef::Null } else { scalar(self.record.layouts, op, body, op.offset) })
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.ops.size_hint()
    }
}

impl ExactSizeIterator for Values<'_> {}

impl<'a> ArrayRef<'a> {
    /// Number of items.
    #[inline]
    pub fn len(&self) -> usize {
        self.header().count
    }

    /// Whether there are no items.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The items in order.
    #[inline]
    pub fn iter(&self) -> Items<'a> {
        let header = self.header();
        Items {
            array: *self,
            header,
            item: 0,
            rest: self.content.get(header.items..).unwrap_or_default(),
            alternatives: Alternatives::new(self.layouts, &self.item.ty),
        }
    }

    /// Counted when the array was made, so this does not fail.
    #[inline]
    fn header(&self) -> Header {
        Header::parse(self.content, 0, self.item.nullable, 0).unwrap_or(Header { count: 0, items: 0 })
    }
}

/// Items of an [`ArrayRef`] in order.
#[derive(Clone)]
pub struct Items<'a> {
    array: ArrayRef<'a>,
    header: Header,
    /// Number of the next item.
    item: usize,
    /// From the next item on.
    rest: &'a [u8],
    alternatives: Alternatives<'a>,
}

impl<'a> Iterator for Items<'a> {
    type Item = ValueRef<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<ValueRef<'a>> {
        let ArrayRef { layouts, item, content } = self.array;
        if self.item == self.header.count {
            return None;
        }
        let number = self.item;
        self.item += 1;
        if item.nullable && self.header.is_null(content, number) {
            self.rest = self.rest.get(item.ty.null_item()..)?;
            return Some(ValueRef::Null);
        }
        if item.op.code == Opcode::Record {
            let Found { layout, skip, extent } = self.alternatives.find(self.rest, 0).ok()?;
            let (bytes, rest) = self.rest.split_at(extent);
            self.rest = rest;
            return Some(ValueRef::Record(RecordRef { layouts, layout, body: &bytes[skip..] }));
        }
        let (skip, length) = item_extent(&item.op, self.rest, 0).ok()?;
        let (bytes, rest) = self.rest.split_at(skip + length);
        self.rest = rest;
        Some(if item.op.code.is_variable() {
            variable(layouts, &item.ty, &bytes[skip..])
        } else {
            scalar(layouts, &item.op, bytes, 0)
        })
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.header.count - self.item))
    }
}

/// The fixed-width value at `offset` of `bytes`, which is there.
#[inline(always)]
fn scalar<'a>(layouts: &'a Layouts, op: &Op, bytes: &'a [u8], offset: u32) -> ValueRef<'a> {
    let at = offset as usize;
    match op.code {
        Opcode::Bool => ValueRef::Bool(bytes[at] != 0),
        Opcode::I8 => ValueRef::Int(i8::from_le_bytes(load(bytes, offset)).into()),
        Opcode::I16 => ValueRef::Int(i16::from_le_bytes(load(bytes, offset)).into()),
        Opcode::I32 => ValueRef::Int(i32::from_le_bytes(load(bytes, offset)).into()),
        Opcode::I64 => ValueRef::Int(i64::from_le_bytes(load(bytes, offset))),
        Opcode::U8 => ValueRef::UInt(bytes[at].into()),
        Opcode::U16 => ValueRef::UInt(u16::from_le_bytes(load(bytes, offset)).into()),
        Opcode::U32 => ValueRef::UInt(u32::from_le_bytes(load(bytes, offset)).into()),
        Opcode::U64 => ValueRef::UInt(u64::from_le_bytes(load(bytes, offset))),
        Opcode::F32 => ValueRef::F32(f32::from_le_bytes(load(bytes, offset))),
        Opcode::F64 => ValueRef::F64(f64::from_le_bytes(load(bytes, offset))),
        Opcode::Decimal64 => ValueRef::Decimal(Decimal64::from_bits(u64::from_le_bytes(load(bytes, offset)))),
        Opcode::Scaled => ValueRef::Scaled(i64::from_le_bytes(load(bytes, offset)), op.scale),
        Opcode::Timestamp => ValueRef::Timestamp(Timestamp(i64::from_le_bytes(load(bytes, offset)))),
        Opcode::TimeOfDay => {
            let nanos = i64::from_le_bytes(load(bytes, offset));
            ValueRef::TimeOfDay(TimeOfDay::from_nanos(nanos).unwrap_or_default())
        }
        Opcode::Char => {
            ValueRef::Char(char::from_u32(u32::from_le_bytes(load(bytes, offset))).unwrap_or('\0'))
        }
        Opcode::Ascii8 => ValueRef::Ascii(AsciiRef(&bytes[at..at + 8])),
        Opcode::Ascii => ValueRef::Ascii(AsciiRef(&bytes[at..at + usize::from(op.width)])),
        Opcode::Enum8 => symbol(layouts, op, bytes[at].into()),
        Opcode::Enum16 => symbol(layouts, op, u16::from_le_bytes(load(bytes, offset))),
        Opcode::Text | Opcode::Binary | Opcode::Array | Opcode::Record => ValueRef::Null,
    }
}

#[inline(always)]
fn symbol<'a>(layouts: &'a Layouts, op: &Op, ordinal: u16) -> ValueRef<'a> {
    ValueRef::Enum(EnumRef { layouts, index: op.index, ordinal })
}

/// The variable value with this content.
#[inline]
fn variable<'a>(layouts: &'a Layouts, ty: &'a TypeLayout, content: &'a [u8]) -> ValueRef<'a> {
    match ty {
        TypeLayout::String => ValueRef::Text(str::from_utf8(content).unwrap_or_default()),
        TypeLayout::Array(item) => match Header::parse(content, 0, item.nullable, 0) {
            Ok(_) => ValueRef::Array(ArrayRef { layouts, item, content }),
            Err(_) => ValueRef::Null,
        },
        TypeLayout::Record(types) => record_of(layouts, types, content),
        _ => ValueRef::Binary(content),
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
            Self::Ascii(text) => f.write_str(text.as_str()),
            Self::Enum(value) => f.write_str(value.symbol()),
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

impl fmt::Debug for AsciiRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

impl fmt::Debug for EnumRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.symbol(), self.ordinal)
    }
}

impl fmt::Debug for Values<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}

impl fmt::Debug for Items<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}
