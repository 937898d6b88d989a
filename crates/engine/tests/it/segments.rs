//! Damaged segments: every flipped bit is reported, and only its block cannot be read.

use crate::sealing::{files, read, read_arrivals};
use crate::support::*;
use std::collections::BTreeSet;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use tapedb_engine::{CheckDepth, CheckEvent, CheckReport, Database, Finding, Severity};
use tapedb_schema::Timestamp;

const MESSAGES: u64 = 40;

/// A stream whose messages lie in one segment of one block.
fn make(path: &Path) {
    let db = Database::open_without_maintenance(path).unwrap();
    let stream = db.create_stream("s", schema(), small_files()).unwrap();
    let mut loader = stream.loader().unwrap();
    for number in 0..MESSAGES {
        let (symbol, time) = (["A", "B"][number as usize % 2], Timestamp(number as i64));
        match number % 3 {
            0 => loader.append(symbol, time, &Quote::of(number)).unwrap(),
            _ => loader.append(symbol, time, &Tick::of(number)).unwrap(),
        }
    }
    loader.close().unwrap();
    stream.seal().unwrap();
}

#[test]
fn every_flipped_byte_of_a_segment_is_reported_and_other_blocks_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    make(&path);
    let segment = files(&path, "seg").pop().unwrap();
    let whole = fs::read(&segment).unwrap();
    let all: BTreeSet<u64> = (0..MESSAGES).collect();
    let db = Database::open_read_only(&path).unwrap();
    let block = whole.windows(4).position(|bytes| bytes == b"TPK1").unwrap();
    let footer = whole.len() - 40;
    let footer = u64::from_le_bytes(whole[footer..footer + 8].try_into().unwrap()) as usize;
    let mut random = Random::new();
    for at in 0..whole.len() {
        let mut broken = whole.clone();
        broken[at] ^= 1 << random.below(8);
        fs::write(&segment, &broken).unwrap();
        let stream = db.stream("s").unwrap();
        for (found, lost) in [read(&stream, false), read(&stream, true), read_arrivals(&stream)] {
            let is_in_block = (block..footer).contains(&at);
            let expected = if is_in_block { (BTreeSet::new(), MESSAGES) } else { (all.clone(), 0) };
            assert_eq!((found, lost), expected, "byte {at}");
        }
        let is_reported = stream.cursor().types(["Tick"]).symbols(["A"]).open().unwrap().next().is_err();
        let is_index = !(block..footer).contains(&at);
        assert!(is_reported || !is_index, "byte {at} is not reported");
        let (checked, found) = check(&db);
        assert!(
            checked.damaged > 0 && found.iter().all(|found| found.path == segment),
            "byte {at}: {found:?}"
        );
        assert_eq!(checked.messages_damaged, if is_index { 0 } else { MESSAGES }, "byte {at}: {found:?}");
    }
    fs::write(&segment, &whole).unwrap();
    assert_eq!(read(&db.stream("s").unwrap(), false), (all, 0));
    let (checked, found) = check(&db);
    assert_eq!((found.len(), checked.messages, checked.segments), (0, MESSAGES, 1), "{found:?}");
}

fn check(db: &Database) -> (CheckReport, Vec<Finding>) {
    let mut found = Vec::new();
    let checked = db.stored("s").unwrap().check(CheckDepth::Full, |checking| {
        if let CheckEvent::Found(finding) = checking {
            found.push(finding);
        }
        ControlFlow::Continue(())
    });
    (checked, found)
}

#[test]
fn a_check_names_every_flipped_byte_of_a_manifest_and_a_missing_segment() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    make(&path);
    let db = Database::open_read_only(&path).unwrap();
    for name in ["manifest", "manifest.copy"] {
        let file = path.join("streams/s/0").join(name);
        let whole = fs::read(&file).unwrap();
        for at in 0..whole.len() {
            let mut broken = whole.clone();
            broken[at] ^= 1;
            fs::write(&file, broken).unwrap();
            let (checked, found) = check(&db);
            assert_eq!((checked.notes, checked.damaged), (1, 0), "byte {at}: {found:?}");
            assert_eq!(found[0].path, file);
        }
        fs::write(&file, whole).unwrap();
    }
    let segment = files(&path, "seg").pop().unwrap();
    fs::rename(&segment, segment.with_extension("elsewhere")).unwrap();
    let (checked, found) = check(&db);
    assert_eq!((checked.damaged, checked.messages_damaged, checked.notes), (1, MESSAGES, 1), "{found:?}");
    assert!(found[0].path == segment && found[0].what.contains("0 to 39"), "{found:?}");
}

#[test]
fn a_check_beside_a_writer_that_seals_finds_nothing() {
    let (_directory, db) = new_database();
    let stream = db.create_stream("s", schema(), small_files()).unwrap();
    let reader = Database::open_read_only(db.path()).unwrap();
    let mut next = 0;
    for _ in 0..40 {
        append_ticks(&stream, next..next + 50);
        next += 50;
        let (checked, found) = std::thread::scope(|scope| {
            let sealing = scope.spawn(|| stream.seal().unwrap());
            let checked = check(&reader);
            sealing.join().unwrap();
            checked
        });
        let real: Vec<_> = found.iter().filter(|found| found.severity == Severity::Damage).collect();
        assert!(real.is_empty(), "{real:?}");
        assert_eq!(checked.messages, next, "{found:?}");
    }
}
