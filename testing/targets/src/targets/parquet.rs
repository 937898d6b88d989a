//! Parquet files as others send them: opened, read, encoded as messages.

use crate::Target;
use crate::sample::SplitMix64;
use arrow_array::types::{Float64Type, Int32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int32Array, Int64Array, ListArray,
    RecordBatch, StringArray, StructArray, TimestampNanosecondArray,
};
use arrow_schema::{DataType, Field};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, GzipLevel, ZstdLevel};
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::schema::types::ColumnPath;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tapedb_arrow::{AppendOptions, RowEncoder};
use tapedb_codec::dynamic::Layouts;
use tapedb_parquet::{Merge, ParquetFile, Source, infer};

/// See the module.
pub const TARGET: Target = Target { name: "parquet", run, seed };

const SCHEMA: &str = "record Level { price: f64?, size: i32 }
    message M { n: i64?, t: string?, f: f64, b: bool?, l: array<i64?>, s: record<Level>? }";

/// Batches and messages that are read of a file: a few bytes may stand for a thousand million rows.
const BATCHES_MAX: usize = 16;
const ROWS_MAX: usize = 20_000;

/// Most bytes of a batch, whatever a small file states: 8,192 rows, of 64 MiB as pages state it, and as much again for what they do not.
const BATCH_BYTES_MAX: usize = 256 << 20;

thread_local! {
    static FILE: RefCell<Option<PathBuf>> = const { RefCell::new(None) };
}

/// Whatever the bytes: rows, or an error that names the file.
pub fn run(input: &[u8]) {
    let path = FILE.with_borrow_mut(|file| {
        let thread = std::thread::current().id();
        let name = format!("tapedb-{}-{thread:?}.parquet", std::process::id());
        file.get_or_insert_with(|| std::env::temp_dir().join(name)).clone()
    });
    std::fs::write(&path, input).expect("a directory for temporary files");
    let read = read(&path).and_then(|file| messages(&path, file));
    std::fs::remove_file(&path).expect("it has just been written");
    if let Err(error) = read {
        assert!(error.path == path && !error.what.is_empty(), "{error}");
    }
}

fn read(path: &Path) -> Result<ParquetFile, tapedb_parquet::Error> {
    let file = ParquetFile::open(path)?;
    assert_eq!(file.path(), path);
    let _ = (
        file.rows(),
        file.origin(),
        file.earliest("time"),
        infer::schema(file.schema(), "M", "time", "symbol"),
    );
    let mut rows = 0;
    for batch in file.batches()?.take(BATCHES_MAX) {
        let batch = batch?;
        let bytes = batch.get_array_memory_size();
        assert!(bytes <= BATCH_BYTES_MAX, "{bytes} bytes of {} rows", batch.num_rows());
        rows += batch.num_rows() as u64;
    }
    assert!(rows <= file.rows(), "{rows} rows of {}", file.rows());
    Ok(file)
}

fn messages(path: &Path, file: ParquetFile) -> Result<(), tapedb_parquet::Error> {
    let layouts = Layouts::new(SCHEMA.parse().expect("a schema")).expect("a schema that fits");
    let options = AppendOptions { record: Some("M".into()), naive_is_utc: true };
    let encoder = RowEncoder::new("s", &layouts, &options).expect("one message type");
    let mut merge =
        Merge::new(vec![Source { file: file.into(), encoder, time: "time".into(), symbol: "symbol".into() }]);
    for _ in 0..ROWS_MAX {
        let Some(row) = merge.next()? else { break };
        assert!(row.type_id == layouts.schema().record("M").map_or(0, |(id, _)| id));
        layouts.check(row.type_id, row.body).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
    Ok(())
}

/// Files of rows that fit, in every compression and encoding.
fn seed(number: u64) -> Vec<u8> {
    let mut random = SplitMix64::new(number);
    let codec = [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(GzipLevel::default()),
        Compression::LZ4,
        Compression::LZ4_RAW,
        Compression::ZSTD(ZstdLevel::default()),
    ][random.below(6)];
    let version = [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0][random.below(2)];
    let texts = [
        None,
        Some(Encoding::PLAIN),
        Some(Encoding::DELTA_LENGTH_BYTE_ARRAY),
        Some(Encoding::DELTA_BYTE_ARRAY),
    ];
    let properties = WriterProperties::builder()
        .set_compression(codec)
        .set_writer_version(version)
        .set_dictionary_enabled(random.once_in(2))
        .set_data_page_row_count_limit(1 + random.below(20))
        .set_write_batch_size(5)
        .set_max_row_group_row_count(Some(1 + random.below(30)));
    let properties = match texts[random.below(4)] {
        Some(encoding) => properties.set_column_encoding(ColumnPath::from("t"), encoding),
        None => properties,
    };
    let batch = batch(&mut random);
    let writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties.build()));
    let written = writer.and_then(|mut writer| {
        writer.write(&batch)?;
        writer.into_inner()
    });
    written.expect("rows of one schema")
}

fn batch(random: &mut SplitMix64) -> RecordBatch {
    let rows = random.below(40);
    let mut numbers = |below: usize| (0..rows).map(|_| random.below(below) as i64).collect::<Vec<_>>();
    let (times, values, picks, lengths) = (numbers(1 << 40), numbers(1 << 50), numbers(4), numbers(4));
    let is_there = |row: usize| picks[row] != 3;
    let text =
        |row: usize| ["", "short", "a text that is longer than twelve bytes", "x"][picks[row] as usize];
    let symbols = (0..rows).map(|row| ["A", "BC", "a longer symbol", "é"][lengths[row] as usize]);
    let floats = || (0..rows).map(|row| values[row] as f64 / 1e4);
    let lists = (0..rows).map(|row| Some((0..lengths[row]).map(|item| (item != 1).then_some(item))));
    let level: Vec<(Arc<Field>, ArrayRef)> = vec![
        (
            Arc::new(Field::new("price", DataType::Float64, true)),
            Arc::new(Float64Array::from_iter(floats().map(|value| (value > 1e9).then_some(value)))),
        ),
        (
            Arc::new(Field::new("size", DataType::Int32, false)),
            Arc::new(Int32Array::from_iter_values(picks.iter().map(|pick| *pick as i32))),
        ),
    ];
    let columns: [(&str, ArrayRef); 8] = [
        ("time", Arc::new(TimestampNanosecondArray::from(times).with_timezone("UTC"))),
        ("symbol", Arc::new(symbols.collect::<DictionaryArray<Int32Type>>())),
        ("n", Arc::new(Int64Array::from_iter((0..rows).map(|row| is_there(row).then_some(values[row]))))),
        ("t", Arc::new(StringArray::from_iter((0..rows).map(|row| is_there(row).then(|| text(row)))))),
        ("f", Arc::new(floats().map(Some).collect::<arrow_array::PrimitiveArray<Float64Type>>())),
        ("b", Arc::new(BooleanArray::from_iter((0..rows).map(|row| is_there(row).then_some(row % 2 == 0))))),
        ("l", Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists))),
        ("s", Arc::new(StructArray::from(level))),
    ];
    let batch = RecordBatch::try_from_iter(columns).expect("columns of one length");
    debug_assert_eq!(batch.column(0).len(), rows);
    batch
}
