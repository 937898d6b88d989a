//! Messages and records from JSON, as `json.rs` writes it.
//!
//! Of a key that an object has twice the last one counts. Nesting beyond the depth of messages is refused.

use super::error::{EncodeError, need};
use super::json::JsonError;
use super::layouts::{FieldLayout, ItemLayout, Layouts, TypeLayout};
use super::value::{RecordValue, Value};
use crate::layout::MAX_DEPTH;
use crate::shown::{quoted, shortened};
use serde_json::{Map, Value as Json};
use std::str::FromStr;
use tapedb_schema::{Ascii, Scalar, TimeOfDay, TimeUnit, Timestamp};

/// How the bare numbers of times are read, in JSON and in texts of digits alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BareTimes {
    /// They count nanoseconds since 1970, whatever that makes of them.
    #[default]
    Nanos,
    /// They count nanoseconds since 1970 where that is a time from March 1973 on; others are refused, for they are more likely
    /// seconds, milliseconds or microseconds.
    PlausibleNanos,
    /// They count this since 1970.
    In(TimeUnit),
}

impl Layouts {
    /// The record in one JSON object, whose `"$type"` names its record type; it may be left out if the schema has only
    /// one message type.
    ///
    /// # Errors
    /// When the text is not JSON, or not a record of this schema.
    pub fn from_json(&self, text: &str) -> Result<RecordValue, JsonError> {
        let object = object(text)?;
        let reader = Reader { layouts: self, times: BareTimes::Nanos };
        reader.record(&object, &self.message_types(), &[], 0).map_err(JsonError::Mismatch)
    }

    /// The message in one JSON object: its symbol and time, where it has them, and its record.
    ///
    /// # Errors
    /// As [`Layouts::from_json`].
    pub fn message_from_json(
        &self,
        text: &str,
    ) -> Result<(Option<String>, Option<Timestamp>, RecordValue), JsonError> {
        self.message_from_json_with(text, BareTimes::Nanos)
    }

    /// [`Layouts::message_from_json`], with a stated unit for bare numbers of times, in the header and in fields.
    ///
    /// # Errors
    /// As [`Layouts::from_json`].
    pub fn message_from_json_with(
        &self,
        text: &str,
        times: BareTimes,
    ) -> Result<(Option<String>, Option<Timestamp>, RecordValue), JsonError> {
        let reader = Reader { layouts: self, times };
        reader.message(&object(text)?).map_err(JsonError::Mismatch)
    }

    fn message_types(&self) -> Vec<u16> {
        let messages = self.records().iter().enumerate().filter(|(_, record)| record.message);
        messages.map(|(id, _)| id as u16).collect()
    }
}

/// The object that the text is.
fn object(text: &str) -> Result<Map<String, Json>, JsonError> {
    match serde_json::from_str(text).map_err(JsonError::Syntax)? {
        Json::Object(object) => Ok(object),
        json => Err(JsonError::Mismatch(EncodeError::new("an object", kind(&json)))),
    }
}

/// Makes values of JSON.
struct Reader<'a> {
    layouts: &'a Layouts,
    times: BareTimes,
}

