//! Files that are damaged: errors, never a panic.

use crate::support::{export, fill, streams};
use arrow_array::{ArrayRef, Int64Array, ListArray, RecordBatch, StringArray, TimestampNanosecondArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType, Field};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use tapedb_arrow::{AppendOptions, RowEncoder};
use tapedb_engine::Stream;
use tapedb_parquet::{Merge, ParquetFile, Source, WriteOptions};
use tapedb_testing::sample::SplitMix64;

const SCHEMA: &str = "enum Side { BUY = 1, SELL = 2 } record Level { price: decimal64, size: u32? }
    message Book { side: Side, note: string?, levels: array<record<Level>> }";

/// Reads all rows; returns how many, or what is wrong.
fn read(path: &Path, stream: &Stream) -> Result<usize, String> {
    let file = ParquetFile::open(path).map_err(|error| error.to_string())?;
    let options = AppendOptions { record: Some("Book".into()), naive_is_utc: false };
    let encoder = RowEncoder::new("s", stream.layouts(), &options).unwrap();
    let source = Source { file: file.into(), encoder, time: "time".into(), symbol: "symbol".into() };
    let mut merge = Merge::new(vec![source]);
    let mut rows = 0;
    while merge.next().map_err(|error| error.to_string())?.is_some() {
        rows += 1;
    }
    Ok(rows)
}

#[test]
fn every_truncation_is_an_error() {
    let (directory, stream, _) = streams(SCHEMA.parse().unwrap());
    fill(&stream, 3, 50);
    let (path, _) = export(&stream, directory.path(), &WriteOptions::default()).remove(0);
    assert_eq!(read(&path, &stream), Ok(50));
    let bytes = std::fs::read(&path).unwrap();
    let cut = directory.path().join("cut.parquet");
    for length in (0..bytes.len()).step_by(7) {
        std::fs::write(&cut, &bytes[..length]).unwrap();
        let error = read(&cut, &stream).unwrap_err();
        assert!(error.contains("cut.parquet") && error.contains("no"), "{error}");
    }
}

#[test]
fn changed_bytes_are_errors_or_other_values() {
    let (directory, stream, _) = streams(SCHEMA.parse().unwrap());
    fill(&stream, 4, 50);
    let (path, _) = export(&stream, directory.path(), &WriteOptions::default()).remove(0);
    let bytes = std::fs::read(&path).unwrap();
    let changed_path = directory.path().join("changed.parquet");
    let mut random = SplitMix64::new(5);
    let mut errors = 0;
    for _ in 0..1500 {
        let mut changed = bytes.clone();
        // Most of them in the footer, which has all lengths.
        let from = if random.once_in(3) { 0 } else { bytes.len() / 2 };
        let at = from + random.below(bytes.len() - from);
        changed[at] = [0, 1, 0x7f, 0x80, 0xff, random.next_u64() as u8][random.below(6)];
        std::fs::write(&changed_path, &changed).unwrap();
        errors += usize::from(read(&changed_path, &stream).is_err());
    }
    assert!(errors > 100, "{errors}");
}

/// Writes a file of these rows, of which `of_rows` makes a column `x`.
fn write(path: &Path, rows: usize, of_rows: ArrayRef) {
    let times = TimestampNanosecondArray::from_iter_values(0..rows as i64).with_timezone("UTC");
    let symbols = StringArray::from_iter_values(std::iter::repeat_n("A", rows));
    let columns =
        [("time", Arc::new(times) as ArrayRef), ("symbol", Arc::new(symbols) as ArrayRef), ("x", of_rows)];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let properties = WriterProperties::builder().set_dictionary_page_size_limit(16 << 20).build();
    let mut writer =
        ArrowWriter::try_new(File::create(path).unwrap(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

/// Bytes of the largest batch of a file, and its rows.
fn largest(path: &Path) -> (usize, usize) {
    let batches = ParquetFile::open(path).unwrap().batches().unwrap().map(Result::unwrap);
    let sizes = batches.map(|batch| (batch.get_array_memory_size(), batch.num_rows()));
    sizes.max().unwrap()
}

/// The file has the text once, and each row a number that names it.
#[test]
fn a_long_text_that_rows_share_takes_no_more_memory_than_it_has() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shared.parquet");
    let rows = 2_000;
    let text = "x".repeat(100_000);
    let keys = arrow_array::Int32Array::from(vec![0; rows]);
    let texts = Arc::new(StringArray::from(vec![text.as_str()]));
    write(&path, rows, Arc::new(arrow_array::DictionaryArray::new(keys, texts)));
    assert!(path.metadata().unwrap().len() < 300_000);
    let (bytes, _) = largest(&path);
    assert!(bytes < 8 << 20, "{bytes}");
}

#[test]
fn lists_of_many_items_are_read_few_rows_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("lists.parquet");
    let (rows, items) = (500, 40_000);
    let field = Arc::new(Field::new_list_field(DataType::Int64, false));
    let offsets = OffsetBuffer::from_repeated_length(items, rows);
    let values = Arc::new(Int64Array::from(vec![7; rows * items]));
    write(&path, rows, Arc::new(ListArray::new(field, offsets, values, None)));
    assert!(path.metadata().unwrap().len() < 300_000);
    let (bytes, rows) = largest(&path);
    assert!(bytes < 200 << 20 && (100..300).contains(&rows), "{bytes} bytes of {rows} rows");
}
