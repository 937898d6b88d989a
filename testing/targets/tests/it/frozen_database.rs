//! A whole frozen database, `testing/vectors/database_v2.zip`: what the engine reads from it is what a second implementation
//! reads, in Python, written from the pages of `docs/format` alone (`testing/python_reader`).
//!
//! The file never changes. For the next version of a format, this writes one where there is none:
//! `TAPEDB_VECTORS=make cargo test -p tapedb-testing --test it frozen -- --test-threads 1`.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use serde_json::{Value, json};
use tapedb_codec::dynamic::Layouts;
use tapedb_engine::{Database, Stream, StreamOptions};
use tapedb_schema::{Schema, Timestamp};
use tapedb_skipped::{python, skipped};
use tapedb_testing::sample::SplitMix64;
use zip::write::SimpleFileOptions;
use zip::{ZipArchive, ZipWriter};

const START: i64 = 1_700_000_000_000_000_000;

const KINDS: &str = "
enum Side { BID = 0, ASK = 5 }

/// Every type of fixed width.
message Scalars {
    flag: bool, i1: i8, i2: i16, i4: i32, i8: i64, u1: u8, u2: u16, u4: u32, u8: u64, f4: f32, f8: f64,
    price: decimal64, cents: decimal(18,2), moment: timestamp, clock: time_of_day, letter: char, venue: ascii(5),
    code: ascii(12), side: Side,
}

/// Every type, nullable.
message Nullable {
    flag: bool?, i2: i16?, u8: u64?, f4: f32?, f8: f64?, price: decimal64?, cents: decimal(18,2)?, moment: timestamp?,
    clock: time_of_day?, letter: char?, venue: ascii(8)?, code: ascii(16)?, side: Side?, text: string?, raw: binary?,
    numbers: array<u16>?, count: u32? = 7,
}";

const NESTED: &str = "
record Leg { ratio: i8, price: decimal64? }
record Note { text: string, tags: array<string?> }
record Nothing {}
record Node { id: u16, children: array<record<Node>>, parent: record<Node>? }
message Nested {
    name: string,
    raw: binary,
    maybe: array<f64?>,
    matrix: array<array<i16>>,
    leg: record<Leg>,
    event: record<Leg|Note|Nothing>?,
    events: array<record<Leg|Note|Nothing>?>,
    tree: record<Node>,
}";

const BEFORE: &str =
    "enum Side { BID, ASK } message Trade { price: i32, venue: ascii(4), side: Side, old: u8 }";
const AFTER: &str = "
enum Direction { ASK, BID, NONE }
message Trade {
    market: string [alias venue], price: decimal64, side: Direction?, size: decimal64 = 1.50, id: u64?, note: string = \"none\",
}";

const QUOTES: &str = "message Quote { bid: decimal64, ask: decimal64?, bid_size: u64, change: f64, last: i64, condition: string }";

const BARS: &str =
    "message Bar { open: decimal64, high: decimal64, low: decimal64, close: decimal64, volume: i64 }";

const TICKS: &str = "message Tick { price: i64 }";

const TEXTS: &str = "message News { headline: string, urgent: bool }";

fn vectors() -> PathBuf {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../vectors").into()
}

fn reader() -> PathBuf {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../python_reader").into()
}

/// A stream that is sealed by hand alone.
fn create(db: &Database, name: &str, schema: &str, options: StreamOptions) -> Stream {
    let schema: Schema = schema.parse().unwrap();
    db.create_stream(name, schema, StreamOptions { seal_after: None, ..options }).unwrap()
}

/// Appends messages in batches of fifty: symbol, time and JSON of each number.
fn append(
    stream: &Stream,
    space: u32,
    numbers: std::ops::Range<i64>,
    message: impl Fn(i64) -> (String, i64, Value),
) {
    let layouts = Layouts::new(stream.schema().clone()).unwrap();
    let mut loader = stream.loader_in(space).unwrap();
    for number in numbers {
        let (symbol, time, value) = message(number);
        let record = layouts.from_json(&value.to_string()).unwrap();
        loader.append_value(&symbol, Timestamp(START + time), &record).unwrap();
        if number % 50 == 49 {
            loader.flush().unwrap();
        }
    }
    loader.close().unwrap();
}

