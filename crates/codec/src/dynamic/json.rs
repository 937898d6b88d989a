//! Canonical JSON.
//!
//! A message is one object: `"$type"`, `"symbol"` and `"timestamp"` from its header, then its fields in order. Nulls
//! are left out, but where the field's default is something else. Exact numbers (`decimal64`, `decimal(18,s)`) are strings, so that no reader rounds them; times are
//! ISO 8601 strings; enums are their symbols; binary is hexadecimal; `NaN` and infinities are strings, and there is one
//! `NaN`: its sign and payload are lost. A nested record carries `"$type"` where its field has several alternatives.
//! (`from_json.rs` reads it.)

use super::error::EncodeError;
use super::reference::{ArrayRef, AsciiRef, RecordRef, ValueRef};
use super::tail::{Tail, is_plain};
use std::fmt;
use std::io::Write;
use tapedb_schema::{TimeText, Timestamp};

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
        let mut times = TimeText::default();
        let mut tail = Tail::of(out, &mut times);
        write_record(self, true, |_| (), &mut tail);
        tail.finish();
    }

    /// Appends the record as the JSON object of a message with this header.
    pub fn write_message_json(self, symbol: &str, time: Timestamp, out: &mut Vec<u8>) {
        self.write_next_message_json(symbol, time, &mut TimeText::default(), out);
    }

    /// [`Self::write_message_json`] of one message after the other, most with times of the same second: `times` keeps its text.
    pub fn write_next_message_json(
        self,
        symbol: &str,
        time: Timestamp,
        times: &mut TimeText,
        out: &mut Vec<u8>,
    ) {
        let header = |out: &mut Tail<'_>| {
            out.text(b",\"symbol\":");
            write_text(symbol, out);
            out.text(b",\"timestamp\":");
            out.timestamp(time);
        };
        let mut tail = Tail::of(out, times);
        write_record(self, true, header, &mut tail);
        tail.finish();
    }
}

fn write_record(record: RecordRef<'_>, typed: bool, header: impl FnOnce(&mut Tail<'_>), out: &mut Tail<'_>) {
    let (start, names) = (out.len(), &record.layout().names);
    // All begin with a comma; the first one becomes the brace.
    if typed {
        out.name(&names.record);
    }
    header(out);
    let mut values = record.values();
    for field in &names.fields {
        // A call to `zip` is not inlined here, and then each value goes through memory.
        let Some(value) = values.next() else { break };
        if !value.is_null() || field.has_default {
            out.name(&field.key);
            write_one(value, field.typed, out);
        }
    }
    if out.len() == start {
        out.byte(b'{');
    } else {
        out.replace(start, b'{');
    }
    out.byte(b'}');
}

/// The items of an array. Most arrays are of records.
fn write_array(array: ArrayRef<'_>, typed: bool, out: &mut Tail<'_>) {
    let start = out.len();
    for value in array.iter() {
        out.byte(b',');
        match value {
            ValueRef::Record(record) => write_record(record, typed, |_| (), out),
            value => write_one(value, typed, out),
        }
    }
    if out.len() == start {
        out.byte(b'[');
    } else {
        out.replace(start, b'[');
    }
    out.byte(b']');
}

/// Appends one value; nested records carry their `"$type"`.
pub(super) fn write_value(value: ValueRef<'_>, out: &mut Vec<u8>) {
    let mut times = TimeText::default();
    let mut tail = Tail::of(out, &mut times);
    write_one(value, true, &mut tail);
    tail.finish();
}

/// Inlined where values are decoded, so that a value's kind is found once.
#[inline(always)]
fn write_one(value: ValueRef<'_>, typed: bool, out: &mut Tail<'_>) {
    match value {
        ValueRef::Null => out.text(b"null"),
        ValueRef::Bool(x) => out.text(if x { &b"true"[..] } else { b"false" }),
        ValueRef::Int(x) => out.integer(x),
        ValueRef::UInt(x) => out.number(x),
        ValueRef::F32(x) => write_f32(x, out),
        ValueRef::F64(x) => write_f64(x, out),
        ValueRef::Decimal(x) => out.decimal(x),
        ValueRef::Scaled(x, scale) => write_scaled(x, scale, out),
        ValueRef::Timestamp(x) => out.timestamp(x),
        ValueRef::TimeOfDay(x) => out.time_of_day(x),
        ValueRef::Char(x) => write_text(x.encode_utf8(&mut [0; 4]), out),
        ValueRef::Ascii(x) => write_ascii(x, out),
        ValueRef::Text(x) => write_text(x, out),
        ValueRef::Binary(bytes) => write_binary(bytes, out),
        ValueRef::Enum(value) => match value.name() {
            Some(name) => out.name(name),
            None => out.text(b"\"\""),
        },
        ValueRef::Array(array) => write_array(array, typed, out),
        ValueRef::Record(record) => write_record(record, typed, |_| (), out),
    }
}

fn write_f32(x: f32, out: &mut Tail<'_>) {
    if x.is_finite() { push(out, format_args!("{x:?}")) } else { write_unusual(x.into(), out) }
}

fn write_f64(x: f64, out: &mut Tail<'_>) {
    if x.is_finite() { push(out, format_args!("{x:?}")) } else { write_unusual(x, out) }
}

fn write_ascii(text: AsciiRef<'_>, out: &mut Tail<'_>) {
    match text.as_bytes().try_into() {
        Ok(eight) if out.short_text::<8>(eight) => {}
        _ => write_text(text.as_str(), out),
    }
}

fn write_binary(bytes: &[u8], out: &mut Tail<'_>) {
    out.byte(b'"');
    bytes.iter().for_each(|byte| out.text(&[byte >> 4, byte & 15].map(hexadecimal)));
    out.byte(b'"');
}

fn hexadecimal(digit: u8) -> u8 {
    if digit < 10 { b'0' + digit } else { b'a' + digit - 10 }
}

/// For what is rare.
fn push(out: &mut Tail<'_>, text: fmt::Arguments<'_>) {
    let mut bytes = Vec::new();
    bytes.write_fmt(text).expect("a vector takes every write");
    out.text(&bytes);
}

fn write_unusual(x: f64, out: &mut Tail<'_>) {
    let name: &[u8] = match (x.is_nan(), x > 0.0) {
        (true, _) => b"\"NaN\"",
        (_, true) => b"\"Infinity\"",
        _ => b"\"-Infinity\"",
    };
    out.text(name);
}

fn write_scaled(units: i64, scale: u8, out: &mut Tail<'_>) {
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
fn write_text(text: &str, out: &mut Tail<'_>) {
    if text.bytes().all(is_plain) {
        out.byte(b'"');
        out.text(text.as_bytes());
        return out.byte(b'"');
    }
    let mut quoted = Vec::new();
    serde_json::to_writer(&mut quoted, text).expect("a vector takes every write");
    out.text(&quoted);
}
