//! The contract between a Rust type and the row layout of `docs/format/message.md`.
//!
//! [`Layout`] is implemented by everything that can be the type of a field: scalars, texts, arrays, records, unions.
//! [`Field`] adds nullability: `T` and `Option<T>`. [`Record`] is what `#[derive(Record)]` makes of a struct.
//!
//! A value has a *slot* in its record's fixed part. A fixed-width value lies in its slot; a variable one has its
//! *content* in the heap after the fixed part and its end in a four-byte slot. `bytes` below is the slot of a
//! fixed-width value and the content of a variable one; `at` is the offset of `bytes` in the message, for errors.

use crate::array::check_zero_padding;
use crate::error::{DecodeError, DecodeErrorKind as Kind};
use crate::schema_of::SchemaBuilder;
use crate::spare::{Spare, append};
use std::mem::MaybeUninit;
use tapedb_schema::FieldType;

/// Deepest nesting of records and arrays in one message.
pub const MAX_DEPTH: u32 = 32;

/// Width of a variable-length field's slot: the `u32` end of its content, counted from the start of the body.
pub const END_WIDTH: usize = 4;

/// Longest body, in bytes. No count, length or end in it is greater, so that all of them are exact as `u32`.
pub(crate) const BODY_BYTES_MAX: usize = u32::MAX as usize;

/// How a Rust type lies in a row.
pub trait Layout: Sized + Default {
    /// Bytes of the slot.
    const WIDTH: usize;
    /// Whether the value lies in the heap.
    const VARIABLE: bool = false;
    /// Bytes of a null array item of this type.
    const NULL_ITEM: usize = Self::WIDTH;
    /// Fewest bytes of an array item.
    const ITEM_MIN: usize = Self::WIDTH;
    /// Most bytes of an array item; `usize::MAX` where values differ in length.
    const ITEM_MAX: usize = if Self::VARIABLE { usize::MAX } else { Self::WIDTH };
    /// The slot of a fixed-width value, `[u8; WIDTH]`; `[u8; 0]` for variable types.
    type Slot: AsRef<[u8]>;
    /// What reading in place yields.
    type View<'a>;

    /// The schema's type for this Rust type; registers the records and enums it uses.
    fn field_type(schema: &mut SchemaBuilder) -> FieldType;

    /// Fills the slot of a fixed-width value; `slot` has [`Self::WIDTH`] bytes. Variable types do nothing here.
    #[inline(always)]
    fn store(&self, slot: &mut [u8]) {
        if !Self::VARIABLE {
            slot.copy_from_slice(self.slot().as_ref());
        }
    }

    /// The slot of a fixed-width value.
    fn slot(&self) -> Self::Slot;

    /// Most bytes that [`Layout::put`] takes.
    #[inline(always)]
    fn bound(&self) -> usize {
        0
    }

