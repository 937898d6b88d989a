//! Tables of any origin. The bytes are the rows behind a header, or the whole file; of rows without quotes a second, simple reader says
//! which have to be read, and what is in them.

use super::importers::Folder;
use crate::Target;
use tapedb_codec::dynamic::{Layouts, Value};
use tapedb_schema::{Decimal64, TimeUnit};
use tapedb_venue::{ImportError, OnBadLine, TableOptions, TableRows, TableSymbol, find_tables, infer_schema};

/// See the module.
pub const TARGET: Target = Target { name: "tables", run, seed };

const HEADER: &str = "time,symbol,price,size,note\n";
const SCHEMA: &str = "message Tick { price: decimal64?, size: i64?, note: string }";

#[derive(Debug, PartialEq)]
struct Row {
    time: i64,
    symbol: String,
    price: Option<Decimal64>,
    size: Option<i64>,
    note: String,
}

/// Any bytes give rows, or an error that says where. Rows that the second reader understands are read as it reads them, in order, and
/// nothing else is read.
pub fn run(input: &[u8]) {
    let [choice, bytes @ ..] = input else { return };
    let whole = choice & 1 != 0;
    let file = if whole { bytes.to_vec() } else { [HEADER.as_bytes(), bytes].concat() };
    let unit = if choice & 2 == 0 { Some(TimeUnit::Nanos) } else { None };
    let options = TableOptions {
        time: "time".into(),
        date: None,
        time_unit: unit,
        zone: (choice & 4 != 0).then(|| "America/New_York".into()),
        symbol: TableSymbol::Column("symbol".into()),
        renamed: Vec::new(),
        columns: None,
        delimiter: b',',
    };
    let _ = rows(&file, &options, OnBadLine::Stop).map_err(|error| assert!(!error.to_string().is_empty()));
    let found = rows(&file, &options, OnBadLine::Skip(u64::MAX));
    // A carriage return ends a row too, but not for the second reader.
    let is_simple = !whole && unit.is_some() && !bytes.iter().any(|byte| matches!(byte, b'"' | b'\r'));
    if !is_simple {
        return;
    }
    let mut found = found.expect("every row ends").into_iter().peekable();
    for line in bytes.split(|byte| *byte == b'\n') {
        let expected = understood(line);
        if expected.is_some() {
            assert_eq!(found.next(), expected, "{:?}", String::from_utf8_lossy(line));
        } else if found.peek().is_some_and(|row| may_be(line, row)) {
            found.next();
        }
    }
    assert_eq!(found.next(), None);
}

fn rows(file: &[u8], options: &TableOptions, on_bad_line: OnBadLine) -> Result<Vec<Row>, ImportError> {
    let folder = Folder::new();
    let path = folder.path().join("ticks.csv");
    std::fs::write(&path, file).expect("a temporary file can be written");
    let table = find_tables(&[&path])?.remove(0);
    if let Ok(schema) = infer_schema(&table, options, "Row") {
        let layouts = Layouts::new(schema).expect("an inferred schema is valid");
        let _ = all(TableRows::open(&table, options, (&layouts, 0), on_bad_line)?, |_, _, _| ());
    }
    let layouts = Layouts::new(SCHEMA.parse().expect("a schema")).expect("a valid schema");
    all(TableRows::open(&table, options, (&layouts, 0), on_bad_line)?, |time, symbol, body| {
        let fields = layouts.decode(0, body).expect("a body of the record").fields;
        let [price, size, Value::Text(note)] = &fields[..] else { panic!("{fields:?}") };
        let price = if let Value::Decimal(price) = price { Some(*price) } else { None };
        let size = if let Value::Int(size) = size { Some(*size) } else { None };
        Row { time, symbol: symbol.into(), price, size, note: note.clone() }
    })
}

fn all<T>(mut rows: TableRows, make: impl Fn(i64, &str, &[u8]) -> T) -> Result<Vec<T>, ImportError> {
    let mut found = Vec::new();
    while let Some(row) = rows.next_row()? {
        assert!(!row.symbol.is_empty());
        found.push(make(row.time.nanos(), row.symbol, row.body));
    }
    Ok(found)
}

/// A row of the plainest cells, which has to be read.
fn understood(line: &[u8]) -> Option<Row> {
    let cells: Vec<&str> = std::str::from_utf8(line).ok()?.split(',').collect();
    let [time, symbol, price, size, note] = cells[..] else { return None };
    let is_digits =
        |text: &str| (1..=15).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_known = is_digits(time)
        && (1..=8).contains(&symbol.len())
        && symbol.bytes().all(|byte| byte.is_ascii_uppercase())
        && (price.is_empty() || is_digits(price))
        && (size.is_empty() || is_digits(size));
    is_known.then(|| Row {
        time: time.parse().expect("digits"),
        symbol: symbol.into(),
        price: price
            .parse::<u64>()
            .ok()
            .map(|price| Decimal64::from_parts(price as i64, 0).expect("15 digits")),
        size: size.parse().ok(),
        note: note.into(),
    })
}

/// Whether a line that is not of the plainest cells may give this row: what is read is in it.
fn may_be(line: &[u8], row: &Row) -> bool {
    let Ok(text) = std::str::from_utf8(line) else { return false };
    let cells: Vec<&str> = text.split(',').collect();
    let [_, symbol, price, size, note] = cells[..] else { return false };
    symbol.trim_ascii() == row.symbol
        && price.is_empty() == row.price.is_none()
        && size.trim_ascii().parse().ok() == row.size
        && note == row.note
}

fn seed(number: u64) -> Vec<u8> {
    let mut bytes = vec![(number % 8) as u8];
    if number % 2 == 1 {
        bytes.extend(HEADER.as_bytes());
    }
    let times = ["1700000000000000000", "2024-01-31T09:30:00.5Z", "1700000000123", "20240131 09:30:00", "77"];
    for at in 0..=number % 4 {
        let time = times[(number + at) as usize % times.len()];
        let price = ["1.25", "", "7", "1.28E7", "-0.001"][(number / 3 + at) as usize % 5];
        bytes.extend(format!("{time},S{at},{price},{},\"a, b\"\n{at},AB,1,,x\n", number * 77).bytes());
    }
    bytes
}