impl Reader<'_> {
    fn message(
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
            Some(json) => Some(self.time(json).map_err(|e| e.within("timestamp"))?),
        };
        let record = self.record(object, &self.layouts.message_types(), &["symbol", "timestamp"], 0)?;
        Ok((symbol, time, record))
    }

    fn record(
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
        let layout = &self.layouts.records()[usize::from(type_id)];
        let known = |key: &str| key == "$type" || header.contains(&key) || layout.field(key).is_some();
        if let Some(unknown) = object.keys().find(|key| !known(key)) {
            let names: Vec<&str> = layout.fields.iter().map(|field| field.name.as_str()).collect();
            let need = format!("one of the fields {}", names.join(", "));
            return Err(EncodeError::new(need, quoted(unknown)).within(&layout.name));
        }
        let mut fields = Vec::with_capacity(layout.fields.len());
        for (index, field) in layout.fields.iter().enumerate() {
            let value = match object.get(&field.name) {
                Some(json) => self.field(field, json, depth),
                None => self.layouts.default_of(type_id, index),
            };
            fields.push(value.map_err(|e| e.within(&field.name).within(&layout.name))?);
        }
        Ok(RecordValue { type_id, fields })
    }

    fn type_of(&self, object: &Map<String, Json>, types: &[u16]) -> Result<u16, EncodeError> {
        let name = |id: &u16| self.layouts.records()[usize::from(*id)].name.as_str();
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

    fn field(&self, field: &FieldLayout, json: &Json, depth: u32) -> Result<Value, EncodeError> {
        match json {
            Json::Null if field.null_bit.is_some() => Ok(Value::Null),
            json => self.value(&field.ty, json, depth),
        }
    }

    fn value(&self, ty: &TypeLayout, json: &Json, depth: u32) -> Result<Value, EncodeError> {
        let bad = || EncodeError::new(need(ty), kind(json));
        Ok(match (ty, json) {
            (TypeLayout::Scalar(scalar), json) => self.scalar(*scalar, json)?,
            (TypeLayout::String, Json::String(x)) => Value::Text(x.clone()),
            (TypeLayout::Binary, Json::String(x)) => Value::Binary(hexadecimal(x).ok_or_else(bad)?),
            (TypeLayout::Enum { index, .. }, Json::String(x)) => self.symbol(*index, x)?,
            (TypeLayout::Array(item), Json::Array(list)) => self.array(item, list, depth)?,
            (TypeLayout::Record(types), Json::Object(object)) => {
                Value::Record(self.record(object, types, &[], depth + 1)?)
            }
            _ => return Err(bad()),
        })
    }

    fn scalar(&self, ty: Scalar, json: &Json) -> Result<Value, EncodeError> {
        use Scalar as S;
        let bad = || EncodeError::new(need(&TypeLayout::Scalar(ty)), kind(json));
        Ok(match (ty, json) {
            (S::Bool, Json::Bool(x)) => Value::Bool(*x),
            (integer, Json::Number(x)) if integer.is_integer() && integer.is_signed() => {
                Value::Int(x.as_i64().ok_or_else(bad)?)
            }
            (integer, Json::Number(x)) if integer.is_integer() => Value::UInt(x.as_u64().ok_or_else(bad)?),
            (S::F32, json) => Value::F32(float(json).ok_or_else(bad)?),
            (S::F64, json) => Value::F64(float(json).ok_or_else(bad)?),
            (S::Decimal64, Json::String(x)) => Value::Decimal(x.parse().map_err(|_| bad())?),
            (S::Decimal64, Json::Number(x)) => Value::Decimal(x.to_string().parse().map_err(|_| bad())?),
            (S::Decimal(scale), Json::String(x)) => scaled(x, scale).ok_or_else(bad)?,
            (S::Decimal(scale), Json::Number(x)) => scaled(&x.to_string(), scale).ok_or_else(bad)?,
            (S::Timestamp, json) => Value::Timestamp(self.time(json)?),
            (S::TimeOfDay, Json::String(x)) => Value::TimeOfDay(self.time_of_day(x)?.ok_or_else(bad)?),
            (S::Char, Json::String(x)) => Value::Char(single(x).ok_or_else(bad)?),
            (S::Ascii(_), Json::String(x)) => Value::Ascii(Ascii::new(x).map_err(|_| bad())?),
            _ => return Err(bad()),
        })
    }

    fn symbol(&self, index: usize, symbol: &str) -> Result<Value, EncodeError> {
        let found = &self.layouts.schema().enums[index];
        match found.ordinal(symbol) {
            Some(ordinal) => Ok(Value::Enum(ordinal)),
            None => {
                let known: Vec<&str> = found.symbols.iter().take(20).map(|(name, _)| name.as_str()).collect();
                Err(EncodeError::new(format!("one of {}", known.join(", ")), quoted(symbol)))
            }
        }
    }

    fn array(&self, item: &ItemLayout, list: &[Json], depth: u32) -> Result<Value, EncodeError> {
        let one = |(i, json): (usize, &Json)| match json {
            Json::Null if item.nullable => Ok(Value::Null),
            json => self.value(&item.ty, json, depth + 1).map_err(|e| e.within(format_args!("[{i}]"))),
        };
        Ok(Value::Array(list.iter().enumerate().map(one).collect::<Result<_, _>>()?))
    }
}

