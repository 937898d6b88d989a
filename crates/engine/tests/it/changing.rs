//! Changes of stored data: messages are replaced, symbols and streams are renamed, schemas get versions.

use super::place::new_database;
use crate::support::*;
use std::ops::Range;
use std::time::Duration;
use tapedb_engine::{
    Cursor, Durability, Error, Invalid, NotFound, Rejected, Rewriter, Stale, Stream, StreamOptions,
};
use tapedb_schema::Timestamp;

const ALL: Option<[&str; 0]> = None;

fn add(rewriter: &mut Rewriter, symbol: &str, rows: &[(i64, u64)]) {
    for (time, number) in rows {
        rewriter.append(symbol, Timestamp(*time), &Tick::of(*number)).unwrap();
    }
}

fn numbers(stream: &Stream) -> Vec<u64> {
    drain(&mut stream.cursor().open().unwrap())
}

/// Symbols and numbers of all messages.
fn named(cursor: &mut Cursor) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    while let Some(message) = cursor.next().unwrap() {
        found.push((message.symbol().to_string(), number_of(&message)));
    }
    found
}

fn of(symbol: &str, numbers: Range<u64>) -> Vec<(String, u64)> {
    numbers.map(|number| (symbol.to_string(), number)).collect()
}

fn load(stream: &Stream, symbol: &str, numbers: Range<u64>) {
    let mut loader = stream.loader().unwrap();
    for number in numbers {
        loader.append(symbol, Timestamp(number as i64), &Tick::of(number)).unwrap();
    }
    loader.close().unwrap();
}

#[test]
fn messages_of_a_range_are_replaced() {
    for durability in [Durability::Async, Durability::Sync] {
        let (mut home, db) = new_database();
        let options = StreamOptions { durability, ..small_files() };
        let stream = db.create_stream("s", schema(), options).unwrap();
        append_ticks(&stream, 0..100);
        stream.seal().unwrap();
        append_ticks(&stream, 100..200);
        let far = home.beside().stream("s").unwrap();
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
        assert_eq!((numbers(&stream), stream.stats().unwrap().next_sequence), (expected.clone(), 214));
        drop((stream, far, db));
        assert_eq!(numbers(&home.open().stream("s").unwrap()), expected);
    }
}

/// More messages than go there, or are kept in memory, at once.
#[test]
fn many_messages_are_replaced() {
    const MANY: u64 = 150_000;
    let (_home, db) = new_database();
    let stream = db.create_stream("s", schema(), StreamOptions::default()).unwrap();
    append_ticks(&stream, 0..1000);
    let mut rewriter = stream.rewrite(Timestamp(100)..Timestamp(200), ALL).unwrap();
    for number in 0..MANY {
        // Equal times keep their order.
        let time = Timestamp(100 + (MANY - 1 - number) as i64 / 1500);
        rewriter.append("A", time, &Tick::of(1_000_000 + number)).unwrap();
    }
    assert_eq!(rewriter.commit().unwrap(), 1000..1000 + MANY);
    let mut expected: Vec<u64> = (0..MANY).collect();
    expected.sort_by_key(|number| (MANY - 1 - number) / 1500);
    let found = numbers(&stream);
    assert_eq!(found.len() as u64, MANY + 900);
    assert!(
        found[..100].iter().copied().eq(0..100) && found[found.len() - 800..].iter().copied().eq(200..1000)
    );
    let replaced = found[100..found.len() - 800].iter().map(|number| number - 1_000_000);
    assert!(replaced.eq(expected));
}

