//! Columns hold the same values as messages.

use super::place::new_database;
use crate::counting::Counting;
use crate::support::*;
use std::sync::Arc;
use std::time::Duration;
use tapedb_codec::{Record, SchemaBuilder, Union};
use tapedb_engine::{
    Access, Chunk, Column, ColumnBuilder, CursorBuilder, Database, Error, Invalid, Message, NotFound, Number,
    Step, StreamOptions, Values,
};
use tapedb_log::MemoryStorage;
use tapedb_schema::Timestamp;

/// A message, or a row of a chunk: stream, space, time, sequence, symbol, and the fields as text.
type Row = (String, u32, i64, u64, String, Vec<String>);

const FIELDS: [(&str, &[&str]); 2] =
    [("Tick", &["number", "check", "note"]), ("Quote", &["ask", "number", "bid"])];

/// Columns of a record type against messages, in both orders, in chunks of any size, and in two parts with a position between.
pub fn check(record: &str, is_reversed: bool, cut: usize, builder: impl Fn() -> CursorBuilder) {
    let fields = FIELDS.iter().find(|(name, _)| *name == record).unwrap().1;
    let mut expected = rows_of_cursor(builder().types([record]), fields_of);
    let columns_of =
        |builder: CursorBuilder| builder.columns(record, fields.iter().copied()).with_sequences();
    let columns = || columns_of(builder());
    assert_eq!(rows_of_columns(columns().in_time_order()), expected);
    assert_eq!(columns().in_time_order().count().unwrap(), expected.len() as u64);
    let chunk_rows = cut % 7 + 1;
    let mut cursor = columns().in_time_order().chunk_rows(chunk_rows).limit(cut as u64).open().unwrap();
    let (mut found, mut position) = (Vec::new(), cursor.position().unwrap());
    while let Some(chunk) = cursor.next().unwrap() {
        assert!(chunk.len() <= chunk_rows);
        found.extend(rows_of_chunk(&chunk));
        position = cursor.position().unwrap();
    }
    assert_eq!(found, expected[..cut.min(expected.len())]);
    found.extend(rows_of_columns(columns_of(builder().resume(&position)).in_time_order()));
    assert_eq!(found, expected, "resumed at {position}");
    if is_reversed {
        return;
    }
    let times = || expected.iter().map(|row| row.2);
    let range = builder().types([record]).time_range().unwrap().map(|(first, last)| (first.0, last.0));
    assert_eq!(range, times().min().zip(times().max()));
    assert_eq!(builder().types([record]).count().unwrap(), expected.len() as u64);
    let all = rows_of_cursor(builder(), |_| Vec::new());
    assert_eq!(builder().count().unwrap(), all.len() as u64);
    let mut found = rows_of_columns(columns());
    expected.sort();
    found.sort();
    assert_eq!(found, expected);
}

