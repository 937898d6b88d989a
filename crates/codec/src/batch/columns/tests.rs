//! Columns against rows: the same messages, encoded one by one.

use super::*;
use crate::batch::*;
use crate::dynamic::{Layouts, RecordValue, Value};
use proptest::prelude::*;
use tapedb_schema::{Decimal64, TimeOfDay, Timestamp};

fn layouts(text: &str) -> Layouts {
    Layouts::new(text.parse().unwrap()).unwrap()
}

/// Writes all rows as one batch.
fn write(layouts: &Layouts, columns: &[InputColumn<'_>], times: &[i64], symbols: &[u32]) -> Vec<u8> {
    let record = &layouts.records()[0];
    let mut writer = ColumnWriter::new(layouts, record, columns, times.len()).unwrap();
    let rows = writer.next(0, usize::MAX, usize::MAX);
    assert_eq!(rows, 0..times.len());
    let mut out = b"before".to_vec();
    let header = writer.write(rows, (times, symbols), 1, &mut out);
    let batch = out.split_off(6);
    assert_eq!((out, check(&batch)), (b"before".to_vec(), Ok(header)));
    batch
}

/// The same messages encoded one by one, as a batch of rows.
fn by_rows(layouts: &Layouts, columns: &[InputColumn<'_>], times: &[i64], symbols: &[u32]) -> Vec<u8> {
    let record = &layouts.records()[0];
    let maker = RowMaker::new(layouts, record, columns, times.len()).unwrap();
    let mut builder = BatchBuilder::new();
    for (row, (time, symbol)) in times.iter().zip(symbols).enumerate() {
        let mut body = Vec::new();
        maker.encode(row, &mut body).unwrap();
        builder.push_bytes(*time, *symbol, record.type_id, &body).unwrap();
    }
    let mut out = Vec::new();
    builder.finish(1, &mut out);
    out
}

/// The rows of a batch of columns, with a checksum as a producer gives them.
fn unfolded(layouts: &Layouts, batch: &[u8]) -> Vec<u8> {
    let header = BatchHeader::parse(batch).unwrap();
    if !header.is_columnar() {
        return batch.to_vec();
    }
    BatchColumns::parse(&header, batch, layouts).unwrap().check().unwrap();
    let mut rows = Vec::new();
    let header = to_rows(&header, batch, layouts, &mut rows).unwrap();
    let payload_crc = crate::bytes::crc32c(&rows[HEADER_BYTES..]);
    BatchHeader { payload_crc, ..header }.write(rows.first_chunk_mut().unwrap());
    rows
}

fn compare(layouts: &Layouts, columns: &[InputColumn<'_>], times: &[i64], symbols: &[u32]) -> Vec<u8> {
    let batch = write(layouts, columns, times, symbols);
    assert_eq!(unfolded(layouts, &batch), by_rows(layouts, columns, times, symbols));
    batch
}

const ALL: &str = "enum E { A, B, C } enum W { WIDE }
    message M {
        b: bool?, i8: i8, i16: i16?, i32: i32, i64: i64?, u8: u8, u16: u16, u32: u32?, u64: u64, f32: f32?, f64: f64,
        d: decimal64?, s: decimal(18,4), t: timestamp?, o: time_of_day, c: char?, a3: ascii(3), a8: ascii(8)?,
        a9: ascii(9)?, a16: ascii(16), e: E?, x: string?, y: binary, z: string
    }";

/// What a random message is made of.
#[derive(Debug, Clone)]
struct Seed {
    bits: u64,
    text: String,
    is_null: bool,
}

fn seeds() -> impl Strategy<Value = Vec<Seed>> {
    let bits = prop_oneof![Just(7u64), 0..200u64, 0..70_000u64, any::<u64>(), Just(u64::MAX), Just(1 << 63)];
    let text = prop_oneof![Just(String::new()), "[a-z]{1,3}", Just("é√".to_owned()), "[a-z]{300}"];
    let seed = (bits, text, prop::bool::weighted(0.3));
    let seed = seed.prop_map(|(bits, text, is_null)| Seed { bits, text, is_null });
    prop_oneof![prop::collection::vec(seed.clone(), 1..40), seed.prop_map(|seed| vec![seed; 30])]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn columns_are_the_messages_encoded_one_by_one(seeds in seeds(), shift in 0..8usize, with_nulls: bool) {
        let layouts = layouts(ALL);
        let of = |take: &dyn Fn(u64) -> u64| seeds.iter().map(|seed| take(seed.bits)).collect::<Vec<u64>>();
        let bits = of(&|bits| bits);
        let bools: Vec<bool> = bits.iter().map(|bits| bits % 2 == 1).collect();
        let i8s: Vec<i8> = bits.iter().map(|bits| *bits as i8).collect();
        let i16s: Vec<i16> = bits.iter().map(|bits| *bits as i16).collect();
        let i32s: Vec<i32> = bits.iter().map(|bits| *bits as i32).collect();
        let i64s: Vec<i64> = bits.iter().map(|bits| *bits as i64).collect();
        let u8s: Vec<u8> = bits.iter().map(|bits| *bits as u8).collect();
        let u16s: Vec<u16> = bits.iter().map(|bits| *bits as u16).collect();
        let u32s: Vec<u32> = bits.iter().map(|bits| *bits as u32).collect();
        let f32s: Vec<f32> = u32s.iter().map(|bits| f32::from_bits(*bits)).collect();
        let f64s: Vec<f64> = bits.iter().map(|bits| f64::from_bits(*bits)).collect();
        // Any bits: those that are not canonical are stored as the same number.
        let decimals: Vec<Decimal64> = bits.iter().map(|bits| Decimal64::from_bits(*bits)).collect();
        let times: Vec<Timestamp> = i64s.iter().map(|nanos| Timestamp(*nanos)).collect();
        let of_day: Vec<i64> = bits.iter().map(|bits| (*bits % 86_400_000_000_000) as i64).collect();
        let day: Vec<TimeOfDay> = of_day.iter().map(|nanos| TimeOfDay::from_nanos(*nanos).unwrap()).collect();
        let chars: Vec<char> = u32s.iter().map(|bits| char::from_u32(bits % 0xd800).unwrap()).collect();
        let texts: Vec<&str> = seeds.iter().map(|seed| seed.text.as_str()).collect();
        let short: Vec<&str> = texts.iter().map(|text| if text.is_ascii() { &text[..text.len().min(3)] } else { "" }).collect();
        let eight: Vec<&str> = texts.iter().map(|text| if text.is_ascii() { &text[..text.len().min(8)] } else { "" }).collect();
        let long: Vec<String> =
            texts.iter().map(|text| if text.is_ascii() { text[..text.len().min(16)].into() } else { "0123456789".into() }).collect();
        let nine: Vec<&str> = long.iter().map(|text| &text[..text.len().min(9)]).collect();
        let keys: Vec<u32> = bits.iter().map(|bits| (bits % 3) as u32).collect();
        let binaries: Vec<&[u8]> = texts.iter().map(|text| text.as_bytes()).collect();
        let valid: Vec<bool> = seeds.iter().map(|seed| !(seed.is_null && with_nulls)).collect();
        let mut bytes = vec![0u8; (seeds.len() + shift).div_ceil(8)];
        for (row, _) in valid.iter().enumerate().filter(|(_, valid)| **valid) {
            bytes[(row + shift) / 8] |= 1 << ((row + shift) % 8);
        }
        let bitmap = || Validity::Bits { bytes: &bytes, offset: shift };
        let columns = [
            InputColumn::nullable("b", &bools, &valid),
            InputColumn::new("i8", &i8s),
            InputColumn::nullable("i16", &i16s, bitmap()),
            InputColumn::new("i32", &i32s),
            InputColumn::nullable("i64", &i64s, bitmap()),
            InputColumn::new("u8", &u8s),
            InputColumn::new("u16", &u16s),
            InputColumn::nullable("u32", &u32s, &valid),
            InputColumn::new("u64", &bits),
            InputColumn::nullable("f32", &f32s, bitmap()),
            InputColumn::new("f64", &f64s),
            InputColumn::nullable("d", &decimals, bitmap()),
            InputColumn::new("s", &i64s),
            InputColumn::nullable("t", &times, bitmap()),
            InputColumn::new("o", &day),
            InputColumn::nullable("c", &chars, &valid),
            InputColumn::new("a3", &short),
            InputColumn::nullable("a8", &eight, bitmap()),
            InputColumn::nullable("a9", &nine, bitmap()),
            InputColumn::new("a16", &long),
            InputColumn::nullable("e", FieldValues::Dictionary { texts: &["C", "A", "B"], keys: &keys }, bitmap()),
            InputColumn::nullable("x", &texts, bitmap()),
            InputColumn::new("y", &binaries),
            InputColumn::new("z", FieldValues::Dictionary { texts: &["", "one", "å"], keys: &keys }),
        ];
        let symbols: Vec<u32> = bits.iter().map(|bits| (bits % 300) as u32).collect();
        let batch = compare(&layouts, &columns, &i64s, &symbols);
        // In parts too, each with its own bases.
        let mut writer = ColumnWriter::new(&layouts, &layouts.records()[0], &columns, seeds.len()).unwrap();
        let (mut start, mut rows) = (0, Rows::default());
        while start < seeds.len() {
            let part = writer.next(start, 7, usize::MAX);
            start = part.end;
            let mut out = Vec::new();
            writer.write(part.clone(), (&i64s[part.clone()], &symbols[part.clone()]), 1, &mut out);
            let (of_part, of_all) = (unfolded(&layouts, &out), unfolded(&layouts, &batch));
            let mut all = Rows::default();
            all.load(&of_all).unwrap();
            rows.load(&of_part).unwrap();
            for (at, row) in part.enumerate() {
                prop_assert_eq!(&of_part[rows.body(at)], &of_all[all.body(row)]);
            }
        }
    }

    /// Bytes with right checksums and wrong contents: parsed or refused, and what is parsed unfolds within its bounds.
    #[test]
    fn hostile_batches_never_panic(
        seeds in seeds(),
        changes in prop::collection::vec((16..80usize, any::<u8>()), 0..3),
        payload_changes in prop::collection::vec((0..600usize, any::<u8>()), 0..4),
        cut in 0..30usize,
    ) {
        let layouts = layouts("enum E { A, B } message M { a: u32?, e: E, x: string?, y: ascii(12), z: bool, d: decimal64 }");
        let keys: Vec<u32> = seeds.iter().map(|seed| (seed.bits % 2) as u32).collect();
        let texts: Vec<&str> = seeds.iter().map(|seed| seed.text.as_str()).collect();
        let valid: Vec<bool> = seeds.iter().map(|seed| !seed.is_null).collect();
        let bools: Vec<bool> = keys.iter().map(|key| *key == 1).collect();
        let decimals: Vec<Decimal64> = keys.iter().map(|key| Decimal64::from_parts(i64::from(*key), -2).unwrap()).collect();
        let columns = [
            InputColumn::nullable("a", &keys, &valid),
            InputColumn::new("e", FieldValues::Dictionary { texts: &["A", "B"], keys: &keys }),
            InputColumn::nullable("x", &texts, &valid),
            InputColumn::new("y", FieldValues::Dictionary { texts: &["abcdefghijkl", "m"], keys: &keys }),
            InputColumn::new("z", &bools),
            InputColumn::new("d", &decimals),
        ];
        let times: Vec<i64> = seeds.iter().map(|seed| seed.bits as i64).collect();
        let mut batch = write(&layouts, &columns, &times, &keys);
        for (at, value) in changes {
            batch[at] = value;
        }
        for (at, value) in payload_changes {
            if let Some(byte) = batch.get_mut(HEADER_BYTES + at) {
                *byte = value;
            }
        }
        batch.truncate(batch.len() - cut.min(batch.len() - HEADER_BYTES));
        let first = u64::from_le_bytes(batch[16..24].try_into().unwrap());
        assign_sequence(&mut batch, first).unwrap();
        let mut rows = Rows::default();
        let Ok(header) = BatchHeader::parse(&batch) else { return Ok(()) };
        let mut out = Vec::new();
        match BatchColumns::parse(&header, &batch, &layouts) {
            Err(error) => prop_assert!(to_rows(&header, &batch, &layouts, &mut out).is_err() && !error.to_string().is_empty()),
            Ok(columns) => {
                let unfolded = columns.to_rows(&mut out);
                prop_assert!(out.len() <= HEADER_BYTES + MAX_BATCH_BYTES);
                let is_right = columns.check().is_ok();
                if rows.load_parsed(&unfolded, &out).is_ok() && is_right {
                    for row in 0..rows.len() {
                        prop_assert_eq!(layouts.check(0, &out[rows.body(row)]), Ok(()));
                    }
                } else if !rows.is_empty() && !is_right {
                    // What the check refuses is wrong as a row, or in what a row does not have: the base of a null.
                    let wrong = (0..rows.len()).any(|row| layouts.check(0, &out[rows.body(row)]).is_err());
                    let message = columns.check().unwrap_err().1;
                    prop_assert!(wrong || message.contains("null"), "{}", message);
                }
            }
        }
    }
}

/// Cells of each width hold the greatest difference that takes it, and one more takes the next width.
#[test]
fn differences_at_the_bounds_of_their_widths_come_back() {
    let layouts = layouts("message M { i: i64, u: u64?, s: i32, t: u32 }");
    for (width, greatest) in [(1, 0xff), (2, 0xffff), (4, 0xffff_ffff), (8, u64::MAX)] {
        for range in [greatest - 1, greatest, greatest.wrapping_add(1)] {
            for least in [i64::MIN, -1, 0, i64::MAX.wrapping_sub(range as i64)] {
                let i64s = [least, least.wrapping_add(range as i64), least];
                let u64s = [least as u64, 0, (least as u64).saturating_add(range)];
                let i32s = [i32::MIN, i32::MIN.wrapping_add(range as i32), i32::MAX];
                let u32s = [0, range as u32, 0];
                let columns = [
                    InputColumn::new("i", &i64s[..]),
                    InputColumn::nullable("u", &u64s[..], &[true, false, true][..]),
                    InputColumn::new("s", &i32s[..]),
                    InputColumn::new("t", &u32s[..]),
                ];
                let batch = compare(&layouts, &columns, &i64s, &u32s);
                let header = BatchHeader::parse(&batch).unwrap();
                // The entries of the fields are behind the columns of times and symbols.
                let entry = HEADER_BYTES + 3 * usize::from(header.time_width + header.symbol_width);
                let is_ordered = least.checked_add_unsigned(range).is_some();
                if range == greatest && is_ordered {
                    assert_eq!(batch[entry + at::WIDTH], width, "{range:#x} from {least}");
                }
            }
        }
    }
}

/// The batch of the format page.
fn golden_batch() -> Vec<u8> {
    let layouts = layouts("message Tick { price: f64, size: u32?, note: string }");
    let columns = [
        InputColumn::new("price", &[1.5, 1.5, 1.5][..]),
        InputColumn::nullable("size", &[100, 7, 300u32][..], &[true, false, true][..]),
        InputColumn::new("note", &["a", "", "bc"][..]),
    ];
    let first = 1_700_000_000_000_000_000;
    let times = [first, first + 1_000, first + 2_000];
    let mut batch = compare(&layouts, &columns, &times, &[7, 7, 7]);
    assign_sequence(&mut batch, 42).unwrap();
    batch
}

#[test]
fn the_page_shows_the_golden_bytes() {
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/format/batch.md")).unwrap();
    let line = |(i, row): (usize, &[u8])| {
        let hex: Vec<_> = row.iter().map(|b| format!("{b:02x}")).collect();
        format!("{:04x}  {}\n", i * 16, hex.join(" "))
    };
    let dump: String = golden_batch().chunks(16).enumerate().map(line).collect();
    assert!(page.contains(&dump), "docs/format/batch.md must show:\n{dump}");
}

#[test]
fn columns_that_do_not_fit_are_named() {
    let layouts = layouts("enum E { A, B } message M { a: i64, e: E?, t: string, o: time_of_day? }");
    let (a, e, t, o) = ([1i64, 2], [0u8, 1], ["x", "y"], [1i64, 2]);
    let right = || {
        vec![
            InputColumn::new("a", &a[..]),
            InputColumn::new("e", &e[..]),
            InputColumn::new("t", &t[..]),
            InputColumn::new("o", &o[..]),
        ]
    };
    let refused = |columns: &[InputColumn<'_>]| {
        let record = &layouts.records()[0];
        let by_columns = ColumnWriter::new(&layouts, record, columns, 2).map(drop).unwrap_err().to_string();
        // One by one the same is refused, with the same row.
        let by_rows = RowMaker::new(&layouts, record, columns, 2)
            .and_then(|maker| (0..2).try_for_each(|row| maker.encode(row, &mut Vec::new())));
        assert!(by_rows.is_err(), "{by_columns}");
        by_columns
    };
    let with = |index: usize, column| {
        let mut columns = right();
        columns[index] = column;
        refused(&columns)
    };
    assert!(ColumnWriter::new(&layouts, &layouts.records()[0], &right(), 2).is_ok());
    let long = "x".repeat(MAX_MESSAGE_BYTES);
    for (found, wanted) in [
        (refused(&right()[1..]), "column \"a\": missing; only fields that may be null can be left out of M"),
        (with(1, InputColumn::new("a", &a[..])), "column \"a\": given twice"),
        (with(1, InputColumn::new("q", &a[..])), "column \"q\": record type M has no such field"),
        (with(0, InputColumn::new("a", &a[..1])), "column \"a\": has 1 rows, and there are 2 times"),
        (
            with(0, InputColumn::nullable("a", &a[..], &[true][..])),
            "column \"a\": its validity is not of 2 rows",
        ),
        (
            with(0, InputColumn::new("a", &[1u64, 2][..])),
            "column \"a\": of type i64, and the values given are u64",
        ),
        (
            with(0, InputColumn::nullable("a", &a[..], &[true, false][..])),
            "column \"a\", row 1: null, in a field that is never null",
        ),
        (
            with(1, InputColumn::new("e", &[0u8, 2][..])),
            "column \"e\", row 1: ordinal 2 of enum E, which has 2 symbols",
        ),
        (
            with(1, InputColumn::new("e", &["A", "Z"][..])),
            "column \"e\", row 1: \"Z\" is not a symbol of enum E",
        ),
        (
            with(1, InputColumn::new("e", FieldValues::Dictionary { texts: &["A"], keys: &[0, 1] })),
            "column \"e\", row 1: key 1 of a dictionary of 1 texts",
        ),
        (
            with(2, InputColumn::new("t", &[&b"x"[..], &b"\xff"[..]][..])),
            "column \"t\", row 1: a text that is not UTF-8",
        ),
        (with(3, InputColumn::new("o", &[1i64, -1][..])), "column \"o\", row 1: -1 ns is no time of day"),
    ] {
        assert_eq!(found, wanted);
    }
    let too_long = with_long(&layouts, &long);
    assert!(too_long.contains("row 1: a message of"), "{too_long}");
    // What is null is not looked at.
    let mut columns = right();
    columns[1] = InputColumn::nullable("e", &[9u8, 1][..], &[false, true][..]);
    columns[3] = InputColumn::nullable("o", &[1i64, -1][..], &[true, false][..]);
    compare(&layouts, &columns, &[1, 2], &[0, 0]);
    // What may be null can be left out.
    columns.remove(1);
    compare(&layouts, &columns, &[1, 2], &[0, 0]);
}

fn with_long(layouts: &Layouts, long: &str) -> String {
    let texts = ["x", long];
    let columns = [InputColumn::new("a", &[1i64, 2][..]), InputColumn::new("t", &texts[..])];
    ColumnWriter::new(layouts, &layouts.records()[0], &columns, 2).map(drop).unwrap_err().to_string()
}

#[test]
fn what_unfolds_too_far_is_written_as_rows() {
    let layouts = layouts("message M { a: u64, b: u64, c: u64, d: ascii(16) }");
    let (zeros, texts) = (vec![0u64; 1_000], vec!["same"; 1_000]);
    let columns = ["a", "b", "c"].map(|name| InputColumn::new(name, &zeros));
    let columns = [&columns[..], &[InputColumn::new("d", &texts)]].concat();
    let (times, symbols) = (vec![5; 1_000], vec![0; 1_000]);
    let batch = compare(&layouts, &columns, &times, &symbols);
    assert!(!BatchHeader::parse(&batch).unwrap().is_columnar());
    // With a column of time it does not.
    let times: Vec<i64> = (0..1_000).map(|time| time << 33).collect();
    let batch = compare(&layouts, &columns, &times, &symbols);
    assert!(BatchHeader::parse(&batch).unwrap().is_columnar() && batch.len() < 8_300);
}

#[test]
fn parts_keep_to_their_bounds() {
    let layouts = layouts("message M { t: string }");
    let texts: Vec<String> = (0..50).map(|row| "x".repeat(row * 100)).collect();
    let columns = [InputColumn::new("t", &texts)];
    let writer = ColumnWriter::new(&layouts, &layouts.records()[0], &columns, 50).unwrap();
    let (mut start, mut parts) = (0, 0);
    while start < 50 {
        let rows = writer.next(start, 20, 10_000);
        let bytes: usize = rows.clone().map(|row| 4 + 16 + row * 100).sum();
        assert!(rows.start == start && !rows.is_empty() && rows.len() <= 20 && bytes <= 10_000, "{rows:?}");
        (start, parts) = (rows.end, parts + 1);
    }
    assert!(parts > 10);
}

#[test]
fn nested_records_are_made_of_columns() {
    let layouts = layouts(
        "record A { x: i32? } record B { y: string }
         message M { one: record<A>?, any: array<record<A|B>>?, flat: array<f64?> }",
    );
    let record = layouts.records().iter().find(|record| record.name == "M").unwrap();
    assert!(!is_columnar(record));
    let (x, y) = ([1i32, 2, 3], ["p", "q", "r"]);
    let a = [InputColumn::nullable("x", &x[..], &[true, false, true][..])];
    let b = [InputColumn::new("y", &y[..])];
    let alternatives = [&a[..], &b[..]];
    let items = InputColumn::new("", FieldValues::Union { tags: &[0, 1, 1], alternatives: &alternatives });
    let floats = InputColumn::nullable("", &[0.5, 1.5][..], &[true, false][..]);
    let columns = [
        InputColumn::nullable("one", FieldValues::Record(&a), &[true, true, false][..]),
        InputColumn::nullable(
            "any",
            FieldValues::List { offsets: &[0, 2, 3, 3], items: &items },
            &[true, true, false][..],
        ),
        InputColumn::new("flat", FieldValues::List { offsets: &[0, 0, 2, 2], items: &floats }),
    ];
    let maker = RowMaker::new(&layouts, record, &columns, 3).unwrap();
    let id = |name: &str| layouts.schema().record(name).unwrap().0;
    let of_a = |x| Value::Record(RecordValue { type_id: id("A"), fields: vec![x] });
    let of_b = |y: &str| Value::Record(RecordValue { type_id: id("B"), fields: vec![Value::Text(y.into())] });
    let expected = [
        vec![of_a(Value::Int(1)), Value::Array(vec![of_a(Value::Int(1)), of_b("q")]), Value::Array(vec![])],
        vec![
            of_a(Value::Null),
            Value::Array(vec![of_b("r")]),
            Value::Array(vec![Value::F64(0.5), Value::Null]),
        ],
        vec![Value::Null, Value::Null, Value::Array(vec![])],
    ];
    for (row, fields) in expected.into_iter().enumerate() {
        let mut body = Vec::new();
        maker.encode(row, &mut body).unwrap();
        assert_eq!(layouts.decode(record.type_id, &body).unwrap().fields, fields);
    }
    let wrong = InputColumn::new("flat", FieldValues::List { offsets: &[0, 0, 3, 3], items: &floats });
    let columns = [columns[0], columns[1], wrong];
    let maker = RowMaker::new(&layouts, record, &columns, 3).unwrap();
    let error = maker.encode(1, &mut Vec::new()).unwrap_err().to_string();
    assert_eq!(error, "column \"flat\", row 1: its items are from 0 to 3, of which some do not exist");
}
