//! The last messages of symbols, for late subscribers: the same as a cursor over all of history finds.

use crate::counting::Counting;
use crate::support::*;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tapedb_engine::{
    Access, Cursor, CursorBuilder, Database, Error, Invalid, NotFound, Position, Stream, StreamOptions,
};
use tapedb_log::MemoryStorage;
use tapedb_schema::Timestamp;

type Row = (i64, String, String, String, u64);

/// All messages of a cursor: time, stream, symbol, type, number.
fn rows(cursor: &mut Cursor) -> Vec<Row> {
    let mut rows = Vec::new();
    while let Some(message) = cursor.next().unwrap() {
        let (stream, symbol) = (message.stream_name().to_string(), message.symbol().to_string());
        rows.push((message.time().0, stream, symbol, message.type_name().into(), number_of(&message)));
    }
    rows
}

/// Of each stream, symbol and type the last row: of rows in time order, or backwards.
fn lasts(mut all: Vec<Row>, reversed: bool) -> Vec<Row> {
    if !reversed {
        all.reverse();
    }
    let mut seen = HashSet::new();
    all.retain(|(_, stream, symbol, record, _)| {
        seen.insert((stream.clone(), symbol.clone(), record.clone()))
    });
    if !reversed {
        all.reverse();
    }
    all
}

/// Compares what is found with what a cursor over everything finds, whole and resumed at `cut`.
pub fn check(build: impl Fn() -> CursorBuilder, reversed: bool, cut: usize) {
    let expected = lasts(rows(&mut build().open().unwrap()), reversed);
    let mut cursor = build().last_values().open().unwrap();
    let cut = cut % (expected.len() + 1);
    for row in &expected[..cut] {
        let message = cursor.next().unwrap().unwrap();
        assert_eq!((message.time().0, number_of(&message)), (row.0, row.4));
    }
    let position: Position = cursor.position().to_string().parse().unwrap();
    assert_eq!(rows(&mut cursor), expected[cut..]);
    assert!(cursor.next().unwrap().is_none());
    let mut resumed = build().last_values().resume(&position).open().unwrap();
    assert_eq!(rows(&mut resumed), expected[cut..], "{position}");
}

fn append(stream: &Stream, space: u32, rows: &[(&str, i64, u64)]) {
    let mut loader = stream.loader_in(space).unwrap();
    for (symbol, time, number) in rows {
        match number % 2 {
            0 => loader.append(symbol, Timestamp(*time), &Tick::of(*number)).unwrap(),
            _ => loader.append(symbol, Timestamp(*time), &Quote::of(*number)).unwrap(),
        }
    }
    loader.close().unwrap();
}

fn numbers(builder: CursorBuilder) -> Vec<u64> {
    drain(&mut builder.last_values().open().unwrap())
}

#[test]
fn the_greatest_time_counts_and_then_what_came_last() {
    let (_directory, db) = new_database();
    let stream = db.create_stream("s", schema(), StreamOptions::default()).unwrap();
    assert!(numbers(stream.cursor()).is_empty());
    append(&stream, 0, &[("A", 5, 0), ("A", 9, 2), ("B", 3, 4), ("A", 9, 6), ("A", 1, 8), ("A", 2, 1)]);
    assert_eq!(numbers(stream.cursor()), [1, 4, 6]);
    append(&stream, 0, &[("B", 3, 10), ("A", 8, 12)]);
    for _ in ["in the log", "sealed"] {
        assert_eq!(numbers(stream.cursor()), [1, 10, 6]);
        assert_eq!(numbers(stream.cursor().reverse()), [6, 10, 1]);
        assert_eq!(numbers(stream.cursor().to(Timestamp(9))), [1, 10, 12]);
        assert_eq!(numbers(stream.cursor().from(Timestamp(3))), [10, 6]);
        assert_eq!(numbers(stream.cursor().symbols(["A", "none"])), [1, 6]);
        assert_eq!(numbers(stream.cursor().types(["Quote"])), [1]);
        assert!(numbers(stream.cursor().to(Timestamp(i64::MIN))).is_empty());
        stream.seal().unwrap();
    }
    stream.delete(Timestamp(9)..Timestamp(10), Some(["A"])).unwrap();
    assert_eq!(numbers(stream.cursor()), [1, 10, 12]);
    stream.clear().unwrap();
    assert!(numbers(stream.cursor()).is_empty());
}

