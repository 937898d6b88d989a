//! Record batches into streams.

use crate::support::{appender, messages, read, streams, with_messages};
use arrow_array::types::Int8Type;
use arrow_array::{
    ArrayRef, BooleanArray, Decimal128Array, DictionaryArray, Float32Array, Float64Array, Int8Array,
    Int32Array, Int64Array, LargeStringArray, RecordBatch, StringArray, StringViewArray,
    TimestampMicrosecondArray, TimestampMillisecondArray, TimestampNanosecondArray, TimestampSecondArray,
    UInt8Array, UInt64Array,
};
use arrow_schema::ArrowError;
use std::sync::Arc;
use tapedb_arrow::{AppendOptions, BatchAppender, ReadOptions};
use tapedb_codec::dynamic::Value;
use tapedb_engine::{Late, StreamOptions};

const TICKS: &str = "enum Side { BUY = 1, SELL = 2 }
    message Tick { price: decimal64, size: u8, side: Side, venue: ascii(3)?, exact: decimal(18,2)? }";

fn times(times: &[i64]) -> ArrayRef {
    Arc::new(TimestampNanosecondArray::from(times.to_vec()).with_timezone("UTC"))
}

fn texts(texts: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(texts.to_vec()))
}

/// A batch of two ticks in which some columns are replaced by others.
fn batch(replaced: &[(&str, ArrayRef)]) -> RecordBatch {
    let mut columns: Vec<(&str, ArrayRef)> = vec![
        ("time", times(&[1, 2])),
        ("symbol", texts(&["A", "B"])),
        ("price", Arc::new(Float64Array::from(vec![0.1, 10.25]))),
        ("size", Arc::new(Int64Array::from(vec![0, 255]))),
        ("side", texts(&["BUY", "SELL"])),
    ];
    for (name, array) in replaced {
        match columns.iter_mut().find(|column| column.0 == *name) {
            Some(column) => column.1 = array.clone(),
            None => columns.push((name, array.clone())),
        }
    }
    RecordBatch::try_from_iter(columns).unwrap()
}

/// The values of a field after a batch was appended.
fn appended(replaced: &[(&str, ArrayRef)], field: usize) -> Vec<String> {
    let (_directory, _db, stream, _) = streams(TICKS.parse().unwrap());
    let mut appender = appender(&stream, "Tick");
    assert_eq!(appender.append(&batch(replaced)).unwrap(), 2);
    appender.flush().unwrap();
    let text = |value: &Value| match value {
        Value::Decimal(decimal) => decimal.to_string(),
        other => format!("{other:?}"),
    };
    messages(&stream, "Tick").iter().map(|(_, _, record)| text(&record.fields[field])).collect()
}

/// The error of a batch, nothing of which is in the stream.
fn refused(replaced: &[(&str, ArrayRef)]) -> String {
    let (_directory, _db, stream, _) = streams(TICKS.parse().unwrap());
    let mut appender = appender(&stream, "Tick");
    let error = appender.append(&batch(replaced)).unwrap_err().to_string();
    assert_eq!(appender.loader().pending(), 0);
    appender.flush().unwrap();
    assert_eq!(messages(&stream, "Tick"), []);
    error
}

#[test]
fn many_types_are_decimals() {
    let price = |array: ArrayRef| appended(&[("price", array)], 0);
    assert_eq!(price(Arc::new(Float64Array::from(vec![0.1, 10.25]))), ["0.1", "10.25"]);
    assert_eq!(price(Arc::new(Float32Array::from(vec![0.1, -2.5]))), ["0.1", "-2.5"]);
    assert_eq!(price(Arc::new(Int8Array::from(vec![-1, 7]))), ["-1", "7"]);
    let decimals = Decimal128Array::from(vec![1_050, -7]).with_precision_and_scale(30, 3).unwrap();
    assert_eq!(price(Arc::new(decimals)), ["1.050", "-0.007"]);
    assert_eq!(
        appended(&[("exact", Arc::new(Float64Array::from(vec![0.07, 1e3])))], 4),
        ["Scaled(7, 2)", "Scaled(100000, 2)"]
    );
}

