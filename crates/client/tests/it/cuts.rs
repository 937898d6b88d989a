//! Connections are cut at random bytes, thousands of times: count, order and content of messages stay exact.

use crate::killed::{columns, follow, follow_columns};
use crate::plain::{Plain, new_database};
use crate::proxy::Proxy;
use crate::support::*;
use std::sync::atomic::Ordering;
use std::thread;
use tapedb_client::{Client, Options};
use tapedb_engine::{Database, StreamOptions};
use tapedb_schema::Timestamp;

fn connect(proxy: &Proxy) -> Database {
    // A hello and its answer may be cut as well: the first connection is tried until it is established.
    for _ in 0..1000 {
        let options =
            Options { load_window_bytes: 64 << 10, read_ahead_bytes: 256 << 10, ..Options::default() };
        if let Ok(db) = Client::at(proxy.url()).options(options).connect() {
            return db;
        }
    }
    panic!("no connection was established")
}

/// Number of connections to cut, each with a stream of its own.
const CUTS: u64 = 300;

#[test]
fn loads_and_live_cursors_survive_cuts() {
    let (_directory, db) = new_database();
    let server = Plain::start(db.clone());
    let proxy = Proxy::before(server.address, 60_000);
    db.create_stream("s", schema(), StreamOptions::default()).unwrap();
    let cursor_of = |db: &Database| db.stream("s").unwrap().cursor().live().open().unwrap();
    let mut cursors = vec![cursor_of(&connect(&proxy)), cursor_of(&connect(&proxy))];
    let columns_of =
        |db: &Database, in_time_order| columns(db.stream("s").unwrap().cursor().live(), in_time_order);
    let mut column_cursors = vec![columns_of(&connect(&proxy), true), columns_of(&connect(&proxy), false)];
    let remote = connect(&proxy);
    let (cuts, limit) = (proxy.cuts.clone(), proxy.bytes_max.clone());
    let loading = thread::spawn(move || {
        let mut loader = remote.stream("s").unwrap().loader().unwrap();
        let mut number = 0;
        while cuts.load(Ordering::Relaxed) < CUTS || number < 20_000 {
            for _ in 0..100 {
                loader.append("A", Timestamp(number as i64), &Tick::of(number)).unwrap();
                number += 1;
            }
            if number % 1000 == 0 {
                assert_eq!(loader.flush().unwrap(), number);
            }
        }
        limit.store(0, Ordering::Relaxed);
        loader.close().unwrap();
        number
    });
    let readers = cursors.drain(..).map(|mut cursor| thread::spawn(move || follow(&mut cursor, 0)));
    let of_columns =
        column_cursors.drain(..).map(|mut cursor| thread::spawn(move || follow_columns(&mut cursor, 0)));
    let readers: Vec<_> = readers.chain(of_columns).collect();
    let loaded = loading.join().unwrap();
    let mut last = db.stream("s").unwrap().loader().unwrap();
    last.append("END", Timestamp(i64::MAX), &Tick::of(loaded)).unwrap();
    last.close().unwrap();
    for reader in readers {
        assert_eq!(reader.join().unwrap(), loaded);
    }
    assert!(proxy.cuts.load(Ordering::Relaxed) >= CUTS);
    assert_eq!(db.stream("s").unwrap().stats().unwrap().messages, loaded + 1);
}

#[test]
fn history_is_read_through_cuts() {
    let (_directory, db) = new_database();
    let server = Plain::start(db.clone());
    let stream = db.create_stream("s", schema(), StreamOptions::default()).unwrap();
    append_ticks(&stream, 0..200_000);
    stream.seal().unwrap();
    append_ticks(&stream, 200_000..220_000);
    let proxy = Proxy::before(server.address, 1_000_000);
    let remote = connect(&proxy);
    let mut rounds = 0;
    while proxy.cuts.load(Ordering::Relaxed) < CUTS / 10 || rounds == 0 {
        let mut cursor = remote.stream("s").unwrap().cursor().open().unwrap();
        assert_eq!(drain(&mut cursor), (0..220_000).collect::<Vec<_>>());
        let mut in_chunks = columns(remote.stream("s").unwrap().cursor(), rounds % 2 == 0);
        let mut next = 0;
        while let Some(chunk) = in_chunks.next().unwrap() {
            let numbers = chunk.sequences().unwrap();
            assert!(numbers.iter().copied().eq(next..next + chunk.len() as u64));
            next += chunk.len() as u64;
        }
        assert_eq!(next, 220_000);
        rounds += 1;
    }
}