#[test]
fn live_messages_follow_them() {
    let (directory, db) = new_database();
    let options = StreamOptions { spaces: 2, ..StreamOptions::default() };
    let stream = db.create_stream("s", schema(), options).unwrap();
    append(&stream, 0, &[("A", 1, 0), ("B", 4, 2)]);
    append(&stream, 1, &[("A", 1, 4), ("A", 2, 1)]);
    let reader = Database::open_read_only(directory.path().join("db")).unwrap();
    let far = reader.stream("s").unwrap();
    let open = |stream: &Stream| stream.cursor().last_values().live().open().unwrap();
    let mut cursors = [open(&stream), open(&far)];
    append(&stream, 0, &[("A", 0, 6), ("C", 9, 8)]);
    stream.seal().unwrap();
    for (i, cursor) in cursors.iter_mut().enumerate() {
        // Of equal times in two spaces, the one is wanted that a cursor returns last.
        let wait =
            |cursor: &mut Cursor| number_of(&cursor.next_within(Duration::from_secs(60)).unwrap().unwrap());
        assert_eq!([wait(cursor), wait(cursor)], [4, 1], "cursor {i}");
        let position: Position = cursor.position().to_string().parse().unwrap();
        let mut resumed = stream.cursor().last_values().live().resume(&position).open().unwrap();
        for cursor in [cursor, &mut resumed] {
            let mut left: Vec<u64> = (0..3).map(|_| wait(cursor)).collect();
            left.sort_unstable();
            assert_eq!(left, [2, 6, 8], "cursor {i}");
            assert!(cursor.next().unwrap().is_none() && cursor.is_live());
        }
    }
    let skipping = stream.cursor().skip_history().last_values().open();
    assert_error(skipping, |e| matches!(e, Error::Invalid(Invalid::Cursor { .. })), "skip history");
}

