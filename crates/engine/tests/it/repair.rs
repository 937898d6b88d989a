//! Repairs: what could be read before can be read after, and what was damaged is kept.

use crate::sealing::{files, read};
use crate::support::*;
use std::collections::BTreeSet;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use tapedb_engine::{CheckDepth, CheckEvent, Database, Severity};
use tapedb_schema::Timestamp;

/// Ticks and quotes in several segments, and some in the log.
fn make(path: &Path) {
    let db = Database::open_without_maintenance(path).unwrap();
    let stream = db.create_stream("s", schema(), small_files()).unwrap();
    let mut loader = stream.loader().unwrap();
    for number in 0..300 {
        match number % 3 {
            0 => loader.append("A", Timestamp(number as i64), &Quote::of(number)).unwrap(),
            _ => loader.append("B", Timestamp(number as i64), &Tick::of(number)).unwrap(),
        }
        if number % 10 == 9 {
            loader.flush().unwrap();
        }
    }
    stream.seal().unwrap();
    append_ticks(&stream, 300..320);
}

fn repair(path: &Path, is_done: bool) -> usize {
    for _ in 0..1000 {
        match Database::open_without_maintenance(path) {
            Err(tapedb_engine::Error::Locked { .. }) => {}
            db => return db.unwrap().repair("s", is_done).unwrap().len(),
        }
    }
    panic!("stays locked")
}

fn damage_found(path: &Path) -> u64 {
    let db = Database::open_read_only(path).unwrap();
    let mut damaged = 0;
    db.stored("s").unwrap().check(CheckDepth::Full, |checking| {
        if let CheckEvent::Found(found) = checking {
            damaged += u64::from(found.severity == Severity::Damage);
        }
        ControlFlow::Continue(())
    });
    damaged
}

fn content(path: &Path) -> (BTreeSet<u64>, u64) {
    read(&Database::open_read_only(path).unwrap().stream("s").unwrap(), false)
}

fn of_type(path: &Path, name: &str) -> BTreeSet<u64> {
    let stream = Database::open_read_only(path).unwrap().stream("s").unwrap();
    let mut cursor = stream.cursor().types([name]).open().unwrap();
    let mut found = BTreeSet::new();
    loop {
        match cursor.next() {
            Ok(Some(message)) => found.insert(number_of(&message)),
            Ok(None) => return found,
            Err(_) => true,
        };
    }
}

#[test]
fn a_lost_manifest_and_a_lost_definition_are_rebuilt() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    make(&path);
    let all = content(&path);
    assert_eq!((all.0.len(), repair(&path, true)), (320, 0));
    let stream = path.join("streams/s");
    fs::remove_file(stream.join("0/manifest")).unwrap();
    fs::write(stream.join("0/manifest.copy"), "nonsense").unwrap();
    fs::write(stream.join("stream.tape"), "nonsense").unwrap();
    fs::remove_file(stream.join("stream.tape.copy")).unwrap();
    let before: Vec<_> = fs::read_dir(&stream).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(repair(&path, false), 1, "the definition first");
    let after: Vec<_> = fs::read_dir(&stream).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(before, after, "nothing was done");
    assert_eq!(repair(&path, true), 2);
    assert_eq!(repair(&path, false), 0);
    assert_eq!(content(&path), all);
    assert_eq!(fs::read_to_string(stream.join("stream.tape.damaged")).unwrap(), "nonsense");
    assert_eq!(fs::read_to_string(stream.join("0/manifest.copy.damaged")).unwrap(), "nonsense");
    // It can be written again.
    let db = reopen(&path);
    append_ticks(&db.stream("s").unwrap(), 320..330);
    assert_eq!(content(&path).0.len(), 330);
}

#[test]
fn one_bad_copy_is_rewritten() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    make(&path);
    for name in ["0/manifest", "0/manifest.copy"] {
        let file = path.join("streams/s").join(name);
        let whole = fs::read(&file).unwrap();
        fs::write(&file, "nonsense").unwrap();
        assert_eq!((repair(&path, true), repair(&path, true)), (1, 0), "{name}");
        assert_eq!(fs::read(&file).unwrap(), whole);
    }
}

#[test]
fn damaged_segments_are_rewritten_with_all_that_can_be_read() {
    let mut random = Random::new();
    for round in 0..40 {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("db");
        make(&path);
        let segments = files(&path, "seg");
        assert!(segments.len() > 1);
        let segment = random.pick(&segments);
        let mut bytes = fs::read(segment).unwrap();
        let at = random.below(bytes.len());
        bytes[at] ^= 1 << random.below(8);
        fs::write(segment, &bytes).unwrap();
        let (before, _) = content(&path);
        let by_type = ["Tick", "Quote"].map(|name| of_type(&path, name));
        assert!(damage_found(&path) > 0 && repair(&path, false) == 1, "round {round}");
        assert_eq!((repair(&path, true), repair(&path, false)), (1, 0), "round {round}");
        let (after, lost) = content(&path);
        assert!(before.is_subset(&after), "round {round}");
        for (name, before) in ["Tick", "Quote"].iter().zip(&by_type) {
            assert!(before.is_subset(&of_type(&path, name)), "round {round}: {name}");
        }
        assert_eq!(after.len() as u64 + lost, 320, "round {round}");
        assert_eq!(damage_found(&path), u64::from(lost > 0), "round {round}");
        let mut kept = segment.clone().into_os_string();
        kept.push(".damaged");
        assert_eq!(fs::read(kept).unwrap(), bytes);
    }
}
