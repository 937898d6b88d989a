//! What can be seen of a topic while it runs.

use crate::atomics::Ordering;
use crate::format::{PROTECTED, Tail, word};
use crate::ring::Ring;
use crate::symbols::Symbols;
use crate::topic::{Inner, TopicPosition};
use word::{publisher, subscriber};

/// A look at a topic. Numbers are of about the same moment, not of exactly one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicStats {
    /// Sequence number that the next message gets: how many have been published.
    pub next_sequence: u64,
    /// Bytes that have gone through the ring, headers and padding included.
    pub bytes: u64,
    /// Symbols in the dictionary.
    pub symbols: usize,
    /// Claims that were passed over because their publishers were dead or stood still.
    pub claims_passed_over: u64,
    /// How often a publisher died or stood still in the middle of claiming.
    pub claims_taken_over: u64,
    /// How often a subscriber was not waited for any longer because it stood still.
    pub subscribers_passed_over: u64,
    /// Publishers that are there.
    pub publishers: Vec<PublisherStats>,
    /// Subscribers that are there.
    pub subscribers: Vec<SubscriberStats>,
}

/// A look at a publisher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublisherStats {
    /// Its place among the topic's.
    pub slot: usize,
    /// Its process.
    pub process: u32,
    /// Messages it has published.
    pub messages: u64,
    /// How often it was told that there is no room.
    pub back_pressured: u64,
    /// How often a claim of its was passed over, and had to be published again.
    pub overtaken: u64,
}

/// A look at a subscriber.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscriberStats {
    /// Its place among the topic's.
    pub slot: usize,
    /// Its process.
    pub process: u32,
    /// Whether publishers wait for it.
    pub is_waited_for: bool,
    /// Messages published that it has not read. It tells where it is every few KiB, and when it has read everything.
    pub behind: u64,
    /// Bytes of the ring that it has not read.
    pub behind_bytes: u64,
    /// Messages it has missed.
    pub missed: u64,
}

impl TopicStats {
    pub(crate) fn of(inner: &Inner) -> Self {
        let ring = &inner.ring;
        let count = |at| ring.words.get(at).load(Ordering::Relaxed);
        let mut symbols = Symbols::default();
        // What is damaged there, whoever reads it is told.
        let _ = symbols.learn(ring);
        let TopicPosition { next_sequence, bytes } = end(ring);
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

/// The tail, and the number of the message that goes there.
pub(crate) fn end(ring: &Ring) -> TopicPosition {
    loop {
        let tail = Tail::parse(ring.tail().load(Ordering::Acquire)).position;
        let position = ring.frontier();
        let next_sequence = ring.sequence(position).load(Ordering::Relaxed);
        if ring.is_whole(position) {
            return TopicPosition { next_sequence, bytes: tail.saturating_sub(ring.shape.ring_bytes) };
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
