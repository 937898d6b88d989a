//! What is in files: types, order, partitions, statistics, and what does not fit.

use crate::support::*;
use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_cast::display::array_value_to_string;
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::fs::File;
use tapedb_arrow::Decimals;
use tapedb_engine::StreamOptions;
use tapedb_publish::{Error, Options, Publisher};
use tapedb_schema::Timestamp;

in_each_format! {
    awkward_values_are_what_they_were,
    a_decimal_that_does_not_fit_names_its_message,
    entries_become_rows,
    spaces_have_numbers_of_their_own,
    memory_and_size_divide_files_and_commits,
}

fn awkward_values_are_what_they_were(kind: Kind) {
    let schema = "enum Side { BUY = 1, SELL = 2 }
        record Level { price: decimal64, size: u64 }
        record Trade { price: f64 }
        record Empty { }
        message Bar { volume: u64, a: i8, b: u32, c: i64, d: decimal64?, e: decimal(18,4), at: timestamp, day: time_of_day?,
            side: Side?, text: string, raw: binary, levels: array<record<Level>>, one: record<Level|Trade>?, none: record<Empty>?,
            flags: array<bool?>, times: array<timestamp>, letter: char, code: ascii(4) }";
    let fixture = Fixture::of(kind, schema);
    let layouts = fixture.stream.layouts();
    let rows = [
        r#"{"$type": "Bar", "volume": 18446744073709551615, "a": -128, "b": 4294967295, "c": -9223372036854775808, "d": null,
            "e": "-0.0001", "at": "1969-12-31T23:59:59.999999999Z", "day": "23:59:59.999999999", "side": null, "text": "ü", "raw": "00ff",
            "levels": [], "one": null, "none": {"$type": "Empty"}, "flags": [true, null], "times": ["1970-01-01T00:00:00.000000001Z"],
            "letter": "x", "code": "ab"}"#,
        r#"{"$type": "Bar", "volume": 0, "a": 127, "b": 0, "c": 9223372036854775807, "d": "1.25", "e": "99999999999999.9999",
            "at": "2262-04-11T23:47:16.854775807Z", "day": null, "side": "SELL", "text": "", "raw": "",
            "levels": [{"$type": "Level", "price": "0.5", "size": 1}, {"$type": "Level", "price": "2", "size": 18446744073709551615}],
            "one": {"$type": "Trade", "price": 2.5}, "none": null, "flags": [], "times": [], "letter": "y", "code": ""}"#,
    ];
    let mut loader = fixture.stream.loader().unwrap();
    for (time, row) in (-1..).zip(rows) {
        loader.append_value("S", Timestamp(time), &layouts.from_json(row).unwrap()).unwrap();
    }
    loader.close().unwrap();
    fixture.stream.seal().unwrap();
    let options = Options {
        scales: [(String::new(), Decimals::Decimal128 { precision: 18, scale: 4 })].into(),
        ..small()
    };
    publish(&mut fixture.publisher(&options));
    let table = fixture.table();
    // Two days: the one before 1970 and its first.
    assert_eq!(table.batches.len(), 2);
    let mut batches = table.batches.clone();
    batches.sort_by_key(|batch| batch.column(1).as_primitive::<arrow_array::types::Int64Type>().value(0));
    let cell = |row: usize, column: &str| {
        let array = batches[row].column_by_name(column).unwrap_or_else(|| panic!("{column}"));
        if array.is_null(0) { "null".into() } else { array_value_to_string(array, 0).unwrap() }
    };
    for (column, first, second) in [
        ("time_ns", "-1", "0"),
        ("volume", "18446744073709551615", "0"),
        ("a", "-128", "127"),
        ("b", "4294967295", "0"),
        ("c", "-9223372036854775808", "9223372036854775807"),
        ("d", "null", "1.2500"),
        ("e", "-0.0001", "99999999999999.9999"),
        ("at", "1969-12-31T23:59:59.999999Z", "2262-04-11T23:47:16.854775Z"),
        ("at_ns", "-1", "9223372036854775807"),
        ("day", "86399999999999", "null"),
        ("side", "null", "SELL"),
        ("text", "ü", ""),
        ("raw", "00ff", ""),
        ("levels", "[]", "[{price: 0.5000, size: 1}, {price: 2.0000, size: 18446744073709551615}]"),
        ("none", "true", "null"),
        ("flags", "[true, ]", "[]"),
        ("times_ns", "[1]", "[]"),
        ("letter", "x", "y"),
        ("code", "ab", ""),
    ] {
        assert_eq!((cell(0, column), cell(1, column)), (first.to_string(), second.to_string()), "{column}");
    }
    assert_eq!(cell(0, "one"), "null");
    assert!(
        cell(1, "one").contains("type: Trade") && cell(1, "one").contains("price: 2.5"),
        "{}",
        cell(1, "one")
    );
}

fn a_decimal_that_does_not_fit_names_its_message(kind: Kind) {
    let fixture = Fixture::of(kind, SCHEMA);
    fixture.add(30, FIRST);
    let mut loader = fixture.stream.loader().unwrap();
    let bar = r#"{"$type": "Bar", "close": "1.23456", "volume": 1}"#;
    loader
        .append_value("ODD", Timestamp(FIRST + 5), &fixture.stream.layouts().from_json(bar).unwrap())
        .unwrap();
    loader.close().unwrap();
    fixture.stream.seal().unwrap();
    let options = Options {
        scales: [("close".into(), Decimals::Decimal128 { precision: 9, scale: 2 })].into(),
        ..small()
    };
    let mut publisher = fixture.publisher(&options);
    publish_until_error(&mut publisher, &fixture);
}