fn at(numbers: &mut SplitMix64, count: usize) -> i64 {
    i64::try_from(numbers.below(count)).unwrap()
}

fn kinds(number: i64) -> (String, i64, Value) {
    let mut random = SplitMix64::new(number.unsigned_abs());
    let symbol = ["AAPL", "MSFT", "FB", "Ünïcode 株"][random.below(4)].to_string();
    let clock =
        format!("{:02}:{:02}:00.{:09}", random.below(24), random.below(60), random.below(999_999_999) + 1);
    let clock = clock.trim_end_matches('0').to_string();
    let side = ["BID", "ASK"][random.below(2)];
    let letter = ["a", "€", "\u{0}", "𝄞"][random.below(4)];
    let floats = [json!(0.5), json!(-1.25), json!("NaN"), json!("Infinity"), json!(-0.0), json!(1_048_576.0)];
    let price =
        ["1.50", "-0.00", "9999999999999999", "Infinity", "0.000001", "61837.63000000"][random.below(6)];
    let cents = format!("{}.{:02}", at(&mut random, 2_000_000) - 1_000_000, random.below(100));
    let venue = ["", "NYSE", "XNAS"][random.below(3)];
    let value = if number % 3 == 0 {
        json!({"$type": "Scalars", "flag": number % 2 == 0, "i1": number % 128, "i2": -number, "i4": number * 70_000 % 2_000_000_000,
            "i8": i64::MIN + number, "u1": number % 256, "u2": number, "u4": 4_000_000_000_u32, "u8": u64::MAX - number as u64,
            "f4": floats[random.below(6)], "f8": f64::from(number as i32) / 100.0, "price": price, "cents": cents,
            "moment": Timestamp(START - number * 1_000_000_007).to_string(), "clock": clock, "letter": letter,
            "venue": venue, "code": format!("CODE{}", number % 7), "side": side})
    } else {
        let mut value = json!({"$type": "Nullable", "flag": true, "i2": -5, "u8": 1, "f4": floats[random.below(6)],
            "f8": floats[random.below(6)], "price": price, "cents": cents, "moment": Timestamp(number).to_string(), "clock": clock,
            "letter": letter, "venue": "VENUE", "code": "0123456789abcdef", "side": side, "text": format!("text {number} 株"),
            "raw": format!("{:02x}ff00", number % 256), "numbers": (0..number % 5).collect::<Vec<_>>(), "count": number});
        for field in value.as_object_mut().unwrap().values_mut().skip(1) {
            if random.once_in(3) {
                *field = Value::Null;
            }
        }
        value["$type"] = json!("Nullable");
        value
    };
    (symbol, number * 1_000, value)
}

fn nested(number: i64) -> (String, i64, Value) {
    let leg = json!({"$type": "Leg", "ratio": number % 100 - 50, "price": (number % 4 != 0).then(|| format!("{number}.25"))});
    let note = json!({"$type": "Note", "text": "n".repeat((number % 7) as usize), "tags": ["a", null, format!("{number}")]});
    let events = [leg.clone(), note, json!({"$type": "Nothing"}), Value::Null];
    let event = |number: i64| events[(number % 4) as usize].clone();
    let node = |id: i64, children: Vec<Value>| json!({"$type": "Node", "id": id, "children": children, "parent": null});
    let mut tree = node(number, (0..number % 3).map(|child| node(child, vec![])).collect());
    tree["parent"] = if number % 2 == 0 { node(9, vec![]) } else { Value::Null };
    let value = json!({"$type": "Nested", "name": format!("name {}", number % 3), "raw": "00ff10",
        "maybe": [1.5, null, number as f64], "matrix": [[], [1, -2], (0..number % 4).collect::<Vec<_>>()], "leg": leg,
        "event": event(number), "events": (0..number % 6).map(event).collect::<Vec<_>>(), "tree": tree});
    (["ES", "NQ"][(number % 2) as usize].to_string(), number * 777, value)
}

