//! Messages are replaced by others: at once, for all readers, and also after a power cut at any moment.

use crate::support::*;
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tapedb_engine::{
    Access, CheckDepth, CheckEvent, Cursor, Database, Durability, Error, Invalid, LogError, NotFound,
    Rejected, Rewriter, Stale, Stream, StreamOptions,
};
use tapedb_log::sim::{SimStorage, Stop};
use tapedb_schema::Timestamp;

const ALL: Option<[&str; 0]> = None;

/// Adds messages with such numbers, at such times, of a symbol.
fn add(rewriter: &mut Rewriter, symbol: &str, rows: &[(i64, u64)]) {
    for (time, number) in rows {
        rewriter.append(symbol, Timestamp(*time), &Tick::of(*number)).unwrap();
    }
}

fn numbers(stream: &Stream) -> Vec<u64> {
    let forwards = drain(&mut stream.cursor().open().unwrap());
    let mut backwards = drain(&mut stream.cursor().reverse().open().unwrap());
    backwards.reverse();
    assert_eq!(forwards, backwards);
    forwards
}

#[test]
fn messages_of_a_range_are_replaced() {
    for durability in [Durability::Async, Durability::Sync] {
        let (directory, db) = new_database();
        let options = StreamOptions { durability, ..small_files() };
        let stream = db.create_stream("s", schema(), options).unwrap();
        append_ticks(&stream, 0..100);
        stream.seal().unwrap();
        append_ticks(&stream, 100..200);
        let reader = Database::open_read_only(directory.path().join("db")).unwrap();
        let far = reader.stream("s").unwrap();
        assert_eq!(numbers(&far).len(), 200);
        let mut rewriter = stream.rewrite(Timestamp(90)..Timestamp(110), ALL).unwrap();
        add(&mut rewriter, "A", &[(95, 1095), (90, 1090), (95, 2095)]);
        add(&mut rewriter, "B", &[(109, 1109)]);
        assert_eq!((rewriter.len(), numbers(&stream).len()), (4, 200));
        assert_eq!(rewriter.commit().unwrap(), 200..204);
        let expected: Vec<u64> = (0..90).chain([1090, 1095, 2095, 1109]).chain(110..200).collect();
        assert_eq!((numbers(&stream), numbers(&far)), (expected.clone(), expected.clone()));
        append_ticks(&stream, 200..210);
        let expected: Vec<u64> = expected.into_iter().chain(200..210).collect();
        let check = |stream: &Stream| {
            assert_eq!(numbers(stream), expected);
            let last = drain(&mut stream.cursor().last_values().open().unwrap());
            assert_eq!(last, [1109, 209]);
            assert_eq!(stream.stats().unwrap().next_sequence, 214);
            assert!(stream.recovery().is_clean(), "{}", stream.recovery());
        };
        check(&stream);
        check(&far);
        stream.seal().unwrap();
        check(&stream);
        check(&far);
        drop((stream, db));
        let db = reopen(&directory.path().join("db"));
        check(&db.stream("s").unwrap());
        let mut findings = Vec::new();
        db.stored("s").unwrap().check(CheckDepth::Full, |checking| {
            if let CheckEvent::Found(found) = checking {
                findings.push(format!("{found:?}"));
            }
            ControlFlow::Continue(())
        });
        assert!(findings.is_empty(), "{findings:?}");
    }
}

#[test]
fn nothing_is_replaced_of_unknown_symbols() {
    let (directory, db) = new_database();
    let stream = db.create_stream("s", schema(), small_files()).unwrap();
    append_ticks(&stream, 0..20);
    let rewriter = stream.rewrite(Timestamp(0)..Timestamp(10), Some(["never seen"])).unwrap();
    assert_eq!(rewriter.commit().unwrap(), 20..20);
    drop((stream, db));
    assert_eq!(numbers(&reopen(&directory.path().join("db")).stream("s").unwrap()).len(), 20);
}

