//! The server of a benchmark, in a worker process.

use super::jobs::{Addresses, Serve, connect};
use super::transport::Transport;
use crate::worker::Worker;
use std::path::{Path, PathBuf};
use tapedb_engine::Database;
use tapedb_terminal::Failure;

/// A server with a database that is removed at the end.
pub struct Serving {
    worker: Worker,
    addresses: Addresses,
    path: PathBuf,
}

impl Serving {
    /// Starts it with a new database.
    pub fn start(path: &Path, cores: Option<&str>, spin_us: u64) -> Result<Self, Failure> {
        if path.exists() {
            let path = path.display();
            return Err(Failure::new(format!(
                "{path} exists; remove it, or name another directory with --db"
            )));
        }
        let serve = Serve { db: path.into(), socket: socket_of(path), spin_us };
        let mut worker = Worker::start(&serve, cores)?;
        let addresses = worker.receive()?;
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

    /// Resident memory of the server in bytes.
    pub fn resident_bytes(&self) -> u64 {
        self.worker.resident_bytes()
    }

    /// Processor time of the server so far, in milliseconds.
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

/// A path for a socket, short enough for the system: beside the database it could be too long.
pub fn socket_of(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    std::env::temp_dir().join(format!("tapedb-{}-{name:.40}.sock", std::process::id()))
}