fn rows_of_cursor(builder: CursorBuilder, fields: impl Fn(&Message<'_>) -> Vec<String>) -> Vec<Row> {
    let (mut cursor, mut rows) = (builder.open().unwrap(), Vec::new());
    while let Some(message) = cursor.next().unwrap() {
        let stream = message.stream_name().to_string();
        let (time, symbol) = (message.time().0, message.symbol().to_string());
        rows.push((stream, message.space(), time, message.sequence(), symbol, fields(&message)));
    }
    rows
}

fn fields_of(message: &Message<'_>) -> Vec<String> {
    if message.type_name() == "Tick" {
        let tick = message.decode::<Tick>().unwrap();
        return vec![(tick.number as i64).to_string(), (tick.check as i64).to_string(), tick.note];
    }
    let quote = message.decode::<Quote>().unwrap();
    let bits = |price: tapedb_schema::Decimal64| (price.to_bits() as i64).to_string();
    vec![quote.ask.map_or(String::new(), bits), quote.number.to_string(), bits(quote.bid)]
}

/// All rows; chunks are checked.
fn rows_of_columns(builder: ColumnBuilder) -> Vec<Row> {
    let (mut cursor, mut rows) = (builder.open().unwrap(), Vec::new());
    while let Some(chunk) = cursor.next().unwrap() {
        rows.extend(rows_of_chunk(&chunk));
    }
    rows
}

fn rows_of_chunk(chunk: &Chunk<'_>) -> Vec<Row> {
    let columns: Vec<Vec<String>> = (0..3).map(|index| texts_of(&chunk.column(index), chunk.len())).collect();
    let (mut rows, mut start) = (Vec::new(), 0);
    assert_eq!(chunk.symbols().last().unwrap().end as usize, chunk.len());
    let mut spaces: Vec<(String, u32)> = Vec::new();
    for run in chunk.spaces() {
        assert!(run.end as usize > spaces.len());
        spaces.resize(run.end as usize, (run.stream.to_string(), run.space));
    }
    assert_eq!(spaces.len(), chunk.len());
    for run in chunk.symbols() {
        let range = start..run.end as usize;
        assert!(!range.is_empty());
        start = range.end;
        let symbol = chunk.symbol(run.symbol).to_string();
        rows.extend(range.map(|row| {
            let fields = columns.iter().map(|column| column[row].clone()).collect();
            let (stream, space) = spaces[row].clone();
            let (time, sequence) = (chunk.times()[row], chunk.sequences().unwrap()[row]);
            (stream, space, time, sequence, symbol.clone(), fields)
        }));
    }
    rows
}

/// A text for each row, empty for null.
fn texts_of(column: &Column<'_>, rows: usize) -> Vec<String> {
    let mut texts = texts(column.values()).into_iter();
    let steps: Vec<Step<'_>> = column.steps().collect();
    let texts: Vec<String> = match steps[..] {
        [] => texts.collect(),
        [Step::Present(present)] => {
            let spread = present.iter().map(|&present| match present {
                1 => texts.next().unwrap(),
                _ => String::new(),
            });
            let spread = spread.collect();
            assert!(texts.next().is_none());
            spread
        }
        ref steps => panic!("{steps:?}"),
    };
    assert_eq!(texts.len(), rows);
    texts
}

fn texts(values: Values<'_>) -> Vec<String> {
    match values {
        Values::Ints(values) => values.iter().map(i64::to_string).collect(),
        Values::F64s(values) => values.iter().map(f64::to_string).collect(),
        Values::F32s(values) => values.iter().map(f32::to_string).collect(),
        Values::Bytes(ends, bytes) => {
            let starts = std::iter::once(&0).chain(ends);
            let ranges = starts.zip(ends).map(|(start, end)| *start as usize..*end as usize);
            ranges.map(|range| String::from_utf8(bytes[range].to_vec()).unwrap()).collect()
        }
    }
}

#[derive(Record, Debug, Default, Clone, PartialEq)]
struct Trade {
    price: f64,
    id: Option<String>,
}

#[derive(Record, Debug, Default, Clone, PartialEq)]
struct Level {
    depth: u16,
}

#[derive(Union, Debug, Clone, PartialEq)]
enum Entry {
    Level(Level),
    Trade(Trade),
}

impl Default for Entry {
    fn default() -> Self {
        Self::Level(Level::default())
    }
}

#[derive(Record, Debug, Default, Clone, PartialEq)]
#[record(message)]
struct Package {
    entries: Vec<Entry>,
    venue: Option<u8>,
}

fn package(number: u64) -> Package {
    let entry = |i: u64| match mix(number * 7 + i) % 3 {
        0 => Entry::Level(Level { depth: i as u16 }),
        1 => Entry::Trade(Trade { price: i as f64 / 4.0, id: None }),
        _ => Entry::Trade(Trade { price: number as f64, id: Some(format!("{number}-{i}")) }),
    };
    Package { entries: (0..number % 4).map(entry).collect(), venue: number.is_multiple_of(5).then_some(7) }
}

/// The ids of all trades of a chunk, by row.
fn ids_of(chunk: &Chunk<'_>) -> Vec<Vec<Option<String>>> {
    let column = chunk.column(1);
    let steps: Vec<Step<'_>> = column.steps().collect();
    let [Step::Items(items), Step::Is { tag, tags }, Step::Present(present)] = steps[..] else {
        panic!("{steps:?}");
    };
    let (mut tags, mut present, mut ids) = (tags.iter(), present.iter(), texts(column.values()).into_iter());
    let mut id_of = || (*present.next().unwrap() == 1).then(|| ids.next().unwrap());
    let rows = items.iter().map(|&count| {
        let is_trade = |found: &&i64| **found == i64::from(tag);
        tags.by_ref().take(count as usize).filter(is_trade).map(|_| id_of()).collect()
    });
    rows.collect()
}

/// Values of every column of packages, one after the other, as they follow from messages.
#[derive(Debug, Default, PartialEq)]
struct Flat {
    keys: Vec<(i64, u64, String)>,
    columns: [Vec<String>; 8],
}

const PACKAGE_PATHS: [&str; 8] = [
    "venue",
    "entries[].Trade.id",
    "entries",
    "entries[].Level.depth",
    "venue?",
    "entries[]",
    "entries[].Trade.price",
    "entries[].Trade.id?",
];

impl Flat {
    fn push(&mut self, key: (i64, u64, String), package: &Package) {
        self.keys.push(key);
        let [venue, id, entries, depth, has_venue, tag, price, has_id] = &mut self.columns;
        venue.extend(package.venue.map(|venue| venue.to_string()));
        has_venue.push(u8::from(package.venue.is_some()).to_string());
        entries.push(package.entries.len().to_string());
        for entry in &package.entries {
            match entry {
                Entry::Level(level) => {
                    tag.push("0".into());
                    depth.push(level.depth.to_string());
                }
                Entry::Trade(trade) => {
                    tag.push("1".into());
                    price.push(trade.price.to_string());
                    has_id.push(u8::from(trade.id.is_some()).to_string());
                    id.extend(trade.id.clone());
                }
            }
        }
    }

    fn of_cursor(builder: CursorBuilder) -> Self {
        let (mut cursor, mut flat) = (builder.open().unwrap(), Self::default());
        while let Some(message) = cursor.next().unwrap() {
            let key = (message.time().0, message.sequence(), message.symbol().to_string());
            flat.push(key, &message.decode().unwrap());
        }
        flat
    }

    fn of_columns(builder: ColumnBuilder) -> Self {
        let (mut cursor, mut flat) = (builder.with_sequences().open().unwrap(), Self::default());
        while let Some(chunk) = cursor.next().unwrap() {
            let mut start = 0;
            for run in chunk.symbols() {
                for row in start..run.end as usize {
                    let key = (chunk.times()[row], chunk.sequences().unwrap()[row]);
                    flat.keys.push((key.0, key.1, chunk.symbol(run.symbol).to_string()));
                }
                start = run.end as usize;
            }
            for (index, column) in flat.columns.iter_mut().enumerate() {
                column.extend(texts(chunk.column(index).values()));
            }
        }
        flat
    }
}

/// Sealed and unsealed parts with late messages, deletions, many symbols or one, over two streams.
#[test]
fn nested_columns_in_time_order_are_those_of_messages() {
    for round in 0..6 {
        let mut random = Random::new();
        let (_directory, db) = new_database_without_maintenance();
        let options = StreamOptions { spaces: 2, ..small_files() };
        let streams = ["a", "b"].map(|name| {
            let schema = SchemaBuilder::new().with::<Package>().finish();
            db.create_stream(name, schema, options).unwrap()
        });
        let symbols: Vec<String> = (0..[1, 3, 40][round % 3]).map(|i| format!("S{i}")).collect();
        for part in 0..5u64 {
            for stream in &streams {
                for space in 0..2 {
                    let mut loader = stream.loader_in(space).unwrap();
                    for i in 0..random.below(700) as u64 {
                        let late = if random.chance(40) { random.below(3_000) as i64 } else { 0 };
                        let time = (part * 500 + i) as i64 - late;
                        let number = random.next() % 1_000;
                        let symbol: &String = random.pick(&symbols);
                        loader.append(symbol, Timestamp(time), &package(number)).unwrap();
                    }
                    loader.close().unwrap();
                }
                if part < 4 && !random.chance(3) {
                    stream.seal().unwrap();
                }
                if random.chance(2) {
                    let from = random.below(2_500) as i64;
                    let only = random.chance(2).then(|| [random.pick(&symbols).clone()]);
                    stream.delete(Timestamp(from)..Timestamp(from + 40), only).unwrap();
                }
            }
        }
        let bounds = [random.below(2_500) as i64 - 200, random.below(3_000) as i64];
        let some = [random.pick(&symbols).clone(), random.pick(&symbols).clone()];
        let both = || db.cursor(["a", "b"]).unwrap();
        let builders: [Box<dyn Fn() -> CursorBuilder>; 6] = [
            Box::new(both),
            Box::new(|| streams[0].cursor()),
            Box::new(|| both().from(Timestamp(bounds[0])).to(Timestamp(bounds[1]))),
            Box::new(|| both().symbols(some.clone())),
            Box::new(|| both().reverse().symbols(some.clone()).from(Timestamp(bounds[0]))),
            Box::new(|| both().last(100)),
        ];
        for (index, builder) in builders.iter().enumerate() {
            let expected = Flat::of_cursor(builder());
            let columns = || builder().columns("Package", PACKAGE_PATHS);
            assert_eq!(Flat::of_columns(columns().in_time_order()), expected, "{index}");
            let small = columns().in_time_order().chunk_rows(1 + random.below(200));
            assert_eq!(Flat::of_columns(small), expected, "{index} in small chunks");
            if index < 4 {
                let mut expected = expected;
                let mut found = Flat::of_columns(columns());
                for flat in [&mut expected, &mut found] {
                    flat.keys.sort();
                    flat.columns.iter_mut().for_each(|column| column.sort());
                }
                assert_eq!(found, expected, "{index} by symbol");
            }
        }
    }
}

/// History, then what arrives: every message once, in the order of arrival of its space, while files are sealed.
#[test]
fn live_columns_follow_history_without_gap_or_duplicate() {
    for (in_time_order, linger) in [(false, 0), (true, 0), (true, 20), (false, 5)] {
        let (_directory, db) = new_database();
        let options = StreamOptions { spaces: 2, ..small_files() };
        let stream = db.create_stream("s", schema(), options).unwrap();
        let load = |space: u64, numbers: std::ops::Range<u64>| {
            let mut loader = stream.loader_in(space as u32).unwrap();
            for number in numbers {
                let symbol = ["A", "B", "C"][(number % 3) as usize];
                loader.append(symbol, Timestamp(number as i64), &Tick::of(number * 2 + space)).unwrap();
                if number % 97 == 0 {
                    loader.flush().unwrap();
                }
            }
            loader.close().unwrap();
        };
        (0..2).for_each(|space| load(space, 0..2_000));
        stream.seal().unwrap();
        (0..2).for_each(|space| load(space, 2_000..2_500));
        let builder = stream.cursor().live().columns("Tick", ["number", "check", "note"]).with_sequences();
        let builder = builder.chunk_rows(300).linger(Duration::from_millis(linger));
        let builder = if in_time_order { builder.in_time_order() } else { builder };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                load(0, 2_500..6_000);
                stream.seal().unwrap();
                load(0, 6_000..7_000);
            });
            scope.spawn(|| load(1, 2_500..7_000));
            let mut cursor = builder.clone().open().unwrap();
            assert!(cursor.follows());
            let (mut next, mut count, mut resumed) = ([0, 0], 0, false);
            let mut early: [Vec<u64>; 2] = Default::default();
            while count < 14_000 {
                let is_live = cursor.is_live();
                let chunk = cursor.next_within(Duration::from_secs(60)).unwrap().expect("more to come");
                count += chunk.len();
                for (_, space, _, sequence, _, fields) in rows_of_chunk(&chunk) {
                    assert_eq!(fields[0], (sequence * 2 + u64::from(space)).to_string());
                    let next = &mut next[space as usize];
                    if in_time_order || is_live {
                        assert_eq!(sequence, *next);
                        *next += 1;
                    } else {
                        early[space as usize].push(sequence);
                    }
                }
                if !in_time_order {
                    for (space, early) in early.iter_mut().enumerate() {
                        early.sort_unstable();
                        let whole = early.iter().zip(next[space]..).take_while(|(a, b)| **a == *b).count();
                        if whole == early.len() {
                            next[space] += whole as u64;
                            early.clear();
                        }
                    }
                }
                if let Some(position) = cursor.position().filter(|_| count > 9_000 && !resumed) {
                    resumed = true;
                    let builder = stream.cursor().live().resume(&position);
                    let builder = builder.columns("Tick", ["number", "check", "note"]).with_sequences();
                    cursor = builder.in_time_order().open().unwrap();
                }
            }
            assert!(resumed);
            assert_eq!(next, [7_000, 7_000]);
            assert!(cursor.next_within(Duration::from_millis(1)).unwrap().is_none());
            assert!(cursor.is_live());
        });
    }
}

