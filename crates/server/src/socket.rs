//! Sockets of connections, all non-blocking. A Unix socket may become the notifier of a pipe through shared memory.

use mio::event::Source;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use std::io::{self, IoSlice, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::OnceLock;
use tapedb_shm::Pipe;

/// A connected socket.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(mio::net::TcpStream),
    #[cfg(unix)]
    Unix(LocalSocket),
}

/// A Unix socket, and the pipe that it notifies, if there is one.
#[derive(Debug)]
pub(crate) struct LocalSocket {
    socket: mio::net::UnixStream,
    pipe: OnceLock<Pipe>,
}

impl LocalSocket {
    pub fn new(socket: mio::net::UnixStream) -> Self {
        Self { socket, pipe: OnceLock::new() }
    }
}

/// Bytes of a ring in shared memory, one for each direction: more than is in flight while both sides keep up, little
/// enough for the processor's cache.
const RING_BYTES: usize = 512 << 10;

/// The other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// A program, possibly on another machine.
    Tcp(SocketAddr),
    /// A program on this machine that has access to the socket's file.
    Unix,
}

impl Peer {
    /// Its address, for limits by address.
    pub fn ip(self) -> Option<IpAddr> {
        match self {
            Self::Tcp(address) => Some(address.ip()),
            Self::Unix => None,
        }
    }
}

impl std::fmt::Display for Peer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix => f.write_str("unix"),
        }
    }
}

impl Socket {
    /// Disables Nagle's algorithm: small frames are sent at once.
    pub fn set_no_delay(&self) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => socket.set_nodelay(true),
            #[cfg(unix)]
            Self::Unix(_) => Ok(()),
        }
    }

    /// Registers for readability and, if needed, for writability. (With permanent writability, the thread would be
    /// woken whenever a client at a Unix socket has read.)
    pub fn reregister(&self, registry: &Registry, token: Token, wants_writable: bool) -> io::Result<()> {
        let interest = match wants_writable {
            true => Interest::READABLE | Interest::WRITABLE,
            false => Interest::READABLE,
        };
        let fd = match self {
            Self::Tcp(socket) => socket.as_raw_fd(),
            // The notifier signals free space too, and is always writable itself.
            Self::Unix(local) if local.pipe.get().is_some() => return Ok(()),
            Self::Unix(local) => local.socket.as_raw_fd(),
        };
        SourceFd(&fd).reregister(registry, token, interest)
    }

    /// Switches the connection to shared memory, which is offered to the client.
    ///
    /// # Errors
    /// Errors of the system; [`io::ErrorKind::Unsupported`] for other sockets than Unix sockets.
    pub fn share_memory(&self) -> io::Result<()> {
        let Self::Unix(local) = self else { return Err(io::ErrorKind::Unsupported.into()) };
        let pipe = Pipe::offer(local.socket.as_fd().try_clone_to_owned()?, RING_BYTES)?;
        local.pipe.set(pipe).map_err(|_| io::ErrorKind::AlreadyExists.into())
    }

    /// The shared memory, if the connection uses it.
    pub fn pipe(&self) -> Option<&Pipe> {
        match self {
            Self::Tcp(_) => None,
            Self::Unix(local) => local.pipe.get(),
        }
    }

    /// Reads received bytes; `WouldBlock` when there are none.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        retry(|| match self {
            Self::Tcp(socket) => (&mut &*socket).read(buffer),
            #[cfg(unix)]
            Self::Unix(local) => match local.pipe.get() {
                Some(pipe) => pipe.read(buffer),
                None => (&mut &local.socket).read(buffer),
            },
        })
    }

    /// Writes as many bytes as the socket takes; `WouldBlock` when it takes none.
    pub fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        retry(|| match self {
            Self::Tcp(socket) => (&mut &*socket).write_vectored(parts),
            #[cfg(unix)]
            Self::Unix(local) => match local.pipe.get() {
                Some(pipe) => pipe.write(parts),
                None => (&mut &local.socket).write_vectored(parts),
            },
        })
    }

    /// Shuts the writing direction down.
    pub fn end(&self) {
        // The peer may have disconnected already.
        let _ = match self {
            Self::Tcp(socket) => socket.shutdown(Shutdown::Write),
            #[cfg(unix)]
            Self::Unix(local) => local.socket.shutdown(Shutdown::Write),
        };
    }
}

fn retry(mut attempt: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match attempt() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

impl Source for Socket {
    fn register(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => socket.register(registry, token, interests),
            #[cfg(unix)]
            Self::Unix(local) => local.socket.register(registry, token, interests),
        }
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => socket.reregister(registry, token, interests),
            #[cfg(unix)]
            Self::Unix(local) => local.socket.reregister(registry, token, interests),
        }
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => socket.deregister(registry),
            #[cfg(unix)]
            Self::Unix(local) => local.socket.deregister(registry),
        }
    }
}
