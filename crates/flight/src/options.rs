//! What clients reach, and limits.

use rustls::ServerConfig;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tapedb_access::Access;
use tapedb_engine::{Database, StreamOptions};
use tapedb_query::QueryService;

/// What clients of Flight SQL reach.
pub struct FlightOptions {
    /// Address to listen on.
    pub address: SocketAddr,
    /// Where rows are written.
    pub database: Database,
    /// Settings of streams that clients create.
    pub stream: StreamOptions,
    /// Runs queries.
    pub queries: Arc<QueryService>,
    /// Users, and what they may do.
    pub access: Access,
    /// Encryption, if there is a certificate.
    pub tls: Option<Arc<ServerConfig>>,
    /// Connections at once. Further ones are closed.
    pub connections_max: usize,
    /// Connections at once that have not authenticated. Further ones are closed.
    pub handshakes_max: usize,
    /// The same of one address.
    pub handshakes_per_address_max: usize,
    /// The time for authentication.
    pub handshake_time: Duration,
}

impl fmt::Debug for FlightOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlightOptions").field("address", &self.address).finish_non_exhaustive()
    }
}