#[test]
fn what_is_not_exact_is_refused_with_its_row() {
    let price = |array: ArrayRef| refused(&[("price", array)]);
    let floats = |second| Arc::new(Float64Array::from(vec![1.0, second])) as ArrayRef;
    assert_eq!(price(floats(f64::NAN)), "column \"price\", row 1: NaN is not exact as a decimal");
    assert_eq!(price(floats(f64::INFINITY)), "column \"price\", row 1: inf is not exact as a decimal");
    assert!(price(Arc::new(Float32Array::from(vec![1.0, f32::INFINITY]))).contains("row 1: inf"));
    let long = Decimal128Array::from(vec![1, 12_345_678_901_234_567_890]);
    assert!(price(Arc::new(long)).starts_with("column \"price\", row 1:"));
    assert!(price(texts(&["1", "2"])).contains("a decimal is needed, and there is a text"));
    let exact = refused(&[("exact", floats(0.001))]);
    assert!(exact.starts_with("column \"exact\", row 1:"), "{exact}");
}

#[test]
fn values_out_of_range_and_nulls_are_refused_with_their_row() {
    let size = |array: ArrayRef| refused(&[("size", array)]);
    assert_eq!(
        size(Arc::new(Int32Array::from(vec![0, 256]))),
        "column \"size\", row 1: 256 is outside 0 to 255"
    );
    assert_eq!(
        size(Arc::new(Int8Array::from(vec![0, -1]))),
        "column \"size\", row 1: -1 is outside 0 to 255"
    );
    assert!(size(Arc::new(Float64Array::from(vec![1.0, 1.5]))).contains("row 1: 1.5 is not a whole number"));
    let null = size(Arc::new(UInt64Array::from(vec![Some(1), None])));
    assert_eq!(null, "column \"size\", row 1: null in a field that has none");
    assert!(
        refused(&[("venue", texts(&["XYZ", "LONG"]))]).contains("row 1: \"LONG\" is longer than ascii(3)")
    );
    assert!(refused(&[("venue", texts(&["XYZ", "é"]))]).starts_with("column \"venue\", row 1:"));
    assert!(
        refused(&[("side", texts(&["BUY", "HOLD"]))])
            .contains("row 1: \"HOLD\" is not a symbol of enum Side")
    );
    let long = "x".repeat(256);
    assert!(refused(&[("symbol", texts(&["A", &long]))]).contains("row 1: a symbol has 1 to 255 bytes"));
    assert!(refused(&[("symbol", texts(&["A", ""]))]).contains("row 1: a symbol has 1 to 255 bytes"));
}

#[test]
fn texts_of_all_kinds_and_dictionaries() {
    let kinds: [ArrayRef; 4] = [
        texts(&["SELL", "BUY"]),
        Arc::new(LargeStringArray::from(vec!["SELL", "BUY"])),
        Arc::new(StringViewArray::from(vec!["SELL", "BUY"])),
        Arc::new(["SELL", "BUY"].into_iter().collect::<DictionaryArray<Int8Type>>()),
    ];
    for kind in kinds {
        assert_eq!(appended(&[("side", kind)], 2), ["Enum(1)", "Enum(0)"]);
    }
}

