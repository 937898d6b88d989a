//! Databases and batches of the tests.

use arrow_array::RecordBatch;
use tapedb_arrow::{AppendOptions, BatchAppender, BatchReader, Error, ReadOptions};
use tapedb_codec::dynamic::RecordValue;
use tapedb_engine::{Database, Stream, StreamOptions};
use tapedb_schema::{Schema, Timestamp};
use tempfile::TempDir;

/// A message: symbol, time, record.
pub type Message = (String, i64, RecordValue);

/// A new database with a stream `s`, and one `copy` of the same schema.
pub fn streams(schema: Schema) -> (TempDir, Database, Stream, Stream) {
    let directory = tempfile::tempdir().unwrap();
    let db = Database::open_without_maintenance(directory.path().join("db")).unwrap();
    let stream = db.create_stream("s", schema.clone(), StreamOptions::default()).unwrap();
    let copy = db.create_stream("copy", schema, StreamOptions::default()).unwrap();
    (directory, db, stream, copy)
}

/// A stream of a schema as text, with messages as JSON, one a line; the n-th has symbol `A` or `B` and time n.
pub fn with_messages(schema: &str, messages: &str) -> (TempDir, Database, Stream, Stream) {
    let (directory, db, stream, copy) = streams(schema.parse().unwrap());
    let mut loader = stream.loader().unwrap();
    for (time, line) in messages.lines().map(str::trim).filter(|line| !line.is_empty()).enumerate() {
        let value = stream.layouts().from_json(line).unwrap();
        loader.append_value(["A", "B"][time % 2], Timestamp(time as i64), &value).unwrap();
    }
    loader.close().unwrap();
    (directory, db, stream, copy)
}

pub fn read(stream: &Stream, record: &str, options: &ReadOptions) -> Result<Vec<RecordBatch>, Error> {
    let mut reader = BatchReader::open(std::slice::from_ref(stream), stream.cursor(), record, options)?;
    let mut batches = Vec::new();
    while let Some(batch) = reader.next_batch()? {
        assert!((1..=tapedb_arrow::BATCH_ROWS_MAX).contains(&batch.num_rows()));
        batches.push(batch);
    }
    Ok(batches)
}

/// An appender of messages of one type.
pub fn appender(stream: &Stream, record: &str) -> BatchAppender {
    let options = AppendOptions { record: Some(record.into()), naive_is_utc: false };
    BatchAppender::new(stream, stream.loader().unwrap(), options).unwrap()
}

/// All messages of a stream in time order, of one type.
pub fn messages(stream: &Stream, record: &str) -> Vec<Message> {
    let mut cursor = stream.cursor().types([record]).open().unwrap();
    let mut found = Vec::new();
    while let Some(message) = cursor.next().unwrap() {
        let value = message.record().unwrap();
        let mut owned = RecordValue::default();
        owned.assign(value);
        found.push((message.symbol().to_string(), message.time().0, owned));
    }
    found
}
