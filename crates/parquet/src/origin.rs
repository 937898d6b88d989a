//! Where a file comes from: metadata that lets an import restore the stream.

use arrow_schema::Schema;
use parquet::file::metadata::KeyValue;
use std::collections::HashMap;

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
    fn texts(&self) -> [(&'static str, &str); 5] {
        [
            (STREAM, &self.stream),
            (SCHEMA, &self.schema),
            (RECORD, &self.record),
            (DECIMALS, &self.decimals),
            (SEQUENCES, if self.sequences { "true" } else { "false" }),
        ]
    }

    /// The entries of a file's metadata.
    pub(crate) fn entries(&self) -> Vec<KeyValue> {
        self.texts().map(|(key, value)| KeyValue::new(key.into(), Some(value.into()))).into()
    }

    /// The columns of an Arrow file with this metadata.
    #[must_use]
    pub fn with_columns(&self, columns: &Schema) -> Schema {
        let mut metadata = columns.metadata().clone();
        metadata.extend(self.texts().map(|(key, value)| (key.into(), value.into())));
        columns.clone().with_metadata(metadata)
    }

    /// The origin of a Parquet file; `None`: TapeDB did not write it.
    pub(crate) fn of(entries: &[KeyValue]) -> Option<Self> {
        Self::of_values(|key| entries.iter().find(|entry| entry.key == key)?.value.clone())
    }

    /// The origin of an Arrow file.
    pub(crate) fn of_metadata(metadata: &HashMap<String, String>) -> Option<Self> {
        Self::of_values(|key| metadata.get(key).cloned())
    }

    fn of_values(value: impl Fn(&str) -> Option<String>) -> Option<Self> {
        Some(Self {
            stream: value(STREAM)?,
            schema: value(SCHEMA)?,
            record: value(RECORD)?,
            decimals: value(DECIMALS)?,
            sequences: value(SEQUENCES)? == "true",
        })
    }
}
