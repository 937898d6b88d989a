//! Streams in memory drop the oldest messages, and report it to readers that have not read them.

use super::place::new_database;
use crate::support::*;
use tapedb_engine::{Cursor, Durability, Error, Position, Stream, StreamOptions, Unreadable};
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
            Err(Error::Unreadable(Unreadable::Dropped { messages, .. })) => {
                assert!(messages > 0 && dropped == 0, "reported once");
                dropped = messages;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_slow_reader_is_notified_of_exactly_what_it_missed() {
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
            matches!(e, Error::Unreadable(Unreadable::Dropped { messages, first_sequence, .. })
        if *messages == oldest - 7 && *first_sequence == oldest)
        },
        "oldest there is",
    );
    assert_eq!(number_of(&late.next().unwrap().unwrap()), oldest);
}