    /// Puts the content of a variable value into `spare`, which has at least [`Layout::bound`] bytes. Fixed-width types
    /// have none.
    #[inline(always)]
    fn put<'a>(&self, spare: Spare<'a>) -> Spare<'a> {
        spare
    }

    /// Replaces `self` by the value in `bytes`, reusing what it has allocated.
    ///
    /// # Errors
    /// The first place where `bytes` is not such a value.
    fn read(&mut self, bytes: &[u8], at: usize, depth: u32) -> Result<(), DecodeError>;

    /// Validates `bytes` wholly: what passes can be viewed, read, and is what encoding would have written.
    ///
    /// # Errors
    /// The first place where `bytes` is not canonical.
    fn check(bytes: &[u8], at: usize, depth: u32) -> Result<(), DecodeError>;

    /// The value in place. `bytes` has passed [`Layout::check`]; on other bytes this may panic or return wrong values, never worse.
    fn view(bytes: &[u8]) -> Self::View<'_>;

    /// Most bytes that [`Layout::put_item`] takes.
    #[inline(always)]
    fn item_bound(&self) -> usize {
        if Self::VARIABLE { END_WIDTH + self.bound() } else { Self::WIDTH }
    }

    /// Puts the value into `spare` as an array item.
    #[inline]
    fn put_item<'a>(&self, spare: Spare<'a>) -> Spare<'a> {
        if Self::VARIABLE {
            let (length, spare) = spare.take::<END_WIDTH>();
            let before = spare.left();
            let spare = self.put(spare);
            *length = ((before - spare.left()) as u32).to_le_bytes();
            spare
        } else {
            let (slot, spare) = spare.zeroed(Self::WIDTH);
            self.store(slot);
            spare
        }
    }

    /// Where the item at the front of `rest` has its content: bytes to skip, then bytes of content.
    ///
    /// # Errors
    /// When `rest` is too short for it.
    #[inline]
    fn item_extent(rest: &[u8], at: usize) -> Result<(usize, usize), DecodeError> {
        if Self::VARIABLE {
            let length = load_u32(rest, at)? as usize;
            let have = rest.len() - END_WIDTH;
            if length > have {
                return Err(DecodeError::new(Kind::Short, at + END_WIDTH, length as u64, have as u64));
            }
            Ok((END_WIDTH, length))
        } else if rest.len() < Self::WIDTH {
            Err(DecodeError::new(Kind::Short, at, Self::WIDTH as u64, rest.len() as u64))
        } else {
            Ok((0, Self::WIDTH))
        }
    }

    /// Reads the item at the front of `rest`; returns its bytes.
    ///
    /// # Errors
    /// As [`Layout::read`].
    #[inline]
    fn read_item(&mut self, rest: &[u8], at: usize, depth: u32) -> Result<usize, DecodeError> {
        let (skip, length) = Self::item_extent(rest, at)?;
        self.read(&rest[skip..skip + length], at + skip, depth)?;
        Ok(skip + length)
    }

    /// Validates the item at the front of `rest`; returns its bytes.
    ///
    /// # Errors
    /// As [`Layout::check`].
    #[inline]
    fn check_item(rest: &[u8], at: usize, depth: u32) -> Result<usize, DecodeError> {
        let (skip, length) = Self::item_extent(rest, at)?;
        check_zero_padding(&rest[..skip], skip, at)?;
        Self::check(&rest[skip..skip + length], at + skip, depth)?;
        Ok(skip + length)
    }

    /// The item at the front of `rest` in place, and how many bytes it takes; `None` only if it was not validated.
    #[inline]
    fn view_item(rest: &[u8]) -> Option<(Self::View<'_>, usize)> {
        let (skip, length) = Self::item_extent(rest, 0).ok()?;
        Some((Self::view(&rest[skip..skip + length]), skip + length))
    }
}

/// A field of a record, or an item of an array: a [`Layout`], or an `Option` of one, which is nullable.
pub trait Field: Default {
    /// The type without its nullability.
    type Type: Layout;
    /// What reading in place yields: a view, or an `Option` of one.
    type View<'a>;
    /// Whether null is a value of this field.
    const NULLABLE: bool;

    /// The value, `None` for null.
    fn get(&self) -> Option<&Self::Type>;
    /// The value to be overwritten; a null becomes a default first.
    fn slot(&mut self) -> &mut Self::Type;
    /// Makes it null, where it can be.
    fn set_null(&mut self);
    /// The value in place; `None` for null.
    fn view(bytes: Option<&[u8]>) -> Self::View<'_>;
    /// The view of a value that is not null.
    fn present<'a>(view: <Self::Type as Layout>::View<'a>) -> Self::View<'a>;
}

impl<T: Layout> Field for T {
    type Type = T;
    type View<'a> = T::View<'a>;
    const NULLABLE: bool = false;

    #[inline(always)]
    fn get(&self) -> Option<&T> {
        Some(self)
    }
    #[inline(always)]
    fn slot(&mut self) -> &mut T {
        self
    }
    #[inline(always)]
    fn set_null(&mut self) {}
    #[inline(always)]
    fn view(bytes: Option<&[u8]>) -> T::View<'_> {
        T::view(bytes.unwrap_or_default())
    }
    #[inline(always)]
    fn present<'a>(view: T::View<'a>) -> T::View<'a> {
        view
    }
}

impl<T: Layout> Field for Option<T> {
    type Type = T;
    type View<'a> = Option<T::View<'a>>;
    const NULLABLE: bool = true;

    #[inline(always)]
    fn get(&self) -> Option<&T> {
        self.as_ref()
    }
    #[inline(always)]
    fn slot(&mut self) -> &mut T {
        self.get_or_insert_with(T::default)
    }
    #[inline(always)]
    fn set_null(&mut self) {
        *self = None;
    }
    #[inline(always)]
    fn view(bytes: Option<&[u8]>) -> Option<T::View<'_>> {
        bytes.map(T::view)
    }
    #[inline(always)]
    fn present<'a>(view: T::View<'a>) -> Option<T::View<'a>> {
        Some(view)
    }
}

