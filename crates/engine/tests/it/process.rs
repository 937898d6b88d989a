//! One process writes, another reads.

use crate::child::{child, report, reported};
use crate::support::*;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::thread;
use std::time::Duration;
use tapedb_engine::{Cursor, Database, StreamOptions};
use tapedb_schema::Timestamp;

const MESSAGES: u64 = 50_000;

/// Files and granules are replaced quickly.
fn options() -> StreamOptions {
    StreamOptions { file_bytes_max: 100 << 10, ..StreamOptions::default() }
}

fn write(db: &Database) {
    let stream = db.create_stream("s", schema(), options()).unwrap();
    let mut loader = stream.loader().unwrap();
    for number in 0..MESSAGES {
        loader.append(&format!("S{}", number / 100), Timestamp(number as i64), &Tick::of(number)).unwrap();
        if mix(number).is_multiple_of(50) {
            loader.flush().unwrap();
        }
    }
    loader.close().unwrap();
}

fn read(mut cursor: Cursor, polls: bool) {
    let mut expected = 0;
    while expected < MESSAGES {
        let wait = if polls { Duration::ZERO } else { Duration::from_secs(60) };
        match cursor.next_within(wait).unwrap() {
            Some(message) => {
                assert_eq!((message.sequence(), number_of(&message)), (expected, expected));
                assert_eq!(message.symbol(), format!("S{}", expected / 100));
                expected += 1;
            }
            None if polls => thread::yield_now(),
            None => panic!("no message came"),
        }
    }
}

/// Opens the stream of another process as soon as there is one.
fn open_when_there(path: &Path) -> Cursor {
    loop {
        let stream = Database::open_read_only(path).and_then(|db| db.stream("s"));
        match stream {
            Ok(stream) => return stream.cursor().live().open().unwrap(),
            Err(_) => thread::yield_now(),
        }
    }
}

#[test]
fn a_reader_sees_what_another_process_writes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let mut writer = child("write", &path).spawn().unwrap();
    thread::scope(|scope| {
        for polls in [false, true] {
            let path = &path;
            scope.spawn(move || read(open_when_there(path), polls));
        }
    });
    assert!(writer.wait().unwrap().success());
}

#[test]
fn another_process_sees_what_we_write() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let mut reader = child("read", &path).spawn().unwrap();
    let db = Database::open(&path).unwrap();
    write(&db);
    let output = BufReader::new(reader.stdout.take().unwrap());
    // All of it: the child must not find the pipe closed.
    assert_eq!(output.lines().filter(|line| reported(line.as_ref().unwrap()) == Some("read")).count(), 1);
    assert!(reader.wait().unwrap().success());
}

/// So many log files become segments while others read; `SEALS=n` for longer.
fn seals() -> u64 {
    std::env::var("SEALS").ok().and_then(|seals| seals.parse().ok()).unwrap_or(400)
}

/// About as many messages as a log file of [`sealed_options`] has.
const MESSAGES_SEALED: u64 = 9;

fn sealed_options() -> StreamOptions {
    StreamOptions { file_bytes_max: 1 << 10, ..StreamOptions::default() }
}

/// Writes, and seals what it has written, by hand and by maintenance.
pub fn child_sealer(path: &Path) {
    let db = Database::open(path).unwrap();
    let stream = db.create_stream("s", schema(), sealed_options()).unwrap();
    let mut loader = stream.loader().unwrap();
    for number in 0..seals() * MESSAGES_SEALED {
        loader.append(&format!("S{}", number / 100), Timestamp(number as i64), &Tick::of(number)).unwrap();
        if mix(number).is_multiple_of(9) {
            loader.flush().unwrap();
        }
        if number.is_multiple_of(MESSAGES_SEALED * 20) {
            stream.seal().unwrap();
        }
    }
    loader.close().unwrap();
    stream.seal().unwrap();
}

/// Opens history again and again, while its files are replaced by others.
fn read_again_and_again(path: &Path, end: u64) {
    let mut stored = 0;
    while stored < end {
        let Ok(stream) = Database::open_read_only(path).and_then(|db| db.stream("s")) else {
            thread::yield_now();
            continue;
        };
        for _ in 0..20 {
            let found = drain(&mut stream.cursor().open().unwrap());
            assert!(found.iter().copied().eq(0..found.len() as u64), "{} messages", found.len());
            assert!(found.len() as u64 >= stored, "{} of {stored}", found.len());
            stored = found.len() as u64;
        }
    }
}

#[test]
fn readers_continue_while_segments_replace_log_files() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let end = seals() * MESSAGES_SEALED;
    let mut writer = child("seal", &path).spawn().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| read_again_and_again(&path, end));
        let mut cursor = open_when_there(&path);
        for expected in 0..end {
            let message = cursor.next_within(Duration::from_secs(60)).unwrap().expect("a message");
            assert_eq!((message.sequence(), number_of(&message)), (expected, expected));
        }
    });
    assert!(writer.wait().unwrap().success());
    let stream = reopen(&path).stream("s").unwrap();
    assert_eq!(drain(&mut stream.cursor().open().unwrap()).len() as u64, end);
    let left = std::fs::read_dir(stream.path().join("0")).unwrap();
    let logs = left.filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|e| e == "log"));
    assert_eq!(logs.count(), 1, "all but the empty one are sealed");
}

pub fn child_writer(path: &Path) {
    write(&Database::open(path).unwrap());
}

pub fn child_reader(path: &Path) {
    read(open_when_there(path), false);
    report("read");
}
