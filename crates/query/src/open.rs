//! A stream that a query reads.

use crate::error::Error;
use crate::options::Options;
use std::sync::OnceLock;
use tapedb_engine::Stream;

/// A stream and its end.
#[derive(Debug)]
pub(crate) struct OpenStream {
    pub stream: Stream,
    pub options: Options,
    /// Sequence numbers of the first messages that the query does not see, one for each space.
    ends: OnceLock<Vec<u64>>,
}

impl OpenStream {
    /// The stream; where it ends is not known yet.
    pub fn new(stream: Stream, options: Options) -> Self {
        Self { stream, options, ends: OnceLock::new() }
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

    /// Names of the tables: its message types.
    pub fn tables(&self) -> Vec<String> {
        let messages = self.stream.schema().records.iter().filter(|record| record.message);
        messages.map(|record| record.name.to_string()).collect()
    }
}
