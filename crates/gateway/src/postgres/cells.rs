//! Values of a column, written as PostgreSQL's texts and bytes. A column is looked at once for a batch, then its values are written
//! straight from Arrow's arrays into the buffer that is sent.

use crate::postgres::failure::Failure;
use crate::postgres::json;
use crate::postgres::numeric;
use crate::postgres::times;
use crate::postgres::types::Type;
use tapedb_query::arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, BooleanArray, ListArray, StringArray, StringViewArray,
};
use tapedb_query::arrow::buffer::NullBuffer;
use tapedb_query::arrow::compute::cast;
use tapedb_query::arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
    IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, Time64NanosecondType, TimeUnit,
    TimestampMicrosecondType, TimestampNanosecondType, UInt64Type,
};

/// One column of a batch.
pub(crate) struct Cells {
    /// Keeps the values.
    nulls: Option<NullBuffer>,
    values: Values,
    ty: Type,
}

enum Values {
    Null,
    Bool(BooleanArray),
    I16(tapedb_query::arrow::buffer::ScalarBuffer<i16>),
    I32(tapedb_query::arrow::buffer::ScalarBuffer<i32>),
    I64(tapedb_query::arrow::buffer::ScalarBuffer<i64>),
    U64(tapedb_query::arrow::buffer::ScalarBuffer<u64>),
    F32(tapedb_query::arrow::buffer::ScalarBuffer<f32>),
    F64(tapedb_query::arrow::buffer::ScalarBuffer<f64>),
    Decimal(tapedb_query::arrow::buffer::ScalarBuffer<i128>, u8),
    Text(StringArray),
    View(StringViewArray),
    Bytes(BinaryViewArray),
    Date(tapedb_query::arrow::buffer::ScalarBuffer<i32>),
    /// Nanoseconds since midnight.
    Time(tapedb_query::arrow::buffer::ScalarBuffer<i64>),
    /// Nanoseconds since 1970; whether in UTC.
    Nanos(tapedb_query::arrow::buffer::ScalarBuffer<i64>, bool),
    /// Microseconds since 1970; whether in UTC.
    Micros(tapedb_query::arrow::buffer::ScalarBuffer<i64>, bool),
    Interval(tapedb_query::arrow::buffer::ScalarBuffer<IntervalMonthDayNano>),
    List(ListArray, Box<Cells>),
    Json(ArrayRef),
}

/// The type of Arrow that is written for another one; `None`: itself.
fn written_as(ty: &DataType, is_json: bool) -> Option<DataType> {
    Some(match ty {
        _ if is_json => return None,
        DataType::Int8 | DataType::UInt8 => DataType::Int16,
        DataType::UInt16 => DataType::Int32,
        DataType::UInt32 => DataType::Int64,
        DataType::Float16 => DataType::Float32,
        DataType::Decimal32(digits, scale) | DataType::Decimal64(digits, scale) => {
            DataType::Decimal128(*digits, (*scale).max(0))
        }
        DataType::Decimal128(_, scale) if *scale < 0 => DataType::Decimal128(38, 0),
        DataType::Decimal256(_, scale) => DataType::Decimal128(38, (*scale).max(0)),
        DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary | DataType::FixedSizeBinary(_) => DataType::BinaryView,
        DataType::Date64 => DataType::Date32,
        DataType::Time32(_) | DataType::Time64(TimeUnit::Microsecond) => {
            DataType::Time64(TimeUnit::Nanosecond)
        }
        DataType::Timestamp(TimeUnit::Second | TimeUnit::Millisecond, zone) => {
            DataType::Timestamp(TimeUnit::Microsecond, zone.clone())
        }
        DataType::Interval(IntervalUnit::YearMonth | IntervalUnit::DayTime) | DataType::Duration(_) => {
            DataType::Interval(IntervalUnit::MonthDayNano)
        }
        DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _) => DataType::List(item.clone()),
        DataType::Dictionary(_, value) => match &**value {
            DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
            other => other.clone(),
        },
        _ => return None,
    })
}

