//! Canonical JSON, both ways.
//!
//! A message is one object: `"$type"`, `"symbol"` and `"timestamp"` from its header, then its fields in order. Nulls
//! are left out, but where the field's default is something else. Exact numbers (`decimal64`, `decimal(18,s)`) are strings, so that no reader rounds them; times are
//! ISO 8601 strings; enums are their symbols; binary is hexadecimal; `NaN` and infinities are strings, and there is one
//! `NaN`: its sign and payload are lost. A nested record carries `"$type"` where its field has several alternatives.
//!
//! Of a key that an object has twice the last one counts. Nesting beyond the depth of messages is refused.

use super::layouts::{FieldLayout, ItemLayout, Layouts, TypeLayout};
use super::reference::{RecordRef, ValueRef};
use super::value::{RecordValue, Value};
use super::write::{EncodeError, need};
use crate::layout::MAX_DEPTH;
use serde_json::{Map, Value as Json};
use std::fmt;
use std::io::Write;
use std::str::FromStr;
use tapedb_schema::{Ascii, Timestamp};

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

impl Layouts {
    /// The record in one JSON object, whose `"$type"` names its record type; it may be left out if the schema has only
    /// one message type.
    ///
    /// # Errors
    /// When the text is not JSON, or not a record of this schema.
    pub fn from_json(&self, text: &str) -> Result<RecordValue, JsonError> {
        let json = serde_json::from_str(text).map_err(JsonError::Syntax)?;
        let Json::Object(object) = json else {
            return Err(JsonError::Mismatch(EncodeError::new("an object", kind(&json))));
        };
        self.record_from(&object, &self.message_types(), &[], 0).map_err(JsonError::Mismatch)
    }

    /// The message in one JSON object: its symbol and time, where it has them, and its record.
    ///
    /// # Errors
    /// As [`Layouts::from_json`].
    pub fn message_from_json(
        &self,
        text: &str,
    ) -> Result<(Option<String>, Option<Timestamp>, RecordValue), JsonError> {
        let json = serde_json::from_str(text).map_err(JsonError::Syntax)?;
        let Json::Object(object) = json else {
            return Err(JsonError::Mismatch(EncodeError::new("an object", kind(&json))));
        };
        self.message_from(&object).map_err(JsonError::Mismatch)
    }

    fn message_from(
        &self,
        object: &Map<String, Json>,
    ) -> Result<(Option<String>, Option<Timestamp>, RecordValue), EncodeError> {
        let symbol = match object.get("symbol") {
            None => None,
            Some(Json::String(symbol)) => Some(symbol.clone()),
            Some(other) => return Err(EncodeError::new("a string", kind(other)).within("symbol")),
        };
        let time = match object.get("timestamp") {
            None => None,
            Some(json) => Some(timestamp(json).map_err(|e| e.within("timestamp"))?),
        };
        let record = self.record_from(object, &self.message_types(), &["symbol", "timestamp"], 0)?;
        Ok((symbol, time, record))
    }

    fn message_types(&self) -> Vec<u16> {
        let messages = self.records().iter().enumerate().filter(|(_, record)| record.message);
        messages.map(|(id, _)| id as u16).collect()
    }

    fn record_from(
        &self,
        object: &Map<String, Json>,
        types: &[u16],
        header: &[&str],
        depth: u32,
    ) -> Result<RecordValue, EncodeError> {
        if depth > MAX_DEPTH {
            return Err(EncodeError::new(format!("at most {MAX_DEPTH} levels"), depth.to_string()));
        }
        let type_id = self.type_of(object, types)?;
        let layout = &self.records()[usize::from(type_id)];
        let known = |key: &str| key == "$type" || header.contains(&key) || layout.field(key).is_some();
        if let Some(unknown) = object.keys().find(|key| !known(key)) {
            let names: Vec<&str> = layout.fields.iter().map(|field| field.name.as_str()).collect();
            let need = format!("one of the fields {}", names.join(", "));
            return Err(EncodeError::new(need, quoted(unknown)).within(&layout.name));
        }
        let mut fields = Vec::with_capacity(layout.fields.len());
        for (index, field) in layout.fields.iter().enumerate() {
            let value = match object.get(&field.name) {
                Some(json) => self.field_from(field, json, depth),
                None => self.default_of(type_id, index),
            };
            fields.push(value.map_err(|e| e.within(&field.name).within(&layout.name))?);
        }
        Ok(RecordValue { type_id, fields })
    }

