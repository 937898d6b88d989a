//! Databases and files of the tests.

use std::path::{Path, PathBuf};
use tapedb_arrow::{AppendOptions, BatchReader, Decimals, ReadOptions, RowEncoder};
use tapedb_codec::dynamic::RecordValue;
use tapedb_engine::{Database, Stream, StreamOptions};
use tapedb_parquet::{FileWriter, Merge, Origin, ParquetFile, Source, WriteOptions, Written};
use tapedb_schema::{Schema, Timestamp};
use tapedb_testing::sample::SplitMix64;
use tapedb_testing::values::Values;
use tempfile::TempDir;

/// A new database with a stream `s`, and one `copy` of the same schema.
pub fn streams(schema: Schema) -> (TempDir, Stream, Stream) {
    let directory = tempfile::tempdir().unwrap();
    let db = Database::open_without_maintenance(directory.path().join("db")).unwrap();
    let stream = db.create_stream("s", schema.clone(), StreamOptions::default()).unwrap();
    let copy = db.create_stream("copy", schema, StreamOptions::default()).unwrap();
    (directory, stream, copy)
}

/// Appends random messages of all message types; four in a row have the same time.
pub fn fill(stream: &Stream, seed: u64, count: usize) {
    let layouts = stream.layouts();
    let types: Vec<u16> = layouts.records().iter().filter(|r| r.message).map(|r| r.type_id).collect();
    let mut values = Values::new(layouts, seed);
    let mut random = SplitMix64::new(seed);
    let mut loader = stream.loader().unwrap();
    let mut record = RecordValue::default();
    for number in 0..count {
        values.fill(types[random.below(types.len())], &mut record);
        let symbol = ["A", "é", "long symbol name"][random.below(3)];
        loader.append_value(symbol, Timestamp(number as i64 / 4), &record).unwrap();
    }
    loader.close().unwrap();
}

/// Writes each message type losslessly into a file of its own; returns the files.
pub fn export(stream: &Stream, folder: &Path, options: &WriteOptions) -> Vec<(PathBuf, Written)> {
    let read = ReadOptions {
        decimals: Decimals::Raw,
        sequences: true,
        in_time_order: true,
        ..ReadOptions::default()
    };
    let mut files = Vec::new();
    for record in stream.layouts().records().iter().filter(|record| record.message) {
        let streams = std::slice::from_ref(stream);
        let mut reader = BatchReader::open(streams, stream.cursor(), &record.name, &read).unwrap();
        let origin = Origin {
            stream: stream.name().into(),
            schema: stream.schema().to_string(),
            record: record.name.clone(),
            decimals: "raw".into(),
            sequences: true,
        };
        let path = folder.join(format!("{}.parquet", record.name));
        let schema = arrow_array::RecordBatchReader::schema(&reader);
        let mut writer = FileWriter::create(&path, &schema, &origin, options).unwrap();
        assert!(!path.exists());
        while let Some(batch) = reader.next_batch().unwrap() {
            writer.write(&batch).unwrap();
        }
        files.push((path, writer.finish().unwrap()));
    }
    files
}

/// Appends the rows of files to a stream.
pub fn import(stream: &Stream, files: &[PathBuf]) {
    let source = |path: &PathBuf| {
        let file = ParquetFile::open(path).unwrap();
        let origin = file.origin().unwrap();
        assert_eq!(origin.schema.parse::<Schema>().unwrap(), *stream.schema());
        let options = AppendOptions { record: Some(origin.record.clone()), naive_is_utc: false };
        let encoder = RowEncoder::new(stream.name(), stream.layouts(), &options).unwrap();
        Source { file: file.into(), encoder, time: "time".into(), symbol: "symbol".into() }
    };
    let mut merge = Merge::new(files.iter().map(source).collect());
    let mut loader = stream.loader().unwrap();
    while let Some(row) = merge.next().unwrap() {
        loader.append_body(row.symbol, Timestamp(row.time), row.type_id, row.body).unwrap();
    }
    loader.close().unwrap();
}

/// All messages in the order of the cursor: symbol, time, type, body.
pub fn messages(stream: &Stream) -> Vec<(String, i64, u16, Vec<u8>)> {
    let mut cursor = stream.cursor().open().unwrap();
    let mut found = Vec::new();
    while let Some(message) = cursor.next().unwrap() {
        let symbol = message.symbol().to_string();
        found.push((symbol, message.time().0, message.type_id(), message.body().to_vec()));
    }
    found
}
