//! Retention by age and by size, and the cold tier.

use crate::support::*;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tapedb_engine::{Database, Retention, Stream, StreamOptions};
use tapedb_schema::Timestamp;

const SECOND: i64 = 1_000_000_000;

/// A stream without maintenance, of small log files.
fn stream_with(path: &Path, options: StreamOptions) -> (Database, Stream) {
    let db = Database::open_without_maintenance(path).unwrap();
    let options = StreamOptions { file_bytes_max: 4 << 10, ..options };
    let stream = db.create_stream("s", schema(), options).unwrap();
    (db, stream)
}

/// Messages of these numbers, a second apart.
fn append(stream: &Stream, numbers: std::ops::Range<u64>) {
    let mut loader = stream.loader().unwrap();
    for number in numbers {
        loader.append("A", Timestamp(number as i64 * SECOND), &Tick::of(number)).unwrap();
        if number % 10 == 9 {
            loader.flush().unwrap();
        }
    }
    loader.close().unwrap();
}

fn numbers(stream: &Stream) -> Vec<u64> {
    drain(&mut stream.cursor().open().unwrap())
}

/// Checks that the last of `count` messages are there, without holes; the number of the first.
fn first_left(stream: &Stream, count: u64) -> u64 {
    let left = numbers(stream);
    assert!(left.iter().copied().eq(left[0]..count), "{left:?}");
    left[0]
}

/// Lines of parts in the manifest that have a word.
fn parts(stream: &Stream, word: &str) -> usize {
    let manifest = fs::read_to_string(stream.path().join("0/manifest")).unwrap();
    let parts = manifest.lines().filter(|line| line.starts_with("part "));
    parts.filter(|line| line.split(' ').any(|found| found == word)).count()
}

fn aged(seconds: u64) -> StreamOptions {
    let retention = Retention { age: Some(Duration::from_secs(seconds)), bytes: None };
    StreamOptions { retention, ..StreamOptions::default() }
}

#[test]
fn old_messages_are_purged_by_whole_segments() {
    let directory = tempfile::tempdir().unwrap();
    // All messages are from 1970, which does not make them old.
    let (db, stream) = stream_with(&directory.path().join("db"), aged(1000));
    append(&stream, 0..900);
    stream.seal().unwrap();
    assert_eq!(first_left(&stream, 900), 0);
    let mut slow = stream.cursor().live().resume(&"live 20 s".parse().unwrap()).open().unwrap();
    assert_eq!(number_of(&slow.next().unwrap().unwrap()), 20);
    append(&stream, 900..3000);
    let mut before = stream.cursor().open().unwrap();
    assert_eq!(number_of(&before.next().unwrap().unwrap()), 0);
    stream.seal().unwrap();
    let first = first_left(&stream, 3000);
    // No segment is longer than an eighth of the age, but those of one log file alone.
    assert!((1800..2000).contains(&first), "{first}");
    assert_eq!(stream.stats().unwrap().next_sequence, 3000);
    // Cursors that were open return what they have in memory, then what is left.
    for cursor in [&mut before, &mut slow] {
        let rest = drain(cursor);
        let kept: Vec<u64> = rest.iter().copied().skip_while(|number| *number < first).collect();
        assert!(kept.iter().copied().eq(first..3000) && rest.is_sorted(), "{rest:?}");
    }
    drop((before, slow, stream, db));
    let stream = reopen(&directory.path().join("db")).stream("s").unwrap();
    assert_eq!(first_left(&stream, 3000), first);
}

#[test]
fn one_message_from_the_future_makes_nothing_old() {
    let directory = tempfile::tempdir().unwrap();
    let (_db, stream) = stream_with(&directory.path().join("db"), aged(3600));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64;
    let mut loader = stream.loader().unwrap();
    for (number, time) in [(0, now - 7200 * SECOND), (1, now - 60 * SECOND), (2, i64::MAX)] {
        loader.append("A", Timestamp(time), &Tick::of(number)).unwrap();
        loader.flush().unwrap();
        stream.seal().unwrap();
    }
    assert_eq!(numbers(&stream), [1, 2]);
}

