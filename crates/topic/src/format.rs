//! The layout of a topic's file, as `docs/format/topic.md` draws it: where each word lies, and what is in it.
//!
//! The sizes are read once, checked against the file, and stored: a process that changes them later cannot mislead a reader.
//! All words are little-endian, and so is every machine that this runs on.

use crate::error::{BadFile, TopicError};
use std::mem::{offset_of, size_of};
use tapedb_shm::WORD;

/// The first word of every topic's file.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"TAPETOP1");
/// Version of the layout.
pub(crate) const VERSION: u32 = 1;

/// Bytes of a cache line: frames begin on one, because processors exchange memory in lines.
pub(crate) const LINE: u64 = 64;
/// Bytes of a frame's header.
pub(crate) const FRAME_HEADER: u64 = 24;
/// Publishers at a time.
pub const PUBLISHERS_MAX: usize = 64;
/// Subscribers at a time.
pub const SUBSCRIBERS_MAX: usize = 64;
/// Positions in the ring where late joiners may begin.
pub(crate) const ANCHORS: usize = 32;
/// Smallest ring.
pub const RING_BYTES_MIN: u64 = 64 << 10;
/// Largest ring.
pub const RING_BYTES_MAX: u64 = 1 << 30;
/// Most bytes of the dictionary of symbols: ids are offsets in it, in words, and have 24 bits.
pub const SYMBOL_BYTES_MAX: u64 = 8 << 20;
/// Bytes between the end of a claim and the limit: spare capacity to pass over claims whose publishers are dead.
pub(crate) const SLACK: u64 = if cfg!(loom) { 2 * LINE } else { 64 * LINE };
const PAGE: u64 = 4096;

/// The sizes, which never change.
#[repr(C)]
pub(crate) struct Fixed {
    pub magic: u64,
    pub version: u32,
    pub delivery: u32,
    pub id: u64,
    pub created: u64,
    pub file_bytes: u64,
    pub ring_bytes: u64,
    pub symbols_at: u64,
    pub symbols_bytes: u64,
    pub schema_at: u64,
    pub schema_bytes: u64,
    pub ring_at: u64,
    pub stall_ms: u64,
    pub reserved: [u64; 3],
    pub header_crc: u64,
}

/// The first page. Words that change often have two lines of their own, because the hardware fetches lines in pairs.
#[repr(C)]
pub(crate) struct Header {
    pub fixed: Fixed,
    pub reserved_a: [u64; 16],
    pub tail: u64,
    pub reserved_b: [u64; 15],
    pub limit: u64,
    pub reserved_c: [u64; 15],
    pub parked: u64,
    pub wakes: u64,
    pub reserved_d: [u64; 14],
    pub anchor_count: u64,
    pub anchors: [u64; ANCHORS],
    pub reserved_e: [u64; 15],
    pub padded: u64,
    pub taken_over: u64,
    pub passed_over: u64,
    pub reserved_f: [u64; 13],
}

/// What a publisher writes about itself.
#[repr(C)]
pub(crate) struct PublisherSlot {
    pub process: u64,
    pub intent: u64,
    pub messages: u64,
    pub back_pressured: u64,
    pub overtaken: u64,
    pub reserved: [u64; 11],
}

/// What a subscriber writes about itself.
#[repr(C)]
pub(crate) struct SubscriberSlot {
    pub process: u64,
    pub flags: u64,
    pub position: u64,
    pub sequence: u64,
    pub beat: u64,
    pub missed: u64,
    pub passed: u64,
    pub reserved: [u64; 9],
}

const _: () = {
    assert!(size_of::<Fixed>() == 128 && offset_of!(Fixed, header_crc) == 120);
    assert!(
        offset_of!(Fixed, version) == 8 && offset_of!(Fixed, id) == 16 && offset_of!(Fixed, ring_bytes) == 40
    );
    assert!(offset_of!(Fixed, ring_at) == 80 && offset_of!(Fixed, stall_ms) == 88);
    assert!(offset_of!(Header, tail) == 256 && offset_of!(Header, limit) == 384);
    assert!(offset_of!(Header, parked) == 512 && offset_of!(Header, wakes) == 520);
    assert!(offset_of!(Header, anchor_count) == 640 && offset_of!(Header, anchors) == 648);
    assert!(offset_of!(Header, padded) == 1024 && size_of::<Header>() as u64 <= PAGE);
    assert!(
        size_of::<PublisherSlot>() == SLOT_BYTES as usize
            && size_of::<SubscriberSlot>() == SLOT_BYTES as usize
    );
    assert!(offset_of!(PublisherSlot, intent) == 8 && offset_of!(SubscriberSlot, position) == 16);
};

