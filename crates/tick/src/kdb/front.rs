//! kdb+ clients on a plant and an RDB: existing feed handlers and subscribers connect unchanged.
//!
//! Each connection has a thread that reads and answers, and one that writes the messages of its outbox. Updates come from the
//! `publisher`, which follows the plant's streams and shares the `hub` with all `subscriber`s. Clients may send the forms that
//! `ask` parses; nothing is evaluated.

mod access;
mod answer;
mod ask;
mod budget;
mod catch_up;
mod connection;
mod counters;
mod filter;
mod hub;
mod journal;
mod options;
mod outbox;
mod publisher;
mod served;
mod state;
mod subscriber;
mod update;

pub use access::{Access, Everyone, Rights};
pub use options::{FrontOptions, FrontProbe};
pub use served::Served;
pub use subscriber::Slow;

use crate::error::{TickError, asked};
use budget::Budget;
use publisher::PublisherThread;
use state::FrontState;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Pause after a connection could not be accepted.
const PAUSE: Duration = Duration::from_millis(50);

/// A snapshot of a front.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FrontStatus {
    /// Connections now.
    pub connections: usize,
    /// Connections that were closed because there were too many, or their client was not authenticated.
    pub refused: u64,
    /// Connections that were closed because of invalid messages.
    pub hostile: u64,
    /// Requests that were answered with an error, and asynchronous messages that failed.
    pub errors: u64,
    /// The last such error.
    pub last_error: Option<String>,
    /// Updates published.
    pub published: u64,
    /// Subscribers that were disconnected for being slow.
    pub slow_disconnected: u64,
    /// How often a slow subscriber fell behind and read the streams.
    pub slow_replayed: u64,
    /// Rows that slow subscribers were not sent because there were later ones of their symbols.
    pub slow_conflated_rows: u64,
    /// Bytes that wait to be sent, to all clients.
    pub waiting_bytes: u64,
    /// Connections that were closed because too many bytes waited for all together, and most for them.
    pub cut_off: u64,
    /// Why it cannot publish; it retries.
    pub failure: Option<String>,
}

/// A running front. It ends when it is dropped, with all its connections.
#[derive(Debug)]
pub struct Front {
    state: Arc<FrontState>,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

impl Front {
    /// Starts to listen. Subscribers of a plant get rows from now on; with a folder for logs, its count is that of the day's
    /// log, which is brought up to date first.
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
        let publishes = served.publishes && !served.plan().tables().is_empty();
        let publisher = match publishes {
            true => Some(PublisherThread::start(served.plan().clone(), &options)?),
            false => None,
        };
        let state = Arc::new(FrontState {
            budget: Budget::new(options.all_waiting_bytes_max),
            served,
            options,
            publisher,
            is_stopping: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
            last_id: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            hostile: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            last_error: Mutex::default(),
        });
        let listening = state.clone();
        match std::thread::Builder::new().name("kdb-accept".into()).spawn(move || listening.accept(&listener))
        {
            Ok(thread) => Ok(Self { state, address, thread: Some(thread) }),
            Err(error) => asked(format!("cannot start a thread: {error}; try again")),
        }
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A snapshot of it.
    pub fn status(&self) -> FrontStatus {
        let state = &self.state;
        let mut status = FrontStatus {
            connections: state.connections.load(Ordering::SeqCst),
            refused: state.refused.load(Ordering::Relaxed),
            hostile: state.hostile.load(Ordering::Relaxed),
            errors: state.errors.load(Ordering::Relaxed),
            last_error: state.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            waiting_bytes: state.budget.bytes() as u64,
            cut_off: state.budget.cut_off(),
            ..FrontStatus::default()
        };
        if let Some(hub) = state.hub() {
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
        self.state.is_stopping.store(true, Ordering::SeqCst);
        // Ends the accepting thread's wait.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        while self.state.connections.load(Ordering::SeqCst) > 0 {
            std::thread::sleep(PAUSE / 10);
        }
    }
}

impl FrontState {
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
        let state = self.clone();
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let serve = move || {
            let _leaving = Leaving(&state.connections);
            connection::serve(&state, &socket, peer, id);
        };
        if std::thread::Builder::new().name("kdb-client".into()).spawn(serve).is_err() {
            // The guard was never made.
            self.connections.fetch_sub(1, Ordering::SeqCst);
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Counts a connection as closed when it is dropped.
struct Leaving<'a>(&'a AtomicUsize);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}
