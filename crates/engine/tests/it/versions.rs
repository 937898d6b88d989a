//! A stream gets other schemas while it has messages, loaders and cursors.

use super::place::new_database;
use crate::support::*;
use std::time::Duration;
use tapedb_engine::{Error, Invalid, Message, Stale, Stream, Values};
use tapedb_schema::Timestamp;

const FIRST: &str =
    "message Tick { number: u32, side: Side } message Note { text: string } enum Side { BID, ASK }";
const SECOND: &str = "enum Side { ASK, BID, NONE } message Note { text: string, level: u8 = 3 }
    message Tick { size: u32 = 100, count: u64 [alias number], side: Side, venue: string? }";
const THIRD: &str =
    "enum Side { ASK, BID, NONE } message Extra { x: f64 } message Note { text: string, level: u8 = 3 }
    message Tick { count: u64 [alias number], size: u64 = 100, side: Side, venue: string?, more: array<u32>? }";

fn append(stream: &Stream, loader: &mut tapedb_engine::Loader, number: u64, json: &str) {
    let value = stream.layouts().from_json(json).unwrap();
    loader.append_value(["A", "B"][number as usize % 2], Timestamp(number as i64), &value).unwrap();
}

/// The fields of a message, in the schema of the cursor's stream.
fn fields_of(message: &Message<'_>) -> String {
    let record = message.record().unwrap();
    let field = |name: &str| record.get(name).map(|value| value.to_string()).unwrap_or_default();
    let fields: Vec<String> =
        ["number", "count", "size", "side", "venue", "more", "text", "level"].map(field).into();
    format!("{} {} {}", message.time().0, message.type_name(), fields.join(" "))
}

fn all(stream: &Stream) -> Vec<String> {
    let mut cursor = stream.cursor().open().unwrap();
    let mut found = Vec::new();
    while let Some(message) = cursor.next().unwrap() {
        found.push(fields_of(&message));
    }
    found
}

/// Of all ticks, read as columns: counts and sizes.
fn sum_of_ticks(stream: &Stream) -> (i64, i64) {
    let mut columns = stream.columns("Tick", ["count", "size"]).open().unwrap();
    let mut sums = (0, 0);
    while let Some(chunk) = columns.next().unwrap() {
        let sum = |index: usize| match chunk.column(index).values() {
            Values::Ints(values) => values.iter().sum::<i64>(),
            other => panic!("{other:?}"),
        };
        sums = (sums.0 + sum(0), sums.1 + sum(1));
    }
    sums
}

