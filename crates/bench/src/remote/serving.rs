//! The server of a benchmark, in a process of its own.

use super::Transport;
use super::worker::{Addresses, Task, Worker};
use std::path::{Path, PathBuf};
use tapedb_client::Client;
use tapedb_engine::Database;
use tapedb_terminal::Failure;

/// A server over a database that is removed in the end.
pub struct Serving {
    worker: Worker,
    addresses: Addresses,
    path: PathBuf,
}

impl Serving {
    /// Starts it where nothing is yet.
    pub fn start(path: &Path, cores: Option<&str>, spin_us: u64) -> Result<Self, Failure> {
        if path.exists() {
            let path = path.display();
            return Err(Failure::new(format!(
                "{path} exists; remove it, or name another directory with --db"
            )));
        }
        let task = Task::Serve { db: path.into(), socket: socket_of(path), spin_us };
        let mut worker = Worker::start(&task, cores)?;
        let addresses = worker.hear()?;
        Ok(Self { worker, addresses, path: path.into() })
    }

    /// The server's address.
    pub fn url(&self, transport: Transport) -> &str {
        match transport {
            Transport::Tcp => &self.addresses.tcp,
            Transport::Uds => &self.addresses.uds,
            Transport::Shm => &self.addresses.shm,
        }
    }

    /// The database, through the server.
    pub fn connect(&self) -> Result<Database, Failure> {
        connect(self.url(Transport::Tcp))
    }

    /// Bytes of memory that the server has.
    pub fn resident_bytes(&self) -> u64 {
        self.worker.resident_bytes()
    }

    /// Processor time that the server has taken so far, in milliseconds.
    pub fn cpu_ms(&self) -> f64 {
        self.worker.cpu_ms()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.worker.end();
        let _ = std::fs::remove_dir_all(&self.path);
        let _ = std::fs::remove_file(socket_of(&self.path));
    }
}

/// A path for a socket, short enough for the system: beside the database its name could be too long.
pub fn socket_of(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    std::env::temp_dir().join(format!("tapedb-{}-{name:.40}.sock", std::process::id()))
}

/// Connects to a server.
pub fn connect(url: &str) -> Result<Database, Failure> {
    connected(Client::at(url))
}

/// Connects a client.
pub fn connected(client: Client) -> Result<Database, Failure> {
    client.connect().map_err(|error| Failure::new(error.to_string()))
}
