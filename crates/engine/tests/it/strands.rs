//! Segments whose blocks are in strands hold the same messages, in the same order, for every reader, as the log did.

use crate::support::*;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tapedb_engine::{
    CheckDepth, CheckEvent, CursorBuilder, Database, DeletedStreams, Error, Position, Severity, Stream,
    StreamOptions, Values, forced,
};
use tapedb_schema::Timestamp;

const SCHEMA: &str =
    "message A { n: i64, s: string }\nmessage B { price: decimal64?, list: array<i64> }\nmessage C { }";
const CHANGED: &str = "message A { n: i64, s: string, more: i64? }\nmessage B { price: decimal64?, list: array<i64> }\nmessage C { }";

/// Stream, time, sequence number, symbol, type and body.
type Row = (i64, u64, String, String, Vec<u8>);

/// How times follow each other.
#[derive(Debug, Clone, Copy)]
enum Times {
    Equal,
    Forward,
    Ties,
    Late,
    Backwards,
    Wild,
}

/// What is loaded.
#[derive(Debug)]
struct Shape {
    symbols: usize,
    /// Whether most messages are of one symbol.
    has_heavy: bool,
    times: Times,
    rows: usize,
    files: usize,
}

impl Shape {
    fn random(random: &mut Random) -> Self {
        use Times::*;
        Self {
            symbols: *random.pick(&[1, 2, 3, 40, 300]),
            has_heavy: random.chance(3),
            times: *random.pick(&[Equal, Forward, Ties, Late, Backwards, Wild]),
            rows: *random.pick(&[1, 3, 60, 400]),
            files: *random.pick(&[1, 3, 9, 20]),
        }
    }

    fn symbol(&self, random: &mut Random) -> usize {
        if self.has_heavy && !random.chance(10) { 0 } else { random.below(self.symbols) }
    }

    fn time(&self, number: i64, random: &mut Random) -> i64 {
        match self.times {
            Times::Equal => 7,
            Times::Forward => number * 10,
            Times::Ties => number / 50 * 10,
            Times::Late => number * 10 - if random.chance(9) { random.below(3_000) as i64 } else { 0 },
            Times::Backwards => -number,
            Times::Wild => random.next() as i64 / 8,
        }
    }
}

/// A body of one of the types.
fn body(stream: &Stream, type_id: u16, number: u64) -> Vec<u8> {
    let json = match type_id {
        0 => {
            let text = "x".repeat((mix(number) % 30) as usize);
            format!("{{\"$type\": \"A\", \"n\": {number}, \"s\": \"{text}\"}}")
        }
        1 if number.is_multiple_of(3) => "{\"$type\": \"B\", \"list\": []}".to_string(),
        1 => format!("{{\"$type\": \"B\", \"price\": \"{}.5\", \"list\": [{number}, 7]}}", number % 100),
        _ => "{\"$type\": \"C\"}".to_string(),
    };
    let (layouts, mut body) = (stream.layouts(), Vec::new());
    layouts.encode(&layouts.from_json(&json).unwrap(), &mut body).unwrap();
    body
}

fn append(stream: &Stream, shape: &Shape, random: &mut Random, from: u64) {
    let mut loader = stream.loader().unwrap();
    for number in from..from + shape.rows as u64 {
        let symbol = format!("S{}", shape.symbol(random));
        let type_id = *random.pick(&[0, 0, 0, 1, 2]);
        let time = Timestamp(shape.time(number as i64, random));
        loader.append_body(&symbol, time, type_id, &body(stream, type_id, number)).unwrap();
        if random.chance(30) {
            loader.flush().unwrap();
        }
    }
    loader.close().unwrap();
}

fn read(builder: CursorBuilder) -> Vec<Row> {
    let (mut cursor, mut rows) = (builder.open().unwrap(), Vec::new());
    while let Some(message) = cursor.next().unwrap() {
        rows.push((
            message.time().0,
            message.sequence(),
            message.symbol().to_string(),
            message.type_name().to_string(),
            message.body().to_vec(),
        ));
    }
    rows
}

