//! The first connection, and events of lost connections.

use crate::plain::{Plain, lock, new_database};
use crate::served::{Home, Transport, Unix, serve};
use crate::support::*;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use tapedb_client::{Client, ConnectionEvent, OpenError};
use tapedb_engine::{ConnectionError, Error, StreamOptions};
use tapedb_server::{Config, Server};

/// A client that records the events of its connections.
fn recording(client: Client) -> (Client, Arc<Mutex<Vec<ConnectionEvent>>>) {
    let events: Arc<Mutex<Vec<ConnectionEvent>>> = Arc::default();
    let listener = events.clone();
    (client.on_connection(move |event| lock(&listener).push(event.clone())), events)
}

fn wait_until(done: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < deadline, "it did not happen within a minute");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_server_that_is_started_later_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("tape+unix://{}", folder.path().join("socket").display());
    let (client, events) = recording(Client::at(url).wait(Duration::from_secs(60)));
    let client = thread::spawn(move || client.connect());
    wait_until(|| !lock(&events).is_empty());
    let _server = serve::<Unix>(reopen(&folder.path().join("db")), folder.path());
    assert!(client.join().unwrap().unwrap().streams().unwrap().is_empty());
    let events = lock(&events);
    assert!(matches!(&events[..], [ConnectionEvent::Waiting { .. }]), "{events:?}");
}

#[test]
fn waiting_for_a_server_comes_to_an_end() {
    let url = "tape+unix:///nowhere/at/all";
    let error = Client::at(url).wait(Duration::from_millis(50)).connect().unwrap_err();
    assert!(error.to_string().contains("attempts in"), "{error}");
    let raised = Arc::new(AtomicBool::new(true));
    let error = Client::at(url).wait(Duration::MAX).give_up_when(raised).connect().unwrap_err();
    assert!(
        matches!(error, OpenError::Engine(Error::Connection(ConnectionError::Unreachable { .. }))),
        "{error}"
    );
}

#[test]
fn a_refusal_is_not_tried_again() {
    let (_directory, db) = new_database();
    let server = Plain::start(db);
    let client = Client::at(server.url()).login(tapedb_client::Login::token("wrong")).wait(Duration::MAX);
    assert!(matches!(
        client.connect(),
        Err(OpenError::Engine(Error::Connection(ConnectionError::Refused { .. })))
    ));
}

#[test]
fn a_server_of_another_protocol_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let start = |tls: Option<&str>, name: &str| {
        let mut config = Config { http: "127.0.0.1:0".parse().unwrap(), ..Config::default() };
        match tls {
            Some(_) => crate::served::Tls::listen(&mut config, directory.path()),
            None => crate::served::Tcp::listen(&mut config, directory.path()),
        }
        Server::start_with(config, reopen(&directory.path().join(name))).unwrap()
    };
    let (plain, encrypted) = (start(None, "plain"), start(Some("tls"), "encrypted"));
    let port = |server: &Server| server.addresses().tcp.unwrap().port();
    let http = plain.addresses().http.unwrap().port();
    let wait = Duration::MAX;
    for (url, expected) in [
        (
            format!("tape://localhost:{}", port(&encrypted)),
            format!("write tapes://localhost:{}", port(&encrypted)),
        ),
        (format!("tapes://localhost:{}", port(&plain)), format!("write tape://localhost:{}", port(&plain))),
        (format!("tape://localhost:{http}"), "that is an HTTP port".to_string()),
        (format!("tapes://localhost:{http}"), "does not use TLS".to_string()),
    ] {
        // And the client does not wait for it.
        let error = Client::at(&url).wait(wait).connect().unwrap_err().to_string();
        assert!(error.contains(&expected), "{url}: {error}");
    }
}

#[test]
fn opening_a_served_database_fails_with_the_servers_address() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("db");
    let server = serve::<crate::served::Tcp>(reopen(&path), directory.path());
    let url = format!("tape://{}", server.addresses().tcp.unwrap());
    let error = tapedb_engine::Database::open(&path).unwrap_err();
    assert!(error.to_string().contains(&url), "{error}");
    drop(server);
    let db = reopen(&path);
    let error = tapedb_engine::Database::open(&path).unwrap_err();
    assert!(matches!(&error, Error::Locked { server: None, .. }), "{error}");
    drop(db);
}

#[test]
fn lost_and_restored_connections_are_reported() {
    let mut home = Home::<Unix>::new();
    home.open().create_stream("s", schema(), StreamOptions::default()).unwrap();
    let (client, events) = recording(home.client().connections(2));
    let db = client.connect().unwrap();
    let mut cursors: Vec<_> =
        (0..4).map(|_| db.stream("s").unwrap().cursor().live().open().unwrap()).collect();
    let _loader = db.stream("s").unwrap().loader().unwrap();
    let _ = home.open();
    wait_until(|| lock(&events).len() >= 2);
    {
        let events = lock(&events);
        let [ConnectionEvent::Lost { place, why }, ConnectionEvent::Regained { .. }] = &events[..] else {
            panic!("{events:?}")
        };
        assert!(place.starts_with("tape+unix://") && !why.is_empty(), "{place}: {why}");
    }
    let stream = home.beside().stream("s").unwrap();
    append_ticks(&stream, 0..10);
    for cursor in &mut cursors {
        assert_eq!(number_of(&cursor.next_within(Duration::from_secs(60)).unwrap().unwrap()), 0);
    }
    let before = lock(&events).len();
    drop((cursors, _loader, db));
    assert_eq!(lock(&events).len(), before, "a connection that is closed is not lost");
}
