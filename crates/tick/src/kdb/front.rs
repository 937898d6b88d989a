//! Clients of kdb+ on a plant and an RDB: existing feed handlers and subscribers connect unchanged.
//!
//! Each connection has a thread that reads and answers, and one that writes what waits in its outbox. Updates come from the `publisher`,
//! which follows the plant's streams and shares the `hub` with all `subscriber`s; what clients may ask is what `ask` understands,
//! and nothing is evaluated.

mod answer;
mod ask;
mod budget;
mod catch_up;
mod connection;
mod hub;
mod journal;
mod outbox;
mod publisher;
mod subscriber;
mod update;

pub use subscriber::Slow;

use crate::error::{TickError, asked};
use crate::plan::Plan;
use crate::plant::Plant;
use crate::rdb::Rdb;
use budget::Budget;
use hub::Hub;
use std::fmt;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tapedb_kdb_ipc::Limits;

/// Pause after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(50);

/// Who may come in.
pub trait Access: Send + Sync {
    /// What one who says that he is `user` may do; `None`: he may not come in.
    fn enter(&self, user: &str, password: &str, peer: SocketAddr) -> Option<Arc<dyn Rights>>;
}

/// What one who came in may do, with streams by their names (`PLANT/TABLE`).
pub trait Rights: Send + Sync {
    /// Subscribe to it and ask for its rows.
    fn may_read(&self, stream: &str) -> bool;
    /// Send updates to it.
    fn may_write(&self, stream: &str) -> bool;
    /// End the days of a plant.
    fn may_end_days(&self, plant: &str) -> bool;
}

/// Everybody comes in and may do everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct Everyone;

impl Access for Everyone {
    fn enter(&self, _: &str, _: &str, _: SocketAddr) -> Option<Arc<dyn Rights>> {
        Some(Arc::new(Self))
    }
}

impl Rights for Everyone {
    fn may_read(&self, _: &str) -> bool {
        true
    }

    fn may_write(&self, _: &str) -> bool {
        true
    }

    fn may_end_days(&self, _: &str) -> bool {
        true
    }
}

/// What clients find behind the address.
#[derive(Debug, Clone)]
pub struct Served {
    plan: Plan,
    publishes: bool,
    plant: Option<Arc<Plant>>,
    rdb: Option<Arc<Rdb>>,
}

impl Served {
    /// A plant: clients subscribe and send updates.
    pub fn plant(plant: Arc<Plant>) -> Self {
        Self { plan: plant.plan().clone(), publishes: true, plant: Some(plant), rdb: None }
    }

    /// A plant that is elsewhere, published again here: clients subscribe.
    pub fn chained(plan: Plan) -> Self {
        Self { plan, publishes: true, plant: None, rdb: None }
    }

    /// An RDB: clients ask.
    pub fn rdb(plan: Plan, rdb: Arc<Rdb>) -> Self {
        Self { plan, publishes: false, plant: None, rdb: Some(rdb) }
    }

    /// The same with an RDB beside the plant.
    pub fn with_rdb(self, rdb: Arc<Rdb>) -> Self {
        Self { rdb: Some(rdb), ..self }
    }

    fn plan(&self) -> &Plan {
        &self.plan
    }
}

/// Measures a front.
pub trait FrontProbe: Send + Sync {
    /// Updates of clients that came together, of so many rows in all, have been decoded, checked and logged.
    fn logged(&self, rows: usize, took: Duration);
    /// Rows have been encoded and given to all subscribers.
    fn published(&self, rows: usize, took: Duration);
}

/// What is chosen for a front.
#[derive(Clone)]
pub struct FrontOptions {
    /// Where it listens; port 0: any that is free.
    pub listen: SocketAddr,
    /// Folder for logs that kdb+ can replay, one each day; `None`: none is written, and clients are told of no count.
    pub log_folder: Option<PathBuf>,
    /// Who may come in.
    pub access: Arc<dyn Access>,
    /// What one message may be.
    pub limits: Limits,
    /// Connections at once; further ones are closed.
    pub connections_max: usize,
    /// How long a client may take to say who it is.
    pub greeting_timeout: Duration,
    /// How long a message may take that has begun to arrive.
    pub message_timeout: Duration,
    /// Bytes that may wait to be sent to one client before it counts as slow.
    pub waiting_bytes_max: usize,
    /// Bytes that may wait to be sent to all clients together; beyond, the client for which most waits is cut off.
    pub all_waiting_bytes_max: usize,
    /// What is done with slow subscribers that say nothing else of themselves.
    pub slow: Slow,
    /// Is told how long updates take.
    pub probe: Option<Arc<dyn FrontProbe>>,
}

impl FrontOptions {
    /// At an address; everybody may come in, 256 at once; 64 MiB may wait for each and 1 GiB for all; no logs.
    pub fn at(listen: SocketAddr) -> Self {
        Self {
            listen,
            log_folder: None,
            access: Arc::new(Everyone),
            limits: Limits::default(),
            connections_max: 256,
            greeting_timeout: Duration::from_secs(5),
            message_timeout: Duration::from_secs(60),
            waiting_bytes_max: 64 << 20,
            all_waiting_bytes_max: 1 << 30,
            slow: Slow::default(),
            probe: None,
        }
    }
}

impl fmt::Debug for FrontOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrontOptions").field("listen", &self.listen).finish_non_exhaustive()
    }
}

