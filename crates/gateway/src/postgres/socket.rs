//! The connection to a client: plain or encrypted.

use rustls::{ServerConfig, ServerConnection};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// Bytes that are read at once.
const READ_BYTES: usize = 64 << 10;
/// Bytes that are encrypted at once.
const ENCRYPT_BYTES: usize = 16 << 10;
/// How long a write waits before it is checked whether the session is to end.
const WRITE_WAIT: Duration = Duration::from_millis(200);

/// A connection, and what was read and not used yet.
#[derive(Debug)]
pub(crate) struct Socket {
    tcp: TcpStream,
    peer: SocketAddr,
    tls: Option<Box<ServerConnection>>,
    input: Vec<u8>,
    /// Bytes of `input` that are used.
    used: usize,
}

impl Socket {
    pub fn new(tcp: TcpStream) -> io::Result<Self> {
        let peer = tcp.peer_addr()?;
        tcp.set_nodelay(true)?;
        tcp.set_write_timeout(Some(WRITE_WAIT))?;
        rustix::net::sockopt::set_socket_keepalive(&tcp, true)?;
        Ok(Self { tcp, peer, tls: None, input: Vec::new(), used: 0 })
    }

    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The client's address.
    pub fn address(&self) -> IpAddr {
        self.peer.ip().to_canonical()
    }

    /// Whether others cannot read what is sent.
    pub fn is_private(&self) -> bool {
        self.tls.is_some() || self.address().is_loopback()
    }

    pub fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// What was read and not used.
    pub fn input(&self) -> &[u8] {
        &self.input[self.used..]
    }

    /// So many bytes were used.
    pub fn consume(&mut self, bytes: usize) {
        self.used += bytes;
        if self.used == self.input.len() {
            self.used = 0;
            self.input.clear();
            // A long message does not keep its memory.
            self.input.shrink_to(READ_BYTES);
        }
    }

    /// How long a read may wait.
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.tcp.set_read_timeout(timeout)
    }

    /// Encrypts the connection from here on.
    pub fn encrypt(&mut self, config: Arc<ServerConfig>) -> io::Result<()> {
        let tls = ServerConnection::new(config).map_err(io::Error::other)?;
        self.tls = Some(Box::new(tls));
        Ok(())
    }

    /// Reads more; `false`: the client has ended the connection.
    pub fn fill(&mut self) -> io::Result<bool> {
        if self.used > 0 {
            self.input.drain(..self.used);
            self.used = 0;
        }
        let Some(tls) = &mut self.tls else {
            let start = self.input.len();
            self.input.resize(start + READ_BYTES, 0);
            let read = self.tcp.read(&mut self.input[start..]);
            self.input.truncate(start + *read.as_ref().unwrap_or(&0));
            return read.map(|bytes| bytes > 0);
        };
        loop {
            // What an earlier read has brought.
            let state = tls.process_new_packets().map_err(io::Error::other)?;
            while tls.wants_write() {
                tls.write_tls(&mut self.tcp)?;
            }
            if state.plaintext_bytes_to_read() > 0 {
                let start = self.input.len();
                self.input.resize(start + state.plaintext_bytes_to_read(), 0);
                let read = tls.reader().read(&mut self.input[start..]);
                self.input.truncate(start + *read.as_ref().unwrap_or(&0));
                return read.map(|bytes| bytes > 0);
            }
            if state.peer_has_closed() || tls.read_tls(&mut self.tcp)? == 0 {
                return Ok(false);
            }
        }
    }

    /// Whether the client has ended the connection, as far as is known without waiting.
    pub fn is_gone(&mut self) -> bool {
        if self.tcp.set_nonblocking(true).is_err() {
            return true;
        }
        let is_gone = match self.input().len() < READ_BYTES {
            true => match self.fill() {
                Ok(is_open) => !is_open,
                Err(error) => !is_waiting(&error),
            },
            // Enough waits here: only its end is looked for.
            false => match self.tcp.peek(&mut [0]) {
                Ok(bytes) => bytes == 0,
                Err(error) => !is_waiting(&error),
            },
        };
        is_gone || self.tcp.set_nonblocking(false).is_err()
    }

    /// Writes bytes. While the client does not take them, `check` is called.
    ///
    /// # Errors
    /// The client is gone; `check` fails.
    pub fn write(&mut self, mut bytes: &[u8], check: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        match &mut self.tls {
            None => write_all(&mut self.tcp, bytes, check),
            Some(tls) => {
                let mut sealed = Vec::new();
                while !bytes.is_empty() {
                    let (now, rest) = bytes.split_at(bytes.len().min(ENCRYPT_BYTES));
                    tls.writer().write_all(now)?;
                    sealed.clear();
                    while tls.wants_write() {
                        tls.write_tls(&mut sealed)?;
                    }
                    write_all(&mut self.tcp, &sealed, check)?;
                    bytes = rest;
                }
                Ok(())
            }
        }
    }

    /// Ends an encrypted connection as TLS does.
    pub fn close(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            let _ = tls.write_tls(&mut self.tcp);
        }
        let _ = self.tcp.shutdown(std::net::Shutdown::Both);
    }
}

fn write_all(
    tcp: &mut TcpStream,
    mut bytes: &[u8],
    check: &mut dyn FnMut() -> io::Result<()>,
) -> io::Result<()> {
    while !bytes.is_empty() {
        match tcp.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if is_waiting(&error) => check()?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Whether an error means that there was nothing in time.
pub(crate) fn is_waiting(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
