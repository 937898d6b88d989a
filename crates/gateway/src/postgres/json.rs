//! Nested values as JSON.

use crate::postgres::cells::float64;
use crate::postgres::numeric;
use tapedb_query::arrow::array::{Array, ArrayRef, AsArray};
use tapedb_query::arrow::datatypes::{DataType, Decimal128Type, Float32Type, Float64Type};
use tapedb_query::arrow::util::display::{ArrayFormatter, FormatOptions};

/// Writes a value. Numbers that JSON has not, times and bytes are texts.
pub(crate) fn write(array: &ArrayRef, row: usize, out: &mut Vec<u8>) {
    if array.is_null(row) {
        out.extend(b"null");
        return;
    }
    match array.data_type() {
        DataType::Struct(fields) => {
            let values = array.as_struct();
            out.push(b'{');
            for (index, (field, column)) in fields.iter().zip(values.columns()).enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                string(field.name(), out);
                out.push(b':');
                write(column, row, out);
            }
            out.push(b'}');
        }
        DataType::List(_) => items(&array.as_list::<i32>().value(row), out),
        DataType::LargeList(_) => items(&array.as_list::<i64>().value(row), out),
        DataType::FixedSizeList(..) => items(&array.as_fixed_size_list().value(row), out),
        DataType::Float64 => number(array.as_primitive::<Float64Type>().value(row), out),
        DataType::Float32 => {
            let value = array.as_primitive::<Float32Type>().value(row);
            match value.is_finite() {
                true => out.extend(zmij::Buffer::new().format_finite(value).bytes()),
                false => number(value.into(), out),
            }
        }
        DataType::Decimal128(_, scale) if *scale >= 0 => {
            numeric::text(array.as_primitive::<Decimal128Type>().value(row), *scale as u8, out);
        }
        ty => {
            let text = ArrayFormatter::try_new(array, &FormatOptions::default())
                .and_then(|formatter| formatter.value(row).try_to_string());
            let text = text.unwrap_or_default();
            match ty.is_integer() || *ty == DataType::Boolean {
                true => out.extend(text.bytes()),
                false => string(&text, out),
            }
        }
    }
}

fn items(values: &ArrayRef, out: &mut Vec<u8>) {
    out.push(b'[');
    for index in 0..values.len() {
        if index > 0 {
            out.push(b',');
        }
        write(values, index, out);
    }
    out.push(b']');
}

fn number(value: f64, out: &mut Vec<u8>) {
    if !value.is_finite() {
        out.push(b'"');
    }
    float64(value, out);
    if !value.is_finite() {
        out.push(b'"');
    }
}

fn string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend([b'\\', byte]),
            0..0x20 => out.extend(format!("\\u{byte:04x}").bytes()),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}
