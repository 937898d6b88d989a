//! Layout of the fixed-width types: little-endian, packed, read and written in place.

use crate::error::{DecodeError, DecodeErrorKind as Kind};
use crate::layout::Layout;
use crate::schema_of::SchemaBuilder;
use tapedb_schema::{Ascii, Decimal64, FieldType, Fixed, Scalar, TimeOfDay, Timestamp, is_valid_ascii};

/// The slot as an array. Slots come with their exact width, so only hostile or truncated bytes take the error path.
#[inline(always)]
fn chunk<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], DecodeError> {
    match bytes.first_chunk::<N>() {
        Some(chunk) => Ok(*chunk),
        None => Err(DecodeError::new(Kind::Short, at, N as u64, bytes.len() as u64)),
    }
}

/// [`chunk`] of bytes that are there.
#[inline(always)]
fn known<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.first_chunk::<N>().copied().unwrap_or([0; N])
}

/// Implements [`Layout`] for a fixed-width type: its schema type, its width, to bytes, from bytes, and the test that
/// of canonical bytes.
macro_rules! fixed_width {
    ($type:ty, $width:expr, $scalar:ident, |$value:ident| $to:expr, |$raw:ident, $at:ident| $from:expr, |$checked:ident, $check_at:ident| $check:expr) => {
        impl Layout for $type {
            const WIDTH: usize = $width;
            type Slot = [u8; $width];
            type View<'a> = $type;

            fn field_type(_: &mut SchemaBuilder) -> FieldType {
                FieldType::Scalar(Scalar::$scalar)
            }
            #[inline(always)]
            fn slot(&self) -> Self::Slot {
                let $value = self;
                $to
            }
            #[inline(always)]
            fn read(&mut self, bytes: &[u8], $at: usize, _: u32) -> Result<(), DecodeError> {
                let $raw = chunk::<{ $width }>(bytes, $at)?;
                *self = $from?;
                Ok(())
            }
            #[inline(always)]
            fn check(bytes: &[u8], $check_at: usize, _: u32) -> Result<(), DecodeError> {
                let $checked = chunk::<{ $width }>(bytes, $check_at)?;
                $check
            }
            #[inline(always)]
            fn view(bytes: &[u8]) -> Self {
                let ($raw, $at) = (known::<{ $width }>(bytes), 0);
                let value: Result<Self, DecodeError> = $from;
                value.unwrap_or_default()
            }
        }
    };
}

macro_rules! number {
    ($type:ty, $scalar:ident) => {
        fixed_width!(
            $type,
            size_of::<$type>(),
            $scalar,
            |value| value.to_le_bytes(),
            |raw, _at| Ok(<$type>::from_le_bytes(raw)),
            |_raw, _at| Ok(())
        );
    };
}

number!(i8, I8);
number!(i16, I16);
number!(i32, I32);
number!(i64, I64);
number!(u8, U8);
number!(u16, U16);
number!(u32, U32);
number!(u64, U64);
number!(f32, F32);
number!(f64, F64);

fixed_width!(bool, 1, Bool, |value| [u8::from(*value)], |raw, at| bool_of(raw[0], at), |raw, at| bool_of(
    raw[0], at
)
.map(|_| ()));

fixed_width!(
    char,
    4,
    Char,
    |value| u32::from(*value).to_le_bytes(),
    |raw, at| char_of(u32::from_le_bytes(raw), at),
    |raw, at| char_of(u32::from_le_bytes(raw), at).map(|_| ())
);

fixed_width!(
    Timestamp,
    8,
    Timestamp,
    |value| value.0.to_le_bytes(),
    |raw, _at| Ok(Timestamp(i64::from_le_bytes(raw))),
    |_raw, _at| Ok(())
);

fixed_width!(
    TimeOfDay,
    8,
    TimeOfDay,
    |value| value.nanos().to_le_bytes(),
    |raw, at| time_of_day_of(i64::from_le_bytes(raw), at),
    |raw, at| time_of_day_of(i64::from_le_bytes(raw), at).map(|_| ())
);

fixed_width!(
    Decimal64,
    8,
    Decimal64,
    // The caller's bits may not be canonical; stored ones always are, and are the same number.
    |value| value.canonical().to_bits().to_le_bytes(),
    |raw, _at| Ok(Decimal64::from_bits(u64::from_le_bytes(raw))),
    |raw, at| check_decimal(u64::from_le_bytes(raw), at)
);

