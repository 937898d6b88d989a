//! Layout of arrays: a `u32` count, a null bitmap if items may be null, then the items back to back.
//!
//! Every item takes at least one byte, so a count never exceeds the bytes after it, and a hostile one allocates no more
//! than those bytes could hold.

use crate::error::{DecodeError, DecodeErrorKind as Kind};
use crate::layout::{END_WIDTH, Field, Layout, MAX_DEPTH, load_u32};
use crate::schema_of::SchemaBuilder;
use crate::spare::Spare;
use std::marker::PhantomData;
use tapedb_schema::{ElementType, FieldType};

/// Bytes of the count in front of an array.
pub(crate) const COUNT_WIDTH: usize = 4;

impl<T: Field> Layout for Vec<T> {
    const WIDTH: usize = END_WIDTH;
    const VARIABLE: bool = true;
    type Slot = [u8; 0];
    type View<'a> = ArrayView<'a, T>;

    fn field_type(schema: &mut SchemaBuilder) -> FieldType {
        let ty = T::Type::field_type(schema);
        FieldType::Array(Box::new(ElementType { ty, nullable: T::NULLABLE }))
    }

    #[inline]
    fn slot(&self) -> [u8; 0] {
        []
    }

    #[inline]
    fn bound(&self) -> usize {
        let front = COUNT_WIDTH + if T::NULLABLE { self.len().div_ceil(8) } else { 0 };
        if T::Type::ITEM_MAX < usize::MAX {
            return front + self.len() * T::Type::ITEM_MAX;
        }
        self.iter().fold(front, |sum, item| sum + item.get().map_or(T::Type::NULL_ITEM, Layout::item_bound))
    }

    #[inline]
    fn put<'a>(&self, spare: Spare<'a>) -> Spare<'a> {
        let (count, mut spare) = spare.take::<COUNT_WIDTH>();
        *count = (self.len() as u32).to_le_bytes();
        if T::NULLABLE {
            spare = put_null_bits(self, spare);
        }
        if T::Type::VARIABLE {
            for item in self {
                spare = match item.get() {
                    Some(value) => value.put_item(spare),
                    None => spare.zeroed(T::Type::NULL_ITEM).1,
                };
            }
            return spare;
        }
        let (slots, spare) = spare.zeroed(self.len() * T::Type::WIDTH);
        for (item, slot) in self.iter().zip(slots.chunks_exact_mut(T::Type::WIDTH)) {
            if let Some(value) = item.get() {
                value.store(slot);
            }
        }
        spare
    }

    #[inline]
    fn read(&mut self, bytes: &[u8], at: usize, depth: u32) -> Result<(), DecodeError> {
        let header = Header::parse(bytes, at, T::NULLABLE, depth)?;
        // At most as many as the bytes can hold, plus one, which then reports the error. A reused vector has its old items,
        // so that their allocations are reused.
        let most = if T::NULLABLE { header.count } else { bytes.len() / T::Type::ITEM_MIN + 1 };
        self.resize_with(header.count.min(most), T::default);
        let mut rest = &bytes[header.items..];
        for (i, item) in self.iter_mut().enumerate() {
            let here = at + bytes.len() - rest.len();
            let length = if T::NULLABLE && header.is_null(bytes, i) {
                item.set_null();
                null_item(rest, here, T::Type::NULL_ITEM)?
            } else {
                item.slot().read_item(rest, here, depth + 1)?
            };
            rest = &rest[length..];
        }
        no_trailing(bytes, bytes.len() - rest.len(), at)
    }

    fn check(bytes: &[u8], at: usize, depth: u32) -> Result<(), DecodeError> {
        let header = Header::parse(bytes, at, T::NULLABLE, depth)?;
        if T::NULLABLE {
            header.check_unused_bits(bytes, at)?;
        }
        let mut rest = &bytes[header.items..];
        for i in 0..header.count {
            let here = at + bytes.len() - rest.len();
            let length = if T::NULLABLE && header.is_null(bytes, i) {
                let length = null_item(rest, here, T::Type::NULL_ITEM)?;
                check_zero(&rest[..length], here)?;
                length
            } else {
                T::Type::check_item(rest, here, depth + 1)?
            };
            rest = &rest[length..];
        }
        no_trailing(bytes, bytes.len() - rest.len(), at)
    }

    #[inline]
    fn view(bytes: &[u8]) -> ArrayView<'_, T> {
        ArrayView { bytes, header: Header::known(bytes, T::NULLABLE), item: PhantomData }
    }
}

/// The front of an array's content.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header {
    /// Number of items.
    pub count: usize,
    /// Where the items begin in the content.
    pub items: usize,
}

impl Header {
    #[inline]
    pub fn parse(bytes: &[u8], at: usize, nullable: bool, depth: u32) -> Result<Self, DecodeError> {
        if depth >= MAX_DEPTH {
            return Err(DecodeError::new(Kind::Depth, at, depth.into(), MAX_DEPTH.into()));
        }
        let count = load_u32(bytes, at)? as usize;
        let bitmap = if nullable { count.div_ceil(8) } else { 0 };
        // Every item takes a byte or more.
        if count + bitmap > bytes.len() - COUNT_WIDTH {
            return Err(DecodeError::new(Kind::Count, at, count as u64, (bytes.len() - COUNT_WIDTH) as u64));
        }
        Ok(Self { count, items: COUNT_WIDTH + bitmap })
    }