#[test]
fn fields_distinguish_messages() {
    let (_directory, db) = new_database();
    let schema = "message Order { id: u32, venue: string, size: u32? } message Note { text: string }";
    let stream = db.create_stream("s", schema.parse().unwrap(), small_files()).unwrap();
    let mut loader = stream.loader().unwrap();
    for time in 0..600 {
        let (id, venue) = (time % 7, ["X", "Y"][usize::from(time % 3 == 0)]);
        let json = format!(r#"{{"$type":"Order","id":{id},"venue":"{venue}","size":{time}}}"#);
        let order = stream.layouts().from_json(&json).unwrap();
        loader.append_value(["A", "B"][time as usize % 2], Timestamp(time), &order).unwrap();
    }
    let note = stream.layouts().from_json(r#"{"$type":"Note","text":"x"}"#).unwrap();
    loader.append_value("A", Timestamp(7), &note).unwrap();
    loader.flush().unwrap();
    for _ in ["in the log", "sealed"] {
        let times = |fields: &[&str]| {
            let builder = stream.cursor().last_values_by("Order", fields.iter().copied());
            let (mut cursor, mut times) = (builder.open().unwrap(), Vec::new());
            while let Some(message) = cursor.next().unwrap() {
                times.push(message.time().0);
            }
            times
        };
        // 2 symbols, 7 ids, 2 venues: the last 42 messages have each combination at least once.
        let all: Vec<i64> =
            (0..600).filter(|time| !(0..600).any(|l| l > *time && (l - time) % 42 == 0)).collect();
        let distinct = |key: &dyn Fn(i64) -> (i64, bool, bool)| {
            let mut seen = HashSet::new();
            let mut times: Vec<i64> =
                all.iter().rev().copied().filter(|time| seen.insert(key(*time))).collect();
            times.push(7);
            times.sort_unstable();
            times
        };
        assert_eq!(times(&["id", "venue"]), distinct(&|t| (t % 7, t % 2 == 0, t % 3 == 0)));
        assert_eq!(times(&["id"]), distinct(&|t| (t % 7, t % 2 == 0, false)));
        assert_eq!(times(&[]), [7, 598, 599]);
        stream.seal().unwrap();
    }
    let by = |record: &str, field: &str| stream.cursor().last_values_by(record, [field]).open();
    assert_error(
        by("Order", "price"),
        |e| matches!(e, Error::NotFound(NotFound::Column { .. })),
        "Order.price",
    );
    assert_error(
        by("Trade", "id"),
        |e| matches!(e, Error::Invalid(Invalid::Type { .. })),
        "no such message type",
    );
}

#[test]
fn messages_of_older_schemas_count_too() {
    let (_directory, db) = new_database();
    let first = "message Tick { number: u32 } message Note { text: string }";
    let second =
        "message Extra { x: u8 } message Note { text: string } message Tick { count: u64 [alias number] }";
    let stream = db.create_stream("s", first.parse().unwrap(), small_files()).unwrap();
    let load = |stream: &Stream, times: std::ops::Range<i64>, field: &str| {
        let mut loader = stream.loader().unwrap();
        for time in times {
            let json = format!(r#"{{"$type":"Tick","{field}":{time}}}"#);
            let tick = stream.layouts().from_json(&json).unwrap();
            loader.append_value(["A", "B", "C"][time as usize % 3], Timestamp(time), &tick).unwrap();
        }
    };
    load(&stream, 0..300, "number");
    stream.seal().unwrap();
    load(&stream, 300..400, "number");
    let stream = db.change_schema("s", second.parse().unwrap()).unwrap();
    for _ in ["all of the old schema", "half of the new"] {
        let all = rows_of_versions(stream.cursor());
        assert_eq!(rows_of_versions(stream.cursor().last_values()), all[all.len() - 3..]);
        load(&stream, 400..403, "count");
    }
}

fn rows_of_versions(builder: CursorBuilder) -> Vec<(i64, String)> {
    let (mut cursor, mut rows) = (builder.open().unwrap(), Vec::new());
    while let Some(message) = cursor.next().unwrap() {
        rows.push((
            message.time().0,
            format!("{} {:?}", message.symbol(), message.record().unwrap().get("count")),
        ));
    }
    rows
}

/// A stream of 64 symbols in parts of 20,000 messages, with one symbol in its first messages alone.
fn long_history(parts: u64) -> (Counting, Stream) {
    const PART: u64 = 20_000;
    let storage = Counting::on(Arc::new(MemoryStorage::new()));
    let db = Database::open_on(Arc::new(storage.clone()), "db", Access::WriteWithoutMaintenance).unwrap();
    let stream = db.create_stream("s", schema(), StreamOptions::default()).unwrap();
    append(&stream, 0, &[("silent", 0, 0), ("silent", 0, 1)]);
    for part in 0..parts {
        let mut loader = stream.loader().unwrap();
        for number in part * PART..(part + 1) * PART {
            let symbol = format!("S{:02}", mix(number) % 64);
            match number % 2 {
                0 => loader.append(&symbol, Timestamp(number as i64), &Tick::of(number)).unwrap(),
                _ => loader.append(&symbol, Timestamp(number as i64), &Quote::of(number)).unwrap(),
            }
        }
        loader.close().unwrap();
        stream.seal().unwrap();
    }
    (storage, stream)
}

#[test]
fn finding_them_does_not_read_history() {
    let read = |parts: u64| {
        let (storage, stream) = long_history(parts);
        let read = |builder: CursorBuilder, count: usize| {
            storage.reset();
            assert_eq!(numbers(builder).len(), count);
            storage.bytes_read()
        };
        let active = (0..64).map(|symbol| format!("S{symbol:02}"));
        (
            read(stream.cursor().symbols(active), 128),
            read(stream.cursor(), 130),
            stream.stats().unwrap().bytes,
        )
    };
    let ((active, all, bytes), (active_10, all_10, bytes_10)) = (read(2), read(20));
    assert!(bytes_10 > bytes * 8, "{bytes} and {bytes_10}");
    assert!(
        active > 0 && active_10 < active * 2,
        "active symbols: {active} and {active_10} of {bytes_10} bytes"
    );
    assert!(all_10 < all * 3 && all_10 < bytes_10 / 3, "all symbols: {all} and {all_10} of {bytes_10} bytes");
}
