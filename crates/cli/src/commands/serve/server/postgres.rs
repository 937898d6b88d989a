//! Clients of PostgreSQL beside the server.

use std::sync::Arc;
use std::time::Duration;
use tapedb_gateway::{Options, Postgres};
use tapedb_query::QueryService;
use tapedb_server::{Config, ListenError, Server};
use tapedb_terminal::Failure;

/// Starts to listen for them, if that is configured.
pub(super) fn start(
    config: &Config,
    server: &Server,
    queries: &Arc<QueryService>,
) -> Result<Option<Postgres>, Failure> {
    let Some(address) = config.postgres.address() else { return Ok(None) };
    let limits = &config.limits;
    let options = Options {
        address,
        queries: queries.clone(),
        access: server.access(),
        tls: server.encryption(),
        connections_max: limits.connections_max,
        handshakes_max: limits.handshakes_max,
        handshakes_per_address_max: limits.handshakes_per_address_max,
        handshake_time: Duration::from_millis(limits.handshake_ms_max),
    };
    let started = Postgres::start(options);
    started.map(Some).map_err(|error| Failure::new(ListenError::new("postgres", address, error).to_string()))
}
