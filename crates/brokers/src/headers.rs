//! Headers of records, the same for both brokers.

use crc_fast::{CrcAlgorithm, Digest};
use tapedb_schema::Schema;

/// Name of the stream.
pub(crate) const STREAM: &str = "tapedb-stream";
/// Id of the stream in hexadecimal: it stays the same after a rename, and no other stream has it.
pub(crate) const STREAM_ID: &str = "tapedb-stream-id";
/// Number of the space.
pub(crate) const SPACE: &str = "tapedb-space";
/// Sequence number of the message.
pub(crate) const SEQUENCE: &str = "tapedb-sequence";
/// Name of the record type.
pub(crate) const TYPE: &str = "tapedb-type";
/// Time in nanoseconds since 1970.
pub(crate) const TIME: &str = "tapedb-time";
/// The symbol, where the broker's records have no key.
pub(crate) const SYMBOL: &str = "tapedb-symbol";
/// [`ROW`]: the value is a row of the stream's schema. Without it, JSON.
pub(crate) const ENCODING: &str = "tapedb-encoding";
/// The identity of the schema of a row.
pub(crate) const SCHEMA: &str = "tapedb-schema";
/// The value of [`ENCODING`] for rows.
pub(crate) const ROW: &str = "row";

/// What a record's headers state of it.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Marks {
    /// The symbol.
    pub symbol: Option<String>,
    /// Time in nanoseconds since 1970.
    pub time: Option<i64>,
    /// The record type.
    pub record: Option<String>,
    /// The identity of the schema, if the value is a row.
    pub schema: Option<String>,
    /// An encoding that there is none of.
    pub unknown_encoding: Option<String>,
    /// Whether the value is a row.
    pub is_row: bool,
    /// The stream that it was exported from.
    pub stream_id: Option<String>,
    /// The space that it was exported from.
    pub space: Option<u32>,
    /// Its sequence number there.
    pub sequence: Option<u64>,
}

impl Marks {
    /// Takes a header; others than those of exports are passed over.
    pub fn take(&mut self, name: &str, value: &[u8]) {
        if !name.starts_with("tapedb-") {
            return;
        }
        let Ok(text) = str::from_utf8(value) else { return };
        match name {
            SYMBOL => self.symbol = Some(text.into()),
            TIME => self.time = text.parse().ok(),
            TYPE => self.record = Some(text.into()),
            SCHEMA => self.schema = Some(text.into()),
            ENCODING if text == ROW => self.is_row = true,
            ENCODING if text != "json" => self.unknown_encoding = Some(text.into()),
            STREAM_ID => self.stream_id = Some(text.into()),
            SPACE => self.space = text.parse().ok(),
            SEQUENCE => self.sequence = text.parse().ok(),
            _ => {}
        }
    }
}

/// The identity of a schema: a checksum of its text.
pub(crate) fn schema_identity(schema: &Schema) -> String {
    format!("{:016x}", checksum(schema.to_string().as_bytes()))
}

/// A checksum of 64 bits.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
    digest.update(bytes);
    digest.finalize()
}

/// A stream's id as headers and names of the broker have it.
pub(crate) fn id_text(id: u64) -> String {
    format!("{id:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_others_are_passed_over() {
        let mut marks = Marks::default();
        marks.take("tapedb-sequence", b"x");
        marks.take("tapedb-time", &[0xff]);
        marks.take("traceparent", b"7");
        assert_eq!(marks, Marks::default());
        marks.take("tapedb-sequence", b"7");
        marks.take("tapedb-encoding", b"json");
        marks.take("tapedb-encoding", b"row");
        assert_eq!((marks.sequence, marks.is_row, marks.unknown_encoding), (Some(7), true, None));
    }

    #[test]
    fn a_schema_has_one_identity() {
        let of = |text: &str| schema_identity(&text.parse().expect("a schema"));
        assert_eq!(of("message A { x: i64 }"), of("message  A {\n x: i64 }"));
        assert_ne!(of("message A { x: i64 }"), of("message A { x: u64 }"));
    }
}