/// Prices that walk, sizes of all magnitudes, a few values that are none.
fn quote(number: i64) -> (String, i64, Value) {
    let mut random = SplitMix64::new(number.unsigned_abs() + 1_000_000);
    let symbol = random.below(20);
    let price = 10_000 + 100 * symbol as i64 + number / 50 + at(&mut random, 5);
    let bid =
        if random.once_in(500) { "NaN".to_string() } else { format!("{}.{:02}", price / 100, price % 100) };
    let size = random.next_u64() >> (44 + random.below(20));
    let last = if random.once_in(100) { random.next_u64() as i64 } else { number * 100 };
    let condition =
        ["regular", "opening auction", "", "odd lot of less than a hundred shares"][random.below(4)];
    let ask = (!random.once_in(10)).then(|| format!("{}.{}", price / 100 + 1, price % 10));
    let value = json!({"$type": "Quote", "bid": bid, "ask": ask, "bid_size": size, "change": f64::from(price as i32) / 1000.0,
        "last": last, "condition": condition});
    (format!("S{symbol}"), number * 1_000_000 + at(&mut random, 900_000), value)
}

/// Open is near the close before, high and low near both; volumes change by amounts of all magnitudes.
fn bar(number: i64) -> (String, i64, Value) {
    let close = |number: i64| {
        50_000 + 37 * number % 1_000 + at(&mut SplitMix64::new(number.unsigned_abs() / 3 + 7), 40_000)
    };
    let mut random = SplitMix64::new(number.unsigned_abs() + 2_000_000);
    let (open, last) = (close(number - 3) + at(&mut random, 3), close(number));
    let (high, low) = (open.max(last) + at(&mut random, 20), open.min(last) - at(&mut random, 20));
    let [open, high, low, last] =
        [open, high, low, last].map(|price| format!("{}.{:02}", price / 100, price % 100));
    let volume = 1_000_000_000_000 + number * 3 + (random.next_u64() >> (30 + random.below(34))) as i64;
    let value =
        json!({"$type": "Bar", "open": open, "high": high, "low": low, "close": last, "volume": volume});
    (["A", "B", "C"][(number % 3) as usize].to_string(), number / 3 * 60_000_000_000, value)
}

/// So many symbols and rows that a record type is cut into groups; even steps, so that lanes have times of their own.
fn tick(number: i64) -> (String, i64, Value) {
    (
        format!("T{}", number % 70),
        number * 1_000,
        json!({"$type": "Tick", "price": number % 70 * 1_000 + number / 70 * 5}),
    )
}

/// Text of the cold tier is deflated; numbers are so regular that none is in pcodec, which the reader in Python does not read.
fn news(number: i64) -> (String, i64, Value) {
    let headline =
        format!("Company {} reports results for quarter {}, shares move", number % 40, number % 4 + 1);
    (
        ["A", "B"][(number / 150 % 2) as usize].to_string(),
        number * 1_000_000,
        json!({"$type": "News", "headline": headline, "urgent": false}),
    )
}

