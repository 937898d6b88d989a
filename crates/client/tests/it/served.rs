//! Databases behind a real server, over each transport.

use crate::support::reopen;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;
use tapedb_client::Client;
use tapedb_engine::Database;
use tapedb_server::{Addresses, Config, Server, Tls as Certificate};

/// A transport.
pub trait Transport {
    /// Configures the server to listen on it.
    fn listen(config: &mut Config, directory: &Path);
    /// A client of that server.
    fn client(addresses: &Addresses) -> Client;
}

pub struct Tcp;
pub struct Tls;
pub struct Unix;
pub struct Memory;

impl Transport for Tcp {
    fn listen(config: &mut Config, _: &Path) {
        config.listen = "127.0.0.1:0".parse().unwrap();
    }

    fn client(addresses: &Addresses) -> Client {
        Client::at(format!("tape://{}", addresses.tcp.unwrap()))
    }
}

impl Transport for Tls {
    fn listen(config: &mut Config, directory: &Path) {
        Tcp::listen(config, directory);
        config.tls = Some(Certificate { certificate: tls_file("server.pem"), key: tls_file("server.key") });
    }

    fn client(addresses: &Addresses) -> Client {
        assert!(addresses.is_encrypted);
        Client::at(format!("tapes://localhost:{}", addresses.tcp.unwrap().port()))
            .tls_roots(tls_file("ca.pem"))
    }
}

impl Transport for Unix {
    fn listen(config: &mut Config, directory: &Path) {
        config.listen = "off".parse().unwrap();
        config.unix_socket = Some(directory.join("socket"));
    }

    fn client(addresses: &Addresses) -> Client {
        Client::at(format!("tape+unix://{}", addresses.unix.as_ref().unwrap().display()))
    }
}

impl Transport for Memory {
    fn listen(config: &mut Config, directory: &Path) {
        Unix::listen(config, directory);
    }

    fn client(addresses: &Addresses) -> Client {
        Client::at(format!("tape+shm://{}", addresses.unix.as_ref().unwrap().display()))
    }
}

fn tls_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testing/tls").join(name)
}

/// A server for one database that listens only on this transport.
pub fn serve<T: Transport>(db: Database, directory: &Path) -> Server {
    let mut config = Config { http: "off".parse().unwrap(), shutdown_grace_seconds: 1, ..Config::default() };
    T::listen(&mut config, directory);
    Server::start_with(config, db).unwrap()
}

/// A directory for one database, and its server.
pub struct Home<T> {
    /// Dropped before the directory: a running server would write into it while it is removed.
    server: Mutex<Option<Server>>,
    directory: tempfile::TempDir,
    transport: PhantomData<T>,
}

impl<T: Transport> Home<T> {
    pub fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap(), server: Mutex::default(), transport: PhantomData }
    }

    /// A new database, and its server.
    pub fn with_database() -> (Self, Database) {
        let mut home = Self::new();
        let db = home.open();
        (home, db)
    }

    /// The database: created, or opened after the previous server has ended.
    pub fn open(&mut self) -> Database {
        let directory = self.directory.path();
        let server = self.server.get_mut().unwrap();
        *server = None;
        connect::<T>(server.insert(serve::<T>(reopen(&directory.join("db")), directory)))
    }

    /// Ends the server.
    pub fn close(&mut self) {
        *self.server.get_mut().unwrap() = None;
    }

    /// The path of the database.
    pub fn database_path(&self) -> PathBuf {
        self.directory.path().join("db")
    }

    /// A client of the running server.
    pub fn client(&self) -> Client {
        T::client(self.server.lock().unwrap().as_ref().unwrap().addresses())
    }

    /// The same database, as opened by another process.
    pub fn beside(&self) -> Database {
        connect::<T>(self.server.lock().unwrap().as_ref().unwrap())
    }
}

/// With a short timeout: loaders that are dropped after their server, with pending messages, must not wait long.
fn connect<T: Transport>(server: &Server) -> Database {
    T::client(server.addresses()).reconnect_timeout(Duration::from_millis(100)).connect().unwrap()
}
