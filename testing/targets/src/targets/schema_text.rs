//! Schema texts.

use crate::Target;
use crate::sample;
use tapedb_codec::dynamic::Layouts;
use tapedb_schema::Schema;

/// See the module.
pub const TARGET: Target = Target { name: "schema_text", run, seed };

/// A text that is read is valid, and printing it gives a text that reads as the same schema.
pub fn run(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    match text.parse::<Schema>() {
        Ok(schema) => accepted(schema),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn accepted(schema: Schema) {
    assert_eq!(schema.validate(), Ok(()));
    let printed = schema.to_string();
    let again: Schema = match printed.parse() {
        Ok(again) => again,
        Err(error) => panic!("{error} in the printed text\n{printed}"),
    };
    assert_eq!(again, schema, "{printed}");
    assert_eq!(again.to_string(), printed);
    assert!(Layouts::new(schema).is_ok());
}

fn seed(number: u64) -> Vec<u8> {
    sample::schema(number % 1000).to_string().into_bytes()
}
