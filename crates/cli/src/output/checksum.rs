//! Nothing printed: every message validated, counted and checksummed.

use crc_fast::{CrcAlgorithm, Digest};
use std::collections::BTreeMap;
use tapedb_engine::Message;

/// Bytes that are collected before they are checksummed.
const BUFFER_BYTES: usize = 64 << 10;

/// Counts and checksums messages.
///
/// The checksum is CRC-32C over, for each message in order, its time (8 bytes, little-endian nanoseconds), symbol and
/// record type's name (UTF-8), and body.
#[derive(Debug)]
pub struct Checksum {
    digest: Digest,
    buffer: Vec<u8>,
    messages: u64,
    body_bytes: u64,
    /// Messages by stream and type id; those of the message before are at hand.
    types: Vec<TypeCount>,
    last: usize,
}

#[derive(Debug)]
struct TypeCount {
    stream: String,
    type_id: u16,
    name: String,
    messages: u64,
}

/// What was counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Totals {
    /// Messages.
    pub messages: u64,
    /// Bytes of their bodies.
    pub body_bytes: u64,
    /// CRC-32C, see [`Checksum`].
    pub checksum: u32,
    /// Messages by record type.
    pub types: BTreeMap<String, u64>,
}

impl Default for Checksum {
    fn default() -> Self {
        Self {
            digest: Digest::new(CrcAlgorithm::Crc32Iscsi),
            buffer: Vec::with_capacity(2 * BUFFER_BYTES),
            messages: 0,
            body_bytes: 0,
            types: Vec::new(),
            last: 0,
        }
    }
}

impl Checksum {
    /// Takes one message.
    #[inline]
    pub fn add(&mut self, message: &Message<'_>) {
        let at = self.type_of(message);
        let counted = &mut self.types[at];
        counted.messages += 1;
        self.messages += 1;
        self.body_bytes += message.body().len() as u64;
        self.buffer.extend_from_slice(&message.time().nanos().to_le_bytes());
        self.buffer.extend_from_slice(message.symbol().as_bytes());
        self.buffer.extend_from_slice(counted.name.as_bytes());
        self.buffer.extend_from_slice(message.body());
        if self.buffer.len() >= BUFFER_BYTES {
            self.digest.update(&self.buffer);
            self.buffer.clear();
        }
    }

    /// What has been counted.
    pub fn totals(&mut self) -> Totals {
        self.digest.update(&self.buffer);
        self.buffer.clear();
        let mut types = BTreeMap::new();
        for counted in &self.types {
            *types.entry(counted.name.clone()).or_default() += counted.messages;
        }
        let checksum = self.digest.finalize() as u32;
        Totals { messages: self.messages, body_bytes: self.body_bytes, checksum, types }
    }

    #[inline]
    fn type_of(&mut self, message: &Message<'_>) -> usize {
        let (stream, type_id) = (message.stream().name(), message.type_id());
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
