//! Arrow's IPC format as others send it: decoded, encoded as messages, and read back.

use crate::Target;
use crate::sample::SplitMix64;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, Decimal128Array, DictionaryArray, Float64Array, Int16Array, Int64Array,
    LargeStringArray, ListArray, RecordBatch, StringArray, StringViewArray, TimestampMicrosecondArray,
    TimestampNanosecondArray, UInt8Array,
};
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{DictionaryHandling, FileWriter, IpcWriteOptions, StreamWriter};
use arrow_schema::{DataType, TimeUnit};
use std::sync::Arc;
use tapedb_arrow::{AppendOptions, EncodedRows, RowEncoder};
use tapedb_arrow_ipc::{Decoder, Limits};
use tapedb_codec::dynamic::{Layouts, Value};
use tapedb_schema::Decimal64;

/// See the module.
pub const TARGET: Target = Target { name: "arrow_ipc", run, seed };

const LIMITS: Limits = Limits {
    metadata_bytes_max: 1 << 15,
    body_bytes_max: 1 << 16,
    rows_max: 1 << 16,
    expanded_bytes_max: 1 << 18,
};

const SCHEMA: &str = "enum Side { BUY = 1, SELL = 2 }
    message Tick { size: i32, price: decimal64, note: string?, side: Side, levels: array<u8> }";

/// The first byte says how the others are cut up. Rows that are encoded hold the values of their columns, read here in the
/// plainest way; a batch that is refused is refused with a reason.
pub fn run(input: &[u8]) {
    let (&cut, bytes) = input.split_first().unwrap_or((&0, &[]));
    let layouts = layouts();
    let options = AppendOptions { record: None, naive_is_utc: cut & 1 == 1 };
    let encoder = RowEncoder::new("s", &layouts, &options).expect("one message type");
    let mut decoder = Decoder::new(LIMITS);
    for mut piece in bytes.chunks(usize::from(cut) * 16 + 1) {
        loop {
            match decoder.decode(&mut piece) {
                Ok(Some(batch)) => check(&layouts, &encoder, &batch),
                Ok(None) => break,
                Err(error) => {
                    assert!(!error.what.is_empty() && decoder.finish().is_err());
                    return;
                }
            }
        }
        assert!(piece.is_empty() && decoder.pending() <= LIMITS.metadata_bytes_max + LIMITS.body_bytes_max);
    }
    if let Err(error) = decoder.finish() {
        assert!(!error.what.is_empty());
    }
}

fn layouts() -> Layouts {
    Layouts::new(SCHEMA.parse().expect("a schema")).expect("a schema that fits")
}

