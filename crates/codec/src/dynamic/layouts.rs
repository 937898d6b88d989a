//! A prepared schema: the offset of each field of each record type.

use super::names::{FieldName, Name, Names};
use super::op::{NEAR, Op};
use super::test::Test;
use crate::error::{DecodeError, DecodeErrorKind as Kind};
use crate::layout::END_WIDTH;
use tapedb_schema::{FieldType, Literal, RecordType, Scalar, Schema, SchemaError};

/// A valid schema with the row layout of each of its record types.
#[derive(Debug, Clone)]
pub struct Layouts {
    schema: Schema,
    records: Vec<RecordLayout>,
    /// The symbols of each enum, in JSON.
    pub(super) symbols: Vec<Vec<Name>>,
}

/// The layout of one record type.
#[derive(Debug, Clone)]
pub struct RecordLayout {
    /// Name of the record type.
    pub name: String,
    /// Whether it can stand alone as a message.
    pub message: bool,
    /// The fields in order.
    pub fields: Vec<FieldLayout>,
    /// Bytes of the fixed part, null bitmap included.
    pub fixed: usize,
    /// Number of nullable fields.
    pub nullable: usize,
    /// Slot of the last variable field, which holds the length of the body; `None`: the fixed part is the body.
    pub last_end: Option<usize>,
    /// Its type id: its index in the schema.
    pub type_id: u16,
    /// The names in it, in JSON.
    pub(super) names: Names,
    /// What the interpreter runs: an instruction for each field.
    pub(super) ops: Vec<Op>,
    /// For each variable field, how many others there are between it and the one before.
    pub(super) runs: Vec<usize>,
    /// The fixed-width fields' checks as one comparison each; none if the fixed part is shorter than a word.
    pub(super) tests: Option<Vec<Test>>,
    /// Bits after the last nullable field in its byte of the null bitmap, where that is among the first eight.
    pub(super) unused: u64,
    /// The bits of the null bitmap, where all bodies are right that have the fixed part and none of these: there are no others,
    /// and every bit pattern of a field is a value.
    pub(super) open: Option<u64>,
}

/// The layout of one field.
#[derive(Debug, Clone)]
pub struct FieldLayout {
    /// Name of the field.
    pub name: String,
    /// Its type.
    pub ty: TypeLayout,
    /// Offset of its slot in the fixed part.
    pub offset: usize,
    /// Bytes of its slot.
    pub width: usize,
    /// Its bit in the null bitmap, if it may be null.
    pub null_bit: Option<usize>,
    /// Slot of the variable field before it, whose end is this one's start; `None`: starts after the fixed part.
    pub before: Option<usize>,
    /// Whether its default is something else than null: JSON that leaves the field out means that default, so a null
    /// must be written.
    pub has_default: bool,
}

/// A field type with names resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // The variants are those of `FieldType`.
pub enum TypeLayout {
    /// A type of fixed width.
    Scalar(Scalar),
    String,
    Binary,
    /// Index of the enum in the schema, width of an ordinal, number of symbols.
    Enum {
        index: usize,
        width: usize,
        symbols: usize,
    },
    Array(Box<ItemLayout>),
    /// Type ids of the alternatives; the tag, there if there are several, is the index in this list.
    Record(Vec<u16>),
}

/// What an array holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemLayout {
    /// Type of every item.
    pub ty: TypeLayout,
    /// Whether an item may be null.
    pub nullable: bool,
    /// What the interpreter runs for each item.
    pub(super) op: Op,
}

impl Layouts {
    /// Prepares a schema.
    ///
    /// # Errors
    /// When the schema is not valid.
    pub fn new(schema: Schema) -> Result<Self, SchemaError> {
        schema.validate()?;
        let records = schema.records.iter().enumerate();
        let records = records.map(|(id, record)| RecordLayout::new(&schema, id, record)).collect();
        let symbols = schema.enums.iter();
        let symbols =
            symbols.map(|one| one.symbols.iter().map(|(name, _)| Name::of(name)).collect()).collect();
        Ok(Self { schema, records, symbols })
    }

