//! Snapshots of a topic in use.

use crate::file::TopicFile;
use crate::format::{PROTECTED, word};
use crate::position::TopicPosition;
use crate::ring::Ring;
use crate::symbols::Symbols;
use tapedb_shm::atomics::Ordering;
use word::{publisher, subscriber};

/// A snapshot of a topic. Its numbers are of about the same moment, not of exactly one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicStats {
    /// Sequence number that the next message gets: how many have been published.
    pub next_sequence: u64,
    /// Bytes that have gone through the ring, headers and padding included.
    pub bytes: u64,
    /// Symbols in the dictionary.
    pub symbols: usize,
    /// Claims that were passed over because their publishers were dead or stalled.
    pub claims_passed_over: u64,
    /// How often a publisher died or stalled in the middle of claiming.
    pub claims_taken_over: u64,
    /// How often publishers stopped waiting for a subscriber because it stalled.
    pub subscribers_passed_over: u64,
    /// The publishers.
    pub publishers: Vec<PublisherStats>,
    /// The subscribers.
    pub subscribers: Vec<SubscriberStats>,
}

/// A snapshot of a publisher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublisherStats {
    /// Its slot in the topic.
    pub slot: usize,
    /// Its process.
    pub process: u32,
    /// Messages it has published.
    pub messages: u64,
    /// How often there was no space for it.
    pub back_pressured: u64,
    /// How often one of its claims was passed over, and had to be published again.
    pub overtaken: u64,
}

/// A snapshot of a subscriber.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscriberStats {
    /// Its slot in the topic.
    pub slot: usize,
    /// Its process.
    pub process: u32,
    /// Whether publishers wait for it.
    pub is_waited_for: bool,
    /// Messages published that it has not read. It writes its position every few KiB, and when it has read everything.
    pub behind: u64,
    /// Bytes of the ring that it has not read.
    pub behind_bytes: u64,
    /// Messages it has missed.
    pub missed: u64,
}

impl TopicStats {
    pub(crate) fn of(file: &TopicFile) -> Self {
        let ring = &file.ring;
        let count = |at| ring.words.get(at).load(Ordering::Relaxed);
        let mut symbols = Symbols::default();
        // Publishers and subscribers report a damaged dictionary.
        let _ = symbols.load(ring);
        let TopicPosition { next_sequence, bytes } = TopicPosition::of_end(ring);
        let tail = bytes + ring.shape.ring_bytes;
        Self {
            next_sequence,
            bytes,
            symbols: symbols.all().count(),
            claims_passed_over: count(word::PADDED),
            claims_taken_over: count(word::TAKEN_OVER),
            subscribers_passed_over: count(word::PASSED_OVER),
            publishers: (0..ring.publisher_slots()).filter_map(|slot| publisher_of(ring, slot)).collect(),
            subscribers: (0..ring.subscriber_slots())
                .filter_map(|slot| subscriber_of(ring, slot, tail, next_sequence))
                .collect(),
        }
    }
}

fn publisher_of(ring: &Ring, slot: usize) -> Option<PublisherStats> {
    let word = |field| ring.publisher(slot, field).load(Ordering::Relaxed);
    let process = word(publisher::PROCESS) as u32;
    (process != 0 && ring.presence.has_publisher(slot)).then(|| PublisherStats {
        slot,
        process,
        messages: word(publisher::MESSAGES),
        back_pressured: word(publisher::BACK_PRESSURED),
        overtaken: word(publisher::OVERTAKEN),
    })
}

fn subscriber_of(ring: &Ring, slot: usize, tail: u64, next_sequence: u64) -> Option<SubscriberStats> {
    let word = |field| ring.subscriber(slot, field).load(Ordering::Relaxed);
    let process = word(subscriber::PROCESS) as u32;
    (process != 0 && ring.presence.has_subscriber(slot)).then(|| SubscriberStats {
        slot,
        process,
        is_waited_for: word(subscriber::FLAGS) & PROTECTED != 0,
        behind: next_sequence.saturating_sub(word(subscriber::SEQUENCE)),
        behind_bytes: tail.saturating_sub(word(subscriber::POSITION)),
        missed: word(subscriber::MISSED),
    })
}
