//! The start of cursors, cursors over several streams, and seeking.

use crate::counting::Counting;
use crate::support::*;
use std::sync::Arc;
use tapedb_engine::{Access, Database, Error, Invalid, Position, Stream, StreamOptions};
use tapedb_log::MemoryStorage;
use tapedb_schema::Timestamp;

#[test]
fn a_cursor_begins_with_the_last_messages() {
    let (_directory, db) = new_database();
    let options = StreamOptions { spaces: 3, ..small_files() };
    let one = db.create_stream("one", schema(), options).unwrap();
    let two = db.create_stream("two", schema(), StreamOptions::default()).unwrap();
    let mut loaders: Vec<_> = (0..3).map(|space| one.loader_in(space).unwrap()).collect();
    loaders.push(two.loader().unwrap());
    for number in 0..400 {
        // Many of equal times.
        let (time, loader) = (Timestamp(number as i64 / 7), mix(number) as usize % 4);
        loaders[loader].append(["A", "B"][number as usize % 2], time, &Tick::of(number)).unwrap();
    }
    for loader in &mut loaders {
        loader.flush().unwrap();
    }
    let all = drain(&mut db.cursor(["one", "two"]).unwrap().open().unwrap());
    for count in [0, 1, 6, 7, 8, 399, 400, 401, u64::MAX] {
        let builder = || db.cursor(["one", "two"]).unwrap().last(count);
        let from = all.len() - (count as usize).min(all.len());
        assert_eq!(drain(&mut builder().open().unwrap()), all[from..], "{count}");
        let mut live = builder().live().open().unwrap();
        assert_eq!(drain(&mut live), all[from..], "{count}");
        assert!(live.is_live());
    }
    let mut live = two.cursor().last(2).symbols(["B"]).live().open().unwrap();
    loaders[3].append("A", Timestamp(500), &Tick::of(500)).unwrap();
    loaders[3].append("B", Timestamp(0), &Tick::of(501)).unwrap();
    loaders[3].flush().unwrap();
    let of_b = drain(&mut two.cursor().symbols(["B"]).to(Timestamp(400)).open().unwrap());
    let before: Vec<u64> = of_b.into_iter().filter(|number| *number != 501).collect();
    assert_eq!(drain(&mut live), [&before[before.len() - 2..], &[501]].concat());
    let backwards = two.cursor().last(2).reverse().open();
    assert_error(
        backwards,
        |e| matches!(e, Error::Invalid(Invalid::Cursor { .. })),
        "stop reading after that many",
    );
}

#[test]
fn a_cursor_begins_with_a_sequence_number() {
    let (_directory, db) = new_database();
    let options = StreamOptions { spaces: 2, ..small_files() };
    let stream = db.create_stream("s", schema(), options).unwrap();
    for space in 0..2 {
        let mut loader = stream.loader_in(space).unwrap();
        for number in 0..100 {
            let time = Timestamp((mix(number) % 50) as i64);
            loader.append("A", time, &Tick::of(u64::from(space) * 100 + number)).unwrap();
        }
        loader.flush().unwrap();
    }
    for _ in ["in the log", "sealed"] {
        let begun = |sequences: [u64; 2]| {
            let mut found = drain(&mut stream.cursor().from_sequences(sequences).open().unwrap());
            found.sort_unstable();
            found
        };
        assert_eq!(begun([97, 99]), [97, 98, 99, 199]);
        assert_eq!(begun([100, 0]), (100..200).collect::<Vec<_>>());
        stream.seal().unwrap();
    }
    // In order of arrival, whatever the times.
    let (_directory, db) = new_database();
    let single = db.create_stream("s", schema(), StreamOptions::default()).unwrap();
    let mut loader = single.loader().unwrap();
    for (number, time) in [(0, 9), (1, 3), (2, 5), (3, 1)] {
        loader.append("A", Timestamp(time), &Tick::of(number)).unwrap();
    }
    loader.flush().unwrap();
    let mut cursor = single.cursor().from_sequence(1).live().open().unwrap();
    assert_eq!(drain(&mut cursor), [1, 2, 3]);
    append_ticks(&single, 4..6);
    assert_eq!(drain(&mut cursor), [4, 5]);
    let position = |e: &Error| matches!(e, Error::Invalid(Invalid::Position { .. }));
    assert_error(single.cursor().from_sequence(7).open(), position, "has 6 messages");
    let apart = |e: &Error| matches!(e, Error::Invalid(Invalid::Cursor { .. }));
    assert_error(stream.cursor().from_sequence(7).open(), apart, "have 2 spaces, and there are 1");
    assert_error(single.cursor().from_sequence(1).last_values().open(), apart, "last values");
}

