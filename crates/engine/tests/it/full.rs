//! A full disk, or a file that cannot be read: the error is clear, no acknowledged message is lost, and work continues when the
//! cause is removed.

use crate::child::{report, reported};
use crate::support::*;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tapedb_engine::{Access, Database, Error, LogError, StreamOptions};
use tapedb_log::sim::SimStorage;
use tapedb_schema::Timestamp;

/// Appends until it fails, as this process may write no file larger than its limit.
pub fn child(path: &Path) {
    let db = Database::open(path).unwrap();
    let stream = db.create_stream("s", schema(), StreamOptions::default()).unwrap();
    let mut loader = stream.loader().unwrap();
    loader.set_batch_bytes(10 << 10);
    let mut acknowledged = 0;
    let mut number = 0;
    let error = loop {
        match loader.append("A", Timestamp(number as i64), &Tick::of(number)) {
            Ok(()) => number += 1,
            Err(error) => break error,
        }
        if number % 100 == 0 {
            match loader.flush() {
                Ok(next) => acknowledged = next,
                Err(error) => break error,
            }
        }
    };
    let text = error.to_string();
    assert!(text.contains(".log") && text.contains("write failed"), "{text}");
    assert!(matches!(&error, Error::Log(error) if matches!(**error, LogError::Io { .. })), "{error:?}");
    // The disk is still full, no message was lost, and readers continue.
    let pending = loader.pending() as u64;
    loader.flush().unwrap_err();
    assert_eq!(loader.pending() as u64, pending);
    let stored = drain(&mut stream.cursor().open().unwrap());
    assert_eq!(stored, (0..stored.len() as u64).collect::<Vec<_>>());
    assert_eq!(stored.len() as u64 + pending, number);
    assert!(stored.len() as u64 >= acknowledged);
    report(&stored.len().to_string());
}

#[test]
fn a_writer_on_a_full_disk_fails_clearly_and_readers_continue() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    // The limit of the shell and its children; ignoring the signal makes it an error of the write.
    let child = crate::child::child("fill", &path);
    let mut limited = Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 200; exec \"$0\" \"$@\""]);
    limited.arg(child.get_program()).args(child.get_args()).stdout(Stdio::piped());
    limited.envs(child.get_envs().filter_map(|(key, value)| Some((key, value?))));
    let output = limited.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let stored: u64 = text.lines().find_map(reported).unwrap().parse().unwrap();
    assert!(stored > 100);

    let db = reopen(&path);
    let stream = db.stream("s").unwrap();
    assert!(stream.recovery().is_clean(), "{}", stream.recovery());
    append_ticks(&stream, stored..stored + 100);
    assert_eq!(drain(&mut stream.cursor().open().unwrap()), (0..stored + 100).collect::<Vec<_>>());
}

#[test]
fn when_there_is_free_space_again_writers_and_maintenance_continue() {
    let disk = SimStorage::new(1);
    let db = Database::open_on(Arc::new(disk.clone()), "/db", Access::Write).unwrap();
    let stream = db.create_stream("s", schema(), small_files()).unwrap();
    let mut live = stream.cursor().live().open().unwrap();
    append_ticks(&stream, 0..50);
    // What is written is left as it is, and nothing more fits.
    disk.set_capacity(Some(1));
    let mut loader = stream.loader().unwrap();
    for number in 50..150 {
        loader.append("A", Timestamp(number as i64), &Tick::of(number)).unwrap();
    }
    let full = |e: &Error| matches!(e, Error::Log(error) if matches!(**error, LogError::Full { .. }));
    assert_error(loader.flush(), full, "the disk is full");
    assert_error(stream.seal(), |e| !matches!(e, Error::ReadOnly), "/db/streams/s");
    assert_eq!(loader.pending(), 100);
    assert_eq!(drain(&mut live), (0..50).collect::<Vec<_>>());
    assert_eq!(drain(&mut stream.cursor().open().unwrap()), (0..50).collect::<Vec<_>>());
    disk.set_capacity(None);
    loader.flush().unwrap();
    assert_eq!(drain(&mut live), (50..150).collect::<Vec<_>>());
    // Full log files, which cannot be sealed for a while.
    append_ticks(&stream, 150..400);
    disk.set_capacity(Some(1));
    let log_files =
        || disk.paths().iter().filter(|path| path.extension().is_some_and(|e| e == "log")).count();
    if log_files() > 1 {
        wait_until(|| stream.maintenance_failure().is_some() || log_files() == 1);
    }
    assert_eq!(drain(&mut stream.cursor().open().unwrap()), (0..400).collect::<Vec<_>>());
    disk.set_capacity(None);
    wait_until(|| stream.maintenance_failure().is_none() && log_files() == 1);
    assert_eq!(drain(&mut stream.cursor().open().unwrap()), (0..400).collect::<Vec<_>>());
}

