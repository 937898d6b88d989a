//! Backups: they hold what the source holds, while a writer seals and deletes, and wherever they are interrupted.

use crate::sealing::read;
use crate::support::*;
use std::collections::BTreeSet;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::process::parent_id;
use std::path::{Path, PathBuf};
use tapedb_engine::{BackupReport, CheckDepth, CheckEvent, Database, DeletedStreams, Severity};
use tapedb_schema::Timestamp;

fn back_up(from: &Path, to: &Path, deleted: DeletedStreams) -> BackupReport {
    let source = Database::open_read_only(from).unwrap();
    for _ in 0..100 {
        // Another test that starts a child may hold a copy of the lock for a moment.
        match source.backup(to, deleted, |_| ControlFlow::Continue(())) {
            Err(tapedb_engine::Error::Locked { .. }) => {}
            done => {
                let done = done.unwrap();
                assert!(done.failed.is_empty(), "{:?}", done.failed);
                return done;
            }
        }
    }
    panic!("stays locked")
}

/// What the streams of a database hold, after a check that finds nothing.
fn content(path: &Path) -> Vec<(String, BTreeSet<u64>)> {
    let db = Database::open_read_only(path).unwrap();
    let names = db.streams().unwrap();
    let mut all = Vec::new();
    for name in names {
        db.stored(&name).unwrap().check(CheckDepth::Full, |checking| {
            if let CheckEvent::Found(found) = checking {
                assert_eq!(found.severity, Severity::Note, "{found:?}");
            }
            ControlFlow::Continue(())
        });
        let stream = db.stream(&name).unwrap();
        let (found, lost) = read(&stream, false);
        assert_eq!(lost, 0);
        all.push((name, found));
    }
    all
}

#[test]
fn a_backup_is_brought_up_to_date_and_copies_only_what_is_new() {
    let directory = tempfile::tempdir().unwrap();
    let (from, to) = (directory.path().join("db"), directory.path().join("backup"));
    let db = Database::open_without_maintenance(&from).unwrap();
    let stream = db.create_stream("s", schema(), small_files()).unwrap();
    append_ticks(&stream, 0..300);
    stream.seal().unwrap();
    append_ticks(&stream, 300..320);
    let first = back_up(&from, &to, DeletedStreams::Delete);
    assert_eq!((first.streams, first.damaged), (1, 0));
    assert!(first.segments > 0 && first.bytes > 1000);
    assert_eq!(content(&to), content(&from));
    let nothing = back_up(&from, &to, DeletedStreams::Delete);
    assert_eq!((nothing.segments, nothing.bytes), (0, 0));
    append_ticks(&stream, 320..330);
    let little = back_up(&from, &to, DeletedStreams::Delete);
    assert!(little.segments == 0 && (1..2000).contains(&little.bytes), "{little:?}");
    assert_eq!(content(&to), content(&from));
    stream.delete(Timestamp(10)..Timestamp(310), None::<[&str; 0]>).unwrap();
    stream.seal().unwrap();
    back_up(&from, &to, DeletedStreams::Delete);
    assert_eq!(content(&to), content(&from));
    // A copy of a log file that has been changed is replaced.
    let other = reopen_without_maintenance(&to);
    append_ticks(&other.stream("s").unwrap(), 5000..5010);
    drop(other);
    append_ticks(&stream, 330..340);
    back_up(&from, &to, DeletedStreams::Delete);
    assert_eq!(content(&to), content(&from));
}

#[test]
fn streams_are_added_and_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let (from, to) = (directory.path().join("db"), directory.path().join("backup"));
    let db = Database::open_without_maintenance(&from).unwrap();
    for name in ["a", "b"] {
        append_ticks(&db.create_stream(name, schema(), small_files()).unwrap(), 0..100);
    }
    back_up(&from, &to, DeletedStreams::Delete);
    db.delete_stream("a").unwrap();
    db.delete_stream("b").unwrap();
    append_ticks(&db.create_stream("b", schema(), small_files()).unwrap(), 0..7);
    let kept = back_up(&from, &to, DeletedStreams::Keep);
    let all = content(&to);
    assert_eq!((kept.removed.len(), all.len()), (1, 3));
    assert_eq!((all[0].1.len(), all[1].1.len(), all[2].1.len()), (100, 7, 100));
    assert!(all[2].0.starts_with("b.") && kept.removed[0] == all[2].0);
    let deleted = back_up(&from, &to, DeletedStreams::Delete);
    assert_eq!((deleted.removed.len(), content(&to)), (2, content(&from)));
}

