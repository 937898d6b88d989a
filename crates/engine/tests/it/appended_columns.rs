//! Messages appended as columns: what is read is what appending them one by one gives, whichever way it is read.

use super::place::new_database;
use crate::support::*;
use std::time::Duration;
use tapedb_codec::{Record, SchemaBuilder};
use tapedb_engine::{
    Error, FieldValues, InputColumn, Late, Loader, MessageColumns, Rejected, Stream, StreamOptions, Symbols,
    Values,
};
use tapedb_schema::Timestamp;

/// Time, symbol and number of a message.
fn row(number: u64) -> (i64, &'static str, u64) {
    (1_000 + number as i64 / 3, ["A", "B", "C"][number as usize % 3], number)
}

fn append(loader: &mut Loader, numbers: std::ops::Range<u64>) {
    let count = (numbers.end - numbers.start) as usize;
    assert_eq!(Columns::of(numbers.map(row)).append_quotes(loader).unwrap(), count);
}

fn read(stream: &Stream) -> Vec<(u64, i64, String, u64)> {
    let mut cursor = stream.cursor().open().unwrap();
    let mut found = Vec::new();
    while let Some(message) = cursor.next().unwrap() {
        let number = number_of(&message);
        found.push((message.sequence(), message.time().0, message.symbol().to_owned(), number));
    }
    found
}

fn expected(numbers: std::ops::Range<u64>) -> Vec<(u64, i64, String, u64)> {
    let of =
        |(sequence, (time, symbol, number)): (u64, (i64, &str, u64))| (sequence, time, symbol.into(), number);
    (0..).zip(numbers.map(row)).map(of).collect()
}

/// Few rows, many, rows among them: all are there live, after, sealed, and as columns.
#[test]
fn columns_are_messages() {
    let (_directory, db) = new_database();
    let stream = db.create_stream("s", schema(), StreamOptions::default()).unwrap();
    let mut live = stream.cursor().live().open().unwrap();
    let mut loader = stream.loader().unwrap();
    append(&mut loader, 0..3);
    assert_eq!(loader.unsent(), 3, "few rows wait");
    let (time, symbol, number) = row(3);
    loader.append(symbol, Timestamp(time), &Quote::of(number)).unwrap();
    append(&mut loader, 4..40_000);
    assert_eq!(loader.unsent(), 0, "many rows are sent at once");
    append(&mut loader, 40_000..40_010);
    assert_eq!(loader.flush().unwrap(), 40_010);
    for number in 0..40_010 {
        // A server pushes them when it can.
        let message = live.next_within(Duration::from_secs(60)).unwrap().expect("all arrive");
        assert_eq!((number_of(&message), message.sequence()), (number, number));
    }
    let all = expected(0..40_010);
    assert_eq!(read(&stream), all);
    let values = |symbols: Option<[&str; 1]>| {
        let cursor = stream.cursor();
        let cursor = match symbols {
            Some(symbols) => cursor.symbols(symbols),
            None => cursor,
        };
        let mut columns = cursor.columns("Quote", ["number"]).open().unwrap();
        let mut found = Vec::new();
        while let Some(chunk) = columns.next().unwrap() {
            let Values::Ints(numbers) = chunk.column(0).values() else { panic!("numbers") };
            found.extend(numbers.iter().map(|number| *number as u64));
        }
        found.sort_unstable();
        found
    };
    let check_columns = || {
        assert_eq!(values(None), (0..40_010).collect::<Vec<_>>());
        assert_eq!(values(Some(["B"])), (0..40_010).filter(|number| number % 3 == 1).collect::<Vec<_>>());
    };
    check_columns();
    let mut part = stream.cursor().from(Timestamp(5_000)).to(Timestamp(5_003)).symbols(["C"]).open().unwrap();
    assert_eq!(drain(&mut part), [12_002, 12_005, 12_008]);
    let mut reversed = stream.cursor().reverse().open().unwrap();
    assert_eq!(drain(&mut reversed), (0..40_010).rev().collect::<Vec<_>>());
    assert!(stream.seal().unwrap() > 0);
    assert_eq!(read(&stream), all);
    check_columns();
}