/// Time, sequence number, symbol and the number of each row of type A.
fn read_columns(builder: CursorBuilder, in_order: bool) -> Vec<(i64, u64, String, i64)> {
    let columns = builder.columns("A", ["n"]).with_sequences();
    let columns = if in_order { columns.in_time_order().chunk_rows(37) } else { columns };
    let (mut cursor, mut rows) = (columns.open().unwrap(), Vec::new());
    while let Some(chunk) = cursor.next().unwrap() {
        let Values::Ints(numbers) = chunk.column(0).values() else { panic!("numbers are integers") };
        let symbols: Vec<u32> = match chunk.symbol_of_rows() {
            Some(symbols) => symbols.to_vec(),
            None => {
                let mut symbols = Vec::new();
                chunk.symbols().iter().for_each(|run| symbols.resize(run.end as usize, run.symbol));
                symbols
            }
        };
        for (row, number) in numbers.iter().enumerate() {
            let name = chunk.symbol(symbols[row]).to_string();
            rows.push((chunk.times()[row], chunk.sequences().unwrap()[row], name, *number));
        }
    }
    if !in_order {
        rows.sort();
    }
    rows
}

/// Everything that readers return.
#[derive(Debug, PartialEq)]
struct Answers {
    rows: Vec<Vec<Row>>,
    columns: Vec<Vec<(i64, u64, String, i64)>>,
    counts: Vec<u64>,
    ranges: Vec<Option<(Timestamp, Timestamp)>>,
    resumed: Vec<Row>,
    arrivals: Vec<Row>,
    last: Vec<Row>,
}

type Query<'a> = Box<dyn Fn() -> CursorBuilder + 'a>;

fn queries<'a>(stream: &'a Stream, seed: u64) -> Vec<Query<'a>> {
    let all: Vec<i64> = read(stream.cursor()).iter().map(|row| row.0).collect();
    let mut random = Random::from_seed(seed);
    let mut time = || if all.is_empty() { 0 } else { *random.pick(&all) };
    let (from, to) = (time(), time());
    let symbols: Vec<String> = (0..4).map(|_| format!("S{}", random.below(300))).collect();
    vec![
        Box::new(move || stream.cursor()),
        Box::new(move || stream.cursor().symbols(["S0"])),
        Box::new(move || stream.cursor().symbols(symbols.clone())),
        Box::new(move || stream.cursor().symbols(["S1", "S2"]).types(["A", "B"])),
        Box::new(move || stream.cursor().types(["C"])),
        Box::new(move || stream.cursor().from(Timestamp(from))),
        Box::new(move || stream.cursor().to(Timestamp(to)).symbols((0..40).map(|n| format!("S{n}")))),
        Box::new(move || stream.cursor().from(Timestamp(from.min(to))).to(Timestamp(from.max(to)))),
    ]
}

fn answers(stream: &Stream, seed: u64, resume: Option<&Position>) -> Answers {
    let queries = queries(stream, seed);
    let each = || queries.iter().map(|query| query());
    let arrivals = stream.cursor().live().resume(&"live 0 s".parse::<Position>().unwrap());
    Answers {
        rows: each().chain(each().map(CursorBuilder::reverse)).map(read).collect(),
        columns: each()
            .flat_map(|query| [true, false].map(|in_order| read_columns(query.clone(), in_order)))
            .collect(),
        counts: each().map(|query| query.count().unwrap()).collect(),
        ranges: each().map(|query| query.time_range().unwrap()).collect(),
        resumed: resume.map(|position| read(stream.cursor().resume(position))).unwrap_or_default(),
        arrivals: read(arrivals),
        last: read(stream.cursor().last_values()),
    }
}

/// A position somewhere in the middle.
fn position(stream: &Stream, random: &mut Random) -> Position {
    let mut cursor = stream.cursor().open().unwrap();
    for _ in 0..random.below(300) {
        if cursor.next().unwrap().is_none() {
            break;
        }
    }
    cursor.position()
}

fn segments(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        match path.extension().and_then(|extension| extension.to_str()) {
            _ if path.is_dir() => found.extend(segments(&path)),
            Some("seg") => found.push(path),
            _ => {}
        }
    }
    found
}