fn load_first(stream: &Stream, numbers: std::ops::Range<u64>) {
    let mut loader = stream.loader().unwrap();
    for number in numbers {
        let side = if number.is_multiple_of(3) { "BID" } else { "ASK" };
        let json = match number % 5 {
            0 => format!(r#"{{"$type": "Note", "text": "n{number}"}}"#),
            _ => format!(r#"{{"$type": "Tick", "number": {number}, "side": "{side}"}}"#),
        };
        append(stream, &mut loader, number, &json);
        if number % 7 == 0 {
            loader.flush().unwrap();
        }
    }
    loader.close().unwrap();
}

/// What [`load_first`] has written, as the third schema has it.
fn first_in_third(numbers: std::ops::Range<u64>) -> Vec<String> {
    let one = |number: u64| match number % 5 {
        0 => format!("{number} Note       n{number} 3"),
        _ => {
            let side = if number.is_multiple_of(3) { "BID" } else { "ASK" };
            format!("{number} Tick  {number} 100 {side} null null  ")
        }
    };
    numbers.map(one).collect()
}

#[test]
fn old_messages_are_read_with_the_newest_schema_wherever_they_lie() {
    let (mut home, db) = new_database();
    let first = db.create_stream("s", FIRST.parse().unwrap(), small_files()).unwrap();
    load_first(&first, 0..400);
    first.seal().unwrap();
    load_first(&first, 400..500);
    let second = db.change_schema("s", SECOND.parse().unwrap()).unwrap();
    let mut loader = second.loader().unwrap();
    append(
        &second,
        &mut loader,
        500,
        r#"{"$type": "Tick", "size": 7, "count": 500, "side": "NONE", "venue": "X"}"#,
    );
    loader.close().unwrap();
    // A handle with the old schema continues to write with it.
    load_first(&first, 501..600);
    let third = db.change_schema("s", THIRD.parse().unwrap()).unwrap();
    assert!(matches!(second.seal(), Err(Error::Stale(Stale::Outdated { .. }))));

    let mut expected = first_in_third(0..500);
    expected.push("500 Tick  500 7 NONE X null  ".into());
    expected.extend(first_in_third(501..600));
    let ticks = || (0..600).filter(|number| number % 5 != 0);
    let sums = (ticks().sum::<i64>() + 500, ticks().count() as i64 * 100 + 7);
    let check = |stream: &Stream, how: &str| {
        assert_eq!(all(stream), expected, "{how}");
        let mut ticks = stream.cursor().types(["Tick"]).symbols(["A"]).reverse().open().unwrap();
        let mut found = Vec::new();
        while let Some(message) = ticks.next().unwrap() {
            found.push(fields_of(&message));
        }
        found.reverse();
        let wanted = |line: &&String| {
            line.contains("Tick") && line.split(' ').next().unwrap().parse::<u64>().unwrap().is_multiple_of(2)
        };
        assert_eq!(found, expected.iter().filter(wanted).cloned().collect::<Vec<_>>(), "{how}");
        assert_eq!(sum_of_ticks(stream), sums);
    };
    check(&third, "at once");
    check(&home.beside().stream("s").unwrap(), "by another reader");
    third.seal().unwrap();
    check(&third, "sealed");
    drop((first, second, third, db));
    let db = home.open();
    check(&db.stream("s").unwrap(), "reopened");
}

#[test]
fn cursors_continue_with_the_schema_they_were_opened_with() {
    let (home, db) = new_database();
    let first = db.create_stream("s", FIRST.parse().unwrap(), small_files()).unwrap();
    load_first(&first, 1..3);
    let reader = home.beside();
    let far = reader.stream("s").unwrap();
    let mut cursors = [first.cursor().live().open().unwrap(), far.cursor().live().open().unwrap()];
    let second = db.change_schema("s", SECOND.parse().unwrap()).unwrap();
    let mut loader = second.loader().unwrap();
    append(
        &second,
        &mut loader,
        3,
        r#"{"$type": "Tick", "size": 7, "count": 3, "side": "BID", "venue": "X"}"#,
    );
    loader.flush().unwrap();
    for cursor in &mut cursors {
        let mut next = || fields_of(&cursor.next_within(Duration::from_secs(60)).unwrap().unwrap());
        assert_eq!((next(), next()), ("1 Tick 1   ASK    ".into(), "2 Tick 2   ASK    ".into()));
        let error = cursor.next_within(Duration::from_secs(60)).unwrap_err();
        // `count` may need 64 bits, `number` has 32.
        assert!(
            matches!(error, Error::Invalid(Invalid::Version { .. })) && error.to_string().contains("number"),
            "{error}"
        );
        // Reported once for what has been read; it can be closed, and the stream opened again.
    }
    assert_eq!(all(&reader.stream("s").unwrap()).len(), 3);
}

#[test]
fn a_change_that_would_lose_something_is_refused_and_changes_nothing() {
    let (_directory, db) = new_database();
    let stream = db.create_stream("s", FIRST.parse().unwrap(), small_files()).unwrap();
    load_first(&stream, 0..20);
    let before = all(&stream);
    for (schema, says) in [
        ("message Tick { number: u32, side: Side } enum Side { BID, ASK }", "Note"),
        (
            "message Tick { number: string, side: Side } message Note { text: string } enum Side { BID, ASK }",
            "number",
        ),
        (
            "message Tick { number: u32, side: Side, must: f64 } message Note { text: string } enum Side { BID, ASK }",
            "must",
        ),
    ] {
        let error = db.change_schema("s", schema.parse().unwrap()).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
    let same = db.change_schema("s", FIRST.parse().unwrap()).unwrap();
    assert_eq!(all(&same), before);
    assert_eq!(same.schema(), stream.schema());
}
