//! Streams as record batches.

use crate::support::{read, streams, with_messages};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Decimal128Type, Float64Type, Int8Type, Int32Type, TimestampNanosecondType, UInt8Type, UInt64Type,
};
use arrow_array::{Array, RecordBatch};
use std::slice::from_ref;
use std::time::Duration;
use tapedb_arrow::{BatchReader, Decimals, ReadOptions};
use tapedb_codec::dynamic::{RecordValue, Value};
use tapedb_engine::StreamOptions;
use tapedb_schema::{Decimal64, Timestamp};

const BARS: &str = "message Bar { close: decimal64, volume: u64, note: string? }";

fn in_order() -> ReadOptions {
    ReadOptions { in_time_order: true, ..ReadOptions::default() }
}

/// The texts of a dictionary column.
fn symbols(batch: &RecordBatch, column: &str) -> Vec<String> {
    let keys = batch.column_by_name(column).unwrap().as_dictionary::<Int32Type>();
    let values = keys.values().as_string::<i32>();
    keys.keys().values().iter().map(|key| values.value(*key as usize).to_string()).collect()
}

#[test]
fn header_columns_and_fields() {
    let lines = r#"
        {"$type": "Bar", "close": "10.25", "volume": 5, "note": null}
        {"$type": "Bar", "close": "-0.1", "volume": 6, "note": "a note that is longer than twelve bytes"}
        {"$type": "Bar", "close": "NaN", "volume": 7, "note": "short"}
    "#;
    let (_directory, _db, stream, _) = with_messages(BARS, lines);
    for sealed in [false, true] {
        if sealed {
            stream.seal().unwrap();
        }
        let options = ReadOptions { sequences: true, ..in_order() };
        let batches = read(&stream, "Bar", &options).unwrap();
        let [batch] = &batches[..] else { panic!("{batches:?}") };
        let names: Vec<_> = batch.schema().fields().iter().map(|field| field.name().clone()).collect();
        assert_eq!(names, ["time", "symbol", "sequence", "close", "volume", "note"]);
        let times = batch.column(0).as_primitive::<TimestampNanosecondType>();
        assert_eq!((&times.values()[..], times.timezone()), (&[0, 1, 2][..], Some("UTC")));
        assert_eq!(symbols(batch, "symbol"), ["A", "B", "A"]);
        assert_eq!(batch.column(2).as_primitive::<UInt64Type>().values()[..], [0, 1, 2]);
        let close = batch.column(3).as_primitive::<Float64Type>();
        assert_eq!(close.values()[..2], [10.25, -0.1]);
        assert!(close.value(2).is_nan());
        let note = batch.column(5).as_string_view();
        let notes: Vec<_> = note.iter().collect();
        assert_eq!(notes, [None, Some("a note that is longer than twelve bytes"), Some("short")]);
    }
}

#[test]
fn by_symbol_has_the_same_rows_as_in_order() {
    let (_directory, _db, stream, _) = streams(BARS.parse().unwrap());
    let mut loader = stream.loader().unwrap();
    for time in 0..70_000i64 {
        let close = Value::Decimal(Decimal64::from_parts(time, -2).unwrap());
        let record = RecordValue { type_id: 0, fields: vec![close, Value::UInt(time as u64), Value::Null] };
        loader.append_value(["A", "B", "C"][time as usize % 3], Timestamp(time), &record).unwrap();
    }
    loader.close().unwrap();
    stream.seal().unwrap();
    for (options, is_ordered) in [(ReadOptions::default(), false), (in_order(), true)] {
        let mut rows = Vec::new();
        for batch in read(&stream, "Bar", &options).unwrap() {
            let symbols = symbols(&batch, "symbol");
            let times = batch.column(0).as_primitive::<TimestampNanosecondType>();
            let close = batch.column_by_name("close").unwrap().as_primitive::<Float64Type>();
            rows.extend(
                (0..batch.num_rows()).map(|row| (times.value(row), symbols[row].clone(), close.value(row))),
            );
        }
        assert_eq!(rows.is_sorted_by_key(|row| row.0), is_ordered);
        rows.sort_by_key(|row| row.0);
        assert_eq!(rows.len(), 70_000);
        for (time, row) in (0i64..).zip(rows) {
            let symbol = ["A", "B", "C"][time as usize % 3].to_string();
            assert_eq!(row, (time, symbol, time as f64 / 100.0));
        }
    }
}

