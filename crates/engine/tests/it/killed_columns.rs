//! A process that appends columns, and nothing else, is killed within its calls, again and again, while readers in this process follow
//! its files: a call that is one batch is there whole or not at all, a longer one up to a batch, and what was acknowledged stays.
//! `STORM_ROUNDS=n` runs for longer (`make storm`).

use crate::child::{child as child_process, report, reported};
use crate::support::*;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use tapedb_engine::{Database, Loader, MessageColumns, Retention, StreamOptions, Symbols, Values};

const SCHEMA: &str = "message M { n: i64, m: i64? }";
const WAIT: Duration = Duration::from_secs(100);
/// More rows than a batch has.
const LONG: usize = 100_000;

fn symbol_of(number: u64) -> &'static str {
    ["A", "B", "C"][(mix(number) % 3) as usize]
}

/// Times and the first field are numbers; the second field is null for each third one.
fn append(loader: &mut Loader, numbers: std::ops::Range<u64>) {
    let times: Vec<i64> = numbers.clone().map(u64::cast_signed).collect();
    let mixed: Vec<i64> = numbers.clone().map(|number| mix(number).cast_signed()).collect();
    let known: Vec<bool> = numbers.clone().map(|number| !number.is_multiple_of(3)).collect();
    let symbols: Vec<&str> = numbers.map(symbol_of).collect();
    let columns = MessageColumns::new("M", &times, Symbols::Names(&symbols));
    loader.append_columns(&columns.field("n", &times).nullable("m", &mixed, &known)).unwrap();
}

/// Appends from the end on, without end; reports what it is about to append, and what is acknowledged.
pub fn child(path: &Path) {
    let db = Database::open(path).unwrap();
    let stream = db.stream("s").unwrap();
    let (mut loader, mut random) = (stream.loader().unwrap(), Random::new());
    let mut number = stream.stats().unwrap().next_sequence;
    loop {
        let rows = if random.chance(6) { LONG } else { 256 + random.below(2_000) };
        let end = number + rows as u64;
        report(&format!("begin {number} {end}"));
        append(&mut loader, number..end);
        assert_eq!(loader.flush().unwrap(), end);
        report(&format!("have {end} {end}"));
        number = end;
        if random.chance(15) {
            stream.seal().unwrap();
        }
    }
}

/// Runs a writer for a random time, and kills it. What it has reported: the end of what is acknowledged, and the call that it was in.
fn run_and_kill(path: &Path, random: &mut Random) -> (u64, Option<(u64, u64)>) {
    let mut writer = child_process("append columns", path).spawn().unwrap();
    let output = BufReader::new(writer.stdout.take().unwrap());
    let (sender, lines) = mpsc::channel();
    let reader = thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            let Some(line) = reported(&line) else { continue };
            let words: Vec<&str> = line.split(' ').collect();
            // The last line may be cut.
            if let [word, from, to] = words[..]
                && let (Ok(from), Ok(to)) = (from.parse::<u64>(), to.parse::<u64>())
            {
                let _ = sender.send((word == "have", from, to));
            }
        }
    });
    let mut heard = Vec::new();
    for _ in 0..random.below(60) {
        heard.extend(lines.recv_timeout(WAIT));
    }
    // In the middle of a call, mostly.
    thread::sleep(Duration::from_micros(random.next() % 3_000));
    writer.kill().unwrap();
    writer.wait().unwrap();
    reader.join().unwrap();
    heard.extend(lines.try_iter());
    let have = heard.iter().filter(|line| line.0).map(|line| line.1).next_back().unwrap_or(0);
    let begun = heard.last().filter(|line| !line.0).map(|line| (line.1, line.2));
    (have, begun)
}

/// Takes rows, which come in order and without holes, until `end` is set and reached.
fn follow(end: &AtomicU64, mut more: impl FnMut(u64) -> u64) {
    let (mut next, start) = (0, Instant::now());
    while next < end.load(Ordering::SeqCst) {
        next = more(next);
        assert!(start.elapsed() < 10 * WAIT, "{next} of {end:?}");
    }
}

fn check_row(number: u64, n: i64, time: i64) {
    assert_eq!((n, time), (number.cast_signed(), number.cast_signed()));
}

