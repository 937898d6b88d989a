//! Damaged files: an error that names the file, or a report; never a wrong message, a panic or a silent loss.

use crate::support::*;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use tapedb_engine::{Database, Error, Stream};
use tapedb_schema::Timestamp;

const MESSAGES: u64 = 400;
const FILES: [&str; 5] = [
    "tapedb.database",
    "streams/s/stream.tape",
    "streams/s/symbols",
    "streams/s/0/00000000000000000000.log",
    "streams/s/0/00000000000000000000.idx",
];

fn symbol_of(number: u64) -> String {
    format!("S{}", number / 40)
}

/// A database with several log files.
fn make(path: &Path) {
    let db = Database::open(path).unwrap();
    let stream = db.create_stream("s", schema(), small_files()).unwrap();
    let mut loader = stream.loader().unwrap();
    for number in 0..MESSAGES {
        loader.append(&symbol_of(number), Timestamp(number as i64), &Tick::of(number)).unwrap();
        if number % 10 == 9 {
            loader.flush().unwrap();
        }
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (path, target) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

fn last_log(path: &Path) -> Option<PathBuf> {
    let files = fs::read_dir(path.join("streams/s/0")).ok()?.map(|entry| entry.unwrap().path());
    files.filter(|file| file.extension().is_some_and(|e| e == "log")).max()
}

/// Reads all there is, in every way, and checks that nothing is wrong and nothing is missing in silence.
/// `open_end`: messages may be missing at the end, as if they had not been written yet.
fn check(stream: &Stream, open_end: bool) {
    let mut told = !stream.recovery().is_clean();
    for reversed in [false, true] {
        let builder = stream.cursor();
        let mut cursor = if reversed { builder.reverse() } else { builder }.open().unwrap();
        let mut missing: BTreeSet<u64> = (0..MESSAGES).collect();
        loop {
            match cursor.next() {
                Ok(None) => break,
                Ok(Some(message)) => {
                    let number = number_of(&message);
                    assert_eq!((message.sequence(), message.time().0 as u64), (number, number));
                    let symbol = message.symbol();
                    assert!(symbol == symbol_of(number) || symbol.starts_with('?'), "{number}: {symbol}");
                    assert!(missing.remove(&number), "{number} twice");
                }
                Err(error) => {
                    assert!(error.to_string().contains("/0"), "{error}");
                    told = true;
                }
            }
        }
        // At most what was in damaged batches or, for a header, in one file.
        let at_the_end =
            missing.iter().rev().zip((0..MESSAGES).rev()).all(|(&missing, last)| missing == last);
        assert!(missing.is_empty() || told || (open_end && at_the_end), "{missing:?} are missing in silence");
    }
}

/// Whatever the damage, the database opens and reads, or says in which file the trouble is.
/// A shorter last file cannot be told from one that was not written further; nor, by a reader, a bad last batch from one
/// that is being written.
fn check_database(path: &Path, damaged: &str, is_shorter: bool) {
    let is_last = last_log(path).is_some_and(|last| last.ends_with(damaged));
    for writing in [false, true] {
        let db = if writing { Database::open(path) } else { Database::open_read_only(path) };
        let opened = db.and_then(|db| db.stream("s").map(|stream| (db, stream)));
        match opened {
            Ok((_db, stream)) => {
                check(&stream, is_last && (is_shorter || !writing));
                if writing {
                    let next = stream.stats().unwrap().next_sequence;
                    let mut loader = stream.loader().unwrap();
                    loader.append("new", Timestamp(i64::MAX), &Tick::of(7)).unwrap();
                    assert_eq!(loader.close().unwrap(), next + 1);
                    let mut cursor = stream.cursor().reverse().open().unwrap();
                    assert_eq!(cursor.next().unwrap().unwrap().symbol(), "new");
                    let mut of_new = stream.cursor().symbols(["new"]).open().unwrap();
                    let mut count = 0;
                    loop {
                        match of_new.next() {
                            Ok(Some(_)) => count += 1,
                            Ok(None) => break,
                            Err(error) => assert!(error.to_string().contains("/0"), "{error}"),
                        }
                    }
                    assert_eq!(count, 1, "a stored message has become one of a new symbol");
                }
            }
            Err(Error::NotADatabase { .. }) => assert_eq!(damaged, FILES[0]),
            Err(error) => {
                let name = Path::new(damaged).file_name().unwrap().to_str().unwrap();
                assert!(error.to_string().contains(name), "{damaged}: {error}");
            }
        }
    }
}

fn with_damage(original: &Path, file: &str, damage: impl FnOnce(&mut Vec<u8>)) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    copy(original, &path);
    let target = path.join(file);
    let mut content = fs::read(&target).unwrap();
    let len = content.len();
    damage(&mut content);
    fs::write(&target, &content).unwrap();
    check_database(&path, file, content.len() < len);
}

fn for_every_file(rounds: usize, mut damage: impl FnMut(&mut Random, &mut Vec<u8>)) {
    let mut random = Random::new();
    let (directory, path) = (tempfile::tempdir().unwrap(), "db");
    let original = directory.path().join(path);
    make(&original);
    let last = last_log(&original).unwrap().strip_prefix(&original).unwrap().to_str().unwrap().to_string();
    for file in FILES.iter().copied().chain([&*last]) {
        for _ in 0..rounds {
            with_damage(&original, file, |content| damage(&mut random, content));
        }
    }
}

#[test]
fn flipped_bits() {
    for_every_file(10, |random, content| {
        let at = random.below(content.len());
        content[at] ^= 1 << random.below(8);
    });
}

#[test]
fn truncated_files() {
    for_every_file(5, |random, content| content.truncate(random.below(content.len())));
}

#[test]
fn overwritten_parts() {
    for_every_file(5, |random, content| {
        let from = random.below(content.len());
        let to = (from + 1 + random.below(200)).min(content.len());
        content[from..to].fill_with(|| random.next() as u8);
    });
}

#[test]
fn garbage_instead_of_files() {
    for_every_file(3, |random, content| {
        *content = (0..random.below(10_000)).map(|_| random.next() as u8).collect();
    });
}

#[test]
fn missing_files() {
    let directory = tempfile::tempdir().unwrap();
    let original = directory.path().join("db");
    make(&original);
    for (i, file) in FILES[1..].iter().enumerate() {
        let path = directory.path().join(i.to_string());
        copy(&original, &path);
        fs::remove_file(path.join(file)).unwrap();
        check_database(&path, file, false);
    }
    let path = directory.path().join("no-space");
    copy(&original, &path);
    fs::remove_dir_all(path.join("streams/s/0")).unwrap();
    check_database(&path, "streams/s/0", false);
    // What cannot be opened can be deleted.
    let db = Database::open(&path).unwrap();
    assert_error(db.stream("s"), |e| matches!(e, Error::Definition { .. }), "all messages");
    db.delete_stream("s").unwrap();
    assert!(db.streams().unwrap().is_empty());
}
