//! One number over what a replay delivered.

use crc_fast::{CrcAlgorithm, Digest};
use tapedb_engine::Message;

/// Bytes that are collected before they are hashed.
const BUFFER_BYTES: usize = 64 << 10;

/// A hash over messages and their order: CRC-64/NVME over, for each message, the lengths of the stream's name, the symbol, the record type's
/// name and the body (4 bytes each, little-endian), the time (8 bytes, nanoseconds since 1970), and these four themselves.
///
/// It is the same at every speed, into every sink, on every machine, from local and remote databases, sealed or not.
#[derive(Debug)]
pub struct ReplayHash {
    digest: Digest,
    buffer: Vec<u8>,
}

impl Default for ReplayHash {
    fn default() -> Self {
        Self { digest: Digest::new(CrcAlgorithm::Crc64Nvme), buffer: Vec::with_capacity(2 * BUFFER_BYTES) }
    }
}

impl ReplayHash {
    /// Adds a message.
    #[inline]
    pub fn add(&mut self, message: &Message<'_>) {
        let (stream, symbol) = (message.stream_name().as_bytes(), message.symbol().as_bytes());
        self.add_parts(
            message.time().nanos(),
            [stream, symbol, message.type_name().as_bytes(), message.body()],
        );
    }

    #[inline]
    fn add_parts(&mut self, nanos: i64, parts: [&[u8]; 4]) {
        for part in parts {
            self.buffer.extend_from_slice(&(part.len() as u32).to_le_bytes());
        }
        self.buffer.extend_from_slice(&nanos.to_le_bytes());
        for part in parts {
            self.buffer.extend_from_slice(part);
        }
        if self.buffer.len() >= BUFFER_BYTES {
            self.digest.update(&self.buffer);
            self.buffer.clear();
        }
    }

    /// The hash so far.
    pub fn value(&self) -> u64 {
        let mut digest = self.digest;
        digest.update(&self.buffer);
        digest.finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_the_documented_one_and_tells_parts_apart() {
        let of = |messages: &[(i64, [&[u8]; 4])]| {
            let mut hash = ReplayHash::default();
            messages.iter().for_each(|(nanos, parts)| hash.add_parts(*nanos, *parts));
            hash.value()
        };
        let long = vec![3; BUFFER_BYTES];
        let messages: [(i64, [&[u8]; 4]); 2] =
            [(-1, [b"s", b"AB", b"T", &long]), (7, [b"s", b"", b"T", b"x"])];
        let mut bytes = Vec::new();
        for (nanos, parts) in &messages {
            parts.iter().for_each(|part| bytes.extend((part.len() as u32).to_le_bytes()));
            bytes.extend(nanos.to_le_bytes());
            parts.iter().for_each(|part| bytes.extend_from_slice(part));
        }
        assert_eq!(of(&messages), crc_fast::checksum(CrcAlgorithm::Crc64Nvme, &bytes));
        assert_ne!(of(&messages), of(&[messages[1], messages[0]]));
        assert_ne!(of(&[(0, [b"ab", b"c", b"", b""])]), of(&[(0, [b"a", b"bc", b"", b""])]));
        // Of the algorithm itself.
        assert_eq!(crc_fast::checksum(CrcAlgorithm::Crc64Nvme, b"123456789"), 0xae8b_1486_0a79_9888);
    }
}