fn publish_until_error(publisher: &mut Publisher, fixture: &Fixture) {
    let error = publisher.step().unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, Error::Rows(_)), "{text}");
    // 30 bars and 7 notes are before it.
    assert!(text.contains("close") && text.contains("message 37 (ODD") && text.contains("--scale"), "{text}");
    let left: Vec<_> = walk(&fixture.lake()).into_iter().filter(|file| file.ends_with(".parquet")).collect();
    assert_eq!(left, Vec::<String>::new());
}

fn walk(folder: &std::path::Path) -> Vec<String> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(walk(&path)) } else { files.push(path.display().to_string()) }
    }
    files
}

#[test]
fn rows_are_sorted_in_partitions_and_files_have_statistics() {
    let fixture = Fixture::new(SCHEMA);
    fixture.add(4000, FIRST);
    let options = Options { symbol_buckets: 4, row_group_rows: 500, ..small() };
    publish(&mut fixture.publisher(&options));
    let table = fixture.table();
    table.check(&fixture.stream);
    for path in &table.files {
        let text = path.display().to_string();
        assert!(text.contains("/time_day=20") && text.contains("/symbol_bucket="), "{text}");
        let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
        let metadata = reader.metadata();
        let mut last = String::new();
        for group in metadata.row_groups() {
            let symbol = group.column(2);
            assert!(symbol.bloom_filter_offset().is_some());
            let statistics = symbol.statistics().unwrap();
            let least = String::from_utf8(statistics.min_bytes_opt().unwrap().to_vec()).unwrap();
            assert!(least >= last, "{least} {last}");
            last = String::from_utf8(statistics.max_bytes_opt().unwrap().to_vec()).unwrap();
            assert_eq!(group.sorting_columns().unwrap()[0].column_idx, 2);
        }
    }
}

fn entries_become_rows(kind: Kind) {
    let schema = "record Trade { price: f64, size: u64 } record Quote { bid: f64 }
        message Bar { volume: u64, entries: array<record<Trade|Quote>> }";
    let fixture = Fixture::of(kind, schema);
    let mut loader = fixture.stream.loader().unwrap();
    for (time, row) in (0..).zip([
        r#"{"$type": "Bar", "volume": 1, "entries": [{"$type": "Trade", "price": 1.5, "size": 2}, {"$type": "Quote", "bid": 3.5}]}"#,
        r#"{"$type": "Bar", "volume": 2, "entries": []}"#,
    ]) {
        loader.append_value("S", Timestamp(time), &fixture.stream.layouts().from_json(row).unwrap()).unwrap();
    }
    loader.close().unwrap();
    fixture.stream.seal().unwrap();
    let options = Options { flatten: Some("entries".into()), ..small() };
    let published = publish(&mut fixture.publisher(&options));
    assert_eq!((published[0].messages, published[0].rows), (2, 3));
    let table = fixture.table();
    let batch = &table.batches[0];
    let column = |name: &str| {
        let array = batch.column_by_name(name).unwrap_or_else(|| panic!("{name} of {:?}", batch.schema()));
        let text =
            |row| if array.is_null(row) { "null".into() } else { array_value_to_string(array, row).unwrap() };
        (0..3).map(text).collect::<Vec<_>>()
    };
    assert_eq!(column("volume"), ["1", "1", "2"]);
    assert_eq!(column("entries_index"), ["0", "1", "null"]);
    assert_eq!(column("entries_type"), ["Trade", "Quote", "null"]);
    assert!(column("entries_Trade")[0].contains("price: 1.5"));
    assert_eq!(&column("entries_Trade")[1..], ["null", "null"]);
    // What does not fit is named.
    let error = Publisher::open(
        &fixture.db,
        &fixture.stream,
        "Bar",
        &fixture.target(),
        &Options { flatten: Some("volume".into()), ..small() },
    );
    assert!(error.unwrap_err().to_string().contains("no array"));
}

fn spaces_have_numbers_of_their_own(kind: Kind) {
    let fixture = Fixture::with(kind, SCHEMA, StreamOptions { spaces: 2, ..StreamOptions::default() });
    for space in 0..2 {
        let mut loader = fixture.stream.loader_in(space).unwrap();
        let bar = r#"{"$type": "Bar", "close": "1.5", "volume": 1}"#;
        let bar = fixture.stream.layouts().from_json(bar).unwrap();
        for time in 0..10 + i64::from(space) {
            loader.append_value("A", Timestamp(time), &bar).unwrap();
        }
        loader.close().unwrap();
    }
    fixture.stream.seal().unwrap();
    publish(&mut fixture.publisher(&small()));
    let table = fixture.table();
    assert_eq!(table.property("tapedb.sequences"), Some("10,11"));
    assert_eq!(table.rows().len(), 21);
    let batch = &table.batches[0];
    assert!(batch.column_by_name("space").is_some());
}

fn memory_and_size_divide_files_and_commits(kind: Kind) {
    let fixture = Fixture::of(kind, SCHEMA);
    for round in 0..6 {
        fixture.add(20_000, FIRST + round * DAY);
    }
    let mut publisher =
        fixture.publisher(&Options { file_bytes: 1_000_000, memory_bytes: 1 << 24, ..Options::default() });
    let published = publish(&mut publisher);
    assert_eq!(published.iter().map(|commit| commit.messages).sum::<u64>(), 120_000);
    assert_eq!(published.last().unwrap().waiting, 0);
    fixture.table().check(&fixture.stream);
}