fn check(db: &Database) {
    db.stored("s").unwrap().check(CheckDepth::Thorough, |checking| {
        if let CheckEvent::Found(finding) = checking {
            assert_eq!(finding.severity, Severity::Note, "{finding:?}");
        }
        ControlFlow::Continue(())
    });
}

fn run(seed: u64) {
    let mut random = Random::from_seed(seed);
    let shape = Shape::random(&mut random);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let mut db = Database::open_without_maintenance(&path).unwrap();
    let mut stream = db.create_stream("s", SCHEMA.parse().unwrap(), StreamOptions::default()).unwrap();
    let mut appended = 0;
    for file in 0..shape.files {
        append(&stream, &shape, &mut random, appended);
        appended += shape.rows as u64;
        if random.chance(12) && file > 0 {
            let all = read(stream.cursor());
            let from = random.pick(&all).0;
            let symbols = random.chance(2).then_some(["S0", "S3"]);
            stream.delete(Timestamp(from)..Timestamp(from.saturating_add(200)), symbols).unwrap();
            if read(stream.cursor()).is_empty() {
                return;
            }
        }
        if random.chance(15) && !stream.schema().to_string().contains("more") {
            stream = db.change_schema("s", CHANGED.parse().unwrap()).unwrap();
        }
        let (query_seed, position) = (random.next(), position(&stream, &mut random));
        // Comparing all takes much longer than sealing.
        let is_compared = random.chance(3) || file + 1 == shape.files;
        let before = is_compared.then(|| answers(&stream, query_seed, Some(&position)));
        match random.below(5) {
            0 => drop(stream.seal().unwrap()),
            _ => drop(forced::in_strands(strands(&mut random), || stream.seal()).unwrap()),
        }
        if random.chance(10) {
            let cold_after = random.chance(2).then_some(Duration::ZERO);
            stream.alter(StreamOptions { cold_after, ..stream.options() }).unwrap();
            forced::in_strands(strands(&mut random), || stream.seal()).unwrap();
        }
        if random.chance(8) {
            drop((stream, db));
            db = reopen_without_maintenance(&path);
            stream = db.stream("s").unwrap();
        }
        if let Some(before) = before {
            let after = answers(&stream, query_seed, Some(&position));
            assert!(before == after, "seed {seed}, {shape:?}, file {file}");
        }
    }
    check(&db);
}

#[test]
fn every_reader_returns_the_same() {
    let mut random = Random::new();
    for _ in 0..12 {
        run(random.next());
    }
}

/// Messages of many symbols in order, in parts that are merged.
fn feed(path: &Path, late: bool) -> (Database, Stream) {
    let db = Database::open_without_maintenance(path).unwrap();
    let stream = db.create_stream("s", schema(), StreamOptions::default()).unwrap();
    let in_strands = tapedb_segment::Strands { count: 8, rows: 100, bytes: 1 << 20, stripe_bytes: 3_000 };
    for file in 0..8u64 {
        let mut loader = stream.loader().unwrap();
        for number in file * 500..file * 500 + 500 {
            let back = if late && number % 7 == 0 { 900 } else { 0 };
            let time = Timestamp(number as i64 - back);
            loader.append(&format!("S{}", number % 40), time, &Tick::of(number)).unwrap();
        }
        loader.close().unwrap();
        forced::in_strands(in_strands, || stream.seal()).unwrap();
    }
    (db, stream)
}

