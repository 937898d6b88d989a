//! Reading record batches takes bounded memory, whatever the messages are. A child reads, one batch at a time, so that nothing else
//! counts.

use crate::support::streams;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tapedb_arrow::{BATCH_ROWS_MAX, BatchReader, ReadOptions};
use tapedb_engine::{Database, Loader, MessageColumns, Stream, Symbols};
use tapedb_schema::Timestamp;

/// The bound of `docs/ARCHITECTURE.md`.
const MOST_KIB: u64 = 256 << 10;
const CASE: &str = "TAPEDB_TEST_CASE";
const PATH: &str = "TAPEDB_TEST_PATH";
/// History by symbol and in time order, and live.
const WAYS: [&str; 4] = ["by symbol", "in time order", "live by symbol", "live in time order"];

/// A schema, how many messages, and how those from a number on are appended.
type Case = (String, u64, fn(&Stream, &mut Loader, std::ops::Range<u64>));

/// 10,000 entries each, of few bytes.
fn append_lists(stream: &Stream, loader: &mut Loader, numbers: std::ops::Range<u64>) {
    let entry = |number: u64| match number % 3 {
        0 => r#"{"$type": "Bid", "level": 1, "own": true}"#.to_string(),
        1 => format!(r#"{{"$type": "Ask", "level": null, "size": {}}}"#, number % 100),
        _ => r#"{"$type": "Bid", "level": 3, "own": null}"#.to_string(),
    };
    for number in numbers {
        let entries: Vec<String> = (number..number + 10_000).map(entry).collect();
        let json = format!(r#"{{"$type": "M", "entries": [{}]}}"#, entries.join(","));
        let value = stream.layouts().from_json(&json).unwrap();
        loader.append_value("A", Timestamp(number as i64), &value).unwrap();
    }
}

fn append_texts(_: &Stream, loader: &mut Loader, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let times = [number as i64];
        let text = format!("{number} ").repeat((64 << 10) / 4);
        let texts = [text.as_str()];
        let columns = MessageColumns::new("M", &times, Symbols::One("A")).field("text", &texts[..]);
        loader.append_columns(&columns).unwrap();
    }
}

const WIDTH: usize = 110;

fn append_wide(_: &Stream, loader: &mut Loader, numbers: std::ops::Range<u64>) {
    let times: Vec<i64> = numbers.map(|number| number as i64).collect();
    let values: Vec<u8> = times.iter().map(|time| (time * 37 % 251) as u8).collect();
    let known: Vec<bool> = times.iter().map(|time| time % 9 != 0).collect();
    let symbols: Vec<String> = times.iter().map(|time| format!("S{}", time % 4_999)).collect();
    let symbols: Vec<&str> = symbols.iter().map(String::as_str).collect();
    let fields: Vec<String> = (0..WIDTH).map(|number| format!("f{number}")).collect();
    let columns = MessageColumns::new("M", &times, Symbols::Names(&symbols));
    let columns = fields.iter().fold(columns, |columns, field| columns.nullable(field, &values, &known));
    loader.append_columns(&columns).unwrap();
}

fn case(name: &str) -> Case {
    match name {
        "lists" => {
            let schema = "message M { entries: array<record<Bid|Ask>> } \
                          record Bid { level: u8?, own: bool? } record Ask { level: u8?, size: u8 }";
            (schema.into(), 150, append_lists)
        }
        "texts" => ("message M { text: string }".into(), 1_200, append_texts),
        "wide" => {
            let fields: Vec<String> = (0..WIDTH).map(|number| format!("f{number}: u8?")).collect();
            (format!("message M {{ {} }}", fields.join(", ")), 70_000, append_wide)
        }
        other => panic!("no case {other}"),
    }
}

/// Reads what the parent has written, and prints the most memory that it took, in KiB.
#[test]
fn child_of_another_test() {
    let (Ok(named), Some(path)) = (std::env::var(CASE), std::env::var_os(PATH)) else { return };
    let (name, way) = named.split_once('/').unwrap();
    let (_, messages, _) = case(name);
    let db = Database::open_read_only(Path::new(&path)).unwrap();
    let stream = db.stream("s").unwrap();
    let in_time_order = way.ends_with("in time order");
    let options = ReadOptions {
        in_time_order,
        batch_rows: Some(BATCH_ROWS_MAX),
        sequences: true,
        ..ReadOptions::default()
    };
    let cursor = if way.starts_with("live") { stream.cursor().live() } else { stream.cursor() };
    let mut reader = BatchReader::open(std::slice::from_ref(&stream), cursor, "M", &options).unwrap();
    let mut rows = 0;
    while rows < messages {
        let batch = reader.next_batch_within(Duration::from_secs(100)).unwrap().expect("more messages");
        assert_eq!(batch.num_columns(), stream.layouts().records()[0].fields.len() + 3);
        rows += batch.num_rows() as u64;
    }
    assert_eq!(rows, messages);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
    println!("\n@{}", peak.unwrap_or("0"));
}

fn check(name: &str) {
    let (schema, messages, append) = case(name);
    let (directory, db, stream, copy) = streams(schema.parse().unwrap());
    for (from, to) in [(0, messages * 4 / 5), (messages * 4 / 5, messages)] {
        let mut loader = stream.loader().unwrap();
        append(&stream, &mut loader, from..to);
        loader.close().unwrap();
        if from == 0 {
            stream.seal().unwrap();
        }
    }
    drop((stream, copy, db));
    for way in WAYS {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "memory::child_of_another_test", "--nocapture"])
            .env(CASE, format!("{name}/{way}"))
            .env(PATH, directory.path().join("db"))
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&child.stdout).into_owned();
        assert!(child.status.success(), "{name}, {way}: {text}{}", String::from_utf8_lossy(&child.stderr));
        let peak = text.lines().find_map(|line| line.strip_prefix('@')).unwrap().parse::<u64>().unwrap();
        println!("{name}, {way}: {} MiB", peak >> 10);
        // Other systems than Linux do not report it.
        assert!(peak < MOST_KIB, "{name}, {way}: {peak} KiB of memory");
    }
}

#[test]
fn batches_of_long_lists_take_bounded_memory() {
    check("lists");
}

#[test]
fn batches_of_long_texts_take_bounded_memory() {
    check("texts");
}

#[test]
fn batches_of_wide_messages_take_bounded_memory() {
    check("wide");
}
