//! Columns of a program that is wrong or means harm: what lies is refused as a whole, and every value that is one comes back, whichever
//! way it is written and read.

use super::place::new_database;
use crate::support::*;
use std::time::Duration;
use tapedb_codec::{Record, SchemaBuilder, encode};
use tapedb_engine::{
    Column, CursorBuilder, Error, FieldValues, InputColumn, Loader, MessageColumns, Rejected, Step, Stream,
    StreamOptions, Symbols, Validity, Values,
};
use tapedb_schema::{Ascii, Decimal64, Timestamp};

#[derive(Record, Debug, Default, Clone, PartialEq)]
#[record(message)]
struct Wild {
    n: i64,
    u: Option<u64>,
    f: f64,
    g: Option<f32>,
    d: Decimal64,
    e: Option<Decimal64>,
    s: String,
    a: Option<Ascii<8>>,
    z: Timestamp,
    b: bool,
}

const FIELDS: [&str; 10] = ["n", "u", "f", "g", "d", "e", "s", "a", "z", "b"];

/// A value with many others that are as far from it as can be.
fn wild(number: u64) -> Wild {
    let random = mix(number ^ 0x77_1d);
    let pick = |shift: u32, count: usize| (random >> shift) as usize % count;
    let ints = [i64::MIN, -1, 0, 1, i64::MAX, i64::MIN + 1, number.cast_signed(), 1 << 31];
    let floats = [
        0,
        1 << 63,
        1,
        0x7ff0 << 48,
        0xfff0 << 48,
        0x7ff0_0000_0000_0001,
        0xffff_dead_beef_0001,
        !0 >> 1,
        1.5f64.to_bits(),
    ];
    let singles = [0, 1 << 31, 0x7f80_0001, 0xffc0_1234, 1, u32::MAX];
    // Neither the cohort of a number nor the payload of a NaN is lost; coefficients that are too large are zero.
    let decimals = [
        0,
        1 << 63,
        1,
        0x7800_0000_0000_0000,
        0xf800_0000_0000_0000,
        0x7c00_0000_0000_0000,
        0x7e00_0000_0000_1234,
        0x6c73_86f2_6fc1_0000,
        0x6bff_ffff_ffff_ffff,
        !0,
        (398 << 53) | 100,
        (397 << 53) | 1_000,
    ];
    let texts = ["", "\0", "a\0b", "é€😀", "x", "\u{10ffff}"];
    Wild {
        n: ints[pick(0, ints.len())],
        u: (pick(3, 3) > 0).then(|| ints[pick(5, ints.len())].cast_unsigned()),
        f: f64::from_bits(floats[pick(8, floats.len())]),
        g: (pick(12, 4) > 0).then(|| f32::from_bits(singles[pick(14, singles.len())])),
        d: Decimal64::from_bits(decimals[pick(17, decimals.len())]),
        e: (pick(21, 2) > 0).then(|| Decimal64::from_bits(decimals[pick(22, decimals.len())])),
        s: texts[pick(26, texts.len())].repeat(pick(30, 4)),
        a: (pick(32, 5) > 0).then(|| ["", "A", "ABCDEFGH"][pick(35, 3)].parse().unwrap()),
        z: Timestamp(ints[pick(38, ints.len())]),
        b: pick(41, 2) > 0,
    }
}

/// Symbols that are allowed.
const SYMBOLS: [&str; 5] = ["A", "é", " ", "a b\tc", "x\u{301}"];

fn time_of(number: u64) -> i64 {
    let random = mix(number);
    match random % 16 {
        0 => i64::MIN,
        1 => i64::MAX,
        2 => 0,
        _ => (random >> 20).cast_signed() - (1 << 43),
    }
}

/// A message: time, symbol, and its body or fields.
type Row<T> = (i64, String, T);