    /// The header of an array that was validated.
    #[inline]
    pub fn known(bytes: &[u8], nullable: bool) -> Self {
        let count = bytes.first_chunk().map_or(0, |count| u32::from_le_bytes(*count)) as usize;
        Self { count, items: COUNT_WIDTH + if nullable { count.div_ceil(8) } else { 0 } }
    }

    #[inline]
    pub fn is_null(self, bytes: &[u8], item: usize) -> bool {
        bytes[COUNT_WIDTH + item / 8] >> (item % 8) & 1 == 1
    }

    /// Bits of the bitmap after the last item are zero.
    pub fn check_unused_bits(self, bytes: &[u8], at: usize) -> Result<(), DecodeError> {
        if !self.count.is_multiple_of(8) && bytes[self.items - 1] >> (self.count % 8) != 0 {
            return Err(DecodeError::new(
                Kind::NullSlot,
                at + self.items - 1,
                bytes[self.items - 1].into(),
                0,
            ));
        }
        Ok(())
    }
}

/// Length of a null item, which must be there.
#[inline]
pub(crate) fn null_item(rest: &[u8], at: usize, length: usize) -> Result<usize, DecodeError> {
    if rest.len() < length {
        return Err(DecodeError::new(Kind::Short, at, length as u64, rest.len() as u64));
    }
    Ok(length)
}

/// A null's bytes are zero.
#[inline(always)]
pub(crate) fn check_zero(bytes: &[u8], at: usize) -> Result<(), DecodeError> {
    if bytes.iter().fold(0, |any, byte| any | byte) == 0 { Ok(()) } else { Err(first_not_zero(bytes, at)) }
}

#[cold]
fn first_not_zero(bytes: &[u8], at: usize) -> DecodeError {
    let i = bytes.iter().position(|&byte| byte != 0).unwrap_or_default();
    DecodeError::new(Kind::NullSlot, at + i, bytes[i].into(), 0)
}

/// The byte for a record without fields is zero; a length before an item is not padding.
#[inline]
pub(crate) fn check_zero_padding(skipped: &[u8], skip: usize, at: usize) -> Result<(), DecodeError> {
    if skip == EMPTY_RECORD_ITEM { check_zero(skipped, at) } else { Ok(()) }
}

/// Bytes of a record without fields as an array item.
pub const EMPTY_RECORD_ITEM: usize = 1;

/// Nothing may follow the last value.
#[inline]
pub(crate) fn no_trailing(bytes: &[u8], position: usize, at: usize) -> Result<(), DecodeError> {
    if position == bytes.len() {
        return Ok(());
    }
    let left = (bytes.len() - position) as u64;
    Err(DecodeError::new(Kind::Trailing, at + position, position as u64, left))
}

/// Puts the null bitmap of `items`: bit `i`, lowest first, is 1 where item `i` is null.
fn put_null_bits<'a, T: Field>(items: &[T], spare: Spare<'a>) -> Spare<'a> {
    let (bits, spare) = spare.zeroed(items.len().div_ceil(8));
    for (group, bits) in items.chunks(8).zip(bits) {
        let is_null = |(i, item): (usize, &T)| u8::from(item.get().is_none()) << i;
        *bits = group.iter().enumerate().map(is_null).sum();
    }
    spare
}

/// An array read in place.
#[derive(Debug)]
pub struct ArrayView<'a, T> {
    bytes: &'a [u8],
    header: Header,
    item: PhantomData<fn() -> T>,
}

impl<T> Clone for ArrayView<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for ArrayView<'_, T> {}

impl<'a, T: Field> ArrayView<'a, T> {
    /// Number of items.
    #[inline]
    pub fn len(&self) -> usize {
        self.header.count
    }

    /// Whether there are no items.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.header.count == 0
    }

    /// The items in order.
    #[inline]
    pub fn iter(&self) -> ArrayIter<'a, T> {
        ArrayIter { array: *self, next: 0, rest: self.bytes.get(self.header.items..).unwrap_or_default() }
    }
}

impl<'a, T: Field> IntoIterator for ArrayView<'a, T> {
    type Item = T::View<'a>;
    type IntoIter = ArrayIter<'a, T>;

    #[inline]
    fn into_iter(self) -> ArrayIter<'a, T> {
        self.iter()
    }
}

/// The items of an [`ArrayView`] in order.
#[derive(Debug, Clone)]
pub struct ArrayIter<'a, T> {
    array: ArrayView<'a, T>,
    next: usize,
    /// The bytes from the next item on.
    rest: &'a [u8],
}

impl<'a, T: Field> Iterator for ArrayIter<'a, T> {
    type Item = T::View<'a>;

    #[inline]
    fn next(&mut self) -> Option<T::View<'a>> {
        let ArrayView { bytes, header, .. } = self.array;
        // Where the items end, so do the bytes: an item takes one at least.
        if self.rest.is_empty() {
            return None;
        }
        let item = self.next;
        self.next += 1;
        let (view, length) = if T::NULLABLE && header.is_null(bytes, item) {
            (T::view(None), T::Type::NULL_ITEM)
        } else {
            let (view, length) = T::Type::view_item(self.rest)?;
            (T::present(view), length)
        };
        self.rest = self.rest.get(length..)?;
        Some(view)
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.array.header.count.saturating_sub(self.next);
        (left, Some(left))
    }
}
