//! Databases to be queried, and rows as text.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use tapedb_engine::{Database, Stream, StreamOptions};
use tapedb_query::arrow::array::RecordBatch;
use tapedb_query::arrow::util::display::{ArrayFormatter, FormatOptions};
use tapedb_query::{Error, Options, Rows, Sql};
use tapedb_schema::Timestamp;
use tempfile::TempDir;

/// A database of its own.
pub struct Place {
    pub db: Database,
    _directory: TempDir,
}

impl Place {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let db = Database::open_without_maintenance(directory.path().join("db")).unwrap();
        Self { db, _directory: directory }
    }

    /// A stream with messages as JSON: time, symbol, message.
    pub fn stream(&self, name: &str, schema: &str, messages: &[(i64, &str, &str)]) -> Stream {
        let stream = self.db.create_stream(name, schema.parse().unwrap(), StreamOptions::default()).unwrap();
        append(&stream, messages);
        stream
    }

    pub fn sql(&self) -> Sql {
        Sql::new(&self.db).unwrap()
    }

    pub fn sql_with(&self, options: Options) -> Sql {
        Sql::with_options(&self.db, options).unwrap()
    }

    /// The rows of a query as text: columns separated by `|`.
    pub fn rows(&self, query: &str) -> Vec<String> {
        rows_of(self.sql().query(query).unwrap_or_else(|error| panic!("{query}: {error}"))).unwrap()
    }

    /// The error of a query, whenever it comes.
    pub fn error(&self, query: &str) -> Error {
        match self.sql().query(query).and_then(rows_of) {
            Ok(rows) => panic!("{query}: {rows:?}"),
            Err(error) => error,
        }
    }

    /// The plan of a query.
    pub fn plan(&self, query: &str) -> String {
        let rows = self.rows(&format!("EXPLAIN {query}"));
        rows.into_iter().find(|row| row.starts_with("physical_plan")).expect("a physical plan")
    }
}

pub fn append(stream: &Stream, messages: &[(i64, &str, &str)]) {
    let mut loader = stream.loader().unwrap();
    for (time, symbol, message) in messages {
        let value = stream.layouts().from_json(message).unwrap();
        loader.append_value(symbol, Timestamp(*time), &value).unwrap();
    }
    loader.close().unwrap();
}

pub fn rows_of(mut rows: Rows) -> Result<Vec<String>, Error> {
    let mut lines = Vec::new();
    while let Some(batch) = rows.next_batch()? {
        lines.extend(lines_of(&batch));
    }
    Ok(lines)
}

pub fn lines_of(batch: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let columns: Vec<_> =
        batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
    let line = |row| columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join("|");
    (0..batch.num_rows()).map(line).collect()
}

/// Bars of some symbols, one a second each: `n` counts them, `price` is `n` in cents.
pub const BAR: &str =
    "message Bar { n: u64, price: decimal64, note: string?, side: Side? } enum Side { BUY = 1, SELL = 2 }";

/// A database with the stream `bars` of so many rows of ten symbols, in segments and in the log.
pub fn bars(rows: u64, sealed: bool) -> Place {
    let place = Place::new();
    let stream = place.stream("bars", BAR, &[]);
    let half = rows / 2;
    for (range, is_sealed) in [(0..half, sealed), (half..rows, false)] {
        let mut loader = stream.loader().unwrap();
        for n in range {
            let side = ["\"BUY\"", "\"SELL\"", "null"][n as usize % 3];
            let note = if n % 4 == 0 { "null".to_string() } else { format!("\"note {n}\"") };
            let text = format!(
                r#"{{"$type": "Bar", "n": {n}, "price": "{}.{:02}", "note": {note}, "side": {side}}}"#,
                n / 100,
                n % 100
            );
            let value = stream.layouts().from_json(&text).unwrap();
            loader
                .append_value(&format!("S{}", n % 10), Timestamp(n as i64 * 1_000_000_000), &value)
                .unwrap();
        }
        loader.close().unwrap();
        if is_sealed {
            stream.seal().unwrap();
        }
    }
    place
}

/// Of combinations that are numbered, one in `of` is tried in a run, each time others; all with `TAPEDB_SQL_QUERIES` (`make sql-trials`).
pub fn is_tried(number: usize, of: usize) -> bool {
    static SEED: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(0));
    let mixed = (*SEED).wrapping_add(number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    std::env::var_os("TAPEDB_SQL_QUERIES").is_some() || mixed.is_multiple_of(of as u64)
}
