//! Messages as JSON for browsers: 64-bit integers, times and decimals are texts, because a browser's numbers would round them. Times
//! are nanoseconds since 1970.

use serde_json::to_writer;
use std::io::Write;
use tapedb_codec::dynamic::{RecordRef, TypeLayout, ValueRef};
use tapedb_engine::{Error, Message};
use tapedb_schema::{Scalar, Timestamp};

/// Appends a message as an object.
///
/// # Errors
/// When the message is damaged.
pub(crate) fn write_message(message: &Message<'_>, out: &mut Vec<u8>) -> Result<(), Error> {
    let record = message.record()?;
    let head = Head {
        time: message.time(),
        symbol: message.symbol(),
        type_name: message.type_name(),
        sequence: message.sequence(),
        space: message.space(),
    };
    head.write(record, out);
    Ok(())
}

/// What a message has beside its fields.
pub(crate) struct Head<'a> {
    pub time: Timestamp,
    pub symbol: &'a str,
    pub type_name: &'a str,
    pub sequence: u64,
    pub space: u32,
}

impl Head<'_> {
    /// Appends the message with this head.
    pub fn write(&self, record: RecordRef<'_>, out: &mut Vec<u8>) {
        let _ = write!(out, "{{\"time\":\"{}\",\"symbol\":", self.time.nanos());
        write_text(self.symbol, out);
        out.extend_from_slice(b",\"type\":");
        write_text(self.type_name, out);
        let _ = write!(out, ",\"sequence\":\"{}\",\"space\":{},\"body\":", self.sequence, self.space);
        write_record(record, None, out);
        out.push(b'}');
    }
}

/// Appends a text as JSON.
pub(crate) fn write_text(text: &str, out: &mut Vec<u8>) {
    // A vector takes every write.
    let _ = to_writer(out, text);
}

/// Appends a number; what JSON has no number for is a text.
pub(crate) fn write_float(number: f64, out: &mut Vec<u8>) {
    let _ = match number {
        _ if number.is_finite() => to_writer(out, &number).map_err(Into::into),
        _ if number.is_nan() => out.write_all(b"\"NaN\""),
        _ if number > 0.0 => out.write_all(b"\"Infinity\""),
        _ => out.write_all(b"\"-Infinity\""),
    };
}

/// Appends bytes as hexadecimal digits.
pub(crate) fn write_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in bytes {
        let _ = write!(out, "{byte:02x}");
    }
    out.push(b'"');
}

/// `name`: the record's type, where there are several.
fn write_record(record: RecordRef<'_>, name: Option<&str>, out: &mut Vec<u8>) {
    out.push(b'{');
    let mut is_first = true;
    let mut key = |name: &str, out: &mut Vec<u8>| {
        if !std::mem::take(&mut is_first) {
            out.push(b',');
        }
        write_text(name, out);
        out.push(b':');
    };
    if let Some(name) = name {
        key("$type", out);
        write_text(name, out);
    }
    for (field, value) in record.fields() {
        key(&field.name, out);
        write_value(value, Shape::of(&field.ty), out);
    }
    out.push(b'}');
}

/// What a type says of how its values are written.
#[derive(Clone, Copy)]
struct Shape {
    /// Records are one of several types.
    is_tagged: bool,
    /// Integers may have more digits than a browser's numbers.
    is_wide: bool,
}

impl Shape {
    fn of(ty: &TypeLayout) -> Self {
        match ty {
            TypeLayout::Record(alternatives) => Self { is_tagged: alternatives.len() > 1, is_wide: false },
            TypeLayout::Array(item) => Self::of(&item.ty),
            TypeLayout::Scalar(scalar) => {
                Self { is_tagged: false, is_wide: matches!(scalar, Scalar::I64 | Scalar::U64) }
            }
            _ => Self { is_tagged: false, is_wide: false },
        }
    }
}

fn write_value(value: ValueRef<'_>, shape: Shape, out: &mut Vec<u8>) {
    let _ = match value {
        ValueRef::Null => out.write_all(b"null"),
        ValueRef::Bool(true) => out.write_all(b"true"),
        ValueRef::Bool(false) => out.write_all(b"false"),
        // The type decides, not the value: a field is always a text, or always a number.
        ValueRef::Int(number) if shape.is_wide => write!(out, "\"{number}\""),
        ValueRef::Int(number) => write!(out, "{number}"),
        ValueRef::UInt(number) if shape.is_wide => write!(out, "\"{number}\""),
        ValueRef::UInt(number) => write!(out, "{number}"),
        ValueRef::F32(number) => return write_float(shortest(number), out),
        ValueRef::F64(number) => return write_float(number, out),
        ValueRef::Timestamp(time) => write!(out, "\"{}\"", time.nanos()),
        ValueRef::Binary(bytes) => return write_bytes(bytes, out),
        ValueRef::Enum(value) => return write_text(value.symbol(), out),
        ValueRef::Text(text) => return write_text(text, out),
        ValueRef::Ascii(text) => return write_text(text.as_str(), out),
        ValueRef::Array(array) => {
            out.push(b'[');
            for (index, item) in array.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_value(item, shape, out);
            }
            out.write_all(b"]")
        }
        ValueRef::Record(record) => {
            return write_record(record, shape.is_tagged.then_some(record.layout().name.as_str()), out);
        }
        // Their texts are exact.
        ValueRef::Decimal(number) => write!(out, "\"{number}\""),
        ValueRef::TimeOfDay(time) => write!(out, "\"{time}\""),
        // A text already.
        value @ ValueRef::Scaled(..) => write!(out, "{value}"),
        ValueRef::Char(letter) => return write_text(letter.encode_utf8(&mut [0; 4]), out),
    };
}

/// The number whose shortest text is that of the narrower one: 0.1, not 0.10000000149.
fn shortest(number: f32) -> f64 {
    if number.is_finite() { number.to_string().parse().unwrap_or(number.into()) } else { number.into() }
}