#[test]
fn only_the_symbols_asked_for_are_replaced_and_nothing_else_is_added() {
    let (_home, db) = new_database();
    let stream = db.create_stream("s", schema(), small_files()).unwrap();
    load(&stream, "A", 0..20);
    load(&stream, "B", 0..20);
    let mut rewriter = stream.rewrite(Timestamp(5)..=Timestamp(14), Some(["B", "new"])).unwrap();
    add(&mut rewriter, "new", &[(7, 500)]);
    let outside = |e: &Error| matches!(e, Error::Rejected(Rejected::Outside { .. }));
    assert_error(rewriter.append("A", Timestamp(7), &Tick::of(0)), outside, "\"A\"");
    assert_error(rewriter.append("B", Timestamp(15), &Tick::of(0)), outside, "none of those");
    let huge = Tick { note: "x".repeat(5 << 20), ..Tick::of(0) };
    let appended = rewriter.append("B", Timestamp(7), &huge);
    assert_error(appended, |e| matches!(e, Error::Rejected(Rejected::Size(_))), "over the limit");
    assert_eq!((rewriter.len(), rewriter.is_empty()), (1, false));
    rewriter.commit().unwrap();
    let mut found = named(&mut stream.cursor().open().unwrap());
    found.sort();
    let expected = [of("A", 0..20), of("B", 0..5), of("B", 15..20), of("new", 500..501)].concat();
    assert_eq!(found, expected);
    // Dropped it changes nothing, without messages it deletes, and of no time it does nothing.
    drop(stream.rewrite(.., ALL).unwrap());
    let mut empty = stream.rewrite(Timestamp(3)..Timestamp(3), ALL).unwrap();
    assert_error(empty.append("A", Timestamp(3), &Tick::of(0)), outside, "none of those");
    empty.commit().unwrap();
    stream.rewrite(.., Some(["never seen"])).unwrap().commit().unwrap();
    assert_eq!(numbers(&stream).len(), expected.len());
    assert_eq!(stream.rewrite(.., Some(["A"])).unwrap().commit().unwrap().count(), 0);
    assert_eq!(numbers(&stream).len(), expected.len() - 20);
}

#[test]
fn what_cannot_be_rewritten_is_reported() {
    let (_home, db) = new_database();
    let options = StreamOptions { spaces: 2, ..StreamOptions::default() };
    let spaces = db.create_stream("spaces", schema(), options).unwrap();
    let option = |e: &Error| matches!(e, Error::Invalid(Invalid::Options { .. }));
    assert_error(spaces.rewrite(.., ALL), option, "several spaces");
    assert_error(
        spaces.rewrite_in(2, .., ALL),
        |e| matches!(e, Error::NotFound(NotFound::Space { .. })),
        "no space 2",
    );
    let mut rewriter = spaces.rewrite_in(1, .., ALL).unwrap();
    add(&mut rewriter, "A", &[(2, 7)]);
    rewriter.commit().unwrap();
    assert_eq!(numbers(&spaces), [7]);
    let options = StreamOptions { durability: Durability::Transient, ..StreamOptions::default() };
    let transient = db.create_stream("transient", schema(), options).unwrap();
    assert_error(transient.rewrite(.., ALL), option, "transient");
    let stream = db.create_stream("s", schema(), StreamOptions::default()).unwrap();
    let rewriter = stream.rewrite(.., ALL).unwrap();
    db.delete_stream("s").unwrap();
    assert_error(rewriter.commit(), |e| matches!(e, Error::Stale(Stale::Deleted { .. })), "deleted");
}

#[test]
fn live_cursors_get_the_new_messages_and_miss_nothing() {
    let (home, db) = new_database();
    let stream = db.create_stream("s", schema(), small_files()).unwrap();
    append_ticks(&stream, 0..50);
    let far = home.beside().stream("s").unwrap();
    let mut cursors = [&stream, &far].map(|stream| stream.cursor().live().open().unwrap());
    for cursor in &mut cursors {
        assert_eq!(drain(cursor), (0..50).collect::<Vec<_>>());
    }
    let mut rewriter = stream.rewrite(Timestamp(10)..Timestamp(20), ALL).unwrap();
    add(&mut rewriter, "A", &[(12, 100), (11, 101)]);
    rewriter.commit().unwrap();
    append_ticks(&stream, 50..55);
    for cursor in &mut cursors {
        let next = |_| number_of(&cursor.next_within(Duration::from_secs(60)).unwrap().unwrap());
        assert_eq!((0..7).map(next).collect::<Vec<_>>(), [100, 101, 50, 51, 52, 53, 54]);
    }
}

