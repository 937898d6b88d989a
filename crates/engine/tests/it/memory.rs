//! Reading takes bounded memory, whatever the messages are: of messages that make much of few bytes, or few of many. A child reads,
//! so that nothing else counts. `MEMORY_SCALE=n` stores n times as many messages (`make storm`).

use crate::child::{child, report, reported};
use crate::support::*;
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::path::Path;
use std::time::Duration;
use tapedb_codec::{Record, SchemaBuilder};
use tapedb_engine::{CursorBuilder, Database, Loader, MessageColumns, Stream, StreamOptions, Symbols};
use tapedb_schema::{Schema, Timestamp};

/// The bound of `docs/ARCHITECTURE.md`. Most cases take less than half of it.
const MOST: u64 = 256 << 20;
/// Where to find what a child is to read.
const CASE: &str = "TAPEDB_TEST_CASE";
/// How everything can be read.
const WAYS: [&str; 6] =
    ["rows", "backwards", "by symbol", "in time order", "live by symbol", "live in time order"];

/// An entry of five bytes and eight values, as columns have them.
#[derive(Record, Debug, Default)]
struct Flags {
    a: Option<bool>,
    b: Option<u8>,
    c: Option<i8>,
    d: Option<bool>,
}

#[derive(Record, Debug, Default)]
#[record(message)]
struct Lists {
    entries: Vec<Flags>,
}

#[derive(Record, Debug, Default)]
#[record(message)]
struct Text {
    text: String,
}

/// Streams of one schema whose messages have the same times, in segments and in the log.
struct Case {
    schema: Schema,
    record: &'static str,
    fields: Vec<String>,
    streams: usize,
    messages: u64,
    /// Appends messages of these numbers, which are their times.
    append: fn(&mut Loader, &mut Random, Range<u64>),
}

fn append_lists(loader: &mut Loader, random: &mut Random, numbers: Range<u64>) {
    for number in numbers {
        let mut entries = Vec::new();
        for _ in 0..10_000 {
            let bits = random.next();
            let [_, b, c, ..] = bits.to_le_bytes();
            entries.push(Flags {
                a: (bits & 1 == 0).then_some(bits & 2 == 0),
                b: (bits & 4 == 0).then_some(b),
                c: (bits & 8 == 0).then_some(c as i8),
                d: (bits & 16 == 0).then_some(bits & 32 == 0),
            });
        }
        loader.append("A", Timestamp(number as i64), &Lists { entries }).unwrap();
    }
}

fn append_texts(loader: &mut Loader, random: &mut Random, numbers: Range<u64>) {
    for number in numbers {
        let symbol = format!("S{}", random.below(5_000));
        let text = format!("{number} ").repeat((64 << 10) / 4);
        loader.append(&symbol, Timestamp(number as i64), &Text { text }).unwrap();
    }
}

/// Fields of the widest messages of which a block has as many as it can have.
fn wide_fields() -> Vec<String> {
    (0..110).map(|number| format!("f{number}")).collect()
}

fn append_wide(loader: &mut Loader, random: &mut Random, numbers: Range<u64>) {
    let times: Vec<i64> = numbers.map(|number| number as i64).collect();
    let values: Vec<u8> = times.iter().map(|_| random.next() as u8).collect();
    let known: Vec<bool> = times.iter().map(|_| !random.chance(10)).collect();
    let symbols: Vec<String> = times.iter().map(|_| format!("S{}", random.below(5_000))).collect();
    let symbols: Vec<&str> = symbols.iter().map(String::as_str).collect();
    let columns = MessageColumns::new("Wide", &times, Symbols::Names(&symbols));
    let fields = wide_fields();
    let columns = fields.iter().fold(columns, |columns, field| columns.nullable(field, &values, &known));
    loader.append_columns(&columns).unwrap();
}