#[test]
fn a_chunk_waits_for_more_only_as_long_as_it_may() {
    let (_directory, db) = new_database();
    let stream = db.create_stream("s", schema(), small_files()).unwrap();
    let columns = |linger| {
        let columns = stream.cursor().skip_history().columns("Tick", ["number"]).chunk_rows(10);
        columns.linger(Duration::from_secs(linger)).open().unwrap()
    };
    append_ticks(&stream, 0..5);
    let (mut patient, mut hasty) = (columns(3_600), columns(0));
    assert!(hasty.next().unwrap().is_none());
    let now = Duration::from_millis(1);
    assert!(patient.next_within(now).unwrap().is_none());
    // What one cursor has seen is there for the other.
    let mut append = |numbers: std::ops::Range<u64>| {
        let mut left = numbers.clone().count();
        append_ticks(&stream, numbers);
        while left > 0 {
            left -= hasty.next_within(Duration::from_secs(60)).unwrap().unwrap().len();
        }
    };
    append(5..10);
    let before = patient.position().unwrap();
    assert!(patient.next_within(now).unwrap().is_none(), "five of ten rows are there");
    assert_eq!(patient.position().unwrap(), before, "they have not been returned");
    append(10..18);
    assert_eq!(patient.next_within(now).unwrap().unwrap().len(), 10);
    assert!(patient.next_within(now).unwrap().is_none(), "three of ten");
    let rest = patient.next().unwrap().unwrap();
    assert_eq!(rest.column(0).values(), Values::Ints(&[15, 16, 17]));
    assert_eq!(patient.position(), {
        let mut cursor = stream.cursor().skip_history().open().unwrap();
        assert!(cursor.next().unwrap().is_none());
        Some(cursor.position())
    });
}

