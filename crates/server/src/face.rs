//! What other protocols of the same process use of a server: its database, users, limits, connections and pages.

use crate::config::Config;
use crate::http::Pages;
use crate::reload::Reload;
use crate::state::ServerState;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tapedb_access::{AccessLimits, AuditEntry, Authenticator, ConfigError, EditError, Quotas, User, Users};
use tapedb_engine::{Database, QueryEngine};

/// A server, for other protocols of the same process, such as HTTP. Cheap to clone. The database stays open as long as a handle exists.
#[derive(Debug, Clone)]
pub struct ServerHandle {
    state: Arc<ServerState>,
}

/// A client of the server's own protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionInfo {
    /// Its number.
    pub id: u64,
    /// The user; empty before authentication.
    pub user: String,
    /// The client's address.
    pub address: String,
    /// The program's name, as the client reports it.
    pub program: String,
    /// Seconds since it connected.
    pub connected_seconds: u64,
    /// Live cursors.
    pub watches: usize,
    /// Open loads.
    pub loaders: usize,
    /// Messages that its live cursors have not been sent.
    pub lag_messages: u64,
    /// Bytes sent to the client.
    pub sent_bytes: u64,
    /// Bytes received from the client.
    pub received_bytes: u64,
}

/// Live cursors of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StreamReaders {
    /// How many.
    pub readers: usize,
    /// Messages that the slowest of them has not been sent.
    pub lag_messages_max: u64,
}

impl ServerHandle {
    pub(crate) fn new(state: Arc<ServerState>) -> Self {
        Self { state }
    }

    /// The database.
    pub fn database(&self) -> &Database {
        &self.state.db
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.state.config
    }

    /// What runs queries, if the program has given something that does.
    pub fn query_engine(&self) -> Option<Arc<dyn QueryEngine>> {
        self.state.query_engine.get().cloned()
    }

    /// Authentication with the server's users and their throttle.
    pub fn authenticator(&self) -> Authenticator {
        Authenticator::new(self.state.logins.clone())
    }

    /// The quotas of users, over all protocols.
    pub fn quotas(&self) -> &Quotas {
        &self.state.quotas
    }

    /// Limits of users.
    pub fn access_limits(&self) -> &AccessLimits {
        &self.state.access
    }

    /// Whether the server shuts down.
    pub fn is_stopping(&self) -> bool {
        self.state.is_stopping()
    }

    /// Whether the server is healthy, and the page `/health`.
    pub fn health(&self) -> (bool, String) {
        Pages::health(&*self.state)
    }

    /// The page `/metrics`.
    pub fn metrics(&self) -> String {
        Pages::metrics(&*self.state)
    }

    /// The status, as far as the user may see it; `None`: all of it.
    pub fn status(&self, user: Option<&User>) -> String {
        match user {
            // There is no connection 0: of connections a user without rights on all streams sees none.
            Some(user) => self.state.status_for(user, 0),
            None => Pages::status(&*self.state),
        }
    }

    /// Writes an entry of the audit log.
    pub fn audit(&self, entry: AuditEntry<'_>) {
        self.state.write_audit(entry);
    }

    /// The connections of the server's own protocol, the oldest first.
    pub fn connections(&self) -> Vec<ConnectionInfo> {
        let sums = self.state.traffic.sums();
        let info = |handle: &Arc<crate::handle::ConnectionHandle>| {
            let watches = handle.watches();
            ConnectionInfo {
                id: handle.id,
                user: handle.user().into(),
                address: handle.peer.to_string(),
                program: handle.program.get().cloned().unwrap_or_default(),
                connected_seconds: handle.since.elapsed().as_secs(),
                watches: watches.len(),
                loaders: sums.loads_by_connection.get(&handle.id).copied().unwrap_or(0),
                lag_messages: watches.iter().map(|watch| watch.lag()).sum(),
                sent_bytes: handle.send_buffer.written(),
                received_bytes: handle.received.load(Ordering::Relaxed),
            }
        };
        self.state.handles().iter().map(info).collect()
    }

    /// Ends a connection, with a reason that its client is given; whether there is one of that number.
    pub fn end_connection(&self, id: u64, why: &str) -> bool {
        let found = self.state.handles().into_iter().find(|handle| handle.id == id);
        let Some(handle) = found else { return false };
        // An earlier reason stays.
        let _ = handle.ended_because.set(why.into());
        handle.wake();
        true
    }

    /// Live cursors through the server, by stream.
    pub fn readers(&self) -> BTreeMap<String, StreamReaders> {
        let mut by_stream: BTreeMap<String, StreamReaders> = BTreeMap::new();
        for watch in self.state.handles().iter().flat_map(|handle| handle.watches()) {
            let row = by_stream.entry(watch.stream_name().to_string()).or_default();
            row.readers += 1;
            row.lag_messages_max = row.lag_messages_max.max(watch.lag());
        }
        by_stream
    }

    /// Changes the users file, and applies it as [`Server::reload_users`](crate::Server::reload_users) does.
    ///
    /// # Errors
    /// What `change` returns; a server without users; a file that cannot be read or written. The users then stay unchanged.
    pub fn edit_users(
        &self,
        change: impl FnOnce(&mut Users) -> Result<(), ConfigError>,
    ) -> Result<(), EditError> {
        self.state.logins.edit(change)?;
        self.state.wake_all();
        Ok(())
    }

    /// Reads the users file and the certificate again, as [`Server::reload`](crate::Server::reload) does.
    pub fn reload(&self) -> Reload {
        self.state.reload()
    }
}
