//! What is particular to Delta: versions and checkpoints, and what others write into the log.

use crate::delta_log::{DeltaLog, version};
use crate::support::*;
use serde_json::{Value as Json, json};
use std::path::PathBuf;
use tapedb_publish::{Error, Options, Publisher};

/// A day of bars, published.
fn published() -> (Fixture, Publisher) {
    let fixture = Fixture::of(Kind::Delta, SCHEMA);
    fixture.add(100, FIRST);
    let mut publisher = fixture.publisher(&small());
    publish(&mut publisher);
    (fixture, publisher)
}

fn log(fixture: &Fixture) -> DeltaLog {
    DeltaLog::read(&fixture.lake()).unwrap()
}

/// Writes the next version, as another program does.
fn write(fixture: &Fixture, actions: &[Json]) {
    let lines: Vec<String> = actions.iter().map(Json::to_string).collect();
    std::fs::write(version(&fixture.lake(), log(fixture).versions), lines.join("\n")).unwrap();
}

/// The actions that replace a file by another one with the same rows, or fewer.
fn replaced(fixture: &Fixture, operation: &str, data_change: bool) -> Vec<Json> {
    let log = log(fixture);
    let (path, file) = log.files.iter().next().unwrap();
    let mut new = file.clone();
    new["path"] = "time_day=2022-01-08/other.parquet".into();
    new["dataChange"] = data_change.into();
    std::fs::copy(fixture.lake().join(path), fixture.lake().join("time_day=2022-01-08/other.parquet"))
        .unwrap();
    vec![
        json!({ "commitInfo": { "operation": operation } }),
        json!({ "remove": { "path": path, "deletionTimestamp": 1, "dataChange": data_change } }),
        json!({ "add": new }),
    ]
}

