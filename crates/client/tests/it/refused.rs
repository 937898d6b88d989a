//! Refused batches stay in the loader: the error is returned, and each message is stored once when its cause is gone.

use crate::plain::{Plain, new_database};
use crate::served::{Home, Memory, Tcp, Tls, Transport, Unix, serve};
use crate::support::*;
use std::fmt::Debug;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tapedb_access::{May, Right, Token, User, Users, hash_token};
use tapedb_client::asynchronous;
use tapedb_client::{Client, Login};
use tapedb_engine::{
    Access, ConnectionError, Database, Durability, Error, Loader, Rejected, Stream, StreamOptions,
};
use tapedb_log::sim::SimStorage;
use tapedb_schema::Timestamp;
use tapedb_server::{Config, Server};

/// A server on a simulated disk, and a stream of it, opened through a client.
struct OnSim {
    disk: SimStorage,
    db: Database,
    stream: Stream,
    _server: Server,
    _directory: tempfile::TempDir,
}

impl OnSim {
    fn new<T: Transport>(durability: Durability) -> Self {
        let disk = SimStorage::new(1);
        let db = Database::open_on(Arc::new(disk.clone()), "/db", Access::WriteWithoutMaintenance).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let server = serve::<T>(db.clone(), directory.path());
        let remote =
            T::client(server.addresses()).reconnect_timeout(Duration::from_secs(60)).connect().unwrap();
        let options = StreamOptions { durability, ..StreamOptions::default() };
        let stream = remote.create_stream("s", schema(), options).unwrap();
        Self { disk, db, stream, _server: server, _directory: directory }
    }

    /// A loader of small batches that has the id of symbol `A`.
    fn loader(&self) -> Loader {
        let mut loader = self.stream.loader().unwrap();
        loader.set_batch_bytes(1 << 10);
        loader.symbol("A").unwrap();
        loader
    }

    fn stored(&self) -> Vec<u64> {
        drain(&mut self.db.stream("s").unwrap().cursor().open().unwrap())
    }
}

fn append(loader: &mut Loader, number: u64) -> Result<(), Error> {
    loader.append("A", Timestamp(number as i64), &Tick::of(number))
}

/// Repeats a call until it fails: at the latest after all answers have arrived.
fn failing<T: Debug>(mut call: impl FnMut() -> Result<T, Error>) -> Error {
    (0..100_000).find_map(|_| call().err()).expect("it never failed")
}

fn numbers(count: u64) -> Vec<u64> {
    (0..count).collect()
}

/// Loads while the disk is full; when it has space again, each message is stored once.
fn full_and_empty_again<T: Transport>(durability: Durability) {
    let served = OnSim::new::<T>(durability);
    let mut loader = served.loader();
    for number in 0..100 {
        append(&mut loader, number).unwrap();
    }
    assert_eq!((loader.flush().unwrap(), loader.pending()), (100, 0));
    served.disk.set_capacity(Some(1));
    let mut next = 100;
    // Several batches are in flight: the first that finds no space is refused, with all later ones.
    let mut error = loop {
        match append(&mut loader, next) {
            Ok(()) => next += 1,
            Err(error) => break error,
        }
        if next == 4000 {
            break loader.flush().unwrap_err();
        }
    };
    for _ in 0..3 {
        assert!(error.to_string().contains("disk is full"), "{error}");
        let stored = served.stored();
        assert_eq!(stored, numbers(stored.len() as u64));
        assert_eq!(loader.pending() + stored.len(), next as usize, "no message is lost");
        assert!(loader.pending() > 0);
        error = loader.flush().unwrap_err();
    }
    served.disk.set_capacity(None);
    for _ in 0..100 {
        append(&mut loader, next).unwrap();
        next += 1;
    }
    assert_eq!((loader.flush().unwrap(), loader.pending()), (next, 0));
    assert_eq!(served.stored(), numbers(next));
}

#[test]
fn a_full_disk_behind_tcp() {
    full_and_empty_again::<Tcp>(Durability::Sync);
}

#[test]
fn a_full_disk_behind_tls() {
    full_and_empty_again::<Tls>(Durability::Async);
}

#[test]
fn a_full_disk_behind_a_unix_socket() {
    full_and_empty_again::<Unix>(Durability::Async);
}

#[test]
fn a_full_disk_behind_shared_memory() {
    full_and_empty_again::<Memory>(Durability::Sync);
}

