//! A stream that a query reads.

use crate::error::Error;
use crate::nested;
use crate::options::Options;
use std::sync::OnceLock;
use tapedb_engine::Stream;

/// A stream and its end.
#[derive(Debug)]
pub(crate) struct OpenStream {
    pub stream: Stream,
    pub options: Options,
    /// Sequence numbers of the first messages that the query sees, if not all are.
    pub from: Option<Vec<u64>>,
    /// Whether all messages are read in order, for a live query: history by time, and then as they arrived.
    pub in_order: bool,
    /// Sequence numbers of the first messages that the query does not see, one for each space.
    ends: OnceLock<Vec<u64>>,
}

impl OpenStream {
    /// The stream; where it ends is not known yet.
    pub fn new(stream: Stream, options: Options, from: Option<Vec<u64>>, in_order: bool) -> Self {
        Self { stream, options, from, in_order, ends: OnceLock::new() }
    }

    /// Sequence numbers of the first messages that the query does not see, one for each space.
    ///
    /// # Errors
    /// When they are not noted yet, and cannot be read.
    pub fn ends(&self) -> Result<&[u64], Error> {
        if self.ends.get().is_none() {
            let ends = self.stream.next_sequences()?;
            let _ = self.ends.set(ends);
        }
        Ok(self.ends.get().map_or(&[], Vec::as_slice))
    }

    /// Names of its message types.
    pub fn messages(&self) -> Vec<String> {
        let messages = self.stream.schema().records.iter().filter(|record| record.message);
        messages.map(|record| record.name.to_string()).collect()
    }

    /// Names of the tables: its message types, and the records in their fields.
    pub fn tables(&self) -> Vec<String> {
        let schema = self.stream.schema();
        let mut names = self.messages();
        let nested = schema.records.iter().filter(|record| !record.message);
        let nested = nested.filter(|record| !nested::places(schema, &record.name).is_empty());
        names.extend(nested.map(|record| record.name.to_string()));
        names
    }
}
