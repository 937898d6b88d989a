//! The first connection, and what is told of those that are lost.

use crate::plain::{Plain, lock, new_database};
use crate::served::{Home, Transport, Unix, serve};
use crate::support::*;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use tapedb_client::{Client, ConnectionEvent, OpenError};
use tapedb_engine::{Error, StreamOptions};
use tapedb_server::{Config, Server};

/// A client that writes down what it is told of its connections.
fn telling(client: Client) -> (Client, Arc<Mutex<Vec<ConnectionEvent>>>) {
    let told: Arc<Mutex<Vec<ConnectionEvent>>> = Arc::default();
    let listener = told.clone();
    (client.on_connection(move |event| lock(&listener).push(event.clone())), told)
}

fn wait_until(done: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < deadline, "it has not happened in a minute");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_server_that_is_started_later_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("tape+unix://{}", folder.path().join("socket").display());
    let (client, told) = telling(Client::at(url).wait(Duration::from_secs(60)));
    let client = thread::spawn(move || client.connect());
    wait_until(|| !lock(&told).is_empty());
    let _server = serve::<Unix>(reopen(&folder.path().join("db")), folder.path());
    assert!(client.join().unwrap().unwrap().streams().unwrap().is_empty());
    let told = lock(&told);
    assert!(matches!(&told[..], [ConnectionEvent::Waiting { .. }]), "{told:?}");
}

#[test]
fn waiting_for_a_server_comes_to_an_end() {
    let url = "tape+unix:///nowhere/at/all";
    let error = Client::at(url).wait(Duration::from_millis(50)).connect().unwrap_err();
    assert!(error.to_string().contains("attempts in"), "{error}");
    let raised = Arc::new(AtomicBool::new(true));
    let error = Client::at(url).wait(Duration::MAX).give_up_when(raised).connect().unwrap_err();
    assert!(matches!(error, OpenError::Engine(Error::Unreachable { .. })), "{error}");
}

#[test]
fn who_is_refused_is_not_tried_again() {
    let (_directory, db) = new_database();
    let server = Plain::start(db);
    let client = Client::at(server.url()).login(tapedb_client::Login::token("wrong")).wait(Duration::MAX);
    assert!(matches!(client.connect(), Err(OpenError::Engine(Error::Refused { .. }))));
}

#[test]
fn what_answers_otherwise_than_the_url_says_is_named() {
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
    for (url, told) in [
        (
            format!("tape://localhost:{}", port(&encrypted)),
            format!("write tapes://localhost:{}", port(&encrypted)),
        ),
        (format!("tapes://localhost:{}", port(&plain)), format!("write tape://localhost:{}", port(&plain))),
        (format!("tape://localhost:{http}"), "that is an HTTP port".to_string()),
        (format!("tapes://localhost:{http}"), "speaks no TLS".to_string()),
    ] {
        // Nor is it waited for.
        let error = Client::at(&url).wait(wait).connect().unwrap_err().to_string();
        assert!(error.contains(&told), "{url}: {error}");
    }
}

#[test]
fn who_opens_the_database_of_a_server_is_told_where_it_is() {
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
fn a_lost_connection_is_told_and_so_is_its_return() {
    let mut home = Home::<Unix>::new();
    home.open().create_stream("s", schema(), StreamOptions::default()).unwrap();
    let (client, told) = telling(home.client().connections(2));
    let db = client.connect().unwrap();
    let mut cursors: Vec<_> =
        (0..4).map(|_| db.stream("s").unwrap().cursor().live().open().unwrap()).collect();
    let _loader = db.stream("s").unwrap().loader().unwrap();
    let _ = home.open();
    wait_until(|| lock(&told).len() >= 2);
    {
        let told = lock(&told);
        let [ConnectionEvent::Lost { place, why }, ConnectionEvent::Regained { .. }] = &told[..] else {
            panic!("{told:?}")
        };
        assert!(place.starts_with("tape+unix://") && !why.is_empty(), "{place}: {why}");
    }
    let stream = home.beside().stream("s").unwrap();
    append_ticks(&stream, 0..10);
    for cursor in &mut cursors {
        assert_eq!(number_of(&cursor.next_within(Duration::from_secs(60)).unwrap().unwrap()), 0);
    }
    let before = lock(&told).len();
    drop((cursors, _loader, db));
    assert_eq!(lock(&told).len(), before, "a connection that is closed is not lost");
}