#[test]
fn a_backup_that_is_cut_short_loses_nothing_it_had() {
    let directory = tempfile::tempdir().unwrap();
    let (from, to) = (directory.path().join("db"), directory.path().join("backup"));
    let db = Database::open_without_maintenance(&from).unwrap();
    let stream = db.create_stream("s", schema(), small_files()).unwrap();
    let source = Database::open_read_only(&from).unwrap();
    let mut next = 0;
    for round in 0..30 {
        append_ticks(&stream, next..next + 60);
        next += 60;
        if round % 2 == 1 {
            stream.seal().unwrap();
        }
        let before = if to.exists() { content(&to) } else { Vec::new() };
        let mut left = round % 7;
        let stopped = source.backup(&to, DeletedStreams::Delete, |_| {
            left -= 1;
            if left < 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let after = content(&to);
        for (name, messages) in &before {
            let now = after.iter().find(|(other, _)| other == name).unwrap();
            assert!(messages.is_subset(&now.1), "round {round}");
        }
        if stopped.is_ok() {
            assert_eq!(after, content(&from));
        }
    }
    back_up(&from, &to, DeletedStreams::Delete);
    assert_eq!(content(&to), content(&from));
}

#[test]
fn beside_a_process_that_seals_and_deletes_every_backup_is_whole() {
    let directory = tempfile::tempdir().unwrap();
    let (from, to) = (directory.path().join("db"), directory.path().join("backup"));
    let mut child = crate::child::child("churn", &from).spawn().unwrap();
    while !from.join("streams/s/0/manifest").exists() {
        std::thread::yield_now();
    }
    let (mut last, mut grown, mut backups) = (0, 0, 0);
    while grown < 5 || backups < 15 {
        assert!(child.try_wait().unwrap().is_none(), "it runs until the file to stop it exists");
        backups += 1;
        back_up(&from, &to, DeletedStreams::Delete);
        let all = content(&to);
        let numbers = &all[0].1;
        // Messages are deleted by tens, whole; others are there up to an end that only grows.
        let end = numbers.last().map_or(0, |last| last + 1);
        assert!(end >= last, "{end} after {last}");
        for ten in 0..end / 10 {
            let left = (ten * 10..ten * 10 + 10).filter(|number| numbers.contains(number)).count();
            assert!(left == 0 || left == 10, "{left} of ten {ten}");
        }
        grown += u64::from(end > last);
        last = end;
    }
    fs::write(enough(&from), "").unwrap();
    assert!(child.wait().unwrap().success());
    back_up(&from, &to, DeletedStreams::Delete);
    assert_eq!(content(&to), content(&from));
}

/// The file that stops the child.
fn enough(path: &Path) -> PathBuf {
    path.with_extension("enough")
}

/// Appends, seals in the background, and deletes, until it is stopped or its parent has ended.
pub fn child(path: &Path) {
    let db = Database::open(path).unwrap();
    let stream = db.create_stream("s", schema(), small_files()).unwrap();
    let mut random = Random::new();
    let parent = parent_id();
    for ten in (0u64..).take_while(|_| !enough(path).exists() && parent_id() == parent) {
        append_ticks(&stream, ten * 10..ten * 10 + 10);
        if ten > 0 && random.chance(5) {
            // Not the last: the end only grows.
            let from = random.below(ten as usize) as i64 * 10;
            stream.delete(Timestamp(from)..Timestamp(from + 10), None::<[&str; 0]>).unwrap();
        }
        if random.chance(20) {
            stream.seal().unwrap();
        }
    }
}

#[test]
fn damage_is_copied_as_it_is_and_reported() {
    let directory = tempfile::tempdir().unwrap();
    let (from, to) = (directory.path().join("db"), directory.path().join("backup"));
    let db = Database::open_without_maintenance(&from).unwrap();
    let stream = db.create_stream("s", schema(), small_files()).unwrap();
    append_ticks(&stream, 0..100);
    stream.seal().unwrap();
    let segment = crate::sealing::files(&from, "seg").remove(0);
    let mut bytes = fs::read(&segment).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&segment, &bytes).unwrap();
    let done = back_up(&from, &to, DeletedStreams::Delete);
    assert_eq!(done.damaged, 1);
    let copy = to.join(segment.strip_prefix(&from).unwrap());
    assert_eq!(fs::read(copy).unwrap(), bytes);
}

/// A refused backup changes nothing.
fn refused(from: &Path, to: &Path, deleted: DeletedStreams, text: &str) {
    let before = content(to);
    let source = Database::open_read_only(from).unwrap();
    let refused = source.backup(to, deleted, |_| ControlFlow::Continue(())).unwrap_err();
    assert!(
        matches!(refused, tapedb_engine::Error::Invalid(tapedb_engine::Invalid::Backup { .. })),
        "{refused:?}"
    );
    assert!(refused.to_string().contains(text), "{refused}");
    assert_eq!(content(to), before);
}

#[test]
fn a_backup_belongs_to_one_database() {
    let directory = tempfile::tempdir().unwrap();
    let [a, b, to] = ["a", "b", "to"].map(|name| directory.path().join(name));
    for path in [&a, &b] {
        let db = Database::open_without_maintenance(path).unwrap();
        append_ticks(&db.create_stream("s", schema(), small_files()).unwrap(), 0..50);
    }
    back_up(&a, &to, DeletedStreams::Delete);
    back_up(&a, &to, DeletedStreams::Delete);
    for deleted in [DeletedStreams::Delete, DeletedStreams::DeleteAll, DeletedStreams::Keep] {
        refused(&b, &to, deleted, "the backup of another database");
        // A database with other streams is not overwritten either.
        refused(&a, &b, deleted, "an independent database");
    }
    Database::open_read_only(&b).unwrap().adopt_backup(&to).unwrap();
    refused(&a, &to, DeletedStreams::Delete, "the backup of another database");
    back_up(&b, &to, DeletedStreams::Delete);
    assert_eq!(content(&to), content(&b));
}

#[test]
fn a_database_that_has_lost_its_streams_deletes_none_of_its_backup() {
    let directory = tempfile::tempdir().unwrap();
    let (from, to) = (directory.path().join("db"), directory.path().join("backup"));
    let db = Database::open_without_maintenance(&from).unwrap();
    append_ticks(&db.create_stream("s", schema(), small_files()).unwrap(), 0..50);
    back_up(&from, &to, DeletedStreams::Delete);
    db.delete_stream("s").unwrap();
    refused(&from, &to, DeletedStreams::Delete, "lose all of its 1 streams");
    append_ticks(&db.create_stream("t", schema(), small_files()).unwrap(), 0..50);
    refused(&from, &to, DeletedStreams::Delete, "lose all of its 1 streams");
    let done = back_up(&from, &to, DeletedStreams::DeleteAll);
    assert_eq!((done.removed, content(&to).len()), (vec!["s".into()], 1));
}

/// Databases and backups of earlier versions have no identity.
#[test]
fn an_old_backup_is_updated() {
    let directory = tempfile::tempdir().unwrap();
    let (from, to) = (directory.path().join("db"), directory.path().join("backup"));
    let db = Database::open_without_maintenance(&from).unwrap();
    let stream = db.create_stream("s", schema(), small_files()).unwrap();
    append_ticks(&stream, 0..50);
    back_up(&from, &to, DeletedStreams::Delete);
    for path in [&from, &to] {
        fs::remove_file(path.join("identity")).unwrap();
    }
    append_ticks(&stream, 50..60);
    back_up(&from, &to, DeletedStreams::Delete);
    assert_eq!(content(&to), content(&from));
    assert!(fs::read_to_string(to.join("identity")).unwrap().contains("backup-of"));
}

#[test]
fn a_restored_database_updates_its_backups() {
    let directory = tempfile::tempdir().unwrap();
    let [from, to, again] = ["db", "backup", "again"].map(|name| directory.path().join(name));
    let db = Database::open_without_maintenance(&from).unwrap();
    append_ticks(&db.create_stream("s", schema(), small_files()).unwrap(), 0..50);
    back_up(&from, &to, DeletedStreams::Delete);
    back_up(&to, &again, DeletedStreams::Delete);
    Database::open_read_only(&to).unwrap().restore_identity(&again).unwrap();
    append_ticks(&reopen_without_maintenance(&again).stream("s").unwrap(), 50..60);
    back_up(&again, &to, DeletedStreams::Delete);
    assert_eq!(content(&to), content(&again));
}
