//! A closed database: a change of any byte of any file is reported.

use crate::support::*;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use tapedb_codec::batch::{BatchBuilder, assign_producer};
use tapedb_engine::{Access, CheckDepth, CheckEvent, Database, Durability, StreamOptions};
use tapedb_log::sim::SimStorage;
use tapedb_schema::Timestamp;

/// With segments, log files, an index, deletions, two versions of a schema, a producer, and a stream without messages.
fn closed(durability: Durability) -> SimStorage {
    let disk = SimStorage::new(7);
    let db = Database::open_on(Arc::new(disk.clone()), "/db", Access::WriteWithoutMaintenance).unwrap();
    let options = StreamOptions { durability, file_bytes_max: 700, spaces: 2, ..StreamOptions::default() };
    let stream = db.create_stream("s", schema(), options).unwrap();
    db.create_stream("empty", schema(), options).unwrap();
    append_ticks(&stream, 0..6);
    stream.seal().unwrap();
    append_ticks(&stream, 6..20);
    let (mut builder, mut batch, mut body) = (BatchBuilder::new(), Vec::new(), Vec::new());
    tapedb_codec::encode(&Tick::of(20), &mut body);
    builder.push_bytes(20, 0, 0, &body).unwrap();
    builder.finish(1, &mut batch);
    assign_producer(&mut batch, 7, 1).unwrap();
    let mut loader = stream.batches(0).unwrap();
    let pending = loader.write(&mut batch).unwrap();
    loader.commit(pending, &batch).unwrap();
    append_ticks(&stream, 21..26);
    stream.delete(Timestamp(3)..=Timestamp(3), None::<&[&str]>).unwrap();
    let wider = "message Tick { number: u64, check: u64, note: string, more: u8 = 1 } \
                 message Quote { number: u64, bid: decimal64, ask: decimal64? }";
    let wider = wider.parse().unwrap();
    let stream = db.change_schema("s", wider).unwrap_or(stream);
    drop((stream, loader));
    drop(db);
    disk
}

/// Everything that opening for reading and a check report.
fn reports(disk: &SimStorage) -> Vec<String> {
    let db = match Database::open_on(Arc::new(disk.clone()), "/db", Access::Read) {
        Ok(db) => db,
        Err(error) => return vec![error.to_string()],
    };
    let mut reports: Vec<String> = db.check_identity().into_iter().map(|found| found.what).collect();
    for name in db.streams().unwrap() {
        match db.stored(&name) {
            Err(error) => reports.push(error.to_string()),
            Ok(stored) => {
                stored.check(CheckDepth::Full, |checking| {
                    if let CheckEvent::Found(finding) = checking {
                        reports.push(format!("{finding:?}"));
                    }
                    ControlFlow::Continue(())
                });
            }
        }
    }
    reports
}

#[test]
fn every_changed_byte_of_every_file_is_reported() {
    for durability in [Durability::Async, Durability::Sync] {
        let disk = closed(durability);
        assert_eq!(reports(&disk), [""; 0]);
        let mut changed = 0;
        // The reserve holds nothing: it is there for its size.
        for path in disk.paths().into_iter().filter(|path| !path.ends_with("reserve")) {
            let content = disk.content(&path).unwrap();
            for at in 0..content.len() {
                let mut broken = content.clone();
                broken[at] ^= 1 << (at % 8);
                disk.set_content(&path, &broken);
                assert!(!reports(&disk).is_empty(), "{}, byte {at} of {}", path.display(), content.len());
                changed += 1;
            }
            disk.set_content(&path, &content);
        }
        assert!(changed > 4_000, "{changed} bytes");
    }
}

#[test]
fn every_file_that_is_missing_or_empty_is_reported() {
    // Without the first two, the end of a log and its producers are unknown; the lock and a second copy of nothing are empty.
    let untold = ["end", "producers", "lock", "identity"];
    let disk = closed(Durability::Async);
    for path in disk.paths().into_iter().filter(|path| !path.ends_with("reserve")) {
        let content = disk.content(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        if !content.is_empty() {
            disk.set_content(&path, b"");
            assert!(!reports(&disk).is_empty(), "{} is empty", path.display());
        }
        if !untold.contains(&name) {
            let twin = without(&disk, &path);
            assert!(!reports(&twin).is_empty(), "{} is missing", path.display());
        }
        disk.set_content(&path, &content);
    }
}

fn without(disk: &SimStorage, path: &Path) -> SimStorage {
    let twin = SimStorage::new(8);
    for other in disk.paths().iter().filter(|other| *other != path) {
        twin.set_content(other, &disk.content(other).unwrap());
    }
    twin
}