/// Bytes of a slot.
pub(crate) const SLOT_BYTES: u64 = 128;
/// Where publishers' slots begin.
pub(crate) const PUBLISHERS_AT: u64 = PAGE;
/// Where subscribers' slots begin.
pub(crate) const SUBSCRIBERS_AT: u64 = PUBLISHERS_AT + PUBLISHERS_MAX as u64 * SLOT_BYTES;
/// Where the dictionary begins.
pub(crate) const SYMBOLS_AT: u64 = SUBSCRIBERS_AT + SUBSCRIBERS_MAX as u64 * SLOT_BYTES;
/// The bytes whose lock publishers hold: many of them shared, or one exclusively.
pub(crate) const PUBLISHING_AT: u64 = offset_of!(Header, tail) as u64;

/// Indices of words.
pub(crate) mod word {
    use super::*;

    pub const TAIL: usize = offset_of!(Header, tail) / WORD;
    pub const LIMIT: usize = offset_of!(Header, limit) / WORD;
    pub const PARKED: usize = offset_of!(Header, parked) / WORD;
    pub const WAKES: usize = offset_of!(Header, wakes) / WORD;
    pub const ANCHOR_COUNT: usize = offset_of!(Header, anchor_count) / WORD;
    pub const ANCHORS: usize = offset_of!(Header, anchors) / WORD;
    pub const PADDED: usize = offset_of!(Header, padded) / WORD;
    pub const TAKEN_OVER: usize = offset_of!(Header, taken_over) / WORD;
    pub const PASSED_OVER: usize = offset_of!(Header, passed_over) / WORD;

    /// Words of a publisher's slot.
    pub mod publisher {
        use super::*;

        pub const PROCESS: usize = offset_of!(PublisherSlot, process) / WORD;
        pub const INTENT: usize = offset_of!(PublisherSlot, intent) / WORD;
        pub const MESSAGES: usize = offset_of!(PublisherSlot, messages) / WORD;
        pub const BACK_PRESSURED: usize = offset_of!(PublisherSlot, back_pressured) / WORD;
        pub const OVERTAKEN: usize = offset_of!(PublisherSlot, overtaken) / WORD;

        /// A word of a slot.
        pub const fn of(slot: usize, field: usize) -> usize {
            (PUBLISHERS_AT as usize + slot * SLOT_BYTES as usize) / WORD + field
        }
    }

    /// Words of a subscriber's slot.
    pub mod subscriber {
        use super::*;

        pub const PROCESS: usize = offset_of!(SubscriberSlot, process) / WORD;
        pub const FLAGS: usize = offset_of!(SubscriberSlot, flags) / WORD;
        pub const POSITION: usize = offset_of!(SubscriberSlot, position) / WORD;
        pub const SEQUENCE: usize = offset_of!(SubscriberSlot, sequence) / WORD;
        pub const BEAT: usize = offset_of!(SubscriberSlot, beat) / WORD;
        pub const MISSED: usize = offset_of!(SubscriberSlot, missed) / WORD;
        pub const PASSED: usize = offset_of!(SubscriberSlot, passed) / WORD;

        /// A word of a slot.
        pub const fn of(slot: usize, field: usize) -> usize {
            (SUBSCRIBERS_AT as usize + slot * SLOT_BYTES as usize) / WORD + field
        }
    }
}

/// Flag of a subscriber: publishers wait for it.
pub(crate) const PROTECTED: u64 = 1;

/// Whether publishers wait for subscribers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// A publisher waits, or is refused, while the slowest subscriber is a whole ring behind.
    Reliable,
    /// Publishers never wait: a subscriber that is a whole ring behind gets the number of messages that it missed.
    Lossy,
}

