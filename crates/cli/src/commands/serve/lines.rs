//! The InfluxDB line protocol beside a server.

use crate::commands::serve::copies::stream_options;
use std::sync::Arc;
use std::time::Duration;
use tapedb_ilp_load::{LineAddresses, LineGateway, LineLoader, LineServer, LoadCounts, LoadOptions};
use tapedb_server::{Component, Config, LineProtocol, ListenError, MetricsPage, Server};
use tapedb_terminal::Failure;

/// Listens for the line protocol until it is dropped.
#[derive(Debug)]
pub struct Lines(LineServer);

impl Lines {
    /// Listens where the configuration names an address; `None`: it names none.
    pub fn start(config: &Config, server: &Server) -> Result<Option<Arc<Self>>, Failure> {
        let access = server.access();
        let LineProtocol { http, tcp, tls, symbols, missing_symbol, create } = &config.ilp;
        if !config.ilp.is_on() {
            return Ok(None);
        }
        let options = LoadOptions {
            symbols: symbols.clone(),
            missing_symbol: Some(missing_symbol.clone()).filter(|symbol| !symbol.is_empty()),
            create: *create,
            stream: stream_options(config.durability_min),
            ..LoadOptions::default()
        };
        let gateway = LineGateway::new(
            LineLoader::new(server.database().clone(), options).with_audit(access.audit),
            access.authenticator,
        );
        let tls = if *tls { server.encryption() } else { None };
        let addresses = LineAddresses { http: http.address(), tcp: tcp.address() };
        let server = LineServer::start(gateway, addresses, tls).map_err(|(address, error)| {
            let setting = if Some(address) == addresses.http { "ilp.http" } else { "ilp.tcp" };
            Failure::new(ListenError::new(setting, address, error).to_string())
        })?;
        Ok(Some(Arc::new(Self(server))))
    }

    /// Finishes the requests that have begun, within this time, and takes no more.
    pub fn stop(&self, grace: Duration) {
        self.0.stop(grace);
    }

    /// Where it listens.
    pub fn addresses(&self) -> LineAddresses {
        self.0.addresses()
    }
}

/// A counter: its name, what it counts, and its value.
type Counter = (&'static str, &'static str, fn(&LoadCounts) -> u64);

const COUNTERS: [Counter; 4] = [
    ("ilp_requests", "Requests of the line protocol, and pieces over TCP, that were stored.", |counts| {
        counts.requests
    }),
    ("ilp_messages", "Messages that were stored from the line protocol.", |counts| counts.lines),
    ("ilp_repeated", "Requests of the line protocol that were stored already.", |counts| counts.repeated),
    ("ilp_refused", "Requests of the line protocol that were refused.", |counts| counts.refused),
];

impl Component for Lines {
    fn metrics(&self, page: &mut MetricsPage) {
        let counts = self.0.gateway().loader().counts();
        for (name, help, value) in COUNTERS {
            page.counter(name, help, value(&counts));
        }
    }

    fn problems(&self) -> Vec<(String, String)> {
        Vec::new()
    }
}
