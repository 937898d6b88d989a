//! Settings of a front.

use super::access::{Access, Everyone};
use super::subscriber::Slow;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tapedb_kdb_ipc::Limits;

/// Measures a front.
pub trait FrontProbe: Send + Sync {
    /// Updates that arrived together, of so many rows in all, have been decoded, checked and logged.
    fn logged(&self, rows: usize, took: Duration);
    /// Rows have been encoded and queued for all subscribers.
    fn published(&self, rows: usize, took: Duration);
}

/// Settings of a front.
#[derive(Clone)]
pub struct FrontOptions {
    /// Address to listen at; port 0: any free one.
    pub listen: SocketAddr,
    /// Folder for logs that kdb+ can replay, one each day; `None`: no logs, and clients get no count.
    pub log_folder: Option<PathBuf>,
    /// Which clients may connect.
    pub access: Arc<dyn Access>,
    /// Limits of one message.
    pub limits: Limits,
    /// Connections at once; further ones are closed.
    pub connections_max: usize,
    /// How long a client may take to log in.
    pub greeting_timeout: Duration,
    /// How long a message may take from its first byte to its last.
    pub message_timeout: Duration,
    /// Bytes that may wait to be sent to one client before it counts as slow.
    pub waiting_bytes_max: usize,
    /// Bytes that may wait to be sent to all clients together; beyond, the connection with most waiting bytes is closed.
    pub all_waiting_bytes_max: usize,
    /// What is done with slow subscribers that have not chosen themselves.
    pub slow: Slow,
    /// Receives how long updates take.
    pub probe: Option<Arc<dyn FrontProbe>>,
}

impl FrontOptions {
    /// At an address; every client may connect, 256 at once; 64 MiB may wait for each and 1 GiB for all; no logs.
    pub fn at(listen: SocketAddr) -> Self {
        Self {
            listen,
            log_folder: None,
            access: Arc::new(Everyone),
            limits: Limits::default(),
            connections_max: 256,
            greeting_timeout: Duration::from_secs(5),
            message_timeout: Duration::from_secs(60),
            waiting_bytes_max: 64 << 20,
            all_waiting_bytes_max: 1 << 30,
            slow: Slow::default(),
            probe: None,
        }
    }
}

impl fmt::Debug for FrontOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrontOptions").field("listen", &self.listen).finish_non_exhaustive()
    }
}