fn expected(numbers: std::ops::Range<u64>) -> Vec<Row<Vec<u8>>> {
    let row = |number: u64| {
        let mut body = Vec::new();
        encode(&wild(number), &mut body);
        (time_of(number), symbol_of(number).to_string(), body)
    };
    numbers.map(row).collect()
}

fn symbol_of(number: u64) -> &'static str {
    SYMBOLS[(mix(number) >> 9) as usize % SYMBOLS.len()]
}

fn append(loader: &mut Loader, numbers: std::ops::Range<u64>) {
    let rows: Vec<Wild> = numbers.clone().map(wild).collect();
    let times: Vec<i64> = numbers.clone().map(time_of).collect();
    let symbols: Vec<&str> = numbers.map(symbol_of).collect();
    // What a null is not looked at.
    let u: Vec<u64> = rows.iter().map(|row| row.u.unwrap_or(!0)).collect();
    let g: Vec<f32> = rows.iter().map(|row| row.g.unwrap_or(f32::NAN)).collect();
    let e: Vec<Decimal64> = rows.iter().map(|row| row.e.unwrap_or(Decimal64::from_bits(!0))).collect();
    let a: Vec<String> =
        rows.iter().map(|row| row.a.map_or("ünicode, and too long".into(), |a| a.to_string())).collect();
    let known = |is: &dyn Fn(&Wild) -> bool| -> Vec<bool> { rows.iter().map(is).collect() };
    let (u_known, g_known) = (known(&|row| row.u.is_some()), known(&|row| row.g.is_some()));
    let (e_known, a_known) = (known(&|row| row.e.is_some()), known(&|row| row.a.is_some()));
    // As bits, from the middle of a byte, with ones around them.
    let mut bits = vec![!0u8; (rows.len() + 3) / 8 + 2];
    for (row, known) in e_known.iter().enumerate() {
        if !known {
            bits[(row + 3) / 8] &= !(1 << ((row + 3) % 8));
        }
    }
    macro_rules! all {
        ($field:ident) => {
            rows.iter().map(|row| row.$field.clone()).collect::<Vec<_>>()
        };
    }
    let (n, f, d, s, z, b) = (all!(n), all!(f), all!(d), all!(s), all!(z), all!(b));
    let columns = MessageColumns::of::<Wild>(&times, Symbols::Names(&symbols))
        .nullable("a", &a, &a_known)
        .field("n", &n)
        .nullable("u", &u, &u_known)
        .field("f", &f)
        .nullable("g", &g, &g_known)
        .field("d", &d)
        .nullable("e", &e, Validity::Bits { bytes: &bits, offset: 3 })
        .field("s", &s)
        .field("z", &z)
        .field("b", &b);
    assert_eq!(loader.append_columns(&columns).unwrap(), rows.len());
}

fn by_rows(builder: CursorBuilder) -> Vec<Row<Vec<u8>>> {
    let (mut cursor, mut found) = (builder.open().unwrap(), Vec::new());
    while let Some(message) = cursor.next().unwrap() {
        found.push((message.time().0, message.symbol().to_string(), message.body().to_vec()));
    }
    found
}

/// The bits of each row's value; `None` where it is null.
fn cells(column: &Column<'_>, rows: usize) -> Vec<Option<Vec<u8>>> {
    let mut values: Vec<Vec<u8>> = match column.values() {
        Values::Ints(values) => values.iter().map(|value| value.to_le_bytes().to_vec()).collect(),
        Values::F64s(values) => values.iter().map(|value| value.to_bits().to_le_bytes().to_vec()).collect(),
        Values::F32s(values) => values.iter().map(|value| value.to_bits().to_le_bytes().to_vec()).collect(),
        Values::Bytes(ends, bytes) => {
            let starts = std::iter::once(&0).chain(ends);
            starts.zip(ends).map(|(start, end)| bytes[*start as usize..*end as usize].to_vec()).collect()
        }
    };
    match column.steps().next() {
        Some(Step::Present(present)) => {
            let mut left = values.drain(..);
            let all = present.iter().map(|present| (*present == 1).then(|| left.next().unwrap()));
            let all: Vec<_> = all.collect();
            assert!(left.next().is_none());
            all
        }
        _ => {
            assert_eq!(values.len(), rows);
            values.into_iter().map(Some).collect()
        }
    }
}

