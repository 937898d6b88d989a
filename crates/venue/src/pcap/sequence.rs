//! Numbered messages of a session: which are new, which came before, which are missing.
//!
//! A second, redundant line repeats messages with the same number and the same bytes. A publisher that begins again at a lower number
//! sends other bytes: the hashes of the last messages tell both apart. What one line has lost may still come from the other, behind the
//! messages after it: numbers that are missing stay expected.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

/// Messages of a session whose hashes are known.
const REMEMBERED: usize = 16_384;
/// Ranges of missing messages that may still come.
const MISSING_MAX: usize = 256;
/// Messages by which the second line may be behind the first where a capture begins.
const BEHIND_MAX: u64 = 64;

/// What a packet's first number means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Begin {
    /// It goes on, or repeats.
    Expected,
    /// These are missing before it.
    Missing(RangeInclusive<u64>),
    /// The publisher has begun again at a lower number than this.
    Restart(u64),
}

/// The messages of a session so far.
pub(super) struct Sequence {
    /// Number of the next message.
    next: u64,
    /// Lowest number so far.
    lowest: u64,
    /// Hash and number of the last messages, each at its number's remainder.
    last: Box<[(u64, u64)]>,
    /// Numbers below the next that have not come.
    missing: VecDeque<RangeInclusive<u64>>,
}

impl Sequence {
    /// A session that is seen first with this number: what was before the capture is not missing.
    pub(super) fn new(first: u64) -> Self {
        Self {
            next: first,
            lowest: first,
            last: vec![(0, u64::MAX); REMEMBERED].into(),
            missing: VecDeque::new(),
        }
    }

    /// A packet begins with this number; `message`: its first message, if it has any.
    pub(super) fn begin(&mut self, first: u64, message: Option<&[u8]>) -> Begin {
        if first > self.next {
            let missing = self.next..=first - 1;
            self.next = first;
            self.expect(missing.clone());
            return Begin::Missing(missing);
        }
        if (self.lowest.saturating_sub(BEHIND_MAX)..self.lowest).contains(&first) {
            let before = first..=self.lowest - 1;
            self.lowest = first;
            self.expect(before);
        }
        if first == self.next || self.is_missing(first) {
            return Begin::Expected;
        }
        let (hashed, number) = self.last[slot(first)];
        match message {
            Some(message) if number != first || hashed != hash(message) => {
                let before = std::mem::replace(&mut self.next, first);
                self.last.fill((0, u64::MAX));
                self.lowest = first;
                self.missing.clear();
                Begin::Restart(before)
            }
            _ => Begin::Expected,
        }
    }

    /// Whether the message with this number is new.
    #[inline]
    pub(super) fn is_new(&mut self, number: u64, message: &[u8]) -> bool {
        if number < self.next {
            return self.fill(number, message);
        }
        self.last[slot(number)] = (hash(message), number);
        self.next = number + 1;
        true
    }

    fn expect(&mut self, missing: RangeInclusive<u64>) {
        if self.missing.len() == MISSING_MAX {
            self.missing.pop_front();
        }
        self.missing.push_back(missing);
    }

    fn is_missing(&self, number: u64) -> bool {
        self.missing.iter().any(|range| range.contains(&number))
    }

    /// Whether a message below the next was missing.
    #[cold]
    fn fill(&mut self, number: u64, message: &[u8]) -> bool {
        let Some(at) = self.missing.iter().position(|range| range.contains(&number)) else { return false };
        let range = self.missing.remove(at).expect("a place of the ranges");
        let (start, end) = range.into_inner();
        if start < number {
            self.expect(start..=number - 1);
        }
        if number < end {
            self.expect(number + 1..=end);
        }
        let known = &mut self.last[slot(number)];
        if known.1 == u64::MAX || known.1 < number {
            *known = (hash(message), number);
        }
        true
    }
}

fn slot(number: u64) -> usize {
    (number % REMEMBERED as u64) as usize
}