    /// The schema.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The layouts of all record types; the index is the type id.
    pub fn records(&self) -> &[RecordLayout] {
        &self.records
    }

    /// The layout of one record type.
    ///
    /// # Errors
    /// When there is no such type.
    #[inline]
    pub fn record(&self, type_id: u16) -> Result<&RecordLayout, DecodeError> {
        self.records.get(usize::from(type_id)).ok_or_else(|| {
            DecodeError::new(Kind::UnknownType, 0, u64::from(type_id), self.records.len() as u64)
        })
    }

    /// Whether bodies of the two record types, each in its own schema, are the same bytes with the same meaning:
    /// field names and types agree all the way down. Docs, defaults and aliases do not matter.
    pub fn same_layout(&self, type_id: u16, other: &Self, other_id: u16) -> bool {
        let mut seen = Vec::new();
        self.same_record(type_id, other, other_id, &mut seen)
    }

    fn same_record(&self, a: u16, other: &Self, b: u16, seen: &mut Vec<(u16, u16)>) -> bool {
        if seen.contains(&(a, b)) {
            return true;
        }
        seen.push((a, b));
        let (left, right) = (&self.records[usize::from(a)], &other.records[usize::from(b)]);
        left.name == right.name
            && left.fields.len() == right.fields.len()
            && left.fields.iter().zip(&right.fields).all(|(x, y)| {
                x.name == y.name && x.null_bit == y.null_bit && self.same_type(&x.ty, other, &y.ty, seen)
            })
    }

    fn same_type(&self, a: &TypeLayout, other: &Self, b: &TypeLayout, seen: &mut Vec<(u16, u16)>) -> bool {
        match (a, b) {
            (TypeLayout::Enum { index: x, .. }, TypeLayout::Enum { index: y, .. }) => {
                self.schema.enums[*x].symbols == other.schema.enums[*y].symbols
            }
            (TypeLayout::Array(x), TypeLayout::Array(y)) => {
                x.nullable == y.nullable && self.same_type(&x.ty, other, &y.ty, seen)
            }
            (TypeLayout::Record(x), TypeLayout::Record(y)) => {
                x.len() == y.len() && x.iter().zip(y).all(|(x, y)| self.same_record(*x, other, *y, seen))
            }
            (a, b) => a == b,
        }
    }
}

impl RecordLayout {
    fn new(schema: &Schema, type_id: usize, record: &RecordType) -> Self {
        let nullable = record.fields.iter().filter(|field| field.nullable).count();
        let (mut offset, mut last_end, mut nulls) = (nullable.div_ceil(8), None, 0);
        let mut fields = Vec::with_capacity(record.fields.len());
        for field in &record.fields {
            let ty = TypeLayout::new(schema, &field.ty);
            let width = ty.width();
            let null_bit = field.nullable.then_some(nulls);
            nulls += usize::from(field.nullable);
            let before = last_end;
            if ty.is_variable() {
                last_end = Some(offset);
            }
            let has_default = field.default.as_ref().is_some_and(|literal| *literal != Literal::Null);
            fields.push(FieldLayout {
                name: field.name.clone(),
                ty,
                offset,
                width,
                null_bit,
                before,
                has_default,
            });
            offset += width;
        }
        let ops: Vec<Op> = fields.iter().enumerate().map(|(i, field)| Op::of_field(i, field)).collect();
        let mut runs: Vec<usize> = ops.split(|op| op.code.is_variable()).map(<[Op]>::len).collect();
        // The rest after the last variable field.
        runs.pop();
        let tests = Test::of_fields(&ops, offset);
        let is_open =
            last_end.is_none() && tests.as_ref().is_some_and(|tests| tests.iter().all(Test::is_open));
        let name =
            |field: &FieldLayout| FieldName::of(&field.name, field.has_default, field.ty.has_alternatives());
        let names: Vec<_> = fields.iter().map(name).collect();
        Self {
            name: record.name.clone(),
            message: record.message,
            names: Names::of(&record.name, names),
            fields,
            fixed: offset,
            nullable,
            last_end,
            type_id: type_id as u16,
            open: is_open.then(|| bitmap_bits(nullable)),
            tests,
            ops,
            runs,
            unused: unused_bits(nullable),
        }
    }