    fn type_of(&self, object: &Map<String, Json>, types: &[u16]) -> Result<u16, EncodeError> {
        let name = |id: &u16| self.records()[usize::from(*id)].name.as_str();
        let names = || types.iter().map(name).collect::<Vec<_>>().join(" or ");
        match (object.get("$type"), types) {
            (Some(Json::String(wanted)), _) => types
                .iter()
                .find(|id| name(id) == wanted)
                .copied()
                .ok_or_else(|| EncodeError::new(format!("\"$type\" {}", names()), quoted(wanted))),
            (None, [only]) => Ok(*only),
            (None, _) => Err(EncodeError::new(format!("a \"$type\": {}", names()), "none")),
            (Some(other), _) => Err(EncodeError::new("\"$type\" as a string", kind(other))),
        }
    }

    fn field_from(&self, field: &FieldLayout, json: &Json, depth: u32) -> Result<Value, EncodeError> {
        match json {
            Json::Null if field.null_bit.is_some() => Ok(Value::Null),
            json => self.value_from(&field.ty, json, depth),
        }
    }

    fn value_from(&self, ty: &TypeLayout, json: &Json, depth: u32) -> Result<Value, EncodeError> {
        let bad = || EncodeError::new(need(ty), kind(json));
        Ok(match (ty, json) {
            (TypeLayout::Bool, Json::Bool(x)) => Value::Bool(*x),
            (TypeLayout::I8 | TypeLayout::I16 | TypeLayout::I32 | TypeLayout::I64, Json::Number(x)) => {
                Value::Int(x.as_i64().ok_or_else(bad)?)
            }
            (TypeLayout::U8 | TypeLayout::U16 | TypeLayout::U32 | TypeLayout::U64, Json::Number(x)) => {
                Value::UInt(x.as_u64().ok_or_else(bad)?)
            }
            (TypeLayout::F32, json) => Value::F32(float(json).ok_or_else(bad)?),
            (TypeLayout::F64, json) => Value::F64(float(json).ok_or_else(bad)?),
            (TypeLayout::Decimal64, Json::String(x)) => Value::Decimal(x.parse().map_err(|_| bad())?),
            (TypeLayout::Decimal64, Json::Number(x)) => {
                Value::Decimal(x.to_string().parse().map_err(|_| bad())?)
            }
            (TypeLayout::Decimal(scale), Json::String(x)) => scaled(x, *scale).ok_or_else(bad)?,
            (TypeLayout::Decimal(scale), Json::Number(x)) => {
                scaled(&x.to_string(), *scale).ok_or_else(bad)?
            }
            (TypeLayout::Timestamp, json) => Value::Timestamp(timestamp(json)?),
            (TypeLayout::TimeOfDay, Json::String(x)) => Value::TimeOfDay(x.parse().map_err(|_| bad())?),
            (TypeLayout::Char, Json::String(x)) => Value::Char(single(x).ok_or_else(bad)?),
            (TypeLayout::Ascii(_), Json::String(x)) => Value::Ascii(Ascii::new(x).map_err(|_| bad())?),
            (TypeLayout::String, Json::String(x)) => Value::Text(x.clone()),
            (TypeLayout::Binary, Json::String(x)) => Value::Binary(hexadecimal(x).ok_or_else(bad)?),
            (TypeLayout::Enum { index, .. }, Json::String(x)) => self.symbol(*index, x)?,
            (TypeLayout::Array(item), Json::Array(list)) => self.array_from(item, list, depth)?,
            (TypeLayout::Record(types), Json::Object(object)) => {
                Value::Record(self.record_from(object, types, &[], depth + 1)?)
            }
            _ => return Err(bad()),
        })
    }

