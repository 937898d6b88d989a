//! Streams to publish, and tables as another program reads them: the newest metadata, its manifests, their files.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, TimestampNanosecondType, UInt64Type};
use arrow_array::{Array, RecordBatch, StringArray};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use tapedb_arrow::{BatchReader, ReadOptions};
use tapedb_engine::{Database, Stream, StreamOptions};
use tapedb_publish::{
    Catalog, CatalogSettings, FolderCatalog, Metadata, Options, Published, Publisher, TableName, data_files,
};
use tapedb_schema::Timestamp;
use tempfile::TempDir;

/// Nanoseconds of a day, and one that begins with one.
pub const DAY: i64 = 86_400_000_000_000;
pub const FIRST: i64 = 19_000 * DAY;

pub const SCHEMA: &str = "message Bar { close: decimal64, volume: u64 } message Note { text: string }";

/// A database with a stream, and a folder for tables.
pub struct Fixture {
    pub folder: TempDir,
    pub db: Database,
    pub stream: Stream,
}

impl Fixture {
    pub fn new(schema: &str) -> Self {
        Self::with(schema, StreamOptions::default())
    }

    pub fn with(schema: &str, options: StreamOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let db = Database::open_without_maintenance(folder.path().join("db")).unwrap();
        let stream = db.create_stream("bars", schema.parse().unwrap(), options).unwrap();
        Self { folder, db, stream }
    }

    pub fn lake(&self) -> PathBuf {
        self.folder.path().join("lake")
    }

    pub fn settings(&self) -> CatalogSettings {
        format!("folder:{}", self.lake().display()).parse().unwrap()
    }

    pub fn publisher(&self, options: &Options) -> Publisher {
        Publisher::open(&self.db, &self.stream, "Bar", &name(), &self.settings(), options).unwrap()
    }

    /// Appends bars of three symbols, one each minute, and seals them.
    pub fn add(&self, count: usize, first: i64) {
        add(&self.stream, count, first);
        self.stream.seal().unwrap();
    }

    pub fn table(&self) -> Table {
        Table::read(&self.lake())
    }
}

pub fn name() -> TableName {
    "lake.bars".parse().unwrap()
}

