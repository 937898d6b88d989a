//! The types of kdb+ columns, and which field of a schema holds each: the one place that maps between the two.
//!
//! A column's kind is its type for clients that speak kdb+. It follows from the field's type; where kdb+ has several types
//! for it (a month, a date and a time are all 32-bit integers), the field's documentation has the type, in a line such as
//! `kdb: date`. So the kind is part of the schema of every copy of the stream.

use tapedb_schema::{Field, FieldType, Scalar};

/// Days from 1970-01-01 to 2000-01-01, from which kdb+ counts.
pub const KDB_EPOCH_DAYS: i32 = 10_957;
/// Nanoseconds from 1970-01-01 to 2000-01-01.
pub const KDB_EPOCH_NANOS: i64 = KDB_EPOCH_DAYS as i64 * NANOS_PER_DAY;
/// Nanoseconds of a day.
pub const NANOS_PER_DAY: i64 = 86_400_000_000_000;
const NANOS_PER_MILLI: i64 = 1_000_000;
const NANOS_PER_SECOND: i64 = 1_000_000_000;
const NANOS_PER_MINUTE: i64 = 60 * NANOS_PER_SECOND;

/// What begins the line of a field's documentation that names its kind.
const KIND_LINE: &str = "kdb: ";

/// A kdb+ type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// `b`, type 1.
    Boolean,
    /// `g`, type 2: 16 bytes.
    Guid,
    /// `x`, type 4.
    Byte,
    /// `h`, type 5.
    Short,
    /// `i`, type 6.
    Int,
    /// `j`, type 7.
    Long,
    /// `e`, type 8.
    Real,
    /// `f`, type 9.
    Float,
    /// `c`, type 10.
    Char,
    /// `s`, type 11.
    Symbol,
    /// `p`, type 12: nanoseconds; in columns here since 1970, in kdb+ since 2000.
    Timestamp,
    /// `m`, type 13: months since 2000-01.
    Month,
    /// `d`, type 14: days since 2000-01-01.
    Date,
    /// `z`, type 15: days since 2000-01-01 with a fraction.
    Datetime,
    /// `n`, type 16: nanoseconds.
    Timespan,
    /// `u`, type 17: minutes.
    Minute,
    /// `v`, type 18: seconds.
    Second,
    /// `t`, type 19: milliseconds.
    Time,
    /// `C`: a list of char vectors.
    Text,
    /// `X`: a list of byte vectors.
    Bytes,
}

/// The kinds: kind, type number of a vector, letter, name.
const KINDS: [(Kind, i8, char, &str); 20] = [
    (Kind::Boolean, 1, 'b', "boolean"),
    (Kind::Guid, 2, 'g', "guid"),
    (Kind::Byte, 4, 'x', "byte"),
    (Kind::Short, 5, 'h', "short"),
    (Kind::Int, 6, 'i', "int"),
    (Kind::Long, 7, 'j', "long"),
    (Kind::Real, 8, 'e', "real"),
    (Kind::Float, 9, 'f', "float"),
    (Kind::Char, 10, 'c', "char"),
    (Kind::Symbol, 11, 's', "symbol"),
    (Kind::Timestamp, 12, 'p', "timestamp"),
    (Kind::Month, 13, 'm', "month"),
    (Kind::Date, 14, 'd', "date"),
    (Kind::Datetime, 15, 'z', "datetime"),
    (Kind::Timespan, 16, 'n', "timespan"),
    (Kind::Minute, 17, 'u', "minute"),
    (Kind::Second, 18, 'v', "second"),
    (Kind::Time, 19, 't', "time"),
    (Kind::Text, 0, 'C', "text"),
    (Kind::Bytes, 0, 'X', "bytes"),
];

impl Kind {
    /// The type number of a vector of it; 0, a mixed list, for lists of vectors.
    pub fn code(self) -> i8 {
        KINDS[self as usize].1
    }

    /// The letter that `meta` shows.
    pub fn letter(self) -> char {
        KINDS[self as usize].2
    }