/// Sizes and offsets of the sections of a topic's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    pub delivery: Delivery,
    pub id: u64,
    /// Nanoseconds since 1970.
    pub created: i64,
    pub ring_bytes: u64,
    pub symbols_bytes: u64,
    pub schema_bytes: u64,
    pub stall_ms: u64,
}

impl Shape {
    pub fn schema_at(&self) -> u64 {
        SYMBOLS_AT + self.symbols_bytes
    }

    pub fn ring_at(&self) -> u64 {
        (self.schema_at() + self.schema_bytes).next_multiple_of(PAGE)
    }

    pub fn file_bytes(&self) -> u64 {
        self.ring_at() + self.ring_bytes
    }

    /// Most bytes of one claim.
    pub fn claim_bytes_max(&self) -> u64 {
        self.ring_bytes / 8
    }

    /// How far the limit moves at once.
    pub fn step(&self) -> u64 {
        self.ring_bytes / 16
    }

    /// The words of `Fixed`.
    pub fn words(&self) -> [u64; 16] {
        let delivery = u64::from(self.delivery == Delivery::Lossy);
        let mut words = [
            MAGIC,
            u64::from(VERSION) | delivery << 32,
            self.id,
            self.created as u64,
            self.file_bytes(),
            self.ring_bytes,
            SYMBOLS_AT,
            self.symbols_bytes,
            self.schema_at(),
            self.schema_bytes,
            self.ring_at(),
            self.stall_ms,
            0,
            0,
            0,
            0,
        ];
        words[15] = u64::from(checksum(&words[..15]));
        words
    }

    /// The shape in the words, checked.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn parse(words: &[u64; 16], file_bytes: u64) -> Result<Self, BadFile> {
        if words[0] != MAGIC {
            return Err(BadFile::Magic { found: words[0] });
        }
        if words[1] as u32 != VERSION {
            return Err(BadFile::Version { found: words[1] as u32 });
        }
        let computed = checksum(&words[..15]);
        if words[15] != u64::from(computed) {
            return Err(BadFile::Checksum { found: words[15] as u32, computed });
        }
        let delivery = match words[1] >> 32 {
            0 => Delivery::Reliable,
            1 => Delivery::Lossy,
            found => return Err(BadFile::Field { field: "delivery", found }),
        };
        let shape = Self {
            delivery,
            id: words[2],
            created: words[3] as i64,
            ring_bytes: words[5],
            symbols_bytes: words[7],
            schema_bytes: words[9],
            stall_ms: words[11],
        };
        shape.check()?;
        // All other words follow from these.
        if let Some(at) = (0..15).find(|&at| words[at] != shape.words()[at]) {
            return Err(BadFile::Field { field: "an offset of a section", found: words[at] });
        }
        if file_bytes != shape.file_bytes() {
            return Err(BadFile::Length { found: file_bytes, need: shape.file_bytes() });
        }
        Ok(shape)
    }

    /// Checks the sizes.
    ///
    /// # Errors
    /// The first invalid one.
    pub fn check(&self) -> Result<(), BadFile> {
        let refuse = |field, found| Err(BadFile::Field { field, found });
        if !self.ring_bytes.is_power_of_two() || !(RING_BYTES_MIN..=RING_BYTES_MAX).contains(&self.ring_bytes)
        {
            return refuse("ring_bytes", self.ring_bytes);
        }
        if !self.symbols_bytes.is_multiple_of(PAGE)
            || !(PAGE..=SYMBOL_BYTES_MAX).contains(&self.symbols_bytes)
        {
            return refuse("symbols_bytes", self.symbols_bytes);
        }
        if self.schema_bytes > tapedb_schema::MAX_TEXT_BYTES as u64 {
            return refuse("schema_bytes", self.schema_bytes);
        }
        Ok(())
    }
}

/// CRC-32C of the words as they lie in the file.
fn checksum(words: &[u64]) -> u32 {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    tapedb_codec::bytes::crc32c(&bytes)
}

/// The first word of a frame: what it is, and how long.
///
/// Bits 0 to 23: bytes of the body, or lines of the claim or padding. Bits 24 to 39: the tag. Bits 40 to 63: symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Frame {
    /// Not written yet.
    Empty,
    /// Claimed by a publisher that has not finished.
    Claimed { owner: usize, lines: u64 },
    /// Padding, to be skipped.
    Pad { lines: u64 },
    /// A message.
    Message { bytes: usize, type_id: u16, symbol: u32 },
}

