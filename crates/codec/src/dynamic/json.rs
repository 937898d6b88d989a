//! Canonical JSON.
//!
//! A message is one object: `"$type"`, `"symbol"` and `"timestamp"` from its header, then its fields in order. Nulls
//! are left out, but where the field's default is something else. Exact numbers (`decimal64`, `decimal(18,s)`) are strings, so that no reader rounds them; times are
//! ISO 8601 strings; enums are their symbols; binary is hexadecimal; `NaN` and infinities are strings, and there is one
//! `NaN`: its sign and payload are lost. A nested record carries `"$type"` where its field has several alternatives.
//! (`from_json.rs` reads it.)

use super::error::EncodeError;
use super::layouts::TypeLayout;
use super::reference::{RecordRef, ValueRef};
use std::fmt;
use std::io::Write;
use tapedb_schema::Timestamp;

/// JSON that is not a message of the schema.
#[derive(Debug)]
pub enum JsonError {
    /// Not JSON at all; the message has line and column.
    Syntax(serde_json::Error),
    /// JSON, but not of this schema.
    Mismatch(EncodeError),
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(error) => write!(f, "not JSON: {error}"),
            Self::Mismatch(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for JsonError {}

impl RecordRef<'_> {
    /// Appends the record as one JSON object without a header.
    pub fn write_json(self, out: &mut Vec<u8>) {
        write_record(self, true, |_| (), out);
    }

    /// Appends the record as the JSON object of a message with this header.
    pub fn write_message_json(self, symbol: &str, time: Timestamp, out: &mut Vec<u8>) {
        let header = |out: &mut Vec<u8>| {
            out.extend_from_slice(b",\"symbol\":");
            write_text(symbol, out);
            push(out, format_args!(",\"timestamp\":\"{time}\""));
        };
        write_record(self, true, header, out);
    }
}

fn write_record(record: RecordRef<'_>, typed: bool, header: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
    out.push(b'{');
    let start = out.len();
    if typed {
        out.extend_from_slice(b"\"$type\":");
        write_text(&record.layout().name, out);
    }
    header(out);
    for (field, value) in record.fields() {
        if value.is_null() && !field.has_default {
            continue;
        }
        if out.len() > start {
            out.push(b',');
        }
        write_text(&field.name, out);
        out.push(b':');
        write_typed(&field.ty, value, out);
    }
    out.push(b'}');
}

fn write_typed(ty: &TypeLayout, value: ValueRef<'_>, out: &mut Vec<u8>) {
    match (ty, value) {
        (TypeLayout::Record(types), ValueRef::Record(record)) => {
            write_record(record, types.len() > 1, |_| (), out);
        }
        (TypeLayout::Array(item), ValueRef::Array(array)) => {
            write_list(array.iter(), out, |value, out| write_typed(&item.ty, value, out));
        }
        (_, value) => write_value(value, out),
    }
}

fn write_list<'a>(
    values: impl Iterator<Item = ValueRef<'a>>,
    out: &mut Vec<u8>,
    write: impl Fn(ValueRef<'a>, &mut Vec<u8>),
) {
    out.push(b'[');
    for (i, value) in values.enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write(value, out);
    }
    out.push(b']');
}

/// Appends one value; nested records carry their `"$type"`.
pub(super) fn write_value(value: ValueRef<'_>, out: &mut Vec<u8>) {
    match value {
        ValueRef::Null => out.extend_from_slice(b"null"),
        ValueRef::Bool(x) => push(out, format_args!("{x}")),
        ValueRef::Int(x) => push(out, format_args!("{x}")),
        ValueRef::UInt(x) => push(out, format_args!("{x}")),
        ValueRef::F32(x) if x.is_finite() => push(out, format_args!("{x:?}")),
        ValueRef::F32(x) => write_unusual(x.into(), out),
        ValueRef::F64(x) if x.is_finite() => push(out, format_args!("{x:?}")),
        ValueRef::F64(x) => write_unusual(x, out),
        ValueRef::Decimal(x) => push(out, format_args!("\"{x}\"")),
        ValueRef::Scaled(x, scale) => write_scaled(x, scale, out),
        ValueRef::Timestamp(x) => push(out, format_args!("\"{x}\"")),
        ValueRef::TimeOfDay(x) => push(out, format_args!("\"{x}\"")),
        ValueRef::Char(x) => write_text(x.encode_utf8(&mut [0; 4]), out),
        ValueRef::Ascii(x) => write_text(x.as_str(), out),
        ValueRef::Text(x) => write_text(x, out),
        ValueRef::Binary(bytes) => {
            out.push(b'"');
            bytes.iter().for_each(|byte| push(out, format_args!("{byte:02x}")));
            out.push(b'"');
        }
        ValueRef::Enum(value) => write_text(value.symbol(), out),
        ValueRef::Array(array) => write_list(array.iter(), out, write_value),
        ValueRef::Record(record) => write_record(record, true, |_| (), out),
    }
}

fn push(out: &mut Vec<u8>, text: fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a vector takes every write");
}

fn write_unusual(x: f64, out: &mut Vec<u8>) {
    let name = match (x.is_nan(), x > 0.0) {
        (true, _) => "NaN",
        (_, true) => "Infinity",
        _ => "-Infinity",
    };
    push(out, format_args!("\"{name}\""));
}

fn write_scaled(units: i64, scale: u8, out: &mut Vec<u8>) {
    let sign = if units < 0 { "-" } else { "" };
    let digits = units.unsigned_abs();
    let power = 10u64.pow(scale.into());
    if scale == 0 {
        push(out, format_args!("\"{sign}{digits}\""));
    } else {
        let width = usize::from(scale);
        push(out, format_args!("\"{sign}{}.{:0width$}\"", digits / power, digits % power));
    }
}

/// A JSON string.
fn write_text(text: &str, out: &mut Vec<u8>) {
    serde_json::to_writer(out, text).expect("a vector takes every write");
}
