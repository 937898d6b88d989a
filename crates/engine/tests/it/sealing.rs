//! Sealing damaged files: what could be read before can be read after, losses are reported, and no file is removed.

use crate::support::*;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use tapedb_engine::{
    Database, Error, LogError, MessageColumns, SegmentFailure, Stream, StreamOptions, Symbols, Unreadable,
    forced,
};
use tapedb_schema::Timestamp;
use tapedb_segment::fault::with_fault;

const MESSAGES: u64 = 400;

/// A database with several log files of batches of ten.
fn make(path: &Path) {
    let db = Database::open_without_maintenance(path).unwrap();
    let stream = db.create_stream("s", schema(), small_files()).unwrap();
    let mut loader = stream.loader().unwrap();
    for number in 0..MESSAGES {
        loader.append("A", Timestamp(number as i64), &Tick::of(number)).unwrap();
        if number % 10 == 9 {
            loader.flush().unwrap();
        }
    }
    loader.close().unwrap();
}

pub fn files(path: &Path, extension: &str) -> Vec<PathBuf> {
    let files = fs::read_dir(path.join("streams/s/0")).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.filter(|file| file.extension().is_some_and(|e| e == extension)).collect();
    files.sort();
    files
}

/// The readable messages, and how many are reported as lost.
pub fn read(stream: &Stream, reversed: bool) -> (BTreeSet<u64>, u64) {
    let builder = stream.cursor();
    let mut cursor = if reversed { builder.reverse() } else { builder }.open().unwrap();
    let (mut found, mut lost) = (BTreeSet::new(), 0);
    loop {
        match cursor.next() {
            Ok(Some(message)) => assert!(found.insert(number_of(&message)), "twice"),
            Ok(None) => return (found, lost),
            Err(error) => lost += lost_by(&error),
        }
    }
}

/// How many messages an error says are lost.
pub fn lost_by(error: &Error) -> u64 {
    match error {
        Error::Log(error) => match &**error {
            LogError::Damaged { damage, .. } => damage.count.unwrap(),
            error => panic!("{error}"),
        },
        Error::Unreadable(Unreadable::Lost(lost)) => lost.messages,
        Error::Unreadable(Unreadable::Segment(failure)) => failure.messages,
        error => panic!("{error}"),
    }
}

/// The messages of a live cursor in order of arrival, from the first one on.
pub fn read_arrivals(stream: &Stream) -> (BTreeSet<u64>, u64) {
    let position = format!("live 0 {}", stream.name()).parse().unwrap();
    let mut cursor = stream.cursor().live().resume(&position).open().unwrap();
    let (mut found, mut lost) = (BTreeSet::new(), 0);
    loop {
        match cursor.next() {
            Ok(Some(message)) => assert!(found.insert(number_of(&message)), "twice"),
            Ok(None) => return (found, lost),
            Err(error) => lost += lost_by(&error),
        }
    }
}

fn flip(file: &Path, at: usize) {
    let mut bytes = fs::read(file).unwrap();
    bytes[at] ^= 4;
    fs::write(file, bytes).unwrap();
}

#[test]
fn what_was_sealed_beside_a_file_that_cannot_be_is_discarded() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    make(&path);
    let (db, logs) = (Database::open_without_maintenance(&path).unwrap(), files(&path, "log"));
    let stream = db.stream("s").unwrap();
    // The encoder of this thread is always wrong; the other thread's is right.
    let wrong = |_: bool, block: &mut Vec<u8>| block.clear();
    let sealed = forced::two_threads(|| with_fault(wrong, || stream.seal()));
    assert!(sealed.unwrap_err().to_string().contains("stay where they are"));
    assert_eq!((files(&path, "seg"), files(&path, "tmp")), (vec![], vec![]));
    assert!(files(&path, "log").starts_with(&logs));
    drop((stream, db));
    let stream = Database::open_without_maintenance(&path).unwrap().stream("s").unwrap();
    assert_eq!(forced::two_threads(|| stream.seal()).unwrap(), MESSAGES);
    assert_eq!(read(&stream, false), ((0..MESSAGES).collect(), 0));
}