#[test]
fn a_process_that_appends_columns_is_killed_again_and_again() {
    let rounds = std::env::var("STORM_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(12);
    let mut random = Random::new();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let options = StreamOptions { file_bytes_max: 1 << 20, ..StreamOptions::default() };
    Database::open(&path).unwrap().create_stream("s", SCHEMA.parse().unwrap(), options).unwrap();
    let end = AtomicU64::new(u64::MAX);
    let (end, path) = (&end, &path);
    thread::scope(|scope| {
        let rows = scope.spawn(move || {
            let db = Database::open_read_only(path).unwrap();
            let mut cursor = db.cursor(["s"]).unwrap().live().open().unwrap();
            follow(end, |next| match cursor.next_within(Duration::from_millis(50)).unwrap() {
                None => next,
                Some(message) => {
                    let record = message.record().unwrap();
                    let n = record.get("n").unwrap().to_string();
                    check_row(next, n.parse().unwrap(), message.time().0);
                    assert_eq!((message.sequence(), message.symbol()), (next, symbol_of(next)));
                    next + 1
                }
            });
        });
        let columns = [false, true].map(|in_time_order| {
            scope.spawn(move || {
                let db = Database::open_read_only(path).unwrap();
                let builder = db.cursor(["s"]).unwrap().live().columns("M", ["n", "m", "m?"]);
                let builder = if in_time_order { builder.in_time_order() } else { builder };
                let mut cursor = builder.with_sequences().open().unwrap();
                follow(end, |next| match cursor.next_within(Duration::from_millis(50)).unwrap() {
                    None => next,
                    Some(chunk) => {
                        let Values::Ints(numbers) = chunk.column(0).values() else { panic!("numbers") };
                        let Values::Ints(mixed) = chunk.column(1).values() else { panic!("numbers") };
                        let mut known = mixed.iter();
                        for (row, sequence) in chunk.sequences().unwrap().iter().enumerate() {
                            let number = next + row as u64;
                            assert_eq!(*sequence, number);
                            check_row(number, numbers[row], chunk.times()[row]);
                            if !number.is_multiple_of(3) {
                                assert_eq!(known.next(), Some(&mix(number).cast_signed()));
                            }
                        }
                        assert!(known.next().is_none());
                        next + numbers.len() as u64
                    }
                });
            })
        });
        let mut last = 0;
        for _ in 0..rounds {
            let (have, begun) = run_and_kill(path, &mut random);
            let stream = reopen_without_maintenance(path).stream("s").unwrap();
            let next = stream.stats().unwrap().next_sequence;
            assert!(next >= have.max(last), "{next} of {have} acknowledged, {last} before");
            if let Some((from, to)) = begun {
                assert!((from..=to).contains(&next), "{next} is not in {from}..={to}");
                if to - from < LONG as u64 {
                    assert!(next == from || next == to, "{next}: a part of {from}..{to}");
                }
            } else if have > 0 {
                assert!(next >= have);
            }
            last = next;
            let recovery = stream.recovery();
            assert!(recovery.damaged().next().is_none() && recovery.symbols_lost == 0, "{recovery}");
        }
        assert!(last > 0);
        end.store(last, Ordering::SeqCst);
        rows.join().unwrap();
        columns.into_iter().for_each(|reader| reader.join().unwrap());
    });
}

/// Whatever is purged under it, a reader of columns gets what a cursor gets: what it has in memory, and then what is left.
#[test]
fn columns_that_are_half_way_or_live_go_on_behind_what_is_purged() {
    const SECOND: i64 = 1_000_000_000;
    for (in_time_order, is_live) in [(false, false), (true, false), (true, true), (false, true)] {
        let (_directory, db) = new_database_without_maintenance();
        let retention = Retention { age: Some(Duration::from_secs(1_000)), bytes: None };
        let options = StreamOptions { file_bytes_max: 4 << 10, retention, ..StreamOptions::default() };
        let stream = db.create_stream("s", SCHEMA.parse().unwrap(), options).unwrap();
        let load = |numbers: std::ops::Range<i64>| {
            let mut loader = stream.loader().unwrap();
            for from in numbers.clone().step_by(50) {
                let times: Vec<i64> = (from..from + 50).map(|number| number * SECOND).collect();
                let numbers: Vec<i64> = (from..from + 50).collect();
                let columns = MessageColumns::new("M", &times, Symbols::One("A"));
                loader.append_columns(&columns.field("n", &numbers)).unwrap();
                loader.flush().unwrap();
            }
            loader.close().unwrap();
        };
        load(0..900);
        stream.seal().unwrap();
        let builder = stream.cursor();
        let builder = if is_live { builder.live() } else { builder };
        let columns = builder.columns("M", ["n"]).chunk_rows(10);
        let columns = if in_time_order { columns.in_time_order() } else { columns };
        let mut cursor = columns.open().unwrap();
        let numbers_of = |chunk: tapedb_engine::Chunk<'_>| match chunk.column(0).values() {
            Values::Ints(numbers) => numbers.to_vec(),
            other => panic!("{other:?}"),
        };
        let mut read = numbers_of(cursor.next().unwrap().unwrap());
        load(900..3_000);
        stream.seal().unwrap();
        let mut rest = stream.cursor().open().unwrap();
        let first = rest.next().unwrap().unwrap().time().0 / SECOND;
        assert!(first > 1_000, "{first}");
        while let Some(chunk) = cursor.next_within(Duration::from_millis(1)).unwrap() {
            read.extend(numbers_of(chunk));
        }
        assert!(read.is_sorted_by(|a, b| a < b), "{read:?}");
        // History ends where it was opened.
        let end = if is_live { 3_000 } else { 900 };
        let left: Vec<i64> = read.iter().copied().filter(|number| *number >= first).collect();
        assert!(left.iter().copied().eq(first..end.max(first)), "{in_time_order} {is_live}: {left:?}");
        // Two blocks at most were in memory.
        assert!(read.iter().filter(|number| **number < first).count() < 900);
    }
}
