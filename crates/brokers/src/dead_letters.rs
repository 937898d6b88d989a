//! The stream of records that are no messages: nothing that a broker had is dropped without a trace.
//!
//! Each partition is a producer here too, so a bad record is there once, however often it is read.

use crate::error::Error;
use std::collections::HashMap;
use tapedb_codec::{Binary, Record, SchemaBuilder};
use tapedb_engine::{Database, Loader, Stream, StreamOptions};
use tapedb_schema::Timestamp;

// The doc comments are part of the schema on the disk, so they do not change.
/// A record of a broker that is no message of the stream.
#[derive(Record, Default, Debug, Clone, PartialEq)]
#[record(message, name = "BadRecord")]
pub(crate) struct BadRecord {
    /// Topic and partition, or the JetStream stream.
    pub source: String,
    /// Its offset there.
    pub offset: u64,
    /// Why it is no message.
    pub reason: String,
    /// Its key.
    pub key: Binary,
    /// Its value.
    pub value: Binary,
}

/// Offsets that a broker had removed before they were read.
#[derive(Record, Default, Debug, Clone, PartialEq)]
#[record(message, name = "LostRecords")]
pub(crate) struct LostOffsets {
    /// Topic and partition, or the JetStream stream.
    pub source: String,
    /// The first one.
    pub first: u64,
    /// The one after the last.
    pub end: u64,
}

/// Bytes of a key or value that are kept of a bad record.
const BYTES_MAX: usize = 4 << 20;

/// Writes them.
#[derive(Debug)]
pub(crate) struct DeadLetters {
    stream: Stream,
    loaders: HashMap<u64, Loader>,
}

impl DeadLetters {
    /// Opens the stream, or creates it.
    ///
    /// # Errors
    /// The engine's; when the stream is of something else.
    pub fn open(db: &Database, name: &str, beside: &Stream) -> Result<Self, Error> {
        let schema = SchemaBuilder::new().with::<BadRecord>().with::<LostOffsets>().finish();
        let options = StreamOptions { durability: beside.options().durability, ..StreamOptions::default() };
        let stream = db.open_or_create_stream(name, schema.clone(), options)?;
        if *stream.schema() != schema {
            return Err(Error::Settings(format!(
                "stream {name:?} is no stream of bad records; name another one"
            )));
        }
        Ok(Self { stream, loaders: HashMap::new() })
    }

    /// Keeps a bad record.
    pub fn keep(&mut self, producer: u64, topic: &str, time: i64, bad: BadRecord) -> Result<(), Error> {
        let (offset, topic) = (bad.offset, symbol(topic));
        let loader = self.loader(producer)?;
        loader.set_position(offset)?;
        Ok(loader.append(topic, Timestamp(time), &bad)?)
    }

    /// Records that offsets were removed.
    pub fn lost(&mut self, producer: u64, topic: &str, time: i64, lost: LostOffsets) -> Result<(), Error> {
        let (first, topic) = (lost.first, symbol(topic));
        let loader = self.loader(producer)?;
        loader.set_position(first)?;
        Ok(loader.append(topic, Timestamp(time), &lost)?)
    }

    /// Stores them: before the messages behind them, whose position says that all before was read.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.loaders.values_mut().try_for_each(|loader| loader.flush().map(drop)).map_err(Error::from)
    }

    fn loader(&mut self, producer: u64) -> Result<&mut Loader, Error> {
        use std::collections::hash_map::Entry;
        match self.loaders.entry(producer) {
            Entry::Occupied(entry) => Ok(entry.into_mut()),
            Entry::Vacant(entry) => {
                let mut loader = self.stream.loader()?;
                loader.resume(producer)?;
                Ok(entry.insert(loader))
            }
        }
    }
}

/// As much of a key or value as is kept.
pub(crate) fn kept(bytes: Option<&[u8]>) -> Binary {
    let bytes = bytes.unwrap_or_default();
    Binary(bytes[..bytes.len().min(BYTES_MAX)].to_vec())
}

/// A topic's name as a symbol, which has at most 255 bytes.
fn symbol(topic: &str) -> &str {
    let end = (0..=255.min(topic.len())).rev().find(|end| topic.is_char_boundary(*end)).unwrap_or(0);
    if end == 0 { "?" } else { &topic[..end] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_on_the_disk_does_not_change() {
        let text = SchemaBuilder::new().with::<BadRecord>().with::<LostOffsets>().finish().to_string();
        for part in
            ["message BadRecord {", "message LostRecords {", "value: binary", "offset: u64", "end: u64"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