    /// Whether every body is the fixed part and nothing else.
    #[inline(always)]
    pub(super) fn is_plain(&self) -> bool {
        self.last_end.is_none()
    }

    /// Index of the field of that name.
    pub fn field(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|field| field.name == name)
    }

    /// Length of the body at the front of `rest`.
    ///
    /// # Errors
    /// When `rest` is too short for it.
    #[inline]
    pub fn body_len(&self, rest: &[u8], at: usize) -> Result<usize, DecodeError> {
        if rest.len() < self.fixed {
            return Err(DecodeError::new(Kind::Short, at, self.fixed as u64, rest.len() as u64));
        }
        let Some(last) = self.last_end else { return Ok(self.fixed) };
        let end = end_at(rest, last);
        if end < self.fixed {
            return Err(DecodeError::new(Kind::End, at + last, end as u64, self.fixed as u64));
        }
        if end > rest.len() {
            return Err(DecodeError::new(Kind::Short, at, end as u64, rest.len() as u64));
        }
        Ok(end)
    }
}

impl TypeLayout {
    /// Whether the records in a value, or in the arrays in it, may be of several types.
    fn has_alternatives(&self) -> bool {
        match self {
            Self::Record(types) => types.len() > 1,
            Self::Array(item) => item.ty.has_alternatives(),
            _ => false,
        }
    }

    /// Resolves a type of a valid schema.
    fn new(schema: &Schema, ty: &FieldType) -> Self {
        match ty {
            FieldType::Scalar(scalar) => Self::Scalar(*scalar),
            FieldType::String => Self::String,
            FieldType::Binary => Self::Binary,
            FieldType::Enum(name) => {
                let index = schema.enums.iter().position(|e| e.name == *name).expect("a valid schema");
                let found = &schema.enums[index];
                Self::Enum { index, width: found.width(), symbols: found.symbols.len() }
            }
            FieldType::Array(item) => {
                let ty = Self::new(schema, &item.ty);
                let op = Op::of_item(&ty);
                Self::Array(Box::new(ItemLayout { ty, nullable: item.nullable, op }))
            }
            FieldType::Record(names) => Self::Record(
                names.iter().map(|name| schema.record(name).expect("a valid schema").0).collect(),
            ),
        }
    }

    /// Bytes of the slot.
    pub fn width(&self) -> usize {
        match self {
            Self::Scalar(scalar) => scalar.width(),
            Self::Enum { width, .. } => *width,
            Self::String | Self::Binary | Self::Array(_) | Self::Record(_) => END_WIDTH,
        }
    }

    /// Whether the value lies in the heap.
    #[inline]
    pub fn is_variable(&self) -> bool {
        matches!(self, Self::String | Self::Binary | Self::Array(_) | Self::Record(_))
    }

    /// Bytes of a null array item.
    #[inline]
    pub(crate) fn null_item(&self) -> usize {
        match self {
            Self::Record(_) => crate::array::EMPTY_RECORD_ITEM,
            Self::String | Self::Binary | Self::Array(_) => END_WIDTH,
            _ => self.width(),
        }
    }
}

/// Bits of the first eight bytes of a body that belong to its null bitmap and to no field.
fn unused_bits(nullable: usize) -> u64 {
    let bits = 8 * nullable.div_ceil(8);
    if bits > NEAR { 0 } else { (nullable..bits).map(|bit| 1 << bit).sum() }
}

/// Bits of the first eight bytes of a body that belong to its null bitmap, which is no longer.
fn bitmap_bits(nullable: usize) -> u64 {
    u64::MAX.checked_shr(64 - 8 * nullable.div_ceil(8) as u32).unwrap_or(0)
}

/// The `u32` at `offset` of a body whose fixed part is there.
#[inline]
pub(super) fn end_at(body: &[u8], offset: usize) -> usize {
    match body[offset..].first_chunk::<END_WIDTH>() {
        Some(chunk) => u32::from_le_bytes(*chunk) as usize,
        None => 0,
    }
}

