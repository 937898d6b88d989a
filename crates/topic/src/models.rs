//! The ring under loom: every order of these few steps that the memory model allows. `make loom`.

use crate::claims::{Claimer, Tried};
use crate::error::TopicError;
use crate::exclusive::Exclusive;
use crate::format::{ANCHORS, Delivery, LINE, Shape, message, word};
use crate::reader::{Found, Reader, Start};
use crate::ring::{Presence, Ring};
use std::time::Duration;
use tapedb_shm::atomics::Ordering;
use tapedb_shm::loom::model::Builder;
use tapedb_shm::loom::sync::Arc;
use tapedb_shm::loom::thread;
use tapedb_shm::{WORD, Words};

const RING_BYTES: u64 = 16 * LINE;

/// All are alive, except publishers that are taken for dead and continue nevertheless.
#[derive(Debug)]
struct Dead(&'static [usize]);

impl Presence for Dead {
    fn has_publisher(&self, slot: usize) -> bool {
        !self.0.contains(&slot)
    }
    fn has_subscriber(&self, _: usize) -> bool {
        true
    }
}

fn ring(delivery: Delivery, dead: &'static [usize]) -> Arc<Ring> {
    let shape = Shape {
        delivery,
        id: 1,
        created: 0,
        ring_bytes: RING_BYTES,
        symbols_bytes: 4096,
        schema_bytes: 0,
        stall_ms: 0,
    };
    let first = shape.ring_at() as usize / WORD;
    let used = |index: usize| {
        let in_header = [word::TAIL, word::LIMIT, word::PARKED, word::WAKES, word::ANCHOR_COUNT]
            .contains(&index)
            || (word::ANCHORS..word::ANCHORS + ANCHORS).contains(&index)
            || (word::PADDED..=word::PASSED_OVER).contains(&index);
        let in_slot = (0..2).any(|slot| (0..6).any(|field| index == word::publisher::of(slot, field)))
            || (0..7).any(|field| index == word::subscriber::of(0, field));
        in_header || in_slot || (index >= first && (index - first) % 8 < 4)
    };
    let ring =
        Ring::new(Words::sparse(shape.file_bytes() as usize / WORD, used), shape, Box::new(Dead(dead)));
    ring.format();
    ring.subscriber(0, word::subscriber::PROCESS).store(1, Ordering::Relaxed);
    Arc::new(ring)
}

/// The body of a message with this number.
fn body(number: u64) -> [u8; 8] {
    (number * 3 + 1).to_le_bytes()
}

fn publish_exclusive(ring: &Ring, exclusive: &mut Exclusive, number: u64) -> bool {
    let Ok(position) = exclusive.reserve(ring, LINE) else { return false };
    ring.write(position, exclusive.sequence, number as i64, &body(number));
    exclusive.add(ring.view(), LINE, message(8, 0, 0), 1);
    exclusive.commit(ring.view());
    ring.wake();
    true
}

/// Publishes, again if its claim was passed over.
fn publish_shared(ring: &Ring, claimer: &mut Claimer, number: u64) {
    loop {
        if let Tried::Claimed(claim) = claimer.claim(ring, LINE, 1) {
            ring.write(claim.first, claim.sequence, number as i64, &body(number));
            if claimer.commit(ring, &claim, message(8, 0, 0)) {
                ring.wake();
                return;
            }
        }
        thread::yield_now();
    }
}

/// Reads so many messages: their numbers. Each is whole, or the model fails.
fn read(ring: &Ring, reader: &mut Reader, count: usize) -> Vec<u64> {
    let (mut numbers, mut buffer) = (Vec::new(), [0; 8]);
    while numbers.len() < count {
        match reader.poll(ring, &mut buffer, |_, _| true) {
            Ok(Found::Message { time, .. }) => {
                assert_eq!(buffer, body(time as u64), "torn");
                numbers.push(time as u64);
            }
            Ok(Found::Nothing) => thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
    numbers
}

/// Checks all executions in which threads are interrupted so often at most; `LOOM_MAX_PREEMPTIONS` checks more.
fn model(interruptions: usize, work: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.max_branches = 10_000;
    builder.preemption_bound = builder.preemption_bound.or(Some(interruptions));
    builder.check(work);
}

#[test]
fn an_exclusive_publisher_is_read_in_order() {
    model(2, || {
        let ring = ring(Delivery::Reliable, &[]);
        let mut reader = Reader::join(&ring, 0, Start::Now, true);
        let theirs = ring.clone();
        let writer = thread::spawn(move || {
            let mut exclusive = Exclusive::new(&theirs);
            for number in 0..3 {
                assert!(publish_exclusive(&theirs, &mut exclusive, number));
            }
        });
        assert_eq!(read(&ring, &mut reader, 3), [0, 1, 2]);
        writer.join().unwrap();
    });
}

#[test]
fn a_lapped_reader_sees_nothing_torn() {
    model(2, || {
        let ring = ring(Delivery::Lossy, &[]);
        let mut reader = Reader::join(&ring, 0, Start::Now, true);
        let mut exclusive = Exclusive::new(&ring);
        for number in 0..12 {
            assert!(publish_exclusive(&ring, &mut exclusive, number));
        }
        let theirs = ring.clone();
        let writer = thread::spawn(move || {
            for number in 12..16 {
                assert!(publish_exclusive(&theirs, &mut exclusive, number));
            }
        });
        let (mut next, mut buffer) = (0, [0; 8]);
        for _ in 0..2 {
            match reader.poll(&ring, &mut buffer, |_, _| true) {
                Ok(Found::Message { time, sequence, .. }) => {
                    assert_eq!((sequence, time as u64, buffer), (next, next, body(next)));
                    next += 1;
                }
                Err(TopicError::Missed { first, count }) => {
                    assert_eq!(first, next);
                    next += count;
                }
                found => panic!("{found:?}"),
            }
        }
        writer.join().unwrap();
    });
}

#[test]
fn a_full_ring_is_not_overwritten() {
    model(2, || {
        let ring = ring(Delivery::Reliable, &[]);
        let mut reader = Reader::join(&ring, 0, Start::Now, true);
        let mut exclusive = Exclusive::new(&ring);
        let mut sent = 0;
        while publish_exclusive(&ring, &mut exclusive, sent) {
            sent += 1;
        }
        assert!(sent > 8);
        let theirs = ring.clone();
        let writer = thread::spawn(move || {
            while !publish_exclusive(&theirs, &mut exclusive, sent) {
                thread::yield_now();
            }
        });
        assert_eq!(read(&ring, &mut reader, sent as usize + 1), (0..=sent).collect::<Vec<_>>());
        writer.join().unwrap();
    });
}

#[test]
fn two_publishers_have_one_order() {
    model(2, || {
        let ring = ring(Delivery::Reliable, &[]);
        let mut reader = Reader::join(&ring, 0, Start::Now, true);
        let theirs = ring.clone();
        let writer = thread::spawn(move || publish_shared(&theirs, &mut Claimer::new(0), 0));
        publish_shared(&ring, &mut Claimer::new(1), 1);
        let mut numbers = read(&ring, &mut reader, 2);
        assert_eq!(reader.expected, 2);
        numbers.sort();
        assert_eq!(numbers, [0, 1]);
        writer.join().unwrap();
    });
}

#[test]
fn two_publishers_go_on_behind_an_exclusive_one_that_died() {
    model(2, || {
        let ring = ring(Delivery::Reliable, &[]);
        let mut reader = Reader::join(&ring, 0, Start::Now, true);
        let tail = ring.tail().load(Ordering::Relaxed);
        assert!(publish_exclusive(&ring, &mut Exclusive::new(&ring), 0));
        // It died right after its commit.
        ring.sequence(RING_BYTES + LINE).store(77, Ordering::Relaxed);
        ring.tail().store(tail, Ordering::Release);
        let theirs = ring.clone();
        let writer = thread::spawn(move || publish_shared(&theirs, &mut Claimer::new(0), 1));
        publish_shared(&ring, &mut Claimer::new(1), 2);
        let mut numbers = read(&ring, &mut reader, 3);
        assert_eq!((reader.expected, reader.abandoned), (3, 0));
        numbers.sort();
        assert_eq!(numbers, [0, 1, 2]);
        writer.join().unwrap();
    });
}

#[test]
fn a_subscriber_that_joins_an_exclusive_publisher_gets_the_next_number() {
    model(2, || {
        let ring = ring(Delivery::Reliable, &[]);
        let theirs = ring.clone();
        let writer = thread::spawn(move || {
            let mut exclusive = Exclusive::new(&theirs);
            for number in 0..3 {
                assert!(publish_exclusive(&theirs, &mut exclusive, number));
            }
        });
        let mut reader = Reader::join(&ring, 0, Start::Now, true);
        let first = reader.expected;
        writer.join().unwrap();
        assert_eq!(read(&ring, &mut reader, 3 - first as usize), (first..3).collect::<Vec<_>>());
        assert_eq!((reader.expected, reader.abandoned), (3, 0));
    });
}

#[test]
fn a_subscriber_that_joins_behind_an_exclusive_publisher_that_died_gets_the_next_number() {
    model(2, || {
        let ring = ring(Delivery::Reliable, &[]);
        let tail = ring.tail().load(Ordering::Relaxed);
        let mut exclusive = Exclusive::new(&ring);
        assert!(publish_exclusive(&ring, &mut exclusive, 0) && publish_exclusive(&ring, &mut exclusive, 1));
        // It died right after its second commit, and its tail does not include the first.
        ring.sequence(RING_BYTES + 2 * LINE).store(77, Ordering::Relaxed);
        ring.tail().store(tail, Ordering::Release);
        let theirs = ring.clone();
        let writer = thread::spawn(move || publish_shared(&theirs, &mut Claimer::new(0), 2));
        let mut reader = Reader::join(&ring, 0, Start::Now, true);
        let first = reader.expected;
        writer.join().unwrap();
        assert_eq!(read(&ring, &mut reader, 3 - first as usize), (first..3).collect::<Vec<_>>());
        assert_eq!((reader.expected, reader.abandoned), (3, 0));
    });
}

/// Publishes once. Whether the commit succeeded.
fn publish_once(ring: &Ring, slot: usize, number: u64) -> bool {
    let mut claimer = Claimer::new(slot);
    let Tried::Claimed(claim) = claimer.claim(ring, LINE, 1) else { return false };
    ring.write(claim.first, claim.sequence, number as i64, &body(number));
    claimer.commit(ring, &claim, message(8, 0, 0))
}

#[test]
fn a_publisher_that_is_taken_for_dead_and_goes_on_harms_no_publisher() {
    model(2, || {
        let ring = ring(Delivery::Reliable, &[0]);
        let mut reader = Reader::join(&ring, 0, Start::Now, true);
        let theirs = ring.clone();
        let zombie = thread::spawn(move || publish_once(&theirs, 0, 100));
        publish_shared(&ring, &mut Claimer::new(1), 1);
        let published = u64::from(zombie.join().unwrap());
        // If its commit succeeded, the message is there, before or after the other.
        let mut seen = read(&ring, &mut reader, 1 + published as usize);
        seen.sort();
        assert_eq!(seen, if published == 1 { vec![1, 100] } else { vec![1] });
    });
}

#[test]
fn a_publisher_that_is_taken_for_dead_and_goes_on_harms_no_subscriber() {
    model(2, || {
        let ring = ring(Delivery::Reliable, &[0]);
        let mut reader = Reader::join(&ring, 0, Start::Now, true);
        let theirs = ring.clone();
        let zombie = thread::spawn(move || publish_once(&theirs, 0, 100));
        let mut buffer = [0; 8];
        let mut seen = 0;
        for _ in 0..3 {
            // May pass the claim over.
            if let Found::Message { time, .. } = reader.poll(&ring, &mut buffer, |_, _| true).unwrap() {
                assert_eq!((time, buffer), (100, body(100)));
                seen += 1;
            }
            thread::yield_now();
        }
        let published = u64::from(zombie.join().unwrap());
        publish_shared(&ring, &mut Claimer::new(1), 1);
        let rest = read(&ring, &mut reader, (1 + published - seen) as usize);
        assert_eq!(rest.last(), Some(&1));
    });
}

#[test]
fn a_parked_subscriber_is_woken() {
    model(2, || {
        let ring = ring(Delivery::Reliable, &[]);
        let mut reader = Reader::join(&ring, 0, Start::Now, true);
        let theirs = ring.clone();
        let writer = thread::spawn(move || {
            let mut exclusive = Exclusive::new(&theirs);
            assert!(publish_exclusive(&theirs, &mut exclusive, 0));
        });
        let mut buffer = [0; 8];
        while reader.poll(&ring, &mut buffer, |_, _| true).unwrap() == Found::Nothing {
            reader.park(&ring, Duration::MAX);
        }
        assert_eq!(buffer, body(0));
        writer.join().unwrap();
    });
}
