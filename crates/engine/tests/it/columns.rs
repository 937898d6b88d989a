//! Columns hold the same values as messages.

use super::place::new_database;
use crate::support::*;
use tapedb_codec::{Record, SchemaBuilder, Union};
use tapedb_engine::{
    Chunk, Column, ColumnBuilder, CursorBuilder, Error, Invalid, Message, NotFound, Step, Values,
};
use tapedb_schema::Timestamp;

/// A message, or a row of a chunk: stream, space, time, sequence, symbol, and the fields as text.
type Row = (String, u32, i64, u64, String, Vec<String>);

const FIELDS: [(&str, &[&str]); 2] =
    [("Tick", &["number", "check", "note"]), ("Quote", &["ask", "number", "bid"])];

/// Columns of a record type against messages, in both orders.
pub fn check(record: &str, builder: impl Fn() -> CursorBuilder) {
    let fields = FIELDS.iter().find(|(name, _)| *name == record).unwrap().1;
    let mut expected = rows_of_cursor(builder().types([record]), fields_of);
    let columns = || builder().columns(record, fields.iter().copied()).with_sequences();
    assert_eq!(rows_of_columns(columns().in_time_order()), expected);
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
    for run in chunk.symbols() {
        let range = start..run.end as usize;
        assert!(!range.is_empty() && chunk.times()[range.clone()].is_sorted());
        start = range.end;
        let symbol = chunk.symbol(run.symbol).to_string();
        rows.extend(range.map(|row| {
            let fields = columns.iter().map(|column| column[row].clone()).collect();
            let stream = chunk.stream_name().to_string();
            let (time, sequence) = (chunk.times()[row], chunk.sequences().unwrap()[row]);
            (stream, chunk.space(), time, sequence, symbol.clone(), fields)
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
    let live = stream.cursor().live().columns("Tick", ["number"]).open();
    assert_error(live, |error| matches!(error, Error::Invalid(Invalid::Cursor { .. })), "history");
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