fn case(name: &str) -> Case {
    let scale: u64 = std::env::var("MEMORY_SCALE").ok().and_then(|scale| scale.parse().ok()).unwrap_or(1);
    match name {
        "lists" => Case {
            schema: SchemaBuilder::new().with::<Lists>().finish(),
            record: "Lists",
            fields: ["a", "b", "c", "d"].map(|field| format!("entries[].{field}")).into(),
            streams: 3,
            messages: 200 * scale,
            append: append_lists,
        },
        "texts" => Case {
            schema: SchemaBuilder::new().with::<Text>().finish(),
            record: "Text",
            fields: vec!["text".into()],
            streams: 60,
            messages: 20 * scale,
            append: append_texts,
        },
        "wide" => Case {
            schema: format!("message Wide {{ {}: u8? }}", wide_fields().join(": u8?, ")).parse().unwrap(),
            record: "Wide",
            fields: wide_fields(),
            streams: 2,
            messages: 60_000 * scale,
            append: append_wide,
        },
        other => panic!("no case {other}"),
    }
}

fn names(case: &Case) -> Vec<String> {
    (0..case.streams).map(|number| format!("s{number}")).collect()
}

/// Most of the messages are sealed, and the rest is in the log.
fn fill(stream: &Stream, case: &Case, seed: u64) {
    let mut random = Random::from_seed(seed);
    for (from, to) in [(0, case.messages * 4 / 5), (case.messages * 4 / 5, case.messages)] {
        let mut loader = stream.loader().unwrap();
        (case.append)(&mut loader, &mut random, from..to);
        loader.close().unwrap();
        if from == 0 {
            stream.seal().unwrap();
        }
    }
}

/// Reads all streams of a case, merged, in one way. Returns the number of messages.
fn read(builder: CursorBuilder, case: &Case, way: &str) -> u64 {
    let builder = match way {
        "rows" | "backwards" => {
            let mut cursor = if way == "rows" { builder } else { builder.reverse() }.open().unwrap();
            let mut count = 0;
            while let Some(message) = cursor.next().unwrap() {
                assert!(!message.body().is_empty());
                count += 1;
            }
            return count;
        }
        _ if way.starts_with("live") => builder.live(),
        _ => builder,
    };
    let builder = builder.columns(case.record, case.fields.clone()).with_sequences();
    let builder = if way.ends_with("by symbol") { builder } else { builder.in_time_order() };
    let (mut cursor, mut count) = (builder.open().unwrap(), 0);
    let all = case.messages * case.streams as u64;
    // Live ones have no end.
    while !way.starts_with("live") || count < all {
        let Some(chunk) = cursor.next_within(Duration::from_secs(100)).unwrap() else { break };
        count += chunk.len() as u64;
    }
    count
}

pub fn child_reader(path: &Path) {
    let named = std::env::var(CASE).unwrap();
    let (name, way) = named.split_once('/').unwrap();
    let case = case(name);
    let db = Database::open_read_only(path).unwrap();
    let count = read(db.cursor(names(&case)).unwrap(), &case, way);
    assert_eq!(count, case.messages * case.streams as u64);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
    report(peak.unwrap_or("0"));
}

fn check(name: &str) {
    let (directory, db) = new_database_without_maintenance();
    let case = case(name);
    for (seed, stream) in names(&case).iter().enumerate() {
        let stream = db.create_stream(stream, case.schema.clone(), StreamOptions::default()).unwrap();
        fill(&stream, &case, seed as u64);
    }
    drop(db);
    for way in WAYS {
        let mut child = child("read all", &directory.path().join("db"))
            .env(CASE, format!("{name}/{way}"))
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let reports: Vec<String> = lines.filter_map(|line| reported(&line).map(str::to_string)).collect();
        assert!(child.wait().unwrap().success(), "{name}, {way}");
        // Other systems than Linux do not report it.
        let peak = reports[0].parse::<u64>().unwrap() << 10;
        println!("{name}, {way}: {} MiB", peak >> 20);
        assert!(peak < MOST, "{name}, {way}: {peak} bytes of memory");
    }
}

#[test]
fn lists_of_many_small_values_are_read_in_bounded_memory() {
    check("lists");
}

#[test]
fn many_streams_of_long_texts_are_read_in_bounded_memory() {
    check("texts");
}

#[test]
fn wide_messages_of_small_values_are_read_in_bounded_memory() {
    check("wide");
}
