//! State that all connections of a server share.

use crate::component::Component;
use crate::config::Config;
use crate::fanout::Fanouts;
use crate::handle::ConnectionHandle;
use crate::handshakes::Handshakes;
use crate::log_limit::{FailureKind, LogLimit};
use crate::metrics::Metrics;
use crate::process::disk_problem;
use crate::producers::ProducerIds;
use crate::rewrites::RewriteNumbers;
use crate::send_buffer::SendBuffer;
use crate::socket::Peer;
use crate::tls::Encryption;
use crate::traffic::TrafficCounters;
use mio::Waker;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tapedb_access::{AccessLimits, AuditEntry, AuditLog, Logins, Quotas};
use tapedb_engine::{Database, QueryEngine};
use tapedb_schema::Timestamp;

/// The server, for its connections.
#[derive(Debug)]
pub(crate) struct ServerState {
    pub config: Config,
    pub db: Database,
    pub metrics: Metrics,
    pub traffic: Arc<TrafficCounters>,
    pub audit: Arc<AuditLog>,
    pub logins: Arc<Logins>,
    /// The certificate, if TCP is encrypted.
    pub encryption: Option<Encryption>,
    pub quotas: Arc<Quotas>,
    /// Limits of users.
    pub access: AccessLimits,
    /// Random at each start: files and watches of another epoch do not exist any more.
    pub epoch: u64,
    pub producers: ProducerIds,
    /// The fan-out of streams to watches.
    pub fanouts: Fanouts,
    /// Permits for unauthenticated connections.
    pub handshakes: Arc<Handshakes>,
    /// Connections whose threads poll, and their limit.
    pub spinners: Spinners,
    /// The server shuts down: connections end too.
    pub stopping: AtomicBool,
    pub log_limit: LogLimit,
    pub started: Instant,
    /// Maps rewrite numbers of clients to those of the database.
    pub rewrite_numbers: RewriteNumbers,
    /// Runs queries of clients, if the program has given something that does.
    pub query_engine: OnceLock<Arc<dyn QueryEngine>>,
    components: Mutex<Vec<Arc<dyn Component>>>,
    open: Mutex<BTreeMap<u64, Arc<ConnectionHandle>>>,
    /// Notified when a connection has ended.
    ended: Condvar,
    next_id: AtomicU64,
}

/// Threads that poll instead of sleeping: fewer than there are cores, so that other threads can run.
#[derive(Debug)]
pub(crate) struct Spinners {
    now: AtomicUsize,
    most: usize,
}

impl Spinners {
    fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self { now: AtomicUsize::new(0), most: cores.saturating_sub(1).max(1) }
    }

    /// Whether one more thread may poll; it must then call [`end`](Self::end).
    pub fn begin(&self) -> bool {
        let is_admitted = self.now.fetch_add(1, Ordering::Relaxed) < self.most;
        if !is_admitted {
            self.end();
        }
        is_admitted
    }

    /// A thread has stopped polling.
    pub fn end(&self) {
        self.now.fetch_sub(1, Ordering::Relaxed);
    }
}

impl ServerState {
    pub fn new(
        config: Config,
        db: Database,
        audit: Arc<AuditLog>,
        logins: Arc<Logins>,
        encryption: Option<Encryption>,
        epoch: u64,
        producers: ProducerIds,
    ) -> Self {
        Self {
            access: config.limits.access(),
            config,
            db,
            producers,
            metrics: Metrics::default(),
            traffic: Arc::default(),
            audit,
            logins,
            encryption,
            quotas: Arc::default(),
            epoch,
            fanouts: Fanouts::default(),
            handshakes: Arc::default(),
            spinners: Spinners::new(),
            stopping: AtomicBool::new(false),
            log_limit: LogLimit::default(),
            started: Instant::now(),
            rewrite_numbers: RewriteNumbers::default(),
            query_engine: OnceLock::new(),
            components: Mutex::default(),
            open: Mutex::default(),
            ended: Condvar::new(),
            next_id: AtomicU64::new(1),
        }
    }

    /// Adds a component that runs beside the server.
    pub fn add_component(&self, component: Arc<dyn Component>) {
        self.components.lock().unwrap_or_else(PoisonError::into_inner).push(component);
    }

