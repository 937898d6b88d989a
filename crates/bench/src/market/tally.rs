//! What a replay has delivered, to be compared with what it must deliver.

use tapedb_schema::Timestamp;

/// Number of messages, and a hash over them in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    pub messages: u64,
    hash: u64,
}

impl Tally {
    #[inline]
    pub fn add(&mut self, time: Timestamp, symbol: &str, body: &[u8]) {
        self.messages += 1;
        self.add_word(time.nanos() as u64);
        self.add_bytes(symbol.as_bytes());
        self.add_bytes(body);
    }

    /// A message that is one text.
    #[inline]
    pub fn add_text(&mut self, text: &[u8]) {
        self.messages += 1;
        self.add_bytes(text);
    }

    #[inline]
    fn add_bytes(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.add_word(u64::from_le_bytes(*word)));
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        last[7] = rest.len() as u8;
        self.add_word(u64::from_le_bytes(last));
    }

    #[inline]
    fn add_word(&mut self, word: u64) {
        self.hash = (self.hash.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}
