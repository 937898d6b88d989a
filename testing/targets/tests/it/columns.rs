//! Columns of any schema against the cursor with the same arguments, row by row: out of segments and logs, of late, deleted and converted
//! messages, of those that were appended as columns, in time order and by symbol, in chunks of any size, and in parts.
//!
//! What is expected of a column follows here from the value of each message, so that nothing is compared with itself.

use std::cell::Cell;
use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;
use tapedb_codec::dynamic::{Layouts, RecordValue, TypeLayout, Value};
use tapedb_engine::{
    Access, ColumnBuilder, CursorBuilder, Database, InputColumn, MessageColumns, Position, Step, Stream,
    StreamOptions, Symbols, Values,
};
use tapedb_log::MemoryStorage;
use tapedb_schema::{Scalar, Timestamp};
use tapedb_segment::trials::{Random, each_seed};
use tapedb_segment::{ColumnKind, Plan};
use tapedb_testing::blocks::{self, Message};
use tapedb_testing::schemas::market_layouts;
use tapedb_testing::trouble;
use tapedb_testing::versions::Versions;

const SPACES: u32 = 2;
const STREAMS: [&str; 2] = ["a", "b"];

/// A row: its stream, space and sequence number.
type Place = (String, u32, u64);

/// What a row has besides its place: time, symbol, and the values of each column.
type Row = (i64, String, Vec<Vec<String>>);

/// The values of each column that a message has.
#[derive(Default)]
struct Flat(HashMap<String, Vec<String>>);

impl Flat {
    fn push(&mut self, path: &str, value: impl ToString) {
        self.0.entry(path.to_string()).or_default().push(value.to_string());
    }

    fn record(&mut self, layouts: &Layouts, kinds: &Kinds, record: &RecordValue, path: &str) {
        let dot = if path.is_empty() { "" } else { "." };
        for (field, value) in layouts.records()[usize::from(record.type_id)].fields.iter().zip(&record.fields)
        {
            let path = format!("{path}{dot}{}", field.name);
            self.nullable(layouts, kinds, (&field.ty, field.null_bit.is_some()), value, &path);
        }
    }

    fn nullable(
        &mut self,
        layouts: &Layouts,
        kinds: &Kinds,
        (ty, nullable): (&TypeLayout, bool),
        value: &Value,
        path: &str,
    ) {
        if nullable {
            self.push(&format!("{path}?"), i32::from(*value != Value::Null));
        }
        if *value != Value::Null {
            self.value(layouts, kinds, ty, value, path);
        }
    }

    fn value(&mut self, layouts: &Layouts, kinds: &Kinds, ty: &TypeLayout, value: &Value, path: &str) {
        // What stays whole has no columns below.
        let is_whole = kinds.get(path) == Some(&ColumnKind::Bytes);
        match (ty, value) {
            (TypeLayout::Array(item), Value::Array(items)) if !is_whole => {
                self.push(path, items.len());
                let path = format!("{path}[]");
                let item = (&item.ty, item.nullable);
                items.iter().for_each(|value| self.nullable(layouts, kinds, item, value, &path));
            }
            (TypeLayout::Record(types), Value::Record(record)) if !is_whole => match types[..] {
                [_] => self.record(layouts, kinds, record, path),
                _ => {
                    let tag = types.iter().position(|id| *id == record.type_id).expect("an alternative");
                    self.push(path, tag);
                    let name = &layouts.records()[usize::from(record.type_id)].name;
                    self.record(layouts, kinds, record, &format!("{path}.{name}"));
                }
            },
            (_, Value::Array(_) | Value::Record(_)) => self.push(path, WHOLE),
            (TypeLayout::Scalar(Scalar::Ascii(width)), Value::Ascii(text)) if *width <= 8 => {
                self.push(path, i64::from_le_bytes(*text.as_bytes().first_chunk().expect("16 bytes")));
            }
            (_, scalar) => self.push(path, text_of(scalar)),
        }
    }
}

/// Stands for the bytes of what stays whole.
const WHOLE: &str = "whole";