    fn symbol(&self, index: usize, symbol: &str) -> Result<Value, EncodeError> {
        let found = &self.schema().enums[index];
        match found.ordinal(symbol) {
            Some(ordinal) => Ok(Value::Enum(ordinal)),
            None => {
                let known: Vec<&str> = found.symbols.iter().take(20).map(|(name, _)| name.as_str()).collect();
                Err(EncodeError::new(format!("one of {}", known.join(", ")), quoted(symbol)))
            }
        }
    }

    fn array_from(&self, item: &ItemLayout, list: &[Json], depth: u32) -> Result<Value, EncodeError> {
        let one = |(i, json): (usize, &Json)| match json {
            Json::Null if item.nullable => Ok(Value::Null),
            json => self.value_from(&item.ty, json, depth + 1).map_err(|e| e.within(format_args!("[{i}]"))),
        };
        Ok(Value::Array(list.iter().enumerate().map(one).collect::<Result<_, _>>()?))
    }
}

/// What a piece of JSON is, shortly, for messages to people.
fn kind(json: &Json) -> String {
    match json {
        Json::String(text) => quoted(text),
        json => shortened(&json.to_string()),
    }
}

/// A text in quotes, shortly: it may be of any length.
fn quoted(text: &str) -> String {
    let front: String = text.chars().take(SHOWN + 1).collect();
    shortened(&format!("{front:?}"))
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into(),
    }
}

/// Most characters of the input that a message to people repeats.
const SHOWN: usize = 40;

/// An `f32` or `f64`. A number too large for it is refused, not made infinite.
fn float<T: FromStr + Into<f64> + Copy>(json: &Json) -> Option<T> {
    // By way of the text: rounding a decimal to f64 and then to f32 may round twice.
    let (text, number) = match json {
        Json::Number(x) => (x.to_string(), true),
        Json::String(x) => (x.clone(), !matches!(x.as_str(), "NaN" | "Infinity" | "-Infinity")),
        _ => return None,
    };
    let value: T = text.parse().ok()?;
    (!number || value.into().is_finite()).then_some(value)
}

fn scaled(text: &str, scale: u8) -> Option<Value> {
    // Up to eighteen digits: more than a decimal64 holds, so not by way of one.
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1i128, digits),
        None => (1, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let fraction = fraction.trim_end_matches('0');
    let plain = |part: &str| part.len() <= 20 && part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !plain(whole) || !plain(fraction) || fraction.len() > usize::from(scale) {
        return None;
    }
    let units = format!("{whole}{fraction:0<width$}", width = usize::from(scale)).parse::<i128>().ok()?;
    Some(Value::Scaled(i64::try_from(sign * units).ok()?, scale))
}

fn timestamp(json: &Json) -> Result<Timestamp, EncodeError> {
    let bad =
        |have: String| EncodeError::new("a time such as \"2013-10-07T13:30:00.123Z\" or ns since 1970", have);
    match json {
        Json::String(text) => text.parse().map_err(|_| bad(kind(json))),
        Json::Number(ns) => ns.as_i64().map(Timestamp).ok_or_else(|| bad(ns.to_string())),
        other => Err(bad(kind(other))),
    }
}

fn single(text: &str) -> Option<char> {
    let mut letters = text.chars();
    letters.next().filter(|_| letters.next().is_none())
}

fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let nibble = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    let pair = |pair: &[u8]| Some(nibble(pair[0])? << 4 | nibble(pair[1])?);
    if !text.len().is_multiple_of(2) {
        return None;
    }
    text.as_bytes().chunks(2).map(pair).collect()
}