    /// The components.
    pub fn components(&self) -> Vec<Arc<dyn Component>> {
        self.components.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Registers a connection; `None` when the limit is reached.
    pub fn register(
        &self,
        peer: Peer,
        send_buffer: SendBuffer,
        waker: Waker,
    ) -> Option<Arc<ConnectionHandle>> {
        let mut open = self.open();
        if open.len() >= self.config.limits.connections_max {
            return None;
        }
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let handle = Arc::new(ConnectionHandle::new(id, peer, send_buffer, waker));
        open.insert(id, handle.clone());
        Some(handle)
    }

    /// Removes a connection.
    pub fn remove(&self, handle: &ConnectionHandle) {
        self.open().remove(&handle.id);
        self.metrics.bytes_sent.add(handle.send_buffer.written());
        self.metrics.bytes_received.add(handle.received.load(Ordering::Relaxed));
        self.ended.notify_all();
    }

    /// Wakes the threads of all connections.
    pub fn wake_all(&self) {
        self.open().values().for_each(|handle| handle.wake());
    }

    /// Ends all connections, and waits for them up to `grace`; returns how many have not ended.
    pub fn stop(&self, grace: Duration) -> usize {
        self.stopping.store(true, Ordering::Release);
        let open = self.open();
        open.values().for_each(|handle| handle.wake());
        let some_left = |open: &mut BTreeMap<u64, Arc<ConnectionHandle>>| !open.is_empty();
        let waited = self.ended.wait_timeout_while(open, grace, some_left);
        waited.unwrap_or_else(PoisonError::into_inner).0.len()
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Number of open connections.
    pub fn connections(&self) -> usize {
        self.open().len()
    }

    /// Writes an audit entry about a connection.
    pub fn audit(&self, handle: &ConnectionHandle, event: &str, stream: &str, what: &str) {
        let address = handle.peer.to_string();
        self.write_audit(AuditEntry { event, user: handle.user(), address: &address, stream, what });
    }

    /// Writes an audit entry.
    pub fn write_audit(&self, entry: AuditEntry<'_>) {
        self.audit.write(now(), entry);
    }

    /// Logs a failed connection, unless the log limit is reached.
    pub fn warn(&self, kind: FailureKind, peer: Peer, why: &str) {
        if let Some(held_back) = self.log_limit.admits(kind, Instant::now()) {
            tracing::warn!(%peer, held_back, "{why}");
        }
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<ConnectionHandle>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connections, the oldest first.
    pub fn handles(&self) -> Vec<Arc<ConnectionHandle>> {
        self.open().values().cloned().collect()
    }

    /// Problems of maintenance, by stream, of components, and of the disk.
    pub fn problems(&self) -> Result<BTreeMap<String, String>, tapedb_engine::Error> {
        let mut problems = self.maintenance_failures()?;
        problems.extend(self.component_problems());
        problems.extend(disk_problem(&self.config.database).map(|why| ("disk".to_string(), why)));
        Ok(problems)
    }

    /// Problems of components.
    pub fn component_problems(&self) -> Vec<(String, String)> {
        self.components().iter().flat_map(|component| component.problems()).collect()
    }

    /// The condition, in a word: `ok`, `degraded` (it serves, but needs attention), `stopping` or `failed`.
    pub fn condition(&self, found: &Result<BTreeMap<String, String>, tapedb_engine::Error>) -> &'static str {
        match found {
            _ if self.is_stopping() => "stopping",
            Ok(problems) if problems.is_empty() => "ok",
            Ok(_) => "degraded",
            Err(_) => "failed",
        }
    }

    /// Failures of maintenance, by stream.
    fn maintenance_failures(&self) -> Result<BTreeMap<String, String>, tapedb_engine::Error> {
        let mut failures = BTreeMap::new();
        for name in self.db.streams()? {
            match self.db.stream(&name) {
                Ok(stream) => failures.extend(stream.maintenance_failure().map(|failure| (name, failure))),
                Err(tapedb_engine::Error::NotFound(tapedb_engine::NotFound::Stream { .. })) => {}
                Err(error) => drop(failures.insert(name, error.to_string())),
            }
        }
        Ok(failures)
    }
}

/// The system's time, for logs.
fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(since.as_nanos().try_into().unwrap_or(i64::MAX))
}