/// Where the item at the front of `rest`, which is no record, has its content: bytes to skip, then bytes of content.
#[inline(always)]
pub(super) fn item_extent(op: &Op, rest: &[u8], at: usize) -> Result<(usize, usize), DecodeError> {
    if op.code.is_variable() {
        let length = crate::layout::load_u32(rest, at)? as usize;
        let have = rest.len() - END_WIDTH;
        if length > have {
            return Err(DecodeError::new(Kind::Short, at + END_WIDTH, length as u64, have as u64));
        }
        return Ok((END_WIDTH, length));
    }
    let width = usize::from(op.width);
    if rest.len() < width {
        return Err(DecodeError::new(Kind::Short, at, width as u64, rest.len() as u64));
    }
    Ok((0, width))
}

/// Finds the records in an array. Neighbours are mostly of one type, so the last one is cached.
#[derive(Clone, Copy)]
pub(super) struct Alternatives<'a> {
    layouts: &'a Layouts,
    types: &'a [u16],
    layout: Option<&'a RecordLayout>,
    tag: u8,
    /// Bits of the first byte that are the tag: all or none.
    tag_mask: u8,
    /// Bytes of each item of that layout, if that is a constant; more than there can be, if not.
    extent: usize,
}

/// A record item.
#[derive(Clone, Copy)]
pub(super) struct Found<'a> {
    pub layout: &'a RecordLayout,
    /// Bytes before the body: the tag, or the zero byte for a record without fields.
    pub skip: usize,
    /// Bytes of the item.
    pub extent: usize,
}

impl<'a> Alternatives<'a> {
    /// Of an array whose items are of this type; none if they are no records.
    #[inline]
    pub fn new(layouts: &'a Layouts, ty: &'a TypeLayout) -> Self {
        let types = if let TypeLayout::Record(types) = ty { types.as_slice() } else { &[] };
        let tag_mask = if types.len() > 1 { 0xff } else { 0 };
        Self { layouts, types, layout: None, tag: 0, tag_mask, extent: usize::MAX }
    }

    /// Whether there is a tag before the body.
    #[inline(always)]
    pub fn tagged(&self) -> bool {
        self.tag_mask != 0
    }

    /// The record item at the front of `rest`.
    #[inline(always)]
    pub fn find(&mut self, rest: &[u8], at: usize) -> Result<Found<'a>, DecodeError> {
        if let Some(layout) = self.layout
            && let Some(tag) = rest.first()
            && (tag ^ self.tag) & self.tag_mask == 0
            && self.extent <= rest.len()
        {
            return Ok(Found { layout, skip: self.extent - layout.fixed, extent: self.extent });
        }
        self.search(rest, at)
    }

    #[inline(never)]
    fn search(&mut self, rest: &[u8], at: usize) -> Result<Found<'a>, DecodeError> {
        let (type_id, tag) = tag_of(self.types, rest, at)?;
        let layout = self.layouts.record(type_id)?;
        let padding = usize::from(tag == 0 && layout.fixed == 0);
        if rest.len() < padding {
            return Err(DecodeError::new(Kind::Short, at, 1, 0));
        }
        let skip = tag + padding;
        self.tag = rest.first().copied().unwrap_or_default();
        self.layout = Some(layout);
        self.extent = if layout.is_plain() { skip + layout.fixed } else { usize::MAX };
        let length = layout.body_len(&rest[skip..], at + skip)?;
        Ok(Found { layout, skip, extent: skip + length })
    }
}

/// Type id of the record whose content begins with `bytes`, and the width of its tag.
#[inline]
pub(super) fn tag_of(types: &[u16], bytes: &[u8], at: usize) -> Result<(u16, usize), DecodeError> {
    if let [only] = types {
        return Ok((*only, 0));
    }
    match bytes.first() {
        Some(&tag) => match types.get(usize::from(tag)) {
            Some(&type_id) => Ok((type_id, 1)),
            None => Err(DecodeError::new(Kind::Tag, at, tag.into(), types.len() as u64)),
        },
        None => Err(DecodeError::new(Kind::Short, at, 1, 0)),
    }
}
