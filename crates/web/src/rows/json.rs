//! Rows as JSON. 64-bit integers, times and decimals are texts; a time is nanoseconds since 1970.

use crate::value::{write_bytes, write_float, write_text};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType,
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, RecordBatch};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{ArrowError, DataType, SchemaRef, TimeUnit};
use std::io::Write;

/// Appends the columns of a table, and begins its rows.
pub(crate) fn head(schema: &SchemaRef, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"columns\":[");
    for (index, field) in schema.fields().iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(b"{\"name\":");
        write_text(field.name(), out);
        out.extend_from_slice(b",\"type\":");
        write_text(&type_name(field.data_type()), out);
        out.push(b'}');
    }
    out.extend_from_slice(b"],\"rows\":[");
}

/// The name of a type, for people.
fn type_name(ty: &DataType) -> String {
    match ty {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "text".into(),
        DataType::Dictionary(_, values) => type_name(values),
        DataType::Timestamp(..) => "timestamp".into(),
        DataType::Duration(_) => "duration".into(),
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => format!("decimal({scale})"),
        DataType::List(item) | DataType::LargeList(item) => format!("list({})", type_name(item.data_type())),
        DataType::Struct(_) => "struct".into(),
        other => other.to_string().to_lowercase(),
    }
}

/// Appends rows as arrays.
///
/// # Errors
/// A type that cannot be written.
pub(crate) fn arrays(batch: &RecordBatch, follows: bool, out: &mut Vec<u8>) -> Result<(), ArrowError> {
    let writers = writers(batch)?;
    for row in 0..batch.num_rows() {
        out.extend_from_slice(if row > 0 || follows { b",[" } else { b"[" });
        for (index, write) in writers.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            write(row, out);
        }
        out.push(b']');
    }
    Ok(())
}

/// Appends rows as objects.
///
/// # Errors
/// As [`arrays`].
pub(crate) fn objects(
    batch: &RecordBatch,
    follows: bool,
    between: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), ArrowError> {
    let writers = writers(batch)?;
    let schema = batch.schema();
    let keys: Vec<Vec<u8>> = schema
        .fields()
        .iter()
        .enumerate()
        .map(|(index, field)| {
            let mut key = if index > 0 { b",".to_vec() } else { Vec::new() };
            write_text(field.name(), &mut key);
            key.push(b':');
            key
        })
        .collect();
    for row in 0..batch.num_rows() {
        if row > 0 || follows {
            out.extend_from_slice(between);
        }
        out.push(b'{');
        for (key, write) in keys.iter().zip(&writers) {
            out.extend_from_slice(key);
            write(row, out);
        }
        out.push(b'}');
    }
    Ok(())
}

/// Writes the value of a row.
type WriteValue<'a> = Box<dyn Fn(usize, &mut Vec<u8>) + 'a>;

fn writers(batch: &RecordBatch) -> Result<Vec<WriteValue<'_>>, ArrowError> {
    batch.columns().iter().map(|column| writer(column.as_ref())).collect()
}

fn writer(array: &dyn Array) -> Result<WriteValue<'_>, ArrowError> {
    let write = of_values(array)?;
    if array.null_count() == 0 && !matches!(array.data_type(), DataType::Null | DataType::Dictionary(..)) {
        return Ok(write);
    }
    Ok(Box::new(
        move |row: usize, out: &mut Vec<u8>| {
            if array.is_null(row) { out.extend_from_slice(b"null") } else { write(row, out) }
        },
    ))
}

macro_rules! plain {
    ($array:expr, $kind:ty, $form:literal) => {{
        let values = $array.as_primitive::<$kind>();
        Box::new(move |row: usize, out: &mut Vec<u8>| {
            let _ = write!(out, $form, values.value(row));
        })
    }};
}

macro_rules! nanos {
    ($array:expr, $kind:ty, $factor:literal) => {{
        let values = $array.as_primitive::<$kind>();
        Box::new(move |row: usize, out: &mut Vec<u8>| {
            let _ = write!(out, "\"{}\"", i128::from(values.value(row)) * $factor);
        })
    }};
}

