//! The server: it accepts clients, and ends their replays when it stops.
//!
//! Always true: `clients` has exactly the connections whose threads run, at most [`CONNECTIONS_MAX`].

use crate::connection;
use crate::wire::Wire;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tapedb_engine::{Database, Stream};
use tapedb_replay::{Control, Speed};

/// Most connections, those that are refused included: beyond, connections wait to be accepted.
const CONNECTIONS_MAX: usize = 256;
/// Time between two looks for a new client.
const LOOK: Duration = Duration::from_millis(10);

/// Is called when a connection has ended.
pub type Observer = Arc<dyn Fn(&Ended) + Send + Sync>;

/// How clients are served.
#[derive(Clone)]
pub struct ServerOptions {
    /// The speed of replays whose clients state none.
    pub speed: Speed,
    /// Most replays at a time, at most 255; further clients are refused.
    pub clients_max: usize,
    /// Names of this machine that clients may use, beside its addresses and `localhost`.
    pub hosts: Vec<String>,
    /// Is called when a connection has ended.
    pub observer: Option<Observer>,
}

impl Default for ServerOptions {
    /// Full speed, 32 clients.
    fn default() -> Self {
        Self { speed: Speed::Max, clients_max: 32, hosts: Vec::new(), observer: None }
    }
}

impl fmt::Debug for ServerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerOptions")
            .field("speed", &self.speed)
            .field("clients_max", &self.clients_max)
            .field("hosts", &self.hosts)
            .finish_non_exhaustive()
    }
}

/// A connection that has ended.
#[derive(Debug, Clone)]
pub struct Ended {
    /// The client's address.
    pub peer: SocketAddr,
    /// Messages that were sent.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How long it was connected.
    pub seconds: f64,
    /// Why it ended before its time.
    pub error: Option<String>,
}

/// Replays streams to WebSocket clients until it is stopped or dropped.
#[derive(Debug)]
pub struct ReplayServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) db: Database,
    pub(crate) streams: Vec<Stream>,
    pub(crate) options: ServerOptions,
    is_stopping: AtomicBool,
    clients: Mutex<HashMap<u64, (Control, Arc<Wire>)>>,
}

impl ReplayServer {
    /// Serves `streams` of `db` on a listener. Every client that can reach it can read them: it is meant for this machine.
    ///
    /// # Errors
    /// The system's, when the listener or a thread does not work.
    pub fn start(
        db: &Database,
        streams: Vec<Stream>,
        listener: TcpListener,
        options: ServerOptions,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let (is_stopping, clients) = (AtomicBool::new(false), Mutex::default());
        let shared = Arc::new(Shared { db: db.clone(), streams, options, is_stopping, clients });
        let of_thread = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("replay-socket".into())
            .spawn(move || accept(&listener, &of_thread))?;
        Ok(Self { address, shared, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connections now.
    pub fn clients(&self) -> usize {
        self.shared.clients().len()
    }

    /// Ends all replays, each with a close frame, and returns when all are ended.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.shared.is_stopping.store(true, Ordering::Release);
        for (control, wire) in self.shared.clients().values() {
            wire.hurry();
            control.stop_now();
        }
        if let Some(thread) = self.thread.take() {
            // It fails only with a defect of ours, which has printed its message.
            let _ = thread.join();
        }
    }
}

impl Drop for ReplayServer {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    /// Whether one more replay may begin: the connection that asks is counted already.
    pub(crate) fn has_space(&self) -> bool {
        self.clients().len() <= self.options.clients_max
    }

    fn clients(&self) -> MutexGuard<'_, HashMap<u64, (Control, Arc<Wire>)>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Accepts clients until the server stops, and waits for their threads.
fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    let mut threads: Vec<JoinHandle<()>> = Vec::new();
    let mut number = 0;
    while !shared.is_stopping.load(Ordering::Acquire) {
        threads.retain(|thread| !thread.is_finished());
        let accepted = if threads.len() < CONNECTIONS_MAX { listener.accept().ok() } else { None };
        let Some((socket, peer)) = accepted else {
            thread::sleep(LOOK);
            continue;
        };
        number += 1;
        if let Ok(thread) = begin(socket, peer, number, shared) {
            threads.push(thread);
        }
    }
    for thread in threads {
        let _ = thread.join();
    }
}

fn begin(
    socket: TcpStream,
    peer: SocketAddr,
    number: u64,
    shared: &Arc<Shared>,
) -> io::Result<JoinHandle<()>> {
    // Some systems let it inherit this from the listener.
    socket.set_nonblocking(false)?;
    let (control, wire) = (Control::default(), Arc::new(Wire::new(&socket)?));
    shared.clients().insert(number, (control.clone(), Arc::clone(&wire)));
    let of_thread = Arc::clone(shared);
    let spawned = thread::Builder::new().name("replay-client".into()).spawn(move || {
        let client = Client { number, shared: of_thread };
        let shared = &client.shared;
        // The server may have begun to stop before this connection was in its list.
        if shared.is_stopping.load(Ordering::Acquire) {
            wire.hurry();
            control.stop_now();
        }
        let ended = connection::serve(socket, peer, shared, &control, &wire);
        if let Some(observer) = &shared.options.observer {
            observer(&ended);
        }
    });
    if spawned.is_err() {
        shared.clients().remove(&number);
    }
    spawned
}

/// Takes a connection from the list, also when its thread panics.
struct Client {
    number: u64,
    shared: Arc<Shared>,
}

impl Drop for Client {
    fn drop(&mut self) {
        self.shared.clients().remove(&self.number);
    }
}