#[test]
fn times_of_all_units_and_zones() {
    let micros: ArrayRef =
        Arc::new(TimestampMicrosecondArray::from(vec![1, 2]).with_timezone("Europe/Paris"));
    let millis: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![1, 2]).with_timezone("+02:00"));
    let seconds: ArrayRef = Arc::new(TimestampSecondArray::from(vec![1, 2]).with_timezone("UTC"));
    for (time, unit) in [(micros, 1_000), (millis, 1_000_000), (seconds, 1_000_000_000)] {
        let (_directory, _db, stream, _) = streams(TICKS.parse().unwrap());
        let mut appender = appender(&stream, "Tick");
        appender.append(&batch(&[("time", time)])).unwrap();
        appender.flush().unwrap();
        let times: Vec<i64> = messages(&stream, "Tick").iter().map(|message| message.1).collect();
        assert_eq!(times, [unit, 2 * unit]);
    }
    let far: ArrayRef = Arc::new(TimestampSecondArray::from(vec![1, i64::MAX]).with_timezone("UTC"));
    assert_eq!(
        refused(&[("time", far)]),
        "column \"time\", row 1: the time is beyond the range of nanoseconds"
    );
}

#[test]
fn times_without_a_zone_need_a_statement() {
    let naive: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![1, 2]));
    assert!(refused(&[("time", naive.clone())]).contains("these times have no time zone"));
    let (_directory, _db, stream, _) = streams(TICKS.parse().unwrap());
    let options = AppendOptions { record: None, naive_is_utc: true };
    let mut appender = BatchAppender::new(&stream, stream.loader().unwrap(), options).unwrap();
    appender.append(&batch(&[("time", naive)])).unwrap();
    appender.flush().unwrap();
    assert_eq!(messages(&stream, "Tick").len(), 2);
}

#[test]
fn columns_that_are_missing_or_unknown() {
    let unknown: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    assert_eq!(refused(&[("sizes", unknown.clone())]), "column \"sizes\": the record type has no such field");
    // These have a meaning, but the stream gives them.
    assert_eq!(appended(&[("sequence", unknown)], 1), ["UInt(0)", "UInt(255)"]);
    let (_directory, _db, stream, _) = streams(TICKS.parse().unwrap());
    let without: Result<RecordBatch, ArrowError> = batch(&[]).project(&[0, 1, 2, 3]);
    let error = appender(&stream, "Tick").append(&without.unwrap()).unwrap_err().to_string();
    assert_eq!(error, "column \"side\": the batch has no such column");
}

#[test]
fn a_field_may_have_the_name_of_a_header_column() {
    let (_directory, _db, stream, _) = streams("message M { sequence: u64, space: u8 }".parse().unwrap());
    let numbers = |first: u64| Arc::new(UInt64Array::from(vec![first, first + 1])) as ArrayRef;
    let columns = [
        ("time", times(&[1, 2])),
        ("symbol", texts(&["A", "B"])),
        ("sequence", numbers(70)),
        ("sequence", numbers(5)),
        ("space", numbers(8)),
    ];
    let mut appender = appender(&stream, "M");
    appender.append(&RecordBatch::try_from_iter(columns).unwrap()).unwrap();
    appender.flush().unwrap();
    let found = messages(&stream, "M");
    assert_eq!(found[0].1, 1);
    assert_eq!(found[0].2.fields, [Value::UInt(5), Value::UInt(8)]);
    assert_eq!(found[1].2.fields, [Value::UInt(6), Value::UInt(9)]);
}

/// What is read has no name twice, and is the same when it is appended.
#[test]
fn header_columns_have_names_that_no_field_has() {
    let schema = "message M { sequence: string, message_sequence: i8, stream: bool }";
    let lines = r#"{"$type": "M", "sequence": "s", "message_sequence": -1, "stream": true}
        {"$type": "M", "sequence": "", "message_sequence": 5, "stream": false}"#;
    let (_directory, _db, stream, copy) = with_messages(schema, lines);
    let options = ReadOptions { sequences: true, ..ReadOptions::default() };
    let batches = read(&stream, "M", &options).unwrap();
    let names: Vec<String> = batches[0].schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(names[..3], ["time", "symbol", "message_message_sequence"]);
    assert_eq!(names[3..], ["sequence", "message_sequence", "stream"]);
    for options in [options, ReadOptions::default()] {
        let mut appender = appender(&copy, "M");
        for batch in read(&stream, "M", &options).unwrap() {
            appender.append(&batch).unwrap();
        }
        appender.flush().unwrap();
    }
    let (expected, found) = (messages(&stream, "M"), messages(&copy, "M"));
    let twice: Vec<_> = expected.into_iter().flat_map(|message| [message.clone(), message]).collect();
    assert_eq!(found, twice);
}