/// Eight bytes at a time. It tells apart what one publisher sends, and need not withstand an adversary.
#[inline]
pub(crate) fn hash(message: &[u8]) -> u64 {
    const MIX: u64 = 0x9E37_79B9_7F4A_7C15;
    let (words, rest) = message.as_chunks::<8>();
    let mut hash = message.len() as u64;
    for word in words {
        hash = (hash ^ u64::from_le_bytes(*word)).wrapping_mul(MIX).rotate_left(29);
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    (hash ^ u64::from_le_bytes(last)).wrapping_mul(MIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_lines_are_one() {
        let mut sequence = Sequence::new(5);
        assert_eq!(sequence.begin(5, Some(b"a")), Begin::Expected);
        assert!(sequence.is_new(5, b"a") && sequence.is_new(6, b"b"));
        assert_eq!(sequence.begin(5, Some(b"a")), Begin::Expected);
        assert!(!sequence.is_new(5, b"a") && !sequence.is_new(6, b"b"));
        // The second line has put more into one packet.
        assert_eq!(sequence.begin(6, Some(b"b")), Begin::Expected);
        assert!(!sequence.is_new(6, b"b") && sequence.is_new(7, b"c"));
    }

    #[test]
    fn what_one_line_lost_comes_from_the_other() {
        let mut sequence = Sequence::new(5);
        assert!(sequence.is_new(5, b"5"));
        // A capture that begins between the two lines.
        assert_eq!(sequence.begin(4, Some(b"4")), Begin::Expected);
        assert!(sequence.is_new(4, b"4") && !sequence.is_new(5, b"5"));
        assert_eq!(sequence.begin(9, Some(b"9")), Begin::Missing(6..=8));
        assert!(sequence.is_new(9, b"9"));
        assert_eq!(sequence.begin(7, Some(b"7")), Begin::Expected);
        assert!(sequence.is_new(7, b"7") && sequence.is_new(8, b"8") && !sequence.is_new(9, b"9"));
        assert_eq!(sequence.begin(7, Some(b"7")), Begin::Expected);
        assert!(!sequence.is_new(7, b"7") && sequence.is_new(6, b"6") && !sequence.is_new(6, b"6"));
        assert!(sequence.missing.is_empty());
        // Other bytes at a number that has come: the publisher has begun again.
        assert_eq!(sequence.begin(8, Some(b"x")), Begin::Restart(10));
    }

    #[test]
    fn the_last_number_and_the_first_are_filled() {
        let mut sequence = Sequence::new(0);
        assert_eq!(sequence.begin(3, None), Begin::Missing(0..=2));
        assert!(sequence.is_new(0, b"0") && sequence.is_new(2, b"2") && sequence.is_new(1, b"1"));
        assert!(sequence.missing.is_empty());
        assert_eq!(sequence.begin(u64::MAX, None), Begin::Missing(3..=u64::MAX - 1));
        assert!(sequence.is_new(u64::MAX - 1, b"a") && !sequence.is_new(u64::MAX - 1, b"a"));
    }

    #[test]
    fn missing_messages_are_named_once() {
        let mut sequence = Sequence::new(1);
        assert!(sequence.is_new(1, b"a"));
        // A heartbeat with the number of the next message.
        assert_eq!(sequence.begin(4, None), Begin::Missing(2..=3));
        assert_eq!(sequence.begin(4, Some(b"d")), Begin::Expected);
        assert!(sequence.is_new(4, b"d"));
    }

    #[test]
    fn a_restart_is_no_repetition() {
        let mut sequence = Sequence::new(1);
        for number in 1..=3 {
            assert!(sequence.is_new(number, &[number as u8]));
        }
        assert_eq!(sequence.begin(1, None), Begin::Expected);
        assert_eq!(sequence.begin(1, Some(b"x")), Begin::Restart(4));
        assert!(sequence.is_new(1, b"x"));
        assert_eq!(sequence.begin(1, Some(b"x")), Begin::Expected);
        assert!(!sequence.is_new(1, b"x"));
    }

    #[test]
    fn lengths_and_every_byte_count() {
        assert_ne!(hash(b""), hash(b"\0"));
        assert_ne!(hash(b"12345678"), hash(b"12345678\0"));
        let message = *b"a message of some length";
        for at in 0..message.len() {
            let mut changed = message;
            changed[at] ^= 1;
            assert_ne!(hash(&message), hash(&changed), "{at}");
        }
    }
}
