//! Layout of texts and bytes of any length: their content is themselves.

use crate::error::{DecodeError, DecodeErrorKind as Kind};
use crate::layout::{END_WIDTH, Layout};
use crate::schema_of::SchemaBuilder;
use crate::spare::Spare;
use tapedb_schema::FieldType;

/// Bytes of any length, the schema's `binary`. (`Vec<u8>` is `array<u8>`.)
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Binary(pub Vec<u8>);

impl Layout for String {
    const WIDTH: usize = END_WIDTH;
    const VARIABLE: bool = true;
    type Slot = [u8; 0];
    type View<'a> = &'a str;

    fn field_type(_: &mut SchemaBuilder) -> FieldType {
        FieldType::String
    }
    #[inline]
    fn slot(&self) -> [u8; 0] {
        []
    }
    #[inline]
    fn bound(&self) -> usize {
        self.len()
    }
    #[inline]
    fn put<'a>(&self, spare: Spare<'a>) -> Spare<'a> {
        spare.put(self.as_bytes())
    }
    #[inline]
    fn read(&mut self, bytes: &[u8], at: usize, _: u32) -> Result<(), DecodeError> {
        let text = str_of(bytes, at)?;
        self.clear();
        self.push_str(text);
        Ok(())
    }
    #[inline]
    fn check(bytes: &[u8], at: usize, _: u32) -> Result<(), DecodeError> {
        str_of(bytes, at).map(|_| ())
    }
    #[inline]
    fn view(bytes: &[u8]) -> &str {
        str::from_utf8(bytes).unwrap_or_default()
    }
}

impl Layout for Binary {
    const WIDTH: usize = END_WIDTH;
    const VARIABLE: bool = true;
    type Slot = [u8; 0];
    type View<'a> = &'a [u8];

    fn field_type(_: &mut SchemaBuilder) -> FieldType {
        FieldType::Binary
    }
    #[inline]
    fn slot(&self) -> [u8; 0] {
        []
    }
    #[inline]
    fn bound(&self) -> usize {
        self.0.len()
    }
    #[inline]
    fn put<'a>(&self, spare: Spare<'a>) -> Spare<'a> {
        spare.put(&self.0)
    }
    #[inline]
    fn read(&mut self, bytes: &[u8], _: usize, _: u32) -> Result<(), DecodeError> {
        self.0.clear();
        self.0.extend_from_slice(bytes);
        Ok(())
    }
    #[inline]
    fn check(_: &[u8], _: usize, _: u32) -> Result<(), DecodeError> {
        Ok(())
    }
    #[inline]
    fn view(bytes: &[u8]) -> &[u8] {
        bytes
    }
}

/// The text in `bytes`.
#[inline]
pub(crate) fn str_of(bytes: &[u8], at: usize) -> Result<&str, DecodeError> {
    str::from_utf8(bytes)
        .map_err(|e| DecodeError::new(Kind::Utf8, at, bytes.len() as u64, e.valid_up_to() as u64))
}

impl<T: Layout> Layout for Box<T> {
    const WIDTH: usize = T::WIDTH;
    const VARIABLE: bool = T::VARIABLE;
    const NULL_ITEM: usize = T::NULL_ITEM;
    const ITEM_MIN: usize = T::ITEM_MIN;
    const ITEM_MAX: usize = T::ITEM_MAX;
    type Slot = T::Slot;
    type View<'a> = T::View<'a>;

    fn field_type(schema: &mut SchemaBuilder) -> FieldType {
        T::field_type(schema)
    }
    #[inline]
    fn slot(&self) -> T::Slot {
        (**self).slot()
    }
    #[inline]
    fn bound(&self) -> usize {
        (**self).bound()
    }
    #[inline]
    fn put<'a>(&self, spare: Spare<'a>) -> Spare<'a> {
        (**self).put(spare)
    }
    #[inline]
    fn read(&mut self, bytes: &[u8], at: usize, depth: u32) -> Result<(), DecodeError> {
        (**self).read(bytes, at, depth)
    }
    #[inline]
    fn check(bytes: &[u8], at: usize, depth: u32) -> Result<(), DecodeError> {
        T::check(bytes, at, depth)
    }
    #[inline]
    fn view(bytes: &[u8]) -> T::View<'_> {
        T::view(bytes)
    }
    #[inline]
    fn item_bound(&self) -> usize {
        (**self).item_bound()
    }
    #[inline]
    fn put_item<'a>(&self, spare: Spare<'a>) -> Spare<'a> {
        (**self).put_item(spare)
    }
    #[inline]
    fn item_extent(rest: &[u8], at: usize) -> Result<(usize, usize), DecodeError> {
        T::item_extent(rest, at)
    }
}
