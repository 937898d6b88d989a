//! Messages as JSON. The first byte chooses a sample schema, or the market records; the rest is the text.

use crate::Target;
use crate::schemas::{SAMPLES, market_layouts, sample_layouts};
use crate::values::Values;
use tapedb_codec::dynamic::{Layouts, RecordValue};
use tapedb_schema::Timestamp;

/// See the module.
pub const TARGET: Target = Target { name: "json_text", run, seed };

/// JSON that is accepted encodes to a valid body or says why not, and its canonical form gives that body again.
pub fn run(input: &[u8]) {
    let [schema, text @ ..] = input else { return };
    let Ok(text) = str::from_utf8(text) else { return };
    let layouts = layouts(*schema);
    for parsed in [layouts.from_json(text), layouts.message_from_json(text).map(|(_, _, record)| record)] {
        match parsed {
            Ok(record) => accepted(layouts, &record),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

fn accepted(layouts: &Layouts, record: &RecordValue) {
    let mut body = Vec::new();
    if let Err(error) = layouts.encode(record, &mut body) {
        assert!(body.is_empty() && !error.path.is_empty());
        return;
    }
    let mut canonical = Vec::new();
    let view = layouts.view(record.type_id, &body).expect("what was encoded is valid");
    view.write_message_json("SYM", Timestamp(1), &mut canonical);
    let canonical = String::from_utf8(canonical).expect("JSON is UTF-8");
    let (_, _, again) = layouts.message_from_json(&canonical).unwrap_or_else(|e| panic!("{e}: {canonical}"));
    let mut bytes = Vec::new();
    layouts.encode(&again, &mut bytes).expect("canonical JSON can be encoded");
    assert_eq!(bytes, body, "by way of {canonical}");
}

/// One number past the samples chooses the market records.
fn layouts(choice: u8) -> &'static Layouts {
    match usize::from(choice) % (SAMPLES + 1) {
        SAMPLES => market_layouts(),
        sample => sample_layouts(sample),
    }
}

fn seed(number: u64) -> Vec<u8> {
    let choice = (number % (SAMPLES as u64 + 1)) as u8;
    let layouts = layouts(choice);
    let mut record = RecordValue::default();
    let messages: Vec<u16> =
        (0..).zip(layouts.records()).filter(|(_, layout)| layout.message).map(|(id, _)| id).collect();
    Values::new(layouts, number).fill(messages[number as usize / 64 % messages.len()], &mut record);
    let mut body = Vec::new();
    layouts.encode(&record, &mut body).expect("a random record is valid");
    let mut input = vec![choice];
    layouts.view(record.type_id, &body).expect("valid").write_json(&mut input);
    input
}
