use std::time::Duration;
use tapedb_engine::Database;
use tapedb_schema::Timestamp;
use tapedb_tick::{Column, Hdb, Plan, Plant, PlantOptions, Rdb, RdbOptions, RdbStatus, Texts, tables};

/// What tests wait for at most.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub const TABLES: &str = "trade:([]time:`timespan$();sym:`g#`symbol$();price:`float$();size:`long$();ex:`symbol$())\n\
    quote:([]time:`timespan$();sym:`g#`symbol$();bid:`float$();ask:`float$())";

pub const SYMBOLS: [&str; 3] = ["AIG", "BAC", "IBM"];

/// A database in a directory that goes with it.
pub struct Place {
    _directory: tempfile::TempDir,
    pub db: Database,
}

pub fn place() -> Place {
    let directory = tempfile::tempdir().unwrap();
    let db = Database::open(directory.path().join("db")).unwrap();
    Place { _directory: directory, db }
}

pub fn plant(db: &Database) -> Plant {
    Plant::open(db, "tp", &tables(TABLES).unwrap(), PlantOptions::default()).unwrap()
}

pub fn rdb(db: &Database, hdb: Option<&Hdb>) -> Rdb {
    let options = RdbOptions { hdb: hdb.cloned(), ..Default::default() };
    Rdb::start(Plan::open(db, "tp").unwrap(), options).unwrap()
}

/// Trades numbered from `first` on; the number is the size.
pub fn trades(first: usize, rows: usize) -> Vec<Column> {
    let numbers = first..first + rows;
    vec![
        Column::Long(numbers.clone().map(|n| n as i64 * 1_000).collect()),
        Column::Text(numbers.clone().map(|n| SYMBOLS[n % 3]).collect::<Texts>()),
        Column::Float(numbers.clone().map(|n| n as f64 / 4.0).collect()),
        Column::Long(numbers.clone().map(|n| n as i64).collect()),
        Column::Text(numbers.map(|n| ["N", "", "Q"][n % 3]).collect::<Texts>()),
    ]
}

pub fn quotes(first: usize, rows: usize) -> Vec<Column> {
    let trades = trades(first, rows);
    vec![trades[0].clone(), trades[1].clone(), trades[2].clone(), trades[2].clone()]
}

/// Rows of a table today.
pub fn rows_of(status: &RdbStatus, table: &str) -> u64 {
    status.tables.iter().find(|(name, ..)| name == table).map_or(0, |(_, rows, _)| *rows)
}

pub fn wait_for_rows(rdb: &Rdb, table: &str, rows: u64) {
    let is_there = rdb.wait_until(PATIENCE, |status| rows_of(status, table) >= rows);
    assert!(is_there, "{rows} rows of {table} did not come: {:?}", rdb.status());
}

/// The sizes of an answer's trades.
pub fn sizes(answer: &tapedb_tick::Answer) -> Vec<i64> {
    match answer.column("size") {
        Some(Column::Long(sizes)) => sizes.clone(),
        other => panic!("sizes are longs: {other:?}"),
    }
}

pub fn nanos(nanos: i64) -> Timestamp {
    Timestamp(nanos)
}
