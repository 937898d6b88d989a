//! What a program gives: slices, one for each field.

use tapedb_schema::{Decimal64, TimeOfDay, Timestamp};

/// One field of many messages: a slice with a value for each row, and which rows have one.
#[derive(Clone, Copy, Debug)]
pub struct InputColumn<'a> {
    /// Name of the field; not looked at where the column is the items of a list.
    pub name: &'a str,
    /// The values.
    pub values: FieldValues<'a>,
    /// Which rows have a value; `None`: all.
    pub validity: Option<Validity<'a>>,
}

/// Which rows have a value; the others are null.
#[derive(Clone, Copy, Debug)]
pub enum Validity<'a> {
    /// `true`: there is a value.
    Bools(&'a [bool]),
    /// 1: there is a value; a bit for each row, lowest of the first byte first, as Arrow has them.
    Bits {
        /// The bitmap.
        bytes: &'a [u8],
        /// The bit of the first row.
        offset: usize,
    },
}

/// The values of a field, one for each row. Where a row is null, its value is not looked at.
///
/// Slices become values by `From`: `FieldValues::from(&prices)`.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum FieldValues<'a> {
    /// `bool`.
    Bools(&'a [bool]),
    /// `i8`.
    I8(&'a [i8]),
    /// `i16`.
    I16(&'a [i16]),
    /// `i32`.
    I32(&'a [i32]),
    /// `i64`; `timestamp` and `time_of_day` in nanoseconds; `decimal(18,s)` in units of 10^-s.
    I64(&'a [i64]),
    /// `u8`; ordinals of an enum.
    U8(&'a [u8]),
    /// `u16`; ordinals of an enum.
    U16(&'a [u16]),
    /// `u32`.
    U32(&'a [u32]),
    /// `u64`.
    U64(&'a [u64]),
    /// `f32`.
    F32(&'a [f32]),
    /// `f64`.
    F64(&'a [f64]),
    /// `decimal64`.
    Decimals(&'a [Decimal64]),
    /// `timestamp`.
    Timestamps(&'a [Timestamp]),
    /// `time_of_day`.
    TimesOfDay(&'a [TimeOfDay]),
    /// `char`.
    Chars(&'a [char]),
    /// `string`, `ascii(n)`, or the symbols of an enum by name.
    Texts(&'a [&'a str]),
    /// As [`FieldValues::Texts`].
    Strings(&'a [String]),
    /// As [`FieldValues::Texts`], where few texts occur often.
    Dictionary {
        /// The texts.
        texts: &'a [&'a str],
        /// Of each row the index of its text.
        keys: &'a [u32],
    },
    /// `binary`; `string`, whose bytes are checked.
    Binaries(&'a [&'a [u8]]),
    /// `array<…>`.
    List {
        /// Of each row where its items begin; and, as the last one more, where those of the last row end.
        offsets: &'a [u32],
        /// The items of all rows.
        items: &'a InputColumn<'a>,
    },
    /// `record<A>`: the fields of the record, each with a value for each row.
    Record(&'a [InputColumn<'a>]),
    /// `record<A|B|…>`.
    Union {
        /// Of each row the index of its record type among the alternatives.
        tags: &'a [u8],
        /// The fields of each alternative, each with a value for each row: only those of the row's own alternative are looked at.
        alternatives: &'a [&'a [InputColumn<'a>]],
    },
    /// Null in every row, of a field of any type that may be null.
    Nulls(usize),
}

impl<'a> InputColumn<'a> {
    /// A field that has a value in every row.
    pub fn new(name: &'a str, values: impl Into<FieldValues<'a>>) -> Self {
        Self { name, values: values.into(), validity: None }
    }

    /// A field that is null in some rows.
    pub fn nullable(
        name: &'a str,
        values: impl Into<FieldValues<'a>>,
        validity: impl Into<Validity<'a>>,
    ) -> Self {
        Self { name, values: values.into(), validity: Some(validity.into()) }
    }

    /// Whether a row has no value.
    #[inline]
    pub(super) fn is_null(&self, row: usize) -> bool {
        matches!(self.values, FieldValues::Nulls(_))
            || self.validity.is_some_and(|validity| !validity.get(row))
    }
}

impl Validity<'_> {
    /// Whether a row has a value.
    #[inline]
    pub(super) fn get(&self, row: usize) -> bool {
        match self {
            Self::Bools(bools) => bools.get(row).copied().unwrap_or(false),
            Self::Bits { bytes, offset } => super::bit(bytes, offset + row),
        }
    }

    /// Whether it states something about each of so many items, perhaps also of more.
    pub(super) fn covers_to(&self, rows: usize) -> bool {
        match self {
            Self::Bools(bools) => bools.len() >= rows,
            Self::Bits { .. } => self.covers(rows),
        }
    }

    /// Whether it is of so many rows; of bits, padding may follow.
    pub(super) fn covers(&self, rows: usize) -> bool {
        match self {
            Self::Bools(bools) => bools.len() == rows,
            Self::Bits { bytes, offset } => {
                rows.checked_add(*offset).is_some_and(|bits| bits.div_ceil(8) <= bytes.len())
            }
        }
    }
}

impl<'a> From<&'a [bool]> for Validity<'a> {
    fn from(bools: &'a [bool]) -> Self {
        Self::Bools(bools)
    }
}

impl<'a> From<&'a Vec<bool>> for Validity<'a> {
    fn from(bools: &'a Vec<bool>) -> Self {
        Self::Bools(bools)
    }
}

impl FieldValues<'_> {
    /// Rows; `None` for a record without fields, which has as many as needed.
    pub(super) fn rows(&self) -> Option<usize> {
        Some(match self {
            Self::Bools(values) => values.len(),
            Self::I8(values) => values.len(),
            Self::I16(values) => values.len(),
            Self::I32(values) => values.len(),
            Self::I64(values) => values.len(),
            Self::U8(values) => values.len(),
            Self::U16(values) => values.len(),
            Self::U32(values) => values.len(),
            Self::U64(values) => values.len(),
            Self::F32(values) => values.len(),
            Self::F64(values) => values.len(),
            Self::Decimals(values) => values.len(),
            Self::Timestamps(values) => values.len(),
            Self::TimesOfDay(values) => values.len(),
            Self::Chars(values) => values.len(),
            Self::Texts(values) => values.len(),
            Self::Strings(values) => values.len(),
            Self::Dictionary { keys, .. } => keys.len(),
            Self::Binaries(values) => values.len(),
            Self::List { offsets, .. } => offsets.len().saturating_sub(1),
            Self::Record(fields) => return fields.first().and_then(|field| field.values.rows()),
            Self::Union { tags, .. } => tags.len(),
            Self::Nulls(rows) => *rows,
        })
    }

    /// What the slice holds, for errors.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Bools(_) => "bool",
            Self::I8(_) => "i8",
            Self::I16(_) => "i16",
            Self::I32(_) => "i32",
            Self::I64(_) => "i64",
            Self::U8(_) => "u8",
            Self::U16(_) => "u16",
            Self::U32(_) => "u32",
            Self::U64(_) => "u64",
            Self::F32(_) => "f32",
            Self::F64(_) => "f64",
            Self::Decimals(_) => "decimal64",
            Self::Timestamps(_) => "timestamp",
            Self::TimesOfDay(_) => "time_of_day",
            Self::Chars(_) => "char",
            Self::Texts(_) | Self::Strings(_) | Self::Dictionary { .. } => "texts",
            Self::Binaries(_) => "binary",
            Self::List { .. } => "lists",
            Self::Record(_) => "records of one type",
            Self::Union { .. } => "records of several types",
            Self::Nulls(_) => "nulls",
        }
    }
}

macro_rules! from_slices {
    ($($type:ty => $variant:ident),*) => {$(
        impl<'a> From<&'a [$type]> for FieldValues<'a> {
            fn from(values: &'a [$type]) -> Self {
                Self::$variant(values)
            }
        }

        impl<'a> From<&'a Vec<$type>> for FieldValues<'a> {
            fn from(values: &'a Vec<$type>) -> Self {
                Self::$variant(values)
            }
        }
    )*};
}

from_slices!(
    bool => Bools, i8 => I8, i16 => I16, i32 => I32, i64 => I64, u8 => U8, u16 => U16, u32 => U32, u64 => U64, f32 => F32,
    f64 => F64, Decimal64 => Decimals, Timestamp => Timestamps, TimeOfDay => TimesOfDay, char => Chars, &'a str => Texts,
    String => Strings, &'a [u8] => Binaries
);
