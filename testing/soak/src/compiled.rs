//! Compiled record types behind plain functions, to be compared with the interpreter.
//!
//! What a view of either codec reads is condensed into a [`Digest`]: every scalar, the length of every array, the name
//! and the length of every record.

use std::hash::Hasher;
use tapedb_codec::dynamic::{RecordRef, ValueRef};
use tapedb_codec::{ArrayView, DecodeError, Field, Layout, SchemaBuilder, decode_into, encode, view};
use tapedb_schema::Schema;

pub(crate) use tapedb_codec::{Binary, Enumeration, Record, Union};
pub(crate) use tapedb_schema::{Ascii, Decimal64, Fixed, TimeOfDay, Timestamp};

/// Decodes the first bytes, the second ones over them, and appends the encoding of the result.
pub type Again = fn(&[u8], &[u8], &mut Vec<u8>) -> Result<(), DecodeError>;

/// What one compiled record type does with bytes.
#[derive(Debug, Clone, Copy)]
pub struct Codec {
    /// The schema that its Rust type stands for.
    pub schema: fn() -> Schema,
    /// Its name in the schema.
    pub name: &'static str,
    /// Decodes and encodes again.
    pub again: Again,
    /// Validates the bytes and condenses what the view reads.
    pub view: fn(&[u8]) -> Result<u64, DecodeError>,
}

/// The codec of `T`.
pub(crate) const fn codec<T: Record>() -> Codec
where
    for<'a> T::View<'a>: Look,
{
    Codec {
        schema: || SchemaBuilder::new().with::<T>().finish(),
        name: T::NAME,
        again: again::<T>,
        view: seen::<T>,
    }
}

/// What is left of the first value, also where its bytes are wrong half-way, must not show in the second.
fn again<T: Record>(before: &[u8], body: &[u8], out: &mut Vec<u8>) -> Result<(), DecodeError> {
    let mut value = T::default();
    let _ = read(before, &mut value);
    read(body, &mut value)?;
    encode(&value, out);
    Ok(())
}

/// Compiled once for both uses.
#[inline(never)]
fn read<T: Record>(body: &[u8], value: &mut T) -> Result<(), DecodeError> {
    decode_into(body, value)
}

fn seen<T: Record>(body: &[u8]) -> Result<u64, DecodeError>
where
    for<'a> T::View<'a>: Look,
{
    let mut digest = Digest::default();
    view::<T>(body)?.look(&mut digest);
    Ok(digest.finish())
}

/// What the interpreter's view of a record reads.
pub fn digest(record: RecordRef<'_>) -> u64 {
    let mut digest = Digest::default();
    record.look(&mut digest);
    digest.finish()
}

/// Condenses what was read. Not for secrets: quick, and every word changes the whole.
#[derive(Debug, Default)]
pub struct Digest(u64);

impl Hasher for Digest {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0xD134_2543_DE82_EF95);
    }

    fn write(&mut self, bytes: &[u8]) {
        self.write_u64(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }
}

/// What a null leaves in the digest.
const NULL: u64 = 0x6E75_6C6C;

/// Something that a view reads.
pub(crate) trait Look {
    /// Adds it to the digest.
    fn look(&self, digest: &mut Digest);
}

macro_rules! look {
    ($($type:ty: |$value:ident| $word:expr),* $(,)?) => {
        $(impl Look for $type {
            fn look(&self, digest: &mut Digest) {
                let $value = self;
                digest.write_u64($word);
            }
        })*
    };
}

look! {
    bool: |x| u64::from(*x),
    i8: |x| i64::from(*x) as u64,
    i16: |x| i64::from(*x) as u64,
    i32: |x| i64::from(*x) as u64,
    i64: |x| *x as u64,
    u8: |x| u64::from(*x),
    u16: |x| u64::from(*x),
    u32: |x| u64::from(*x),
    u64: |x| *x,
    f32: |x| u64::from(x.to_bits()),
    f64: |x| x.to_bits(),
    Decimal64: |x| x.to_bits(),
    Timestamp: |x| x.0 as u64,
    TimeOfDay: |x| x.nanos() as u64,
    char: |x| u64::from(u32::from(*x)),
}

impl<const S: u8> Look for Fixed<S> {
    fn look(&self, digest: &mut Digest) {
        (self.0, S).look(digest);
    }
}

/// Units and scale.
impl Look for (i64, u8) {
    fn look(&self, digest: &mut Digest) {
        digest.write_u64(self.0 as u64);
        digest.write_u64(self.1.into());
    }
}