/// Streams whose rows alternate share chunks; streams with other columns do not.
#[test]
fn rows_of_several_streams_are_in_one_chunk() {
    let (_directory, db) = new_database();
    let streams = ["a", "b"].map(|name| db.create_stream(name, schema(), small_files()).unwrap());
    let other = "record Tick { number: u64? }";
    let other =
        db.create_stream("c", other.replace("record", "message").parse().unwrap(), small_files()).unwrap();
    for number in 0..100 {
        for (index, stream) in streams.iter().enumerate() {
            let mut loader = stream.loader().unwrap();
            let symbol = ["A", "B"][(number as usize + index) % 2];
            loader.append(symbol, Timestamp(number as i64), &Tick::of(number)).unwrap();
            loader.close().unwrap();
        }
    }
    let tick = other.layouts().from_json(r#"{"$type": "Tick", "number": 7}"#).unwrap();
    let mut loader = other.loader().unwrap();
    loader.append_value("B", Timestamp(50), &tick).unwrap();
    loader.close().unwrap();
    let mut cursor =
        db.cursor(["a", "b"]).unwrap().columns("Tick", ["number"]).in_time_order().open().unwrap();
    let chunk = cursor.next().unwrap().unwrap();
    assert_eq!((chunk.len(), chunk.spaces().len()), (200, 200));
    let names: Vec<&str> =
        chunk.symbol_of_rows().unwrap().iter().map(|symbol| chunk.symbol(*symbol)).collect();
    assert_eq!(&names[..6], ["A", "B", "B", "A", "A", "B"]);
    assert!(cursor.next().unwrap().is_none());
    let all = || db.cursor(["a", "b", "c"]).unwrap().columns("Tick", ["number"]).in_time_order();
    let (mut cursor, mut lengths) = (all().open().unwrap(), Vec::new());
    let mut positions = Vec::new();
    while let Some(chunk) = cursor.next().unwrap() {
        lengths.push((chunk.len(), chunk.column(0).steps().len()));
        positions.push(cursor.position().unwrap());
    }
    assert_eq!(lengths, [(102, 0), (1, 1), (98, 0)]);
    for (index, position) in positions.iter().enumerate() {
        let resumed = db.cursor(["a", "b", "c"]).unwrap().resume(position).columns("Tick", ["number"]);
        let (mut cursor, mut rest) = (resumed.in_time_order().open().unwrap(), Vec::new());
        while let Some(chunk) = cursor.next().unwrap() {
            rest.push((chunk.len(), chunk.column(0).steps().len()));
        }
        assert_eq!(rest, lengths[index + 1..]);
    }
}

/// A chunk of long messages is full by its bytes: the next one begins with the message behind it.
#[test]
fn after_a_chunk_of_long_messages_comes_the_next_one() {
    const MESSAGES: u64 = 60;
    let (_directory, db) = new_database();
    let stream = db.create_stream("s", schema(), small_files()).unwrap();
    let mut loader = stream.loader().unwrap();
    for number in 0..MESSAGES {
        let tick = Tick { note: "x".repeat(512 << 10), ..Tick::of(number) };
        loader.append(["A", "B"][number as usize % 2], Timestamp(number as i64), &tick).unwrap();
    }
    loader.close().unwrap();
    for is_sealed in [false, true] {
        if is_sealed {
            stream.seal().unwrap();
        }
        for in_time_order in [false, true] {
            let columns = stream.columns("Tick", ["number", "note"]);
            let columns = if in_time_order { columns.in_time_order() } else { columns };
            let (mut cursor, mut numbers, mut chunks) = (columns.open().unwrap(), Vec::new(), 0);
            while let Some(chunk) = cursor.next().unwrap() {
                let Values::Ints(values) = chunk.column(0).values() else { panic!() };
                numbers.extend_from_slice(values);
                chunks += 1;
            }
            numbers.sort_unstable();
            assert!(numbers.into_iter().eq(0..MESSAGES as i64), "{is_sealed} {in_time_order}");
            assert!(chunks > 1, "they do not fit in one chunk");
        }
    }
}

/// Blocks without wanted values are left out, no row that matches is, and nothing is left out of the log.
#[test]
fn blocks_that_cannot_match_are_skipped() {
    let (_directory, db) = new_database_without_maintenance();
    let stream = db.create_stream("s", schema(), StreamOptions::default()).unwrap();
    let mut loader = stream.loader().unwrap();
    for number in 0..120_000u64 {
        loader.append(["A", "B"][number as usize % 2], Timestamp(number as i64), &Quote::of(number)).unwrap();
    }
    loader.close().unwrap();
    stream.seal().unwrap();
    let mut loader = stream.loader().unwrap();
    (0..10).for_each(|i| loader.append("A", Timestamp(200_000), &Quote::of(i)).unwrap());
    loader.close().unwrap();
    for in_time_order in [false, true] {
        let read = |field: &str, least: Option<Number>, most: Option<Number>| {
            let columns = stream.columns("Quote", ["number"]).skip_outside(field, least, most);
            let columns = if in_time_order { columns.in_time_order() } else { columns };
            let (mut cursor, mut numbers) = (columns.open()?, Vec::new());
            while let Some(chunk) = cursor.next()? {
                let Values::Ints(found) = chunk.column(0).values() else { panic!() };
                numbers.extend_from_slice(found);
            }
            Ok::<_, Error>(numbers)
        };
        let some = read("number", Some(Number::Int(50_000)), Some(Number::Float(50_010.5))).unwrap();
        assert!(some.len() < 70_000, "{}", some.len());
        assert_eq!(some.iter().filter(|number| (50_000..=50_010).contains(*number)).count(), 11);
        assert!(some.ends_with(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]));
        assert_eq!(read("number", Some(Number::Unsigned(1 << 40)), None).unwrap().len(), 10);
        let decimal = |units| Number::Decimal(tapedb_schema::Decimal64::from_parts(units, -2).unwrap());
        assert_eq!(read("bid", Some(decimal(0)), Some(decimal(0x10_0000))).unwrap().len(), 120_010);
        assert_eq!(read("ask", None, Some(decimal(-1))).unwrap().len(), 10);
        assert_error(
            read("bid", Some(Number::Float(1.0)), None),
            |error| matches!(error, Error::Invalid(Invalid::Cursor { .. })),
            "bid",
        );
        let unknown = read("size", None, None);
        assert_error(unknown, |error| matches!(error, Error::NotFound(NotFound::Column { .. })), "size");
    }
}

