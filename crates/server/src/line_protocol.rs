//! Settings of the InfluxDB line protocol, which `tapedb server` listens for.

use crate::config::Endpoint;
use serde::{Deserialize, Serialize};

/// Settings of the InfluxDB line protocol: the table `ilp` of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LineProtocol {
    /// Address of `/write`, `/api/v2/write`, `/settings` and `/ping` over HTTP: `host:port` or `off`.
    pub http: Endpoint,
    /// Address for lines over TCP: `host:port` or `off`. There is no authentication: clients are the user `anonymous`.
    pub tcp: Endpoint,
    /// Whether both are encrypted with the certificate of [`tls`](crate::Config::tls).
    pub tls: bool,
    /// Names of the tag that has the symbol, the most important first.
    pub symbols: Vec<String>,
    /// The symbol of lines that have none; empty: such lines are refused.
    pub missing_symbol: String,
    /// Whether users with the right `create` create streams and fields by writing lines.
    pub create: bool,
}

impl Default for LineProtocol {
    fn default() -> Self {
        Self {
            http: Endpoint::OFF,
            tcp: Endpoint::OFF,
            tls: false,
            symbols: ["symbol", "sym", "ticker"].map(String::from).into(),
            missing_symbol: "-".into(),
            create: true,
        }
    }
}

impl LineProtocol {
    /// Whether it listens at all.
    pub fn is_on(&self) -> bool {
        self.http.address().is_some() || self.tcp.address().is_some()
    }
}
