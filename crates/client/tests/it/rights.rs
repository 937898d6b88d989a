//! Cursors and loaders of a client whose user's rights change.

use crate::support::*;
use std::time::Duration;
use tapedb_access::{May, Right, Token, User, Users, hash_token};
use tapedb_client::{Client, Login};
use tapedb_engine::{ConnectionError, Database, Error, StreamOptions};
use tapedb_server::{Config, Server};

fn users(may: &[May]) -> Users {
    let tokens = vec![Token { name: "test".into(), hash: hash_token("tape_1") }];
    let rights = vec![Right { streams: "*".into(), may: may.to_vec() }];
    Users { users: vec![User { name: "ann".into(), tokens, rights, ..User::default() }] }
}

#[test]
fn removed_rights_end_cursors_and_loaders_with_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("users.toml");
    users(&[May::Read, May::Write]).write(&path).unwrap();
    let config = Config {
        listen: "127.0.0.1:0".parse().unwrap(),
        http: "off".parse().unwrap(),
        users: Some(path.clone()),
        ..Config::default()
    };
    let db = Database::open(directory.path().join("db")).unwrap();
    let stream = db.create_stream("s", schema(), StreamOptions::default()).unwrap();
    let server = Server::start_with(config, db).unwrap();
    let client = Client::at(format!("tape://{}", server.addresses().tcp.unwrap()));
    let client = client.login(Login::token("tape_1")).reconnect_timeout(Duration::from_secs(2));
    let remote = client.connect().unwrap();
    let mut cursor = remote.stream("s").unwrap().cursor().live().open().unwrap();
    let mut loader = remote.stream("s").unwrap().loader().unwrap();
    loader.append("A", tapedb_schema::Timestamp(0), &Tick::of(0)).unwrap();
    loader.flush().unwrap();
    assert_eq!(number_of(&cursor.next_within(Duration::from_secs(60)).unwrap().unwrap()), 0);

    // The user may still write: the stream is visible, but not its messages.
    users(&[May::Write]).write(&path).unwrap();
    server.reload_users().unwrap();
    let error = loop {
        match cursor.next_within(Duration::from_secs(60)) {
            Err(error) => break error,
            Ok(message) => assert!(message.is_none()),
        }
    };
    assert!(matches!(error, Error::Denied { .. }), "{error}");
    assert!(
        matches!(cursor.next_within(Duration::from_secs(60)), Err(Error::Denied { .. })),
        "the error is permanent"
    );
    loader.append("A", tapedb_schema::Timestamp(1), &Tick::of(1)).unwrap();
    loader.flush().unwrap();
    assert_eq!(stream.stats().unwrap().messages, 2);
    drop(cursor);

    // Now the other way round.
    users(&[May::Read]).write(&path).unwrap();
    server.reload_users().unwrap();
    let error = loop {
        let appended = loader.append("A", tapedb_schema::Timestamp(2), &Tick::of(2));
        if let Err(error) = appended.and_then(|()| loader.flush()) {
            break error;
        }
    };
    assert!(matches!(error, Error::Denied { .. }), "{error}");
    let mut cursor = remote.stream("s").unwrap().cursor().live().open().unwrap();
    for number in 0..2 {
        assert_eq!(number_of(&cursor.next_within(Duration::from_secs(60)).unwrap().unwrap()), number);
    }

    // A removed user is not accepted again: the cursor must not wait for messages that cannot arrive.
    Users::default().write(&path).unwrap();
    server.reload_users().unwrap();
    let error = loop {
        match cursor.next_within(Duration::from_secs(60)) {
            Err(error) => break error,
            // Appended by the loader before it got the error.
            Ok(message) => assert!(message.is_none_or(|message| number_of(&message) == 2)),
        }
    };
    assert!(matches!(error, Error::Connection(ConnectionError::Refused { .. })), "{error}");
}