impl Cells {
    /// The values of an array as a type.
    ///
    /// # Errors
    /// When values do not fit it.
    pub fn of(array: &ArrayRef, ty: &Type) -> Result<Self, Failure> {
        let mut array = array.clone();
        while let Some(other) = written_as(array.data_type(), *ty == Type::Json) {
            array = cast(&array, &other).map_err(unwritable)?;
        }
        if Type::of_data(array.data_type()) != *ty && !is_alike(array.data_type(), ty) {
            let wanted = data_type(ty).filter(|wanted| wanted != array.data_type());
            if let Some(wanted) = wanted {
                array = cast(&array, &wanted).map_err(unwritable)?;
            }
        }
        let values = match array.data_type() {
            _ if *ty == Type::Json && !matches!(array.data_type(), DataType::Utf8 | DataType::Utf8View) => {
                Values::Json(array.clone())
            }
            DataType::Null => Values::Null,
            DataType::Boolean => Values::Bool(array.as_boolean().clone()),
            DataType::Int16 => Values::I16(array.as_primitive::<Int16Type>().values().clone()),
            DataType::Int32 => Values::I32(array.as_primitive::<Int32Type>().values().clone()),
            DataType::Int64 => Values::I64(array.as_primitive::<Int64Type>().values().clone()),
            DataType::UInt64 => Values::U64(array.as_primitive::<UInt64Type>().values().clone()),
            DataType::Float32 => Values::F32(array.as_primitive::<Float32Type>().values().clone()),
            DataType::Float64 => Values::F64(array.as_primitive::<Float64Type>().values().clone()),
            DataType::Decimal128(_, scale) => Values::Decimal(
                array.as_primitive::<Decimal128Type>().values().clone(),
                (*scale).max(0) as u8,
            ),
            DataType::Utf8 => Values::Text(array.as_string::<i32>().clone()),
            DataType::Utf8View => Values::View(array.as_string_view().clone()),
            DataType::BinaryView => Values::Bytes(array.as_binary_view().clone()),
            DataType::Date32 => Values::Date(array.as_primitive::<Date32Type>().values().clone()),
            DataType::Time64(TimeUnit::Nanosecond) => {
                Values::Time(array.as_primitive::<Time64NanosecondType>().values().clone())
            }
            DataType::Timestamp(TimeUnit::Nanosecond, zone) => Values::Nanos(
                array.as_primitive::<TimestampNanosecondType>().values().clone(),
                zone.is_some(),
            ),
            DataType::Timestamp(_, zone) => Values::Micros(
                array.as_primitive::<TimestampMicrosecondType>().values().clone(),
                zone.is_some(),
            ),
            DataType::Interval(_) => {
                Values::Interval(array.as_primitive::<IntervalMonthDayNanoType>().values().clone())
            }
            DataType::List(_) => {
                let list = array.as_list::<i32>().clone();
                let item = match ty {
                    Type::Array(item) => (**item).clone(),
                    _ => Type::of_data(list.values().data_type()),
                };
                let items = Box::new(Self::of(list.values(), &item)?);
                Values::List(list, items)
            }
            _ => Values::Json(array.clone()),
        };
        let nulls = array.logical_nulls().filter(|nulls| nulls.null_count() > 0);
        Ok(Self { nulls, values, ty: ty.clone() })
    }

