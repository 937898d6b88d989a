//! One number over many messages, to prove that what was read is what was written.

use tapedb_schema::Timestamp;

/// Depends on every bit of every message and on their order.
///
/// The step is that of FxHash (rustc-hash): rotate, exclusive-or, multiply. It guards against our own mistakes, not
/// against an adversary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Checksum(u64);

const MULTIPLIER: u64 = 0x517c_c1b7_2722_0a95;

impl Checksum {
    /// Adds one message.
    #[inline]
    pub fn add(&mut self, time: Timestamp, symbol: &str, body: &[u8]) {
        self.add_word(time.0 as u64);
        self.add_bytes(symbol.as_bytes());
        self.add_bytes(body);
    }

    #[inline]
    fn add_bytes(&mut self, bytes: &[u8]) {
        self.add_word(bytes.len() as u64);
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            self.add_word(u64::from_le_bytes(word.try_into().unwrap_or_default()));
        }
        let rest = words.remainder();
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.add_word(u64::from_le_bytes(word));
        }
    }

    #[inline]
    fn add_word(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(MULTIPLIER);
    }
}

impl std::fmt::Display for Checksum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(messages: &[(i64, &str, &[u8])]) -> Checksum {
        let mut sum = Checksum::default();
        messages.iter().for_each(|(time, symbol, body)| sum.add(Timestamp(*time), symbol, body));
        sum
    }

    #[test]
    fn notices_order_content_and_borders() {
        let straight = of(&[(1, "A", b"one"), (2, "B", b"two")]);
        assert_eq!(straight, of(&[(1, "A", b"one"), (2, "B", b"two")]));
        assert_ne!(straight, of(&[(2, "B", b"two"), (1, "A", b"one")]));
        assert_ne!(straight, of(&[(1, "A", b"onf"), (2, "B", b"two")]));
        assert_ne!(of(&[(1, "AB", b"c")]), of(&[(1, "A", b"Bc")]));
        assert_ne!(of(&[(1, "A", b"x\0")]), of(&[(1, "A", b"x")]));
    }
}