/// A value as columns have it.
fn text_of(value: &Value) -> String {
    let bytes = |bytes: &[u8]| format!("{bytes:?}");
    match value {
        Value::Bool(value) => i64::from(*value).to_string(),
        Value::Int(value) | Value::Scaled(value, _) => value.to_string(),
        Value::UInt(value) => value.cast_signed().to_string(),
        Value::F32(value) => value.to_bits().to_string(),
        Value::F64(value) => value.to_bits().to_string(),
        Value::Decimal(value) => value.to_bits().cast_signed().to_string(),
        Value::Timestamp(time) => time.0.to_string(),
        Value::TimeOfDay(time) => time.nanos().to_string(),
        Value::Char(value) => u32::from(*value).to_string(),
        Value::Ascii(text) => bytes(text.as_str().as_bytes()),
        Value::Text(text) => bytes(text.as_bytes()),
        Value::Binary(binary) => bytes(binary),
        Value::Enum(ordinal) => ordinal.to_string(),
        Value::Null | Value::Array(_) | Value::Record(_) => unreachable!("no scalar"),
    }
}

type Kinds = HashMap<String, ColumnKind>;

/// A record type, and the columns that are asked for.
struct Asked<'a> {
    layouts: &'a Layouts,
    record: &'a str,
    kinds: Kinds,
    paths: Vec<String>,
    /// Whether each has what stays whole: only how often that is there is compared.
    whole: Vec<bool>,
}

impl<'a> Asked<'a> {
    /// All columns of a record type, or some of them in any order; `None`: two have the same name.
    fn of(layouts: &'a Layouts, record: &'a str, random: &mut Random) -> Option<Self> {
        let plan = Plan::new(layouts.clone());
        let (type_id, _) = layouts.schema().record(record)?;
        let columns = plan.group(type_id)?.columns();
        let kinds: Kinds = columns.iter().map(|column| (column.path.clone(), column.kind)).collect();
        if kinds.len() < columns.len() {
            return None;
        }
        let mut paths: Vec<String> = columns.iter().map(|column| column.path.clone()).collect();
        if random.below(2) == 0 {
            let count = random.below(paths.len() + 1);
            for at in 0..count {
                let other = at + random.below(paths.len() - at);
                paths.swap(at, other);
            }
            paths.truncate(count);
        }
        // Of a text, any rule allows the empty one.
        let is_whole = |path: &String| {
            let rule = plan.group(type_id)?.rule(plan.group(type_id)?.column(path)?)?;
            Some(kinds[path] == ColumnKind::Bytes && !rule.holds(Values::Bytes(&[0], &[])))
        };
        let whole = paths.iter().map(|path| is_whole(path).expect("one of its columns")).collect();
        Some(Self { layouts, record, kinds, paths, whole })
    }

    /// The rows of the cursor, in its order, and how many messages it could not read.
    fn of_cursor(&self, builder: CursorBuilder) -> (Vec<(Place, Row)>, usize) {
        let mut cursor = builder.types([self.record]).open().unwrap();
        let (mut rows, mut errors) = (Vec::new(), 0);
        loop {
            let message = match cursor.next() {
                Ok(Some(message)) => message,
                Ok(None) => return (rows, errors),
                Err(_) => {
                    errors += 1;
                    continue;
                }
            };
            let record = self.layouts.decode(message.type_id(), message.body()).unwrap();
            let mut flat = Flat::default();
            flat.record(self.layouts, &self.kinds, &record, "");
            let values = self.paths.iter().map(|path| flat.0.remove(path).unwrap_or_default()).collect();
            let place = (message.stream_name().to_string(), message.space(), message.sequence());
            rows.push((place, (message.time().0, message.symbol().to_string(), values)));
        }
    }

    fn columns(&self, builder: CursorBuilder) -> ColumnBuilder {
        builder.columns(self.record, self.paths.clone()).with_sequences()
    }

    /// The same of columns.
    fn of_columns(&self, builder: ColumnBuilder) -> (Vec<(Place, Row)>, usize) {
        let mut cursor = builder.open().unwrap();
        let (mut rows, mut errors) = (Vec::new(), 0);
        loop {
            match cursor.next() {
                Ok(Some(chunk)) => self.rows_of(&chunk, &mut rows),
                Ok(None) => return (rows, errors),
                Err(_) => errors += 1,
            }
        }
    }

