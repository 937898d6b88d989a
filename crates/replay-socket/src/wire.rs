//! The sending half of a connection, which the replay and the answers to a client's pings share.
//!
//! Always true: what is written at once is whole frames, so that those of two threads do not mix. No more waits here than what is written
//! at once: a thread that writes waits for the client.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A client that takes nothing for so long is gone.
const STALL_MAX: Duration = Duration::from_secs(300);
/// The same while the server stops.
const STALL_STOPPING: Duration = Duration::from_secs(1);
/// Time between two looks at what has changed while a write waits.
const LOOK: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct Wire {
    socket: Mutex<TcpStream>,
    /// The same one, to end it while a write waits.
    ends: TcpStream,
    has_begun: AtomicBool,
    is_hurried: AtomicBool,
    is_over: AtomicBool,
    is_closing: AtomicBool,
}

impl Wire {
    pub(crate) fn new(socket: &TcpStream) -> io::Result<Self> {
        socket.set_write_timeout(Some(LOOK))?;
        Ok(Self {
            socket: Mutex::new(socket.try_clone()?),
            ends: socket.try_clone()?,
            has_begun: AtomicBool::new(false),
            is_hurried: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
        })
    }

    /// Writes whole frames; waits while the client does not read.
    pub(crate) fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        let mut socket = self.socket();
        let result = self.write_to(&mut socket, bytes);
        if result.is_err() {
            // A frame may be cut: nothing may follow it.
            self.end();
        }
        result
    }

    fn write_to(&self, socket: &mut TcpStream, mut bytes: &[u8]) -> io::Result<()> {
        let mut since = Instant::now();
        while !bytes.is_empty() {
            if self.is_over() {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            match socket.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => (bytes, since) = (&bytes[written..], Instant::now()),
                Err(error) if is_waiting(&error) => {
                    let limit =
                        if self.is_hurried.load(Ordering::Acquire) { STALL_STOPPING } else { STALL_MAX };
                    if since.elapsed() > limit {
                        return Err(io::Error::new(io::ErrorKind::TimedOut, "the client reads nothing"));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The handshake is over.
    pub(crate) fn begin(&self) {
        self.has_begun.store(true, Ordering::Release);
    }

    /// The server stops: a client that does not read is not waited for, and one that has not sent its request is not served.
    pub(crate) fn hurry(&self) {
        self.is_hurried.store(true, Ordering::Release);
        if !self.has_begun.load(Ordering::Acquire) {
            self.end();
        }
    }

    pub(crate) fn is_hurried(&self) -> bool {
        self.is_hurried.load(Ordering::Acquire)
    }

    /// The client is gone: what waits is not written.
    pub(crate) fn leave(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// A close frame is on its way: nothing follows it.
    pub(crate) fn close_with(&self, frame: &[u8]) {
        if !self.is_closing.swap(true, Ordering::AcqRel) {
            let _ = self.write_all(frame);
        }
    }

    /// Ends both directions.
    pub(crate) fn end(&self) {
        self.leave();
        let _ = self.ends.shutdown(Shutdown::Both);
    }

    fn socket(&self) -> MutexGuard<'_, TcpStream> {
        self.socket.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_waiting(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Both halves for the handshake, and for reading after it.
#[derive(Debug)]
pub(crate) struct Duplex {
    pub(crate) socket: TcpStream,
    pub(crate) wire: Arc<Wire>,
}

impl Read for Duplex {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.read(buffer)
    }
}

impl Write for Duplex {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // After a close frame of ours, the answer to the client's would be a second one.
        if !self.wire.is_closing.load(Ordering::Acquire) {
            self.wire.write_all(bytes)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
