//! Bodies of messages, read by the interpreter.
//!
//! The first byte chooses a sample schema, the second a record type, the rest is the body.

use crate::Target;
use crate::schemas::{SAMPLES, sample_layouts};
use crate::values::Values;
use tapedb_codec::dynamic::{ArrayRef, Layouts, RecordRef, RecordValue, ValueRef};
use tapedb_schema::Timestamp;

/// See the module.
pub const TARGET: Target = Target { name: "row_layout", run, seed };

/// What validation accepts is what encoding would write, in every way of reading; what only decoding accepts can still
/// be looked at safely.
pub fn run(input: &[u8]) {
    let [schema, record, body @ ..] = input else { return };
    let layouts = sample_layouts((*schema).into());
    let type_id = u16::from(*record) % layouts.records().len() as u16;
    interpreted(layouts, type_id, body);
}

/// [`run`] for a body of any schema.
pub fn interpreted(layouts: &Layouts, type_id: u16, body: &[u8]) {
    let decoded = layouts.decode(type_id, body);
    match layouts.check(type_id, body) {
        Ok(()) => valid(layouts, type_id, body, &decoded.expect("what passes validation can be decoded")),
        Err(error) => {
            assert!(!error.to_string().is_empty());
            if let Ok(value) = decoded {
                lenient(layouts, &value);
            }
        }
    }
}

fn valid(layouts: &Layouts, type_id: u16, body: &[u8], value: &RecordValue) {
    let mut bytes = Vec::with_capacity(body.len());
    layouts.encode(value, &mut bytes).expect("what was decoded from valid bytes can be encoded");
    assert_eq!(bytes, body, "encoding again gives other bytes");
    let record = layouts.view(type_id, body).expect("valid");
    walk(record);
    let mut assigned = RecordValue::default();
    assigned.assign(record);
    bytes.clear();
    layouts.encode(&assigned, &mut bytes).expect("a copy of a valid record can be encoded");
    assert_eq!(bytes, body, "the copied values differ");
    json(layouts, record, body);
}

/// JSON and back: the same bytes, but that JSON has one NaN.
fn json(layouts: &Layouts, record: RecordRef<'_>, body: &[u8]) {
    let mut text = Vec::new();
    record.write_json(&mut text);
    let text = String::from_utf8(text).expect("JSON is UTF-8");
    if !record.layout().message {
        return;
    }
    let value = layouts.from_json(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let mut bytes = Vec::new();
    layouts.encode(&value, &mut bytes).unwrap_or_else(|error| panic!("{error}: {text}"));
    if !text.contains("\"NaN\"") {
        assert_eq!(bytes, body, "by way of {text}");
    }
    let mut again = Vec::new();
    layouts.view(value.type_id, &bytes).expect("valid").write_json(&mut again);
    assert_eq!(String::from_utf8_lossy(&again), text);
}

/// Bytes that encoding would not have written, but that have a value: it encodes to a valid body or is refused.
fn lenient(layouts: &Layouts, value: &RecordValue) {
    let mut bytes = Vec::new();
    if layouts.encode(value, &mut bytes).is_ok() {
        let record = layouts.view(value.type_id, &bytes).expect("what was encoded is valid");
        walk(record);
    }
}

/// Looks at every value in every way.
pub fn walk(record: RecordRef<'_>) {
    for (field, value) in record.fields() {
        assert!(record.get(&field.name).is_some());
        look(value);
    }
    let mut json = Vec::new();
    record.write_message_json("A\"B", Timestamp(0), &mut json);
    assert!(str::from_utf8(&json).is_ok());
    assert!(!format!("{record:?}").is_empty());
}

fn look(value: ValueRef<'_>) {
    let _ = value.to_string();
    match value {
        ValueRef::Array(array) => items(array),
        ValueRef::Record(record) => record.values().for_each(look),
        _ => {}
    }
}

fn items(array: ArrayRef<'_>) {
    assert_eq!(array.iter().count(), array.len());
    array.iter().for_each(look);
}

fn seed(number: u64) -> Vec<u8> {
    let schema = (number % SAMPLES as u64) as u8;
    let layouts = sample_layouts(schema.into());
    let type_id = (number / SAMPLES as u64 % layouts.records().len() as u64) as u16;
    let mut record = RecordValue::default();
    Values::new(layouts, number).fill(type_id, &mut record);
    let mut input = vec![schema, type_id as u8];
    layouts.encode(&record, &mut input).expect("a random record is valid");
    input
}
