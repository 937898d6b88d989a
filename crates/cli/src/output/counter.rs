//! Validates, counts and checksums every message, and prints nothing.

use crate::checksum::Checksum;
use std::collections::BTreeMap;
use tapedb_engine::Message;

/// Counts and checksums messages.
#[derive(Debug, Default)]
pub struct Counter {
    checksum: Checksum,
    messages: u64,
    body_bytes: u64,
    /// Messages by stream and type id.
    types: Vec<TypeCount>,
    /// Index of the previous message's entry.
    last: usize,
}

#[derive(Debug)]
struct TypeCount {
    stream: String,
    type_id: u16,
    name: String,
    messages: u64,
}

/// The counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Totals {
    /// Messages.
    pub messages: u64,
    /// Bytes of their bodies.
    pub body_bytes: u64,
    /// See [`Checksum`].
    pub checksum: u32,
    /// Messages by record type.
    pub types: BTreeMap<String, u64>,
}

impl Counter {
    /// Adds one message.
    #[inline]
    pub fn add(&mut self, message: &Message<'_>) {
        let at = self.type_of(message);
        let counted = &mut self.types[at];
        counted.messages += 1;
        self.messages += 1;
        self.body_bytes += message.body().len() as u64;
        self.checksum.add(message.time(), message.symbol(), &counted.name, message.body());
    }

    /// The counts so far.
    pub fn totals(&self) -> Totals {
        let mut types = BTreeMap::new();
        for counted in &self.types {
            *types.entry(counted.name.clone()).or_default() += counted.messages;
        }
        let (messages, body_bytes, checksum) = (self.messages, self.body_bytes, self.checksum.value());
        Totals { messages, body_bytes, checksum, types }
    }

    #[inline]
    fn type_of(&mut self, message: &Message<'_>) -> usize {
        let (stream, type_id) = (message.stream_name(), message.type_id());
        let is = |counted: &TypeCount| counted.type_id == type_id && counted.stream == stream;
        if !self.types.get(self.last).is_some_and(is) {
            self.last = self.types.iter().position(is).unwrap_or(self.types.len());
            if self.last == self.types.len() {
                let name = message.type_name().to_string();
                self.types.push(TypeCount { stream: stream.into(), type_id, name, messages: 0 });
            }
        }
        self.last
    }
}