#[test]
fn merged_segments_are_in_strands_and_one_symbol_is_in_few_blocks() {
    for late in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("db");
        let (db, stream) = feed(&path, late);
        let segments = segments(&path);
        assert_eq!(segments.len(), 1, "all are merged");
        let bytes = fs::read(&segments[0]).unwrap();
        let segment = tapedb_segment::Segment::open(bytes).unwrap();
        assert_eq!((segment.strand_count(), segment.messages()), (8, 4_000));
        let blocks = |symbol| segment.blocks_of(symbol).flatten().count();
        assert!((0..40).all(|symbol| blocks(symbol) * 7 <= segment.blocks().len()));
        let before = tapedb_engine::ReadCounts::of_this_thread();
        assert_eq!(drain(&mut stream.cursor().symbols(["S3"]).open().unwrap()).len(), 100);
        let read = tapedb_engine::ReadCounts::of_this_thread().since(before);
        assert!(read.blocks as usize <= blocks(3), "{read:?}");
        let mut all: Vec<u64> = (0..4_000).collect();
        if late {
            all.sort_by_key(|number| (*number as i64 - if number % 7 == 0 { 900 } else { 0 }, *number));
        }
        assert_eq!(drain(&mut stream.cursor().open().unwrap()), all);
        check(&db);
    }
}

/// A segment is replaced while its strands are read as columns: each message is returned once.
#[test]
fn columns_are_read_on_in_the_segment_that_replaces_one_in_strands() {
    for replaced_after in [1, 2, 7, 20, 60, 200] {
        let directory = tempfile::tempdir().unwrap();
        let (_db, stream) = feed(&directory.path().join("db"), true);
        let mut columns = stream.columns("Tick", ["number"]).open().unwrap();
        let (mut found, mut chunks) = (Vec::new(), 0);
        while let Some(chunk) = columns.next().unwrap() {
            let Values::Ints(numbers) = chunk.column(0).values() else { panic!("numbers are integers") };
            found.extend_from_slice(numbers);
            chunks += 1;
            if chunks == replaced_after {
                // A deletion of nothing that the reader wants rewrites it.
                let mut loader = stream.loader().unwrap();
                loader.append("late", Timestamp(10), &Tick::of(9_000)).unwrap();
                loader.close().unwrap();
                stream.seal().unwrap();
                stream.delete(Timestamp(10)..Timestamp(11), Some(["late"])).unwrap();
                let strands =
                    tapedb_segment::Strands { count: 4, rows: 60, bytes: 1 << 20, stripe_bytes: 1_000 };
                forced::in_strands(strands, || stream.seal()).unwrap();
            }
        }
        found.sort_unstable();
        assert_eq!(found, (0..4_000).collect::<Vec<i64>>(), "replaced after {replaced_after}");
    }
}

/// A damaged footer: strands are found again, and repair keeps every message.
#[test]
fn a_segment_in_strands_is_repaired() {
    for late in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("db");
        let (db, stream) = feed(&path, late);
        let expected = drain(&mut stream.cursor().open().unwrap());
        drop((stream, db));
        let segment = &segments(&path)[0];
        let mut bytes = fs::read(segment).unwrap();
        let at = bytes.len() - 60;
        bytes[at] ^= 1;
        fs::write(segment, bytes).unwrap();
        {
            let db = reopen_without_maintenance(&path);
            let stream = db.stream("s").unwrap();
            let (mut cursor, mut found, mut damaged) = (stream.cursor().open().unwrap(), Vec::new(), 0);
            loop {
                match cursor.next() {
                    Ok(Some(message)) => found.push(number_of(&message)),
                    Ok(None) => break,
                    Err(error) => {
                        assert!(matches!(error, Error::Unreadable(_)), "{error}");
                        damaged += 1;
                    }
                }
            }
            assert_eq!((found, damaged), (expected.clone(), 1));
        }
        assert_eq!(reopen_without_maintenance(&path).repair("s", true).unwrap().len(), 1);
        let db = reopen_without_maintenance(&path);
        assert_eq!(drain(&mut db.stream("s").unwrap().cursor().open().unwrap()), expected);
        check(&db);
    }
}

#[test]
fn a_backup_of_segments_in_strands_is_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let (path, copy) = (directory.path().join("db"), directory.path().join("copy"));
    let (db, stream) = feed(&path, true);
    let expected = drain(&mut stream.cursor().open().unwrap());
    let done = db.backup(&copy, DeletedStreams::Delete, |_| ControlFlow::Continue(())).unwrap();
    assert!(done.failed.is_empty());
    let copied = Database::open_read_only(&copy).unwrap();
    assert_eq!(drain(&mut copied.stream("s").unwrap().cursor().open().unwrap()), expected);
}