/// Encodes a batch, and compares each row that fits with the batch.
fn check(layouts: &Layouts, encoder: &RowEncoder, batch: &RecordBatch) {
    let columns = match encoder.columns(batch) {
        Ok(columns) => columns,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    assert_eq!(columns.len(), batch.num_rows());
    let mut rows = EncodedRows::default();
    while rows.rows().end < columns.len() {
        if let Err(error) = encoder.encode(&columns, rows.rows().end, &mut rows) {
            return assert!(error.to_string().contains("row"), "{error}");
        }
        assert!(!rows.rows().is_empty());
        for row in rows.rows() {
            header(&columns, batch, row);
            let record = layouts.decode(encoder.type_id(), rows.body(row)).expect("what was encoded");
            for (value, name) in record.fields.iter().zip(["size", "price", "note", "side", "levels"]) {
                let is_same = batch
                    .column_by_name(name)
                    .map_or(*value == Value::Null, |column| is_same(layouts, value, column, row));
                assert!(is_same, "{name}, row {row}: {value:?}, {batch:?}");
            }
        }
    }
}

/// Compares time and symbol, where they fit.
fn header(columns: &tapedb_arrow::BatchColumns, batch: &RecordBatch, row: usize) {
    if let (Ok(time), Some(column)) = (columns.time(row), batch.column_by_name("time")) {
        let data = column.to_data();
        if let DataType::Timestamp(unit, _) = column.data_type() {
            let factor = match unit {
                TimeUnit::Second => 1_000_000_000,
                TimeUnit::Millisecond => 1_000_000,
                TimeUnit::Microsecond => 1_000,
                TimeUnit::Nanosecond => 1,
            };
            assert_eq!(data.buffers()[0].typed_data::<i64>()[data.offset() + row] * factor, time);
        }
    }
    if let (Ok(symbol), Some(column)) = (columns.symbol(row), batch.column_by_name("symbol")) {
        assert_eq!(text(column, row), Some(symbol));
    }
}

/// Whether a value is that of a column at a row.
fn is_same(layouts: &Layouts, value: &Value, column: &ArrayRef, row: usize) -> bool {
    if let DataType::Dictionary(..) = column.data_type() {
        let dictionary = column.as_any_dictionary();
        if dictionary.is_null(row) {
            return *value == Value::Null;
        }
        let key = dictionary.normalized_keys()[row];
        return is_same(layouts, value, dictionary.values(), key);
    }
    if column.is_null(row) || *column.data_type() == DataType::Null {
        return *value == Value::Null;
    }
    match value {
        Value::Null => false,
        Value::Int(value) => number(column, row) == Some((*value).into()),
        Value::UInt(value) => number(column, row) == Some((*value).into()),
        Value::Decimal(value) => is_decimal(value, column, row),
        Value::Text(value) => text(column, row) == Some(value),
        Value::Enum(ordinal) => {
            let symbols = &layouts.schema().enums[0].symbols;
            text(column, row) == Some(symbols[usize::from(*ordinal)].0.as_str())
        }
        Value::Array(values) => {
            let items = match column.data_type() {
                DataType::List(_) => column.as_list::<i32>().value(row),
                DataType::LargeList(_) => column.as_list::<i64>().value(row),
                DataType::FixedSizeList(..) => column.as_fixed_size_list().value(row),
                _ => return false,
            };
            items.len() == values.len()
                && values.iter().enumerate().all(|(index, value)| is_same(layouts, value, &items, index))
        }
        other => panic!("the schema has no {other:?}"),
    }
}

/// The whole number of a column at a row.
fn number(column: &ArrayRef, row: usize) -> Option<i128> {
    let whole = |value: f64| (value.fract() == 0.0).then_some(value as i128);
    Some(match column.data_type() {
        DataType::Int8 => column.as_primitive::<Int8Type>().value(row).into(),
        DataType::Int16 => column.as_primitive::<Int16Type>().value(row).into(),
        DataType::Int32 => column.as_primitive::<Int32Type>().value(row).into(),
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).into(),
        DataType::UInt8 => column.as_primitive::<UInt8Type>().value(row).into(),
        DataType::UInt16 => column.as_primitive::<UInt16Type>().value(row).into(),
        DataType::UInt32 => column.as_primitive::<UInt32Type>().value(row).into(),
        DataType::UInt64 => column.as_primitive::<UInt64Type>().value(row).into(),
        DataType::Float32 => whole(column.as_primitive::<Float32Type>().value(row).into())?,
        DataType::Float64 => whole(column.as_primitive::<Float64Type>().value(row))?,
        _ => return decimal(column, row)?.to_scaled(0).ok().map(i128::from),
    })
}

/// The decimal of a column of decimals at a row, out of its text.
fn decimal(column: &ArrayRef, row: usize) -> Option<Decimal64> {
    let (units, scale) = match column.data_type() {
        DataType::Decimal128(_, scale) => (column.as_primitive::<Decimal128Type>().value(row), *scale),
        DataType::Decimal64(_, scale) => {
            (column.as_primitive::<arrow_array::types::Decimal64Type>().value(row).into(), *scale)
        }
        DataType::Decimal32(_, scale) => {
            (column.as_primitive::<arrow_array::types::Decimal32Type>().value(row).into(), *scale)
        }
        _ => return None,
    };
    Decimal64::parse_bytes(format!("{units}e{}", -i32::from(scale)).as_bytes()).ok()
}

fn is_decimal(value: &Decimal64, column: &ArrayRef, row: usize) -> bool {
    match column.data_type() {
        DataType::Float64 => value.to_f64() == column.as_primitive::<Float64Type>().value(row),
        DataType::Float32 => value.to_f64() as f32 == column.as_primitive::<Float32Type>().value(row),
        // Marked as the bits of a decimal.
        DataType::UInt64 if column.as_primitive::<UInt64Type>().value(row) == value.to_bits() => true,
        ty if ty.is_integer() => number(column, row)
            .and_then(|number| Decimal64::parse_bytes(number.to_string().as_bytes()).ok())
            .is_some_and(|number| number.numeric_eq(value)),
        _ => decimal(column, row).is_some_and(|found| found.numeric_eq(value)),
    }
}