#[test]
fn errors_show_the_beginning_of_long_texts() {
    let long = "x".repeat(1 << 20);
    for column in ["side", "venue"] {
        let error = refused(&[(column, texts(&["BUY", &long]))]);
        assert!(error.contains("xxx…") && error.len() < 200, "{column}: {}", error.len());
    }
}

#[test]
fn a_batch_after_a_refused_one_is_appended_alone() {
    let (_directory, _db, stream, _) = streams(TICKS.parse().unwrap());
    let mut appender = appender(&stream, "Tick");
    appender.append(&batch(&[])).unwrap();
    let bad: ArrayRef = Arc::new(Int64Array::from(vec![1, 300]));
    appender.append(&batch(&[("size", bad)])).unwrap_err();
    appender.append(&batch(&[("time", times(&[3, 4]))])).unwrap();
    appender.flush().unwrap();
    let times: Vec<i64> = messages(&stream, "Tick").iter().map(|message| message.1).collect();
    assert_eq!(times, [1, 2, 3, 4]);
}

#[test]
fn late_rows_are_refused_where_the_stream_refuses_them() {
    let (_directory, db, _, _) = streams(TICKS.parse().unwrap());
    let options = StreamOptions { late: Late::Refuse, ..StreamOptions::default() };
    let stream = db.create_stream("strict", TICKS.parse().unwrap(), options).unwrap();
    let mut appender = appender(&stream, "Tick");
    let error = appender.append(&batch(&[("time", times(&[2, 1]))])).unwrap_err().to_string();
    assert!(error.starts_with("column \"time\", row 1:"), "{error}");
    appender.append(&batch(&[])).unwrap();
    appender.append(&batch(&[("time", times(&[1, 5]))])).unwrap_err();
    appender.flush().unwrap();
    assert_eq!(messages(&stream, "Tick").len(), 2);
}

/// As slices, and value by value, as a batch with a column of sequence numbers is.
#[test]
fn slices_are_the_same_messages() {
    let schema = "enum Side { BUY = 1, SELL = 2 }
        message Tick { price: decimal64, ask: decimal64?, size: u8, count: i64?, side: Side?, venue: ascii(3), note: string?, flag: bool }";
    let rows = 0..1_000usize;
    let some = |row: &usize| !row.is_multiple_of(7);
    let names = ["B", "A", "C"];
    let keys = rows.clone().map(|row| (row % 3) as i8);
    let symbols = DictionaryArray::<Int8Type>::new(keys.collect(), texts(&names));
    let asks: Float64Array = rows.clone().map(|row| some(&row).then_some(row as f64 / 8.0)).collect();
    let counts: Int64Array = rows.clone().map(|row| some(&row).then_some(row as i64 - 500)).collect();
    let sides: StringArray = rows.clone().map(|row| some(&row).then_some(["BUY", "SELL"][row % 2])).collect();
    let notes: StringViewArray = rows.clone().map(|row| some(&row).then(|| format!("note {row}"))).collect();
    let flags: BooleanArray = rows.clone().map(|row| Some(row % 2 == 0)).collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("time", times(&rows.clone().map(|row| row as i64 / 2).collect::<Vec<_>>())),
        ("symbol", Arc::new(symbols)),
        ("price", Arc::new(rows.clone().map(|row| Some(row as f64 / 100.0)).collect::<Float64Array>())),
        ("ask", Arc::new(asks)),
        ("size", Arc::new(rows.clone().map(|row| Some(row as u8)).collect::<UInt8Array>())),
        ("count", Arc::new(counts)),
        ("side", Arc::new(sides)),
        ("venue", texts(&rows.clone().map(|row| ["X", "NYS"][row % 2]).collect::<Vec<_>>())),
        ("note", Arc::new(notes)),
        ("flag", Arc::new(flags)),
    ];
    let numbers = Arc::new(rows.map(|row| Some(row as u64)).collect::<UInt64Array>());
    let with_numbers = [&columns[..], &[("sequence", numbers as ArrayRef)]].concat();
    let of = |columns: Vec<(&str, ArrayRef)>| {
        let (_directory, _db, stream, _) = streams(schema.parse().unwrap());
        let mut appender = appender(&stream, "Tick");
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        // A slice too: its columns begin within their buffers.
        for (start, rows) in [(0, 1_000), (5, 600)] {
            assert_eq!(appender.append(&batch.slice(start, rows)).unwrap(), rows);
        }
        appender.flush().unwrap();
        messages(&stream, "Tick")
    };
    let found = of(columns);
    assert_eq!(found.len(), 1_600);
    assert_eq!(found, of(with_numbers));
}