/// Files of more than a mebibyte are sealed together.
#[test]
fn of_files_that_are_sealed_together_only_the_damaged_one_is_kept() {
    const FILES: u64 = 8;
    const ROWS: u64 = 90_000;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let options = StreamOptions { file_bytes_max: 1_200_000, ..StreamOptions::default() };
    let db = Database::open_without_maintenance(&path).unwrap();
    let stream = db.create_stream("s", "message M { n: i64 }".parse().unwrap(), options).unwrap();
    let mut loader = stream.loader().unwrap();
    let mut all = 0;
    while files(&path, "log").len() <= FILES as usize {
        let times: Vec<i64> = (all..all + ROWS as i64 / 10).collect();
        let numbers: Vec<i64> = times.iter().map(|time| time.wrapping_mul(i64::MAX / 7)).collect();
        let columns = MessageColumns::new("M", &times, Symbols::One("A")).field("n", &numbers);
        loader.append_columns(&columns).unwrap();
        all += times.len() as i64;
    }
    loader.close().unwrap();
    let logs = files(&path, "log");
    // The second of the first four.
    flip(&logs[1], 500_000);
    let read = || {
        let (mut found, mut lost) = (0, 0);
        let mut cursor = stream.cursor().open().unwrap();
        loop {
            match cursor.next() {
                Ok(Some(_)) => found += 1,
                Ok(None) => return (found, lost),
                Err(error) => lost += lost_by(&error),
            }
        }
    };
    let before = read();
    assert!(
        before.0 < all as u64 && before.1 > 0 && before.0 + before.1 == all as u64,
        "{before:?} of {all}"
    );
    assert_eq!(stream.seal().unwrap(), before.0);
    assert_eq!(read(), before);
    let kept: Vec<PathBuf> = files(&path, "damaged");
    assert_eq!(kept, [PathBuf::from(format!("{}.damaged", logs[1].display()))]);
    let segments = files(&path, "seg").len();
    assert!(segments > 4 && segments < logs.len(), "{segments}: those without damage are together elsewhere");
    drop((stream, db));
    let stream = reopen_without_maintenance(&path).stream("s").unwrap();
    let mut cursor = stream.cursor().open().unwrap();
    assert_eq!(lost_by(&cursor.next().unwrap_err()), before.1);
}

#[test]
fn callers_that_seal_at_once_share_the_files() {
    for round in 0..20 {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("db");
        make(&path);
        // With maintenance in the background, what it seals is counted by no caller.
        let (db, is_counted) = match round % 2 {
            0 => (Database::open_without_maintenance(&path).unwrap(), true),
            _ => (Database::open(&path).unwrap(), false),
        };
        let stream = db.stream("s").unwrap();
        let seal = || forced::two_threads(|| stream.seal().unwrap());
        let sealed: u64 = std::thread::scope(|scope| {
            let callers: Vec<_> = (0..3).map(|_| scope.spawn(seal)).collect();
            callers.into_iter().map(|caller| caller.join().unwrap()).sum()
        });
        assert!(if is_counted { sealed == MESSAGES } else { sealed <= MESSAGES }, "round {round}: {sealed}");
        assert_eq!(files(&path, "tmp"), Vec::<PathBuf>::new());
        assert_eq!(read(&stream, false), ((0..MESSAGES).collect(), 0), "round {round}");
        assert_eq!(stream.seal().unwrap(), 0);
    }
}

#[test]
fn what_can_be_read_of_damaged_log_files_is_sealed() {
    let mut random = Random::new();
    for round in 0..24 {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("db");
        make(&path);
        let logs = files(&path, "log");
        assert!(logs.len() > 4);
        // Not the last file, whose end looks unfinished when it is damaged.
        let complete = &logs[..logs.len() - 1];
        for _ in 0..1 + random.below(3) {
            let file = random.pick(complete);
            match random.below(5) {
                _ if !file.exists() => {}
                0 => fs::remove_file(file).unwrap(),
                1 => fs::write(file, &fs::read(file).unwrap()[..200]).unwrap(),
                _ => flip(file, random.below(fs::metadata(file).unwrap().len() as usize)),
            }
            if random.chance(2) {
                let _ = fs::remove_file(file.with_extension("idx"));
            }
        }
        let db = Database::open_without_maintenance(&path).unwrap();
        let stream = db.stream("s").unwrap();
        let before = read(&stream, false).0;
        let sealed = if random.chance(2) { forced::two_threads(|| stream.seal()) } else { stream.seal() };
        assert_eq!(sealed.unwrap(), before.len() as u64);
        let damaged = files(&path, "damaged");
        for reopened in [false, true] {
            let mut stream = stream.clone();
            let reader = Database::open_read_only(&path).unwrap();
            if reopened {
                stream = reader.stream("s").unwrap();
            }
            for (found, lost) in [read(&stream, false), read(&stream, true), read_arrivals(&stream)] {
                assert_eq!(found, before, "round {round}");
                assert_eq!(lost, MESSAGES - before.len() as u64, "round {round}");
            }
        }
        let of_lost =
            files(&path, "log").len() == 1 && (before.len() as u64 == MESSAGES || !damaged.is_empty());
        let all_gone = logs.iter().filter(|log| !log.exists()).count() == logs.len();
        assert!(of_lost || all_gone, "round {round}: {damaged:?}");
    }
}