impl Reader<'_> {
    fn time(&self, json: &Json) -> Result<Timestamp, EncodeError> {
        let bad = || EncodeError::new(TIME_NEEDED, kind(json));
        match json {
            Json::String(text) => match self.times {
                BareTimes::In(unit) => unit.parse(text).map_or_else(|| text.parse().map_err(|_| bad()), Ok),
                _ => self.plausible(text.parse().map_err(|_| bad())?, is_bare(text)),
            },
            Json::Number(number) => match (number.as_i64(), self.times) {
                (None, _) => Err(bad()),
                (Some(number), BareTimes::In(unit)) => unit.timestamp(number).ok_or_else(bad),
                (Some(number), _) => self.plausible(Timestamp(number), true),
            },
            _ => Err(bad()),
        }
    }

    /// A time of day; bare numbers have the stated unit. Without one, those that could count seconds,
    /// milliseconds or microseconds are refused.
    fn time_of_day(&self, text: &str) -> Result<Option<TimeOfDay>, EncodeError> {
        if let (true, BareTimes::In(unit)) = (is_bare(text), self.times) {
            return Ok(unit.parse(text).and_then(|time| TimeOfDay::from_nanos(time.nanos())));
        }
        let time: Option<TimeOfDay> = text.parse().ok();
        let micros_of_day = TimeOfDay::MAX.nanos() / TimeUnit::Micros.nanos();
        let is_doubtful = is_bare(text) && self.times == BareTimes::PlausibleNanos;
        match time {
            Some(time) if is_doubtful && time.nanos() <= micros_of_day => Err(doubtful_time_of_day(text)),
            time => Ok(time),
        }
    }

    /// The time, unless it is of a bare number that hardly counts nanoseconds.
    fn plausible(&self, time: Timestamp, is_bare: bool) -> Result<Timestamp, EncodeError> {
        let is_doubtful = is_bare && self.times == BareTimes::PlausibleNanos;
        if is_doubtful && !TimeUnit::Nanos.is_plausible(time.nanos()) {
            return Err(doubtful(time));
        }
        Ok(time)
    }
}

const TIME_NEEDED: &str = "a time such as \"2013-10-07T13:30:00.123Z\" or ns since 1970";

/// Says what a bare number would be in nanoseconds, and what it probably is.
#[cold]
fn doubtful(time: Timestamp) -> EncodeError {
    let number = time.nanos();
    let guess = TimeUnit::of(number).and_then(|unit| Some((unit, unit.timestamp(number)?)));
    let guess = guess.map(|(unit, time)| format!(", and in {} {time}", unit.name())).unwrap_or_default();
    EncodeError::new(
        "a time such as \"2013-10-07T13:30:00.123Z\", or ns since 1970 from 1973 on",
        format!("{number}, which in nanoseconds is {time}{guess}"),
    )
}

#[cold]
fn doubtful_time_of_day(text: &str) -> EncodeError {
    let need = "a time of day such as \"09:30:00.123\"";
    EncodeError::new(
        need,
        format!("{text}, which may count seconds, milliseconds, microseconds or nanoseconds"),
    )
}

/// Whether a text is a number, after an optional minus.
fn is_bare(text: &str) -> bool {
    text.strip_prefix('-').unwrap_or(text).bytes().all(|byte| byte.is_ascii_digit())
}