#[test]
fn a_table_is_read_from_its_checkpoint() {
    let fixture = Fixture::of(Kind::Delta, SCHEMA);
    for round in 0..23 {
        fixture.add(40, FIRST + round * DAY / 3);
        // A publisher of its own, which remembers nothing.
        publish(&mut fixture.publisher(&small()));
    }
    fixture.table().check(&fixture.stream);
    let names: Vec<PathBuf> = std::fs::read_dir(fixture.lake().join("_delta_log"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    let is_checkpoint = |path: &&PathBuf| path.to_string_lossy().ends_with(".checkpoint.parquet");
    assert_eq!(names.iter().filter(is_checkpoint).count(), 2);
    let hint = std::fs::read(fixture.lake().join("_delta_log/_last_checkpoint")).unwrap();
    let hint: Json = serde_json::from_slice(&hint).unwrap();
    assert_eq!(hint["version"], 20);
    // As after a clean-up: without versions before it.
    let before = log(&fixture);
    (0..20).for_each(|number| std::fs::remove_file(version(&fixture.lake(), number)).unwrap());
    let mut publisher = fixture.publisher(&small());
    let progress = publisher.progress().unwrap().unwrap();
    assert_eq!(progress.rows, before.rows());
    assert!(publisher.step().unwrap().is_none());
    assert!(publisher.compare().unwrap().unwrap().is_none());
    // Without it the rest is no table.
    std::fs::remove_file(fixture.lake().join(format!("_delta_log/{:020}.checkpoint.parquet", 20))).unwrap();
    std::fs::remove_file(fixture.lake().join(format!("_delta_log/{:020}.checkpoint.parquet", 10))).unwrap();
    let error = fixture.publisher(&small()).step().unwrap_err().to_string();
    assert!(error.contains("no checkpoint"), "{error}");
}

#[test]
fn files_that_others_rewrite_are_no_change() {
    let (fixture, mut publisher) = published();
    write(&fixture, &replaced(&fixture, "OPTIMIZE", false));
    fixture.add(100, FIRST + DAY);
    publish(&mut publisher);
    fixture.table().check(&fixture.stream);
    publish(&mut fixture.publisher(&small()));
    assert!(log(&fixture).files.keys().any(|path| path.ends_with("other.parquet")));
}

#[test]
fn rows_of_others_are_an_error_until_they_are_repaired() {
    type Change = fn(&Fixture) -> Vec<Json>;
    let changes: [(Change, &str); 3] = [
        (|fixture| replaced(fixture, "UPDATE", true), "operation UPDATE"),
        (
            |fixture| {
                let mut actions = replaced(fixture, "OPTIMIZE", false);
                actions.pop();
                actions
            },
            "0 rows, and 100 were published",
        ),
        (
            |fixture| {
                let mut actions = replaced(fixture, "WRITE", true);
                actions.remove(1);
                actions
            },
            "operation WRITE",
        ),
    ];
    for (change, text) in changes {
        let (fixture, mut publisher) = published();
        write(&fixture, &change(&fixture));
        fixture.add(100, FIRST + DAY);
        for publisher in [&mut publisher, &mut fixture.publisher(&small())] {
            let error = publisher.step().unwrap_err();
            assert!(
                matches!(&error, Error::Table(what) if what.contains(text) && what.contains("--repair")),
                "{error}"
            );
        }
        let repaired = publisher.repair(false).unwrap();
        assert_eq!((repaired.rows, repaired.days), (200, None));
        publish(&mut publisher);
        fixture.table().check(&fixture.stream);
    }
}

#[test]
fn what_others_upgrade_or_forbid_is_refused() {
    for (action, text) in [
        (json!({ "protocol": { "minReaderVersion": 3, "minWriterVersion": 7 } }), "Delta's protocol"),
        (json!({ "metaData": null }), "partitions"),
    ] {
        let (fixture, mut publisher) = published();
        let mut action = action;
        if action.get("metaData").is_some() {
            let mut metadata = log(&fixture).metadata;
            metadata["partitionColumns"] = json!(["symbol"]);
            action = json!({ "metaData": metadata });
        }
        write(&fixture, &[action]);
        let error = publisher.step().unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
    let (fixture, mut publisher) = published();
    let mut metadata = log(&fixture).metadata;
    metadata["configuration"]["delta.appendOnly"] = "true".into();
    write(&fixture, &[json!({ "metaData": metadata })]);
    fixture.add(10, FIRST + DAY);
    publish(&mut publisher);
    let error = publisher.repair(true).unwrap_err().to_string();
    assert!(error.contains("delta.appendOnly"), "{error}");
    fixture.table().check(&fixture.stream);
    // Properties of others stay.
    assert_eq!(log(&fixture).metadata["configuration"]["delta.appendOnly"], "true");
}

#[test]
fn a_log_that_is_damaged_is_an_error_and_no_new_table() {
    for text in ["", "{", "[]", "\u{0}", r#"{"add":{}}"#, r#"{"commitInfo":{}}"#] {
        let fixture = Fixture::of(Kind::Delta, SCHEMA);
        fixture.add(10, FIRST);
        std::fs::create_dir_all(fixture.lake().join("_delta_log")).unwrap();
        std::fs::write(version(&fixture.lake(), 0), text).unwrap();
        let error = fixture.publisher(&small()).step().unwrap_err();
        assert!(matches!(error, Error::Table(_)), "{text}: {error}");
    }
}

#[test]
fn statistics_tell_symbols_and_days_apart() {
    let fixture = Fixture::of(Kind::Delta, SCHEMA);
    fixture.add(4000, FIRST);
    publish(&mut fixture.publisher(&Options { row_group_rows: 500, ..small() }));
    let log = log(&fixture);
    assert_eq!(log.metadata["partitionColumns"], json!(["time_day"]));
    assert_eq!(log.columns().last().unwrap(), "time_day");
    assert!(log.files.len() >= 3);
    for (path, file) in &log.files {
        let day = path.strip_prefix("time_day=").unwrap().split('/').next().unwrap();
        assert_eq!(file["partitionValues"]["time_day"], day);
        let stats: Json = serde_json::from_str(file["stats"].as_str().unwrap()).unwrap();
        assert_eq!(
            (&stats["minValues"]["symbol"], &stats["maxValues"]["symbol"]),
            (&json!("AIG"), &json!("C"))
        );
        assert!(stats["minValues"]["time"].as_str().unwrap().starts_with(day), "{stats}");
        assert_eq!(stats["nullCount"]["close"], 0);
    }
    let transactions = &log.transactions;
    assert_eq!(transactions["tapedb.rows"], 4000);
    assert_eq!(transactions["tapedb.sequences.0"] as u64, fixture.stream.next_sequences().unwrap()[0]);
}

#[test]
fn a_wider_type_needs_all_rows_written_again() {
    let narrow = "message Bar { close: decimal64, volume: i32 }";
    let fixture = Fixture::of(Kind::Delta, narrow);
    fixture.add(50, FIRST);
    publish(&mut fixture.publisher(&small()));
    let wide = "message Bar { close: decimal64, volume: i64 }";
    let stream = fixture.db.change_schema("bars", wide.parse().unwrap()).unwrap();
    add(&stream, 50, FIRST + DAY);
    stream.seal().unwrap();
    let mut publisher = Publisher::open(&fixture.db, &stream, "Bar", &fixture.target(), &small()).unwrap();
    let error = publisher.step().unwrap_err().to_string();
    assert!(error.contains("volume") && error.contains("--repair --all"), "{error}");
    publisher.repair(true).unwrap();
    fixture.table().check(&stream);
    assert!(publisher.step().unwrap().is_none());
}
