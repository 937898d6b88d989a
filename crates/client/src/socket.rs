//! Transports to a server: TCP, TLS over TCP, a Unix socket, or shared memory. One thread reads and one writes at a
//! time.

use crate::address::Address;
use crate::certificate_verifier::CertificateVerifier;
use crate::options::Options;
use crate::shm_socket::{ShmAnswer, ShmSocket};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::RecvFlags;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A connected socket.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsSocket>),
    Memory(Box<ShmSocket>),
}

/// The most bytes of ciphertext of one read.
const CIPHERTEXT_BYTES: usize = 64 << 10;

/// The lock on `connection` is never held during a blocking call: a writer that waits for the network must not stop the
/// reader, which may have to read first.
#[derive(Debug)]
pub(crate) struct TlsSocket {
    tcp: TcpStream,
    connection: Mutex<ClientConnection>,
    /// Received ciphertext. Only the reader locks it.
    arrived: Mutex<Ciphertext>,
    /// Ciphertext to be written. Only the writer locks it.
    leaving: Mutex<Vec<u8>>,
}

#[derive(Debug)]
struct Ciphertext {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Socket {
    /// Connects; also returns bytes that were received already.
    pub fn connect(address: &Address, options: &Options) -> io::Result<(Self, Vec<u8>)> {
        let timeout = options.connect_timeout;
        let mut received = Vec::new();
        let socket = match address {
            Address::Tcp { host, port } => Self::Tcp(tcp(host, *port, timeout)?),
            Address::Tls { host, port } => {
                let config = tls_config(options)?;
                let name = ServerName::try_from(host.clone()).map_err(io::Error::other)?;
                let connection = ClientConnection::new(config, name).map_err(io::Error::other)?;
                Self::Tls(Box::new(TlsSocket::new(tcp(host, *port, timeout)?, connection)))
            }
            Address::Unix(path) => Self::Unix(UnixStream::connect(path)?),
            Address::SharedMemory(path) => match ShmSocket::connect(path, timeout)? {
                ShmAnswer::Granted(memory) => Self::Memory(Box::new(memory)),
                ShmAnswer::Other(unix, other) => {
                    received = other;
                    Self::Unix(unix)
                }
            },
            Address::Directory(_) | Address::Objects(_) => {
                return Err(io::Error::from(io::ErrorKind::Unsupported));
            }
        };
        socket.set_write_timeout(timeout)?;
        Ok((socket, received))
    }