fn text(column: &ArrayRef, row: usize) -> Option<&str> {
    match column.data_type() {
        DataType::Utf8 => Some(column.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => Some(column.as_string::<i64>().value(row)),
        DataType::Utf8View => Some(column.as_string_view().value(row)),
        DataType::Dictionary(..) => {
            let dictionary = column.as_any_dictionary();
            text(dictionary.values(), dictionary.normalized_keys()[row])
        }
        _ => None,
    }
}

/// Batches of columns that fit, of many types.
fn seed(number: u64) -> Vec<u8> {
    let mut random = SplitMix64::new(number);
    let kinds = random.next_u64();
    let batches: Vec<RecordBatch> = (0..1 + random.below(3)).map(|_| batch(kinds, &mut random)).collect();
    let compression = [None, Some(CompressionType::LZ4_FRAME)][random.below(2)];
    let options = IpcWriteOptions::default().try_with_compression(compression).expect("lz4 is there");
    let options = options.with_dictionary_handling(DictionaryHandling::Delta);
    let schema = batches[0].schema();
    let written = if random.once_in(3) {
        // A dictionary of a file grows, and is not replaced.
        FileWriter::try_new_with_options(Vec::new(), &schema, options).and_then(|mut writer| {
            writer.write(&batches[0])?;
            writer.into_inner()
        })
    } else {
        StreamWriter::try_new_with_options(Vec::new(), &schema, options).and_then(|mut writer| {
            batches.iter().try_for_each(|batch| writer.write(batch))?;
            writer.into_inner()
        })
    };
    let mut bytes = vec![random.next_u64() as u8];
    bytes.extend(written.expect("batches of one schema"));
    bytes
}

fn batch(kinds: u64, random: &mut SplitMix64) -> RecordBatch {
    let rows = random.below(20);
    let mut numbers = |below: usize| (0..rows).map(|_| random.below(below) as i64).collect::<Vec<_>>();
    let (times, sizes, prices) = (numbers(1 << 40), numbers(30_000), numbers(1 << 50));
    let (texts, lengths) = (numbers(4), numbers(4));
    let of = |names: [&str; 4]| texts.iter().map(|at| names[*at as usize].to_string()).collect::<Vec<_>>();
    let symbols = of(["A", "BC", "a longer symbol", "é"]);
    let notes = of(["", "short", "a note of more than twelve bytes", "x"]);
    let sides = of(["BUY", "SELL", "BUY", "BUY"]);
    let nullable = notes.iter().map(|note| (note != "x").then_some(note.as_str()));
    let dictionary = |texts: &[String]| {
        Arc::new(texts.iter().map(String::as_str).collect::<DictionaryArray<Int32Type>>()) as ArrayRef
    };
    let time: ArrayRef = match kinds & 1 {
        0 => Arc::new(TimestampNanosecondArray::from(times).with_timezone("UTC")),
        _ => Arc::new(TimestampMicrosecondArray::from(times).with_timezone("+02:00")),
    };
    let symbol: ArrayRef = match kinds >> 1 & 1 {
        0 => dictionary(&symbols),
        _ => Arc::new(StringViewArray::from_iter_values(&symbols)),
    };
    let size: ArrayRef = match kinds >> 2 & 1 {
        0 => Arc::new(Int64Array::from(sizes)),
        _ => Arc::new(Int16Array::from_iter_values(sizes.iter().map(|size| *size as i16))),
    };
    let price: ArrayRef = match kinds >> 3 & 1 {
        0 => Arc::new(Float64Array::from_iter_values(prices.iter().map(|units| *units as f64 / 1e4))),
        _ => Arc::new(Decimal128Array::from_iter_values(prices.iter().map(|units| i128::from(*units)))),
    };
    let note: ArrayRef = match kinds >> 4 & 1 {
        0 => Arc::new(nullable.collect::<StringArray>()),
        _ => Arc::new(nullable.collect::<LargeStringArray>()),
    };
    let side = dictionary(&sides);
    let lists = lengths.iter().map(|length| Some((0..*length as u8).map(Some)));
    let levels: ArrayRef = match kinds >> 5 & 1 {
        0 => Arc::new(ListArray::from_iter_primitive::<UInt8Type, _, _>(lists)),
        _ => {
            let pairs = UInt8Array::from_iter_values((0..2 * rows).map(|value| value as u8));
            let item = Arc::new(arrow_schema::Field::new("item", DataType::UInt8, false));
            Arc::new(arrow_array::FixedSizeListArray::new(item, 2, Arc::new(pairs), None))
        }
    };
    let columns = [
        ("time", time),
        ("symbol", symbol),
        ("size", size),
        ("price", price),
        ("note", note),
        ("side", side),
        ("levels", levels),
    ];
    RecordBatch::try_from_iter(columns).expect("columns of one length")
}
