//! A connection to a client, plain or encrypted, read within limits of time.

use crate::open::Open;
use rustls::{ServerConfig, ServerConnection};
use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Bytes that are encrypted at once.
const ENCRYPT_BYTES: usize = 64 << 10;

/// A connection.
pub(crate) struct Socket<'a> {
    open: &'a Open,
    tls: Option<Box<ServerConnection>>,
}

impl<'a> Socket<'a> {
    /// A connection that was accepted; with `tls`, its client begins with a handshake.
    pub fn new(open: &'a Open, tls: Option<&Arc<ServerConfig>>) -> io::Result<Self> {
        let tls = tls.map(|config| ServerConnection::new(config.clone())).transpose();
        Ok(Self { open, tls: tls.map_err(io::Error::other)?.map(Box::new) })
    }

    /// Reads what has arrived, or waits for it until `end`; 0: the client has left.
    pub fn read(&mut self, bytes: &mut [u8], end: Instant) -> io::Result<usize> {
        self.open.is_reading.store(true, Ordering::SeqCst);
        let read = self.wait(bytes, end);
        self.open.is_reading.store(false, Ordering::SeqCst);
        self.open.reads.fetch_add(1, Ordering::SeqCst);
        read
    }

    fn wait(&mut self, bytes: &mut [u8], end: Instant) -> io::Result<usize> {
        let mut tcp = &self.open.socket;
        let Some(tls) = &mut self.tls else {
            return loop {
                tcp.set_read_timeout(Some(left(end)?))?;
                match tcp.read(bytes) {
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    read => break read,
                }
            };
        };
        loop {
            let state = match tls.process_new_packets() {
                Ok(state) => state,
                Err(error) => {
                    // The client learns why.
                    let _ = tls.write_tls(&mut tcp);
                    return Err(io::Error::other(error));
                }
            };
            while tls.wants_write() {
                tls.write_tls(&mut tcp)?;
            }
            if state.plaintext_bytes_to_read() > 0 {
                return tls.reader().read(bytes);
            }
            tcp.set_read_timeout(Some(left(end)?))?;
            match if state.peer_has_closed() { Ok(0) } else { tls.read_tls(&mut tcp) } {
                Ok(0) => return Ok(0),
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
        }
    }

    /// Sends bytes.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut tcp = &self.open.socket;
        let Some(tls) = &mut self.tls else { return tcp.write_all(bytes) };
        for piece in bytes.chunks(ENCRYPT_BYTES) {
            tls.writer().write_all(piece)?;
            while tls.wants_write() {
                tls.write_tls(&mut tcp)?;
            }
        }
        Ok(())
    }

    /// Tells the client that nothing more is sent.
    pub fn end(&mut self) -> io::Result<()> {
        let mut tcp = &self.open.socket;
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            while tls.wants_write() {
                tls.write_tls(&mut tcp)?;
            }
        }
        tcp.shutdown(std::net::Shutdown::Write)
    }
}

fn left(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}