type Cells = Vec<Option<Vec<u8>>>;

fn by_columns(builder: CursorBuilder, in_time_order: bool) -> Vec<Row<Cells>> {
    let builder = builder.columns("Wild", FIELDS);
    let mut cursor = if in_time_order { builder.in_time_order().open() } else { builder.open() }.unwrap();
    let mut found = Vec::new();
    while let Some(chunk) = cursor.next().unwrap() {
        let columns: Vec<Cells> =
            (0..FIELDS.len()).map(|index| cells(&chunk.column(index), chunk.len())).collect();
        let mut start = 0;
        for run in chunk.symbols() {
            let symbol = chunk.symbol(run.symbol).to_string();
            for row in start..run.end as usize {
                let fields = columns.iter().map(|column| column[row].clone()).collect();
                found.push((chunk.times()[row], symbol.clone(), fields));
            }
            start = run.end as usize;
        }
        assert_eq!(start, chunk.len());
    }
    found
}

/// The fields of bodies as columns have them.
fn fields_of(rows: &[Row<Vec<u8>>]) -> Vec<Row<Cells>> {
    let fields = |body: &Vec<u8>| {
        let wild: Wild = tapedb_codec::decode(body).unwrap();
        let word = |bits: u64| Some(bits.to_le_bytes().to_vec());
        let ascii = |text: Ascii<8>| {
            let mut bytes = [0; 8];
            bytes[..text.as_str().len()].copy_from_slice(text.as_str().as_bytes());
            bytes.to_vec()
        };
        vec![
            word(wild.n.cast_unsigned()),
            wild.u.and_then(word),
            word(wild.f.to_bits()),
            wild.g.map(|g| g.to_bits().to_le_bytes().to_vec()),
            word(wild.d.to_bits()),
            wild.e.and_then(|e| word(e.to_bits())),
            Some(wild.s.as_bytes().to_vec()),
            wild.a.map(ascii),
            word(wild.z.0.cast_unsigned()),
            word(u64::from(wild.b)),
        ]
    };
    rows.iter().map(|(time, symbol, body)| (*time, symbol.clone(), fields(body))).collect()
}

fn check(stream: &Stream, in_order_of_arrival: &[Row<Vec<u8>>]) {
    let mut rows = in_order_of_arrival.to_vec();
    rows.sort_by_key(|(time, ..)| *time);
    // One by one: what differs is shown, and not all of it.
    let same = |found: Vec<Row<Vec<u8>>>, what: &str| {
        assert_eq!(found.len(), rows.len(), "{what}");
        found.iter().zip(&rows).enumerate().for_each(|(at, (a, b))| assert_eq!(a, b, "{what}, row {at}"));
    };
    same(by_rows(stream.cursor()), "rows");
    let mut fields = fields_of(&rows);
    let found = by_columns(stream.cursor(), true);
    assert_eq!(found.len(), fields.len());
    found
        .iter()
        .zip(&fields)
        .enumerate()
        .for_each(|(at, (a, b))| assert_eq!(a, b, "columns in time order, row {at}"));
    let mut found = by_columns(stream.cursor(), false);
    found.sort();
    fields.sort();
    assert!(found == fields, "columns by symbol");
}