#[test]
fn maintenance_names_the_file_that_cannot_be_read_and_continues_when_it_can() {
    let disk = SimStorage::new(1);
    let db = Database::open_on(Arc::new(disk.clone()), "/db", Access::Write).unwrap();
    let stream = db.create_stream("s", schema(), small_files()).unwrap();
    let log = Path::new("/db/streams/s/0/00000000000000000000.log");
    append_ticks(&stream, 0..10);
    disk.make_unreadable(log, ErrorKind::Other);
    append_ticks(&stream, 10..400);
    wait_until(|| stream.maintenance_failure().is_some_and(|why| why.contains("00000000000000000000.log")));
    assert!(disk.content(log).is_some(), "it is kept");
    disk.make_readable();
    wait_until(|| stream.maintenance_failure().is_none() && disk.content(log).is_none());
    assert_eq!(drain(&mut stream.cursor().open().unwrap()), (0..400).collect::<Vec<_>>());
}

fn wait_until(done: impl Fn() -> bool) {
    while !done() {
        thread::sleep(Duration::from_millis(5));
    }
}

/// Operations that free space write a manifest first: that succeeds on a disk without a free byte.
#[test]
fn a_purge_a_truncation_and_a_deletion_succeed_on_a_full_disk_and_free_space() {
    fn used(disk: &SimStorage) -> u64 {
        disk.paths().iter().map(|path| disk.content(path).unwrap().len() as u64).sum()
    }
    let frees: [fn(&Database); 4] = [
        |db| db.stream("s").unwrap().purge(Timestamp(250)).unwrap(),
        |db| db.stream("s").unwrap().truncate(Timestamp(150)).unwrap(),
        |db| db.stream("s").unwrap().clear().unwrap(),
        |db| db.delete_stream("s").unwrap(),
    ];
    for (i, frees) in frees.iter().enumerate() {
        for is_reopened in [false, true] {
            let disk = SimStorage::new(i as u64);
            let open =
                || Database::open_on(Arc::new(disk.clone()), "/db", Access::WriteWithoutMaintenance).unwrap();
            let mut db = open();
            let stream = db.create_stream("s", schema(), StreamOptions::default()).unwrap();
            for round in 0..4 {
                append_ticks(&stream, round * 100..round * 100 + 100);
                stream.seal().unwrap();
            }
            append_ticks(&stream, 400..420);
            let mut loader = stream.loader().unwrap();
            drop(stream);
            if is_reopened {
                drop((loader, db));
                db = open();
                loader = db.stream("s").unwrap().loader().unwrap();
            }
            let before = used(&disk);
            disk.set_capacity(Some(before));
            // What was preallocated is used up first.
            let mut end = 420;
            loop {
                loader.append("A", Timestamp(end as i64), &Tick::of(end)).unwrap();
                end += 1;
                if loader.flush().is_err() {
                    break;
                }
            }
            frees(&db);
            assert!(used(&disk) + 1000 < before, "case {i}: {} of {before} bytes", used(&disk));
            if db.streams().unwrap().is_empty() {
                continue;
            }
            loader.flush().unwrap();
            let left = drain(&mut db.stream("s").unwrap().cursor().open().unwrap());
            let first = end - 1;
            let expected = [(250..end).collect(), (0..150).chain([first]).collect::<Vec<_>>(), vec![first]];
            assert_eq!(left, expected[i], "case {i}");
            // The next writer creates the reserve again.
            drop((loader, db));
            disk.set_capacity(None);
            drop(open());
            assert_eq!(disk.content(Path::new("/db/reserve")).map(|content| content.len()), Some(64 << 10));
        }
    }
}