    fn rows_of(&self, chunk: &tapedb_engine::Chunk<'_>, out: &mut Vec<(Place, Row)>) {
        let count = chunk.len();
        let columns: Vec<Vec<Vec<String>>> = (0..self.paths.len())
            .map(|index| {
                let column = chunk.column(index);
                let texts = texts(column.values(), self.whole[index]);
                by_row(column.steps(), texts, count)
            })
            .collect();
        let mut symbols = Vec::new();
        for run in chunk.symbols() {
            symbols.resize(run.end as usize, chunk.symbol(run.symbol));
        }
        let mut spaces = Vec::new();
        for run in chunk.spaces() {
            spaces.resize(run.end as usize, (run.stream, run.space));
        }
        assert!(count > 0 && symbols.len() == count && spaces.len() == count && chunk.times().len() == count);
        let sequences = chunk.sequences().unwrap();
        for row in 0..count {
            let place = (spaces[row].0.to_string(), spaces[row].1, sequences[row]);
            let values = columns.iter().map(|column| column[row].clone()).collect();
            out.push((place, (chunk.times()[row], symbols[row].to_string(), values)));
        }
    }
}

fn texts(values: Values<'_>, is_whole: bool) -> Vec<String> {
    match values {
        _ if is_whole => vec![WHOLE.into(); values.len()],
        Values::Ints(values) => values.iter().map(i64::to_string).collect(),
        Values::F64s(values) => values.iter().map(|value| value.to_bits().to_string()).collect(),
        Values::F32s(values) => values.iter().map(|value| value.to_bits().to_string()).collect(),
        Values::Bytes(ends, bytes) => {
            let starts = std::iter::once(&0).chain(ends);
            starts
                .zip(ends)
                .map(|(start, end)| format!("{:?}", &bytes[*start as usize..*end as usize]))
                .collect()
        }
    }
}

/// The values of each row.
fn by_row<'a>(steps: impl Iterator<Item = Step<'a>>, texts: Vec<String>, rows: usize) -> Vec<Vec<String>> {
    let mut counts = vec![1usize; rows];
    for step in steps {
        let (marks, count): (&[i64], Box<dyn Fn(i64) -> usize>) = match step {
            Step::Present(marks) => (marks, Box::new(|mark| usize::from(mark == 1))),
            Step::Items(marks) => (marks, Box::new(|mark| mark as usize)),
            Step::Is { tag, tags } => (tags, Box::new(move |mark| usize::from(mark == i64::from(tag)))),
        };
        let mut marks = marks.iter();
        for own in &mut counts {
            *own = marks.by_ref().take(*own).map(|mark| count(*mark)).sum();
        }
        assert!(marks.next().is_none(), "a mark for each value");
    }
    let mut texts = texts.into_iter();
    let values = counts.iter().map(|count| texts.by_ref().take(*count).collect());
    let values: Vec<Vec<String>> = values.collect();
    assert!(
        texts.next().is_none() && values.iter().zip(&counts).all(|(values, count)| values.len() == *count)
    );
    values
}

/// Streams on their way to what they hold.
struct Maker<'a> {
    db: &'a Database,
    random: &'a mut Random,
    symbols: Vec<String>,
    now: i64,
}