    /// Reads available bytes, at least one; waits up to the timeout. 0: the peer has closed the connection.
    pub fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(tcp) => (&*tcp).read(buf),
            Self::Unix(unix) => (&*unix).read(buf),
            Self::Tls(tls) => tls.read(buf, |mut tcp, arrived| tcp.read(arrived)),
            Self::Memory(memory) => memory.read(buf),
        }
    }

    /// [`Socket::read`], with a timeout; `set` is the one that was set last.
    pub fn read_within(&self, buf: &mut [u8], timeout: Duration, set: &mut Duration) -> io::Result<usize> {
        match self {
            Self::Unix(unix) => return read_polled(unix, buf, timeout),
            Self::Memory(memory) => return memory.read_within(buf, timeout),
            Self::Tcp(_) | Self::Tls(_) => {}
        }
        if *set != timeout {
            self.set_read_timeout(timeout.max(Duration::from_micros(1)))?;
            *set = timeout;
        }
        self.read(buf)
    }

    /// [`Socket::read`] of available bytes; [`io::ErrorKind::WouldBlock`] when there are none.
    pub fn read_now(&self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(tcp) => recv_now(tcp, buf),
            Self::Unix(unix) => recv_now(unix, buf),
            Self::Tls(tls) => tls.read(buf, recv_now),
            Self::Memory(memory) => memory.read_now(buf),
        }
    }

    /// Writes all of two pieces.
    pub fn write_all(&self, first: &[u8], second: &[u8]) -> io::Result<()> {
        match self {
            Self::Tcp(tcp) => write_pieces(tcp, first, second),
            Self::Unix(unix) => write_pieces(unix, first, second),
            Self::Tls(tls) => tls.write_all(first).and_then(|()| tls.write_all(second)),
            Self::Memory(memory) => write_pieces(&**memory, first, second),
        }
    }

    /// Sets the timeout of reads. Not zero.
    pub fn set_read_timeout(&self, timeout: Duration) -> io::Result<()> {
        match self {
            Self::Tcp(tcp) => tcp.set_read_timeout(Some(timeout)),
            Self::Unix(unix) => unix.set_read_timeout(Some(timeout)),
            Self::Tls(tls) => tls.tcp.set_read_timeout(Some(timeout)),
            Self::Memory(memory) => {
                memory.set_read_timeout(timeout);
                Ok(())
            }
        }
    }

    /// Sets the timeout of writes. Not zero.
    pub fn set_write_timeout(&self, timeout: Duration) -> io::Result<()> {
        match self {
            Self::Tcp(tcp) => tcp.set_write_timeout(Some(timeout)),
            Self::Unix(unix) => unix.set_write_timeout(Some(timeout)),
            Self::Tls(tls) => tls.tcp.set_write_timeout(Some(timeout)),
            Self::Memory(memory) => {
                memory.set_write_timeout(timeout);
                Ok(())
            }
        }
    }

    /// Closes both directions; waiting readers and writers return.
    pub fn shutdown(&self) {
        // It may be closed already.
        let _ = match self {
            Self::Tcp(tcp) => tcp.shutdown(Shutdown::Both),
            Self::Unix(unix) => unix.shutdown(Shutdown::Both),
            Self::Tls(tls) => tls.tcp.shutdown(Shutdown::Both),
            Self::Memory(memory) => {
                memory.shutdown();
                Ok(())
            }
        };
    }
}

impl TlsSocket {
    fn new(tcp: TcpStream, connection: ClientConnection) -> Self {
        let arrived = Ciphertext { bytes: vec![0; CIPHERTEXT_BYTES], start: 0, end: 0 };
        Self {
            tcp,
            connection: Mutex::new(connection),
            arrived: Mutex::new(arrived),
            leaving: Mutex::default(),
        }
    }

    /// Reads available bytes; `receive` reads more ciphertext.
    fn read(
        &self,
        buf: &mut [u8],
        receive: impl Fn(&TcpStream, &mut [u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut arrived = locked(&self.arrived);
        loop {
            if let Some(read) = self.decrypt(&mut arrived, buf)? {
                return Ok(read);
            }
            let read = receive(&self.tcp, &mut arrived.bytes)?;
            if read == 0 {
                return Ok(0);
            }
            (arrived.start, arrived.end) = (0, read);
        }
    }

    /// Decrypted bytes; `None` when more must be received first.
    fn decrypt(&self, arrived: &mut Ciphertext, buf: &mut [u8]) -> io::Result<Option<usize>> {
        let mut connection = locked(&self.connection);
        loop {
            match connection.reader().read(buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read.map(Some),
            }
            let mut rest = &arrived.bytes[arrived.start..arrived.end];
            if rest.is_empty() {
                return Ok(None);
            }
            let taken = connection.read_tls(&mut rest)?;
            arrived.start += taken;
            connection.process_new_packets().map_err(io::Error::other)?;
        }
    }

    fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        let mut leaving = locked(&self.leaving);
        while !bytes.is_empty() {
            let mut connection = locked(&self.connection);
            let taken = connection.writer().write(bytes)?;
            bytes = &bytes[taken..];
            leaving.clear();
            take_out(&mut connection, &mut leaving)?;
            drop(connection);
            (&self.tcp).write_all(&leaving)?;
        }
        Ok(())
    }

    /// Completes the handshake: nothing can be written before.
    fn shake_hands(&self) -> io::Result<()> {
        let mut connection = locked(&self.connection);
        let mut tcp = &self.tcp;
        while connection.is_handshaking() {
            connection.complete_io(&mut tcp)?;
        }
        Ok(())
    }
}

/// Completes the handshake if there is one, within the read timeout.
pub(crate) fn shake_hands(socket: &Socket) -> io::Result<()> {
    match socket {
        Socket::Tls(tls) => tls.shake_hands(),
        Socket::Tcp(_) | Socket::Unix(_) | Socket::Memory(_) => Ok(()),
    }
}

fn take_out(connection: &mut ClientConnection, leaving: &mut Vec<u8>) -> io::Result<()> {
    while connection.wants_write() {
        connection.write_tls(leaving)?;
    }
    Ok(())
}

/// Reads available bytes, or waits for them up to the timeout. A thread that sleeps in a read of a Unix socket is also
/// woken whenever the peer has read from it; a thread that polls is not.
fn read_polled(unix: &UnixStream, buf: &mut [u8], timeout: Duration) -> io::Result<usize> {
    let timeout = Timespec::try_from(timeout).map_err(io::Error::other)?;
    match recv_now(unix, buf) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            poll(&mut [PollFd::new(unix, PollFlags::IN)], Some(&timeout))?;
            recv_now(unix, buf)
        }
        done => done,
    }
}