/// At every edge of strips, of batches and of blocks.
#[test]
fn wild_values_come_back_whichever_way_they_are_read() {
    let (_directory, db) = new_database();
    let counts = [0u64, 1, 127, 128, 129, 255, 256, 257, 16_385];
    for (index, count) in counts.into_iter().enumerate() {
        let schema = SchemaBuilder::new().with::<Wild>().finish();
        let stream = db.create_stream(&format!("s{index}"), schema, StreamOptions::default()).unwrap();
        let mut live = stream.cursor().live().open().unwrap();
        let mut loader = stream.loader().unwrap();
        append(&mut loader, 0..count);
        assert_eq!(loader.flush().unwrap(), count);
        let mut all = expected(0..count);
        for row in &all {
            let message = live.next_within(Duration::from_secs(60)).unwrap().expect("all arrive");
            assert_eq!((message.time().0, message.symbol(), message.body()), (row.0, &row.1[..], &row.2[..]));
        }
        check(&stream, &all);
        stream.seal().unwrap();
        check(&stream, &all);
        // What comes now is late, and lies among what is sealed.
        append(&mut loader, count..count + count / 2);
        loader.flush().unwrap();
        all.extend(expected(count..count + count / 2));
        check(&stream, &all);
        stream.seal().unwrap();
        check(&stream, &all);
    }
}

/// More rows than a column of a block has, and a batch.
#[test]
fn as_many_rows_as_a_block_has_come_back() {
    let (_directory, db) = new_database();
    for count in [65_535u64, 65_536, 65_537] {
        let schema = "message M { n: i64, m: u64? }".parse().unwrap();
        let stream = db.create_stream(&format!("s{count}"), schema, StreamOptions::default()).unwrap();
        let mut loader = stream.loader().unwrap();
        let times: Vec<i64> = (0..count).map(|number| number.cast_signed() / 3).collect();
        let wide: Vec<i64> = (0..count).map(|number| mix(number).cast_signed() >> (number % 60)).collect();
        let words: Vec<u64> = wide.iter().map(|value| value.cast_unsigned()).collect();
        let bits: Vec<u8> = (0..count.div_ceil(8)).map(|number| mix(number) as u8).collect();
        let known = Validity::Bits { bytes: &bits, offset: 0 };
        let columns = MessageColumns::new("M", &times, Symbols::One("A")).field("n", &wide);
        loader.append_columns(&columns.nullable("m", &words, known)).unwrap();
        assert_eq!(loader.flush().unwrap(), count);
        let expected = |row: usize| (bits[row / 8] >> (row % 8) & 1 == 1).then(|| words[row]);
        for _ in 0..2 {
            for in_time_order in [true, false] {
                let builder = stream.cursor().columns("M", ["n", "m"]);
                let builder = if in_time_order { builder.in_time_order() } else { builder };
                let (mut cursor, mut at) = (builder.open().unwrap(), 0);
                while let Some(chunk) = cursor.next().unwrap() {
                    let (n, m) = (cells(&chunk.column(0), chunk.len()), cells(&chunk.column(1), chunk.len()));
                    for (row, (n, m)) in (at..).zip(n.into_iter().zip(m)) {
                        let word = |bits: u64| bits.to_le_bytes().to_vec();
                        assert_eq!((n, m), (Some(word(words[row])), expected(row).map(word)), "row {row}");
                    }
                    assert_eq!(chunk.times(), &times[at..at + chunk.len()]);
                    at += chunk.len();
                }
                assert_eq!(at as u64, count);
            }
            stream.seal().unwrap();
        }
    }
}