#[inline]
pub(crate) fn bool_of(byte: u8, at: usize) -> Result<bool, DecodeError> {
    if byte <= 1 { Ok(byte == 1) } else { Err(DecodeError::new(Kind::Bool, at, byte.into(), 2)) }
}

#[inline]
pub(crate) fn char_of(scalar: u32, at: usize) -> Result<char, DecodeError> {
    char::from_u32(scalar).ok_or_else(|| DecodeError::new(Kind::Char, at, scalar.into(), 0))
}

#[inline]
pub(crate) fn time_of_day_of(ns: i64, at: usize) -> Result<TimeOfDay, DecodeError> {
    TimeOfDay::from_nanos(ns)
        .ok_or_else(|| DecodeError::new(Kind::TimeOfDay, at, ns as u64, TimeOfDay::MAX.nanos() as u64 + 1))
}

#[inline]
pub(crate) fn check_decimal(bits: u64, at: usize) -> Result<(), DecodeError> {
    if Decimal64::from_bits(bits).is_canonical() {
        Ok(())
    } else {
        Err(DecodeError::new(Kind::Decimal, at, bits, 0))
    }
}

/// Checks an `ascii(n)` slot: ASCII, then only padding.
#[inline]
pub(crate) fn check_ascii(bytes: &[u8], at: usize) -> Result<(), DecodeError> {
    if is_valid_ascii(bytes) { Ok(()) } else { Err(first_bad_ascii(bytes, at)) }
}

#[cold]
fn first_bad_ascii(bytes: &[u8], at: usize) -> DecodeError {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    let bad = |(i, &byte): (usize, &u8)| byte > 127 || (byte != 0 && i > end);
    let i = bytes.iter().enumerate().position(bad).unwrap_or(end);
    DecodeError::new(Kind::Ascii, at + i, bytes.len() as u64, bytes.get(i).copied().unwrap_or(0).into())
}

impl<const S: u8> Layout for Fixed<S> {
    const WIDTH: usize = 8;
    type Slot = [u8; 8];
    type View<'a> = Self;

    fn field_type(_: &mut SchemaBuilder) -> FieldType {
        FieldType::Scalar(Scalar::Decimal(S))
    }
    #[inline(always)]
    fn slot(&self) -> [u8; 8] {
        self.0.to_le_bytes()
    }
    #[inline(always)]
    fn read(&mut self, bytes: &[u8], at: usize, _: u32) -> Result<(), DecodeError> {
        self.0 = i64::from_le_bytes(chunk(bytes, at)?);
        Ok(())
    }
    #[inline(always)]
    fn check(bytes: &[u8], at: usize, _: u32) -> Result<(), DecodeError> {
        chunk::<8>(bytes, at).map(|_| ())
    }
    #[inline(always)]
    fn view(bytes: &[u8]) -> Self {
        Self(i64::from_le_bytes(known(bytes)))
    }
}

impl<const N: usize> Layout for Ascii<N> {
    const WIDTH: usize = N;
    type Slot = [u8; N];
    type View<'a> = Self;

    fn field_type(_: &mut SchemaBuilder) -> FieldType {
        FieldType::Scalar(Scalar::Ascii(N as u8))
    }
    #[inline(always)]
    fn slot(&self) -> [u8; N] {
        *self.as_bytes()
    }
    #[inline(always)]
    fn read(&mut self, bytes: &[u8], at: usize, _: u32) -> Result<(), DecodeError> {
        let raw = chunk::<N>(bytes, at)?;
        match Self::from_bytes(raw) {
            Ok(text) => *self = text,
            Err(_) => return check_ascii(bytes, at),
        }
        Ok(())
    }
    #[inline(always)]
    fn check(bytes: &[u8], at: usize, _: u32) -> Result<(), DecodeError> {
        let raw = chunk::<N>(bytes, at)?;
        if Self::from_bytes(raw).is_ok() { Ok(()) } else { check_ascii(&raw, at) }
    }
    #[inline(always)]
    fn view(bytes: &[u8]) -> Self {
        Self::from_valid_bytes(known(bytes))
    }
}
