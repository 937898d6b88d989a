//! Listens: HTTP/1.1 and lines over TCP, a thread for each connection.
//!
//! Always true: at most [`CONNECTIONS_MAX`] connections are open for each protocol. When the limit is reached, the connection over HTTP
//! that has waited longest for a request is closed; over TCP a new connection is refused.

use crate::http::LineGateway;
use crate::http_connection;
use crate::open::Open;
use crate::tcp_connection;
use rustls::ServerConfig;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Connections at once.
const CONNECTIONS_MAX: usize = 256;
/// Pause when the system has no more files or memory for connections.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(50);
/// How long a client is waited for that has sent half a request, when the server stops.
const LAST_PATIENCE: Duration = Duration::from_secs(1);
/// Time for connections to finish when the server is dropped.
const GRACE: Duration = Duration::from_secs(5);

/// Where a [`LineServer`] listens; `None`: not there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LineAddresses {
    /// HTTP.
    pub http: Option<SocketAddr>,
    /// Lines over TCP.
    pub tcp: Option<SocketAddr>,
}

/// A server of the line protocol. It ends when it is dropped: requests that have begun are finished within five seconds.
#[derive(Debug)]
pub struct LineServer {
    gateway: Arc<LineGateway>,
    addresses: LineAddresses,
    stop: Arc<AtomicBool>,
    open: Arc<Connections>,
    acceptors: Mutex<Vec<JoinHandle<()>>>,
}

/// Open connections.
#[derive(Debug, Default)]
pub(crate) struct Connections(Mutex<VecDeque<Arc<Open>>>);

impl LineServer {
    /// Listens.
    ///
    /// `tls`: every connection is encrypted.
    ///
    /// # Errors
    /// An address that cannot be listened on, with the error.
    pub fn start(
        gateway: LineGateway,
        addresses: LineAddresses,
        tls: Option<Arc<ServerConfig>>,
    ) -> Result<Self, (SocketAddr, io::Error)> {
        let gateway = Arc::new(gateway);
        // Clients over TCP never read: what they are sent, and close the connection without, resets it with the lines that are on the way.
        let tls = tls.map(|tls| {
            let mut tls = (*tls).clone();
            tls.send_tls13_tickets = 0;
            Arc::new(tls)
        });
        let (stop, open) = (Arc::new(AtomicBool::new(false)), Arc::new(Connections::default()));
        let mut server =
            Self { gateway, addresses: LineAddresses::default(), stop, open, acceptors: Mutex::default() };
        if let Some(address) = addresses.http {
            let listens = server.listen(address, true, tls.clone());
            server.addresses.http = Some(listens.map_err(|error| (address, error))?);
        }
        if let Some(address) = addresses.tcp {
            let listens = server.listen(address, false, tls);
            server.addresses.tcp = Some(listens.map_err(|error| (address, error))?);
        }
        Ok(server)
    }

    /// Where it listens, with the ports that were assigned.
    pub fn addresses(&self) -> LineAddresses {
        self.addresses
    }

    /// What answers the requests.
    pub fn gateway(&self) -> &LineGateway {
        &self.gateway
    }