#[test]
fn a_cursor_seeks_to_a_time() {
    let (_directory, db) = new_database();
    let stream = db.create_stream("s", schema(), small_files()).unwrap();
    append_ticks(&stream, 0..300);
    stream.seal().unwrap();
    append_ticks(&stream, 300..400);
    let mut cursor = stream.cursor().from(Timestamp(10)).to(Timestamp(390)).live().open().unwrap();
    for (time, first) in [(250, 250), (20, 20), (389, 389), (0, 10), (i64::MIN, 10), (299, 299)] {
        cursor.seek(Timestamp(time)).unwrap();
        let position: Position = cursor.position().to_string().parse().unwrap();
        assert_eq!(number_of(&cursor.next().unwrap().unwrap()), first);
        let builder = || stream.cursor().from(Timestamp(10)).to(Timestamp(390)).live();
        assert_eq!(drain(&mut builder().resume(&position).open().unwrap()), (first..390).collect::<Vec<_>>());
    }
    assert_eq!(drain(&mut cursor), (300..390).collect::<Vec<_>>());
    // Live after it, and back in history.
    append_ticks(&stream, 380..385);
    assert_eq!(drain(&mut cursor), (380..385).collect::<Vec<_>>());
    cursor.seek(Timestamp(384)).unwrap();
    assert_eq!(drain(&mut cursor), [384, 384, 385, 386, 387, 388, 389]);
    cursor.seek(Timestamp(i64::MAX)).unwrap();
    assert!(cursor.next().unwrap().is_none() && cursor.is_live());

    let mut backwards = stream.cursor().reverse().open().unwrap();
    for (time, first) in [(250, 250), (20, 20), (399, 399), (i64::MAX, 399), (0, 0)] {
        backwards.seek(Timestamp(time)).unwrap();
        assert_eq!(number_of(&backwards.next().unwrap().unwrap()), first);
    }
    backwards.seek(Timestamp(-1)).unwrap();
    assert!(backwards.next().unwrap().is_none());
    // From last values to history.
    let mut cursor = stream.cursor().last_values().open().unwrap();
    assert_eq!(drain(&mut cursor), [399]);
    cursor.seek(Timestamp(397)).unwrap();
    assert_eq!(drain(&mut cursor), [397, 398, 399]);
}

/// Sealed in parts, so that there are many segments.
fn sealed(parts: u64) -> (Counting, Database, Stream) {
    const PART: u64 = 10_000;
    let storage = Counting::on(Arc::new(MemoryStorage::new()));
    let db = Database::open_on(Arc::new(storage.clone()), "db", Access::WriteWithoutMaintenance).unwrap();
    let stream = db.create_stream("s", schema(), StreamOptions::default()).unwrap();
    for part in 0..parts {
        append_ticks(&stream, part * PART..(part + 1) * PART);
        stream.seal().unwrap();
    }
    (storage, db, stream)
}

#[test]
fn seeking_does_not_read_history() {
    let cost = |parts: u64| {
        let (storage, _db, stream) = sealed(parts);
        let messages = stream.stats().unwrap().messages;
        let mut cursor = stream.cursor().open().unwrap();
        let (mut reads, mut bytes) = (0, 0);
        for i in 0..20 {
            let target = mix(i) % messages;
            storage.reset();
            cursor.seek(Timestamp(target as i64)).unwrap();
            assert_eq!(number_of(&cursor.next().unwrap().unwrap()), target);
            reads = reads.max(storage.reads());
            bytes = bytes.max(storage.bytes_read());
        }
        (reads, bytes, stream.stats().unwrap().bytes)
    };
    let ((reads, bytes, all), (reads_10, bytes_10, all_10)) = (cost(7), cost(70));
    assert!(all_10 > 7 * all, "{all} and {all_10}");
    assert!((1..=16).contains(&reads) && reads_10 <= 16, "{reads} and {reads_10} reads");
    // A segment has at least a block, and a block is read whole.
    assert!(bytes_10 < 8 * bytes && bytes_10 < all_10 / 4, "{bytes} and {bytes_10} of {all_10} bytes");
}

#[test]
fn a_busy_stream_does_not_delay_others() {
    let (_directory, db) = new_database();
    let streams = ["a", "b"].map(|name| db.create_stream(name, schema(), StreamOptions::default()).unwrap());
    let mut cursor = db.cursor(["a", "b"]).unwrap().skip_history().live().open().unwrap();
    append_ticks(&streams[0], 0..20_000);
    let mut from_a = 0;
    let mut next = |cursor: &mut tapedb_engine::Cursor| {
        let message = cursor.next().unwrap().unwrap();
        let is_b = message.stream_name() == "b";
        if !is_b {
            assert_eq!(number_of(&message), from_a);
            from_a += 1;
        }
        is_b.then(|| number_of(&message))
    };
    for number in 0..20 {
        // In the middle of what lies ready of the other.
        (0..30).for_each(|_| assert_eq!(next(&mut cursor), None));
        append_ticks(&streams[1], number..number + 1);
        let waited = (0..200).find_map(|_| next(&mut cursor));
        assert_eq!(waited, Some(number), "it waits behind messages that came before it");
    }
}
