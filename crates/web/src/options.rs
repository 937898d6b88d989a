//! How the HTTP server listens, and its limits.

use rustls::ServerConfig;
use std::fmt::Debug;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// How to serve HTTP.
#[derive(Debug, Clone)]
pub struct WebOptions {
    /// The address to listen on; port 0 for any free port.
    pub address: SocketAddr,
    /// Names by which clients reach the server, beside those of the loopback and the address itself: `name` or `name:port`.
    pub hosts: Vec<String>,
    /// Encrypts connections.
    pub tls: Option<Arc<ServerConfig>>,
    /// The topics that the program copies to streams.
    pub topics: Option<Arc<dyn TopicList>>,
    /// Limits.
    pub limits: WebLimits,
}

/// The topics that a program copies to streams, beside its server.
pub trait TopicList: Debug + Send + Sync {
    /// The topics now.
    fn topics(&self) -> Vec<TopicRow>;
}

/// A topic that is copied to a stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TopicRow {
    /// The topic.
    pub name: String,
    /// The stream of its copy.
    pub stream: String,
    /// What the copy does, in a word.
    pub state: String,
    /// Messages copied since the server started.
    pub messages: u64,
    /// Messages that were overwritten before they could be copied.
    pub missed: u64,
    /// Messages published and not copied yet.
    pub lag: u64,
    /// The last error, while the copy fails.
    pub failure: Option<String>,
}

/// Limits, each with what happens when it is reached.
#[derive(Debug, Clone)]
pub struct WebLimits {
    /// Connections at once. A further one closes the oldest that waits for a request; if there is none, it is closed itself.
    pub connections_max: usize,
    /// Time for the head of a request, and between two requests. Then the connection is closed.
    pub head_time: Duration,
    /// Time for the body of a request. Then it is answered with 408.
    pub body_time: Duration,
    /// Bytes of a body. A longer one is answered with 413.
    pub body_bytes_max: usize,
    /// Time in which a client reads something of an answer. Then the connection is closed.
    pub write_time: Duration,
    /// A session ends when it was not used for this time.
    pub session_idle: Duration,
    /// A session ends after this time.
    pub session_time: Duration,
    /// WebSockets of one session, or of one address without sessions. Further ones are refused.
    pub sockets_max: usize,
    /// Bytes per second of a WebSocket's frames. State channels then skip states, and `tail` skips messages.
    pub socket_bytes_per_second: u64,
}

impl Default for WebLimits {
    fn default() -> Self {
        Self {
            connections_max: 1200,
            head_time: Duration::from_secs(10),
            body_time: Duration::from_secs(20),
            body_bytes_max: 1 << 20,
            write_time: Duration::from_secs(30),
            session_idle: Duration::from_secs(8 * 3600),
            session_time: Duration::from_secs(24 * 3600),
            sockets_max: 1100,
            socket_bytes_per_second: 300_000,
        }
    }
}

impl WebOptions {
    /// The defaults, on an address.
    pub fn new(address: SocketAddr) -> Self {
        Self { address, hosts: Vec::new(), tls: None, topics: None, limits: WebLimits::default() }
    }
}