#[test]
fn messages_are_counted_and_bounded_without_reading_them() {
    let counting = Counting::on(Arc::new(MemoryStorage::new()));
    let db = Database::open_on(Arc::new(counting.clone()), "db", Access::WriteWithoutMaintenance).unwrap();
    let stream = db.create_stream("s", schema(), StreamOptions::default()).unwrap();
    let mut loader = stream.loader().unwrap();
    for number in 0..60_000 {
        let symbol = ["A", "B", "C", "D"][(number % 4) as usize];
        match number % 3 {
            0 => loader.append(symbol, Timestamp(number as i64), &Quote::of(number)).unwrap(),
            _ => loader.append(symbol, Timestamp(number as i64), &Tick::of(number)).unwrap(),
        }
    }
    loader.close().unwrap();
    stream.seal().unwrap();
    let size = stream.stats().unwrap().bytes;
    let is_cheap = |what: &str, share: u64| {
        assert!(counting.bytes_read() < size / share, "{what}: {} of {size} bytes", counting.bytes_read());
        counting.reset();
    };
    counting.reset();
    assert_eq!(stream.cursor().count().unwrap(), 60_000);
    is_cheap("all", 50);
    assert_eq!(stream.cursor().types(["Quote"]).symbols(["B", "X"]).count().unwrap(), 5_000);
    is_cheap("a symbol of a type", 10);
    assert_eq!(stream.cursor().symbols(["X"]).count().unwrap(), 0);
    let range = |builder: CursorBuilder| builder.time_range().unwrap().map(|(first, last)| (first.0, last.0));
    counting.reset();
    assert_eq!(range(stream.cursor()), Some((0, 59_999)));
    assert_eq!(
        range(stream.cursor().types(["Tick"]).symbols(["D"]).from(Timestamp(100))),
        Some((103, 59_999))
    );
    assert_eq!(range(stream.cursor().symbols(["A"]).to(Timestamp(3))), Some((0, 0)));
    assert_eq!(range(stream.cursor().from(Timestamp(60_000))), None);
    for refused in [stream.cursor().live(), stream.cursor().last(5), stream.cursor().reverse()] {
        let is_refused = |error: Error| matches!(error, Error::Invalid(Invalid::Cursor { .. }));
        assert!(
            is_refused(refused.clone().count().unwrap_err()) && is_refused(refused.time_range().unwrap_err())
        );
    }
    // What is deleted does not count, and what is in the log does.
    stream.delete(Timestamp(59_990)..Timestamp(60_000), None::<[&str; 0]>).unwrap();
    let mut loader = stream.loader().unwrap();
    loader.append("A", Timestamp(-7), &Tick::of(0)).unwrap();
    loader.close().unwrap();
    assert_eq!((stream.cursor().count().unwrap(), range(stream.cursor())), (59_991, Some((-7, 59_989))));
}