impl Maker<'_> {
    /// Appends messages in parts, some of them late, and seals, deletes and merges between them.
    fn fill(&mut self, streams: &[Stream], messages: &[Message]) {
        let mut rest = messages;
        while !rest.is_empty() {
            let (part, behind) = rest.split_at(1 + self.random.below(rest.len()));
            rest = behind;
            let stream = &streams[self.random.below(streams.len())];
            let mut loader = stream.loader_in(self.random.below(SPACES as usize) as u32).unwrap();
            loader.set_batch_bytes(self.random.pick(&[1 << 10, 8 << 10, 1 << 20]));
            let late_in = self.random.pick(&[3, 50, usize::MAX]);
            for (header, body) in part {
                self.now += self.random.below(3) as i64;
                let late = if self.random.below(late_in) == 0 { self.random.below(200) as i64 } else { 0 };
                let symbol = &self.symbols[header.symbol as usize % self.symbols.len()];
                loader.append_body(symbol, Timestamp(self.now - late), header.type_id, body).unwrap();
            }
            loader.close().unwrap();
            if self.random.below(3) == 0 {
                stream.seal().unwrap();
            }
            if self.random.below(4) == 0 {
                let from = self.random.below(self.now as usize + 1) as i64;
                let to = from + self.random.below(60) as i64;
                let only = (self.random.below(2) == 0).then(|| [self.symbol()]);
                stream.delete(Timestamp(from)..Timestamp(to), only).unwrap();
            }
        }
    }

    fn symbol(&mut self) -> String {
        self.symbols[self.random.below(self.symbols.len())].clone()
    }

    /// Cursors of all kinds, each with the same arguments every time.
    fn builders(&mut self) -> Vec<Builder<'_>> {
        let now = self.now as usize + 1;
        let (from, to) = (self.random.below(now) as i64, self.random.below(now) as i64);
        let some: Vec<String> = (0..1 + self.random.below(3)).map(|_| self.symbol()).collect();
        let last = self.random.below(300) as u64;
        let db = self.db;
        let both = move || db.cursor(STREAMS).unwrap();
        let within = move || both().from(Timestamp(from.min(to))).to(Timestamp(from.max(to)));
        let (one, two, three) = (some.clone(), some.clone(), some);
        vec![
            (Box::new(both), true),
            (Box::new(move || db.stream("a").unwrap().cursor()), true),
            (Box::new(within), true),
            (Box::new(move || both().symbols(one.clone())), true),
            (Box::new(move || within().symbols(two.clone())), true),
            (Box::new(move || both().reverse()), false),
            (Box::new(move || within().symbols(three.clone()).reverse()), false),
            (Box::new(move || both().last(last)), false),
        ]
    }
}

fn same(found: &[(Place, Row)], expected: &[(Place, Row)], paths: &[String], what: &str) {
    let places = |rows: &[(Place, Row)]| rows.iter().map(|(place, _)| place.clone()).collect::<Vec<_>>();
    assert_eq!(places(found), places(expected), "{what}: rows");
    for ((place, found), (_, expected)) in found.iter().zip(expected) {
        assert_eq!((found.0, &found.1), (expected.0, &expected.1), "{what}: {place:?}");
        for ((path, found), expected) in paths.iter().zip(&found.2).zip(&expected.2) {
            assert_eq!(found, expected, "{what}: {path} of {place:?}");
        }
    }
}

/// Makes cursors alike, and whether columns by symbol are compared too.
type Builder<'a> = (Box<dyn Fn() -> CursorBuilder + 'a>, bool);

/// Compares columns with the cursor, as both come by any of the builders.
fn compare(asked: &Asked<'_>, random: &mut Random, builders: &[Builder<'_>]) {
    for (index, (builder, by_symbol)) in builders.iter().enumerate() {
        let what = format!("{} of {:?}, builder {index}", asked.record, asked.paths);
        let (mut expected, errors) = asked.of_cursor(builder());
        let check = |(found, found_errors): (Vec<(Place, Row)>, usize), range: Range<usize>, how: &str| {
            same(&found, &expected[range.clone()], &asked.paths, &format!("{what}, {how}"));
            assert!(range != (0..expected.len()) || found_errors == errors, "{what}, {how}: errors");
        };
        let all = 0..expected.len();
        let columns = || asked.columns(builder());
        check(asked.of_columns(columns().in_time_order()), all.clone(), "in time order");
        let rows = 1 + random.below(expected.len().max(1) + 1);
        check(asked.of_columns(columns().in_time_order().chunk_rows(rows)), all.clone(), "in small chunks");
        let limit = random.below(expected.len() + 2);
        let first = asked.of_columns(columns().in_time_order().limit(limit as u64));
        check((first.0, errors), 0..limit.min(expected.len()), "the first ones");
        if errors == 0 {
            assert_eq!(columns().in_time_order().count().unwrap(), expected.len() as u64, "{what}");
            let mut cursor = columns().in_time_order().chunk_rows(rows).open().unwrap();
            let mut begun = Vec::new();
            for _ in 0..random.below(3) {
                if let Some(chunk) = cursor.next().unwrap() {
                    asked.rows_of(&chunk, &mut begun);
                }
            }
            let position: Position = cursor.position().unwrap().to_string().parse().unwrap();
            let rest = begun.len()..expected.len();
            check((begun, 0), 0..rest.start, "to a position");
            if index + 1 < builders.len() {
                let resumed = asked.columns(builder().resume(&position)).in_time_order();
                check(asked.of_columns(resumed), rest, "from a position");
            }
        }
        if *by_symbol {
            let (mut found, found_errors) = asked.of_columns(columns());
            found.sort_by(|a, b| a.0.cmp(&b.0));
            expected.sort_by(|a, b| a.0.cmp(&b.0));
            same(&found, &expected, &asked.paths, &format!("{what}, by symbol"));
            assert_eq!(found_errors, errors, "{what}, by symbol");
            if errors == 0 {
                assert_eq!(columns().count().unwrap(), expected.len() as u64, "{what}, counted");
            }
        }
    }
}