fn make(path: &Path) {
    let db = Database::open_without_maintenance(path).unwrap();

    let stream = create(&db, "kinds", KINDS, StreamOptions::default());
    append(&stream, 0, 0..600, kinds);
    stream.seal().unwrap();
    append(&stream, 0, 600..720, kinds);
    stream.rename_symbol("FB", "META").unwrap();
    append(&stream, 0, 720..750, |number| ("FB".to_string(), number * 1_000, kinds(number).2));
    stream.delete(Timestamp(START + 100_000)..Timestamp(START + 200_000), Some(["AAPL", "META"])).unwrap();
    stream.delete(Timestamp(START + 650_000)..Timestamp(START + 660_000), None::<[&str; 0]>).unwrap();

    let stream = create(&db, "nested", NESTED, StreamOptions::default());
    append(&stream, 0, 0..200, nested);
    stream.seal().unwrap();
    append(&stream, 0, 200..230, nested);

    let trade = |number: i64| {
        let (venue, side) = [("XNAS", "BID"), ("XLON", "ASK")][(number % 2) as usize];
        let value = json!({"$type": "Trade", "price": number * 5, "venue": venue, "side": side, "old": 1});
        ("T".to_string(), number, value)
    };
    let stream = create(&db, "versions", BEFORE, StreamOptions::default());
    append(&stream, 0, 0..60, trade);
    stream.seal().unwrap();
    append(&stream, 0, 60..90, trade);
    drop(stream);
    let stream = db.change_schema("versions", AFTER.parse().unwrap()).unwrap();
    append(&stream, 0, 90..120, |number| {
        let value = json!({"$type": "Trade", "market": "XPAR", "price": "7.125", "side": "NONE", "size": "3", "id": number, "note": "new"});
        ("T".to_string(), number, value)
    });

    // Several log files with indexes, two spaces; messages of the one lie between those of the other.
    let stream = create(
        &db,
        "us/quotes",
        QUOTES,
        StreamOptions { spaces: 2, file_bytes_max: 24 << 10, ..StreamOptions::default() },
    );
    append(&stream, 0, 0..4_000, quote);
    append(&stream, 1, 0..300, |number| {
        (format!("S{}", number % 3), number * 10_000_000 + 950_000, quote(number).2)
    });
    stream.seal().unwrap();
    append(&stream, 0, 4_000..5_200, quote);

    let stream = create(&db, "bars", BARS, StreamOptions::default());
    append(&stream, 0, 0..1_500, bar);
    stream.seal().unwrap();
    append(&stream, 0, 1_500..1_520, bar);

    let stream = create(&db, "ticks", TICKS, StreamOptions::default());
    append(&stream, 0, 0..8_400, tick);
    stream.seal().unwrap();
    append(&stream, 0, 8_400..8_410, tick);

    let stream = create(
        &db,
        "cold",
        TEXTS,
        StreamOptions { cold_after: Some(Duration::ZERO), ..StreamOptions::default() },
    );
    append(&stream, 0, 0..300, news);
    stream.seal().unwrap();
    append(&stream, 0, 300..310, news);
}

fn pack(folder: &Path, file: &Path) {
    let mut archive = ZipWriter::new(File::create(file).unwrap());
    let mut open = vec![folder.to_path_buf()];
    let mut paths = Vec::new();
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { open.push(path) } else { paths.push(path) }
        }
    }
    paths.sort();
    for path in paths {
        let name = path.strip_prefix(folder).unwrap().to_str().unwrap();
        archive
            .start_file(
                name,
                SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated),
            )
            .unwrap();
        archive.write_all(&fs::read(&path).unwrap()).unwrap();
    }
    archive.finish().unwrap();
}

/// The frozen database in a folder of its own.
fn unpacked() -> tempfile::TempDir {
    let file = vectors().join("database_v2.zip");
    if !file.exists() && std::env::var("TAPEDB_VECTORS").is_ok_and(|what| what == "make") {
        let folder = tempfile::tempdir().unwrap();
        make(&folder.path().join("db"));
        pack(&folder.path().join("db"), &file);
    }
    let folder = tempfile::tempdir().unwrap();
    let mut archive = ZipArchive::new(File::open(&file).unwrap()).unwrap();
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).unwrap();
        let path = folder.path().join(entry.enclosed_name().unwrap());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        fs::write(path, bytes).unwrap();
    }
    folder
}

/// What a cursor gives of all streams, a line of JSON each, as the reader in Python prints it.
fn read(db: &Database) -> Vec<Value> {
    let mut lines = Vec::new();
    for name in db.streams().unwrap() {
        let mut cursor = db.cursor([&name]).unwrap().open().unwrap();
        while let Some(message) = cursor.next().unwrap() {
            let mut record = Vec::new();
            message.record().unwrap().write_json(&mut record);
            let record: Value = serde_json::from_slice(&record).unwrap();
            let line = json!([
                name,
                message.space(),
                message.sequence(),
                message.time().0,
                message.symbol(),
                record
            ]);
            lines.push(without_nulls(line));
        }
    }
    lines
}

