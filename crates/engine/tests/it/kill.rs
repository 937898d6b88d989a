//! A writer is killed at any moment, again and again: acknowledged messages are not lost, and writing continues.

use crate::child::{report, reported};
use crate::support::*;
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use tapedb_engine::{Database, Position, Stream, StreamOptions};
use tapedb_schema::Timestamp;

const ROUNDS: usize = 200;

fn symbol_of(number: u64) -> String {
    format!("S{}", number / 97)
}

fn append(stream: &Stream, loader: &mut tapedb_engine::Loader, number: u64) {
    let time = Timestamp(number as i64);
    assert_eq!(stream.name(), "s");
    loader.append(&symbol_of(number), time, &Tick::of(number)).unwrap();
}

/// Appends from the end on, without end, and reports after each flush how many messages are acknowledged.
pub fn child(path: &Path) {
    let db = Database::open(path).unwrap();
    let stream = db.stream("s").unwrap();
    let mut loader = stream.loader().unwrap();
    let mut number = stream.stats().unwrap().next_sequence;
    let mut random = Random::new();
    loader.set_batch_bytes(1 << 10);
    loop {
        if random.chance(3) {
            let numbers = number..number + 30 + random.below(300) as u64;
            number = numbers.end;
            let symbols: Vec<String> = numbers.clone().map(symbol_of).collect();
            let rows = numbers.zip(&symbols).map(|(number, symbol)| (number as i64, symbol.as_str(), number));
            Columns::of(rows).append_ticks(&mut loader).unwrap();
        }
        for _ in 0..1 + random.below(30) {
            append(&stream, &mut loader, number);
            number += 1;
        }
        assert_eq!(loader.flush().unwrap(), number);
        report(&number.to_string());
    }
}

/// Runs a writer until it has acknowledged a random number of times, or for a random time, then kills it. Returns how
/// many messages it had acknowledged.
fn run_and_kill(path: &Path, random: &mut Random) -> u64 {
    let mut writer = crate::child::child("acknowledge", path).spawn().unwrap();
    let output = BufReader::new(writer.stdout.take().unwrap());
    let (sender, acknowledged) = mpsc::channel();
    let reader = thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            if let Some(number) = reported(&line).and_then(|text| text.parse::<u64>().ok()) {
                let _ = sender.send(number);
            }
        }
    });
    let deadline = Instant::now() + Duration::from_micros(random.next() % 20_000);
    let mut last = 0;
    for _ in 0..random.below(150) {
        let left = deadline.saturating_duration_since(Instant::now());
        match acknowledged.recv_timeout(left) {
            Ok(number) => last = number,
            Err(_) => break,
        }
    }
    writer.kill().unwrap();
    writer.wait().unwrap();
    reader.join().unwrap();
    acknowledged.try_iter().last().unwrap_or(last)
}

fn last_log(path: &Path) -> PathBuf {
    let files = fs::read_dir(path.join("streams/s/0")).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|file| file.extension().is_some_and(|e| e == "log")).max().unwrap()
}

/// Sometimes a part of a batch at the end, as if the kill had come in the middle of a write.
fn tear(path: &Path, random: &mut Random) {
    if random.chance(4) {
        let file = last_log(path);
        let content = fs::read(&file).unwrap();
        // The beginning of the first batch of the file, its payload never: it would be whole.
        let batches = content.get(64..).unwrap_or_default();
        let torn = &batches[..(1 + random.below(80)).min(batches.len())];
        OpenOptions::new().append(true).open(&file).unwrap().write_all(torn).unwrap();
    }
}

/// Checks the messages from a position on; returns the position after the last, and how many messages there are.
fn check(stream: &Stream, from: &Position, mut number: u64) -> (Position, u64) {
    let mut cursor = stream.cursor().live().resume(from).open().unwrap();
    while let Some(message) = cursor.next().unwrap() {
        assert_eq!((message.sequence(), number_of(&message)), (number, number));
        assert_eq!((message.time().0 as u64, message.symbol()), (number, &*symbol_of(number)));
        number += 1;
    }
    (cursor.position(), number)
}

#[test]
fn a_killed_writer_loses_nothing_it_has_acknowledged() {
    let mut random = Random::new();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let options = StreamOptions { file_bytes_max: 64 << 10, ..StreamOptions::default() };
    let start = {
        let db = Database::open(&path).unwrap();
        let stream = db.create_stream("s", schema(), options).unwrap();
        stream.cursor().live().open().unwrap().position()
    };
    let (mut position, mut count) = (start.clone(), 0);
    for round in 0..ROUNDS {
        let acknowledged = run_and_kill(&path, &mut random);
        tear(&path, &mut random);
        let torn = tapedb_log::scan_bytes(&fs::read(last_log(&path)).unwrap()).end_error.is_some();

        let db = reopen(&path);
        let stream = db.stream("s").unwrap();
        let recovery = stream.recovery();
        assert!(
            recovery.logs[0].damaged.is_empty() && recovery.symbols_lost == 0,
            "round {round}: {recovery}"
        );
        assert_eq!(recovery.logs[0].cut.len(), usize::from(torn), "round {round}: {recovery}");
        assert!(!torn || recovery.to_string().contains("cut"), "{recovery}");
        (position, count) = check(&stream, &position, count);
        assert!(count >= acknowledged, "round {round}: {acknowledged} acknowledged, {count} there");
        assert_eq!(stream.stats().unwrap().messages, count);

        let mut loader = stream.loader().unwrap();
        append(&stream, &mut loader, count);
        assert_eq!(loader.close().unwrap(), count + 1);
    }
    let stream = reopen(&path).stream("s").unwrap();
    assert_eq!(check(&stream, &start, 0).1, count + 1);
}
