//! From history to live messages while writers run at full speed: every message once, in order.

use super::place::new_database;
use crate::support::*;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use tapedb_engine::{Cursor, Database, Stream, StreamOptions};
use tapedb_schema::Timestamp;

const MESSAGES: u64 = 60_000;

/// Appends `MESSAGES` messages whose number is their sequence; a third of the batches has late times, if asked for.
fn write(stream: &Stream, late: bool, mut random: Random, written: &AtomicU64) {
    let mut loader = stream.loader().unwrap();
    let mut number = 0;
    while number < MESSAGES {
        let batch = 1 + random.next() % 300;
        let back = if late && random.chance(3) { 5_000 } else { 0 };
        for _ in 0..batch.min(MESSAGES - number) {
            let symbol = format!("S{}", number / 1000);
            loader.append(&symbol, Timestamp(number as i64 - back), &Tick::of(number)).unwrap();
            number += 1;
        }
        loader.flush().unwrap();
        written.store(number, Ordering::Release);
    }
}

/// Stream, sequence and time of the next message; its content and symbol are checked.
fn next(cursor: &mut Cursor, polls: bool) -> (usize, u64, i64) {
    loop {
        let wait = if polls { Duration::ZERO } else { Duration::from_secs(60) };
        let found = cursor.next_within(wait).unwrap().map(|message| {
            assert_eq!(number_of(&message), message.sequence());
            assert_eq!(message.symbol(), format!("S{}", message.sequence() / 1000));
            (usize::from(message.stream_name() == "s1"), message.sequence(), message.time().0)
        });
        match found {
            Some(found) => return found,
            None if polls => thread::yield_now(),
            None => panic!("no message came"),
        }
    }
}

/// Opens the cursor when a random part has been written, and reads it to the end.
fn read(db: &Database, streams: &[&str], (late, polls, open_at): (bool, bool, u64), written: &AtomicU64) {
    while written.load(Ordering::Acquire) < open_at {
        thread::yield_now();
    }
    let mut cursor = db.cursor(streams).unwrap().live().open().unwrap();
    let mut seen = vec![vec![false; MESSAGES as usize]; streams.len()];
    let mut next_sequence = [0; 2];
    let mut last_time = i64::MIN;
    for _ in 0..MESSAGES * streams.len() as u64 {
        let (stream, sequence, time) = next(&mut cursor, polls);
        assert!(!std::mem::replace(&mut seen[stream][sequence as usize], true), "{sequence} twice");
        if !late {
            assert_eq!(sequence, next_sequence[stream]);
            next_sequence[stream] += 1;
        }
        // Of several streams one may be live while another is still in history.
        if !cursor.is_live() && streams.len() == 1 {
            assert!(time >= last_time, "history is in time order");
            last_time = time;
        }
    }
    assert!(cursor.next().unwrap().is_none());
}

fn hand_over(streams: &[&str], late: bool) {
    let mut random = Random::new();
    let (home, db) = new_database();
    let reader_db = home.beside();
    let written = AtomicU64::new(0);
    let options = StreamOptions { file_bytes_max: 256 << 10, ..StreamOptions::default() };
    for name in streams {
        db.create_stream(name, schema(), options).unwrap();
    }
    thread::scope(|scope| {
        for name in streams {
            let (stream, random) = (db.stream(name).unwrap(), Random::from_seed(random.next()));
            let written = &written;
            scope.spawn(move || write(&stream, late, random, written));
        }
        for reader in 0..4 {
            let how = (late, reader % 2 == 0, random.next() % MESSAGES);
            // One in four as another process would.
            let (db, written) = (if reader == 3 { &reader_db } else { &db }, &written);
            scope.spawn(move || read(db, streams, how, written));
        }
    });
}

#[test]
fn from_history_into_one_live_stream() {
    hand_over(&["s0"], false);
}

#[test]
fn from_history_into_two_live_streams() {
    hand_over(&["s0", "s1"], false);
}

#[test]
fn from_history_with_late_messages_into_live_streams() {
    hand_over(&["s0"], true);
    hand_over(&["s0", "s1"], true);
}

#[test]
fn without_history() {
    let mut random = Random::new();
    let (_directory, db) = new_database();
    let stream = db.create_stream("s0", schema(), StreamOptions::default()).unwrap();
    let written = AtomicU64::new(0);
    thread::scope(|scope| {
        let writer_random = Random::from_seed(random.next());
        scope.spawn(|| write(&stream, true, writer_random, &written));
        for reader in 0..4 {
            let open_at = random.next() % MESSAGES;
            let (stream, written) = (&stream, &written);
            scope.spawn(move || {
                while written.load(Ordering::Acquire) < open_at {
                    thread::yield_now();
                }
                let mut cursor = stream.cursor().skip_history().open().unwrap();
                let position = cursor.position().to_string();
                let first: u64 = position.split(' ').nth(1).unwrap().parse().unwrap();
                assert!(first >= open_at && cursor.is_live());
                for expected in first..MESSAGES {
                    assert_eq!(next(&mut cursor, reader % 2 == 0).1, expected);
                }
                assert!(cursor.next().unwrap().is_none());
            });
        }
    });
}
