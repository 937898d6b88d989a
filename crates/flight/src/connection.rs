//! Connections: bounded in number, and in the time until they have a user.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tapedb_access::network;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;

/// How many connections there may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Most {
    pub all: usize,
    pub unauthenticated: usize,
    pub unauthenticated_of_address: usize,
}

/// The open connections.
#[derive(Debug, Default, Clone)]
pub(crate) struct Connections(Arc<Mutex<Open>>);

#[derive(Debug, Default)]
struct Open {
    next: u64,
    /// Network of each, while it has no user.
    places: HashMap<u64, Option<IpAddr>>,
}

/// A place among the open connections, until this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    all: Connections,
    number: u64,
}

impl Connections {
    fn lock(&self) -> MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one more connection; `None`: there are too many.
    pub fn open(&self, address: IpAddr, most: Most) -> Option<Place> {
        let network = network(Some(address))?;
        let mut open = self.lock();
        let waiting = || open.places.values().flatten();
        if open.places.len() >= most.all
            || waiting().count() >= most.unauthenticated
            || waiting().filter(|other| **other == network).count() >= most.unauthenticated_of_address
        {
            return None;
        }
        open.next += 1;
        let number = open.next;
        open.places.insert(number, Some(network));
        Some(Place { all: self.clone(), number })
    }

    /// Open connections.
    pub fn count(&self) -> usize {
        self.lock().places.len()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.all.lock().places.remove(&self.number);
    }
}

/// What calls know about their connection.
#[derive(Debug)]
pub(crate) struct Link {
    pub address: SocketAddr,
    pub is_encrypted: bool,
    has_user: AtomicBool,
    place: Place,
}

/// The connection of a call.
#[derive(Debug, Clone)]
pub(crate) struct Peer(pub Arc<Link>);

impl Peer {
    pub fn new(address: SocketAddr, is_encrypted: bool, place: Place) -> Self {
        Self(Arc::new(Link { address, is_encrypted, has_user: AtomicBool::new(false), place }))
    }

    /// The client's address.
    pub fn ip(&self) -> IpAddr {
        self.0.address.ip().to_canonical()
    }

    /// Whether others cannot read what is sent.
    pub fn is_private(&self) -> bool {
        self.0.is_encrypted || self.ip().is_loopback()
    }

    /// A call of a user has come over the connection.
    pub fn authenticated(&self) {
        if !self.0.has_user.swap(true, Ordering::AcqRel) {
            let Place { all, number } = &self.0.place;
            all.lock().places.insert(*number, None);
        }
    }
}

/// A connection, plain or encrypted. Reading fails when it has no user in time.
pub(crate) struct Socket {
    io: Io,
    peer: Peer,
    until: Option<Wait>,
}

/// Ends when a connection without a user is not waited for any more.
type Wait = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The time for authentication, which ends early when the server stops.
fn wait(time: Duration, mut stopped: watch::Receiver<bool>) -> Wait {
    Box::pin(async move {
        // When the sender is gone, it has stopped too.
        let _ = timeout(time, stopped.wait_for(|is_stopped| *is_stopped)).await;
    })
}

enum Io {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Socket {
    /// `time`: for authentication. It is over when the server stops.
    pub fn plain(tcp: TcpStream, peer: Peer, time: Duration, stopped: watch::Receiver<bool>) -> Self {
        Self { io: Io::Plain(tcp), peer, until: Some(wait(time, stopped)) }
    }

    /// As [`plain`](Self::plain).
    pub fn encrypted(
        tls: TlsStream<TcpStream>,
        peer: Peer,
        time: Duration,
        stopped: watch::Receiver<bool>,
    ) -> Self {
        Self { io: Io::Tls(Box::new(tls)), peer, until: Some(wait(time, stopped)) }
    }

    /// Fails when the time for authentication is over.
    fn check(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let Some(until) = &mut self.until else { return Ok(()) };
        if self.peer.0.has_user.load(Ordering::Acquire) {
            self.until = None;
            return Ok(());
        }
        match until.as_mut().poll(cx) {
            Poll::Ready(()) => Err(io::ErrorKind::TimedOut.into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl Connected for Socket {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Err(error) = self.check(cx) {
            return Poll::Ready(Err(error));
        }
        match &mut self.io {
            Io::Plain(tcp) => Pin::new(tcp).poll_read(cx, buffer),
            Io::Tls(tls) => Pin::new(tls).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.io {
            Io::Plain(tcp) => Pin::new(tcp).poll_write(cx, bytes),
            Io::Tls(tls) => Pin::new(tls).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.io {
            Io::Plain(tcp) => Pin::new(tcp).poll_write_vectored(cx, bytes),
            Io::Tls(tls) => Pin::new(tls).poll_write_vectored(cx, bytes),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.io {
            Io::Plain(tcp) => tcp.is_write_vectored(),
            Io::Tls(tls) => tls.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.io {
            Io::Plain(tcp) => Pin::new(tcp).poll_flush(cx),
            Io::Tls(tls) => Pin::new(tls).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.io {
            Io::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Io::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_limited() {
        let all = Connections::default();
        let most = Most { all: 3, unauthenticated: 3, unauthenticated_of_address: 2 };
        let [near, far] = ["192.0.2.1", "198.51.100.1"].map(|address| address.parse::<IpAddr>().unwrap());
        let first = all.open(near, most).unwrap();
        let _second = all.open(near, most).unwrap();
        assert!(all.open(near, most).is_none(), "two of this address wait");
        let peer = Peer::new((near, 1).into(), false, first);
        peer.authenticated();
        let third = all.open(near, most).unwrap();
        assert!(all.open(far, most).is_none(), "three are open");
        drop((peer, third));
        assert!(all.open(far, most).is_some());
    }
}