/// Each of these is refused for a reason, and with it all that came with it.
#[test]
fn columns_that_lie_are_refused_as_a_whole() {
    const ROWS: usize = 300;
    let (_directory, db) = new_database();
    let schema =
        "enum E { X, Y } record Leg { size: u32, note: string? } record Other { z: f64 } record Empty { }
        message M { n: i64, m: i64?, t: time_of_day, a: ascii(4), s: string, e: E, c: char }
        message P { legs: array<record<Leg>>, either: record<Leg|Other>?, some: array<array<u8>> }
        message Q { none: array<record<Empty>?>, deep: array<array<u8?>> }";
    let stream = db.create_stream("s", schema.parse().unwrap(), StreamOptions::default()).unwrap();
    let mut loader = stream.loader().unwrap();
    let times: Vec<i64> = (0..ROWS as i64).collect();
    let (numbers, texts, ordinals, chars) =
        (vec![1i64; ROWS], vec!["x"; ROWS], vec![0u8; ROWS], vec!['x'; ROWS]);
    let with = |replaced: InputColumn<'_>, loader: &mut Loader| {
        let all = [
            InputColumn::new("n", &numbers),
            InputColumn::new("m", &numbers),
            InputColumn::new("t", &numbers),
            InputColumn::new("a", &texts),
            InputColumn::new("s", &texts),
            InputColumn::new("e", &ordinals),
            InputColumn::new("c", &chars),
        ];
        let columns = MessageColumns::new("M", &times, Symbols::One("A"));
        let columns = all.into_iter().fold(columns, |columns, column| {
            columns.column(if column.name == replaced.name { replaced } else { column })
        });
        loader.append_columns(&columns)
    };
    let refused = |result: Result<usize, Error>, what: &str| match result {
        Err(Error::Rejected(Rejected::Columns { .. })) => {}
        other => panic!("{what}: {other:?}"),
    };
    let (short, long) = (vec![true; ROWS - 1], vec![true; ROWS + 1]);
    let bytes = [0xff; ROWS / 8 + 1];
    for validity in [
        Validity::Bools(&short),
        Validity::Bools(&long),
        Validity::Bools(&[]),
        Validity::Bits { bytes: &bytes[..ROWS / 8], offset: 0 },
        Validity::Bits { bytes: &bytes, offset: 5 },
        Validity::Bits { bytes: &bytes, offset: usize::MAX },
        Validity::Bits { bytes: &bytes, offset: usize::MAX - ROWS },
        Validity::Bits { bytes: &[], offset: 0 },
    ] {
        refused(with(InputColumn::nullable("m", &numbers, validity), &mut loader), &format!("{validity:?}"));
    }
    let mut last_null = vec![true; ROWS];
    last_null[ROWS - 1] = false;
    refused(
        with(InputColumn::nullable("n", &numbers, &last_null), &mut loader),
        "a null of what is never null",
    );
    refused(with(InputColumn::new("n", FieldValues::Nulls(ROWS)), &mut loader), "nulls");
    refused(with(InputColumn::new("m", FieldValues::Nulls(usize::MAX)), &mut loader), "too many nulls");
    for time in [-1, i64::MIN, i64::MAX, 86_400_000_000_000] {
        let mut wrong = numbers.clone();
        wrong[ROWS - 1] = time;
        refused(with(InputColumn::new("t", &wrong), &mut loader), "no time of day");
    }
    for text in ["12345", "é", "a\0", "\0"] {
        let mut wrong = texts.clone();
        wrong[ROWS - 1] = text;
        let result = with(InputColumn::new("a", &wrong), &mut loader);
        refused(result, &format!("{text:?} as ascii(4)"));
    }
    let binary: Vec<&[u8]> = (0..ROWS).map(|row| if row == 7 { &b"\xff"[..] } else { b"x" }).collect();
    refused(with(InputColumn::new("s", &binary), &mut loader), "no UTF-8");
    for key in [1, u32::MAX] {
        let mut keys = vec![0; ROWS];
        keys[ROWS - 1] = key;
        let values = FieldValues::Dictionary { texts: &["x"], keys: &keys };
        refused(with(InputColumn { name: "s", values, validity: None }, &mut loader), "a key of no text");
        let columns = MessageColumns::new("M", &times, Symbols::Dictionary { names: &["A"], keys: &keys });
        refused(loader.append_columns(&columns), "a key of no symbol");
    }
    let mut wrong = ordinals.clone();
    wrong[ROWS - 1] = 2;
    refused(with(InputColumn::new("e", &wrong), &mut loader), "an ordinal of no symbol");
    refused(with(InputColumn::new("e", &texts), &mut loader), "a name of no symbol");
    refused(with(InputColumn::new("c", &numbers), &mut loader), "another type");

    let (sizes, other, nested) = (vec![1u32; ROWS], vec![0.5; ROWS], vec![0u8; ROWS]);
    let even: Vec<u32> = (0..=ROWS as u32).collect();
    let leg = [InputColumn::new("size", &sizes)];
    let shorter = [InputColumn::new("size", &sizes[1..])];
    let z = [InputColumn::new("z", &other)];
    let items = InputColumn::new("", FieldValues::Record(&leg));
    let short_items = InputColumn::new("", FieldValues::Record(&shorter));
    let bytes = InputColumn::new("", &nested);
    let tags: Vec<u8> = (0..ROWS).map(|row| (row % 2) as u8).collect();
    let both: [&[InputColumn<'_>]; 2] = [&leg, &z];
    let one: [&[InputColumn<'_>]; 1] = [&leg];
    let inner = InputColumn::new("", FieldValues::List { offsets: &even, items: &bytes });
    let mut package = |legs: FieldValues<'_>, either: FieldValues<'_>, some: FieldValues<'_>| {
        let columns = MessageColumns::new("P", &times, Symbols::One("A"));
        loader.append_columns(&columns.field("legs", legs).field("either", either).field("some", some))
    };
    let legs = FieldValues::List { offsets: &even, items: &items };
    let either = FieldValues::Union { tags: &tags, alternatives: &both };
    let some = FieldValues::List { offsets: &even, items: &inner };
    let changed = |at: usize, to: u32| {
        let mut offsets = even.clone();
        offsets[at] = to;
        offsets
    };
    for offsets in [
        changed(5, 3),
        changed(5, u32::MAX),
        changed(ROWS, ROWS as u32 + 1),
        changed(ROWS, u32::MAX),
        changed(ROWS, 0),
        changed(0, 2),
        even[1..].to_vec(),
        Vec::new(),
    ] {
        let lists = FieldValues::List { offsets: &offsets, items: &items };
        refused(package(lists, either, some), &format!("offsets {:?} …", &offsets[..offsets.len().min(7)]));
        let inner = InputColumn::new("", FieldValues::List { offsets: &offsets, items: &bytes });
        let lists = FieldValues::List { offsets: &even, items: &inner };
        refused(package(legs, either, lists), "offsets of inner lists");
    }
    let lists = FieldValues::List { offsets: &even, items: &short_items };
    refused(package(lists, either, some), "fewer items than lists have");
    let mut unknown = tags.clone();
    unknown[ROWS - 1] = 2;
    for (tags, alternatives) in
        [(&unknown, &both[..]), (&tags, &one[..]), (&tags, &[]), (&tags[1..].to_vec(), &both)]
    {
        let union = FieldValues::Union { tags, alternatives };
        refused(
            package(legs, union, some),
            &format!("{} tags, {} alternatives", tags.len(), alternatives.len()),
        );
    }
    // The last row is of the second one.
    let shorter_z = [InputColumn::new("z", &other[1..])];
    let uneven: [&[InputColumn<'_>]; 2] = [&leg, &shorter_z];
    let union = FieldValues::Union { tags: &tags, alternatives: &uneven };
    refused(package(legs, union, some), "a member of fewer rows");
    // Items that take no memory of the program: four thousand million of them in a message, in a list or in lists in it, and in all messages.
    let many: Vec<u32> = (0..=ROWS as u32).map(|row| row * 4_000_000).collect();
    let (nothing, zeros) = (vec![0u32; ROWS + 1], vec![0, 1_000]);
    let all = [
        InputColumn::new("", FieldValues::Nulls(usize::MAX)),
        InputColumn::new("", FieldValues::Record(&[])),
    ];
    let inside: Vec<u32> = (0..=1_000).map(|item| item * 4_000_000).collect();
    for items in &all {
        let single = FieldValues::List { offsets: &[0, u32::MAX], items };
        let inner = InputColumn::new("", FieldValues::List { offsets: &inside, items: &all[0] });
        let deep = FieldValues::List { offsets: &zeros, items: &inner };
        let none = |rows: usize| FieldValues::List { offsets: &nothing[..=rows], items };
        let empty = InputColumn::new("", FieldValues::List { offsets: &[], items: &all[0] });
        let no_lists = |rows: usize| FieldValues::List { offsets: &nothing[..=rows], items: &empty };
        let mut append = |rows: usize, none: FieldValues<'_>, deep: FieldValues<'_>| {
            let columns = MessageColumns::new("Q", &times[..rows], Symbols::One("A"));
            loader.append_columns(&columns.field("none", none).field("deep", deep))
        };
        refused(append(1, single, no_lists(1)), "a list of all items that there can be");
        refused(append(1, FieldValues::List { offsets: &[0, 5_000_000], items }, no_lists(1)), "a long list");
        refused(append(1, none(1), deep), "lists of them");
        refused(append(ROWS, FieldValues::List { offsets: &many, items }, no_lists(ROWS)), "many lists");
    }
    // Nothing of all that is there, and what is right still is appended.
    assert_eq!((loader.unsent(), loader.flush().unwrap()), (0, 0));
    assert_eq!(stream.stats().unwrap().messages, 0);
    let mut loader = stream.loader().unwrap();
    let columns = MessageColumns::new("P", &times, Symbols::One("A"));
    loader.append_columns(&columns.field("legs", legs).field("either", either).field("some", some)).unwrap();
    assert_eq!(loader.flush().unwrap(), ROWS as u64);
}

/// The same names as with single messages, and those that are refused leave nothing.
#[test]
fn symbols_are_those_that_single_messages_may_have() {
    let (_directory, db) = new_database();
    let stream =
        db.create_stream("s", "message M { n: i64 }".parse().unwrap(), StreamOptions::default()).unwrap();
    let mut loader = stream.loader().unwrap();
    let (longest, longer) = ("x".repeat(255), "x".repeat(256));
    let wide = "é".repeat(128);
    let times: Vec<i64> = (0..300).collect();
    let value = stream.layouts().from_json(r#"{"$type": "M", "n": 1}"#).unwrap();
    let mut count = 0;
    for symbol in ["A", "\0", "a\0b", "", &longest, &longer, &wide, "\u{202e}", "a/b", "\n"] {
        let single = loader.append_value(symbol, Timestamp(0), &value).is_ok();
        count += u64::from(single);
        let mut names = vec!["A"; 300];
        names[299] = symbol;
        let mut keys = vec![0u32; 300];
        keys[299] = 2;
        for symbols in [
            Symbols::One(symbol),
            Symbols::Names(&names),
            // The same name twice in a dictionary is one symbol.
            Symbols::Dictionary { names: &["A", "A", symbol], keys: &keys },
        ] {
            let columns = MessageColumns::new("M", &times, symbols).field("n", &times);
            let appended = loader.append_columns(&columns);
            assert_eq!(appended.is_ok(), single, "{symbol:?} {appended:?}");
            count += appended.unwrap_or(0) as u64;
        }
    }
    assert_eq!(loader.flush().unwrap(), count);
    let symbols = stream.stats().unwrap().symbols;
    assert_eq!(by_name(&stream).len() as u64, symbols as u64);
    stream.seal().unwrap();
    assert_eq!(by_name(&stream).values().sum::<u64>(), count);
}

fn by_name(stream: &Stream) -> std::collections::BTreeMap<String, u64> {
    let (mut cursor, mut found) = (stream.cursor().open().unwrap(), std::collections::BTreeMap::new());
    while let Some(message) = cursor.next().unwrap() {
        *found.entry(message.symbol().to_string()).or_insert(0) += 1;
    }
    found
}