#[test]
fn a_refused_batch_is_reported_by_a_later_call() {
    let served = OnSim::new::<Tcp>(Durability::Async);
    let mut loader = served.loader();
    served.disk.set_capacity(Some(1));
    let mut next = 0;
    let error = failing(|| {
        append(&mut loader, next)?;
        next += 1;
        loader.send()
    });
    assert!(error.to_string().contains("disk is full"), "{error}");
    let error = failing(|| loader.send());
    assert!(error.to_string().contains("disk is full"), "again: {error}");
    assert!(loader.pending() > 0);
    served.disk.set_capacity(None);
    append(&mut loader, next).unwrap();
    loader.send().unwrap();
    assert_eq!(loader.close().unwrap(), next + 1);
    assert_eq!(served.stored(), numbers(next + 1));
}

#[test]
fn write_errors_are_reported_and_lose_nothing() {
    for kind in [ErrorKind::ReadOnlyFilesystem, ErrorKind::QuotaExceeded, ErrorKind::StorageFull] {
        let served = OnSim::new::<Tcp>(Durability::Sync);
        let mut loader = served.loader();
        served.disk.fail_at(served.disk.operations() + 5, kind);
        let mut next = 0;
        failing(|| {
            append(&mut loader, next)?;
            next += 1;
            loader.flush()
        });
        assert_eq!(loader.pending() + served.stored().len(), next as usize, "{kind}");
        assert!(loader.pending() > 0, "{kind}");
    }
}

#[test]
fn late_messages_are_given_up_as_in_a_local_database() {
    let (_directory, db) = new_database();
    let server = Plain::start(db.clone());
    let remote = tapedb_client::open(&server.url()).unwrap();
    let options = StreamOptions { late: tapedb_engine::Late::Refuse, ..StreamOptions::default() };
    let stream = remote.create_stream("s", schema(), options).unwrap();
    let mut loader = stream.loader().unwrap();
    append(&mut loader, 10).unwrap();
    append(&mut db.stream("s").unwrap().loader().unwrap(), 20).unwrap();
    assert!(matches!(loader.flush(), Err(Error::Rejected(Rejected::Late { .. }))));
    assert_eq!((loader.pending(), loader.flush().unwrap()), (0, 0));
}

fn users(may: &[May]) -> Users {
    let tokens = vec![Token { name: "test".into(), hash: hash_token("tape_1") }];
    let rights = vec![Right { streams: "*".into(), may: may.to_vec() }];
    Users { users: vec![User { name: "ann".into(), tokens, rights, ..User::default() }] }
}

#[test]
fn denied_batches_are_stored_after_the_right_is_restored() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("users.toml");
    users(&[May::Write]).write(&path).unwrap();
    let mut config = Config { http: "off".parse().unwrap(), users: Some(path.clone()), ..Config::default() };
    Unix::listen(&mut config, directory.path());
    let db = reopen(&directory.path().join("db"));
    let local = db.create_stream("s", schema(), StreamOptions::default()).unwrap();
    let server = Server::start_with(config, db).unwrap();
    let remote = Unix::client(server.addresses()).login(Login::token("tape_1")).connect().unwrap();
    let mut loader = remote.stream("s").unwrap().loader().unwrap();
    append(&mut loader, 0).unwrap();
    loader.flush().unwrap();

    users(&[May::Read]).write(&path).unwrap();
    server.reload_users().unwrap();
    append(&mut loader, 1).unwrap();
    for _ in 0..3 {
        let error = failing(|| loader.flush());
        assert!(matches!(error, Error::Denied { .. }), "{error}");
        assert_eq!(loader.pending(), 1);
    }
    users(&[May::Read, May::Write]).write(&path).unwrap();
    server.reload_users().unwrap();
    append(&mut loader, 2).unwrap();
    loader.flush().or_else(|_| loader.flush()).unwrap();
    assert_eq!(loader.pending(), 0);
    assert_eq!(drain(&mut local.cursor().open().unwrap()), numbers(3));
}