    fn acceptors(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.acceptors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops: requests that have begun are finished within this time; of others the connection is closed. No request is answered afterwards.
    pub fn stop(&self, grace: Duration) {
        if self.stop.swap(true, Ordering::SeqCst) {
            return;
        }
        for address in [self.addresses.http, self.addresses.tcp].into_iter().flatten() {
            // Wakes the thread that accepts.
            let _ = TcpStream::connect_timeout(&reachable(address), Duration::from_secs(1));
        }
        let acceptors = std::mem::take(&mut *self.acceptors());
        for acceptor in acceptors {
            let _ = acceptor.join();
        }
        let end = Instant::now() + grace;
        // When each connection was seen to wait for the same bytes first.
        let mut waiting: HashMap<*const Open, (u64, Instant)> = HashMap::new();
        loop {
            let left = {
                let open = self.open.locked();
                for connection in open.iter() {
                    let is_busy = connection.is_busy.load(Ordering::SeqCst);
                    let reads = connection.reads.load(Ordering::SeqCst);
                    let (seen, since) =
                        waiting.entry(Arc::as_ptr(connection)).or_insert_with(|| (reads, Instant::now()));
                    if *seen != reads || !connection.is_reading.load(Ordering::SeqCst) {
                        (*seen, *since) = (reads, Instant::now());
                    }
                    // Half a request, of which nothing more arrives, is not waited for.
                    if !is_busy || since.elapsed() > LAST_PATIENCE {
                        let _ = connection.socket.shutdown(Shutdown::Both);
                    }
                }
                open.len()
            };
            if left == 0 {
                return;
            }
            if Instant::now() > end {
                tracing::warn!(left, "connections of the line protocol were left behind");
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn listen(
        &self,
        address: SocketAddr,
        is_http: bool,
        tls: Option<Arc<ServerConfig>>,
    ) -> io::Result<SocketAddr> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let (gateway, stop, open) = (self.gateway.clone(), self.stop.clone(), self.open.clone());
        let name = if is_http { "ilp-http" } else { "ilp-tcp" };
        let accept = move || {
            while !stop.load(Ordering::SeqCst) {
                match listener.accept() {
                    Ok(_) if stop.load(Ordering::SeqCst) => break,
                    Ok((socket, peer)) => serve((socket, peer), is_http, (&gateway, &tls), &open, &stop),
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a connection of the line protocol");
                        thread::sleep(SHORTAGE_PAUSE);
                    }
                }
            }
        };
        let thread = thread::Builder::new().name(name.into()).spawn(accept)?;
        self.acceptors().push(thread);
        Ok(address)
    }
}

impl Drop for LineServer {
    fn drop(&mut self) {
        self.stop(GRACE);
    }
}

/// An address that a connection can be made to.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    use std::net::{Ipv4Addr, Ipv6Addr};
    if address.ip().is_unspecified() {
        address.set_ip(if address.is_ipv4() {
            Ipv4Addr::LOCALHOST.into()
        } else {
            Ipv6Addr::LOCALHOST.into()
        });
    }
    address
}

fn serve(
    (socket, peer): (TcpStream, SocketAddr),
    is_http: bool,
    (gateway, tls): (&Arc<LineGateway>, &Option<Arc<ServerConfig>>),
    connections: &Arc<Connections>,
    stop: &Arc<AtomicBool>,
) {
    let open = Arc::new(Open {
        socket,
        is_busy: AtomicBool::new(false),
        is_http,
        stop: stop.clone(),
        is_reading: AtomicBool::new(false),
        reads: AtomicU64::new(0),
    });
    let Some(registration) = connections.register(&open) else {
        tracing::warn!(%peer, "too many connections of the line protocol; one was refused");
        return;
    };
    let (gateway, tls) = (gateway.clone(), tls.clone());
    let work = move || {
        let _registration = registration;
        let ended = if is_http {
            http_connection::serve(&open, peer, &gateway, tls.as_ref())
        } else {
            tcp_connection::serve(&open, peer, &gateway, tls.as_ref())
        };
        if let Err(error) = ended {
            tracing::debug!(%peer, %error, "a connection of the line protocol has ended");
        }
    };
    if let Err(error) = thread::Builder::new().name("ilp".into()).spawn(work) {
        tracing::warn!(%error, "no thread for a connection of the line protocol");
    }
}

impl Connections {
    /// Registers a connection, over HTTP if need be instead of one that waits; `None`: there are too many.
    fn register(self: &Arc<Self>, new: &Arc<Open>) -> Option<Registration> {
        let mut open = self.locked();
        if open.iter().filter(|open| open.is_http == new.is_http).count() >= CONNECTIONS_MAX {
            let waits =
                |open: &Arc<Open>| open.is_http && new.is_http && !open.is_busy.load(Ordering::SeqCst);
            let at = open.iter().position(waits)?;
            if let Some(displaced) = open.remove(at) {
                // Its thread waits for the socket, and ends.
                let _ = displaced.socket.shutdown(Shutdown::Both);
            }
        }
        open.push_back(new.clone());
        Some(Registration { of: self.clone(), open: new.clone() })
    }

    fn locked(&self) -> MutexGuard<'_, VecDeque<Arc<Open>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A registered connection, until it is dropped or replaced.
struct Registration {
    of: Arc<Connections>,
    open: Arc<Open>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.of.locked().retain(|open| !Arc::ptr_eq(open, &self.open));
    }
}