/// What a piece of JSON is, shortly, for messages to people.
fn kind(json: &Json) -> String {
    match json {
        Json::String(text) => quoted(text),
        json => shortened(&json.to_string()),
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    fn time(json: &str, times: BareTimes) -> Result<String, String> {
        let layouts = Layouts::new("message Tick { at: timestamp? }".parse().unwrap()).unwrap();
        let text = format!(r#"{{"symbol": "A", "timestamp": {json}, "at": {json}}}"#);
        match layouts.message_from_json_with(&text, times) {
            Ok((_, time, record)) => {
                // The header and fields are read alike.
                assert_eq!(record.fields, [Value::Timestamp(time.unwrap())], "{json}");
                Ok(time.unwrap().to_string())
            }
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn bare_numbers_are_nanoseconds_only_where_they_can_be() {
        let read = |json: &str| time(json, BareTimes::PlausibleNanos);
        for json in ["1381156202000000000", "\"1381156202000000000\"", "\"2013-10-07T14:30:02Z\""] {
            assert_eq!(read(json).unwrap(), "2013-10-07T14:30:02Z", "{json}");
        }
        for (number, unit) in [
            ("1381156202", "seconds"),
            ("1381156202000", "milliseconds"),
            ("1381156202000000", "microseconds"),
        ] {
            for json in [number.to_string(), format!("\"{number}\"")] {
                let error = read(&json).unwrap_err();
                assert!(error.contains(&format!("in {unit} 2013-10-07T14:30:02Z")), "{error}");
                assert!(error.contains("in nanoseconds is 1970-01-"), "{error}");
            }
        }
        assert!(read("7").unwrap_err().ends_with("in nanoseconds is 1970-01-01T00:00:00.000000007Z"));
        // A text has no unit, however old.
        assert_eq!(read("\"1970-01-01\"").unwrap(), "1970-01-01T00:00:00Z");
        assert_eq!(time("7", BareTimes::Nanos).unwrap(), "1970-01-01T00:00:00.000000007Z");
    }

    #[test]
    fn bare_times_of_day_are_not_guessed_either() {
        let layouts = Layouts::new("message Tick { at: time_of_day }".parse().unwrap()).unwrap();
        let read = |text: &str, times| {
            let text = format!(r#"{{"symbol": "A", "timestamp": "2013-10-07", "at": "{text}"}}"#);
            let (_, _, record) = layouts.message_from_json_with(&text, times).ok()?;
            match &record.fields[0] {
                Value::TimeOfDay(time) => Some(time.to_string()),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(read("09:30", BareTimes::PlausibleNanos).unwrap(), "09:30:00");
        assert_eq!(read("34200000000000", BareTimes::PlausibleNanos).unwrap(), "09:30:00");
        for text in ["34200", "34200000", "34200000000"] {
            assert_eq!(read(text, BareTimes::PlausibleNanos), None, "{text}");
        }
        assert_eq!(read("34200000", BareTimes::In(TimeUnit::Millis)).unwrap(), "09:30:00");
        assert_eq!(read("34200", BareTimes::Nanos).unwrap(), "00:00:00.000034200");
        assert_eq!(read("86400", BareTimes::In(TimeUnit::Seconds)), None);
    }

    #[test]
    fn bare_numbers_are_in_the_unit_that_was_named() {
        let read = |json: &str, unit| time(json, BareTimes::In(unit));
        assert_eq!(read("1381156202", TimeUnit::Seconds).unwrap(), "2013-10-07T14:30:02Z");
        assert_eq!(read("\"1381156202.25\"", TimeUnit::Seconds).unwrap(), "2013-10-07T14:30:02.250Z");
        assert_eq!(read("7", TimeUnit::Nanos).unwrap(), "1970-01-01T00:00:00.000000007Z");
        assert_eq!(read("\"2013-10-07\"", TimeUnit::Seconds).unwrap(), "2013-10-07T00:00:00Z");
        // A float may have been rounded when it was read: its text may not.
        for json in ["1381156202.25", "10000000000", "\"1381156202.0000000001\"", "true", "1e9"] {
            assert!(read(json, TimeUnit::Seconds).unwrap_err().contains("a time such as"), "{json}");
        }
    }
}
