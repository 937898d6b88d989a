//! Others work on the same table: a second publisher, compactions, changes of rows, a table that is dropped.

use crate::support::*;
use serde_json::json;
use std::thread;
use tapedb_arrow::Decimals;
use tapedb_engine::Database;
use tapedb_publish::{Catalog, Error, FolderCatalog, Options, Publisher, SqlCatalog, Target};

in_each_format! {
    a_table_that_is_dropped_is_an_error_and_then_made_anew,
    tables_of_other_streams_and_other_options_are_refused,
}

#[test]
fn several_publish_at_once() {
    let fixture = Fixture::new(SCHEMA);
    for round in 0..8 {
        fixture.add(500, FIRST + round * DAY / 2);
    }
    let folder = fixture.folder.path().to_str().unwrap();
    let catalogues = ["folder:FOLDER/lake", "sql:FOLDER/catalog.db,warehouse=FOLDER/sql"];
    let mut targets =
        catalogues.map(|text| iceberg(&text.replace("FOLDER", folder).parse().unwrap())).to_vec();
    targets.push(Target::delta(&format!("{folder}/delta")).unwrap());
    for target in targets {
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let db = Database::open_read_only(fixture.folder.path().join("db")).unwrap();
                    let stream = db.stream("bars").unwrap();
                    let mut publisher = Publisher::open(&db, &stream, "Bar", &target, &small()).unwrap();
                    publish(&mut publisher);
                });
            }
        });
    }
    fixture.table().check(&fixture.stream);
    Table::delta(&fixture.folder.path().join("delta")).unwrap().check(&fixture.stream);
    let (file, lake) = (fixture.folder.path().join("catalog.db"), fixture.folder.path().join("sql"));
    let catalog = SqlCatalog::open(file.to_str().unwrap(), "lake", lake.to_str().unwrap()).unwrap();
    Table::of(catalog.load(&name()).unwrap().unwrap().metadata).check(&fixture.stream);
}

/// Adds a snapshot as another program would: with the same files.
fn snapshot_of_others(fixture: &Fixture, operation: &str, records: Option<&str>) {
    let catalog = FolderCatalog::open(fixture.lake().to_str().unwrap()).unwrap();
    let base = catalog.load(&name()).unwrap().unwrap();
    let current = base.metadata.current_snapshot().unwrap();
    let id = current.id / 2 + 1;
    let records = records.unwrap_or(&current.summary["total-records"]);
    let snapshot = json!({
        "snapshot-id": id, "parent-snapshot-id": current.id, "sequence-number": 1000, "timestamp-ms": 1_900_000_000_000i64,
        "manifest-list": current.manifest_list, "summary": { "operation": operation, "total-records": records },
    });
    let updates = [
        json!({ "action": "add-snapshot", "snapshot": snapshot }),
        json!({ "action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": id }),
    ];
    catalog.commit(&name(), &base, &[], &updates).unwrap();
}

fn published(kind: Kind) -> (Fixture, Publisher) {
    let fixture = Fixture::of(kind, SCHEMA);
    fixture.add(100, FIRST);
    let mut publisher = fixture.publisher(&small());
    publish(&mut publisher);
    (fixture, publisher)
}

#[test]
fn compactions_are_no_change() {
    let (fixture, mut publisher) = published(Kind::Iceberg);
    snapshot_of_others(&fixture, "replace", None);
    fixture.add(100, FIRST + DAY);
    publish(&mut publisher);
    fixture.table().check(&fixture.stream);
}

#[test]
fn rows_of_others_are_an_error_until_they_are_repaired() {
    for (operation, records) in [("append", None), ("replace", Some("101")), ("delete", None)] {
        let (fixture, mut publisher) = published(Kind::Iceberg);
        snapshot_of_others(&fixture, operation, records);
        fixture.add(100, FIRST + DAY);
        let error = publisher.step().unwrap_err();
        assert!(matches!(&error, Error::Table(what) if what.contains("--repair")), "{error}");
        let repaired = publisher.repair(false).unwrap();
        assert_eq!((repaired.rows, repaired.days), (200, None));
        publish(&mut publisher);
        fixture.table().check(&fixture.stream);
    }
}

#[test]
fn an_earlier_snapshot_is_an_error() {
    let (fixture, mut publisher) = published(Kind::Iceberg);
    let catalog = FolderCatalog::open(fixture.lake().to_str().unwrap()).unwrap();
    let first = catalog.load(&name()).unwrap().unwrap().metadata.current_snapshot().unwrap().id;
    fixture.add(100, FIRST + DAY);
    publish(&mut publisher);
    let catalog = FolderCatalog::open(fixture.lake().to_str().unwrap()).unwrap();
    let base = catalog.load(&name()).unwrap().unwrap();
    let updates =
        [json!({ "action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": first })];
    catalog.commit(&name(), &base, &[], &updates).unwrap();
    let error = publisher.step().unwrap_err().to_string();
    assert!(error.contains("earlier snapshot"), "{error}");
    publisher.repair(false).unwrap();
    fixture.table().check(&fixture.stream);
    assert!(publisher.step().unwrap().is_none());
}

fn a_table_that_is_dropped_is_an_error_and_then_made_anew(kind: Kind) {
    let (fixture, mut publisher) = published(kind);
    std::fs::remove_dir_all(fixture.lake()).unwrap();
    fixture.add(50, FIRST + DAY);
    let error = publisher.step().unwrap_err().to_string();
    assert!(error.contains("dropped"), "{error}");
    publish(&mut fixture.publisher(&small()));
    fixture.table().check(&fixture.stream);
}

fn tables_of_other_streams_and_other_options_are_refused(kind: Kind) {
    let (fixture, _) = published(kind);
    let other = fixture.db.create_stream("other", SCHEMA.parse().unwrap(), Default::default()).unwrap();
    add(&other, 10, FIRST);
    other.seal().unwrap();
    let mut publisher = Publisher::open(&fixture.db, &other, "Bar", &fixture.target(), &small()).unwrap();
    let error = publisher.step().unwrap_err().to_string();
    assert!(error.contains("another one"), "{error}");
    let scales = [(String::new(), Decimals::Decimal128 { precision: 18, scale: 4 })].into();
    let mut publisher = fixture.publisher(&Options { scales, ..small() });
    let error = publisher.step().unwrap_err().to_string();
    assert!(error.contains("other options"), "{error}");
    // Renamed, it is the same stream.
    let renamed = fixture.db.rename_stream("bars", "new").unwrap();
    let mut publisher = Publisher::open(&fixture.db, &renamed, "Bar", &fixture.target(), &small()).unwrap();
    assert!(publisher.step().unwrap().is_none());
}

/// Where that is not known, there is an error: another table of the same messages would be made.
#[test]
fn a_table_is_that_of_its_record_type_whatever_the_options() {
    let fixture = Fixture::new(SCHEMA);
    assert!(!fixture.publisher(&small()).has_table().unwrap());
    fixture.add(100, FIRST);
    publish(&mut fixture.publisher(&small()));
    let other = fixture.publisher(&Options { symbol_buckets: 8, ..small() });
    assert!(other.has_table().unwrap() && other.progress().is_err());
    let catalog = FolderCatalog::open(fixture.lake().to_str().unwrap()).unwrap();
    let location = catalog.load(&name()).unwrap().unwrap().location;
    std::fs::write(path(&location), "{").unwrap();
    assert!(other.has_table().is_err());
}
