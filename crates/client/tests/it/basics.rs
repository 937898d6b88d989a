//! Opening, reading, loading and errors.

use crate::plain::{Plain, new_database};
use crate::support::*;
use std::time::Duration;
use tapedb_client::{Client, Login, OpenError, Options};
use tapedb_engine::{ConnectionError, Database, Error, NotFound, Rejected, StreamOptions};
use tapedb_schema::Timestamp;
use tapedb_server::{Config, Server};

fn served() -> (tempfile::TempDir, Database, Plain, Database) {
    let (directory, db) = new_database();
    let server = Plain::start(db.clone());
    let remote = tapedb_client::open(&server.url()).unwrap();
    (directory, db, server, remote)
}

#[test]
fn a_directory_is_opened_in_this_process() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let db = tapedb_client::open(path.to_str().unwrap()).unwrap();
    db.create_stream("s", schema(), StreamOptions::default()).unwrap();
    assert_eq!(Database::open_read_only(path).unwrap().streams().unwrap(), ["s"]);
}

#[test]
fn loaded_messages_are_read() {
    let (_directory, db, _server, remote) = served();
    let stream = remote.create_stream("s", schema(), StreamOptions::default()).unwrap();
    append_ticks(&stream, 0..50_000);
    assert_eq!(db.stream("s").unwrap().stats().unwrap().messages, 50_000);
    assert_eq!(drain(&mut stream.cursor().open().unwrap()), (0..50_000).collect::<Vec<_>>());
    assert!(db.stream("s").unwrap().seal().unwrap() > 0);
    let another = remote.stream("s").unwrap();
    assert_eq!(drain(&mut another.cursor().open().unwrap()), (0..50_000).collect::<Vec<_>>());
    let numbers = drain(&mut another.cursor().reverse().open().unwrap());
    assert_eq!(numbers, (0..50_000).rev().collect::<Vec<_>>());
}

#[test]
fn symbols_come_in_several_answers() {
    let (_directory, db, _server, remote) = served();
    let stream = db.create_stream("s", schema(), StreamOptions::default()).unwrap();
    let mut loader = stream.loader().unwrap();
    let names: Vec<String> = (0..50).map(|number| format!("S{number}")).collect();
    for (number, name) in names.iter().enumerate() {
        loader.append(name, Timestamp(number as i64), &Tick::of(number as u64)).unwrap();
    }
    loader.close().unwrap();
    let stream = remote.stream("s").unwrap();
    assert_eq!(stream.symbols(), names);
    let mut cursor = stream.cursor().symbols(["S7"]).open().unwrap();
    assert_eq!(drain(&mut cursor), [7]);
}

#[test]
fn a_live_cursor_goes_on() {
    let (_directory, db, _server, remote) = served();
    let stream = db.create_stream("s", schema(), StreamOptions::default()).unwrap();
    append_ticks(&stream, 0..100);
    let mut cursor = remote.stream("s").unwrap().cursor().live().open().unwrap();
    let writer = std::thread::spawn(move || {
        for start in 1..500 {
            append_ticks(&stream, start * 100..(start + 1) * 100);
        }
    });
    for number in 0..50_000 {
        let message = cursor.next_within(Duration::from_secs(60)).unwrap().unwrap();
        assert_eq!(number_of(&message), number);
    }
    writer.join().unwrap();
}

#[test]
fn errors_come_to_the_right_call() {
    let (_directory, db, _server, remote) = served();
    assert_error(remote.stream("x"), |e| matches!(e, Error::NotFound(NotFound::Stream { .. })), "x");
    let options = StreamOptions { late: tapedb_engine::Late::Refuse, ..StreamOptions::default() };
    let stream = remote.create_stream("s", schema(), options).unwrap();
    let mut loader = stream.loader().unwrap();
    loader.append("A", Timestamp(10), &Tick::of(0)).unwrap();
    loader.flush().unwrap();
    // Another loader has appended: this one gets the error from the server.
    let mut other = db.stream("s").unwrap().loader().unwrap();
    other.append("A", Timestamp(20), &Tick::of(1)).unwrap();
    other.flush().unwrap();
    let sent = loader.append("A", Timestamp(11), &Tick::of(2)).and_then(|()| loader.flush());
    assert_error(sent, |e| matches!(e, Error::Rejected(Rejected::Late { .. })), "");
    loader.append("A", Timestamp(30), &Tick::of(2)).unwrap();
    assert_eq!(loader.flush().unwrap(), 3);
    assert_eq!(drain(&mut stream.cursor().open().unwrap()), [0, 1, 2]);
}

#[test]
fn refused_and_unreachable_clients_get_an_error() {
    let (_directory, _db, server, _remote) = served();
    let refused = Client::at(server.url()).login(Login::token("wrong")).connect();
    let Err(OpenError::Engine(Error::Connection(ConnectionError::Refused { place, why }))) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!((&*place, &*why), (&*server.url(), "no such token"));
    let unreachable = Client::at("tape://127.0.0.1:1").connect();
    assert!(
        matches!(unreachable, Err(OpenError::Engine(Error::Connection(ConnectionError::Unreachable { .. })))),
        "{unreachable:?}"
    );
}

#[test]
fn the_reconnect_timeout_ends_with_an_error() {
    let (_directory, db, server, _) = served();
    let options = Options { reconnect_timeout: Duration::from_millis(200), ..Options::default() };
    let remote = Client::at(server.url()).options(options).connect().unwrap();
    let stream = db.create_stream("s", schema(), StreamOptions::default()).unwrap();
    append_ticks(&stream, 0..10);
    assert_eq!(remote.streams().unwrap(), ["s"]);
    drop(server);
    let error = remote.streams().unwrap_err();
    let text = error.to_string();
    assert!(
        matches!(error, Error::Connection(ConnectionError::Unreachable { .. }))
            && text.contains("attempts in 0.2 s"),
        "{text}"
    );
}

#[test]
fn several_connections_share_the_work() {
    let (_directory, db, server, _) = served();
    let remote = Client::at(server.url()).connections(3).connect().unwrap();
    let stream = db.create_stream("s", schema(), StreamOptions::default()).unwrap();
    append_ticks(&stream, 0..5000);
    stream.seal().unwrap();
    let readers: Vec<_> = (0..6)
        .map(|_| {
            let stream = remote.stream("s").unwrap();
            std::thread::spawn(move || drain(&mut stream.cursor().open().unwrap()))
        })
        .collect();
    for reader in readers {
        assert_eq!(reader.join().unwrap(), (0..5000).collect::<Vec<_>>());
    }
}

#[test]
fn a_client_refused_with_shared_memory_gets_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let mut config = Config { http: "off".parse().unwrap(), ..Config::default() };
    (config.listen, config.unix_socket) = ("off".parse().unwrap(), Some(path.clone()));
    config.limits.connections_max = 1;
    let _server = Server::start_with(config, reopen(&folder.path().join("db"))).unwrap();
    let connect = || Client::at(format!("tape+shm://{}", path.display())).connect();
    let first = connect().unwrap();
    let Err(OpenError::Engine(Error::Connection(ConnectionError::Refused { why, .. }))) = connect() else {
        panic!("two connections were accepted")
    };
    assert!(why.contains("limit of connections"), "{why}");
    drop(first);
    let unreachable = Client::at("tape+shm:///nowhere/at/all").connect().unwrap_err();
    assert!(
        matches!(unreachable, OpenError::Engine(Error::Connection(ConnectionError::Unreachable { .. }))),
        "{unreachable}"
    );
}