const TAG_PAD: u64 = 0xffff;
const TAG_CLAIMED: u64 = 0xfffe;
/// Largest number of a record type in a schema that a topic takes.
pub(crate) const TYPE_ID_MAX: u16 = 0xfffc;
/// Bits of lengths and symbols.
const BITS_24: u64 = (1 << 24) - 1;

impl Frame {
    /// The frame that a word describes.
    #[inline(always)]
    pub fn parse(word: u64) -> Self {
        let tag = word >> 24 & 0xffff;
        match tag {
            0 => Self::Empty,
            TAG_PAD => Self::Pad { lines: word & BITS_24 },
            TAG_CLAIMED => Self::Claimed { owner: (word >> 40) as usize, lines: word & BITS_24 },
            _ => Self::Message {
                bytes: (word & BITS_24) as usize,
                type_id: (tag - 1) as u16,
                symbol: (word >> 40) as u32,
            },
        }
    }
}

/// Word of a claim.
#[inline(always)]
pub(crate) fn claimed(owner: usize, bytes: u64) -> u64 {
    (owner as u64) << 40 | TAG_CLAIMED << 24 | (bytes / LINE)
}

/// Word of padding.
#[inline(always)]
pub(crate) fn pad(bytes: u64) -> u64 {
    TAG_PAD << 24 | (bytes / LINE)
}

/// Word of a message.
#[inline(always)]
pub(crate) fn message(bytes: usize, type_id: u16, symbol: u32) -> u64 {
    u64::from(symbol) << 40 | (u64::from(type_id) + 1) << 24 | bytes as u64
}

/// Bytes that a frame with such a body takes.
#[inline(always)]
pub(crate) fn frame_bytes(body: usize) -> u64 {
    (FRAME_HEADER + body as u64).next_multiple_of(LINE)
}

/// The word of the tail: the line where the next claim begins, and the owner of the last one until it has written its claim
/// (0: no owner).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tail {
    pub position: u64,
    /// Slot of the owner.
    pub owner: Option<usize>,
}

impl Tail {
    #[inline(always)]
    pub fn parse(word: u64) -> Self {
        let owner = (word & 0xff) as usize;
        Self { position: (word >> 8) * LINE, owner: owner.checked_sub(1) }
    }

    #[inline(always)]
    pub fn free(position: u64) -> Self {
        Self { position, owner: None }
    }

    #[inline(always)]
    pub fn owned(position: u64, owner: usize) -> Self {
        Self { position, owner: Some(owner) }
    }

    #[inline(always)]
    pub fn word(self) -> u64 {
        (self.position / LINE) << 8 | self.owner.map_or(0, |owner| owner as u64 + 1)
    }
}

/// What a publisher is about to claim, or has claimed: its first line, modulo 2^40, and its number of lines. 0: nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Intent {
    pub start: u64,
    pub bytes: u64,
}

impl Intent {
    /// `bytes` may be 0: the publisher tries to raise the limit. One bit is set in every intent.
    #[inline(always)]
    pub fn word(self) -> u64 {
        (self.start / LINE) << 24 | 1 << 23 | (self.bytes / LINE)
    }

    /// The intent in a word. Its start is at or before `tail`.
    pub fn parse(word: u64, tail: u64) -> Option<Self> {
        let lines_back = (tail / LINE).wrapping_sub(word >> 24) & ((1 << 40) - 1);
        let start = (tail / LINE).checked_sub(lines_back)? * LINE;
        (word & 1 << 23 != 0).then_some(Self { start, bytes: (word & ((1 << 23) - 1)) * LINE })
    }

    /// The end of all that its publisher may write: its claim, and the header of the next frame.
    pub fn end(self) -> u64 {
        self.start + self.bytes + LINE
    }
}

