//! Names of the columns of a message's header.
//!
//! No message type has a field `time` or `symbol`, but it may have one with the name of another column. Then that column is called
//! otherwise, so that no two columns have the same name, which many programs refuse.

use tapedb_schema::RecordType;

pub(crate) const TIME: &str = "time";
pub(crate) const SYMBOL: &str = "symbol";

/// The columns besides these two.
pub(crate) const SEQUENCE: &str = "sequence";
pub(crate) const SPACE: &str = "space";
pub(crate) const STREAM: &str = "stream";

/// What stands before the name of a field, for the header's column.
const PREFIX: &str = "message_";

/// The name of a header's column in record batches of a record type: `time`, `symbol`, `sequence`, `space` and `stream`, with
/// `message_` before it where the record type has a field of that name.
pub fn header_column(record: &RecordType, name: &str) -> String {
    let mut free = name.to_string();
    while record.fields.iter().any(|field| field.name == free) {
        free.insert_str(0, PREFIX);
    }
    free
}

#[cfg(test)]
mod tests {
    use super::*;
    use tapedb_schema::Schema;

    #[test]
    fn names_are_those_of_no_field() {
        let schema: Schema = "message M { stream: u8, sequence: u8, message_sequence: u8 }".parse().unwrap();
        let name = |name: &str| header_column(&schema.records[0], name);
        assert_eq!([name("time"), name("space"), name("stream")], ["time", "space", "message_stream"]);
        assert_eq!(name("sequence"), "message_message_sequence");
    }
}
