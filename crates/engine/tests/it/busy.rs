//! Live readers of columns and of messages while two streams are appended to, by rows and by columns, sealed, merged, chilled and
//! deleted from: each message comes once, in order, and only deleted ones are missing.

use super::place::new_database;
use crate::support::*;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use tapedb_engine::{Chunk, CursorBuilder, Database, Position, StreamOptions, Values};
use tapedb_schema::Timestamp;

const STREAMS: [&str; 2] = ["rows", "columns"];
/// Messages of each stream; `TAPEDB_TRIALS` times as many.
const MESSAGES: u64 = 4_000;
const WAIT: Duration = Duration::from_secs(100);

fn messages() -> u64 {
    MESSAGES * std::env::var("TAPEDB_TRIALS").ok().and_then(|trials| trials.parse().ok()).unwrap_or(1)
}

/// Messages of this symbol are deleted at any time.
fn is_deleted(number: u64) -> bool {
    number % 10 == 7
}

fn symbol_of(number: u64) -> &'static str {
    match is_deleted(number) {
        true => "X",
        false => ["A", "B", "C"][(mix(number) % 3) as usize],
    }
}

/// Times are numbers, and so are sequence numbers.
fn append(db: &Database, name: &str, seed: u64) {
    let (mut random, mut next) = (Random::from_seed(seed), 0);
    let mut loader = db.stream(name).unwrap().loader().unwrap();
    while next < messages() {
        let end = (next + 1 + random.below(400) as u64).min(messages());
        if name == "columns" {
            let rows = (next..end).map(|number| (number as i64, symbol_of(number), number));
            Columns::of(rows).append_ticks(&mut loader).unwrap();
        } else {
            for number in next..end {
                loader.append(symbol_of(number), Timestamp(number as i64), &Tick::of(number)).unwrap();
            }
        }
        assert_eq!(loader.flush().unwrap(), end);
        next = end;
        if random.chance(4) {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

fn maintain(db: &Database, are_read: &AtomicBool, seed: u64) {
    let mut random = Random::from_seed(seed);
    while !are_read.load(Ordering::Relaxed) {
        let stream = db.stream(STREAMS[random.below(2)]).unwrap();
        match random.below(6) {
            0 => {
                let from = (random.next() % messages()) as i64;
                stream.delete(Timestamp(from)..Timestamp(from + 300), Some(["X"])).unwrap();
            }
            1 => {
                let cold_after = random.chance(2).then(|| Duration::from_nanos(random.next() % 2_000));
                stream.alter(StreamOptions { cold_after, ..stream.options() }).unwrap();
            }
            _ => drop(stream.seal().unwrap()),
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// What has been read of each stream, in the order of its sequence numbers.
#[derive(Default)]
struct Seen([u64; 2]);

impl Seen {
    fn take(&mut self, stream: &str, sequence: u64) {
        let next = &mut self.0[STREAMS.iter().position(|name| *name == stream).unwrap()];
        assert!(sequence >= *next, "{stream}: {sequence} after {next}");
        assert!((*next..sequence).all(is_deleted), "{stream}: {next}..{sequence} are missing");
        *next = sequence + 1;
    }

    /// Whether all messages have been read.
    fn is_all(&self) -> bool {
        self.0.iter().all(|next| (*next..messages()).all(is_deleted))
    }
}

fn in_time_order(builder: impl Fn() -> CursorBuilder, seed: u64) {
    let (mut random, mut seen) = (Random::from_seed(seed), Seen::default());
    let mut position: Option<Position> = None;
    'opened: loop {
        let builder = match &position {
            Some(position) => builder().live().resume(position),
            None => builder().live(),
        };
        let columns = builder.columns("Tick", ["note", "number"]).with_sequences().in_time_order();
        let linger = Duration::from_millis(random.below(3) as u64);
        let mut cursor = columns.chunk_rows(1 + random.below(1_000)).linger(linger).open().unwrap();
        while !seen.is_all() {
            let chunk = cursor.next_within(WAIT).unwrap().expect("messages come");
            rows_of(&chunk).into_iter().for_each(|(stream, sequence)| seen.take(&stream, sequence));
            position = Some(cursor.position().unwrap().to_string().parse().unwrap());
            if random.chance(20) {
                continue 'opened;
            }
        }
        return;
    }
}

/// History by symbol has no order; what comes live has.
fn by_symbol(builder: CursorBuilder) {
    let mut cursor = builder.live().columns("Tick", ["note", "number"]).with_sequences().open().unwrap();
    let mut seen: [BTreeSet<u64>; 2] = Default::default();
    let is_all = |seen: &[BTreeSet<u64>; 2]| {
        seen.iter().all(|seen| (0..messages()).all(|number| is_deleted(number) || seen.contains(&number)))
    };
    while !is_all(&seen) {
        let chunk = cursor.next_within(WAIT).unwrap().expect("messages come");
        for (stream, sequence) in rows_of(&chunk) {
            let stream = STREAMS.iter().position(|name| *name == stream).unwrap();
            assert!(seen[stream].insert(sequence), "{sequence} twice");
        }
    }
}

fn as_messages(builder: CursorBuilder) {
    let (mut cursor, mut seen) = (builder.live().open().unwrap(), Seen::default());
    while !seen.is_all() {
        let message = cursor.next_within(WAIT).unwrap().expect("messages come");
        assert_eq!(number_of(&message), message.sequence());
        seen.take(message.stream_name(), message.sequence());
    }
}

/// Stream and sequence number of each row, whose values are compared with what was written.
fn rows_of(chunk: &Chunk<'_>) -> Vec<(String, u64)> {
    let Values::Ints(numbers) = chunk.column(1).values() else { panic!("numbers") };
    let Values::Bytes(ends, bytes) = chunk.column(0).values() else { panic!("texts") };
    let (mut symbols, mut streams) = (Vec::new(), Vec::new());
    chunk.symbols().iter().for_each(|run| symbols.resize(run.end as usize, chunk.symbol(run.symbol)));
    chunk.spaces().for_each(|run| streams.resize(run.end as usize, run.stream.to_string()));
    for (row, sequence) in chunk.sequences().unwrap().iter().enumerate() {
        assert_eq!((numbers[row] as u64, chunk.times()[row] as u64), (*sequence, *sequence));
        assert_eq!(symbols[row], symbol_of(*sequence));
        let start = row.checked_sub(1).map_or(0, |before| ends[before] as usize);
        assert_eq!(&bytes[start..ends[row] as usize], Tick::of(*sequence).note.as_bytes());
    }
    streams.into_iter().zip(chunk.sequences().unwrap().iter().copied()).collect()
}

#[test]
fn readers_get_each_message_once_while_everything_happens() {
    let (_home, db) = new_database();
    let seed = Random::new().next();
    let options = StreamOptions { file_bytes_max: 16 << 10, ..StreamOptions::default() };
    for name in STREAMS {
        db.create_stream(name, schema(), options).unwrap();
    }
    let are_read = AtomicBool::new(false);
    let both = || db.cursor(STREAMS).unwrap();
    thread::scope(|scope| {
        let maintaining = scope.spawn(|| maintain(&db, &are_read, seed));
        let writers = STREAMS.map(|name| scope.spawn(|| append(&db, name, seed)));
        let mut readers = Vec::new();
        for number in 0..3 {
            readers.push(scope.spawn(move || in_time_order(both, seed ^ number)));
            thread::sleep(Duration::from_millis(number * 10));
            readers.push(scope.spawn(move || by_symbol(both())));
        }
        readers.push(scope.spawn(move || as_messages(both())));
        let failed = writers.into_iter().chain(readers).filter_map(|thread| thread.join().err());
        let failed: Vec<_> = failed.collect();
        are_read.store(true, Ordering::Relaxed);
        maintaining.join().unwrap();
        assert!(failed.is_empty(), "seed {seed}");
    });
}
