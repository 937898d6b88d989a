//! Tables made here, and read back.

use super::*;
use crate::error::ImportError;
use crate::options::OnBadLine;
use proptest::prelude::*;
use std::path::PathBuf;
use tapedb_codec::dynamic::{Layouts, RecordValue, Value};
use tapedb_schema::{Decimal64, Timestamp};

fn options() -> TableOptions {
    TableOptions {
        time: "time".into(),
        date: None,
        time_unit: None,
        zone: None,
        symbol: TableSymbol::Column("symbol".into()),
        renamed: Vec::new(),
        columns: None,
        delimiter: b',',
    }
}

/// A file with this content, in a folder that lives as long as the first value.
fn file(text: &[u8]) -> (tempfile::TempDir, TableFile) {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("ticks.csv");
    std::fs::write(&path, text).unwrap();
    let found = find_tables(&[folder.path()]).unwrap().remove(0);
    (folder, found)
}

type Row = (i64, String, Vec<Value>);

fn read_as(
    schema: &str,
    text: &str,
    options: &TableOptions,
    on_bad_line: OnBadLine,
) -> Result<Vec<Row>, ImportError> {
    let (_folder, file) = file(text.as_bytes());
    let layouts = Layouts::new(schema.parse().unwrap()).unwrap();
    let mut rows = TableRows::open(&file, options, (&layouts, 0), on_bad_line)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next_row()? {
        let record = layouts.decode(0, row.body).unwrap();
        found.push((row.time.nanos(), row.symbol.to_string(), record.fields));
    }
    assert_eq!(rows.progress().0, rows.progress().1);
    Ok(found)
}

fn error_of(schema: &str, text: &str, options: &TableOptions) -> String {
    let error = read_as(schema, text, options, OnBadLine::Stop).unwrap_err().to_string();
    error.split("ticks.csv").last().unwrap().to_string()
}

const TICK: &str = "message Tick { price: decimal64?, size: i64? }";

#[test]
fn rows_are_messages_and_errors_name_file_line_and_cell() {
    let text = "time,symbol,price,size\n1706693400123,AAPL,1.50,7\n1706693400124,\"MSFT\",,\n";
    let rows = read_as(TICK, text, &options(), OnBadLine::Stop).unwrap();
    let price = Value::Decimal("1.50".parse().unwrap());
    assert_eq!(rows[0], (1_706_693_400_123_000_000, "AAPL".into(), vec![price, Value::Int(7)]));
    assert_eq!((rows[1].1.as_str(), &rows[1].2), ("MSFT", &vec![Value::Null, Value::Null]));
    for (bad, expected) in [
        ("1706693400124,A,1,x", ", line 3: expected a value of type i64 for the field \"size\", found `x`"),
        ("1706693400124,A,1.2345678901234567,1", ", line 3: expected a value of type decimal64"),
        ("1706693400,A,1,1", ", line 3: expected a number of milliseconds since 1970, as those before it"),
        ("1706693400124,,1,1", ", line 3: expected a symbol of 1 to 255 bytes, found ``"),
        ("1706693400124,A,1", ", line 3: expected 4 cells as the header has, not 3"),
        ("1706693400124,\"A\nB\",1,1\n7,A,1,1", ", line 5: expected a number of milliseconds"),
    ] {
        let text = format!("time,symbol,price,size\n1706693400123,AAPL,1.50,7\n{bad}\n");
        let error = error_of(TICK, &text, &options());
        assert!(error.starts_with(expected), "{error}");
        let rows = read_as(TICK, &text, &options(), OnBadLine::Skip(1)).unwrap();
        assert!(!rows.is_empty());
    }
}