#[test]
fn batches_are_stored_after_the_server_is_restarted() {
    let mut home = Home::<Unix>::new();
    home.open().create_stream("s", schema(), StreamOptions::default()).unwrap();
    let remote = home.client().reconnect_timeout(Duration::from_millis(50)).connect().unwrap();
    let mut loader = remote.stream("s").unwrap().loader().unwrap();
    loader.set_batch_bytes(1 << 10);
    append(&mut loader, 0).unwrap();
    loader.flush().unwrap();
    home.close();
    for number in 1..50 {
        append(&mut loader, number).unwrap();
    }
    for _ in 0..3 {
        let error = loader.flush().unwrap_err();
        assert!(matches!(error, Error::Connection(ConnectionError::Unreachable { .. })), "{error}");
        assert_eq!(loader.pending(), 49);
    }
    let db = home.open();
    (0..10_000).find(|_| loader.flush().is_ok()).expect("the server is reachable again");
    assert_eq!(loader.pending(), 0);
    assert_eq!(drain(&mut db.stream("s").unwrap().cursor().open().unwrap()), numbers(50));
}

#[test]
fn lost_acknowledged_batches_are_reported_once() {
    let mut home = Home::<Unix>::new();
    home.open().create_stream("s", schema(), StreamOptions::default()).unwrap();
    let remote = home.client().reconnect_timeout(Duration::from_millis(50)).connect().unwrap();
    let mut loader = remote.stream("s").unwrap().loader().unwrap();
    append(&mut loader, 0).unwrap();
    loader.flush().unwrap();
    home.close();
    let (now, before) = (home.database_path(), home.database_path().with_extension("before"));
    copy(&now, &before);
    let _ = home.open();
    append(&mut loader, 1).unwrap();
    (0..10_000).find(|_| loader.flush().is_ok()).expect("the server is reachable again");
    append(&mut loader, 2).unwrap();
    // Like a power cut that loses acknowledged batches.
    home.close();
    fs::remove_dir_all(&now).unwrap();
    copy(&before, &now);
    let db = home.open();
    let error = loop {
        match loader.flush() {
            Err(Error::Connection(ConnectionError::Unreachable { .. })) => {}
            other => break other.unwrap_err(),
        }
    };
    assert!(error.to_string().contains("does not know any more"), "{error}");
    assert_eq!(loader.pending(), 1);
    append(&mut loader, 3).unwrap();
    loader.flush().unwrap();
    assert_eq!(drain(&mut db.stream("s").unwrap().cursor().open().unwrap()), [0, 2, 3]);
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => drop(fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
        }
    }
}

#[test]
fn an_asynchronous_loader_stores_refused_batches() {
    let served = OnSim::new::<Tcp>(Durability::Async);
    let mut loader = asynchronous::Loader::new(served.loader());
    served.disk.set_capacity(Some(1));
    let mut next = 0;
    failing(|| {
        let appended = append(&mut loader.get().unwrap(), next);
        appended?;
        next += 1;
        block_on(loader.flush())
    });
    for _ in 0..3 {
        let error = block_on(loader.flush()).unwrap_err();
        assert!(error.to_string().contains("disk is full"), "{error}");
        assert_eq!(loader.get().unwrap().pending() + served.stored().len(), next as usize);
    }
    served.disk.set_capacity(None);
    append(&mut loader.get().unwrap(), next).unwrap();
    assert_eq!(block_on(loader.flush()).unwrap(), next + 1);
    assert_eq!(served.stored(), numbers(next + 1));
}

/// Runs a future on this thread.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let (mut context, mut future) = (std::task::Context::from_waker(&waker), std::pin::pin!(future));
    loop {
        if let std::task::Poll::Ready(ready) = future.as_mut().poll(&mut context) {
            return ready;
        }
        std::thread::park();
    }
}

#[test]
fn refused_batches_of_a_minimal_server_are_sent_again() {
    // It answers each batch separately.
    let disk = SimStorage::new(1);
    let db = Database::open_on(Arc::new(disk.clone()), "/db", Access::WriteWithoutMaintenance).unwrap();
    let server = Plain::start(db.clone());
    let remote = Client::at(server.url()).connect().unwrap();
    let stream = remote.create_stream("s", schema(), StreamOptions::default()).unwrap();
    let mut loader = stream.loader().unwrap();
    loader.symbol("A").unwrap();
    disk.set_capacity(Some(1));
    let mut next = 0;
    failing(|| {
        append(&mut loader, next)?;
        next += 1;
        loader.flush()
    });
    loader.flush().unwrap_err();
    disk.set_capacity(None);
    assert_eq!((loader.pending(), loader.flush().unwrap(), loader.pending()), (1, next, 0));
    assert_eq!(drain(&mut db.stream("s").unwrap().cursor().open().unwrap()), numbers(next));
}
