//! Messages that the newest version of the schema has no values for: they are sealed, deleted, merged and moved to the cold tier like
//! all others, and readers get the same before and after, their errors among it.

use crate::sealing::files;
use crate::support::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tapedb_engine::{
    Access, Database, Durability, Error, Loader, MessageColumns, Stream, StreamOptions, Symbols, Unreadable,
    Values, forced,
};
use tapedb_log::MemoryStorage;
use tapedb_log::sim::{SimStorage, Stop};
use tapedb_schema::Timestamp;

const OLD: &str = "message Note { text: string } message Tick { number: i64, size: i64 }";
/// A `decimal64` has 16 digits.
const NEW: &str = "message Tick { more: i32?, number: i64, size: decimal64 } message Note { text: string }";
const NEWEST: &str =
    "message Tick { size: decimal64, more: i64?, number: i64 } message Note { text: string, x: u8? }";
/// One digit too many.
const UNCONVERTED: i64 = 12_345_678_901_234_567;
const PATH: &str = "/db";

/// What a reader gets: times and numbers in order, and the sequence numbers of messages that are errors.
type Read = (Vec<(i64, i64)>, BTreeSet<u64>);

fn unconverted_by(error: &Error) -> u64 {
    match error {
        Error::Unreadable(Unreadable::Convert { sequence, .. }) => *sequence,
        error => panic!("{error}"),
    }
}

fn add_error(errors: &mut BTreeSet<u64>, error: &Error) {
    let sequence = unconverted_by(error);
    assert!(errors.insert(sequence), "{error}: twice");
}

fn read_as(stream: &Stream, symbol: Option<&str>, reverse: bool) -> Read {
    let builder = stream.cursor().types(["Tick"]);
    let builder = if let Some(symbol) = symbol { builder.symbols([symbol]) } else { builder };
    let mut cursor = if reverse { builder.reverse() } else { builder }.open().unwrap();
    let (mut rows, mut errors) = (Vec::new(), BTreeSet::new());
    loop {
        match cursor.next() {
            Ok(Some(message)) => {
                let number = message.record().unwrap().get("number").unwrap().to_string();
                rows.push((message.time().0, number.parse().unwrap()));
            }
            Ok(None) => break,
            Err(error) => add_error(&mut errors, &error),
        }
    }
    if reverse {
        rows.reverse();
    }
    (rows, errors)
}

fn read_columns(stream: &Stream, in_time_order: bool) -> Read {
    let builder = stream.columns("Tick", ["number"]);
    let mut columns = if in_time_order { builder.in_time_order() } else { builder }.open().unwrap();
    let (mut rows, mut errors) = (Vec::new(), BTreeSet::new());
    loop {
        match columns.next() {
            Ok(Some(chunk)) => match chunk.column(0).values() {
                Values::Ints(numbers) => {
                    rows.extend(chunk.times().iter().copied().zip(numbers.iter().copied()))
                }
                other => panic!("{other:?}"),
            },
            Ok(None) => break,
            Err(error) => add_error(&mut errors, &error),
        }
    }
    if !in_time_order {
        rows.sort_unstable();
    }
    (rows, errors)
}

/// The errors of a reader of all types; in order of arrival.
fn read_arrivals(stream: &Stream) -> Read {
    let position = format!("live 0 {}", stream.name()).parse().unwrap();
    let mut cursor = stream.cursor().types(["Tick"]).live().resume(&position).open().unwrap();
    let (mut rows, mut errors) = (Vec::new(), BTreeSet::new());
    loop {
        match cursor.next() {
            Ok(Some(message)) => {
                let number = message.record().unwrap().get("number").unwrap().to_string();
                rows.push((message.time().0, number.parse().unwrap()));
            }
            Ok(None) => return (rows, errors),
            Err(error) => add_error(&mut errors, &error),
        }
    }
}

