//! Streams in memory: bounded, and losses are reported.

use crate::support::*;
use std::fs;
use tapedb_engine::{Database, Durability, Error, Invalid, Position, Stream, StreamOptions};
use tapedb_schema::Timestamp;

const BYTES_MAX: u64 = 64 << 10;

fn options() -> StreamOptions {
    StreamOptions { durability: Durability::Transient, bytes_max: BYTES_MAX, ..StreamOptions::default() }
}

fn append(stream: &Stream, numbers: std::ops::Range<u64>) {
    let mut loader = stream.loader().unwrap();
    loader.set_batch_bytes(1 << 10);
    for number in numbers {
        loader.append("A", Timestamp(number as i64), &Tick::of(number)).unwrap();
    }
    loader.close().unwrap();
}

#[test]
fn it_is_a_stream_until_the_database_is_closed_and_empty_afterwards() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let db = Database::open(&path).unwrap();
    let stream = db.create_stream("t", schema(), StreamOptions { spaces: 2, ..options() }).unwrap();
    append(&stream, 0..100);
    let mut loader = stream.loader_in(1).unwrap();
    loader.append("B", Timestamp(1_000), &Tick::of(100)).unwrap();
    loader.close().unwrap();
    assert_eq!(drain(&mut stream.cursor().open().unwrap()), (0..101).collect::<Vec<_>>());
    stream.delete(Timestamp(10)..Timestamp(20), None::<[&str; 0]>).unwrap();
    stream.delete(.., Some(["B"])).unwrap();
    let left: Vec<u64> = (0..10).chain(20..100).collect();
    assert_eq!(
        drain(&mut stream.cursor().reverse().open().unwrap()),
        left.iter().rev().copied().collect::<Vec<_>>()
    );
    assert_eq!(stream.seal().unwrap(), 0, "it has no segments");
    assert_eq!(drain(&mut stream.cursor().open().unwrap()), left);
    let stats = stream.stats().unwrap();
    assert_eq!((stats.symbols, stats.next_sequence), (2, 101));
    let names: Vec<_> =
        fs::read_dir(stream.path().join("0")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.iter().all(|name| name.to_str().unwrap().starts_with("manifest")), "{names:?}");

    let mut cursor = stream.cursor().open().unwrap();
    cursor.next().unwrap();
    let position: Position = cursor.position().to_string().parse().unwrap();
    drop((cursor, stream, db));
    let db = reopen(&path);
    let stream = db.stream("t").unwrap();
    assert!(stream.recovery().is_clean() && stream.symbols().is_empty());
    assert_eq!((stream.options().durability, stream.options().bytes_max), (Durability::Transient, BYTES_MAX));
    assert!(drain(&mut stream.cursor().open().unwrap()).is_empty());
    append(&stream, 0..200);
    let resumed = stream.cursor().resume(&position).open();
    assert_error(resumed, |e| matches!(e, Error::Invalid(Invalid::Position { .. })), "in another stream");
    assert_error(
        db.rename_stream("t", "u"),
        |e| matches!(e, Error::Invalid(Invalid::Options { .. })),
        "would lose them",
    );
    db.delete_stream("t").unwrap();
    assert_eq!(fs::read_dir(path.join("streams")).unwrap().count(), 0);
}

#[test]
fn another_process_is_refused_with_the_reason() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let db = Database::open(&path).unwrap();
    let stream = db.create_stream("t", schema(), options()).unwrap();
    append(&stream, 0..10);
    // It shares nothing with the writer but the files.
    let beside = Database::open_read_only(&path).unwrap();
    let seen = beside.stream("t").unwrap();
    assert_eq!((seen.schema(), seen.stats().unwrap().messages), (stream.schema(), 0));
    assert_error(
        seen.cursor().open(),
        |e| matches!(e, Error::Invalid(Invalid::Elsewhere { .. })),
        "in the memory of the process",
    );
    let small = StreamOptions { bytes_max: 1 << 10, ..options() };
    assert_error(
        db.create_stream("u", schema(), small),
        |e| matches!(e, Error::Invalid(Invalid::Options { .. })),
        "64 KiB",
    );
}
