//! The sockets of connections: whatever kind they are, they read and write without waiting. A Unix socket may become the bell of
//! a pipe through shared memory.

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
    Unix(Local),
}

/// A Unix socket, and the pipe whose bell it has become, if it has.
#[derive(Debug)]
pub(crate) struct Local {
    socket: mio::net::UnixStream,
    pipe: OnceLock<Pipe>,
}

impl Local {
    pub fn new(socket: mio::net::UnixStream) -> Self {
        Self { socket, pipe: OnceLock::new() }
    }
}

/// Bytes of a ring of shared memory, one each way: more than is in flight while both sides keep up, little enough to stay in the
/// processor's cache.
const RING_BYTES: usize = 512 << 10;

/// Who is at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    /// A program on some machine.
    Tcp(SocketAddr),
    /// A program on this machine that may open the socket's file.
    Unix,
}

impl Peer {
    /// Its address, for those who count by it.
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
    /// Sends small things at once.
    pub fn set_no_delay(&self) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => socket.set_nodelay(true),
            #[cfg(unix)]
            Self::Unix(_) => Ok(()),
        }
    }

    /// Has the poll tell of what comes and, where that is waited for, of room to write. (Told of it always, a thread would
    /// be woken whenever a client at a Unix socket has read.)
    pub fn reregister(&self, registry: &Registry, token: Token, waits_for_room: bool) -> io::Result<()> {
        let interest = match waits_for_room {
            true => Interest::READABLE | Interest::WRITABLE,
            false => Interest::READABLE,
        };
        let fd = match self {
            Self::Tcp(socket) => socket.as_raw_fd(),
            // The bell rings for room too; room in the bell itself there is always.
            Self::Unix(local) if local.pipe.get().is_some() => return Ok(()),
            Self::Unix(local) => local.socket.as_raw_fd(),
        };
        SourceFd(&fd).reregister(registry, token, interest)
    }

    /// Has all that follows go through shared memory, which is offered to the client now.
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::Unsupported`] where there is no Unix socket.
    pub fn share_memory(&self) -> io::Result<()> {
        let Self::Unix(local) = self else { return Err(io::ErrorKind::Unsupported.into()) };
        let pipe = Pipe::offer(local.socket.as_fd().try_clone_to_owned()?, RING_BYTES)?;
        local.pipe.set(pipe).map_err(|_| io::ErrorKind::AlreadyExists.into())
    }

    /// The shared memory, if there is any.
    pub fn pipe(&self) -> Option<&Pipe> {
        match self {
            Self::Tcp(_) => None,
            Self::Unix(local) => local.pipe.get(),
        }
    }

    /// Reads what has come; `WouldBlock` when nothing has.
    pub fn read(&self, room: &mut [u8]) -> io::Result<usize> {
        retry(|| match self {
            Self::Tcp(socket) => (&mut &*socket).read(room),
            #[cfg(unix)]
            Self::Unix(local) => match local.pipe.get() {
                Some(pipe) => pipe.read(room),
                None => (&mut &local.socket).read(room),
            },
        })
    }

    /// Writes as much as there is room for; `WouldBlock` when there is none.
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

    /// Says that nothing more will be written.
    pub fn end(&self) {
        // It may be gone already.
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
