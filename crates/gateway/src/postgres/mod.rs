//! The protocol of PostgreSQL, version 3, with a thread for each connection: queries block, and what a connection may use is bounded by
//! the limits of its user.
//!
//! Always true: a client without a user gets nothing run; a message is never longer than its limit; one connection runs one query at a
//! time, and stops it when the client is gone, cancels, or the server stops.

mod array;
mod backend;
mod catalog;
mod cells;
mod copy;
mod copy_in;
mod copy_rows;
mod failure;
mod handshake;
mod json;
mod loaded;
mod numeric;
mod output;
mod parameter;
mod registry;
mod run;
mod session;
mod settings;
mod socket;
mod source;
mod statement;
mod times;
mod types;

pub use crate::postgres::backend::Options;

use crate::postgres::backend::Backend;
use crate::postgres::registry::{Most, Registry};
use crate::postgres::socket::Socket;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tapedb_access::random;

/// Pause when the system has no more files or memory for connections.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(50);

/// Serves clients of PostgreSQL. It ends when it is [shut down](Postgres::shutdown) or dropped.
pub struct Postgres {
    backend: Arc<Backend>,
    address: SocketAddr,
    acceptor: Option<JoinHandle<()>>,
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Postgres {
    /// Listens.
    ///
    /// # Errors
    /// When the address cannot be listened on, or a thread cannot be started.
    pub fn start(options: Options) -> io::Result<Self> {
        let listener = TcpListener::bind(options.address)?;
        let address = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("tape-pg-catalog")
            .enable_time()
            .build()?;
        let backend = Arc::new(Backend {
            options,
            registry: Registry::default(),
            statements: AtomicU64::new(0),
            runtime,
        });
        let accept = {
            let backend = backend.clone();
            move || accept(&listener, &backend)
        };
        let acceptor = thread::Builder::new().name("tape-pg-accept".into()).spawn(accept)?;
        Ok(Self { backend, address, acceptor: Some(acceptor) })
    }

    /// The address, with the port that was assigned.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Open connections.
    pub fn connections(&self) -> usize {
        self.backend.registry.count()
    }

    /// Statements that were begun.
    pub fn statements(&self) -> u64 {
        self.backend.statements.load(Ordering::Relaxed)
    }

    /// Stops accepting connections, tells the open ones, and waits for them. Returns how many were left behind.
    pub fn shutdown(mut self, grace: Duration) -> usize {
        self.stop(grace)
    }

    fn stop(&mut self, grace: Duration) -> usize {
        let Some(acceptor) = self.acceptor.take() else { return 0 };
        self.backend.registry.is_stopping.store(true, Ordering::Release);
        // Wakes the thread that accepts.
        let mut address = self.address;
        if address.ip().is_unspecified() {
            let loopback: std::net::IpAddr =
                if address.is_ipv4() { [127, 0, 0, 1].into() } else { std::net::Ipv6Addr::LOCALHOST.into() };
            address.set_ip(loopback);
        }
        if TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok() {
            let _ = acceptor.join();
        }
        self.backend.registry.stop(grace)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.stop(Duration::from_millis(500));
    }
}

fn accept(listener: &TcpListener, backend: &Arc<Backend>) {
    loop {
        let accepted = listener.accept();
        if backend.registry.is_stopping.load(Ordering::Acquire) {
            return;
        }
        match accepted {
            Ok((socket, _)) => begin(socket, backend),
            Err(error) => {
                tracing::debug!(%error, "a connection cannot be accepted");
                thread::sleep(SHORTAGE_PAUSE);
            }
        }
    }
}

/// Gives a connection a thread.
fn begin(tcp: TcpStream, backend: &Arc<Backend>) {
    let Options { connections_max, handshakes_max, handshakes_per_address_max, .. } = &backend.options;
    let most = Most {
        all: *connections_max,
        unauthenticated: *handshakes_max,
        unauthenticated_of_address: *handshakes_per_address_max,
    };
    let (Ok(secret), Ok(shared)) = (random::<4>(), tcp.try_clone()) else { return };
    let Some(entry) = backend.registry.open(shared, secret, most) else {
        refuse(&tcp);
        return;
    };
    let ours = backend.clone();
    let serve = {
        let entry = entry.clone();
        move || {
            // A defect ends one connection, not its place among those that count.
            let served = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                if let Ok(socket) = Socket::new(tcp) {
                    handshake::serve(socket, &ours, &entry);
                }
            }));
            ours.registry.close(&entry);
            if served.is_err() {
                tracing::error!("a connection of a client of PostgreSQL crashed");
            }
        }
    };
    if thread::Builder::new().name("tape-pg".into()).spawn(serve).is_err() {
        backend.registry.close(&entry);
    }
}

/// Refuses a connection, without waiting for what it sends.
fn refuse(tcp: &TcpStream) {
    use std::io::Write;
    let mut out = Vec::new();
    output::failure(
        &mut out,
        &failure::Failure::fatal("53300", "there are too many connections; try again later"),
    );
    let _ = tcp.set_nonblocking(true);
    let _ = (&*tcp).write(&out);
}
