//! The ring between threads of one process, in owned memory: the tests that Miri can run.

use crate::claims::{Claimer, Tried};
use crate::exclusive::Exclusive;
use crate::format::{Delivery, LINE, RING_BYTES_MIN, Shape, message, word};
use crate::page::AllAlive;
use crate::reader::{Found, Reader, Start};
use crate::ring::Ring;
use std::sync::atomic::AtomicU64;
use std::thread;
use tapedb_shm::Words;
use tapedb_shm::atomics::Ordering;

const MESSAGES: u64 = if cfg!(miri) { 20 } else { 20_000 };

fn ring(delivery: Delivery) -> Ring {
    let shape = Shape {
        delivery,
        id: 1,
        created: 0,
        ring_bytes: RING_BYTES_MIN,
        symbols_bytes: 4096,
        schema_bytes: 0,
        stall_ms: 0,
    };
    let ring = Ring::new(Words::owned(shape.file_bytes() as usize), shape, Box::new(AllAlive));
    ring.format();
    ring.subscriber(0, word::subscriber::PROCESS).store(1, Ordering::Relaxed);
    ring
}

fn read(ring: &Ring, reader: &mut Reader, count: u64, mut took: impl FnMut(u64)) {
    let (mut body, mut seen) = ([0; 64], 0);
    while seen < count {
        match reader.poll(ring, &mut body, |_, _| true).unwrap() {
            Found::Message { bytes, time, .. } => {
                assert!(body[..bytes].iter().all(|byte| *byte == time as u8), "torn");
                took(time as u64);
                seen += 1;
            }
            Found::Nothing => thread::yield_now(),
        }
    }
}

/// Bodies of all lengths up to a line.
fn length(number: u64) -> usize {
    (number % 40) as usize
}

#[test]
fn an_exclusive_publisher_writes_in_place_and_a_subscriber_reads() {
    let ring = ring(Delivery::Reliable);
    let mut reader = Reader::join(&ring, 0, Start::Now, true);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut exclusive = Exclusive::new(&ring);
            for number in 0..MESSAGES {
                let position = loop {
                    match exclusive.reserve(&ring, LINE) {
                        Ok(position) => break position,
                        Err(_) => thread::yield_now(),
                    }
                };
                let first = ring.view().word_at(position) + 3;
                #[expect(unsafe_code, reason = "what publishers do")]
                // SAFETY: the frame lies beyond the tail and within the limit, and there is no other publisher.
                let body = unsafe { ring.words.bytes_mut(first, length(number)) };
                body.fill(std::mem::MaybeUninit::new(number as u8));
                ring.view().write_header(position, number, number as i64);
                exclusive.add(ring.view(), LINE, message(length(number), 0, 0), 1);
                exclusive.commit(ring.view());
            }
        });
        let mut next = 0;
        read(&ring, &mut reader, MESSAGES, |number| {
            assert_eq!(number, next);
            next += 1;
        });
    });
}

#[test]
fn two_publishers_share_and_a_subscriber_reads() {
    let ring = ring(Delivery::Reliable);
    let mut reader = Reader::join(&ring, 0, Start::Now, true);
    let next = AtomicU64::new(0);
    thread::scope(|scope| {
        for slot in 0..2 {
            let (ring, next) = (&ring, &next);
            scope.spawn(move || {
                let mut claimer = Claimer::new(slot);
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= MESSAGES {
                        return;
                    }
                    let claim = loop {
                        match claimer.claim(ring, LINE, 1) {
                            Tried::Claimed(claim) => break claim,
                            Tried::BackPressured(_) => thread::yield_now(),
                        }
                    };
                    let body = [number as u8; 40];
                    ring.write(claim.first, claim.sequence, number as i64, &body[..length(number)]);
                    assert!(claimer.commit(ring, &claim, message(length(number), 0, 0)));
                }
            });
        }
        let mut seen = vec![false; MESSAGES as usize];
        read(&ring, &mut reader, MESSAGES, |number| {
            assert!(!std::mem::replace(&mut seen[number as usize], true));
        });
    });
}
