//! What the connections share.

use crate::postgres::registry::Registry;
use rustls::ServerConfig;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use tapedb_access::Access;
use tapedb_query::QueryService;
use tokio::runtime::Runtime;

/// What clients of PostgreSQL reach.
pub struct Options {
    /// Address to listen on.
    pub address: SocketAddr,
    /// Runs queries.
    pub queries: Arc<QueryService>,
    /// Users, and what they may do.
    pub access: Access,
    /// Encryption, if there is a certificate.
    pub tls: Option<Arc<ServerConfig>>,
    /// Connections at once. Further ones are refused.
    pub connections_max: usize,
    /// Connections at once that are not authenticated. Further ones are closed.
    pub handshakes_max: usize,
    /// The same of one address.
    pub handshakes_per_address_max: usize,
    /// The time for authentication.
    pub handshake_time: Duration,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("address", &self.address).finish_non_exhaustive()
    }
}

/// What connections share.
pub(crate) struct Backend {
    pub options: Options,
    pub registry: Registry,
    pub statements: AtomicU64,
    /// Runs queries of the catalogue.
    pub runtime: Runtime,
}
