//! Records of a broker as messages: JSON, or rows of the stream's schema.

use crate::headers::{Marks, schema_identity};
use serde_json::{Map, Value};
use tapedb_codec::dynamic::{BareTimes, Layouts, RecordValue};
use tapedb_schema::{Schema, Timestamp};

/// A record of a broker.
#[derive(Debug, Clone, Copy)]
pub struct Incoming<'a> {
    /// Its key.
    pub key: Option<&'a [u8]>,
    /// Its value.
    pub value: Option<&'a [u8]>,
    /// When the broker's client or the broker says it was made, in nanoseconds since 1970.
    pub time: Option<i64>,
    /// What its headers state.
    pub marks: &'a Marks,
}

/// How the names and times of JSON become those of the stream.
#[derive(Debug, Clone, Default)]
pub struct Mapping {
    /// The field with the time; without it `timestamp`, and where there is none the record's own time.
    pub time: Option<String>,
    /// The field with the symbol; without it `symbol`, and where there is none the record's key.
    pub symbol: Option<String>,
    /// Names in the JSON and the fields that they are; an empty field leaves the value out.
    pub renamed: Vec<(String, String)>,
    /// The record type of JSON that states none.
    pub record: Option<String>,
    /// How times that are bare numbers are read.
    pub times: BareTimes,
}

impl Mapping {
    fn is_plain(&self) -> bool {
        self.time.is_none() && self.symbol.is_none() && self.renamed.is_empty() && self.record.is_none()
    }
}

/// A message.
#[derive(Debug)]
pub(crate) struct Decoded<'a> {
    pub symbol: String,
    pub time: Timestamp,
    pub content: Content<'a>,
}

/// What a message says.
#[derive(Debug)]
pub(crate) enum Content<'a> {
    Value(RecordValue),
    Row { type_id: u16, body: &'a [u8] },
}

/// Makes messages of records.
#[derive(Debug)]
pub struct Decoder {
    layouts: Layouts,
    mapping: Mapping,
    schema: String,
}

impl Decoder {
    /// For a stream's schema.
    ///
    /// # Errors
    /// When the mapping names a record type or a field that the schema does not have.
    pub fn new(schema: &Schema, mapping: Mapping) -> Result<Self, String> {
        let layouts = Layouts::new(schema.clone()).map_err(|error| error.to_string())?;
        let messages = || layouts.records().iter().filter(|record| record.message);
        if let Some(wanted) = &mapping.record
            && !messages().any(|record| record.name == *wanted)
        {
            let names: Vec<&str> = messages().map(|record| record.name.as_str()).collect();
            return Err(format!("the stream has no record type {wanted:?}; it has {}", names.join(", ")));
        }
        for (_, field) in mapping.renamed.iter().filter(|(_, field)| !field.is_empty()) {
            if !messages().any(|record| record.field(field).is_some()) {
                return Err(format!("the stream has no field {field:?}; `tapedb desc` shows them"));
            }
        }
        Ok(Self { schema: schema_identity(schema), layouts, mapping })
    }

