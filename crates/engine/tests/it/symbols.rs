//! Symbols are renamed while their messages are stored, loaded and read.

use crate::support::*;
use std::ops::ControlFlow;
use std::time::Duration;
use tapedb_engine::{
    Cursor, Database, DeletedStreams, Durability, Error, NotFound, Stale, Stream, StreamOptions,
};
use tapedb_schema::Timestamp;

fn load(stream: &Stream, symbol: &str, numbers: std::ops::Range<u64>) {
    let mut loader = stream.loader().unwrap();
    for number in numbers {
        loader.append(symbol, Timestamp(number as i64), &Tick::of(number)).unwrap();
    }
    loader.close().unwrap();
}

/// Symbols and numbers of all messages.
fn named(cursor: &mut Cursor) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    while let Some(message) = cursor.next().unwrap() {
        found.push((message.symbol().to_string(), number_of(&message)));
    }
    found
}

fn of(symbol: &str, numbers: std::ops::Range<u64>) -> Vec<(String, u64)> {
    numbers.map(|number| (symbol.to_string(), number)).collect()
}

#[test]
fn a_renamed_symbol_has_all_its_messages() {
    for durability in [Durability::Async, Durability::Sync, Durability::Transient] {
        let (directory, db) = new_database();
        let options = StreamOptions { durability, ..small_files() };
        let stream = db.create_stream("s", schema(), options).unwrap();
        load(&stream, "FB", 0..100);
        stream.seal().unwrap();
        load(&stream, "FB", 100..150);
        stream.rename_symbol("FB", "META").unwrap();
        load(&stream, "META", 150..160);
        // Its old name is free.
        load(&stream, "FB", 160..170);
        let read = |db: &Database| {
            let stream = db.stream("s").unwrap();
            assert_eq!(stream.symbols(), ["META", "FB"]);
            let both = [of("META", 0..160), of("FB", 160..170)].concat();
            assert_eq!(named(&mut stream.cursor().open().unwrap()), both);
            let only = |symbol: &str| named(&mut stream.cursor().symbols([symbol]).open().unwrap());
            assert_eq!((only("META"), only("FB")), (of("META", 0..160), of("FB", 160..170)));
            let last = named(&mut stream.cursor().last_values().open().unwrap());
            assert_eq!(last, [("META".to_string(), 159), ("FB".to_string(), 169)]);
            assert!(stream.recovery().is_clean());
        };
        read(&db);
        if durability == Durability::Transient {
            continue;
        }
        let path = directory.path().join("db");
        read(&Database::open_read_only(&path).unwrap());
        let copy = directory.path().join("copy");
        db.backup(&copy, DeletedStreams::Keep, |_| ControlFlow::Continue(())).unwrap();
        stream.rename_symbol("META", "FACEBOOK").unwrap();
        read(&Database::open_read_only(&copy).unwrap());
        db.backup(&copy, DeletedStreams::Keep, |_| ControlFlow::Continue(())).unwrap();
        let copied = Database::open_read_only(&copy).unwrap().stream("s").unwrap();
        assert_eq!(copied.symbols(), ["FACEBOOK", "FB"]);
        stream.rename_symbol("FACEBOOK", "META").unwrap();
        stream.seal().unwrap();
        drop((stream, db));
        read(&reopen(&path));
    }
}

#[test]
fn open_handles_use_the_new_name() {
    let (directory, db) = new_database();
    let stream = db.create_stream("s", schema(), StreamOptions::default()).unwrap();
    let reader = Database::open_read_only(directory.path().join("db")).unwrap();
    let mut loader = stream.loader().unwrap();
    let held = loader.symbol("A").unwrap();
    let mut append = |symbol: &str, number: u64| {
        loader.append(symbol, Timestamp(number as i64), &Tick::of(number)).unwrap();
        loader.flush().unwrap();
    };
    append("A", 0);
    let far = reader.stream("s").unwrap();
    let mut cursors: Vec<Cursor> = [&stream, &far]
        .iter()
        .flat_map(|stream| ["A", "B"].map(|symbol| stream.cursor().symbols([symbol]).live().open().unwrap()))
        .collect();
    let found: Vec<usize> = cursors.iter_mut().map(|cursor| named(cursor).len()).collect();
    assert_eq!(found, [1, 0, 1, 0]);
    stream.rename_symbol("A", "B").unwrap();
    append("A", 1);
    append("B", 2);
    let mut next = |cursor: usize| {
        let message = cursors[cursor].next_within(Duration::from_secs(60)).unwrap().unwrap();
        (message.symbol().to_string(), number_of(&message))
    };
    for (cursor, expected) in [(0, ("A", 1)), (1, ("B", 2)), (2, ("A", 1)), (3, ("B", 2))] {
        assert_eq!(next(cursor), (expected.0.to_string(), expected.1), "cursor {cursor}");
    }
    loader.append_by_id(held, Timestamp(3), &Tick::of(3)).unwrap();
    loader.flush().unwrap();
    assert_eq!((next(1).1, next(3).1), (3, 3));
    assert_eq!(stream.symbols(), ["B", "A"]);
    // Deletions use the current name.
    stream.delete(.., Some(["A"])).unwrap();
    assert_eq!(drain(&mut stream.cursor().open().unwrap()), [0, 2, 3]);
}

#[test]
fn names_that_cannot_be_are_refused() {
    let (directory, db) = new_database();
    let stream = db.create_stream("s", schema(), StreamOptions::default()).unwrap();
    load(&stream, "A", 0..1);
    load(&stream, "B", 1..2);
    let missing = |e: &Error| matches!(e, Error::NotFound(NotFound::Symbol { .. }));
    assert_error(stream.rename_symbol("C", "D"), missing, "no symbol \"C\"");
    assert_error(stream.rename_symbol("A", "B"), |e| matches!(e, Error::Log(_)), "B");
    assert_error(stream.rename_symbol("A", ""), |e| matches!(e, Error::Log(_)), "1 to 255 bytes");
    stream.rename_symbol("A", "A").unwrap();
    let reader = Database::open_read_only(directory.path().join("db")).unwrap().stream("s").unwrap();
    assert_error(reader.rename_symbol("A", "C"), |e| matches!(e, Error::ReadOnly), "reading only");
    assert_eq!(stream.symbols(), ["A", "B"]);
    db.delete_stream("s").unwrap();
    assert_error(
        stream.rename_symbol("A", "C"),
        |e| matches!(e, Error::Stale(Stale::Deleted { .. })),
        "deleted",
    );
}

/// With a search of all names for each new one, these took an hour.
#[test]
fn very_many_new_symbols_at_once_get_their_ids_in_order() {
    let (_directory, db) = new_database_without_maintenance();
    let stream = db.create_stream("s", schema(), StreamOptions::default()).unwrap();
    stream.symbol_ids(&["B7", "B3"]).unwrap();
    let names: Vec<String> = (0..400_000).map(|i| format!("B{}", i % 300_000)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let ids = stream.symbol_ids(&names).unwrap();
    let expected = |i: u32| match i % 300_000 {
        7 => 0,
        3 => 1,
        i => i + 2 - u32::from(i > 3) - u32::from(i > 7),
    };
    assert!(ids.iter().copied().eq((0..400_000).map(expected)));
    assert_eq!(stream.symbol_count(), 300_000);
    assert_eq!(stream.symbol_ids(&names).unwrap(), ids);
    assert!(stream.symbol_ids(&["new", ""]).is_err());
}