/// Reads without blocking, whatever the mode of the socket.
fn recv_now(socket: &impl AsFd, buf: &mut [u8]) -> io::Result<usize> {
    Ok(rustix::net::recv(socket, buf, RecvFlags::DONTWAIT)?.0)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn tcp(host: &str, port: u16, timeout: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(tcp) => {
                tcp.set_nodelay(true)?;
                return Ok(tcp);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

pub(crate) fn tls_config(options: &Options) -> io::Result<Arc<ClientConfig>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
    let builder = builder.map_err(io::Error::other)?;
    let none =
        || io::Error::other("there is no trusted certificate authority; set a PEM file with certificates");
    if let Some(path) = &options.tls_roots {
        let certificates =
            CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let certificates = certificates.map_err(io::Error::other)?;
        if certificates.is_empty() {
            return Err(none());
        }
        let verifier = CertificateVerifier::new(certificates, provider).map_err(io::Error::other)?;
        let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
        return Ok(Arc::new(builder.with_no_client_auth()));
    }
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() {
        return Err(none());
    }
    Ok(Arc::new(builder.with_root_certificates(roots).with_no_client_auth()))
}

fn write_pieces(mut to: impl Write, mut first: &[u8], mut second: &[u8]) -> io::Result<()> {
    while !first.is_empty() {
        let written = match to.write_vectored(&[IoSlice::new(first), IoSlice::new(second)]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            written => written?,
        };
        let of_first = written.min(first.len());
        first = &first[of_first..];
        second = &second[written - of_first..];
    }
    to.write_all(second)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::is_timeout;

    /// Takes a few bytes per write.
    struct Narrow(Vec<u8>, usize);

    impl Write for &mut Narrow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(self.1);
            self.0.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn both_pieces_are_written_completely() {
        for width in 1..12 {
            let mut narrow = Narrow(Vec::new(), width);
            write_pieces(&mut narrow, b"head", b"body of it").unwrap();
            assert_eq!(narrow.0, b"headbody of it");
        }
    }

    #[test]
    fn silence_is_a_timeout_and_an_end_is_not() {
        let (here, there) = UnixStream::pair().unwrap();
        let socket = Socket::Unix(here);
        socket.set_read_timeout(Duration::from_millis(1)).unwrap();
        let mut set = Duration::ZERO;
        let read = socket.read_within(&mut [0; 8], Duration::from_millis(1), &mut set);
        assert!(is_timeout(&read.unwrap_err()));
        assert_eq!(socket.read_now(&mut [0; 8]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert!(is_timeout(&socket.read(&mut [0; 8]).unwrap_err()));
        drop(there);
        assert_eq!(socket.read(&mut [0; 8]).unwrap(), 0);
    }
}