#[test]
fn columns_are_mapped_by_name() {
    let text = "Date;Clock;Last Price;Volume;Note\n20240131;09:30:00.5;1,5;3;x\n";
    let mapped = TableOptions {
        time: "Clock".into(),
        date: Some("Date".into()),
        zone: Some("America/New_York".into()),
        symbol: TableSymbol::All("ES".into()),
        renamed: vec![
            ("Last Price".into(), "note".into()),
            ("Volume".into(), "size".into()),
            ("Note".into(), String::new()),
        ],
        delimiter: b';',
        ..options()
    };
    let rows = read_as("message Tick { size: u32, note: string }", text, &mapped, OnBadLine::Stop).unwrap();
    let expected: Timestamp = "2024-01-31T14:30:00.5Z".parse().unwrap();
    assert_eq!(rows, [(expected.nanos(), "ES".into(), vec![Value::UInt(3), Value::Text("1,5".into())])]);
    let missing = TableOptions { renamed: vec![("Lst".into(), "note".into())], ..mapped.clone() };
    assert!(
        error_of(TICK, text, &missing).contains("there is no column \"Lst\" (--map); there are Date, Clock")
    );
    assert!(error_of(TICK, text, &mapped).contains("has no field \"note\" of one cell; map the column"));
    let needed = "message Tick { size: u32, note: string, more: i64 }";
    assert!(error_of(needed, text, &mapped).contains("no column is the field \"more\""));
    let dateless = TableOptions { date: Some("Day".into()), ..mapped.clone() };
    assert!(error_of(TICK, text, &dateless).contains("there is no column \"Day\" (--date-column)"));
    let unknown = TableOptions { zone: Some("Mars/Olympus".into()), ..mapped };
    assert!(error_of(TICK, text, &unknown).contains("--zone: "));
}

#[test]
fn names_of_the_header_are_fields_with_an_underscore() {
    let text = "local_timestamp,symbol,timestamp,Type,1m\n1582329602418379,A,1582329602111000,x,2\n";
    let options = TableOptions { time: "local_timestamp".into(), ..options() };
    let rows =
        read_as("message Tick { timestamp_: i64, type_: string, _1m: i64 }", text, &options, OnBadLine::Stop);
    let expected = vec![Value::Int(1_582_329_602_111_000), Value::Text("x".into()), Value::Int(2)];
    assert_eq!(rows.unwrap(), [(1_582_329_602_418_379_000, "A".into(), expected)]);
}

#[test]
fn a_schema_shows_in_the_first_rows() {
    let text = "time,symbol,Price,size,flag,seen,note,code,none\n2024-01-31T09:30:00Z,A,1.5,3,true,2024-01-31 10:00:00Z,x,7,\n\
        2024-01-31T09:30:01Z,A,2,,false,,1,007,\n";
    let (_folder, file) = file(text.as_bytes());
    let schema = infer_schema(&file, &options(), "Tick").unwrap().to_string();
    let fields = "price: decimal64?, size: i64?, flag: bool?, seen: timestamp?, note: string?, code: string?, none: string?,";
    assert_eq!(
        schema.split_whitespace().collect::<Vec<_>>().join(" "),
        format!("message Tick {{ {fields} }}")
    );
    let wrong = TableOptions { time: "note".into(), ..options() };
    let error = infer_schema(&file, &wrong, "Tick").unwrap_err().to_string();
    assert!(error.contains("line 2: expected a time such as"), "{error}");
}

#[test]
fn quotes_that_are_not_those_of_a_cell_swallow_no_rows() {
    let schema = "message Tick { note: string? }";
    let head = "time,symbol,note\n1706693400123,A,\"x, \"\"y\"\"\"\n1706693400124,A,";
    for (rest, expected) in [
        ("\"x\n1706693400125,A,y\n", "a quote that is not closed"),
        ("\"x\n1706693400125,A,\"y\n", "quotes that end before their cell does"),
        ("\"1\"5\n", "quotes that end before their cell does"),
    ] {
        let (_folder, file) = file(format!("{head}{rest}").as_bytes());
        let layouts = Layouts::new(schema.parse().unwrap()).unwrap();
        let mut rows = TableRows::open(&file, &options(), (&layouts, 0), OnBadLine::Skip(9)).unwrap();
        assert!(rows.next_row().unwrap().is_some());
        let error = rows.next_row().unwrap_err().to_string();
        assert!(error.contains("line 2: cannot read on") && error.contains(expected), "{error}");
    }
}

