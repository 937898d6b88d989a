//! One number over many messages, to prove that the messages read are those written.

use crc_fast::{CrcAlgorithm, Digest};
use tapedb_schema::Timestamp;

/// Bytes that are buffered before they are checksummed.
const BUFFER_BYTES: usize = 64 << 10;

/// Checksum over messages: depends on every bit of every message and on their order.
///
/// It is CRC-32C over, for each message in order, its time (8 bytes, little-endian nanoseconds), symbol and record
/// type's name (UTF-8), and body.
#[derive(Debug)]
pub struct Checksum {
    digest: Digest,
    buffer: Vec<u8>,
}

impl Default for Checksum {
    fn default() -> Self {
        let (digest, buffer) = (Digest::new(CrcAlgorithm::Crc32Iscsi), Vec::with_capacity(2 * BUFFER_BYTES));
        Self { digest, buffer }
    }
}

impl Checksum {
    /// Adds one message.
    #[inline]
    pub fn add(&mut self, time: Timestamp, symbol: &str, type_name: &str, body: &[u8]) {
        self.buffer.extend_from_slice(&time.nanos().to_le_bytes());
        self.buffer.extend_from_slice(symbol.as_bytes());
        self.buffer.extend_from_slice(type_name.as_bytes());
        self.buffer.extend_from_slice(body);
        if self.buffer.len() >= BUFFER_BYTES {
            self.digest.update(&self.buffer);
            self.buffer.clear();
        }
    }

    /// The checksum so far.
    pub fn value(&self) -> u32 {
        let mut digest = self.digest;
        digest.update(&self.buffer);
        digest.finalize() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(messages: &[(i64, &str, &[u8])]) -> u32 {
        let mut sum = Checksum::default();
        messages.iter().for_each(|(time, symbol, body)| sum.add(Timestamp(*time), symbol, "T", body));
        sum.value()
    }

    #[test]
    fn depends_on_order_and_content() {
        let straight = of(&[(1, "A", b"one"), (2, "B", b"two")]);
        assert_eq!(straight, of(&[(1, "A", b"one"), (2, "B", b"two")]));
        assert_ne!(straight, of(&[(2, "B", b"two"), (1, "A", b"one")]));
        assert_ne!(straight, of(&[(1, "A", b"onf"), (2, "B", b"two")]));
        assert_ne!(of(&[(1, "A", b"x\0")]), of(&[(1, "A", b"x")]));
    }

    #[test]
    fn is_the_documented_crc() {
        let large = vec![7; BUFFER_BYTES];
        let mut bytes = Vec::new();
        for body in [b"one", &large[..], b"two"] {
            bytes.extend([&5i64.to_le_bytes()[..], b"A", b"T", body].concat());
        }
        let expected = crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, &bytes) as u32;
        assert_eq!(of(&[(5, "A", b"one"), (5, "A", &large), (5, "A", b"two")]), expected);
    }
}