/// Writes values that are not null.
fn of_values(array: &dyn Array) -> Result<WriteValue<'_>, ArrowError> {
    Ok(match array.data_type() {
        DataType::Null => Box::new(|_: usize, out: &mut Vec<u8>| out.extend_from_slice(b"null")),
        DataType::Boolean => {
            let values = array.as_boolean();
            Box::new(move |row: usize, out: &mut Vec<u8>| {
                out.extend_from_slice(if values.value(row) { b"true" } else { b"false" })
            })
        }
        DataType::Int8 => plain!(array, Int8Type, "{}"),
        DataType::Int16 => plain!(array, Int16Type, "{}"),
        DataType::Int32 => plain!(array, Int32Type, "{}"),
        DataType::Int64 => plain!(array, Int64Type, "\"{}\""),
        DataType::UInt8 => plain!(array, UInt8Type, "{}"),
        DataType::UInt16 => plain!(array, UInt16Type, "{}"),
        DataType::UInt32 => plain!(array, UInt32Type, "{}"),
        DataType::UInt64 => plain!(array, UInt64Type, "\"{}\""),
        DataType::Float16 => {
            let values = array.as_primitive::<Float16Type>();
            Box::new(move |row: usize, out: &mut Vec<u8>| write_float(values.value(row).to_f64(), out))
        }
        DataType::Float32 => {
            let values = array.as_primitive::<Float32Type>();
            Box::new(move |row: usize, out: &mut Vec<u8>| write_float(f64::from(values.value(row)), out))
        }
        DataType::Float64 => {
            let values = array.as_primitive::<Float64Type>();
            Box::new(move |row: usize, out: &mut Vec<u8>| write_float(values.value(row), out))
        }
        DataType::Timestamp(TimeUnit::Second, _) => nanos!(array, TimestampSecondType, 1_000_000_000),
        DataType::Timestamp(TimeUnit::Millisecond, _) => nanos!(array, TimestampMillisecondType, 1_000_000),
        DataType::Timestamp(TimeUnit::Microsecond, _) => nanos!(array, TimestampMicrosecondType, 1_000),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => nanos!(array, TimestampNanosecondType, 1),
        DataType::Duration(TimeUnit::Second) => nanos!(array, DurationSecondType, 1_000_000_000),
        DataType::Duration(TimeUnit::Millisecond) => nanos!(array, DurationMillisecondType, 1_000_000),
        DataType::Duration(TimeUnit::Microsecond) => nanos!(array, DurationMicrosecondType, 1_000),
        DataType::Duration(TimeUnit::Nanosecond) => nanos!(array, DurationNanosecondType, 1),
        DataType::Utf8 => {
            let values = array.as_string::<i32>();
            Box::new(move |row: usize, out: &mut Vec<u8>| write_text(values.value(row), out))
        }
        DataType::LargeUtf8 => {
            let values = array.as_string::<i64>();
            Box::new(move |row: usize, out: &mut Vec<u8>| write_text(values.value(row), out))
        }
        DataType::Utf8View => {
            let values = array.as_string_view();
            Box::new(move |row: usize, out: &mut Vec<u8>| write_text(values.value(row), out))
        }
        DataType::Binary => {
            let values = array.as_binary::<i32>();
            Box::new(move |row: usize, out: &mut Vec<u8>| write_bytes(values.value(row), out))
        }
        DataType::LargeBinary => {
            let values = array.as_binary::<i64>();
            Box::new(move |row: usize, out: &mut Vec<u8>| write_bytes(values.value(row), out))
        }
        DataType::BinaryView => {
            let values = array.as_binary_view();
            Box::new(move |row: usize, out: &mut Vec<u8>| write_bytes(values.value(row), out))
        }
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            // Then each value is null.
            if dictionary.values().is_empty() {
                return Ok(Box::new(|_: usize, out: &mut Vec<u8>| out.extend_from_slice(b"null")));
            }
            let write = writer(dictionary.values().as_ref())?;
            let keys = dictionary.normalized_keys();
            Box::new(move |row: usize, out: &mut Vec<u8>| write(keys[row], out))
        }
        DataType::List(_) => {
            let lists = array.as_list::<i32>();
            let write = writer(lists.values().as_ref())?;
            Box::new(move |row: usize, out: &mut Vec<u8>| {
                let offsets = lists.value_offsets();
                write_items(offsets[row] as usize..offsets[row + 1] as usize, &write, out);
            })
        }
        DataType::LargeList(_) => {
            let lists = array.as_list::<i64>();
            let write = writer(lists.values().as_ref())?;
            Box::new(move |row: usize, out: &mut Vec<u8>| {
                let offsets = lists.value_offsets();
                write_items(offsets[row] as usize..offsets[row + 1] as usize, &write, out);
            })
        }
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns().iter().map(|column| writer(column.as_ref()));
            let columns: Vec<WriteValue<'_>> = columns.collect::<Result<_, _>>()?;
            Box::new(move |row: usize, out: &mut Vec<u8>| {
                out.push(b'{');
                for (index, (field, write)) in fields.iter().zip(&columns).enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    write_text(field.name(), out);
                    out.push(b':');
                    write(row, out);
                }
                out.push(b'}');
            })
        }
        _ => of_text(array)?,
    })
}

fn write_items(rows: std::ops::Range<usize>, write: &WriteValue<'_>, out: &mut Vec<u8>) {
    out.push(b'[');
    let first = rows.start;
    for row in rows {
        if row > first {
            out.push(b',');
        }
        write(row, out);
    }
    out.push(b']');
}

/// Decimals, dates and what else has an exact text.
fn of_text(array: &dyn Array) -> Result<WriteValue<'_>, ArrowError> {
    // Options have to live as long as the formatter.
    const OPTIONS: &FormatOptions<'static> = &FormatOptions::new();
    let texts = ArrayFormatter::try_new(array, OPTIONS)?;
    Ok(Box::new(move |row: usize, out: &mut Vec<u8>| write_text(&texts.value(row).to_string(), out)))
}