    /// The message of a record; or why it is none.
    pub(crate) fn decode<'a>(&self, record: &Incoming<'a>) -> Result<Decoded<'a>, String> {
        let value = record.value.filter(|value| !value.is_empty()).ok_or("it has no value")?;
        if let Some(unknown) = &record.marks.unknown_encoding {
            return Err(format!("its encoding {unknown:?} is none that this program reads"));
        }
        match record.marks.is_row {
            true => self.row(record, value),
            false => self.json(record, value),
        }
    }

    /// Body and record type as the stream stores them, to compare with a stored message.
    pub(crate) fn body(&self, decoded: &Decoded<'_>) -> Option<(u16, Vec<u8>)> {
        match &decoded.content {
            Content::Row { type_id, body } => Some((*type_id, body.to_vec())),
            Content::Value(value) => {
                let mut body = Vec::new();
                self.layouts.encode(value, &mut body).ok()?;
                Some((value.type_id, body))
            }
        }
    }

    fn row<'a>(&self, record: &Incoming<'a>, value: &'a [u8]) -> Result<Decoded<'a>, String> {
        let marks = record.marks;
        match &marks.schema {
            Some(schema) if *schema == self.schema => {}
            _ => {
                return Err(
                    "it is a row of another schema; export it as JSON, or give the stream that schema".into(),
                );
            }
        }
        let name = marks.record.as_deref().unwrap_or_default();
        let mut records = self.layouts.records().iter();
        let type_id = records.position(|record| record.message && record.name == name);
        let type_id = type_id.ok_or_else(|| format!("the stream has no record type {name:?}"))?;
        let time = marks.time.ok_or("it has no header tapedb-time")?;
        let content = Content::Row { type_id: type_id as u16, body: value };
        Ok(Decoded { symbol: symbol_of(record, None)?, time: Timestamp(time), content })
    }

    fn json<'a>(&self, record: &Incoming<'a>, value: &'a [u8]) -> Result<Decoded<'a>, String> {
        let not_utf8 =
            |error: std::str::Utf8Error| format!("it is not UTF-8 from byte {} on", error.valid_up_to() + 1);
        let text = str::from_utf8(value).map_err(not_utf8)?;
        let needs_type = record.marks.record.is_some() && self.layouts.records().len() > 1;
        let renamed = if self.mapping.is_plain() && !needs_type {
            None
        } else {
            Some(self.renamed(text, record.marks)?)
        };
        let read =
            self.layouts.message_from_json_with(renamed.as_deref().unwrap_or(text), self.mapping.times);
        let (symbol, time, content) = read.map_err(|error| error.to_string())?;
        let time = time.map(Timestamp::nanos).or(record.marks.time).or(record.time);
        let time = time.ok_or("it has no \"timestamp\", and the broker states no time")?;
        Ok(Decoded {
            symbol: symbol_of(record, symbol)?,
            time: Timestamp(time),
            content: Content::Value(content),
        })
    }

    /// The JSON with the names of the stream.
    fn renamed(&self, text: &str, marks: &Marks) -> Result<String, String> {
        let Mapping { time, symbol, renamed, record, .. } = &self.mapping;
        let read: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let Value::Object(object) = read else { return Err("it is no object of JSON".into()) };
        let mut named = Map::new();
        for (name, value) in object {
            let field = renamed.iter().find(|(from, _)| *from == name).map(|(_, field)| field.as_str());
            let field = match field {
                Some("") => continue,
                Some(field) => field,
                None if time.as_deref() == Some(&name) => "timestamp",
                None if symbol.as_deref() == Some(&name) => "symbol",
                None => &name,
            };
            // A number as a symbol is its digits.
            let value = match value {
                Value::Number(number) if field == "symbol" => Value::String(number.to_string()),
                value => value,
            };
            if named.insert(field.to_string(), value).is_some() {
                return Err(format!("it has {field:?} twice after names were mapped"));
            }
        }
        for (wanted, field) in [(time, "timestamp"), (symbol, "symbol")] {
            if let Some(wanted) = wanted
                && !named.contains_key(field)
            {
                return Err(format!("it has no {wanted:?}"));
            }
        }
        if let Some(record) = record.as_ref().or(marks.record.as_ref())
            && !named.contains_key("$type")
        {
            named.insert("$type".into(), Value::String(record.clone()));
        }
        Ok(Value::Object(named).to_string())
    }
}