/// JSON of messages leaves out most nulls; those of arrays stay.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let there = fields.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(there.map(|(name, value)| (name, without_nulls(value))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        value => value,
    }
}

fn run_python(database: &Path) -> Output {
    // Without bytecode, which would be written into the tree.
    python().arg("-B").arg(reader()).arg(database).output().unwrap()
}

fn has_python() -> bool {
    let version = python().args(["-c", "import sys; sys.exit(sys.version_info < (3, 10))"]).status();
    version.is_ok_and(|status| status.success())
}

#[test]
fn two_implementations_read_the_same_rows() {
    if !has_python() {
        return skipped("python3 is not installed, or older than 3.10");
    }
    let folder = unpacked();
    let expected = read(&Database::open_read_only(folder.path()).unwrap());
    assert!(expected.len() > 16_000, "{} messages", expected.len());

    let output = run_python(folder.path());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines: Vec<Value> =
        text.lines().map(|line| without_nulls(serde_json::from_str(line).unwrap())).collect();
    let counts = lines.pop().unwrap();
    for (index, (expected, found)) in expected.iter().zip(&lines).enumerate() {
        assert_eq!(found, expected, "message {index}");
    }
    assert_eq!(lines.len(), expected.len());
    for what in [
        "content of a block",
        "column",
        "block head",
        "segment footer",
        "batch payload",
        "symbol",
        "index or producers",
    ] {
        assert!(
            counts["checksums"][what].as_u64().is_some_and(|count| count > 0),
            "no checksum of {what} was compared: {counts}"
        );
    }
}

#[test]
fn the_second_reader_finds_flipped_bits() {
    if !has_python() {
        return skipped("python3 is not installed, or older than 3.10");
    }
    let folder = unpacked();
    let space = folder.path().join("streams/kinds/0");
    let segment = fs::read_dir(&space).unwrap().map(|entry| entry.unwrap().path());
    let segment = segment
        .into_iter()
        .find(|path| path.extension().is_some_and(|extension| extension == "seg"))
        .unwrap();
    for path in [segment, folder.path().join("streams/kinds/symbols"), space.join("end")] {
        let sound = fs::read(&path).unwrap();
        let mut damaged = sound.clone();
        damaged[sound.len() / 2] ^= 4;
        fs::write(&path, &damaged).unwrap();
        let output = run_python(folder.path());
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains("checksum"), "{}: {error}", path.display());
        fs::write(&path, &sound).unwrap();
    }
}

#[test]
fn the_frozen_database_is_sound_and_can_be_continued() {
    let folder = unpacked();
    let before = read(&Database::open_read_only(folder.path()).unwrap());
    assert!(read_tiers(folder.path()).iter().all(|tier| ["hot", "cold"].contains(&tier.as_str())));
    assert!(read_tiers(folder.path()).contains(&"cold".to_string()));

    let db = Database::open_without_maintenance(folder.path()).unwrap();
    let stream = db.stream("nested").unwrap();
    append(&stream, 0, 230..231, nested);
    stream.seal().unwrap();
    let after: Vec<_> = read(&db);
    let (new, old): (Vec<_>, Vec<_>) =
        after.into_iter().partition(|line| line[0] == "nested" && line[2] == 230);
    assert_eq!(new.len(), 1);
    assert_eq!(old, before);
}

/// The tiers of all segments, by the manifests.
fn read_tiers(database: &Path) -> Vec<String> {
    let manifests = [
        "kinds/0",
        "nested/0",
        "versions/0",
        "us%2Fquotes/0",
        "us%2Fquotes/1",
        "bars/0",
        "ticks/0",
        "cold/0",
    ];
    let texts = manifests
        .map(|space| fs::read_to_string(database.join("streams").join(space).join("manifest")).unwrap());
    let parts = texts.iter().flat_map(|text| text.lines()).filter(|line| line.starts_with("part "));
    parts.map(|line| line.split(' ').nth(8).unwrap_or_default().to_string()).collect()
}
