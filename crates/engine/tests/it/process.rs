//! One process writes, another reads.

use crate::support::*;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::thread;
use std::time::Duration;
use tapedb_engine::{Cursor, Database, StreamOptions};
use tapedb_schema::Timestamp;

const MESSAGES: u64 = 50_000;

/// Files and granules come and go quickly.
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
    assert_eq!(output.lines().filter(|line| told(line.as_ref().unwrap()) == Some("read")).count(), 1);
    assert!(reader.wait().unwrap().success());
}

pub fn child_writer(path: &Path) {
    write(&Database::open(path).unwrap());
}

pub fn child_reader(path: &Path) {
    read(open_when_there(path), false);
    tell("read");
}