    /// The name, as in `` `timespan$() ``.
    pub fn name(self) -> &'static str {
        KINDS[self as usize].3
    }

    /// The kind of that name.
    pub fn of_name(name: &str) -> Option<Self> {
        KINDS.iter().find(|kind| kind.3 == name).map(|kind| kind.0)
    }

    /// The kind of that letter.
    pub fn of_letter(letter: char) -> Option<Self> {
        KINDS.iter().find(|kind| kind.2 == letter).map(|kind| kind.0)
    }

    /// Whether a column of it can be a table's `time`.
    pub fn is_time(self) -> bool {
        use Kind::{Datetime, Minute, Second, Time, Timespan, Timestamp};
        matches!(self, Timestamp | Timespan | Time | Datetime | Minute | Second)
    }

    /// The field for a column of this kind, with its documentation.
    pub fn field(self, name: &str) -> Field {
        let (ty, nullable) = match self {
            Self::Boolean => (FieldType::Scalar(Scalar::Bool), false),
            Self::Byte => (FieldType::Scalar(Scalar::U8), false),
            Self::Short => (FieldType::Scalar(Scalar::I16), true),
            Self::Int | Self::Month | Self::Date | Self::Minute | Self::Second | Self::Time => {
                (FieldType::Scalar(Scalar::I32), true)
            }
            Self::Long | Self::Timespan => (FieldType::Scalar(Scalar::I64), true),
            Self::Real => (FieldType::Scalar(Scalar::F32), true),
            Self::Float | Self::Datetime => (FieldType::Scalar(Scalar::F64), true),
            Self::Char => (FieldType::Scalar(Scalar::Char), true),
            Self::Timestamp => (FieldType::Scalar(Scalar::Timestamp), true),
            // The null of these is empty.
            Self::Symbol | Self::Text => (FieldType::String, false),
            Self::Guid | Self::Bytes => (FieldType::Binary, false),
        };
        let doc = if Self::natural(&ty) == Some(self) { String::new() } else { self.line() };
        Field { name: name.into(), ty, nullable, default: None, aliases: Vec::new(), doc }
    }

    /// The line that names it in a documentation.
    pub(crate) fn line(self) -> String {
        format!("{KIND_LINE}{}", self.name())
    }

    /// The kind that a documentation names.
    pub(crate) fn of_doc(doc: &str) -> Option<Self> {
        doc.lines().find_map(|line| Self::of_name(line.trim().strip_prefix(KIND_LINE)?))
    }

    /// The kind of a field: the one in its documentation, if such a field can hold it, else the nearest to its type. `None`: such
    /// a field is no column.
    pub fn of_field(field: &Field) -> Option<Self> {
        let named = Self::of_doc(&field.doc).filter(|kind| kind.field("").ty == field.ty);
        named.or_else(|| Self::natural(&field.ty))
    }

    /// The kind nearest to a field's type.
    fn natural(ty: &FieldType) -> Option<Self> {
        Some(match ty {
            FieldType::Scalar(Scalar::Bool) => Self::Boolean,
            FieldType::Scalar(Scalar::U8) => Self::Byte,
            FieldType::Scalar(Scalar::I8 | Scalar::I16) => Self::Short,
            FieldType::Scalar(Scalar::U16 | Scalar::I32) => Self::Int,
            FieldType::Scalar(Scalar::U32 | Scalar::I64 | Scalar::U64) => Self::Long,
            FieldType::Scalar(Scalar::F32) => Self::Real,
            FieldType::Scalar(Scalar::F64 | Scalar::Decimal64 | Scalar::Decimal(_)) => Self::Float,
            FieldType::Scalar(Scalar::Timestamp) => Self::Timestamp,
            FieldType::Scalar(Scalar::TimeOfDay) => Self::Timespan,
            FieldType::Scalar(Scalar::Char) => Self::Char,
            FieldType::Scalar(Scalar::Ascii(_)) | FieldType::Enum(_) => Self::Symbol,
            FieldType::String => Self::Text,
            FieldType::Binary => Self::Bytes,
            FieldType::Array(_) | FieldType::Record(_) => return None,
        })
    }

    /// The value of a `time` column of this kind at a time, `day_start` is the beginning of the day, both in nanoseconds since
    /// 1970. 32-bit kinds stay within 32 bits, rounding down.
    #[inline]
    pub fn time_value(self, nanos: i64, day_start: i64) -> i64 {
        let since = nanos.saturating_sub(day_start);
        match self {
            Self::Time => since.div_euclid(NANOS_PER_MILLI),
            Self::Second => since.div_euclid(NANOS_PER_SECOND),
            Self::Minute => since.div_euclid(NANOS_PER_MINUTE),
            Self::Timespan => since,
            _ => nanos,
        }
    }

    /// Reverse of [`Kind::time_value`].
    #[inline]
    pub fn nanos_of_time(self, value: i64, day_start: i64) -> i64 {
        let since = match self {
            Self::Time => value.saturating_mul(NANOS_PER_MILLI),
            Self::Second => value.saturating_mul(NANOS_PER_SECOND),
            Self::Minute => value.saturating_mul(NANOS_PER_MINUTE),
            Self::Timespan => value,
            _ => return value,
        };
        day_start.saturating_add(since)
    }
}

