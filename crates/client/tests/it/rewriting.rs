//! Replaced messages and renamed streams and symbols, while connections are cut and the server is killed: each
//! operation is executed once or not at all, and the client receives the result.

use crate::plain::{Plain, new_database};
use crate::process::Process;
use crate::proxy::Proxy;
use crate::support::*;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use tapedb_client::{Client, Options};
use tapedb_engine::{ConnectionError, Database, Error, NotFound, Stream, StreamOptions};
use tapedb_schema::Timestamp;

const ALL: Option<[&str; 0]> = None;

fn connect(proxy: &Proxy) -> Database {
    // A hello and its answer may be cut as well: the first connection is tried until it is established.
    for _ in 0..1000 {
        let options = Options { reconnect_timeout: Duration::from_secs(60), ..Options::default() };
        if let Ok(db) = Client::at(proxy.url()).options(options).connect() {
            return db;
        }
    }
    panic!("no connection was established")
}

/// Replaces messages 100 to 199 by `count` others, whose numbers begin with `first`.
fn rewrite(stream: &Stream, first: u64, count: u64) -> Result<std::ops::Range<u64>, Error> {
    let mut rewriter = stream.rewrite(Timestamp(100)..Timestamp(200), ALL)?;
    for number in first..first + count {
        rewriter.append("A", Timestamp(100 + (number % 100) as i64), &Tick::of(number))?;
    }
    rewriter.commit()
}

fn numbers(stream: &Stream) -> Vec<u64> {
    drain(&mut stream.cursor().open().unwrap())
}

#[test]
fn a_rewrite_survives_cuts_and_is_made_once() {
    const CUTS: u64 = 60;
    let (_directory, db) = new_database();
    let server = Plain::start(db.clone());
    let stream = db.create_stream("s", schema(), StreamOptions::default()).unwrap();
    append_ticks(&stream, 0..300);
    // Less than two batches are transferred before a cut.
    let proxy = Proxy::before(server.address, 2_200_000);
    let remote = connect(&proxy);
    let (mut rounds, mut next) = (0, 300);
    while proxy.cuts.load(Ordering::Relaxed) < CUTS || rounds == 0 {
        let far = remote.stream("s").unwrap();
        let first = 1_000_000 * (rounds + 1);
        assert_eq!(rewrite(&far, first, 40_000).unwrap(), next..next + 40_000);
        next += 40_000;
        rounds += 1;
    }
    proxy.bytes_max.store(0, Ordering::Relaxed);
    let found = numbers(&stream);
    assert_eq!(found.len(), 200 + 40_000, "the messages of the last rewrite, once");
    assert_eq!(found.iter().filter(|number| **number >= 1_000_000 * rounds).count(), 40_000);
    assert_eq!(stream.stats().unwrap().next_sequence, next);
}

#[test]
fn streams_and_symbols_are_renamed_through_cuts() {
    let (_directory, db) = new_database();
    let server = Plain::start(db.clone());
    let mut stream = db.create_stream("stream-0", schema(), StreamOptions::default()).unwrap();
    append_ticks(&stream, 0..10);
    let proxy = Proxy::before(server.address, 3_000);
    let remote = connect(&proxy);
    let (mut rounds, mut symbol) = (0, "A".to_string());
    while proxy.cuts.load(Ordering::Relaxed) < 200 || rounds == 0 {
        rounds += 1;
        let far = remote.rename_stream(stream.name(), &format!("stream-{rounds}")).unwrap();
        far.rename_symbol(&symbol, &format!("S{rounds}")).unwrap();
        symbol = format!("S{rounds}");
        assert_eq!(db.streams().unwrap(), [format!("stream-{rounds}")]);
        stream = db.stream(&format!("stream-{rounds}")).unwrap();
        assert_eq!(stream.symbols(), [symbol.as_str()]);
        let note = if rounds % 2 == 0 { "" } else { ", extra: u32?" };
        let schema = format!(
            "message Tick {{ number: u64, check: u64, note: string{note} }} message Quote {{ number: u64, bid: decimal64, ask: decimal64? }}"
        );
        let changed = remote.change_schema(stream.name(), schema.parse().unwrap()).unwrap();
        assert_eq!(changed.schema().records[0].fields.len(), 3 + rounds % 2);
        stream = db.stream(stream.name()).unwrap();
    }
    assert_eq!(numbers(&stream), (0..10).collect::<Vec<_>>());
}

/// Whatever result the client gets, the stream contains all old messages or all new ones.
#[test]
fn a_killed_server_leaves_the_old_or_the_new_messages() {
    let rounds = std::env::var("STORM_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(12);
    let directory = tempfile::tempdir().unwrap();
    let mut server = Process::start(directory.path());
    let options = StreamOptions { file_bytes_max: 256 << 10, ..StreamOptions::default() };
    let stream = server.over_tcp().create_stream("s", schema(), options).unwrap();
    append_ticks(&stream, 0..20_000);
    let mut random = Random::new();
    let (mut known, mut outcomes) = (HashSet::from([100_u64]), [0; 2]);
    for round in 1..=rounds {
        let first = 1_000_000 * round;
        let done = AtomicBool::new(false);
        let rewritten = thread::scope(|scope| {
            let db = server.over_unix();
            let done = &done;
            let rewriting = scope.spawn(move || {
                let rewritten = rewrite(&db.stream("s").unwrap(), first, 30_000);
                done.store(true, Ordering::SeqCst);
                rewritten
            });
            thread::sleep(Duration::from_millis(random.below(400) as u64));
            server.kill_and_start_again();
            rewriting.join().unwrap()
        });
        let found = numbers(&server.over_memory().stream("s").unwrap());
        let outside =
            found.iter().filter(|number| **number < 20_000 && !(100..200).contains(*number)).count();
        assert_eq!(outside, 19_900, "round {round}: other messages are not changed");
        let replaced: Vec<u64> =
            found.into_iter().filter(|number| (100..200).contains(number) || *number >= 20_000).collect();
        let is_new = replaced.contains(&first);
        match &rewritten {
            Ok(_) => assert!(is_new, "round {round}: it was acknowledged"),
            Err(Error::NotFound(NotFound::Rewrite { .. })) => {
                assert!(!is_new, "round {round}: nothing was changed")
            }
            Err(Error::Connection(ConnectionError::Disconnected { .. })) => {}
            Err(error) => panic!("round {round}: {error}"),
        }
        let least = *replaced.iter().min().unwrap();
        assert!(is_new || known.contains(&least), "round {round}: {least}");
        let count = if least < 1_000 { 100 } else { 30_000 };
        assert_eq!(replaced.len(), count, "round {round}: {rewritten:?}");
        assert!(
            replaced.iter().all(|number| (least..least + count as u64).contains(number)),
            "round {round}"
        );
        outcomes[usize::from(is_new)] += 1;
        known.insert(least);
    }
    assert_eq!(outcomes.iter().sum::<u64>(), rounds);
}
