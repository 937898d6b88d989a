//! The scalar types: the one list of all types of fixed width, which the layers above share.

use crate::FieldType;
use std::fmt;

/// Longest `ascii(n)`, in bytes.
pub const MAX_ASCII: u8 = 16;
/// Largest scale of `decimal(18,s)`.
pub const MAX_SCALE: u8 = 18;

/// A type whose values have a fixed width, which the type alone determines. (Enums have one too, but it depends on their
/// symbols.)
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scalar {
    /// `bool`, one byte, 0 or 1.
    Bool,
    /// `i8`.
    I8,
    /// `i16`.
    I16,
    /// `i32`.
    I32,
    /// `i64`.
    I64,
    /// `u8`.
    U8,
    /// `u16`.
    U16,
    /// `u32`.
    U32,
    /// `u64`.
    U64,
    /// `f32`, IEEE 754 binary32.
    F32,
    /// `f64`, IEEE 754 binary64.
    F64,
    /// `decimal64`, IEEE 754-2008 decimal64 in the binary (BID) encoding: exact at any scale, 16 digits.
    Decimal64,
    /// `decimal(18,s)`: an `i64` that counts units of 10^-s; `s` is 0 to [`MAX_SCALE`].
    Decimal(u8),
    /// `timestamp`: `i64` nanoseconds since the Unix epoch, UTC.
    Timestamp,
    /// `time_of_day`: `i64` nanoseconds since midnight, 0 to 86,399,999,999,999.
    TimeOfDay,
    /// `char`: one Unicode scalar value in four bytes.
    Char,
    /// `ascii(n)`: up to `n` bytes of ASCII, padded with zero bytes; `n` is 1 to [`MAX_ASCII`].
    Ascii(u8),
}

impl Scalar {
    /// The types without a parameter.
    const PLAIN: [Self; 15] = [
        Self::Bool,
        Self::I8,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::U8,
        Self::U16,
        Self::U32,
        Self::U64,
        Self::F32,
        Self::F64,
        Self::Decimal64,
        Self::Timestamp,
        Self::TimeOfDay,
        Self::Char,
    ];

    /// Bytes of a value in a row.
    pub const fn width(self) -> usize {
        match self {
            Self::Bool | Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 | Self::Char => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
            Self::Decimal64 | Self::Decimal(_) | Self::Timestamp | Self::TimeOfDay => 8,
            Self::Ascii(width) => width as usize,
        }
    }

    /// Whether it is one of `i8` to `u64`.
    pub const fn is_integer(self) -> bool {
        matches!(
            self,
            Self::I8 | Self::I16 | Self::I32 | Self::I64 | Self::U8 | Self::U16 | Self::U32 | Self::U64
        )
    }

    /// Whether a value in a row is a two's complement integer: `i8` to `i64`, scaled decimals and times.
    pub const fn is_signed(self) -> bool {
        matches!(
            self,
            Self::I8
                | Self::I16
                | Self::I32
                | Self::I64
                | Self::Decimal(_)
                | Self::Timestamp
                | Self::TimeOfDay
        )
    }

    /// The type of that name in a schema text, except for those with a parameter.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        Self::PLAIN.into_iter().find(|scalar| scalar.name() == name)
    }

    /// The name in a schema text, without a parameter.
    const fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::Decimal64 => "decimal64",
            Self::Decimal(_) => "decimal",
            Self::Timestamp => "timestamp",
            Self::TimeOfDay => "time_of_day",
            Self::Char => "char",
            Self::Ascii(_) => "ascii",
        }
    }
}

/// As in a schema text.
impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decimal(scale) => write!(f, "decimal(18,{scale})"),
            Self::Ascii(size) => write!(f, "ascii({size})"),
            plain => f.write_str(plain.name()),
        }
    }
}

impl From<Scalar> for FieldType {
    fn from(scalar: Scalar) -> Self {
        Self::Scalar(scalar)
    }
}
