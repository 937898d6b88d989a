//! The server is killed repeatedly while clients load, replay and follow: every reader gets every message once, in
//! order, and the loader never stores one twice. `STORM_ROUNDS=n` kills more often (`make storm`).

use crate::process::Process;
use crate::support::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;
use tapedb_engine::{Cursor, StreamOptions};
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
                let mut cursor = stream.cursor().from(Timestamp(from as i64)).open().unwrap();
                let numbers = drain(&mut cursor);
                let expected = from..from + numbers.len() as u64;
                assert!(numbers.iter().copied().eq(expected.clone()), "{expected:?}");
                assert!(expected.end >= least, "{} of {least} acknowledged", expected.end);
                replays += 1;
            }
            replays
        });
        let followers = following.each_mut().map(|cursor| scope.spawn(move || follow(cursor, 0)));

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
        let stats = server.over_unix().stream("s").unwrap().stats().unwrap();
        assert_eq!(stats.messages, loaded + 1);
    });
}
