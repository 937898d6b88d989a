//! The console and REST beside the server.

use crate::commands::serve::imports::Imports;
use std::sync::Arc;
use tapedb_server::{Config, ListenError, Server};
use tapedb_terminal::Failure;
use tapedb_web::{TopicList, Web, WebLimits, WebOptions};

/// Starts it, if it is not off.
pub fn start(config: &Config, server: &Server, topics: Arc<dyn TopicList>) -> Result<Option<Web>, Failure> {
    let Some(address) = config.http.address() else { return Ok(None) };
    let tls = if config.http_tls { server.encryption() } else { None };
    let limits = WebLimits { upload_bytes_max: config.limits.upload_bytes_max, ..WebLimits::default() };
    let options = WebOptions {
        hosts: config.http_hosts.clone(),
        tls,
        topics: Some(topics),
        importer: Some(Arc::new(Imports::new(&config.database, server.database()))),
        backup: config.backup.clone(),
        limits,
        ..WebOptions::new(address)
    };
    let web = Web::start(server.handle(), options)
        .map_err(|error| Failure::new(ListenError::new("http", address, error).to_string()))?;
    if !web.has_api() {
        tracing::warn!(
            "other machines reach {address}, and there are no users: it has only /health, /status and /metrics; set --users for the console"
        );
    }
    Ok(Some(web))
}