impl<const N: usize> Look for Ascii<N> {
    fn look(&self, digest: &mut Digest) {
        self.as_str().look(digest);
    }
}

impl Look for &str {
    fn look(&self, digest: &mut Digest) {
        digest.write(self.as_bytes());
    }
}

impl Look for &[u8] {
    fn look(&self, digest: &mut Digest) {
        digest.write(self);
    }
}

impl<T: Look> Look for Option<T> {
    fn look(&self, digest: &mut Digest) {
        match self {
            Some(value) => value.look(digest),
            None => digest.write_u64(NULL),
        }
    }
}

impl<'a, T: Field> Look for ArrayView<'a, T>
where
    T::View<'a>: Look,
{
    fn look(&self, digest: &mut Digest) {
        digest.write_u64(self.len() as u64);
        self.iter().for_each(|item| item.look(digest));
    }
}

/// The front of every record.
pub(crate) fn look_record(name: &str, body: &[u8], digest: &mut Digest) {
    name.look(digest);
    digest.write_u64(body.len() as u64);
}

impl Look for RecordRef<'_> {
    fn look(&self, digest: &mut Digest) {
        look_record(&self.layout().name, self.as_bytes(), digest);
        self.values().for_each(|value| value.look(digest));
    }
}

impl Look for ValueRef<'_> {
    fn look(&self, digest: &mut Digest) {
        match self {
            Self::Null => digest.write_u64(NULL),
            Self::Bool(x) => x.look(digest),
            Self::Int(x) => x.look(digest),
            Self::UInt(x) => x.look(digest),
            Self::F32(x) => x.look(digest),
            Self::F64(x) => x.look(digest),
            Self::Decimal(x) => x.look(digest),
            Self::Scaled(x, scale) => (*x, *scale).look(digest),
            Self::Timestamp(x) => x.look(digest),
            Self::TimeOfDay(x) => x.look(digest),
            Self::Char(x) => x.look(digest),
            Self::Ascii(x) => x.as_str().look(digest),
            Self::Text(x) => x.look(digest),
            Self::Binary(x) => x.look(digest),
            Self::Enum(x) => x.ordinal().look(digest),
            Self::Array(array) => {
                digest.write_u64(array.len() as u64);
                array.iter().for_each(|item| item.look(digest));
            }
            Self::Record(record) => record.look(digest),
        }
    }
}

/// The ordinal of an enum's value.
pub(crate) fn ordinal<E: Layout>(value: &E) -> u16 {
    let mut slot = [0; 2];
    value.store(&mut slot[..E::WIDTH]);
    u16::from_le_bytes(slot)
}

/// An enum of the generated types; the first symbol is its default.
macro_rules! enumeration {
    ($enum:ident $name:tt { $first:ident = $number:expr $(, $symbol:ident = $value:expr)* }) => {
        #[derive(Enumeration, Clone, Copy, Default, Debug)]
        #[record(name = $name)]
        #[allow(non_camel_case_types)]
        pub enum $enum {
            #[default]
            $first = $number,
            $($symbol = $value,)*
        }

        impl Look for $enum {
            fn look(&self, digest: &mut Digest) {
                ordinal(self).look(digest);
            }
        }
    };
}

/// A record type of the generated types, and its view.
macro_rules! record {
    (message $record:ident $view:ident $name:tt { $($field:ident: $type:ty),* }) => {
        record!(#[record(message)] $record $view $name { $($field: $type),* });
    };
    ($(#[$message:meta])? $record:ident $view:ident $name:tt { $($field:ident: $type:ty),* }) => {
        #[derive(Record, Default)]
        $(#[$message])?
        #[record(name = $name)]
        pub struct $record {
            $($field: $type,)*
        }

        impl Look for $view<'_> {
            fn look(&self, digest: &mut Digest) {
                look_record($name, self.as_bytes(), digest);
                $(self.$field().look(digest);)*
            }
        }
    };
}

/// A union of the generated types, and its view.
macro_rules! union {
    ($union:ident $view:ident { $first:ident $(, $record:ident)* }) => {
        #[derive(Union)]
        #[allow(clippy::large_enum_variant)]
        pub enum $union {
            $first($first),
            $($record($record),)*
        }

        impl Default for $union {
            fn default() -> Self {
                Self::$first(Default::default())
            }
        }

        impl Look for $view<'_> {
            fn look(&self, digest: &mut Digest) {
                match self {
                    Self::$first(record) => record.look(digest),
                    $(Self::$record(record) => record.look(digest),)*
                }
            }
        }
    };
}

pub(crate) use {enumeration, record, union};