#[test]
fn steps_describe_arrays_and_alternatives() {
    let (_directory, db) = new_database();
    let schema = SchemaBuilder::new().with::<Package>().finish();
    let stream = db.create_stream("s", schema, small_files()).unwrap();
    let mut loader = stream.loader().unwrap();
    for number in 0..3_000 {
        let symbol = ["A", "B"][(mix(number) % 2) as usize];
        loader.append(symbol, Timestamp(number as i64), &package(number)).unwrap();
        if number == 2_000 {
            loader.flush().unwrap();
            stream.seal().unwrap();
        }
    }
    loader.flush().unwrap();
    let paths = ["entries.Trade.price", "entries[].Trade.id", "venue?", "entries"];
    let mut cursor = stream.columns("Package", paths).open().unwrap();
    let (mut rows, mut prices) = (0, 0.0);
    while let Some(chunk) = cursor.next().unwrap() {
        let ids = ids_of(&chunk);
        let Values::F64s(found) = chunk.column(0).values() else { panic!() };
        prices += found.iter().sum::<f64>();
        let (Values::Ints(venues), Values::Ints(counts)) =
            (chunk.column(2).values(), chunk.column(3).values())
        else {
            panic!()
        };
        for (row, time) in chunk.times().iter().enumerate() {
            let package = package(*time as u64);
            let trades = package.entries.iter().filter_map(|entry| match entry {
                Entry::Trade(trade) => Some(trade.id.clone()),
                Entry::Level(_) => None,
            });
            assert_eq!(ids[row], trades.collect::<Vec<_>>());
            assert_eq!(
                (venues[row] == 1, counts[row] as usize),
                (package.venue.is_some(), package.entries.len())
            );
        }
        rows += chunk.len();
    }
    let of = |number| package(number).entries.into_iter().map(price_of).sum::<f64>();
    assert_eq!((rows, prices), (3_000, (0..3_000).map(of).sum()));
}

