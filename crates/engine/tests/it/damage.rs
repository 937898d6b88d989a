//! Damaged files: an error that names the file, or a report; never a wrong message, a panic or a silent loss.

use crate::support::*;
use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use tapedb_engine::{Database, Error, LogError, NotFound, Stream, Unreadable};
use tapedb_log::FILE_HEADER_BYTES;
use tapedb_schema::Timestamp;

const MESSAGES: u64 = 400;
const BATCH: u64 = 10;
const FILES: [&str; 6] = [
    "tapedb.database",
    "streams/s/stream.tape",
    "streams/s/stream.tape.copy",
    "streams/s/symbols",
    "streams/s/0/00000000000000000000.log",
    "streams/s/0/00000000000000000000.idx",
];

fn symbol_of(number: u64) -> String {
    format!("S{}", number / 40)
}

/// A database with several log files.
fn make(path: &Path) {
    let db = Database::open_without_maintenance(path).unwrap();
    let stream = db.create_stream("s", schema(), small_files()).unwrap();
    let mut loader = stream.loader().unwrap();
    for number in 0..MESSAGES {
        loader.append(&symbol_of(number), Timestamp(number as i64), &Tick::of(number)).unwrap();
        if number % BATCH == BATCH - 1 {
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

/// The log files of the stream, in order.
fn logs(path: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(path.join("streams/s/0")).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.filter(|file| file.extension().is_some_and(|e| e == "log")).collect();
    files.sort();
    files
}

/// What damage may do.
#[derive(Debug, Clone)]
struct Loss {
    /// Messages of the damaged file.
    within: Range<u64>,
    /// At most so many of them are lost.
    at_most: u64,
    /// They may be missing at the end, as if they had not been written yet.
    open_end: bool,
    /// Whether names of symbols may be lost.
    symbols: bool,
}

impl Loss {
    /// By damage to `file` that touches at most `batches` batches.
    fn of(path: &Path, file: &str, batches: u64) -> Self {
        let firsts: Vec<u64> = logs(path).iter().map(|log| first_of(log)).chain([MESSAGES]).collect();
        let log = Path::new(file).extension().is_some_and(|e| e == "log").then(|| first_of(Path::new(file)));
        let within =
            firsts.windows(2).find(|pair| Some(pair[0]) == log).map_or(0..0, |pair| pair[0]..pair[1]);
        let symbols = file.ends_with("symbols");
        let at_most = (within.end - within.start).min(batches.saturating_mul(BATCH));
        Self { at_most, open_end: within.end == MESSAGES, within, symbols }
    }
}

/// First sequence number in a log file.
fn first_of(log: &Path) -> u64 {
    log.file_stem().unwrap().to_str().unwrap().parse().unwrap()
}

/// Reads everything, in every way, and checks that nothing is wrong, that each lost message is reported, and that no more are
/// lost than `loss` allows.
fn check(stream: &Stream, loss: &Loss) {
    for reversed in [false, true] {
        let builder = stream.cursor();
        let mut cursor = if reversed { builder.reverse() } else { builder }.open().unwrap();
        let mut missing: BTreeSet<u64> = (0..MESSAGES).collect();
        let mut named = BTreeSet::new();
        loop {
            match cursor.next() {
                Ok(None) => break,
                Ok(Some(message)) => {
                    let number = number_of(&message);
                    assert_eq!((message.sequence(), message.time().0 as u64), (number, number));
                    let symbol = message.symbol();
                    let is_lost = loss.symbols && symbol.starts_with('?');
                    assert!(symbol == symbol_of(number) || is_lost, "{number}: {symbol}");
                    assert!(missing.remove(&number), "{number} twice");
                }
                Err(error) => named.extend(named_by(&error)),
            }
        }
        assert!(missing.len() as u64 <= loss.at_most, "{loss:?}, but {missing:?} are missing");
        assert!(missing.iter().all(|number| loss.within.contains(number)), "{loss:?}: {missing:?}");
        if loss.open_end {
            (0..MESSAGES).rev().take_while(|last| missing.remove(last)).for_each(drop);
        }
        assert!(missing.is_subset(&named), "{missing:?} are missing, {named:?} are named");
    }
}

/// The messages that cannot be read, according to the error.
fn named_by(error: &Error) -> Range<u64> {
    match error {
        Error::Log(error) => match &**error {
            LogError::Damaged { path, damage } => {
                let name = path.file_name().unwrap().to_str().unwrap();
                assert!(logs(path.ancestors().nth(4).unwrap()).contains(path), "{name}");
                let count = damage.count.unwrap_or(MESSAGES);
                damage.first_sequence..damage.first_sequence.saturating_add(count).min(MESSAGES)
            }
            error => panic!("{error}"),
        },
        error => panic!("{error}"),
    }
}

/// Whatever the damage, the database opens and reads, or names the damaged file.
/// A shorter last file cannot be distinguished from one that was not written further; nor, by a reader, a bad last batch from
/// one that is being written. A writer cuts that off, and reports it when it opens the stream.
fn check_database(path: &Path, damaged: &str, is_shorter: bool, loss: &Loss) {
    for writing in [false, true] {
        let db =
            if writing { Database::open_without_maintenance(path) } else { Database::open_read_only(path) };
        let opened = db.and_then(|db| db.stream("s").map(|stream| (db, stream)));
        match opened {
            Ok((_db, stream)) => {
                let recovery = stream.recovery();
                if damaged.contains("stream.tape") {
                    assert!(recovery.definition.as_ref().is_some_and(|what| what.contains("stream.tape")));
                }
                let symbols = &recovery.symbols;
                let names_symbols =
                    recovery.symbols_lost > 0 || symbols.cut_bytes > 0 || !symbols.damaged.is_empty();
                let loss = Loss {
                    open_end: loss.open_end && (is_shorter || !writing || !recovery.logs[0].cut.is_empty()),
                    symbols: loss.symbols && (names_symbols || !writing),
                    ..loss.clone()
                };
                check(&stream, &loss);
                if writing {
                    check_appending(&stream);
                }
            }
            Err(Error::NotFound(NotFound::Database { .. })) => assert_eq!(damaged, FILES[0]),
            // There twice.
            Err(error) if damaged.contains("stream.tape") => panic!("{error}"),
            Err(error) => {
                let name = Path::new(damaged).file_name().unwrap().to_str().unwrap();
                assert!(error.to_string().contains(name), "{damaged}: {error}");
            }
        }
    }
}

/// A new message gets a new sequence number, and its symbol is only its own.
fn check_appending(stream: &Stream) {
    let next = stream.stats().unwrap().next_sequence;
    let mut loader = stream.loader().unwrap();
    loader.append("new", Timestamp(i64::MAX), &Tick::of(7)).unwrap();
    assert_eq!(loader.close().unwrap(), next + 1);
    for of_new in [stream.cursor().symbols(["new"]), stream.cursor().reverse()] {
        let mut cursor = of_new.open().unwrap();
        let mut sequences = Vec::new();
        loop {
            match cursor.next() {
                Ok(Some(message)) if message.symbol() == "new" => sequences.push(message.sequence()),
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(error) => drop(named_by(&error)),
            }
        }
        assert_eq!(sequences, [next], "a stored message has become one of a new symbol");
    }
}

/// `damage` says how many batches it may have touched.
fn with_damage(original: &Path, file: &str, damage: impl FnOnce(&mut Vec<u8>) -> u64) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    copy(original, &path);
    let target = path.join(file);
    let mut content = fs::read(&target).unwrap();
    let len = content.len();
    let batches = damage(&mut content);
    fs::write(&target, &content).unwrap();
    check_database(&path, file, content.len() < len, &Loss::of(original, file, batches));
}

fn for_every_file(rounds: usize, mut damage: impl FnMut(&mut Random, &mut Vec<u8>) -> u64) {
    let mut random = Random::new();
    let (directory, path) = (tempfile::tempdir().unwrap(), "db");
    let original = directory.path().join(path);
    make(&original);
    let last = logs(&original).pop().unwrap().strip_prefix(&original).unwrap().to_str().unwrap().to_string();
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
        if at < FILE_HEADER_BYTES as usize { u64::MAX } else { 1 }
    });
}

