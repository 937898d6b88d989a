//! A stream that a query reads.

use crate::cluster::member::Member;
use crate::error::Error;
use crate::nested;
use crate::options::Options;
use std::sync::{Arc, OnceLock};
use tapedb_engine::Stream;

/// A part of a stream: that of one server.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub member: Arc<Member>,
    pub open: Arc<OpenStream>,
}

/// A stream and its end.
#[derive(Debug)]
pub(crate) struct OpenStream {
    pub stream: Stream,
    pub options: Options,
    /// Sequence numbers of the first messages that the query sees, if not all are.
    pub from: Option<Vec<u64>>,
    /// Whether all messages are read in order, for a live query: history by time, and then as they arrived.
    pub in_order: bool,
    /// The servers that have it and what each has, where the query is over several.
    pub parts: Vec<Part>,
    /// Sequence numbers of the first messages that the query does not see, one for each space.
    ends: OnceLock<Vec<u64>>,
}

impl OpenStream {
    /// The stream; where it ends is not known yet.
    pub fn new(stream: Stream, options: Options, from: Option<Vec<u64>>, in_order: bool) -> Self {
        Self { stream, options, from, in_order, parts: Vec::new(), ends: OnceLock::new() }
    }

    /// The stream with the messages below these sequence numbers alone, one for each space.
    ///
    /// # Errors
    /// When it has other spaces, or fewer messages.
    pub fn until(&self, ends: &[u64]) -> Result<Self, Error> {
        let name = self.stream.name();
        let known = self.stream.next_sequences()?;
        if known.len() != ends.len() {
            let (spaces, given) = (known.len(), ends.len());
            let what = format!(
                "stream {name:?} has {spaces} spaces, and {given} sequence numbers are given; give one for each"
            );
            return Err(Error::query(what));
        }
        if let Some((end, known)) = ends.iter().zip(&known).find(|(end, known)| end > known) {
            let what = format!(
                "stream {name:?} has {known} messages, and those below {end} are asked for; it was replaced, or the number is wrong"
            );
            return Err(Error::query(what));
        }
        let until = Self::new(self.stream.clone(), self.options.clone(), None, self.in_order);
        let _ = until.ends.set(ends.to_vec());
        Ok(until)
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