fn price_of(entry: Entry) -> f64 {
    match entry {
        Entry::Trade(trade) => trade.price,
        Entry::Level(_) => 0.0,
    }
}

#[test]
fn what_is_not_there_is_refused_by_name() {
    let (_directory, db) = new_database();
    let stream = db.create_stream("s", schema(), small_files()).unwrap();
    let unknown = stream.columns("Tick", ["nummer"]).open();
    assert_error(
        unknown,
        |error| matches!(error, Error::NotFound(NotFound::Column { .. })),
        "there is number, check, note",
    );
    let other = stream.columns("Trade", ["price"]).open();
    assert_error(
        other,
        |error| matches!(error, Error::Invalid(Invalid::Type { .. })),
        "no such message type",
    );
    let reversed = stream.cursor().reverse().columns("Tick", ["number"]).open();
    assert_error(reversed, |error| matches!(error, Error::Invalid(Invalid::Cursor { .. })), "time order");
    let limited = stream.columns("Tick", ["number"]).limit(1).open();
    assert_error(limited, |error| matches!(error, Error::Invalid(Invalid::Cursor { .. })), "time order");
    assert!(stream.columns("Tick", ["number"]).open().unwrap().next().unwrap().is_none());
}

#[test]
fn each_row_is_read_once_while_files_are_replaced() {
    for opened in 0..5 {
        let (_directory, db) = new_database_without_maintenance();
        let stream = db.create_stream("s", schema(), small_files()).unwrap();
        // Overlapping parts of some blocks, and a log.
        for part in 0..5u64 {
            let mut loader = stream.loader().unwrap();
            for i in 0..400 {
                let number = part * 400 + i;
                let time = Timestamp((i * 3 + part) as i64);
                loader.append(["A", "B"][(number % 2) as usize], time, &Tick::of(number)).unwrap();
            }
            loader.close().unwrap();
            if part < 3 {
                stream.seal().unwrap();
            }
        }
        let mut cursor = stream.columns("Tick", ["number"]).with_sequences().open().unwrap();
        let mut numbers = Vec::new();
        let (mut chunks, mut last) = (0, i64::MIN);
        while let Some(chunk) = cursor.next().unwrap() {
            let first = *chunk.times().iter().min().unwrap();
            assert!(first >= last || chunks > opened, "chunks by their first times");
            last = first;
            let Values::Ints(found) = chunk.column(0).values() else { panic!() };
            assert!(found.iter().zip(chunk.sequences().unwrap()).all(|(n, s)| *n as u64 == *s));
            numbers.extend_from_slice(found);
            if chunks == opened {
                stream.seal().unwrap();
                stream.delete(Timestamp(5_000)..Timestamp(6_000), None::<[&str; 0]>).unwrap();
                append_ticks(&stream, 2_000..2_100);
                stream.seal().unwrap();
            }
            chunks += 1;
        }
        assert!(chunks > opened, "{chunks}");
        numbers.sort_unstable();
        assert_eq!(numbers, (0..2_000).collect::<Vec<_>>(), "sealed after chunk {opened}");
    }
}
