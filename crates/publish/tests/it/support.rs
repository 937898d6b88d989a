//! Streams to publish, and tables as another program reads them: the newest metadata, its manifests, their files.

use crate::delta_log::DeltaLog;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, TimestampNanosecondType, UInt64Type};
use arrow_array::{Array, RecordBatch, StringArray};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use tapedb_arrow::{BatchReader, ReadOptions};
use tapedb_engine::{Database, Stream, StreamOptions};
use tapedb_publish::{
    Catalog, CatalogSettings, FolderCatalog, Metadata, Options, Published, Publisher, TableName, Target,
    data_files,
};
use tapedb_schema::Timestamp;
use tempfile::TempDir;

/// Nanoseconds of a day, and one that begins with one.
pub const DAY: i64 = 86_400_000_000_000;
pub const FIRST: i64 = 19_000 * DAY;

pub const SCHEMA: &str = "message Bar { close: decimal64, volume: u64 } message Note { text: string }";

/// A format of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Iceberg,
    Delta,
}

/// Makes a test of each function, for each format.
macro_rules! in_each_format {
    ($($name:ident),* $(,)?) => {
        mod iceberg {
            $(#[test] fn $name() { super::$name($crate::support::Kind::Iceberg) })*
        }
        mod delta {
            $(#[test] fn $name() { super::$name($crate::support::Kind::Delta) })*
        }
    };
}
pub(crate) use in_each_format;

/// A database with a stream, and a folder for tables.
pub struct Fixture {
    pub kind: Kind,
    pub folder: TempDir,
    pub db: Database,
    pub stream: Stream,
}

impl Fixture {
    pub fn new(schema: &str) -> Self {
        Self::of(Kind::Iceberg, schema)
    }

    pub fn of(kind: Kind, schema: &str) -> Self {
        Self::with(kind, schema, StreamOptions::default())
    }

    pub fn with(kind: Kind, schema: &str, options: StreamOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let db = Database::open_without_maintenance(folder.path().join("db")).unwrap();
        let stream = db.create_stream("bars", schema.parse().unwrap(), options).unwrap();
        Self { kind, folder, db, stream }
    }

    pub fn lake(&self) -> PathBuf {
        self.folder.path().join("lake")
    }

    pub fn settings(&self) -> CatalogSettings {
        format!("folder:{}", self.lake().display()).parse().unwrap()
    }

    pub fn target(&self) -> Target {
        match self.kind {
            Kind::Iceberg => iceberg(&self.settings()),
            Kind::Delta => Target::delta(self.lake().to_str().unwrap()).unwrap(),
        }
    }

    pub fn publisher(&self, options: &Options) -> Publisher {
        Publisher::open(&self.db, &self.stream, "Bar", &self.target(), options).unwrap()
    }

    /// Appends bars of three symbols, one each minute, and seals them.
    pub fn add(&self, count: usize, first: i64) {
        add(&self.stream, count, first);
        self.stream.seal().unwrap();
    }

    pub fn table(&self) -> Table {
        match self.kind {
            Kind::Iceberg => Table::read(&self.lake()),
            Kind::Delta => Table::delta(&self.lake()).unwrap(),
        }
    }
}

/// The table of a catalogue.
pub fn iceberg(settings: &CatalogSettings) -> Target {
    Target::Iceberg { name: name(), catalog: settings.clone() }
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
    properties: BTreeMap<String, String>,
    pub columns: Vec<String>,
    /// The number of rows that the format states.
    stated_rows: Option<u64>,
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
        let named =
            data_files(&metadata).unwrap().into_iter().map(|(url, rows)| (path(&url), rows)).collect();
        let properties = ["sequences", "rows", "stale"].map(|key| format!("tapedb.{key}"));
        let property = |key: String| Some((key.clone(), metadata.property(&key)?.to_string()));
        let rows =
            metadata.current_snapshot().map(|snapshot| snapshot.summary["total-records"].parse().unwrap());
        Self::of_files(named, properties.into_iter().filter_map(property).collect(), metadata.columns(), rows)
    }

    /// A table of Delta; `None`: there is none.
    pub fn delta(table: &Path) -> Option<Self> {
        let log = DeltaLog::read(table)?;
        let rows = |file: &serde_json::Value| {
            let stats: serde_json::Value = serde_json::from_str(file["stats"].as_str().unwrap()).unwrap();
            stats["numRecords"].as_u64().unwrap()
        };
        let files = log.files.iter().map(|(path, file)| (table.join(path), rows(file))).collect();
        Some(Self::of_files(files, log.properties(), log.columns(), Some(log.rows())))
    }

    fn of_files(
        named: Vec<(PathBuf, u64)>,
        properties: BTreeMap<String, String>,
        columns: Vec<String>,
        stated_rows: Option<u64>,
    ) -> Self {
        let (mut batches, mut files) = (Vec::new(), Vec::new());
        for (file, rows) in named {
            let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(&file).unwrap()).unwrap();
            let of_file: Vec<_> = reader.build().unwrap().map(Result::unwrap).collect();
            assert_eq!(of_file.iter().map(RecordBatch::num_rows).sum::<usize>() as u64, rows);
            batches.extend(of_file);
            files.push(file);
        }
        Self { properties, columns, stated_rows, batches, files }
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
        self.properties.get(key).map(String::as_str)
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
        assert!(self.stated_rows.is_none_or(|rows| rows == found.len() as u64));
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