#[test]
fn columns_without_a_name_are_empty_or_refused() {
    let text = "time,symbol,,price,size,\n1706693400123,A,,1,2, \n";
    assert_eq!(read_as(TICK, text, &options(), OnBadLine::Stop).unwrap().len(), 1);
    let text = "time,symbol,,price,size\n1706693400123,A,0,1,2\n";
    assert!(
        error_of(TICK, text, &options()).starts_with(", line 2: expected nothing in a column without a name")
    );
    let left_out = TableOptions { renamed: vec![(String::new(), String::new())], ..options() };
    assert_eq!(read_as(TICK, text, &left_out, OnBadLine::Stop).unwrap().len(), 1);
}

#[test]
fn files_that_are_no_text_are_named() {
    assert!(error_of(TICK, "", &options()).ends_with("the file has no header"));
    let utf16: Vec<u8> = "time,symbol,price,size\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let (_folder, file) = file(&utf16);
    let error = infer_schema(&file, &options(), "Tick").unwrap_err().to_string();
    assert!(error.contains("perhaps in UTF-16"), "{error}");
}

#[test]
fn a_quote_that_is_not_closed_takes_bounded_memory() {
    let mut text = b"time,symbol,price,size\n1706693400123,\"A".to_vec();
    text.resize(64 << 20, b'x');
    let (_folder, file) = file(&text);
    let layouts = Layouts::new(TICK.parse().unwrap()).unwrap();
    let mut rows = TableRows::open(&file, &options(), (&layouts, 0), OnBadLine::Skip(9)).unwrap();
    let error = rows.next_row().unwrap_err().to_string();
    assert!(
        error.contains("line 1: cannot read on") && error.contains("a quote may not be closed"),
        "{error}"
    );
    assert!(rows.progress().0 < 8 << 20);
}

/// A value of the fields below, and its cell.
fn values() -> impl Strategy<Value = (Value, String)> {
    let decimal = (-9_999_999_999_999_999i64..=9_999_999_999_999_999, -20i32..10)
        .prop_map(|(coefficient, exponent)| Decimal64::from_parts(coefficient, exponent).unwrap());
    prop_oneof![
        decimal.prop_map(|value| (Value::Decimal(value), value.to_string())),
        Just((Value::Null, String::new())),
    ]
}

proptest! {
    /// Whatever a writer of CSV writes is read back equal: quotes, separators and line breaks in texts, numbers of all digits.
    #[test]
    fn what_is_written_is_read_back(
        rows in prop::collection::vec(
            (100_000_000_000_000_000i64..4_000_000_000_000_000_000, "[A-Z\u{e9} ,\"\n;]{0,8}[A-Z]", values(), any::<i64>(), "[ -~\n\r\u{20ac}]{0,12}"),
            1..20,
        )
    ) {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(["time", "symbol", "price", "size", "note"]).unwrap();
        for (time, symbol, price, size, note) in &rows {
            writer.write_record([&time.to_string(), &format!("A{symbol}"), &price.1, &size.to_string(), note]).unwrap();
        }
        let text = String::from_utf8(writer.into_inner().unwrap()).unwrap();
        let schema = "message Tick { price: decimal64?, size: i64, note: string }";
        let found = read_as(schema, &text, &options(), OnBadLine::Stop).unwrap();
        let expected: Vec<Row> = rows
            .into_iter()
            .map(|(time, symbol, price, size, note)| {
                (time, format!("A{symbol}"), vec![price.0, Value::Int(size), Value::Text(note)])
            })
            .collect();
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn bodies_are_those_of_the_record() {
    let layouts = Layouts::new(TICK.parse().unwrap()).unwrap();
    let value = RecordValue { type_id: 0, fields: vec![Value::Null, Value::Int(7)] };
    let mut body = Vec::new();
    layouts.encode(&value, &mut body).unwrap();
    let (_folder, file) = file(b"time,symbol,size\n1706693400123,A,7\n");
    let mut rows = TableRows::open(&file, &options(), (&layouts, 0), OnBadLine::Stop).unwrap();
    assert_eq!(rows.next_row().unwrap().unwrap().body, body);
    assert!(rows.next_row().unwrap().is_none());
    assert_eq!(rows.guessed_units().map(|unit| unit.symbol()).collect::<Vec<_>>(), ["ms"]);
}