fn database() -> Database {
    let storage = std::sync::Arc::new(MemoryStorage::new());
    Database::open_on(storage, "db", Access::WriteWithoutMaintenance).unwrap()
}

fn symbols(random: &mut Random) -> Vec<String> {
    (0..random.pick(&[1, 2, 5, 40, 400])).map(|number| format!("S{number}")).collect()
}

/// Some streams are sealed for the cold tier.
fn options(random: &mut Random) -> StreamOptions {
    let file_bytes_max = random.pick(&[2 << 10, 64 << 10, 64 << 20]);
    let cold_after = random.pick(&[None, None, Some(Duration::ZERO)]);
    StreamOptions { spaces: SPACES, file_bytes_max, cold_after, ..StreamOptions::default() }
}

fn check_all(db: &Database, layouts: &Layouts, random: &mut Random, symbols: Vec<String>, now: i64) {
    let messages = layouts.records().iter().filter(|record| record.message).map(|record| record.name.clone());
    let messages: Vec<String> = messages.collect();
    for record in messages.iter().filter(|_| messages.len() < 3 || random.below(3) == 0).collect::<Vec<_>>() {
        let Some(asked) = Asked::of(layouts, record, random) else { continue };
        let mut maker = Maker { db, random, symbols: symbols.clone(), now };
        let builders = maker.builders();
        let mut own = Random::new(now as u64);
        compare(&asked, &mut own, &builders);
    }
}

#[test]
fn columns_of_trouble_are_those_of_messages() {
    each_seed("columns of messages that look for trouble", 25, |seed| {
        let mut random = Random::new(seed);
        let (layouts, messages) = trouble::messages(&mut random);
        let (db, options) = (database(), options(&mut random));
        let streams = STREAMS.map(|name| db.create_stream(name, layouts.schema().clone(), options).unwrap());
        let symbols = symbols(&mut random);
        let mut maker = Maker { db: &db, random: &mut random, symbols: symbols.clone(), now: 500 };
        maker.fill(&streams, &messages[..messages.len().min(3_000)]);
        let now = maker.now;
        check_all(&db, layouts, &mut random, symbols, now);
    });
}

/// Messages of one version and of the next one, in the same segments' neighbourhood.
#[test]
fn columns_of_any_schema_and_its_next_version_are_those_of_messages() {
    let changed = Cell::new(0);
    each_seed("columns of any schema", 25, |seed| {
        let mut random = Random::new(seed);
        let versions = Versions::new(seed);
        let (db, options) = (database(), options(&mut random));
        let create = |name| db.create_stream(name, versions.written.schema().clone(), options).unwrap();
        let streams = STREAMS.map(create);
        let symbols = symbols(&mut random);
        let mut maker = Maker { db: &db, random: &mut random, symbols: symbols.clone(), now: 500 };
        let is_message = |layouts: &Layouts| {
            let records = layouts.records().iter().map(|record| record.message).collect::<Vec<_>>();
            move |message: &Message| records[usize::from(message.0.type_id)]
        };
        let of = |layouts: &Layouts, seed: u64| {
            let mut messages = blocks::messages(layouts, seed, 300);
            messages.retain(is_message(layouts));
            messages
        };
        maker.fill(&streams, &of(&versions.written, seed));
        let new = STREAMS.map(|name| db.change_schema(name, versions.read.schema().clone()));
        let (layouts, streams) = match new {
            [Ok(a), Ok(b)] => (&versions.read, [a, b]),
            _ => (&versions.written, STREAMS.map(|name| db.stream(name).unwrap())),
        };
        if streams[0].schema() != layouts.schema() {
            return;
        }
        changed.set(changed.get() + usize::from(std::ptr::eq(layouts, &versions.read)));
        maker.fill(&streams, &of(layouts, seed + 1));
        let now = maker.now;
        check_all(&db, layouts, &mut random, symbols, now);
    });
    assert!(changed.get() > 0 || std::env::var_os("TAPEDB_TRIAL_SEED").is_some(), "no schema was changed");
}

