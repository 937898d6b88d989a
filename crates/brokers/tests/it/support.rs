//! Databases with numbered ticks, and what both brokers' tests count.

#[cfg(feature = "kafka")]
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tapedb_brokers::{Counts, Error, Intake, IntakeOptions, Observer};
use tapedb_codec::dynamic::{RecordValue, Value};
use tapedb_engine::{Database, Stream, StreamOptions};
use tapedb_schema::Timestamp;
use tempfile::TempDir;

/// The schema of all streams.
pub const SCHEMA: &str = "message Tick { n: i64, note: string }";

/// A database in a directory of its own.
pub struct Place {
    pub db: Database,
    _directory: TempDir,
}

impl Place {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        Self { db: Database::open(directory.path().join("db")).expect("a database"), _directory: directory }
    }

    pub fn stream(&self, name: &str) -> Stream {
        let schema = SCHEMA.parse().expect("a schema");
        self.db.open_or_create_stream(name, schema, StreamOptions::default()).expect("a stream")
    }

    /// Appends ticks of three symbols.
    pub fn fill(&self, name: &str, numbers: std::ops::Range<i64>) -> Stream {
        let stream = self.stream(name);
        let mut loader = stream.loader().expect("a loader");
        for n in numbers {
            let fields = vec![Value::Int(n), Value::Text(format!("note {n}"))];
            let symbol = ["AIG", "BRK.B", "a b"][n as usize % 3];
            loader
                .append_value(symbol, Timestamp(n * 1_000_003), &RecordValue { type_id: 0, fields })
                .expect("taken");
        }
        loader.flush().expect("stored");
        stream
    }

    pub fn intake(&self, name: &str, options: IntakeOptions) -> Intake {
        Intake::open(&self.db, self.stream(name), options).expect("it opens")
    }

    /// Symbol, time and body of each message, by arrival.
    pub fn messages(&self, name: &str) -> Vec<(String, i64, Vec<u8>)> {
        let mut cursor = self.stream(name).cursor().from_sequence(0).open().expect("a cursor");
        let mut found = Vec::new();
        while let Some(message) = cursor.next().expect("a message") {
            found.push((message.symbol().to_string(), message.time().0, message.body().to_vec()));
        }
        found
    }
}

/// Whether two lists have the same messages, and those of each symbol in the same order.
#[cfg(feature = "kafka")]
#[track_caller]
pub fn assert_same(found: &[(String, i64, Vec<u8>)], expected: &[(String, i64, Vec<u8>)]) {
    let by_symbol = |list: &[(String, i64, Vec<u8>)]| {
        let mut by_symbol: BTreeMap<String, Vec<(i64, Vec<u8>)>> = BTreeMap::new();
        for (symbol, time, body) in list {
            by_symbol.entry(symbol.clone()).or_default().push((*time, body.clone()));
        }
        by_symbol
    };
    assert_eq!(found.len(), expected.len());
    assert!(by_symbol(found) == by_symbol(expected), "other messages, or another order");
}

/// Collects warnings, and ends what it watches when a flag says so, or after some messages.
#[derive(Clone, Default)]
pub struct Watch {
    pub warnings: Arc<Mutex<Vec<String>>>,
    pub is_over: Arc<AtomicBool>,
    pub messages_max: Option<u64>,
    pub seen: u64,
}

impl Watch {
    pub fn until(messages: u64) -> Self {
        Self { messages_max: Some(messages), ..Self::default() }
    }

    pub fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    pub fn has_warned(&self, text: &str) -> bool {
        self.warnings.lock().expect("no panic").iter().any(|warning| warning.contains(text))
    }
}

impl Observer for Watch {
    fn is_interrupted(&self) -> bool {
        self.is_over.load(Ordering::Relaxed) || self.messages_max.is_some_and(|most| self.seen >= most)
    }

    fn warn(&mut self, what: &str) {
        self.warnings.lock().expect("no panic").push(what.into());
    }

    fn progress(&mut self, counts: &Counts, _: u64) {
        self.seen = counts.messages;
    }
}

/// The text of an error.
#[track_caller]
pub fn refused<T>(result: Result<T, Error>) -> String {
    match result {
        Ok(_) => panic!("it is not refused"),
        Err(error) => error.to_string(),
    }
}
