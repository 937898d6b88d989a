//! Where a file comes from: metadata that lets an import restore the stream.

use parquet::file::metadata::KeyValue;

/// Keys of a file's metadata.
const STREAM: &str = "tapedb.stream";
const SCHEMA: &str = "tapedb.schema";
const RECORD: &str = "tapedb.record";
const DECIMALS: &str = "tapedb.decimals";
const SEQUENCES: &str = "tapedb.sequences";

/// The stream that a file was exported from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Its name.
    pub stream: String,
    /// Its whole schema, as text.
    pub schema: String,
    /// The record type of the rows.
    pub record: String,
    /// What decimals became, in the words of `tapedb export --decimals`: with `raw` nothing is lost.
    pub decimals: String,
    /// Whether the file has the messages' sequence numbers, so that files of several record types merge exactly.
    pub sequences: bool,
}

impl Origin {
    /// The entries of a file's metadata.
    pub(crate) fn entries(&self) -> Vec<KeyValue> {
        let entry = |key: &str, value: &str| KeyValue::new(key.into(), Some(value.into()));
        vec![
            entry(STREAM, &self.stream),
            entry(SCHEMA, &self.schema),
            entry(RECORD, &self.record),
            entry(DECIMALS, &self.decimals),
            entry(SEQUENCES, if self.sequences { "true" } else { "false" }),
        ]
    }

    /// The origin of a file; `None`: TapeDB did not write it.
    pub(crate) fn of(entries: &[KeyValue]) -> Option<Self> {
        let value = |key: &str| entries.iter().find(|entry| entry.key == key)?.value.clone();
        Some(Self {
            stream: value(STREAM)?,
            schema: value(SCHEMA)?,
            record: value(RECORD)?,
            decimals: value(DECIMALS)?,
            sequences: value(SEQUENCES)? == "true",
        })
    }
}