#[test]
fn columns_of_market_data_are_those_of_messages() {
    each_seed("columns of market data", 4, |seed| {
        let mut random = Random::new(seed);
        let (layouts, db, options) = (market_layouts(), database(), options(&mut random));
        let streams = STREAMS.map(|name| db.create_stream(name, layouts.schema().clone(), options).unwrap());
        let symbols = symbols(&mut random);
        let mut messages = blocks::messages(layouts, seed, 1_000);
        messages.retain(|message| layouts.records()[usize::from(message.0.type_id)].message);
        let mut maker = Maker { db: &db, random: &mut random, symbols: symbols.clone(), now: 500 };
        maker.fill(&streams, &messages);
        let now = maker.now;
        check_all(&db, layouts, &mut random, symbols, now);
    });
}

/// Blocks of as many rows as a block has, of many symbols, whose record type is cut, and chunks that are full by rows.
#[test]
fn columns_of_full_blocks_are_those_of_messages() {
    const ROWS: usize = 150_000;
    let (mut random, db) = (Random::new(3), database());
    let schema = "message M { n: i64, d: decimal64, z: u8, f: f64?, t: string? } message N { x: i32 }";
    let options = StreamOptions { spaces: SPACES, ..StreamOptions::default() };
    let streams = STREAMS.map(|name| db.create_stream(name, schema.parse().unwrap(), options).unwrap());
    let symbols: Vec<String> = (0..1_500).map(|number| format!("S{number}")).collect();
    let names: Vec<&str> = symbols.iter().map(String::as_str).collect();
    let numbers: Vec<i64> = (0..ROWS as i64).map(|row| row * row % 1_000_003).collect();
    let keys: Vec<u32> = (0..ROWS).map(|row| (row * 7 % symbols.len()) as u32).collect();
    let decimals: Vec<_> = numbers
        .iter()
        .map(|number| tapedb_schema::Decimal64::from_parts(*number, -(number % 5) as i32).unwrap())
        .collect();
    let small: Vec<u8> = numbers.iter().map(|number| *number as u8).collect();
    let floats: Vec<f64> = numbers.iter().map(|number| *number as f64 / 8.0).collect();
    let there: Vec<bool> = numbers.iter().map(|number| number % 3 != 0).collect();
    let texts: Vec<&str> = numbers.iter().map(|number| ["", "x", "longer"][(number % 3) as usize]).collect();
    let times: Vec<i64> = (0..ROWS as i64).map(|row| row / 2).collect();
    for (at, stream) in streams.iter().enumerate() {
        let mut loader = stream.loader_in(at as u32).unwrap();
        let rows = MessageColumns::new("M", &times, Symbols::Dictionary { names: &names, keys: &keys })
            .field("n", &numbers)
            .field("d", &decimals)
            .field("z", &small)
            .column(InputColumn::nullable("f", &floats, &there))
            .column(InputColumn::nullable("t", &texts, &there));
        loader.append_columns(&rows).unwrap();
        loader
            .append_columns(
                &MessageColumns::new("N", &times, Symbols::One("S3")).field("x", &vec![1i32; ROWS][..]),
            )
            .unwrap();
        loader.close().unwrap();
        stream.seal().unwrap();
    }
    let layouts = streams[0].layouts();
    for record in ["M", "N"] {
        let asked = Asked::of(layouts, record, &mut random).unwrap();
        let builders: Vec<Builder<'_>> = vec![
            (Box::new(|| db.cursor(STREAMS).unwrap()), true),
            (Box::new(|| db.cursor(STREAMS).unwrap().symbols(["S3", "S77", "S1400"])), true),
            (
                Box::new(|| db.stream("b").unwrap().cursor().from(Timestamp(40_000)).to(Timestamp(40_100))),
                true,
            ),
            (Box::new(|| db.cursor(STREAMS).unwrap().last(10)), false),
        ];
        compare(&asked, &mut random, &builders);
    }
}