/// Checks a schema for a topic.
///
/// # Errors
/// When it has too many record types, or its text is too long.
pub(crate) fn check_schema(records: usize, text: &str) -> Result<(), TopicError> {
    if records > usize::from(TYPE_ID_MAX) {
        return Err(TopicError::Schema(format!("{records} record types; a topic takes {TYPE_ID_MAX}")));
    }
    if text.len() > tapedb_schema::MAX_TEXT_BYTES {
        let most = tapedb_schema::MAX_TEXT_BYTES;
        return Err(TopicError::Schema(format!("a schema of {} bytes; a topic takes {most}", text.len())));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn frames_are_parsed_as_they_were_written(bytes in 0usize..1 << 24, type_id in 0..=TYPE_ID_MAX, symbol in 0u32..1 << 24) {
            let word = message(bytes, type_id, symbol);
            prop_assert_eq!(Frame::parse(word), Frame::Message { bytes, type_id, symbol });
        }

        #[test]
        fn tails_and_intents_are_parsed_as_they_were_written(line in 0u64..1 << 55, back in 0u64..1 << 39, lines in 0u64..1 << 23, owner: Option<u8>) {
            let owner = owner.map(|owner| usize::from(owner) % PUBLISHERS_MAX);
            let tail = Tail { position: line * LINE, owner };
            prop_assert_eq!(Tail::parse(tail.word()), tail);
            let start = line.saturating_sub(back) * LINE;
            let intent = Intent { start, bytes: lines * LINE };
            prop_assert_eq!(Intent::parse(intent.word(), tail.position), Some(intent));
        }

        #[test]
        fn any_header_is_parsed_or_refused(words: [u64; 16], at in 0usize..16, length: u64) {
            let _ = Shape::parse(&words, length);
            let mut near = shape().words();
            near[at] ^= words[at].max(1);
            prop_assert!(Shape::parse(&near, shape().file_bytes()).is_err());
        }
    }

    fn shape() -> Shape {
        Shape {
            delivery: Delivery::Lossy,
            id: 7,
            created: 1,
            ring_bytes: 1 << 16,
            symbols_bytes: 1 << 16,
            schema_bytes: 100,
            stall_ms: 1000,
        }
    }

    #[test]
    fn a_shape_is_parsed_as_it_was_written() {
        let shape = shape();
        assert_eq!(Shape::parse(&shape.words(), shape.file_bytes()), Ok(shape));
        let short = Shape::parse(&shape.words(), shape.file_bytes() - 1);
        assert!(matches!(short, Err(BadFile::Length { .. })), "{short:?}");
    }

    #[test]
    fn frames_hold_the_greatest_body_symbol_and_claim() {
        for bytes in [0, 1, BITS_24 - 1, BITS_24] {
            for (type_id, symbol) in [(0, 0), (TYPE_ID_MAX, BITS_24 as u32), (1, 1 << 23)] {
                let expected = Frame::Message { bytes: bytes as usize, type_id, symbol };
                assert_eq!(Frame::parse(message(bytes as usize, type_id, symbol)), expected);
            }
        }
        // One more of any is another frame.
        for (bytes, type_id, symbol) in [(1 << 24, 5, 6), (7, TYPE_ID_MAX + 1, 6), (7, 5, 1 << 24)] {
            let frame = Frame::Message { bytes, type_id, symbol };
            assert_ne!(Frame::parse(message(bytes, type_id, symbol)), frame);
        }
        // A claim is a part of a ring, and owners are counted from 1.
        let (lines, owner) = (RING_BYTES_MAX / LINE, PUBLISHERS_MAX);
        assert!(lines <= BITS_24 + 1 && owner < 0xff);
        let claim = claimed(owner, RING_BYTES_MAX - LINE);
        assert_eq!(Frame::parse(claim), Frame::Claimed { owner, lines: lines - 1 });
        assert_eq!(Frame::parse(pad(RING_BYTES_MAX - LINE)), Frame::Pad { lines: lines - 1 });
    }

    #[test]
    fn claims_and_padding_are_no_messages() {
        assert_eq!(Frame::parse(claimed(3, 128)), Frame::Claimed { owner: 3, lines: 2 });
        assert_eq!(Frame::parse(pad(640)), Frame::Pad { lines: 10 });
        assert_eq!(Frame::parse(0), Frame::Empty);
        assert!(Intent::parse(0, 1 << 30).is_none());
    }
}