/// What was appended and is not deleted: by sequence number, time, symbol, number and whether it is an error.
#[derive(Default, Clone)]
struct Expected(BTreeMap<u64, (i64, &'static str, i64, bool)>);

impl Expected {
    fn read(&self, symbol: Option<&str>) -> Read {
        let wanted = self.0.iter().filter(|(_, row)| symbol.is_none_or(|symbol| row.1 == symbol));
        let mut rows: Vec<(i64, u64, i64)> =
            wanted.clone().filter(|(_, row)| !row.3).map(|(at, row)| (row.0, *at, row.2)).collect();
        rows.sort_unstable();
        let errors = wanted.filter(|(_, row)| row.3).map(|(at, _)| *at).collect();
        (rows.into_iter().map(|(time, _, number)| (time, number)).collect(), errors)
    }

    fn check(&self, stream: &Stream, how: &str) {
        for symbol in [None, Some("A"), Some("B")] {
            for reverse in [false, true] {
                assert_eq!(read_as(stream, symbol, reverse), self.read(symbol), "{how} {symbol:?} {reverse}");
            }
        }
        let all = self.read(None);
        assert_eq!(read_columns(stream, true), all, "{how}: columns in time order");
        let mut sorted = all.clone();
        sorted.0.sort_unstable();
        assert_eq!(read_columns(stream, false), sorted, "{how}: columns by symbol");
        let arrivals = self.0.values().filter(|row| !row.3).map(|row| (row.0, row.2)).collect();
        assert_eq!(read_arrivals(stream), (arrivals, all.1), "{how}: in order of arrival");
        // No tick is among the notes, nor the error for one.
        let mut notes = stream.cursor().types(["Note"]).open().unwrap();
        while let Some(message) = notes.next().unwrap() {
            assert_eq!(message.type_name(), "Note");
        }
    }

    fn delete(&mut self, stream: &Stream, times: std::ops::Range<i64>) {
        stream.delete(Timestamp(times.start)..Timestamp(times.end), None::<[&str; 0]>).unwrap();
        self.0.retain(|_, row| !times.contains(&row.0));
    }
}

/// Appends ticks through handles of both versions.
struct Feed {
    loaders: [Loader; 2],
    random: Random,
    next: u64,
    expected: Expected,
}

impl Feed {
    fn append(&mut self, batches: usize) {
        for _ in 0..batches {
            let version = self.random.below(3) / 2;
            let loader = &mut self.loaders[version];
            let count = 1 + self.random.below(12);
            let symbol = ["A", "B"][self.random.below(2)];
            // A batch of the old version has none, some or all of them.
            let share = [0, 0, 3, 1][self.random.below(4)];
            let mut rows = Vec::new();
            for _ in 0..count {
                let late = if self.random.below(5) == 0 { 30 } else { 0 };
                let is_unconverted = version == 0 && share > 0 && self.random.below(share) == 0;
                let size = if is_unconverted { UNCONVERTED } else { 7 };
                rows.push((self.next as i64 - late, self.next as i64, size));
                self.expected
                    .0
                    .insert(self.next, (self.next as i64 - late, symbol, self.next as i64, is_unconverted));
                self.next += 1;
            }
            let layouts = [OLD, NEW][version].parse().unwrap();
            let layouts = tapedb_codec::dynamic::Layouts::new(layouts).unwrap();
            if version == 0 && self.random.below(2) == 0 {
                let times: Vec<i64> = rows.iter().map(|row| row.0).collect();
                let numbers: Vec<i64> = rows.iter().map(|row| row.1).collect();
                let sizes: Vec<i64> = rows.iter().map(|row| row.2).collect();
                let columns = MessageColumns::new("Tick", &times, Symbols::One(symbol));
                loader.append_columns(&columns.field("number", &numbers).field("size", &sizes)).unwrap();
            } else {
                for (time, number, size) in rows {
                    let json = format!(r#"{{"$type": "Tick", "number": {number}, "size": {size}}}"#);
                    let value = layouts.from_json(&json).unwrap();
                    loader.append_value(symbol, Timestamp(time), &value).unwrap();
                }
            }
            if self.random.below(9) == 0 {
                let value = layouts.from_json(r#"{"$type": "Note", "text": "n"}"#).unwrap();
                loader.append_value(symbol, Timestamp(self.next as i64), &value).unwrap();
                self.next += 1;
            }
            loader.flush().unwrap();
        }
    }
}

/// Appends a batch of one tick, whose number is its time.
fn append_one(loader: &mut Loader, number: i64, size: i64) {
    let times = [number];
    let columns = MessageColumns::new("Tick", &times, Symbols::One("A"));
    loader.append_columns(&columns.field("number", &times[..]).field("size", &[size][..])).unwrap();
    loader.flush().unwrap();
}

fn feed(db: &Database, seed: u64, file_bytes_max: u64) -> (Feed, Stream) {
    let options = StreamOptions { file_bytes_max, durability: Durability::Sync, ..StreamOptions::default() };
    let old = db.create_stream("s", OLD.parse().unwrap(), options).unwrap();
    let first = old.loader().unwrap();
    let mut feed = Feed {
        loaders: [first, old.loader().unwrap()],
        random: Random::from_seed(seed),
        next: 0,
        expected: Expected::default(),
    };
    let new = db.change_schema("s", NEW.parse().unwrap()).unwrap();
    feed.loaders[1] = new.loader().unwrap();
    (feed, new)
}

#[test]
fn what_cannot_be_converted_is_sealed_deleted_and_merged_in_its_own_version() {
    let seed = Random::new().next();
    for seed in seed..seed + 12 {
        eprintln!("seed {seed}");
        let storage = Arc::new(MemoryStorage::new());
        let open = || Database::open_on(storage.clone(), PATH, Access::WriteWithoutMaintenance).unwrap();
        let db = open();
        let (mut feed, stream) = feed(&db, seed, [1 << 10, 4 << 10, 64 << 20][seed as usize % 3]);
        let seal = |stream: &Stream| match seed % 2 {
            0 => forced::two_threads(|| stream.seal()).unwrap(),
            _ => stream.seal().unwrap(),
        };
        for round in 0..6 {
            feed.append(40);
            feed.expected.check(&stream, "in the log");
            if round % 2 == 1 {
                let from = feed.random.below(feed.next as usize) as i64;
                feed.expected.delete(&stream, from..from + 60);
                feed.expected.check(&stream, "deleted");
            }
            seal(&stream);
            feed.expected.check(&stream, "sealed");
        }
        // Once more: what was found about segments is forgotten.
        let Feed { loaders, mut expected, .. } = feed;
        drop((loaders, stream, db));
        let db = open();
        let stream = db.stream("s").unwrap();
        expected.check(&stream, "reopened");
        expected.delete(&stream, 20..40);
        stream.seal().unwrap();
        expected.check(&stream, "merged");
        stream.alter(StreamOptions { cold_after: Some(Duration::ZERO), ..stream.options() }).unwrap();
        stream.seal().unwrap();
        expected.check(&stream, "cold");
        drop(stream);
        let stream = db.change_schema("s", NEWEST.parse().unwrap()).unwrap();
        expected.check(&stream, "of the newest version");
        expected.delete(&stream, 100..140);
        stream.seal().unwrap();
        expected.check(&stream, "merged as the newest version");
        expected.delete(&stream, i64::MIN..i64::MAX);
        stream.seal().unwrap();
        expected.check(&stream, "all deleted");
    }
}

/// The latest message decides what is late, also if it cannot be converted.
#[test]
fn the_time_of_the_latest_message_counts_though_it_cannot_be_converted() {
    let storage = Arc::new(MemoryStorage::new());
    let db = Database::open_on(storage.clone(), PATH, Access::WriteWithoutMaintenance).unwrap();
    let options = StreamOptions { late: tapedb_engine::Late::Refuse, ..StreamOptions::default() };
    let old = db.create_stream("s", OLD.parse().unwrap(), options).unwrap();
    let mut loader = old.loader().unwrap();
    for (time, size) in [(1, 1), (2, UNCONVERTED), (3, 1), (4, UNCONVERTED), (5, 1)] {
        append_one(&mut loader, time, size);
    }
    loader.close().unwrap();
    let new = db.change_schema("s", NEW.parse().unwrap()).unwrap();
    let value = new.layouts().from_json(r#"{"$type": "Tick", "number": 1, "size": 1}"#).unwrap();
    new.delete(Timestamp(5)..Timestamp(6), None::<[&str; 0]>).unwrap();
    drop((old, new, db));
    for is_sealed in [false, true] {
        let db = Database::open_on(storage.clone(), PATH, Access::WriteWithoutMaintenance).unwrap();
        let stream = db.stream("s").unwrap();
        if is_sealed {
            stream.seal().unwrap();
            stream.delete(Timestamp(3)..Timestamp(4), None::<[&str; 0]>).unwrap();
        }
        let mut loader = stream.loader().unwrap();
        assert_error(
            loader.append_value("A", Timestamp(3), &value).and_then(|()| loader.flush().map(drop)),
            |error| matches!(error, Error::Rejected(_)),
            "1970-01-01T00:00:00.000000004Z",
        );
    }
}

#[test]
fn whatever_stops_it_no_message_is_lost() {
    let seed = Random::new().next();
    let run = |stop_at: Option<u64>, stop: Stop| {
        let disk = SimStorage::new(seed ^ stop_at.unwrap_or(0));
        let open = || Database::open_on(Arc::new(disk.clone()), PATH, Access::WriteWithoutMaintenance);
        let db = open().unwrap();
        let (mut feed, stream) = feed(&db, seed, 1 << 10);
        feed.append(14);
        let Feed { loaders, expected, .. } = feed;
        for loader in loaders {
            loader.close().unwrap();
        }
        let (mut expected, mut deleted) = (expected.clone(), expected);
        let before = disk.operations();
        if let Some(operation) = stop_at {
            disk.crash_at(before + operation);
        }
        let sealed = stream.seal().map(drop);
        let cut = stream.delete(Timestamp(50)..Timestamp(90), None::<[&str; 0]>);
        let merged = stream.seal().map(drop);
        let operations = disk.operations() - before;
        deleted.0.retain(|_, row| !(50..90).contains(&row.0));
        let is_stopped = disk.is_down();
        drop((stream, db));
        disk.restart(stop);
        let db = open().unwrap();
        let stream = db.stream("s").unwrap();
        match stop_at {
            None => {
                assert!(sealed.is_ok() && cut.is_ok() && merged.is_ok(), "{sealed:?} {cut:?} {merged:?}");
                expected = deleted;
            }
            Some(_) => {
                assert!(is_stopped, "operation {stop_at:?} of {operations}");
                let is_deleted = read_as(&stream, None, false) == deleted.read(None);
                assert!(is_deleted || cut.is_err(), "an acknowledged deletion");
                if is_deleted {
                    expected = deleted;
                }
            }
        }
        expected.check(&stream, "after a stop");
        stream.seal().unwrap();
        expected.check(&stream, "and sealed");
        operations
    };
    let operations = run(None, Stop::Kill);
    assert!(operations > 20, "{operations}");
    for stop in [Stop::Kill, Stop::Power] {
        for operation in 1..=operations {
            run(Some(operation), stop);
        }
    }
}

#[test]
fn few_segments_keep_an_old_version() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let db = Database::open_without_maintenance(&path).unwrap();
    let old = db.create_stream("s", OLD.parse().unwrap(), StreamOptions::default()).unwrap();
    let mut loader = old.loader().unwrap();
    for number in 0..300_i64 {
        // One batch of three hundred has one.
        let size = if number == 150 { UNCONVERTED } else { 1 };
        append_one(&mut loader, number, size);
    }
    loader.close().unwrap();
    let new = db.change_schema("s", NEW.parse().unwrap()).unwrap();
    assert_eq!(new.seal().unwrap(), 300);
    assert_eq!(files(&path, "seg").len(), 2, "what can be converted, and what follows");
    let (rows, errors) = read_as(&new, None, false);
    assert_eq!((rows.len(), errors), (299, BTreeSet::from([150])));
}