/// A struct that is a record type; made by `#[derive(Record)]`.
///
/// As a [`Layout`] its content is its body: the fixed part, then the heap.
pub trait Record: Layout {
    /// Name of the record type in the schema.
    const NAME: &'static str;
    /// Whether it can stand alone as a message.
    const MESSAGE: bool;
    /// Bytes of the fixed part, null bitmap included.
    const FIXED: usize;
    /// Offset of each field's slot in the fixed part, in field order.
    ///
    /// ```
    /// use tapedb_codec::Record;
    ///
    /// #[derive(Record, Default)]
    /// struct Quote { bid: f64, size: Option<u32>, venue: String }
    ///
    /// // The null bitmap takes the first byte. A change of the layout does not compile.
    /// const _: () = assert!(Quote::FIXED == 17 && matches!(Quote::OFFSETS, [1, 9, 13]));
    /// ```
    const OFFSETS: &'static [usize];

    /// Registers the record type and the types it uses; returns its type id.
    fn register(schema: &mut SchemaBuilder) -> u16;

    /// Puts `tag` and then the body into `spare`: the record as one of several alternatives.
    fn put_tagged<'a>(&self, tag: u8, spare: Spare<'a>) -> Spare<'a>;

    /// Length of the body at the front of `rest`.
    ///
    /// # Errors
    /// When `rest` is too short for it.
    fn body_len(rest: &[u8], at: usize) -> Result<usize, DecodeError>;
}

/// The `u32` at the front of `bytes`.
#[inline]
pub(crate) fn load_u32(bytes: &[u8], at: usize) -> Result<u32, DecodeError> {
    match bytes.first_chunk::<4>() {
        Some(chunk) => Ok(u32::from_le_bytes(*chunk)),
        None => Err(DecodeError::new(Kind::Short, at, 4, bytes.len() as u64)),
    }
}

/// Appends the body of `value` to `body`.
///
/// Nesting is not counted here: what is nested deeper than [`MAX_DEPTH`] is written, and then refused by all that read
/// it. The engine's loader refuses it before it is stored.
///
/// ```
/// use tapedb_codec::{Record, decode, encode};
///
/// #[derive(Record, Default, Debug, PartialEq)]
/// #[record(message)]
/// struct Tick { bid: f64, ask: Option<f64>, note: String }
///
/// let tick = Tick { bid: 1.25, ask: None, note: "first".into() };
/// let mut body = Vec::new();
/// encode(&tick, &mut body);
/// assert_eq!(decode::<Tick>(&body)?, tick);
/// # Ok::<(), tapedb_codec::DecodeError>(())
/// ```
///
/// # Panics
/// When the body may take 4 GiB or more, counted by [`Layout::bound`]: its ends are `u32`.
#[inline]
pub fn encode<T: Record>(value: &T, body: &mut Vec<u8>) {
    let bound = value.bound();
    if bound > BODY_BYTES_MAX {
        too_long(bound);
    }
    append(body, bound, |spare| value.put(spare));
}

/// Writes the body of `value` to the front of `spare`, which has at least [`Layout::bound`] bytes; returns how many it
/// took: those are initialised then. Nesting is not counted, as in [`encode`].
///
/// # Panics
/// When the spare capacity is smaller than the bound.
#[inline]
pub fn encode_into<T: Record>(value: &T, spare: &mut [MaybeUninit<u8>]) -> usize {
    assert!(spare.len() >= value.bound(), "the spare capacity is smaller than the bound");
    let before = spare.len();
    before - value.put(Spare::new(spare)).left()
}

#[cold]
#[inline(never)]
fn too_long(bytes: usize) -> ! {
    panic!("a body of {bytes} bytes is over the layout's {BODY_BYTES_MAX}; split the message")
}

/// The record whose body is `body`, as a new value.
///
/// # Errors
/// The first place where the bytes are not a `T`.
#[inline]
pub fn decode<T: Record>(body: &[u8]) -> Result<T, DecodeError> {
    let mut value = T::default();
    value.read(body, 0, 0)?;
    Ok(value)
}

/// Replaces `value` by the record whose body is `body`, reusing the allocations of `value`.
///
/// # Errors
/// As [`decode`]; `value` then holds a mixture, valid but meaningless.
#[inline]
pub fn decode_into<T: Record>(body: &[u8], value: &mut T) -> Result<(), DecodeError> {
    value.read(body, 0, 0)
}

/// Validates `body` and gives a view that reads fields in place: no copy, no allocation, no later failure.
///
/// # Errors
/// The first place where the bytes are not what encoding a `T` would have written.
#[inline]
pub fn view<T: Record>(body: &[u8]) -> Result<T::View<'_>, DecodeError> {
    T::check(body, 0, 0)?;
    Ok(T::view(body))
}

/// A view of a valid body: encoded by this process, or validated before.
///
/// On other bytes the view's accessors may panic or give wrong values; memory stays safe. Where in doubt: [`view`].
#[inline]
pub fn view_trusted<T: Record>(body: &[u8]) -> T::View<'_> {
    T::view(body)
}
