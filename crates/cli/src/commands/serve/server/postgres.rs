//! Clients of PostgreSQL beside the server.

use std::sync::Arc;
use std::time::Duration;
use tapedb_gateway::{Options, Postgres};
use tapedb_query::QueryService;
use tapedb_server::{Config, Server};
use tapedb_terminal::Failure;

/// Starts to listen for them, if that is configured.
pub(super) fn start(
    config: &Config,
    server: &Server,
    queries: &Arc<QueryService>,
) -> Result<Option<Postgres>, Failure> {
    let Some(address) = config.postgres.address() else { return Ok(None) };
    let tls = config.tls.as_ref().map(tapedb_server::Tls::server_config).transpose();
    let limits = &config.limits;
    let options = Options {
        address,
        queries: queries.clone(),
        access: server.access(),
        tls: tls.map_err(super::usage)?,
        connections_max: limits.connections_max,
        handshakes_max: limits.handshakes_max,
        handshakes_per_address_max: limits.handshakes_per_address_max,
        handshake_time: Duration::from_millis(limits.handshake_ms_max),
    };
    let started = Postgres::start(options);
    started.map(Some).map_err(|error| {
        Failure::new(format!("cannot listen on {address} for clients of PostgreSQL: {error}"))
    })
}