#[test]
fn a_renamed_symbol_has_all_its_messages() {
    for durability in [Durability::Async, Durability::Sync, Durability::Transient] {
        let (home, db) = new_database();
        let stream = db.create_stream("s", schema(), StreamOptions { durability, ..small_files() }).unwrap();
        load(&stream, "FB", 0..100);
        load(&stream, "X", 0..1);
        stream.seal().unwrap();
        load(&stream, "FB", 100..150);
        let beside = home.beside();
        let far = (durability != Durability::Transient).then(|| beside.stream("s").unwrap());
        let mut live = stream.cursor().symbols(["META"]).skip_history().open().unwrap();
        assert!(live.next().unwrap().is_none());
        stream.rename_symbol("FB", "META").unwrap();
        load(&stream, "META", 150..160);
        // Its old name is free.
        load(&stream, "FB", 160..170);
        for stream in [Some(&stream), far.as_ref()].into_iter().flatten() {
            let only = |symbol: &str| named(&mut stream.cursor().symbols([symbol]).open().unwrap());
            assert_eq!((only("META"), only("FB")), (of("META", 0..160), of("FB", 160..170)));
            assert_eq!(stream.symbols(), ["META", "X", "FB"]);
        }
        let next = |_| number_of(&live.next_within(Duration::from_secs(60)).unwrap().unwrap());
        assert_eq!((0..10).map(next).collect::<Vec<_>>(), (150..160).collect::<Vec<_>>());
        let missing = |e: &Error| matches!(e, Error::NotFound(NotFound::Symbol { .. }));
        assert_error(stream.rename_symbol("none", "D"), missing, "no symbol \"none\"");
        assert_error(stream.rename_symbol("META", "FB"), |e| matches!(e, Error::Log(_)), "FB");
        assert_error(stream.rename_symbol("META", ""), |e| matches!(e, Error::Log(_)), "1 to 255 bytes");
        stream.rename_symbol("META", "META").unwrap();
        db.delete_stream("s").unwrap();
        assert_error(
            stream.rename_symbol("META", "C"),
            |e| matches!(e, Error::Stale(Stale::Deleted { .. })),
            "deleted",
        );
    }
}

#[test]
fn a_renamed_stream_is_the_same_stream() {
    let (_home, db) = new_database();
    let old = db.create_stream("old", schema(), small_files()).unwrap();
    append_ticks(&old, 0..500);
    let new = db.rename_stream("old", "a/new").unwrap();
    assert_eq!((new.name(), new.id(), db.streams().unwrap()), ("a/new", old.id(), vec!["a/new".to_string()]));
    assert_eq!(numbers(&new), (0..500).collect::<Vec<_>>());
    let is_renamed =
        |error: &Error| matches!(error, Error::Stale(Stale::Renamed { new, .. }) if new == "a/new");
    assert_error(old.rewrite(.., ALL), is_renamed, "is called");
    assert_error(old.rename_symbol("A", "B"), is_renamed, "is called");
    db.create_stream("b", schema(), StreamOptions::default()).unwrap();
    assert_error(
        db.rename_stream("b", "a/new"),
        |e| matches!(e, Error::Invalid(Invalid::StreamExists { .. })),
        "already",
    );
    assert_error(
        db.rename_stream("none", "x"),
        |e| matches!(e, Error::NotFound(NotFound::Stream { .. })),
        "a/new",
    );
}

#[test]
fn what_a_new_schema_changes_is_known_before() {
    let (_home, db) = new_database();
    let first = "message Tick { price: i32, note: string? }";
    let stream = db.create_stream("s", first.parse().unwrap(), StreamOptions::default()).unwrap();
    let second = "message Tick { price: i64, note: string = \"none\", size: u32? }".parse().unwrap();
    let changes: Vec<String> =
        stream.compare_schema(&second).unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(
        changes,
        [
            "Tick.price is converted: i32 becomes i64",
            "Tick.note is converted: string? becomes string",
            "Tick.size is added: u32?, null in stored messages"
        ]
    );
    assert_eq!(db.stream("s").unwrap().schema(), stream.schema(), "nothing has changed");
    let changed = db.change_schema("s", second.clone()).unwrap();
    assert!(changed.compare_schema(&second).unwrap().is_empty());
    assert!(stream.compare_schema(&second).unwrap().is_empty(), "an older handle looks at what there is now");
    // It would fit what there is, but not what was written first.
    let third = "message Tick { price: i64, note: string = \"none\", size: string }".parse().unwrap();
    let refused = changed.compare_schema(&third);
    assert_error(refused, |e| matches!(e, Error::Invalid(Invalid::Version { .. })), "size");
    assert_error(
        changed.compare_schema(&"message Tack { x: u8 }".parse().unwrap()),
        |e| matches!(e, Error::Invalid(Invalid::Type { .. })),
        "Tick",
    );
}
