//! The server is killed repeatedly while clients load, replay and follow, as messages and as columns: every reader gets every
//! message once, in order, and the loader never stores one twice. `STORM_ROUNDS=n` kills more often (`make storm`).

use crate::process::Process;
use crate::support::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use tapedb_engine::{Chunk, ColumnCursor, Cursor, CursorBuilder, StreamOptions, Values};
use tapedb_schema::Timestamp;

/// Reads from message `next` on to the last one; returns its number. The numbers must be consecutive.
pub fn follow(cursor: &mut Cursor, mut next: u64) -> u64 {
    loop {
        let message = cursor.next_within(Duration::from_secs(100)).unwrap().expect("messages come");
        if message.symbol() == "END" {
            return next;
        }
        assert_eq!((number_of(&message), message.sequence()), (next, next));
        next += 1;
    }
}

/// Live columns of the numbers of messages; history is in time order, or by symbol.
pub fn columns(builder: CursorBuilder, in_time_order: bool) -> ColumnCursor {
    let columns = builder.columns("Tick", ["number"]).with_sequences().linger(Duration::from_millis(1));
    if in_time_order { columns.in_time_order() } else { columns }.open().unwrap()
}

/// [`follow`], of [`columns`].
pub fn follow_columns(cursor: &mut ColumnCursor, mut next: u64) -> u64 {
    loop {
        let chunk = cursor.next_within(Duration::from_secs(100)).unwrap().expect("messages come");
        let is_last = chunk.symbols().last().is_some_and(|run| chunk.symbol(run.symbol) == "END");
        let rows = chunk.len() - usize::from(is_last);
        assert_eq!(numbers_of(&chunk)[..rows], (next..next + rows as u64).collect::<Vec<_>>());
        next += rows as u64;
        if is_last {
            return next;
        }
    }
}

/// The numbers of a chunk's messages, which are their sequence numbers.
fn numbers_of(chunk: &Chunk<'_>) -> Vec<u64> {
    let Values::Ints(numbers) = chunk.column(0).values() else { panic!("numbers") };
    let numbers: Vec<u64> = numbers.iter().map(|number| *number as u64).collect();
    let is_last = chunk.symbols().last().is_some_and(|run| chunk.symbol(run.symbol) == "END");
    let rows = chunk.len() - usize::from(is_last);
    assert_eq!(numbers[..rows], chunk.sequences().unwrap()[..rows]);
    numbers
}

#[test]
fn clients_survive_killed_servers() {
    let rounds = std::env::var("STORM_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(10);
    let directory = tempfile::tempdir().unwrap();
    let mut server = Process::start(directory.path());
    let options = StreamOptions { file_bytes_max: 256 << 10, ..StreamOptions::default() };
    server.over_tcp().create_stream("s", schema(), options).unwrap();
    let (loading, replaying) = (server.over_memory(), server.over_tcp());
    let mut following = [server.over_tcp(), server.over_unix(), server.over_memory()]
        .map(|db| db.stream("s").unwrap().cursor().live().open().unwrap());
    let mut following_columns = [(server.over_tcp(), true), (server.over_memory(), false)]
        .map(|(db, in_time_order)| columns(db.stream("s").unwrap().cursor().live(), in_time_order));
    let (is_over, acknowledged) = (AtomicBool::new(false), AtomicU64::new(0));

    thread::scope(|scope| {
        let loader = scope.spawn(|| {
            let mut loader = loading.stream("s").unwrap().loader().unwrap();
            let mut number = 0;
            while !is_over.load(Ordering::Relaxed) {
                for _ in 0..100 {
                    loader.append("A", Timestamp(number as i64), &Tick::of(number)).unwrap();
                    number += 1;
                }
                loader.send().unwrap();
                if number % 2000 == 0 {
                    assert_eq!(loader.flush().unwrap(), number);
                    acknowledged.store(number, Ordering::SeqCst);
                    // Leaves processor time to the readers; the killing thread decides how long the test runs.
                    thread::sleep(Duration::from_millis(1));
                }
            }
            loader.append("END", Timestamp(i64::MAX), &Tick::of(number)).unwrap();
            assert_eq!(loader.close().unwrap(), number + 1);
            number
        });
        let replayer = scope.spawn(|| {
            let stream = replaying.stream("s").unwrap();
            let mut replays = 0;
            while !is_over.load(Ordering::Relaxed) {
                let least = acknowledged.load(Ordering::SeqCst);
                let from = least.saturating_sub(5_000);
                let builder = stream.cursor().from(Timestamp(from as i64));
                let numbers = match replays % 3 {
                    0 => drain(&mut builder.open().unwrap()),
                    way => {
                        let (mut cursor, mut numbers) = (columns(builder, way == 1), Vec::new());
                        while let Some(chunk) = cursor.next().unwrap() {
                            numbers.extend(numbers_of(&chunk));
                        }
                        numbers
                    }
                };
                let expected = from..from + numbers.len() as u64;
                assert!(numbers.iter().copied().eq(expected.clone()), "{expected:?}");
                assert!(expected.end >= least, "{} of {least} acknowledged", expected.end);
                replays += 1;
            }
            replays
        });
        let followers = following.each_mut().map(|cursor| scope.spawn(move || follow(cursor, 0)));

        let column_followers =
            following_columns.each_mut().map(|cursor| scope.spawn(move || follow_columns(cursor, 0)));

        let mut random = Random::new();
        for _ in 0..rounds {
            let before = acknowledged.load(Ordering::SeqCst);
            thread::sleep(Duration::from_millis(random.below(40) as u64));
            server.kill_and_start_again();
            // Each server makes some progress: otherwise clients with growing pauses between attempts would miss all of
            // them.
            while acknowledged.load(Ordering::SeqCst) == before && !loader.is_finished() {
                thread::sleep(Duration::from_millis(1));
            }
        }
        is_over.store(true, Ordering::SeqCst);
        let loaded = loader.join().unwrap();
        assert!(replayer.join().unwrap() > 0 && loaded > 0);
        for follower in followers {
            assert_eq!(follower.join().unwrap(), loaded);
        }
        for follower in column_followers {
            assert_eq!(follower.join().unwrap(), loaded);
        }
        let stats = server.over_unix().stream("s").unwrap().stats().unwrap();
        assert_eq!(stats.messages, loaded + 1);
    });
}