/// The symbol in the JSON, else in the headers, else the key.
fn symbol_of(record: &Incoming<'_>, stated: Option<String>) -> Result<String, String> {
    if let Some(symbol) = stated.or_else(|| record.marks.symbol.clone()) {
        return Ok(symbol);
    }
    let key = record.key.filter(|key| !key.is_empty()).ok_or("it has no \"symbol\" and no key")?;
    str::from_utf8(key)
        .map(str::to_string)
        .map_err(|_| "it has no \"symbol\", and its key is not UTF-8".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = "message Trade { price: f64 = 0, size: i64 = 0 } message Quote { bid: f64 = 0 }";

    fn decoder(mapping: Mapping) -> Decoder {
        Decoder::new(&SCHEMA.parse().expect("a schema"), mapping).expect("it fits")
    }

    fn decoded(
        decoder: &Decoder,
        text: &str,
        key: Option<&str>,
        marks: &Marks,
    ) -> Result<(String, i64, u16), String> {
        let record =
            Incoming { key: key.map(str::as_bytes), value: Some(text.as_bytes()), time: Some(5), marks };
        let found = decoder.decode(&record)?;
        let type_id = decoder.body(&found).expect("it encodes").0;
        Ok((found.symbol, found.time.0, type_id))
    }

    #[test]
    fn symbol_and_time_come_from_the_record_where_the_json_has_none() {
        let (plain, none) = (decoder(Mapping::default()), Marks::default());
        let trade = "{\"$type\":\"Trade\",\"price\":1.5}";
        assert_eq!(decoded(&plain, trade, Some("A"), &none), Ok(("A".into(), 5, 0)));
        let stated = "{\"$type\":\"Quote\",\"symbol\":\"B\",\"timestamp\":7}";
        assert_eq!(decoded(&plain, stated, Some("A"), &none), Ok(("B".into(), 7, 1)));
        assert!(decoded(&plain, trade, None, &none).unwrap_err().contains("no key"));
        let marks = Marks {
            record: Some("Quote".into()),
            symbol: Some("C".into()),
            time: Some(9),
            ..Marks::default()
        };
        assert_eq!(decoded(&plain, "{\"bid\":1}", Some("A"), &marks), Ok(("C".into(), 9, 1)));
    }

    #[test]
    fn names_are_mapped() {
        let mapping = Mapping {
            time: Some("ts".into()),
            symbol: Some("s".into()),
            renamed: vec![("p".into(), "price".into()), ("junk".into(), String::new())],
            record: Some("Trade".into()),
            ..Mapping::default()
        };
        let mapped = decoder(mapping);
        let none = Marks::default();
        let text = "{\"ts\":7,\"s\":42,\"p\":1.5,\"junk\":[1]}";
        assert_eq!(decoded(&mapped, text, None, &none), Ok(("42".into(), 7, 0)));
        for (bad, why) in [
            ("{\"s\":\"A\",\"p\":1}", "no \"ts\""),
            ("{\"ts\":7,\"p\":1}", "no \"s\""),
            ("{\"ts\":7,\"s\":\"A\",\"p\":1,\"price\":2}", "twice"),
            ("[]", "no object"),
            ("{", "EOF"),
        ] {
            let refused = decoded(&mapped, bad, None, &none).unwrap_err();
            assert!(refused.contains(why), "{bad}: {refused}");
        }
        let unknown = Mapping { record: Some("Bar".into()), ..Mapping::default() };
        assert!(
            Decoder::new(&SCHEMA.parse().expect("a schema"), unknown).unwrap_err().contains("Trade, Quote")
        );
    }

    #[test]
    fn rows_of_another_schema_are_refused() {
        let decoder = decoder(Mapping::default());
        let mut marks =
            Marks { is_row: true, record: Some("Trade".into()), time: Some(1), ..Marks::default() };
        let record = |marks: &Marks| {
            let record = Incoming { key: Some(b"A"), value: Some(&[0; 16]), time: None, marks };
            decoder.decode(&record).map(drop)
        };
        assert!(record(&marks).unwrap_err().contains("another schema"));
        marks.schema = Some(decoder.schema.clone());
        assert_eq!(record(&marks), Ok(()));
        marks.record = Some("Bar".into());
        assert!(record(&marks).unwrap_err().contains("no record type"));
    }
}