#[test]
fn truncated_files() {
    for_every_file(5, |random, content| {
        content.truncate(random.below(content.len()));
        u64::MAX
    });
}

#[test]
fn overwritten_parts() {
    for_every_file(5, |random, content| {
        let from = random.below(content.len());
        let to = (from + 1 + random.below(200)).min(content.len());
        content[from..to].fill_with(|| random.next() as u8);
        // A batch has more bytes than that.
        if from < FILE_HEADER_BYTES as usize { u64::MAX } else { 2 }
    });
}

#[test]
fn garbage_instead_of_files() {
    for_every_file(3, |random, content| {
        *content = (0..random.below(10_000)).map(|_| random.next() as u8).collect();
        u64::MAX
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
        check_database(&path, file, false, &Loss::of(&original, file, u64::MAX));
    }
    let path = directory.path().join("no-space");
    copy(&original, &path);
    fs::remove_dir_all(path.join("streams/s/0")).unwrap();
    check_database(&path, "streams/s/0", false, &Loss::of(&original, "streams/s/0", 0));
    // What cannot be opened can be deleted.
    let db = reopen(&path);
    assert_error(
        db.stream("s"),
        |e| matches!(e, Error::Unreadable(Unreadable::Definition { .. })),
        "all messages",
    );
    db.delete_stream("s").unwrap();
    assert!(db.streams().unwrap().is_empty());
}

/// Damage that opening has found is reported to each cursor of history once, before the messages.
#[test]
fn known_losses_are_reported_to_each_cursor() {
    let directory = tempfile::tempdir().unwrap();
    let original = directory.path().join("db");
    make(&original);
    let firsts: Vec<u64> = logs(&original).iter().map(|file| first_of(file)).collect();
    for gone in 0..firsts.len() - 1 {
        let path = directory.path().join(gone.to_string());
        copy(&original, &path);
        fs::remove_file(&logs(&path)[gone]).unwrap();
        let lost = firsts[gone]..firsts[gone + 1];
        let said = format!("messages {} to {} cannot be read", lost.start, lost.end - 1);
        let stream = Database::open_without_maintenance(&path).unwrap().stream("s").unwrap();
        let cursor = || stream.cursor();
        let builders = [
            cursor(),
            cursor().reverse(),
            cursor().live(),
            cursor().symbols(["S3"]),
            cursor().resume(&"live 0 s\n".parse().unwrap()),
        ];
        for (i, builder) in builders.into_iter().enumerate() {
            let (mut cursor, mut errors, mut found) = (builder.open().unwrap(), Vec::new(), 0);
            loop {
                match cursor.next() {
                    Ok(Some(_)) => found += 1,
                    Ok(None) => break,
                    Err(error) => errors.push(error.to_string()),
                }
            }
            assert!(errors.len() == 1 && errors[0].contains(&said), "{i}: {errors:?} lacks {said:?}");
            let of_symbol = (120..160).filter(|number| !lost.contains(number)).count() as u64;
            assert_eq!(found, if i == 3 { of_symbol } else { MESSAGES - (lost.end - lost.start) });
        }
        let mut new_only = cursor().skip_history().open().unwrap();
        assert!(new_only.next().unwrap().is_none());
    }
}
