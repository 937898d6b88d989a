//! What all connections of a server share.

use crate::account::Accounts;
use crate::audit::{Audit, Entry};
use crate::companion::Companion;
use crate::config::Config;
use crate::flows::{Flows, Traffic};
use crate::handshakes::Handshakes;
use crate::http::Pages;
use crate::login::Logins;
use crate::look::{Look, Sees};
use crate::metrics::{Metrics, Page};
use crate::noise::{Kind, Noise};
use crate::outbox::Outbox;
use crate::process::Process;
use crate::producers::ProducerIds;
use crate::rewrites::Owners;
use crate::socket::Peer;
use crate::watch::Watch;
use mio::Waker;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tapedb_engine::Database;
use tapedb_schema::Timestamp;

/// The server, for its connections.
#[derive(Debug)]
pub(crate) struct Shared {
    pub config: Config,
    pub db: Database,
    pub metrics: Metrics,
    pub flows: Arc<Flows>,
    pub audit: Audit,
    pub logins: Arc<Logins>,
    pub accounts: Accounts,
    /// Random at each start: files and watches of another epoch are gone.
    pub epoch: u64,
    pub producers: ProducerIds,
    /// Connections that have not said who they are.
    pub handshakes: Arc<Handshakes>,
    /// Connections whose threads spin, and how many may.
    pub spinners: Spinners,
    /// The server is ending: connections end too.
    pub stopping: AtomicBool,
    pub noise: Noise,
    pub started: Instant,
    /// Whose the rewrites are.
    pub owners: Owners,
    companions: Mutex<Vec<Arc<dyn Companion>>>,
    open: Mutex<BTreeMap<u64, Arc<Handle>>>,
    /// Rings when a connection has ended.
    ended: Condvar,
    next_id: AtomicU64,
}

