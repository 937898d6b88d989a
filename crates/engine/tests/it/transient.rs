//! Streams in memory: bounded, quick to forget, and honest about it.

use crate::support::*;
use std::fs;
use tapedb_engine::{Cursor, Database, Durability, Error, Position, Stream, StreamOptions};
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

/// Numbers of all messages up to the end, and how many were dropped before each.
fn drain_with_drops(cursor: &mut Cursor) -> Vec<(u64, u64)> {
    let (mut found, mut dropped) = (Vec::new(), 0);
    loop {
        match cursor.next() {
            Ok(Some(message)) => found.push((std::mem::take(&mut dropped), number_of(&message))),
            Ok(None) => return found,
            Err(Error::Dropped { messages, .. }) => {
                assert!(messages > 0 && dropped == 0, "told once");
                dropped = messages;
            }
            Err(error) => panic!("{error}"),
        }
    }
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
    assert_error(resumed, |e| matches!(e, Error::Position { .. }), "in another stream");
    assert_error(db.rename_stream("t", "u"), |e| matches!(e, Error::Options { .. }), "would lose them");
    db.delete_stream("t").unwrap();
    assert_eq!(fs::read_dir(path.join("streams")).unwrap().count(), 0);
}

#[test]
fn who_is_too_slow_is_told_exactly_what_was_missed() {
    let (_directory, db) = new_database();
    let stream = db.create_stream("t", schema(), options()).unwrap();
    append(&stream, 0..100);
    let open = [stream.cursor(), stream.cursor().live(), stream.cursor().skip_history()];
    let mut cursors: Vec<(Cursor, u64)> = open
        .into_iter()
        .zip([100, 5_000, 5_000])
        .map(|(cursor, end)| (cursor.open().unwrap(), end))
        .collect();
    // They have begun, or not.
    cursors[1].0.next().unwrap();
    append(&stream, 100..5_000);
    let bytes = stream.stats().unwrap().bytes;
    assert!(bytes > BYTES_MAX / 2 && bytes < 2 * BYTES_MAX, "{bytes}");
    let oldest = drain(&mut stream.cursor().open().unwrap())[0];
    assert!(oldest > 3_000, "{oldest}");
    for (at, (cursor, end)) in cursors.iter_mut().enumerate() {
        let mut next = [0, 1, 100][at];
        for (dropped, number) in drain_with_drops(cursor) {
            assert_eq!(number, next + dropped, "cursor {at}");
            next = number + 1;
        }
        assert!(next == *end || at == 0, "cursor {at} came to {next} of {end}");
        append(&stream, *end..*end);
    }
    // A position of long ago.
    let position: Position = "live 7 t".parse().unwrap();
    let mut late = stream.cursor().resume(&position).open().unwrap();
    assert_error(
        late.next(),
        |e| {
            matches!(e, Error::Dropped { messages, first_sequence, .. }
        if *messages == oldest - 7 && *first_sequence == oldest)
        },
        "oldest there is",
    );
    assert_eq!(number_of(&late.next().unwrap().unwrap()), oldest);
}

#[test]
fn another_process_is_told_where_the_messages_are() {
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
        |e| matches!(e, Error::Elsewhere { .. }),
        "in the memory of the process",
    );
    let small = StreamOptions { bytes_max: 1 << 10, ..options() };
    assert_error(db.create_stream("u", schema(), small), |e| matches!(e, Error::Options { .. }), "64 KiB");
}