#[test]
fn a_batch_is_checked_without_being_appended() {
    let (_directory, _db, stream, _) = streams(TICKS.parse().unwrap());
    let mut appender = appender(&stream, "Tick");
    // As slices, and value by value.
    let narrow = ("size", Arc::new(UInt8Array::from(vec![0, 255])) as ArrayRef);
    assert_eq!(appender.check(&batch(&[narrow]), None).unwrap(), Some(2));
    assert_eq!(appender.check(&batch(&[]), Some(9)).unwrap(), Some(9));
    let too_large = ("size", Arc::new(Int64Array::from(vec![0, 256])) as ArrayRef);
    let error = appender.check(&batch(&[too_large]), None).unwrap_err().to_string();
    assert_eq!(error, "column \"size\", row 1: 256 is outside 0 to 255");
    let long = ("symbol", texts(&["A", &"x".repeat(256)]));
    assert!(appender.check(&batch(&[long]), None).unwrap_err().to_string().contains("row 1"));
    let not_exact = ("price", Arc::new(Float64Array::from(vec![1.0, f64::NAN])) as ArrayRef);
    assert!(appender.check(&batch(&[not_exact]), None).unwrap_err().to_string().contains("row 1: NaN"));
    let late = batch(&[("time", times(&[2, 1]))]);
    assert_eq!(appender.check(&late, None).unwrap(), Some(2), "late messages are accepted");
    assert_eq!(appender.loader().pending(), 0);
    appender.flush().unwrap();
    assert_eq!(messages(&stream, "Tick"), []);
    assert!(stream.symbols().is_empty(), "nothing of what was checked is left");
}

#[test]
fn batches_are_checked_in_the_order_in_which_they_are_appended() {
    let (_directory, db, _, _) = streams(TICKS.parse().unwrap());
    let options = StreamOptions { late: Late::Refuse, ..StreamOptions::default() };
    let stream = db.create_stream("ordered", TICKS.parse().unwrap(), options).unwrap();
    let mut appender = appender(&stream, "Tick");
    let at = |first, second| batch(&[("time", times(&[first, second]))]);
    let after = appender.check(&at(5, 7), None).unwrap();
    assert_eq!(after, Some(7));
    let error = appender.check(&at(6, 8), after).unwrap_err().to_string();
    assert!(error.contains("column \"time\", row 0") && error.contains("refuses late"), "{error}");
    assert!(appender.check(&at(9, 8), after).unwrap_err().to_string().contains("row 1"));
    assert_eq!(appender.append(&at(5, 7)).unwrap(), 2);
    assert!(appender.check(&at(6, 8), None).is_err(), "what was appended counts");
    assert_eq!(appender.check(&at(7, 8), None).unwrap(), Some(8));
}
