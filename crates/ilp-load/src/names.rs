//! Names of the line protocol as names of record types and fields: these are letters, digits and `_`, ASCII only.

use tapedb_ilp::Refusal;
use tapedb_schema::{RecordType, Schema};

/// What a message has besides its fields, and words of the schema language.
const NOT_FIELDS: [&str; 7] = ["symbol", "time", "timestamp", "type", "null", "true", "false"];

/// The field of a tag or a field: every character that a name cannot have becomes `_`.
pub(crate) fn field_name(name: &[u8]) -> Result<String, Refusal> {
    let name = utf8(name, "name")?;
    let mut field = plain(name);
    if NOT_FIELDS.contains(&&*field) {
        field.push('_');
    }
    Ok(field)
}

/// The record type of a table.
pub(crate) fn record_name(table: &str) -> String {
    let mut name = table.split('.').map(plain).collect::<Vec<_>>().join(".");
    let is_taken = |name: &str| {
        let record = RecordType { name: name.into(), message: true, fields: Vec::new(), doc: String::new() };
        Schema { enums: Vec::new(), records: vec![record] }.validate().is_err()
    };
    if is_taken(&name) {
        name.push('_');
    }
    name
}

/// A text that has to be UTF-8.
pub(crate) fn utf8<'a>(bytes: &'a [u8], what: &str) -> Result<&'a str, Refusal> {
    str::from_utf8(bytes)
        .map_err(|error| format!("the {what} is not UTF-8: byte {} of it", error.valid_up_to() + 1).into())
}

fn plain(name: &str) -> String {
    let starts_well = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    let mut plain = String::with_capacity(name.len() + 1);
    if !starts_well {
        plain.push('_');
    }
    plain.extend(
        name.chars().map(|character| if character.is_ascii_alphanumeric() { character } else { '_' }),
    );
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_names_of_the_schema() {
        for (name, field) in [
            ("price", "price"),
            ("usage idle", "usage_idle"),
            ("5m", "_5m"),
            ("type", "type_"),
            ("größe", "gr__e"),
        ] {
            assert_eq!(field_name(name.as_bytes()).as_deref(), Ok(field), "{name}");
        }
        assert!(field_name(b"a\xff").unwrap_err().contains("byte 2"));
        for (table, record) in [
            ("trades", "trades"),
            ("us.trades", "us.trades"),
            ("a..b", "a._.b"),
            ("string", "string_"),
            ("a b", "a_b"),
        ] {
            assert_eq!(record_name(table), record, "{table}");
        }
    }
}