#[test]
fn live_batches_follow_history() {
    let (_directory, _db, stream, _) = streams(BARS.parse().unwrap());
    let append = |times: std::ops::Range<i64>| {
        let mut loader = stream.loader().unwrap();
        for time in times {
            let fields = vec![Value::Decimal(Decimal64::default()), Value::UInt(time as u64), Value::Null];
            let record = RecordValue { type_id: 0, fields };
            loader.append_value(["A", "B"][time as usize % 2], Timestamp(time), &record).unwrap();
        }
        loader.close().unwrap();
    };
    append(0..100);
    stream.seal().unwrap();
    append(100..150);
    for in_time_order in [false, true] {
        let first = if in_time_order { 250 } else { 150 };
        let options =
            ReadOptions { in_time_order, sequences: true, batch_rows: Some(40), ..ReadOptions::default() };
        let mut reader =
            BatchReader::open(from_ref(&stream), stream.cursor().live(), "Bar", &options).unwrap();
        assert!(reader.follows());
        let mut sequences = Vec::new();
        let mut take = |reader: &mut BatchReader| {
            while let Some(batch) = reader.next_batch_within(Duration::from_millis(1)).unwrap() {
                assert!(batch.num_rows() <= 40);
                sequences.extend_from_slice(batch.column(2).as_primitive::<UInt64Type>().values());
            }
        };
        take(&mut reader);
        assert!(reader.is_live());
        append(first..first + 100);
        take(&mut reader);
        let position = reader.position().unwrap();
        sequences.sort_unstable();
        assert_eq!(sequences, (0..first as u64 + 100).collect::<Vec<_>>());
        let resumed = stream.cursor().resume(&position);
        let mut rest = BatchReader::open(from_ref(&stream), resumed, "Bar", &in_order()).unwrap();
        assert!(rest.next_batch().unwrap().is_none());
    }
}

#[test]
fn only_the_fields_asked_for_in_their_order() {
    let lines = r#"{"$type": "Bar", "close": "1", "volume": 5}"#;
    let (_directory, _db, stream, _) = with_messages(BARS, lines);
    let fields = |names: &[&str]| Some(names.iter().map(|name| name.to_string()).collect());
    let options = ReadOptions { fields: fields(&["volume", "close"]), ..ReadOptions::default() };
    let batch = read(&stream, "Bar", &options).unwrap().remove(0);
    assert_eq!(batch.schema().field(2).name(), "volume");
    assert_eq!(batch.num_columns(), 4);
    let options = ReadOptions { fields: fields(&[]), ..ReadOptions::default() };
    assert_eq!(read(&stream, "Bar", &options).unwrap()[0].num_columns(), 2);
    let options = ReadOptions { fields: fields(&["size"]), ..ReadOptions::default() };
    let error = read(&stream, "Bar", &options).unwrap_err().to_string();
    assert_eq!(error, "column \"size\": record type Bar has no such field");
    let error = read(&stream, "Foo", &ReadOptions::default()).unwrap_err().to_string();
    assert_eq!(error, "column \"Foo\": the stream has no such message type");
}

#[test]
fn exact_decimals_or_an_error_that_names_the_row() {
    let lines = r#"
        {"$type": "Bar", "close": "10.25", "volume": 5}
        {"$type": "Bar", "close": "3", "volume": 5}
        {"$type": "Bar", "close": "0.125", "volume": 5}
    "#;
    let (_directory, _db, stream, _) = with_messages(BARS, lines);
    let of =
        |precision, scale| ReadOptions { decimals: Decimals::Decimal128 { precision, scale }, ..in_order() };
    let batch = read(&stream, "Bar", &of(20, 3)).unwrap().remove(0);
    assert_eq!(batch.column(2).as_primitive::<Decimal128Type>().values()[..], [10_250, 3_000, 125]);
    let error = read(&stream, "Bar", &of(20, 2)).unwrap_err().to_string();
    assert_eq!(
        error,
        "column \"close\", row 2: 0.125 is not exact in Decimal128(20, 2); use the lossless mode"
    );
    assert!(read(&stream, "Bar", &of(39, 2)).is_err());
    assert!(read(&stream, "Bar", &of(4, 5)).is_err());
}

#[test]
fn an_inexact_decimal_in_a_list_names_its_message() {
    let schema = "record Level { price: decimal64 } message Book { levels: array<record<Level>> }";
    let lines = r#"
        {"$type": "Book", "levels": [{"price": "1"}, {"price": "2"}]}
        {"$type": "Book", "levels": []}
        {"$type": "Book", "levels": [{"price": "1"}, {"price": "0.5"}]}
    "#;
    let (_directory, _db, stream, _) = with_messages(schema, lines);
    let options = ReadOptions { decimals: Decimals::Decimal128 { precision: 9, scale: 0 }, ..in_order() };
    let error = read(&stream, "Book", &options).unwrap_err().to_string();
    assert!(error.starts_with("column \"price\", row 2: 0.5 is not exact"), "{error}");
}