/// How a front is doing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FrontStatus {
    /// Connections now.
    pub connections: usize,
    /// Connections that were closed because there were too many, or their client did not come in.
    pub refused: u64,
    /// Connections that were ended for what came over them.
    pub hostile: u64,
    /// Requests that were answered with an error, and asynchronous messages that came to nothing.
    pub errors: u64,
    /// The last such error.
    pub last_error: Option<String>,
    /// Updates published.
    pub published: u64,
    /// Subscribers that were disconnected for being slow.
    pub slow_disconnected: u64,
    /// How often a slow subscriber began to read for itself.
    pub slow_replayed: u64,
    /// Rows that slow subscribers were not sent because later ones of their symbols were there.
    pub slow_conflated_rows: u64,
    /// Bytes that wait to be sent, to all clients.
    pub waiting_bytes: u64,
    /// Clients that were cut off because too much waited for all together, and most for them.
    pub cut_off: u64,
    /// What keeps it from publishing; it goes on trying.
    pub failure: Option<String>,
}

/// A running front. It ends when it is dropped, with all its connections.
#[derive(Debug)]
pub struct Front {
    shared: Arc<Shared>,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

/// What all connections share.
#[derive(Debug)]
struct Shared {
    served: Served,
    options: FrontOptions,
    hub: Option<Hub>,
    budget: Arc<Budget>,
    is_stopping: AtomicBool,
    connections: AtomicUsize,
    last_id: AtomicU64,
    refused: AtomicU64,
    hostile: AtomicU64,
    errors: AtomicU64,
    last_error: Mutex<Option<String>>,
}

impl Front {
    /// Begins to listen. Subscribers of a plant get what comes from now on; with a folder for logs, its count is that of the
    /// day's log, which is brought up to date first.
    ///
    /// # Errors
    /// When the address cannot be listened at, or the plant's streams or the log cannot be opened.
    pub fn start(served: Served, options: FrontOptions) -> Result<Self, TickError> {
        let listener = TcpListener::bind(options.listen).and_then(|listener| {
            let address = listener.local_addr()?;
            Ok((listener, address))
        });
        let (listener, address) = match listener {
            Ok(bound) => bound,
            Err(error) => {
                return asked(format!("cannot listen at {}: {error}; name another address", options.listen));
            }
        };
        let publishes = served.publishes && !served.plan.tables().is_empty();
        let hub = match publishes {
            true => Some(Hub::start(served.plan.clone(), &options)?),
            false => None,
        };
        let shared = Arc::new(Shared {
            budget: Budget::new(options.all_waiting_bytes_max),
            served,
            options,
            hub,
            is_stopping: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
            last_id: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            hostile: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            last_error: Mutex::default(),
        });
        let listening = shared.clone();
        match std::thread::Builder::new().name("kdb-accept".into()).spawn(move || listening.accept(&listener))
        {
            Ok(thread) => Ok(Self { shared, address, thread: Some(thread) }),
            Err(error) => asked(format!("cannot begin a thread: {error}; try again")),
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How it is doing.
    pub fn status(&self) -> FrontStatus {
        let shared = &self.shared;
        let mut status = FrontStatus {
            connections: shared.connections.load(Ordering::SeqCst),
            refused: shared.refused.load(Ordering::Relaxed),
            hostile: shared.hostile.load(Ordering::Relaxed),
            errors: shared.errors.load(Ordering::Relaxed),
            last_error: shared.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            waiting_bytes: shared.budget.bytes() as u64,
            cut_off: shared.budget.cut_off(),
            ..FrontStatus::default()
        };
        if let Some(hub) = shared.hub.as_ref().map(Hub::shared) {
            status.published = hub.counters.published.load(Ordering::Relaxed);
            status.slow_disconnected = hub.counters.disconnected.load(Ordering::Relaxed);
            status.slow_replayed = hub.counters.replayed.load(Ordering::Relaxed);
            status.slow_conflated_rows = hub.counters.conflated_rows.load(Ordering::Relaxed);
            status.failure = hub.failure();
        }
        status
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.shared.is_stopping.store(true, Ordering::SeqCst);
        // Whoever waits for a connection gets one.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        while self.shared.connections.load(Ordering::SeqCst) > 0 {
            std::thread::sleep(PAUSE / 10);
        }
    }
}

impl Shared {
    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        while !self.is_stopping() {
            match listener.accept() {
                Ok((socket, peer)) => self.take(socket, peer),
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }

    fn take(self: &Arc<Self>, socket: TcpStream, peer: SocketAddr) {
        if self.is_stopping() || self.connections.load(Ordering::SeqCst) >= self.options.connections_max {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.connections.fetch_add(1, Ordering::SeqCst);
        let shared = self.clone();
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let serve = move || {
            let _leaving = Leaving(&shared.connections);
            connection::serve(&shared, &socket, peer, id);
        };
        if std::thread::Builder::new().name("kdb-client".into()).spawn(serve).is_err() {
            // What was moved into the thread is gone, and with it the guard was never made.
            self.connections.fetch_sub(1, Ordering::SeqCst);
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::SeqCst)
    }

    fn hub(&self) -> Option<&Arc<hub::Shared>> {
        self.hub.as_ref().map(Hub::shared)
    }

    fn note_error(&self, error: &str) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.into());
    }
}

/// Counts a connection out, however it ends.
struct Leaving<'a>(&'a AtomicUsize);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