    /// Whether there is no value.
    #[inline]
    pub fn is_null(&self, row: usize) -> bool {
        matches!(self.values, Values::Null) || self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    /// Writes a value as text.
    pub fn text(&self, row: usize, out: &mut Vec<u8>) {
        match &self.values {
            Values::Null => {}
            Values::Bool(values) => out.push(if values.value(row) { b't' } else { b'f' }),
            Values::I16(values) => integer(values[row], out),
            Values::I32(values) => integer(values[row], out),
            Values::I64(values) => integer(values[row], out),
            Values::U64(values) => integer(values[row], out),
            Values::F32(values) => float(
                values[row].is_finite(),
                values[row].into(),
                || zmij::Buffer::new().format_finite(values[row]).to_string(),
                out,
            ),
            Values::F64(values) => float64(values[row], out),
            Values::Decimal(values, scale) => numeric::text(values[row], *scale, out),
            Values::Text(values) => out.extend(values.value(row).as_bytes()),
            Values::View(values) => out.extend(values.value(row).as_bytes()),
            Values::Bytes(values) => hex(values.value(row), out),
            Values::Date(values) => times::date(values[row].into(), out),
            Values::Time(values) => times::time(values[row].div_euclid(1000), out),
            Values::Nanos(values, is_utc) => times::timestamp(values[row].div_euclid(1000), *is_utc, out),
            Values::Micros(values, is_utc) => times::timestamp(values[row], *is_utc, out),
            Values::Interval(values) => times::interval(&values[row], out),
            Values::List(list, items) => items.array_text(range(list, row), out),
            Values::Json(array) => json::write(array, row, out),
        }
    }

    /// Writes the length of a value and the value in PostgreSQL's binary form.
    #[inline]
    pub fn binary(&self, row: usize, out: &mut Vec<u8>) {
        match &self.values {
            Values::Null => out.extend((-1i32).to_be_bytes()),
            Values::Bool(values) => out.extend([0, 0, 0, 1, values.value(row).into()]),
            Values::I16(values) => fixed(out, values[row].to_be_bytes()),
            Values::I32(values) => fixed(out, values[row].to_be_bytes()),
            Values::I64(values) if self.ty == Type::Oid => fixed(out, (values[row] as u32).to_be_bytes()),
            Values::I64(values) => fixed(out, values[row].to_be_bytes()),
            Values::U64(values) => numeric::binary(values[row].into(), 0, out),
            Values::F32(values) => fixed(out, values[row].to_be_bytes()),
            Values::F64(values) => fixed(out, values[row].to_be_bytes()),
            Values::Decimal(values, scale) => numeric::binary(values[row], *scale, out),
            Values::Text(values) => bytes(out, values.value(row).as_bytes()),
            Values::View(values) => bytes(out, values.value(row).as_bytes()),
            Values::Bytes(values) => bytes(out, values.value(row)),
            Values::Date(values) => fixed(out, (values[row].wrapping_sub(times::DAYS_TO_2000)).to_be_bytes()),
            Values::Time(values) => fixed(out, values[row].div_euclid(1000).to_be_bytes()),
            Values::Nanos(values, _) => {
                fixed(out, (values[row].div_euclid(1000) - times::MICROS_TO_2000).to_be_bytes());
            }
            Values::Micros(values, _) => {
                fixed(out, values[row].saturating_sub(times::MICROS_TO_2000).to_be_bytes())
            }
            Values::Interval(values) => {
                let value = &values[row];
                out.extend(16u32.to_be_bytes());
                out.extend(value.nanoseconds.div_euclid(1000).to_be_bytes());
                out.extend(value.days.to_be_bytes());
                out.extend(value.months.to_be_bytes());
            }
            Values::List(list, items) => sized(out, |out| items.array_binary(range(list, row), out)),
            Values::Json(array) => sized(out, |out| json::write(array, row, out)),
        }
    }

    fn array_text(&self, items: std::ops::Range<usize>, out: &mut Vec<u8>) {
        out.push(b'{');
        let mut text = Vec::new();
        for (index, item) in items.enumerate() {
            if index > 0 {
                out.push(b',');
            }
            if self.is_null(item) {
                out.extend(b"NULL");
                continue;
            }
            text.clear();
            self.text(item, &mut text);
            let is_plain = !text.is_empty()
                && !text.eq_ignore_ascii_case(b"null")
                && text.iter().all(|byte| byte.is_ascii_alphanumeric() || b"+-.:_".contains(byte));
            if is_plain {
                out.extend(&text);
                continue;
            }
            out.push(b'"');
            for byte in &text {
                if matches!(byte, b'"' | b'\\') {
                    out.push(b'\\');
                }
                out.push(*byte);
            }
            out.push(b'"');
        }
        out.push(b'}');
    }

    fn array_binary(&self, items: std::ops::Range<usize>, out: &mut Vec<u8>) {
        let has_nulls = items.clone().any(|item| self.is_null(item));
        out.extend(u32::from(!items.is_empty()).to_be_bytes());
        out.extend(u32::from(has_nulls).to_be_bytes());
        out.extend(self.ty.oid().to_be_bytes());
        if items.is_empty() {
            return;
        }
        out.extend((items.len() as u32).to_be_bytes());
        out.extend(1u32.to_be_bytes());
        for item in items {
            match self.is_null(item) {
                true => out.extend((-1i32).to_be_bytes()),
                false => self.binary(item, out),
            }
        }
    }
}

/// Whether values of Arrow are written as a type without being converted.
fn is_alike(data: &DataType, ty: &Type) -> bool {
    match ty {
        Type::Name | Type::Char | Type::Text | Type::Json => {
            matches!(data, DataType::Utf8 | DataType::Utf8View)
        }
        Type::Oid => *data == DataType::Int64,
        Type::Numeric(_) => matches!(data, DataType::Decimal128(..) | DataType::UInt64),
        Type::Array(_) => matches!(data, DataType::List(_)),
        _ => false,
    }
}

/// The type of Arrow for values that a query has with another type than it was described with.
fn data_type(ty: &Type) -> Option<DataType> {
    let utc = || Some("UTC".into());
    Some(match ty {
        Type::Bool => DataType::Boolean,
        Type::Bytea => DataType::BinaryView,
        Type::Int8 | Type::Oid => DataType::Int64,
        Type::Int2 => DataType::Int16,
        Type::Int4 => DataType::Int32,
        Type::Text | Type::Name | Type::Char => DataType::Utf8View,
        Type::Float4 => DataType::Float32,
        Type::Float8 => DataType::Float64,
        Type::Date => DataType::Date32,
        Type::Time => DataType::Time64(TimeUnit::Nanosecond),
        Type::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
        Type::Timestamptz => DataType::Timestamp(TimeUnit::Microsecond, utc()),
        Type::Interval => DataType::Interval(IntervalUnit::MonthDayNano),
        Type::Numeric(digits) => {
            let (digits, scale) = digits.unwrap_or((38, 9));
            DataType::Decimal128(digits.min(38), scale as i8)
        }
        Type::Json | Type::Array(_) => return None,
    })
}

fn unwritable(error: impl std::fmt::Display) -> Failure {
    Failure::new("22000", format!("a value does not fit the type of its column: {error}"))
}

fn range(list: &ListArray, row: usize) -> std::ops::Range<usize> {
    let offsets = list.value_offsets();
    offsets[row] as usize..offsets[row + 1] as usize
}

#[inline]
fn fixed<const N: usize>(out: &mut Vec<u8>, value: [u8; N]) {
    out.extend_from_slice(&(N as u32).to_be_bytes());
    out.extend_from_slice(&value);
}

#[inline]
fn bytes(out: &mut Vec<u8>, value: &[u8]) {
    out.extend_from_slice(&(value.len() as u32).to_be_bytes());
    out.extend_from_slice(value);
}

/// A value behind its length.
pub(crate) fn sized(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend([0; 4]);
    write(out);
    let length = (out.len() - at - 4) as u32;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

fn integer(value: impl itoa::Integer, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Writes a double: the shortest text that is read as the same number.
pub(crate) fn float64(value: f64, out: &mut Vec<u8>) {
    if value.is_finite() {
        let mut buffer = zmij::Buffer::new();
        let text = buffer.format_finite(value);
        out.extend_from_slice(text.strip_suffix(".0").unwrap_or(text).as_bytes());
        return;
    }
    float(false, value, String::new, out);
}

fn float(is_finite: bool, value: f64, text: impl FnOnce() -> String, out: &mut Vec<u8>) {
    match is_finite {
        true => {
            let text = text();
            out.extend(text.strip_suffix(".0").unwrap_or(&text).as_bytes());
        }
        false if value.is_nan() => out.extend(b"NaN"),
        false if value > 0.0 => out.extend(b"Infinity"),
        false => out.extend(b"-Infinity"),
    }
}

/// Writes bytes as PostgreSQL's text of them.
fn hex(bytes: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.extend(b"\\x");
    out.extend(
        bytes.iter().flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]),
    );
}