/// Threads that wait without sleeping: fewer than there are cores, so that others get along.
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

    /// Whether one more may spin, who then says when it has ended.
    pub fn begin(&self) -> bool {
        let is_admitted = self.now.fetch_add(1, Ordering::Relaxed) < self.most;
        if !is_admitted {
            self.end();
        }
        is_admitted
    }

    /// One has ended.
    pub fn end(&self) {
        self.now.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A connection, seen from outside.
#[derive(Debug)]
pub(crate) struct Handle {
    pub id: u64,
    pub peer: Peer,
    pub outbox: Outbox,
    /// Wakes the connection's thread.
    pub waker: Waker,
    pub user: OnceLock<String>,
    /// What the client calls itself.
    pub program: OnceLock<String>,
    pub since: Instant,
    pub received: AtomicU64,
    /// What its flows have counted that have ended.
    pub ended: Mutex<Traffic>,
    pub watches: Mutex<Vec<Weak<Watch>>>,
    /// Whether one of the watches has something to do for the connection's thread.
    pub has_due: AtomicBool,
    /// Whether a burst will flush the outbox.
    pub in_burst: AtomicBool,
}

impl Handle {
    /// The user's name, once it is known.
    pub fn user(&self) -> &str {
        self.user.get().map_or("", String::as_str)
    }

    /// Wakes the connection's thread. When that fails, the thread looks up at its next heartbeat.
    pub fn wake(&self) {
        let _ = self.waker.wake();
    }

    /// Sends the parts; what does not fit the socket now is written by the connection's thread.
    pub fn send(&self, parts: &[&[u8]]) {
        if self.outbox.send(parts) {
            self.wake();
        }
    }

    /// What its flows have counted that have ended.
    pub fn ended(&self) -> Traffic {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its live cursors.
    pub fn watches(&self) -> Vec<Arc<Watch>> {
        let mut watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        watches.retain(|watch| watch.strong_count() > 0);
        watches.iter().filter_map(Weak::upgrade).collect()
    }
}

impl Shared {
    pub fn new(
        config: Config,
        db: Database,
        audit: Audit,
        logins: Arc<Logins>,
        epoch: u64,
        producers: ProducerIds,
    ) -> Self {
        Self {
            config,
            db,
            producers,
            metrics: Metrics::default(),
            flows: Arc::default(),
            audit,
            logins,
            accounts: Accounts::default(),
            epoch,
            handshakes: Arc::default(),
            spinners: Spinners::new(),
            stopping: AtomicBool::new(false),
            noise: Noise::default(),
            started: Instant::now(),
            owners: Owners::default(),
            companions: Mutex::default(),
            open: Mutex::default(),
            ended: Condvar::new(),
            next_id: AtomicU64::new(1),
        }
    }

    /// Shows what runs beside the server.
    pub fn accompany(&self, companion: Arc<dyn Companion>) {
        self.companions.lock().unwrap_or_else(PoisonError::into_inner).push(companion);
    }

    fn companions(&self) -> Vec<Arc<dyn Companion>> {
        self.companions.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Makes a connection known; `None` when there are as many as there may be.
    pub fn join(&self, peer: Peer, outbox: Outbox, waker: Waker) -> Option<Arc<Handle>> {
        let mut open = self.open();
        if open.len() >= self.config.limits.connections_max {
            return None;
        }
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let handle = Arc::new(Handle {
            id,
            peer,
            outbox,
            waker,
            user: OnceLock::new(),
            program: OnceLock::new(),
            since: Instant::now(),
            received: AtomicU64::new(0),
            ended: Mutex::default(),
            watches: Mutex::default(),
            has_due: AtomicBool::new(false),
            in_burst: AtomicBool::new(false),
        });
        open.insert(id, handle.clone());
        Some(handle)
    }

    /// Forgets a connection.
    pub fn leave(&self, handle: &Handle) {
        self.open().remove(&handle.id);
        self.metrics.bytes_sent.add(handle.outbox.written());
        self.metrics.bytes_received.add(handle.received.load(Ordering::Relaxed));
        self.ended.notify_all();
    }

    /// Has every connection look whether there is something for it to do.
    pub fn wake_all(&self) {
        self.open().values().for_each(|handle| handle.wake());
    }

    /// Tells all connections to end, and waits for them so long; how many have not ended.
    pub fn stop(&self, grace: Duration) -> usize {
        self.stopping.store(true, Ordering::Release);
        let open = self.open();
        open.values().for_each(|handle| handle.wake());
        let some_left = |open: &mut BTreeMap<u64, Arc<Handle>>| !open.is_empty();
        let waited = self.ended.wait_timeout_while(open, grace, some_left);
        waited.unwrap_or_else(PoisonError::into_inner).0.len()
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// How many connections there are.
    pub fn connections(&self) -> usize {
        self.open().len()
    }

    /// Writes an entry of the audit log about a connection.
    pub fn audit(&self, handle: &Handle, event: &str, stream: &str, what: &str) {
        let address = handle.peer.to_string();
        self.audit.write(now(), Entry { event, user: handle.user(), address: &address, stream, what });
    }

    /// Tells the log that a connection failed, unless it has been told of too many.
    pub fn warn(&self, kind: Kind, peer: Peer, why: &str) {
        if let Some(held_back) = self.noise.admits(kind, Instant::now()) {
            tracing::warn!(%peer, held_back, "{why}");
        }
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Handle>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connections, the oldest first.
    pub fn handles(&self) -> Vec<Arc<Handle>> {
        self.open().values().cloned().collect()
    }

    /// What upkeep complains of, by stream, and what runs beside the server.
    pub fn problems(&self) -> Result<BTreeMap<String, String>, tapedb_engine::Error> {
        let mut problems = self.maintenance_failures()?;
        problems.extend(self.problems_beside());
        Ok(problems)
    }

    /// What those complain of that run beside the server.
    pub fn problems_beside(&self) -> Vec<(String, String)> {
        self.companions().iter().flat_map(|companion| companion.problems()).collect()
    }

    /// How it is, in a word: `ok`, `degraded` (it serves, but somebody should look), `stopping` or `failed`.
    pub fn condition(&self, found: &Result<BTreeMap<String, String>, tapedb_engine::Error>) -> &'static str {
        match found {
            _ if self.is_stopping() => "stopping",
            Ok(problems) if problems.is_empty() => "ok",
            Ok(_) => "degraded",
            Err(_) => "failed",
        }
    }

    /// What upkeep complains of, by stream.
    fn maintenance_failures(&self) -> Result<BTreeMap<String, String>, tapedb_engine::Error> {
        let mut failures = BTreeMap::new();
        for name in self.db.streams()? {
            match self.db.stream(&name) {
                Ok(stream) => failures.extend(stream.maintenance_failure().map(|failure| (name, failure))),
                Err(tapedb_engine::Error::NoStream { .. }) => {}
                Err(error) => drop(failures.insert(name, error.to_string())),
            }
        }
        Ok(failures)
    }
}

/// The clock on the wall, for logs.
fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(since.as_nanos().try_into().unwrap_or(i64::MAX))
}

/// What `/health` says.
#[derive(Serialize)]
struct Health {
    /// See [`Shared::condition`].
    status: &'static str,
    version: &'static str,
    uptime_seconds: u64,
    connections: usize,
    problems: BTreeMap<String, String>,
}

impl Pages for Shared {
    fn health(&self) -> (bool, String) {
        let found = self.problems();
        let status = self.condition(&found);
        let problems = found.unwrap_or_else(|error| [("database".to_string(), error.to_string())].into());
        let health = Health {
            status,
            version: env!("CARGO_PKG_VERSION"),
            uptime_seconds: self.started.elapsed().as_secs(),
            connections: self.connections(),
            problems,
        };
        let text = serde_json::to_string(&health).unwrap_or_default();
        (matches!(status, "ok" | "degraded"), text + "\n")
    }

    fn status(&self) -> String {
        Self::status(self, &Sees::ALL)
    }

    fn metrics(&self) -> String {
        let mut page = Page::default();
        self.metrics.write(&mut page);
        self.metrics.write_latencies(&mut page);
        Look::at(self, &Sees::ALL).write(&mut page);
        page.gauge("uptime_seconds", "Since the server began.", self.started.elapsed().as_secs());
        let help =
            "Blocks that did not come back as they were made, and were written plainly or left as they were.";
        page.counter("seal_mismatches", help, tapedb_engine::seal_mismatches());
        Process::look(&self.config.database).write(&mut page);
        self.companions().iter().for_each(|companion| companion.metrics(&mut page));
        page.into_text()
    }
}
