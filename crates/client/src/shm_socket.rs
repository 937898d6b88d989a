//! A blocking socket over a pipe through shared memory.

use crate::convert::is_timeout;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, IoSlice, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tapedb_shm::{NoPipe, Pipe};
use tapedb_wire::SHM_REQUEST;

/// A pipe to a server on this machine.
#[derive(Debug)]
pub(crate) struct ShmSocket {
    pipe: Pipe,
    timeouts: Mutex<Timeouts>,
}

#[derive(Debug, Clone, Copy)]
struct Timeouts {
    read: Duration,
    write: Duration,
}

/// The answer to a request for shared memory.
#[derive(Debug)]
pub(crate) enum ShmAnswer {
    /// Shared memory.
    Granted(ShmSocket),
    /// The server sent something else; these are the first bytes of it.
    Other(UnixStream, Vec<u8>),
}

impl ShmSocket {
    /// Requests shared memory from the server behind a Unix socket.
    pub fn connect(path: &Path, timeout: Duration) -> io::Result<ShmAnswer> {
        let socket = UnixStream::connect(path)?;
        socket.set_read_timeout(Some(timeout))?;
        // A refused client finds the socket closed; the reason is in its receive buffer.
        let requested = (&socket).write_all(&SHM_REQUEST);
        let accepted = Pipe::accept(socket.into()).map_err(|error| match is_timeout(&error) {
            true => io::Error::new(io::ErrorKind::TimedOut, "no answer in time"),
            false => error,
        });
        match accepted? {
            Ok(pipe) => {
                requested?;
                let timeouts = Mutex::new(Timeouts { read: timeout, write: timeout });
                Ok(ShmAnswer::Granted(Self { pipe, timeouts }))
            }
            Err(NoPipe { socket, received }) => Ok(ShmAnswer::Other(socket.into(), received)),
        }
    }

    /// Reads available bytes, at least one; waits up to the timeout. 0: the peer has closed the connection.
    pub fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.read_within(buf, self.timeouts().read)
    }

    /// [`ShmSocket::read`], with a timeout.
    pub fn read_within(&self, buf: &mut [u8], timeout: Duration) -> io::Result<usize> {
        let until = Instant::now() + timeout;
        loop {
            match self.pipe.read(buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            if self.pipe.prepare_sleep(true, false)? {
                let left = Timespec::try_from(left).map_err(io::Error::other)?;
                let polled =
                    poll(&mut [PollFd::from_borrowed_fd(self.pipe.notifier(), PollFlags::IN)], Some(&left));
                self.pipe.end_sleep(true);
                polled?;
            } else {
                // The end is reported like received bytes.
                self.pipe.end_sleep(true);
            }
        }
    }

    /// [`ShmSocket::read`] of available bytes; [`io::ErrorKind::WouldBlock`] when there are none.
    pub fn read_now(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.pipe.read(buf)
    }

    /// Sets the timeout of reads.
    pub fn set_read_timeout(&self, timeout: Duration) {
        self.with_timeouts(|timeouts| timeouts.read = timeout);
    }

    /// Sets the timeout of writes.
    pub fn set_write_timeout(&self, timeout: Duration) {
        self.with_timeouts(|timeouts| timeouts.write = timeout);
    }

    /// Closes both directions; waiting readers and writers return.
    pub fn shutdown(&self) {
        self.pipe.close();
    }

    fn timeouts(&self) -> Timeouts {
        self.with_timeouts(|timeouts| *timeouts)
    }

    fn with_timeouts<T>(&self, look: impl FnOnce(&mut Timeouts) -> T) -> T {
        look(&mut self.timeouts.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Waits for free space, each time up to the timeout.
impl Write for &ShmSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        loop {
            match self.pipe.write(parts) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return written,
            }
            if !self.pipe.wait_for_space(self.timeouts().write)? {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;
    use std::thread;

    /// A client and the server's end of its pipe.
    fn pair() -> (ShmSocket, Pipe) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let server = thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let mut request = [0; 8];
            io::Read::read_exact(&mut socket, &mut request).unwrap();
            assert_eq!(request, SHM_REQUEST);
            Pipe::offer(socket.into(), 4096).unwrap()
        });
        let ShmAnswer::Granted(client) = ShmSocket::connect(&path, Duration::from_secs(60)).unwrap() else {
            panic!("no shared memory");
        };
        (client, server.join().unwrap())
    }

    #[test]
    fn silence_is_a_timeout_and_an_end_is_not() {
        let (client, server) = pair();
        assert!(is_timeout(&client.read_now(&mut [0; 8]).unwrap_err()));
        assert!(is_timeout(&client.read_within(&mut [0; 8], Duration::from_millis(1)).unwrap_err()));
        server.write(&[IoSlice::new(b"last")]).unwrap();
        drop(server);
        assert_eq!(client.read(&mut [0; 8]).unwrap(), 4);
        assert_eq!(client.read(&mut [0; 8]).unwrap(), 0);
    }

    #[test]
    fn a_write_to_a_stalled_reader_times_out() {
        let (client, server) = pair();
        client.set_write_timeout(Duration::from_millis(1));
        let error = (&client).write_all(&[&[1; 3000][..], &[2; 3000]].concat()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let mut buffer = [0; 8192];
        let read = server.read(&mut buffer).unwrap();
        assert_eq!((read, buffer[2999], buffer[3000]), (4088, 1, 2));
    }

    #[test]
    fn a_shutdown_ends_a_waiting_read() {
        let (client, _server) = pair();
        thread::scope(|scope| {
            let reader = scope.spawn(|| client.read_within(&mut [0; 8], Duration::from_secs(60)));
            client.shutdown();
            assert_eq!(reader.join().unwrap().unwrap(), 0);
        });
    }
}
