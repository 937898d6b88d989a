//! Deletions, rewrites and renames mark a table, and a repair writes what is stale again.

use crate::support::*;
use std::time::Duration;
use tapedb_engine::{Retention, StreamOptions};
use tapedb_schema::Timestamp;

in_each_format! {
    a_lost_part_marks_its_days_and_a_repair_writes_the_rest,
    deletions_and_rewrites_mark_days_and_a_repair_writes_them,
    a_renamed_symbol_is_renamed_by_a_repair,
    late_messages_are_appended,
    what_retention_drops_stays_in_the_table,
    a_new_version_of_the_schema_evolves_the_table,
}

/// Four days of bars, published.
fn published(kind: Kind) -> (Fixture, tapedb_publish::Publisher) {
    let fixture = Fixture::of(kind, SCHEMA);
    for day in 0..4 {
        fixture.add(200, FIRST + day * DAY);
    }
    let mut publisher = fixture.publisher(&small());
    publish(&mut publisher);
    fixture.table().check(&fixture.stream);
    (fixture, publisher)
}

fn deletions_and_rewrites_mark_days_and_a_repair_writes_them(kind: Kind) {
    let (fixture, mut publisher) = published(kind);
    let (from, to) = (Timestamp(FIRST + DAY), Timestamp(FIRST + DAY + 3_600_000_000_000));
    fixture.stream.delete(from..to, Some(["AIG"])).unwrap();
    let mut rewriter = fixture
        .stream
        .rewrite(Timestamp(FIRST + 3 * DAY)..Timestamp(FIRST + 3 * DAY + 60), None::<[&str; 0]>)
        .unwrap();
    let bar =
        fixture.stream.layouts().from_json(r#"{"$type": "Bar", "close": "1.5", "volume": 77}"#).unwrap();
    rewriter.append_value("NEW", Timestamp(FIRST + 3 * DAY), &bar).unwrap();
    rewriter.commit().unwrap();
    fixture.stream.seal().unwrap();
    assert!(fixture.table().property("tapedb.stale").is_none());
    publish(&mut publisher);
    let stale = fixture.table().property("tapedb.stale").unwrap().to_string();
    assert!(stale.contains("2022-01-09"), "{stale}");
    let found = publisher.compare().unwrap().unwrap();
    assert_eq!(found.days.iter().map(|day| day.day).collect::<Vec<_>>(), [19_001, 19_003]);
    let before = fixture.table();
    let repaired = publisher.repair(false).unwrap();
    assert_eq!(repaired.days, Some(2));
    let after = fixture.table();
    after.check(&fixture.stream);
    assert!(after.property("tapedb.stale").is_none());
    // Other days keep their files.
    assert!(before.files.iter().filter(|file| after.files.contains(file)).count() >= 2);
    assert!(publisher.repair(false).unwrap().reasons.is_empty());
    // And it goes on.
    fixture.add(50, FIRST + 4 * DAY);
    publish(&mut publisher);
    fixture.table().check(&fixture.stream);
}

fn a_lost_part_marks_its_days_and_a_repair_writes_the_rest(kind: Kind) {
    let (fixture, publisher) = published(kind);
    // The database is closed, a segment damaged, and the damage put apart.
    drop(publisher);
    let Fixture { folder, db, stream, .. } = fixture;
    let before = stream.next_sequences().unwrap();
    drop((db, stream));
    let path = folder.path().join("db");
    let mut segments: Vec<_> = std::fs::read_dir(path.join("streams/bars/0"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "seg"))
        .collect();
    segments.sort();
    let mut bytes = std::fs::read(&segments[1]).unwrap();
    let damaged = bytes.len() / 4..bytes.len() / 2;
    bytes[damaged].fill(0x5a);
    std::fs::write(&segments[1], bytes).unwrap();
    let db = tapedb_engine::Database::open_without_maintenance(&path).unwrap();
    let repairs = db.repair("bars", true).unwrap();
    let lost: u64 = repairs.iter().map(|repair| repair.messages_lost).sum();
    assert!(lost > 0, "{repairs:?}");
    let stream = db.stream("bars").unwrap();
    assert_eq!(stream.next_sequences().unwrap(), before);
    let fixture = Fixture { kind, folder, db, stream };
    let mut publisher = fixture.publisher(&small());
    publish(&mut publisher);
    let found = publisher.compare().unwrap().unwrap();
    assert_eq!(found.days.iter().map(|day| day.day).collect::<Vec<_>>(), [19_001]);
    fixture.add(50, FIRST + 6 * DAY);
    publish(&mut publisher);
    assert!(fixture.table().property("tapedb.stale").unwrap().contains("lost"));
    let repaired = publisher.repair(false).unwrap();
    assert_eq!((repaired.days, repaired.removed), (Some(1), 200));
    assert!(repaired.rows < 200);
    fixture.table().check(&fixture.stream);
    assert_eq!(publisher.progress().unwrap().unwrap().lost, lost);
}

fn a_renamed_symbol_is_renamed_by_a_repair(kind: Kind) {
    let (fixture, mut publisher) = published(kind);
    fixture.stream.rename_symbol("BAC", "BOA").unwrap();
    fixture.add(30, FIRST + 5 * DAY);
    publish(&mut publisher);
    assert!(fixture.table().property("tapedb.stale").unwrap().contains("renamed"));
    assert!(fixture.table().rows().iter().any(|row| row.0 == "BAC"));
    assert_eq!(publisher.repair(false).unwrap().days, None);
    fixture.table().check(&fixture.stream);
}

fn late_messages_are_appended(kind: Kind) {
    let (fixture, mut publisher) = published(kind);
    fixture.add(100, FIRST - DAY);
    fixture.add(100, FIRST + DAY / 2);
    publish(&mut publisher);
    fixture.table().check(&fixture.stream);
    assert!(publisher.compare().unwrap().unwrap().is_none());
}

fn what_retention_drops_stays_in_the_table(kind: Kind) {
    let options = StreamOptions {
        retention: Retention { age: Some(Duration::from_secs(86_400)), bytes: None },
        file_bytes_max: 1,
        ..StreamOptions::default()
    };
    let fixture = Fixture::with(kind, SCHEMA, options);
    let mut publisher = fixture.publisher(&small());
    fixture.add(60, FIRST);
    publish(&mut publisher);
    let first = fixture.table().rows().len();
    for day in 3..7 {
        fixture.add(60, FIRST + day * DAY);
        publish(&mut publisher);
    }
    assert!(fixture.stream.stats().unwrap().times.unwrap().0.0 > FIRST);
    let table = fixture.table();
    assert_eq!((table.rows().len(), table.property("tapedb.stale")), (5 * first, None));
    assert!(publisher.repair(true).unwrap().rows > 0);
    assert_eq!(fixture.table().rows().len(), 5 * first);
}

fn a_new_version_of_the_schema_evolves_the_table(kind: Kind) {
    let (fixture, _) = published(kind);
    let wider = "message Bar { close: decimal64, volume: u64, trades: u32? } message Note { text: string }";
    let stream = fixture.db.change_schema("bars", wider.parse().unwrap()).unwrap();
    let mut loader = stream.loader().unwrap();
    let bar = r#"{"$type": "Bar", "close": "1.5", "volume": 7, "trades": 3}"#;
    loader
        .append_value("AIG", Timestamp(FIRST + 9 * DAY), &stream.layouts().from_json(bar).unwrap())
        .unwrap();
    loader.close().unwrap();
    stream.seal().unwrap();
    let open = |stream| {
        tapedb_publish::Publisher::open(&fixture.db, stream, "Bar", &fixture.target(), &small()).unwrap()
    };
    let mut publisher = open(&stream);
    publish(&mut publisher);
    assert!(publisher.notes().iter().any(|note| note.contains("schema")));
    let table = fixture.table();
    table.check(&stream);
    assert!(table.columns.contains(&"trades".to_string()));
    // A type that tables cannot convert is refused, and a repair of all writes it.
    let other = "message Bar { close: string, volume: u64, trades: u32? } message Note { text: string }";
    let stream = fixture.db.change_schema("bars", other.parse().unwrap());
    let Ok(stream) = stream else { return };
    let mut publisher = open(&stream);
    add_one(&stream);
    let error = publisher.step().unwrap_err().to_string();
    assert!(error.contains("close") && error.contains("--repair --all"), "{error}");
    publisher.repair(true).unwrap();
    fixture.table().check(&stream);
}

fn add_one(stream: &tapedb_engine::Stream) {
    let mut loader = stream.loader().unwrap();
    let bar = r#"{"$type": "Bar", "close": "text", "volume": 7, "trades": null}"#;
    loader
        .append_value("AIG", Timestamp(FIRST + 10 * DAY), &stream.layouts().from_json(bar).unwrap())
        .unwrap();
    loader.close().unwrap();
    stream.seal().unwrap();
}