/// In parts that overlap in time, every message is in its place.
#[test]
fn late_columns_are_merged() {
    let (_directory, db) = new_database();
    let stream = db.create_stream("s", schema(), StreamOptions::default()).unwrap();
    let mut loader = stream.loader().unwrap();
    for part in 0..4u64 {
        append(&mut loader, part * 3_000..part * 3_000 + 2_000);
        let rows = (part * 2_000..part * 2_000 + 1_000)
            .rev()
            .map(|number| (900 + number as i64, "A", 100_000 + number));
        Columns::of(rows).append_ticks(&mut loader).unwrap();
    }
    loader.flush().unwrap();
    let check = || {
        let found = read(&stream);
        assert_eq!(found.len(), 12_000);
        assert!(found.is_sorted_by_key(|(sequence, time, ..)| (*time, *sequence)));
    };
    check();
    stream.seal().unwrap();
    check();
}

#[test]
fn what_does_not_fit_appends_nothing() {
    let (_directory, db) = new_database();
    let stream = db.create_stream("s", schema(), StreamOptions::default()).unwrap();
    let mut loader = stream.loader().unwrap();
    let (times, numbers, symbols) = (vec![5; 1_000], vec![1u64; 1_000], vec!["A"; 1_000]);
    let notes = vec!["x"; 1_000];
    let long = "x".repeat(256);
    let mut one_long = symbols.clone();
    one_long[7] = &long;
    let of = |symbols| {
        MessageColumns::of::<Tick>(&times, symbols).field("number", &numbers).field("check", &numbers)
    };
    let all = |symbols| of(symbols).field("note", &notes);
    let keys = vec![1u32; 1_000];
    let large = "x".repeat(2 << 20);
    let shared = FieldValues::Dictionary { texts: &["", &large], keys: &keys };
    let shared = InputColumn { name: "note", values: shared, validity: None };
    for (columns, says) in [
        (of(Symbols::One("A")), "column \"note\": missing"),
        (
            of(Symbols::One("A")).field("note", &notes[1..]),
            "column \"note\": has 999 rows, and there are 1000 times",
        ),
        (all(Symbols::One("")), "column \"symbol\": a symbol has 1 to 255 bytes, and this one 0"),
        (all(Symbols::Names(&symbols[1..])), "column \"symbol\": has 999 rows"),
        (
            all(Symbols::Names(&one_long)),
            "column \"symbol\", row 7: a symbol has 1 to 255 bytes, and this one 256",
        ),
        (
            all(Symbols::Dictionary { names: &["A"], keys: &keys }),
            "column \"symbol\", row 0: key 1 of a dictionary of 1 names",
        ),
        (
            all(Symbols::One("A")).field("other", &notes),
            "column \"other\": record type Tick has no such field",
        ),
        // 2 MiB that a thousand rows share would be 2 GiB when they are encoded.
        (
            of(Symbols::One("A")).column(shared),
            "column \"note\": the texts of all rows have 2097152000 bytes",
        ),
    ] {
        let appended = loader.append_columns(&columns);
        assert_error(appended, |e| matches!(e, Error::Rejected(Rejected::Columns { .. })), says);
    }
    let unknown = MessageColumns::new("None", &times, Symbols::One("A"));
    assert_error(loader.append_columns(&unknown), |e| matches!(e, Error::Invalid(_)), "no such record type");
    assert_eq!((loader.unsent(), loader.flush().unwrap()), (0, 0));
    assert_eq!(stream.stats().unwrap().messages, 0);
    let names = ["unused", "A"];
    loader.append_columns(&all(Symbols::Dictionary { names: &names, keys: &keys })).unwrap();
    let ids = loader.symbol_ids(&["B"; 1_000]).unwrap();
    loader.append_columns(&all(Symbols::Ids(&ids))).unwrap();
    loader
        .append_columns(
            &MessageColumns::of::<Tick>(&[], Symbols::Names(&[]))
                .field("number", &numbers[..0])
                .field("check", &numbers[..0])
                .field("note", &notes[..0]),
        )
        .unwrap();
    assert_eq!(loader.flush().unwrap(), 2_000);
    let stats = stream.stats().unwrap();
    assert_eq!((stats.messages, stats.symbols), (2_000, 2));
}

