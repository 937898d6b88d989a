//! A process that loads, seals, merges, purges and truncates is killed, again and again: what was acknowledged holds, and readers
//! in other processes never see anything else. `STORM_ROUNDS=n` runs for longer (`make storm`).

use crate::child::{report, reported};
use crate::support::*;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use tapedb_engine::{Database, Durability, Stream, StreamOptions, forced};
use tapedb_schema::Timestamp;

const STREAMS: [&str; 2] = ["async", "sync"];

fn options(durability: Durability) -> StreamOptions {
    StreamOptions { durability, spaces: 2, file_bytes_max: 8 << 10, ..StreamOptions::default() }
}

/// The next number of a space's messages, which are its sequence numbers and times.
fn next_numbers(stream: &Stream) -> Vec<u64> {
    let position = stream.cursor().skip_history().open().unwrap().position().to_string();
    position.lines().map(|line| line.split(' ').nth(1).unwrap().parse().unwrap()).collect()
}

/// Loads without end, and sometimes deletes old messages, with maintenance. Reports what has been acknowledged.
pub fn child(path: &Path) {
    let db = Database::open(path).unwrap();
    let mut random = Random::new();
    let streams = STREAMS.map(|name| db.stream(name).unwrap());
    let mut next = streams.each_ref().map(next_numbers);
    let mut loaders = streams.each_ref().map(|stream| [0, 1].map(|space| stream.loader_in(space).unwrap()));
    loop {
        let (stream, space) = (random.below(2), random.below(2));
        let (number, loader) = (&mut next[stream][space], &mut loaders[stream][space]);
        for _ in 0..1 + random.below(60) {
            let symbol = format!("S{}", *number / 500);
            loader.append(&symbol, Timestamp(*number as i64), &Tick::of(*number)).unwrap();
            *number += 1;
        }
        assert_eq!(loader.flush().unwrap(), *number);
        report(&format!("have {stream} {space} {number}"));
        if random.chance(20) {
            // Times of both spaces; what is newer than a space has got is deleted of the other alone.
            let before = next[stream][0].min(next[stream][1]).saturating_sub(random.below(3_000) as u64);
            streams[stream].purge(Timestamp(before as i64)).unwrap();
            report(&format!("purged {stream} {before}"));
        }
        if random.chance(50) {
            let from = next[stream][0].max(next[stream][1]).saturating_sub(random.below(100) as u64);
            report(&format!("truncating {stream} {from} {} {}", next[stream][0], next[stream][1]));
            streams[stream].truncate(Timestamp(from as i64)).unwrap();
            report(&format!("truncated {stream} {from} {} {}", next[stream][0], next[stream][1]));
        }
        if random.chance(10) {
            // Beside maintenance, with another thread: the kill comes between the files of several threads.
            forced::two_threads(|| streams[stream].seal()).unwrap();
        }
    }
}

/// What a stream must hold, and must not.
#[derive(Default)]
struct Expected {
    have: [u64; 2],
    purged: u64,
    /// For each space, numbers that were deleted, or perhaps.
    truncated: [BTreeMap<u64, bool>; 2],
}

impl Expected {
    fn record(&mut self, words: &[&str]) {
        let numbers: Vec<u64> = words[2..].iter().map(|word| word.parse().unwrap()).collect();
        match words[0] {
            "have" => self.have[numbers[0] as usize] = numbers[1],
            "purged" => self.purged = self.purged.max(numbers[0]),
            _ => {
                for (space, deleted) in self.truncated.iter_mut().enumerate() {
                    for number in numbers[0]..numbers[1 + space] {
                        *deleted.entry(number).or_default() |= words[0] == "truncated";
                    }
                }
            }
        }
    }

    /// Checks that all messages of a stream are right, and that all that must exist do.
    fn check(&mut self, stream: &Stream, purging_up_to: u64) {
        let mut found = [Vec::new(), Vec::new()];
        let mut cursor = stream.cursor().open().unwrap();
        while let Some(message) = cursor.next().unwrap() {
            let number = number_of(&message);
            assert_eq!((message.sequence(), message.time().0 as u64), (number, number));
            assert_eq!(message.symbol(), format!("S{}", number / 500));
            found[message.space() as usize].push(number);
        }
        for ((found, deleted), have) in found.iter().zip(&mut self.truncated).zip(self.have) {
            assert!(found.is_sorted_by(|a, b| a < b));
            assert!(found.iter().all(|number| *number >= self.purged && deleted.get(number) != Some(&true)));
            let first = found.first().copied().unwrap_or(have);
            for number in self.purged..have {
                let there = found.binary_search(&number).is_ok();
                // A purge that was not reported.
                let is_purged = number < first && number < purging_up_to;
                let may_be_gone = deleted.contains_key(&number) || is_purged;
                assert!(there || may_be_gone, "message {number} of {have} is missing");
                deleted.entry(number).and_modify(|deleted| *deleted = !there);
            }
        }
    }
}

fn reports_of(path: &Path, random: &mut Random) -> Vec<String> {
    let mut writer = child_of("storm", path);
    let output = BufReader::new(writer.stdout.take().unwrap());
    let (sender, lines) = mpsc::channel();
    let reader = thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            if let Some(line) = reported(&line) {
                let _ = sender.send(line.to_string());
            }
        }
    });
    let mut heard = Vec::new();
    for _ in 0..1 + random.below(250) {
        heard.extend(lines.recv_timeout(Duration::from_secs(20)));
    }
    writer.kill().unwrap();
    writer.wait().unwrap();
    reader.join().unwrap();
    heard.extend(lines.try_iter());
    heard
}

fn child_of(role: &str, path: &Path) -> std::process::Child {
    crate::child::child(role, path).spawn().unwrap()
}

#[test]
fn a_database_at_work_is_killed_again_and_again() {
    let rounds = std::env::var("STORM_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(20);
    let mut random = Random::new();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let db = Database::open(&path).unwrap();
    for (name, durability) in STREAMS.into_iter().zip([Durability::Async, Durability::Sync]) {
        db.create_stream(name, schema(), options(durability)).unwrap();
    }
    drop(db);
    let mut known: [Expected; 2] = Default::default();
    for _ in 0..rounds {
        for line in reports_of(&path, &mut random) {
            let words: Vec<&str> = line.split(' ').collect();
            known[words[1].parse::<usize>().unwrap()].record(&words);
        }
        let db = reopen(&path);
        for (name, known) in STREAMS.iter().zip(&mut known) {
            let stream = db.stream(name).unwrap();
            let recovery = stream.recovery();
            assert!(recovery.damaged().next().is_none() && recovery.symbols_lost == 0, "{recovery}");
            let next = next_numbers(&stream);
            assert!(
                next.iter().zip(known.have).all(|(next, have)| *next >= have),
                "{next:?}, {:?}",
                known.have
            );
            (known.have[0], known.have[1]) = (next[0], next[1]);
            known.check(&stream, next[0].min(next[1]));
        }
    }
    wait_for_maintenance(&path);
}

/// Maintenance seals the first log files, however often it has been killed in the middle of them.
fn wait_for_maintenance(path: &Path) {
    let db = reopen(path);
    for stream in STREAMS.map(|name| db.stream(name).unwrap()) {
        while (0..2).any(|space| stream.path().join(format!("{space}/00000000000000000000.log")).exists()) {
            assert_eq!(stream.maintenance_failure(), None);
            thread::sleep(Duration::from_millis(5));
        }
    }
}
