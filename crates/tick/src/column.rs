//! Columns of values in memory: the content of updates and answers.

use crate::kind::Kind;
use tapedb_schema::Decimal64;

/// Values of one column, one for each row. Nulls are those of kdb+: the smallest integer, NaN, an empty text, a space
/// (where a column is of type `char`); bytes have none.
#[derive(Debug, Clone, PartialEq)]
pub enum Column {
    /// `bool` (0 or 1) and `u8`.
    Byte(Vec<u8>),
    /// `i8` and `i16`.
    Short(Vec<i16>),
    /// `i32`, `u16`; `char` as its number.
    Int(Vec<i32>),
    /// `i64`, `u32`, `u64` (its bits), `timestamp`, `time_of_day`; the time of a row of any kind except datetimes.
    Long(Vec<i64>),
    /// `f32`.
    Real(Vec<f32>),
    /// `f64`.
    Float(Vec<f64>),
    /// `decimal64` and `decimal(18,s)`. Updates may have floats or longs for it.
    Decimal(Vec<Decimal64>),
    /// `string`, `ascii(n)`, `binary`, the symbols of enums, the `sym` of a row; guids as their 16 bytes.
    Text(Texts),
}

/// Texts, one after the other in one buffer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Texts {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Texts {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one.
    pub fn push(&mut self, text: impl AsRef<[u8]>) {
        self.bytes.extend_from_slice(text.as_ref());
        self.ends.push(self.bytes.len());
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// One of them, empty beyond the last.
    #[inline]
    pub fn get(&self, row: usize) -> &[u8] {
        let Some(&end) = self.ends.get(row) else { return &[] };
        let start = if row == 0 { 0 } else { self.ends[row - 1] };
        &self.bytes[start..end]
    }

    /// One of them as text; invalid UTF-8 is replaced.
    pub fn text(&self, row: usize) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(self.get(row))
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|row| self.get(row))
    }
}

impl<T: AsRef<[u8]>> FromIterator<T> for Texts {
    fn from_iter<I: IntoIterator<Item = T>>(texts: I) -> Self {
        let mut all = Self::new();
        texts.into_iter().for_each(|text| all.push(text));
        all
    }
}

impl Column {
    /// Rows.
    pub fn len(&self) -> usize {
        match self {
            Self::Byte(values) => values.len(),
            Self::Short(values) => values.len(),
            Self::Int(values) => values.len(),
            Self::Long(values) => values.len(),
            Self::Real(values) => values.len(),
            Self::Float(values) => values.len(),
            Self::Decimal(values) => values.len(),
            Self::Text(values) => values.len(),
        }
    }

    /// Whether it has no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The name of its values, for errors.
    pub(crate) fn what(&self) -> &'static str {
        match self {
            Self::Byte(_) => "bytes",
            Self::Short(_) => "shorts",
            Self::Int(_) => "ints",
            Self::Long(_) => "longs",
            Self::Real(_) => "reals",
            Self::Float(_) => "floats",
            Self::Decimal(_) => "decimals",
            Self::Text(_) => "texts",
        }
    }

    /// Adds the rows of another column of the same type; of another type nothing.
    pub fn extend(&mut self, other: &Self) {
        match (self, other) {
            (Self::Byte(to), Self::Byte(from)) => to.extend_from_slice(from),
            (Self::Short(to), Self::Short(from)) => to.extend_from_slice(from),
            (Self::Int(to), Self::Int(from)) => to.extend_from_slice(from),
            (Self::Long(to), Self::Long(from)) => to.extend_from_slice(from),
            (Self::Real(to), Self::Real(from)) => to.extend_from_slice(from),
            (Self::Float(to), Self::Float(from)) => to.extend_from_slice(from),
            (Self::Decimal(to), Self::Decimal(from)) => to.extend_from_slice(from),
            (Self::Text(to), Self::Text(from)) => from.iter().for_each(|text| to.push(text)),
            _ => {}
        }
    }

    /// The value of a row as text; empty for null and beyond the last row. `kind` tells a char from an integer.
    pub fn show(&self, row: usize, kind: Kind) -> String {
        match self {
            Self::Byte(values) if kind == Kind::Boolean => {
                show(values, row, |value| (value != 0).to_string())
            }
            Self::Byte(values) => show(values, row, |value| value.to_string()),
            Self::Short(values) => show(values, row, |value| whole(value.into(), value == i16::MIN)),
            Self::Int(values) if kind == Kind::Char => {
                show(values, row, |value| char::from_u32(value as u32).unwrap_or(' ').to_string())
            }
            Self::Int(values) => show(values, row, |value| whole(value.into(), value == i32::MIN)),
            Self::Long(values) => show(values, row, |value| show_long(value, kind)),
            Self::Real(values) => {
                show(values, row, |value| if value.is_nan() { String::new() } else { value.to_string() })
            }
            Self::Float(values) => {
                show(values, row, |value| if value.is_nan() { String::new() } else { value.to_string() })
            }
            Self::Decimal(values) => {
                show(values, row, |value| if value.is_nan() { String::new() } else { value.to_string() })
            }
            Self::Text(values) if matches!(kind, Kind::Guid | Kind::Bytes) => {
                values.get(row).iter().map(|byte| format!("{byte:02x}")).collect()
            }
            Self::Text(values) => values.text(row).into_owned(),
        }
    }
}

fn show<T: Copy>(values: &[T], row: usize, text: impl Fn(T) -> String) -> String {
    values.get(row).map_or_else(String::new, |value| text(*value))
}

fn whole(value: i64, is_null: bool) -> String {
    if is_null { String::new() } else { value.to_string() }
}

fn show_long(value: i64, kind: Kind) -> String {
    match kind {
        _ if value == i64::MIN => String::new(),
        Kind::Timestamp => tapedb_schema::Timestamp(value).to_string(),
        Kind::Timespan => match tapedb_schema::TimeOfDay::from_nanos(value) {
            Some(time) => time.to_string(),
            None => value.to_string(),
        },
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_keep_their_bounds() {
        let texts: Texts = ["", "ab", "", "c"].into_iter().collect();
        assert_eq!(texts.iter().collect::<Vec<_>>(), [&b""[..], b"ab", b"", b"c"]);
        assert_eq!((texts.len(), texts.get(4)), (4, &b""[..]));
    }

    #[test]
    fn values_are_shown() {
        assert_eq!(Column::Long(vec![i64::MIN, 5]).show(0, Kind::Long), "");
        assert_eq!(Column::Long(vec![34_200_000_000_000]).show(0, Kind::Timespan), "09:30:00");
        assert_eq!(Column::Byte(vec![1]).show(0, Kind::Boolean), "true");
        assert_eq!(Column::Int(vec![65]).show(0, Kind::Char), "A");
        assert_eq!(Column::Float(vec![f64::NAN, 1.5]).show(1, Kind::Float), "1.5");
    }
}