/// A kdb+ timestamp (nanoseconds since 2000) as nanoseconds since 1970; null and infinities do not change, and
/// values out of range become infinite.
#[inline]
pub fn nanos_of_kdb_timestamp(value: i64) -> i64 {
    if is_special(value) { value } else { value.saturating_add(KDB_EPOCH_NANOS).max(i64::MIN + 1) }
}

/// Reverse of [`nanos_of_kdb_timestamp`].
#[inline]
pub fn kdb_timestamp_of_nanos(nanos: i64) -> i64 {
    if is_special(nanos) { nanos } else { nanos.saturating_sub(KDB_EPOCH_NANOS).max(i64::MIN + 1) }
}

/// Null or infinite in 64 bits, as in kdb+.
#[inline]
fn is_special(value: i64) -> bool {
    value <= i64::MIN + 1 || value == i64::MAX
}

/// A kdb+ datetime (days since 2000) as nanoseconds since 1970, to the nearest millisecond, which is what datetimes are exact
/// to; `None` for null and for values out of range.
pub fn nanos_of_kdb_datetime(days: f64) -> Option<i64> {
    let millis = (days * 86_400_000.0).round();
    (millis.abs() < 9e12).then(|| millis as i64 * NANOS_PER_MILLI + KDB_EPOCH_NANOS)
}

/// Nanoseconds since 1970 as a kdb+ datetime.
pub fn kdb_datetime_of_nanos(nanos: i64) -> f64 {
    nanos.saturating_sub(KDB_EPOCH_NANOS) as f64 / NANOS_PER_DAY as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_comes_back_from_its_field() {
        for (index, (kind, _, letter, name)) in KINDS.into_iter().enumerate() {
            assert_eq!(
                (kind as usize, Kind::of_name(name), Kind::of_letter(letter)),
                (index, Some(kind), Some(kind))
            );
            assert_eq!(Kind::of_field(&kind.field("x")), Some(kind), "{name}");
        }
    }

    #[test]
    fn a_kind_that_the_field_does_not_hold_is_not_believed() {
        let mut field = Kind::Float.field("price");
        field.doc = "What it cost.\nkdb: date".into();
        assert_eq!(Kind::of_field(&field), Some(Kind::Float));
        field.ty = FieldType::Scalar(Scalar::I32);
        assert_eq!(Kind::of_field(&field), Some(Kind::Date));
    }

    #[test]
    fn times_come_back() {
        let day = 20_778 * NANOS_PER_DAY;
        for (kind, value) in [
            (Kind::Timespan, 34_200_000_000_001),
            (Kind::Time, 34_200_001),
            (Kind::Second, -5),
            (Kind::Minute, 570),
        ] {
            let nanos = kind.nanos_of_time(value, day);
            assert_eq!(kind.time_value(nanos, day), value, "{kind:?}");
        }
        assert_eq!(Kind::Timestamp.time_value(day + 7, day), day + 7);
    }

    #[test]
    fn special_timestamps_stay() {
        for value in [i64::MIN, i64::MIN + 1, i64::MAX, 0, 1, -1] {
            assert_eq!(kdb_timestamp_of_nanos(nanos_of_kdb_timestamp(value)), value);
        }
        assert_eq!(nanos_of_kdb_timestamp(i64::MAX - 1), i64::MAX);
        assert_eq!(nanos_of_kdb_datetime(f64::NAN), None);
        let noon = nanos_of_kdb_datetime(9_821.5).unwrap();
        assert_eq!(kdb_datetime_of_nanos(noon), 9_821.5);
    }
}