#[test]
fn a_damaged_file_keeps_its_bytes_under_another_name_whenever_the_process_ends() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    make(&path);
    let log = files(&path, "log")[1].clone();
    flip(&log, 150);
    let bytes = fs::read(&log).unwrap();
    let kept = log.with_extension("log.damaged");
    let db = Database::open_without_maintenance(&path).unwrap();
    db.stream("s").unwrap().seal().unwrap();
    assert_eq!((fs::read(&kept).unwrap() == bytes, log.exists()), (true, false));
    drop(db);
    // The process may end when the manifest has been written and before the file is renamed.
    fs::rename(&kept, &log).unwrap();
    let db = reopen(&path);
    let stream = db.stream("s").unwrap();
    assert_eq!((fs::read(&kept).unwrap() == bytes, log.exists()), (true, false));
    assert_eq!(read(&stream, false).0.len() as u64, MESSAGES - 10);
    stream.clear().unwrap();
    assert_eq!(read(&stream, false), (BTreeSet::new(), 10));
}

#[test]
fn a_missing_segment_is_reported_once_and_maintenance_continues() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    make(&path);
    let db = Database::open_without_maintenance(&path).unwrap();
    let stream = db.stream("s").unwrap();
    stream.seal().unwrap();
    append_ticks(&stream, MESSAGES..MESSAGES + 300);
    stream.seal().unwrap();
    let segments = files(&path, "seg");
    assert!(segments.len() > 1);
    let (all, _) = read(&stream, false);
    assert_eq!(all.len() as u64, MESSAGES + 300);
    fs::remove_file(&segments[0]).unwrap();
    let mut cursor = stream.cursor().open().unwrap();
    let error = cursor.next().unwrap_err();
    let Error::Unreadable(Unreadable::Segment(failure)) = &error else { panic!("{error}") };
    let SegmentFailure { path: named, first_sequence, messages, .. } = &**failure;
    assert_eq!((named, *first_sequence), (&segments[0], 0));
    assert!(error.to_string().contains("is missing"), "{error}");
    assert_eq!(drain(&mut cursor), (*messages..MESSAGES + 300).collect::<Vec<_>>());
    for (found, lost) in [read(&stream, true), read_arrivals(&stream)] {
        assert_eq!((found.len() as u64 + lost, lost), (MESSAGES + 300, *messages));
    }
    // The deletion covers messages in the missing segment, which maintenance leaves as it is.
    stream.delete(Timestamp(5)..Timestamp(MESSAGES as i64 + 5), None::<[&str; 0]>).unwrap();
    stream.seal().unwrap();
    assert_eq!(read(&stream, false).0.len(), 295);
}

/// A cursor that is the last handle of a database keeps maintenance running, as it keeps the database locked.
#[test]
fn maintenance_runs_while_only_a_cursor_is_open() {
    for in_columns in [false, true] {
        let home = tempfile::tempdir().unwrap();
        make(home.path());
        assert!(files(home.path(), "log").len() > 2);
        let db = Database::open(home.path()).unwrap();
        let stream = db.stream("s").unwrap();
        let cursors = match in_columns {
            true => (Some(stream.columns("Tick", ["number"]).open().unwrap()), None),
            false => (None, Some(stream.cursor().live().open().unwrap())),
        };
        drop((db, stream));
        // The active file stays.
        while files(home.path(), "log").len() > 1 {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        drop(cursors);
    }
}