#[test]
fn scaled_decimals_of_nineteen_digits_need_the_lossless_mode() {
    let (_directory, _db, stream, _) =
        with_messages("message M { x: decimal(18,2) }", r#"{"$type": "M", "x": "92233720368547758.07"}"#);
    let error = read(&stream, "M", &ReadOptions::default()).unwrap_err().to_string();
    assert!(error.contains("row 0: 9223372036854775807 units of 10^-2 is not exact"), "{error}");
    let options = ReadOptions { decimals: Decimals::Raw, ..ReadOptions::default() };
    let batch = read(&stream, "M", &options).unwrap().remove(0);
    assert_eq!(batch.column(2).as_primitive::<Decimal128Type>().value(0), i128::from(i64::MAX));
}

#[test]
fn nested_records_are_lists_of_structs_with_one_struct_for_each_alternative() {
    let schema = "record A { x: i8 } record B { y: u8? } record C { }
        message M { some: array<record<A|B|C>?>?, grid: array<array<u8>> }";
    let lines = r#"
        {"$type": "M", "some": [{"$type": "A", "x": -1}, null, {"$type": "B", "y": 7}, {"$type": "B", "y": null}], "grid": [[1, 2], []]}
        {"$type": "M", "some": null, "grid": []}
        {"$type": "M", "some": [], "grid": [[], [3]]}
        {"$type": "M", "some": [{"$type": "C"}, {"$type": "A", "x": 5}], "grid": [[4]]}
    "#;
    let (_directory, _db, stream, _) = with_messages(schema, lines);
    let batch = read(&stream, "M", &in_order()).unwrap().remove(0);
    let some = batch.column_by_name("some").unwrap().as_list::<i32>();
    assert_eq!(some.value_offsets(), [0, 4, 4, 4, 6]);
    assert_eq!((0..4).map(|row| some.is_null(row)).collect::<Vec<_>>(), [false, true, false, false]);
    let items = some.values().as_struct();
    let present = |array: &dyn Array| (0..array.len()).map(|row| array.is_valid(row)).collect::<Vec<_>>();
    assert_eq!(present(items), [true, false, true, true, true, true]);
    let types = items.column(0).as_dictionary::<Int32Type>();
    assert_eq!(types.keys().values()[..], [0, 0, 1, 1, 2, 0]);
    let (a, b) = (items.column(1).as_struct(), items.column(2).as_struct());
    assert_eq!(present(a), [true, false, false, false, false, true]);
    assert_eq!(a.column(0).as_primitive::<Int8Type>().value(5), 5);
    assert_eq!(present(b), [false, false, true, true, false, false]);
    assert_eq!(present(b.column(0)), [false, false, true, false, false, false]);
    assert_eq!(present(items.column(3)), [false, false, false, false, true, false]);
    let grid = batch.column_by_name("grid").unwrap().as_list::<i32>();
    assert_eq!(grid.value_offsets(), [0, 2, 2, 4, 5]);
    let inner = grid.values().as_list::<i32>();
    assert_eq!(inner.value_offsets(), [0, 2, 2, 2, 3, 4]);
    assert_eq!(inner.values().as_primitive::<UInt8Type>().values()[..], [1, 2, 3, 4]);
}

#[test]
fn several_streams_have_a_column_of_their_names() {
    let (_directory, db, stream, copy) =
        with_messages(BARS, r#"{"$type": "Bar", "close": "1", "volume": 5}"#);
    let mut loader = copy.loader().unwrap();
    let record = stream.layouts().from_json(r#"{"$type": "Bar", "close": "2", "volume": 6}"#).unwrap();
    loader.append_value("Z", Timestamp(0), &record).unwrap();
    loader.append_value("A", Timestamp(5), &record).unwrap();
    loader.close().unwrap();
    let cursor = db.cursor(["s", "copy"]).unwrap();
    let reader = BatchReader::open(&[stream, copy], cursor, "Bar", &in_order()).unwrap();
    let mut found = Vec::new();
    for batch in reader {
        let batch = batch.unwrap();
        found.extend(symbols(&batch, "stream").into_iter().zip(symbols(&batch, "symbol")));
    }
    let expected = [("s", "A"), ("copy", "Z"), ("copy", "A")];
    assert_eq!(found, expected.map(|(stream, symbol)| (stream.to_string(), symbol.to_string())));
    let other = "message Bar { close: f64 }".parse().unwrap();
    let other = db.create_stream("other", other, StreamOptions::default()).unwrap();
    let cursor = db.cursor(["s", "other"]).unwrap();
    let stream = db.stream("s").unwrap();
    let error = BatchReader::open(&[stream, other], cursor, "Bar", &in_order()).unwrap_err().to_string();
    assert!(error.contains("different versions of this record type"), "{error}");
}