#[test]
fn only_the_symbols_asked_for_are_replaced() {
    let (_directory, db) = new_database();
    let stream = db.create_stream("s", schema(), small_files()).unwrap();
    let mut loader = stream.loader().unwrap();
    for number in 0..90 {
        let symbol = ["A", "B", "C"][number as usize % 3];
        loader.append(symbol, Timestamp(number as i64), &Tick::of(number)).unwrap();
    }
    loader.flush().unwrap();
    // Messages that have not been flushed come after the replacement.
    loader.append("B", Timestamp(40), &Tick::of(1000)).unwrap();
    let mut rewriter = stream.rewrite(Timestamp(30)..=Timestamp(59), Some(["B", "new"])).unwrap();
    add(&mut rewriter, "new", &[(31, 500), (58, 501)]);
    let outside = |e: &Error| matches!(e, Error::Rejected(Rejected::Outside { .. }));
    assert_error(rewriter.append("A", Timestamp(31), &Tick::of(0)), outside, "\"A\"");
    assert_error(rewriter.append("B", Timestamp(60), &Tick::of(0)), outside, "none of those");
    let huge = Tick { note: "x".repeat(5 << 20), ..Tick::of(0) };
    assert_error(
        rewriter.append("B", Timestamp(31), &huge),
        |e| matches!(e, Error::Rejected(Rejected::Size(_))),
        "over the limit",
    );
    let value = stream.layouts().from_json(r#"{"$type":"Quote","number":3,"bid":"1"}"#).unwrap();
    rewriter.append_value("B", Timestamp(50), &value).unwrap();
    assert_eq!(rewriter.len(), 3);
    rewriter.commit().unwrap();
    loader.flush().unwrap();
    let mut found = Vec::new();
    let mut cursor = stream.cursor().from(Timestamp(30)).to(Timestamp(60)).open().unwrap();
    while let Some(message) = cursor.next().unwrap() {
        found.push((message.time().0, message.symbol().to_string()));
    }
    let kept = (30..60).filter(|time| time % 3 != 1);
    let mut expected: Vec<_> =
        kept.map(|time| (time, ["A", "B", "C"][time as usize % 3].to_string())).collect();
    expected.extend([(31, "new"), (58, "new"), (50, "B"), (40, "B")].map(|(time, name)| (time, name.into())));
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
}

#[test]
fn live_cursors_get_the_new_ones_and_miss_nothing() {
    let (directory, db) = new_database();
    let stream = db.create_stream("s", schema(), small_files()).unwrap();
    append_ticks(&stream, 0..50);
    let reader = Database::open_read_only(directory.path().join("db")).unwrap().stream("s").unwrap();
    let open = |stream: &Stream| stream.cursor().live().open().unwrap();
    let mut cursors: Vec<Cursor> = vec![open(&stream), open(&reader), open(&stream), open(&reader)];
    // Two are at the end, two have not begun.
    for cursor in &mut cursors[..2] {
        assert_eq!(drain(cursor), (0..50).collect::<Vec<_>>());
    }
    let mut rewriter = stream.rewrite(Timestamp(10)..Timestamp(20), ALL).unwrap();
    add(&mut rewriter, "A", &[(12, 100), (11, 101)]);
    rewriter.commit().unwrap();
    append_ticks(&stream, 50..55);
    for (i, cursor) in cursors.iter_mut().enumerate() {
        let mut found: Vec<u64> = Vec::new();
        while found.last() != Some(&54) {
            found.push(number_of(&cursor.next_within(Duration::from_secs(60)).unwrap().unwrap()));
        }
        if i > 1 {
            found.retain(|number| !(10..20).contains(number));
            assert!(found.drain(..40).eq((0..10).chain(20..50)), "cursor {i}");
        }
        assert_eq!(found, [100, 101, 50, 51, 52, 53, 54], "cursor {i}");
        assert!(cursor.next().unwrap().is_none() && cursor.is_live());
    }
}

#[test]
fn what_cannot_be_rewritten_is_reported() {
    let (directory, db) = new_database();
    let options = StreamOptions { spaces: 2, ..StreamOptions::default() };
    let spaces = db.create_stream("spaces", schema(), options).unwrap();
    let option = |e: &Error| matches!(e, Error::Invalid(Invalid::Options { .. }));
    assert_error(spaces.rewrite(.., ALL), option, "several spaces");
    assert_error(
        spaces.rewrite_in(2, .., ALL),
        |e| matches!(e, Error::NotFound(NotFound::Space { .. })),
        "no space 2",
    );
    for space in 0..2 {
        let mut loader = spaces.loader_in(space).unwrap();
        loader.append("A", Timestamp(1), &Tick::of(space.into())).unwrap();
    }
    let mut rewriter = spaces.rewrite_in(1, .., ALL).unwrap();
    add(&mut rewriter, "A", &[(2, 7)]);
    rewriter.commit().unwrap();
    assert_eq!(numbers(&spaces), [0, 7]);

    let options = StreamOptions { durability: Durability::Transient, ..StreamOptions::default() };
    let transient = db.create_stream("transient", schema(), options).unwrap();
    assert_error(transient.rewrite(.., ALL), option, "transient");
    let stream = db.create_stream("s", schema(), StreamOptions::default()).unwrap();
    append_ticks(&stream, 0..10);
    let reader = Database::open_read_only(directory.path().join("db")).unwrap().stream("s").unwrap();
    assert_error(reader.rewrite(.., ALL), |e| matches!(e, Error::ReadOnly), "reading only");

    // Dropped it changes nothing, committed without messages it deletes.
    let mut rewriter = stream.rewrite(.., ALL).unwrap();
    add(&mut rewriter, "A", &[(2, 7)]);
    drop(rewriter);
    assert_eq!(numbers(&stream), (0..10).collect::<Vec<_>>());
    let rewriter = stream.rewrite(Timestamp(3).., ALL).unwrap();
    assert!(rewriter.is_empty());
    assert_eq!(rewriter.commit().unwrap(), 10..10);
    assert_eq!(numbers(&stream), [0, 1, 2]);
    let mut empty = stream.rewrite(Timestamp(3)..Timestamp(3), ALL).unwrap();
    let appended = empty.append("A", Timestamp(3), &Tick::of(0));
    assert_error(appended, |e| matches!(e, Error::Rejected(Rejected::Outside { .. })), "none of those");
    assert_eq!((empty.commit().unwrap(), numbers(&stream)), (10..10, vec![0, 1, 2]));

    let rewriter = stream.rewrite(.., ALL).unwrap();
    db.delete_stream("s").unwrap();
    assert_error(rewriter.commit(), |e| matches!(e, Error::Stale(Stale::Deleted { .. })), "deleted");
}

const OLD: std::ops::Range<u64> = 0..40;

fn new() -> Vec<u64> {
    (0..10).chain([100, 101, 102]).chain(30..40).collect()
}

/// A database with messages, and the rewrite to break.
fn rewriting(disk: &SimStorage) -> (Database, Rewriter) {
    let storage = Arc::new(disk.clone());
    let db = Database::open_on(storage, "/db", Access::WriteWithoutMaintenance).unwrap();
    // So that what was there before is not lost to the power cut.
    let options = StreamOptions { durability: Durability::Sync, ..small_files() };
    let stream = db.create_stream("s", schema(), options).unwrap();
    append_ticks(&stream, 0..20);
    stream.seal().unwrap();
    append_ticks(&stream, 20..40);
    let mut rewriter = stream.rewrite(Timestamp(10)..Timestamp(30), ALL).unwrap();
    add(&mut rewriter, "A", &[(10, 100), (20, 101), (29, 102)]);
    (db, rewriter)
}

/// Opens the database again: it must have the old messages or the new ones, accept more, and pass a check.
fn check_whole(disk: &SimStorage, place: &str) -> bool {
    let reader = Database::open_on(Arc::new(disk.clone()), "/db", Access::Read).unwrap();
    let seen = numbers(&reader.stream("s").unwrap());
    let db = Database::open_on(Arc::new(disk.clone()), "/db", Access::WriteWithoutMaintenance).unwrap();
    let stream = db.stream("s").unwrap();
    assert!(stream.recovery().damaged().next().is_none(), "{place}: {}", stream.recovery());
    let found = numbers(&stream);
    let is_new = found == new();
    assert!(is_new || found == OLD.collect::<Vec<_>>(), "{place}: {found:?}");
    assert_eq!(seen, found, "{place}: beside it");
    append_ticks(&stream, 40..45);
    let more: Vec<u64> = found.into_iter().chain(40..45).collect();
    assert_eq!(numbers(&stream), more, "{place}");
    drop((stream, db));
    let db = Database::open_on(Arc::new(disk.clone()), "/db", Access::WriteWithoutMaintenance).unwrap();
    assert_eq!(numbers(&db.stream("s").unwrap()), more, "{place}, opened again");
    is_new
}

#[test]
fn stopped_anywhere_it_has_the_old_or_the_new() {
    let disk = SimStorage::new(1);
    let (_db, rewriter) = rewriting(&disk);
    let first = disk.operations();
    rewriter.commit().unwrap();
    let last = disk.operations();
    assert!(last > first + 10);
    for stop in [Stop::Kill, Stop::Power] {
        let mut outcomes = [0; 2];
        for operation in first + 1..=last {
            let disk = SimStorage::new(operation);
            let (db, rewriter) = rewriting(&disk);
            assert_eq!(disk.operations(), first);
            disk.crash_at(operation);
            let committed = rewriter.commit();
            disk.stop();
            drop(db);
            disk.restart(stop);
            let is_new = check_whole(&disk, &format!("{stop:?} in operation {operation}"));
            assert!(is_new || committed.is_err(), "{stop:?} in operation {operation}: it was acknowledged");
            outcomes[usize::from(is_new)] += 1;
        }
        assert!(outcomes.iter().all(|count| *count > 1), "{outcomes:?}");
    }
}

#[test]
fn a_failing_disk_leaves_the_old_or_the_new() {
    let disk = SimStorage::new(1);
    let (_db, rewriter) = rewriting(&disk);
    let first = disk.operations();
    rewriter.commit().unwrap();
    let mut failures = 0;
    for operation in first + 1..=disk.operations() {
        let place = format!("operation {operation} failed");
        let disk = SimStorage::new(operation);
        let (db, rewriter) = rewriting(&disk);
        disk.fail_at(operation, ErrorKind::Other);
        let committed = rewriter.commit();
        failures += u32::from(committed.is_err());
        let stream = db.stream("s").unwrap();
        let found = numbers(&stream);
        let expected = if committed.is_ok() { new() } else { OLD.collect() };
        assert_eq!(found, expected, "{place}: {committed:?}");
        // It continues, or fails clearly.
        let mut loader = stream.loader().unwrap();
        loader.append("A", Timestamp(39), &Tick::of(200)).unwrap();
        match loader.flush() {
            Ok(_) => {
                assert_eq!(numbers(&stream), expected.into_iter().chain([200]).collect::<Vec<_>>(), "{place}")
            }
            Err(Error::Log(error)) => {
                assert!(matches!(*error, LogError::Poisoned { .. }), "{place}: {error}")
            }
            Err(error) => panic!("{place}: {error}"),
        }
        disk.stop();
        drop((loader, stream, db));
        disk.restart(Stop::Kill);
        let db = Database::open_on(Arc::new(disk.clone()), Path::new("/db"), Access::WriteWithoutMaintenance)
            .unwrap();
        let mut found = numbers(&db.stream("s").unwrap());
        found.retain(|number| *number != 200);
        assert!(
            found == new() || committed.is_err() && found == OLD.collect::<Vec<_>>(),
            "{place}: {found:?}"
        );
    }
    assert!(failures > 5);
}
