//! Clients of Flight SQL beside the server.

use crate::commands::serve::copies::stream_options;
use std::sync::Arc;
use std::time::Duration;
use tapedb_flight::{Flight, FlightOptions};
use tapedb_query::QueryService;
use tapedb_server::{Config, ListenError, Server};
use tapedb_terminal::Failure;

/// Starts to listen for them, if that is configured.
pub(super) fn start(
    config: &Config,
    server: &Server,
    queries: &Arc<QueryService>,
) -> Result<Option<Flight>, Failure> {
    let Some(address) = config.flight.address() else { return Ok(None) };
    let limits = &config.limits;
    let options = FlightOptions {
        address,
        database: server.database().clone(),
        stream: stream_options(config.durability_min),
        queries: queries.clone(),
        access: server.access(),
        tls: server.encryption(),
        connections_max: limits.connections_max,
        handshakes_max: limits.handshakes_max,
        handshakes_per_address_max: limits.handshakes_per_address_max,
        handshake_time: Duration::from_millis(limits.handshake_ms_max),
    };
    let started = Flight::start(options);
    started.map(Some).map_err(|error| Failure::new(ListenError::new("flight", address, error).to_string()))
}