#[test]
fn a_stream_that_refuses_late_messages_refuses_late_columns() {
    let (_directory, db) = new_database();
    let options = StreamOptions { late: Late::Refuse, ..StreamOptions::default() };
    let stream = db.create_stream("s", schema(), options).unwrap();
    let mut loader = stream.loader().unwrap();
    append(&mut loader, 300..900);
    let is_late = |e: &Error| matches!(e, Error::Rejected(Rejected::Late { .. }));
    let late = Columns::of((0..600).map(row)).append_quotes(&mut loader);
    assert_error(late, is_late, "refuses late messages");
    let unordered = Columns::of((900..1_500).rev().map(row)).append_quotes(&mut loader);
    assert_error(unordered, is_late, "refuses late messages");
    append(&mut loader, 900..1_500);
    loader.flush().unwrap();
    assert_eq!(drain(&mut stream.cursor().open().unwrap()), (300..1_500).collect::<Vec<_>>());
}

/// Records and arrays have no columns in the log: the same call writes rows.
#[test]
fn nested_records_are_appended_as_columns_too() {
    #[derive(Record, Debug, Default, Clone, PartialEq)]
    struct Leg {
        size: u32,
    }

    #[derive(Record, Debug, Default, Clone, PartialEq)]
    #[record(message)]
    struct Package {
        legs: Vec<Leg>,
    }

    let (_directory, db) = new_database();
    let nested = SchemaBuilder::new().with::<Package>().finish();
    let stream = db.create_stream("s", nested, StreamOptions::default()).unwrap();
    let mut loader = stream.loader().unwrap();
    let times: Vec<i64> = (0..5_000).collect();
    let sizes: Vec<u32> = (0..15_000).collect();
    let leg = [InputColumn::new("size", &sizes)];
    let items = InputColumn::new("", FieldValues::Record(&leg));
    let offsets: Vec<u32> = (0..=5_000).map(|row| row * 3).collect();
    let legs = FieldValues::List { offsets: &offsets, items: &items };
    for rows in [&times[..], &times[..5]] {
        let legs = match legs {
            FieldValues::List { items, .. } => FieldValues::List { offsets: &offsets[..=rows.len()], items },
            other => other,
        };
        loader
            .append_columns(&MessageColumns::of::<Package>(rows, Symbols::One("A")).field("legs", legs))
            .unwrap();
    }
    loader.flush().unwrap();
    let mut cursor = stream.cursor().open().unwrap();
    let mut count = 0;
    while let Some(message) = cursor.next().unwrap() {
        let first = 3 * message.time().0 as u32;
        let legs = (first..first + 3).map(|size| Leg { size }).collect();
        assert_eq!(message.decode::<Package>().unwrap(), Package { legs });
        count += 1;
    }
    assert_eq!(count, 5_005);
}

/// A text that all items share is small where it is, and large in each message.
#[test]
fn texts_in_lists_that_rows_share_are_bounded_too() {
    let (_directory, db) = new_database();
    let nested = "record Leg { note: string } message Package { legs: array<record<Leg>> }".parse().unwrap();
    let stream = db.create_stream("s", nested, StreamOptions::default()).unwrap();
    let mut loader = stream.loader().unwrap();
    let large = "x".repeat(2 << 20);
    for rows in [3, 1_000] {
        let (times, keys): (Vec<i64>, Vec<u32>) = (vec![5; rows], vec![1; rows]);
        let shared = FieldValues::Dictionary { texts: &["", &large], keys: &keys };
        let note = [InputColumn { name: "note", values: shared, validity: None }];
        let items = InputColumn::new("", FieldValues::Record(&note));
        let offsets: Vec<u32> = (0..=rows as u32).collect();
        let legs = FieldValues::List { offsets: &offsets, items: &items };
        let columns = MessageColumns::new("Package", &times, Symbols::One("A")).field("legs", legs);
        match loader.append_columns(&columns) {
            Ok(count) => assert_eq!(count, 3),
            refused => assert_error(
                refused,
                |e| matches!(e, Error::Rejected(Rejected::Columns { .. })),
                "column \"legs\": the texts of all rows have 2097152000 bytes",
            ),
        }
    }
    assert_eq!(loader.flush().unwrap(), 3);
}