#[test]
fn the_oldest_are_purged_while_there_are_too_many_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let (_db, stream) = stream_with(&directory.path().join("db"), StreamOptions::default());
    append(&stream, 0..3000);
    stream.seal().unwrap();
    let bytes = |stream: &Stream| {
        let files = fs::read_dir(stream.path().join("0")).unwrap().map(|entry| entry.unwrap());
        let files = files.filter(|entry| entry.path().extension().is_some_and(|e| e == "seg"));
        files.map(|entry| entry.metadata().unwrap().len()).sum::<u64>()
    };
    let all = bytes(&stream);
    let retention = Retention { age: None, bytes: Some(all / 2) };
    stream.alter(StreamOptions { retention, ..stream.options() }).unwrap();
    append(&stream, 3000..4000);
    stream.seal().unwrap();
    let first = first_left(&stream, 4000);
    assert!(first > 0 && bytes(&stream) <= all / 2, "{first}: {} of {all}", bytes(&stream));
    // However little is allowed, the latest message stays.
    let retention = Retention { age: None, bytes: Some(1) };
    stream.alter(StreamOptions { retention, ..stream.options() }).unwrap();
    stream.seal().unwrap();
    assert!(first_left(&stream, 4000) < 4000 && parts(&stream, "hot") == 1);
}

#[test]
fn purging_by_hand_is_exact() {
    let directory = tempfile::tempdir().unwrap();
    let (_db, stream) = stream_with(&directory.path().join("db"), StreamOptions::default());
    append(&stream, 0..1000);
    stream.seal().unwrap();
    append(&stream, 1000..1500);
    for before in [123, 1234] {
        stream.purge(Timestamp(before * SECOND)).unwrap();
        assert_eq!(first_left(&stream, 1500), before as u64);
    }
}

#[test]
fn old_segments_become_cold_and_stay_so() {
    let directory = tempfile::tempdir().unwrap();
    let options = StreamOptions { cold_after: Some(Duration::from_secs(500)), ..StreamOptions::default() };
    let (_db, stream) = stream_with(&directory.path().join("db"), options);
    for start in (0..4000).step_by(1000) {
        append(&stream, start..start + 1000);
        stream.seal().unwrap();
        let (cold, hot) = (parts(&stream, "cold"), parts(&stream, "hot"));
        assert!(hot > 0 && (cold > 0 || start == 0), "{start}: {cold} cold, {hot} hot");
    }
    stream.alter(StreamOptions { cold_after: Some(Duration::ZERO), ..stream.options() }).unwrap();
    append(&stream, 4000..5000);
    stream.seal().unwrap();
    assert_eq!(parts(&stream, "hot"), 0);
    let few = parts(&stream, "cold");
    assert!(few < 20, "they are merged: {few}");
    assert_eq!(first_left(&stream, 5000), 0);
    // What is cold is not made hot again.
    stream.alter(StreamOptions { cold_after: None, ..stream.options() }).unwrap();
    let cold = |stream: &Stream| parts(stream, "cold");
    append(&stream, 5000..6000);
    stream.delete(Timestamp(0)..Timestamp(10 * SECOND), Some(["A"])).unwrap();
    stream.seal().unwrap();
    assert!(cold(&stream) == few && parts(&stream, "hot") > 0);
    assert_eq!(first_left(&stream, 6000), 10);
}

#[test]
fn a_log_file_is_sealed_when_it_is_old_though_not_full() {
    let (_directory, db) = new_database();
    let options = StreamOptions { seal_after: None, ..StreamOptions::default() };
    let stream = db.create_stream("s", schema(), options).unwrap();
    append_ticks(&stream, 0..10);
    let is_sealed = || parts(&stream, "hot") > 0;
    assert!(!is_sealed());
    stream.alter(StreamOptions { seal_after: Some(Duration::from_millis(1)), ..options }).unwrap();
    while !is_sealed() {
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(drain(&mut stream.cursor().open().unwrap()).len(), 10);
    assert_eq!(stream.maintenance_failure(), None);
}