/// Appends bars of three symbols, one each minute, and a note after every fourth.
pub fn add(stream: &Stream, count: usize, first: i64) {
    let mut loader = stream.loader().unwrap();
    for index in 0..count {
        let symbol = ["AIG", "BAC", "C"][index % 3];
        let time = Timestamp(first + index as i64 * 60_000_000_000);
        let close = format!("{}.{:02}", 10 + index % 7, index % 100);
        let bar = format!(r#"{{"$type": "Bar", "close": "{close}", "volume": {index}}}"#);
        loader.append_value(symbol, time, &stream.layouts().from_json(&bar).unwrap()).unwrap();
        if index % 4 == 3 && stream.schema().record("Note").is_some() {
            let note = stream.layouts().from_json(r#"{"$type": "Note", "text": "x"}"#).unwrap();
            loader.append_value(symbol, time, &note).unwrap();
        }
    }
    loader.close().unwrap();
}

/// Options whose files are as small as tests.
pub fn small() -> Options {
    Options { file_bytes: 1_000_000, memory_bytes: 1 << 24, row_group_rows: 1000, ..Options::default() }
}

/// Publishes all that is sealed.
pub fn publish(publisher: &mut Publisher) -> Vec<Published> {
    let mut all = Vec::new();
    while let Some(published) = publisher.step().unwrap() {
        all.push(published);
    }
    all
}

/// Symbol, time and sequence number of a row, and its volume.
pub type Row = (String, i64, u64, String);

/// A table as another program reads it.
pub struct Table {
    pub metadata: Metadata,
    pub batches: Vec<RecordBatch>,
    pub files: Vec<PathBuf>,
}

impl Table {
    pub fn read(lake: &Path) -> Self {
        Self::named(lake, &name())
    }

    pub fn named(lake: &Path, name: &TableName) -> Self {
        let catalog = FolderCatalog::open(lake.to_str().unwrap()).unwrap();
        Self::of(catalog.load(name).unwrap().unwrap().metadata)
    }

    pub fn of(metadata: Metadata) -> Self {
        Self::with(metadata, &path)
    }

    /// The same, where files are somewhere else than their URLs state.
    pub fn with(metadata: Metadata, path: &dyn Fn(&str) -> PathBuf) -> Self {
        let (mut batches, mut files) = (Vec::new(), Vec::new());
        for (url, rows) in data_files(&metadata).unwrap() {
            let file = path(&url);
            let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(&file).unwrap()).unwrap();
            let of_file: Vec<_> = reader.build().unwrap().map(Result::unwrap).collect();
            assert_eq!(of_file.iter().map(RecordBatch::num_rows).sum::<usize>() as u64, rows);
            batches.extend(of_file);
            files.push(file);
        }
        Self { metadata, batches, files }
    }

    pub fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        for batch in &self.batches {
            let column = |name: &str| batch.column_by_name(name).unwrap().clone();
            let symbols = texts(&column("symbol"));
            let (times, sequences) = (column("time_ns"), column("sequence"));
            let (times, sequences) =
                (times.as_primitive::<Int64Type>(), sequences.as_primitive::<Int64Type>());
            let volumes = batch.column_by_name("volume");
            for (row, symbol) in symbols.into_iter().enumerate() {
                let volume = volumes.map_or(String::new(), |array| shown(array, row));
                rows.push((symbol, times.value(row), sequences.value(row) as u64, volume));
            }
        }
        rows.sort_by_key(|row| row.2);
        rows
    }

    pub fn property(&self, key: &str) -> Option<&str> {
        self.metadata.property(key)
    }

    /// Up to where the table states that all is in it.
    pub fn sequence(&self) -> u64 {
        self.property("tapedb.sequences").unwrap().parse().unwrap()
    }

    /// Checks that the rows are the stream's messages below the stated number, each once.
    pub fn check(&self, stream: &Stream) {
        let end = self.sequence();
        let expected = bars(stream, end);
        let found = self.rows();
        let distinct: BTreeSet<u64> = found.iter().map(|row| row.2).collect();
        assert_eq!(distinct.len(), found.len(), "a message is there twice");
        assert_eq!(found.len(), expected.len(), "up to {end}");
        assert_eq!(found, expected);
        assert_eq!(self.property("tapedb.rows").unwrap(), found.len().to_string());
        if let Some(snapshot) = self.metadata.current_snapshot() {
            assert_eq!(snapshot.summary["total-records"], found.len().to_string());
        }
    }
}

/// The stream's bars below a sequence number.
pub fn bars(stream: &Stream, end: u64) -> Vec<Row> {
    let has_volume =
        stream.schema().record("Bar").unwrap().1.fields.iter().any(|field| field.name == "volume");
    let fields = if has_volume { vec!["volume".to_string()] } else { Vec::new() };
    let options = ReadOptions { sequences: true, fields: Some(fields), ..ReadOptions::default() };
    let cursor = stream.cursor().to_sequences([end]);
    let reader = BatchReader::open(std::slice::from_ref(stream), cursor, "Bar", &options).unwrap();
    let mut rows = Vec::new();
    for batch in reader {
        let batch = batch.unwrap();
        let (times, sequences) = (batch.column(0).as_primitive::<TimestampNanosecondType>(), batch.column(2));
        let sequences = sequences.as_primitive::<UInt64Type>();
        for (row, symbol) in texts(batch.column(1)).into_iter().enumerate() {
            let volume = batch.column_by_name("volume").map_or(String::new(), |array| shown(array, row));
            rows.push((symbol, times.value(row), sequences.value(row), volume));
        }
    }
    rows.sort_by_key(|row| row.2);
    rows
}

fn shown(array: &dyn Array, row: usize) -> String {
    arrow_cast::display::array_value_to_string(array, row).unwrap()
}

fn texts(array: &dyn Array) -> Vec<String> {
    if let Some(dictionary) = array.as_dictionary_opt::<Int32Type>() {
        let names = dictionary.downcast_dict::<StringArray>().unwrap();
        return (0..array.len())
            .map(|row| arrow_array::ArrayAccessor::value(&names, row).to_string())
            .collect();
    }
    (0..array.len()).map(|row| shown(array, row)).collect()
}

/// The path of a file that metadata names.
pub fn path(url: &str) -> PathBuf {
    PathBuf::from(url.strip_prefix("file://").unwrap())
}
