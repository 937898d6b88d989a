//! The sending half of a connection. Any thread writes to the socket directly; bytes that the socket does not take wait
//! in a buffer, which the connection's thread writes later.
//!
//! Always true: bytes are sent in the order of [`SendBuffer::send`]; while bytes wait, no others pass them. Senders check
//! the [capacity](SendBuffer::has_capacity) first, so at most the limit and one frame wait.

use crate::socket::Socket;
use mio::{Registry, Token};
use rustls::ServerConnection;
use std::io::{self, IoSlice, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The capacity that an empty buffer retains.
const BUFFER_BYTES_KEPT: usize = 256 << 10;
/// Encrypted bytes that wait in the TLS session: encrypting more would only be too early.
const TLS_BYTES_MAX: usize = 256 << 10;
/// Slices in one system call.
const PARTS_MAX: usize = 4;

/// The sending half of a connection, and the state of both halves: the socket and its encryption.
#[derive(Debug)]
pub(crate) struct SendBuffer {
    socket: Socket,
    state: Mutex<State>,
    /// Whether `state` has a TLS session: readable without the lock.
    is_encrypted: bool,
    /// Bytes that wait, in the buffer and in the TLS session.
    waiting: AtomicUsize,
    waiting_max: usize,
    /// The peer has disconnected: bytes to send are dropped.
    broken: AtomicBool,
    /// Bytes taken by the socket.
    written: AtomicU64,
}

#[derive(Debug)]
struct State {
    tls: Option<Box<ServerConnection>>,
    buffer: Vec<u8>,
    /// Offset of the first unwritten byte of the buffer.
    start: usize,
}

impl SendBuffer {
    /// Over a non-blocking socket.
    pub fn new(socket: Socket, tls: Option<ServerConnection>, waiting_max: usize) -> Self {
        let is_encrypted = tls.is_some();
        let tls = tls.map(|mut tls| {
            tls.set_buffer_limit(Some(TLS_BYTES_MAX));
            Box::new(tls)
        });
        Self {
            socket,
            state: Mutex::new(State { tls, buffer: Vec::new(), start: 0 }),
            is_encrypted,
            waiting: AtomicUsize::new(0),
            waiting_max,
            broken: AtomicBool::new(false),
            written: AtomicU64::new(0),
        }
    }

    /// Whether `bytes` more may be sent now: while nothing waits, any number may.
    pub fn has_capacity(&self, bytes: usize) -> bool {
        let waiting = self.waiting();
        waiting == 0 || waiting + bytes <= self.waiting_max
    }

    /// Bytes that wait to be written.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Acquire)
    }

    /// Bytes that were written.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Whether the peer has disconnected.
    pub fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    /// Sends the pieces, one after the other. Returns whether bytes wait that did not before: the connection's thread
    /// must then be woken, because it writes them.
    pub fn send(&self, parts: &[&[u8]]) -> bool {
        let mut state = self.lock();
        if self.is_broken() {
            return false;
        }
        let waited = self.waiting() > 0;
        let done = if state.is_empty() { self.write(&mut state, parts) } else { Ok(0) };
        match done {
            Ok(done) => state.append(parts, done),
            Err(_) => self.disconnect(&mut state),
        }
        self.note(&state);
        !waited && self.waiting() > 0
    }

    /// Queues the pieces for [`SendBuffer::flush`], behind bytes that wait already.
    pub fn hold(&self, parts: &[&[u8]]) {
        let mut state = self.lock();
        if !self.is_broken() {
            state.append(parts, 0);
            self.note(&state);
        }
    }

    /// Registers the socket with a poll for readability and, if needed, for writability.
    ///
    /// # Errors
    /// Errors of the poll.
    pub fn register(&self, registry: &Registry, token: Token, wants_writable: bool) -> io::Result<()> {
        self.socket.reregister(registry, token, wants_writable)
    }

    /// Writes waiting bytes, as far as the socket takes them.
    pub fn flush(&self) {
        let mut state = self.lock();
        if self.is_broken() {
            return;
        }
        if self.flush_state(&mut state).is_err() {
            self.disconnect(&mut state);
        }
        self.note(&state);
    }

    /// Reads received bytes; `WouldBlock` when there are none.
    ///
    /// # Errors
    /// Errors of the socket; [`io::ErrorKind::InvalidData`] for bytes that are not TLS.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.is_encrypted {
            return self.socket.read(buffer);
        }
        let mut state = self.lock();
        let read = self.read_encrypted(&mut state, buffer);
        // Sends handshake messages and alerts.
        if self.flush_state(&mut state).is_err() && !matches!(read, Ok(1..)) {
            self.disconnect(&mut state);
        }
        self.note(&state);
        read
    }

    /// Reads received bytes without decrypting them, to be dropped.
    ///
    /// # Errors
    /// Errors of the socket.
    pub fn read_raw(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.read(buffer)
    }

    /// Whether a read may return less than what was received although the buffer has space.
    pub fn reads_in_part(&self) -> bool {
        self.is_encrypted || self.socket.pipe().is_some()
    }

    /// Switches both directions to shared memory, which is offered to the client.
    ///
    /// # Errors
    /// As [`Socket::share_memory`].
    pub fn share_memory(&self) -> io::Result<()> {
        self.socket.share_memory()
    }

    /// Whether both directions use shared memory.
    pub fn is_shared_memory(&self) -> bool {
        self.socket.pipe().is_some()
    }

    /// Announces to a client behind shared memory that the connection's thread is about to sleep. Returns whether it
    /// may: `false` when data or space that it waits for is there already.
    ///
    /// # Errors
    /// When the client has violated the pipe's protocol.
    pub fn prepare_sleep(&self, wants_data: bool, wants_space: bool) -> io::Result<bool> {
        self.socket.pipe().map_or(Ok(true), |pipe| pipe.prepare_sleep(wants_data, wants_space))
    }

    /// Announces that the thread is awake, for whatever reason.
    pub fn end_sleep(&self, is_notified: bool) {
        if let Some(pipe) = self.socket.pipe() {
            pipe.end_sleep(is_notified);
        }
    }

    /// Ends sending; waiting bytes are written before, as far as the socket takes them.
    pub fn end(&self) {
        let mut state = self.lock();
        if let Some(tls) = &mut state.tls {
            tls.send_close_notify();
        }
        let _ = self.flush_state(&mut state);
        self.disconnect(&mut state);
        self.socket.end();
    }

    fn read_encrypted(&self, state: &mut State, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &mut state.tls else { return Ok(0) };
        loop {
            match tls.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
            if tls.read_tls(&mut Encrypted(&self.socket, &self.written))? == 0 {
                return Ok(0);
            }
            tls.process_new_packets().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        }
    }

    fn flush_state(&self, state: &mut State) -> io::Result<()> {
        while !state.is_empty() {
            let State { tls, buffer, start } = state;
            let waiting = &[&buffer[*start..]];
            let done = match tls {
                Some(tls) => self.write_encrypted(tls, waiting)?,
                None => self.write_plain(waiting)?,
            };
            state.start += done;
            if done == 0 {
                return Ok(());
            }
        }
        state.buffer.clear();
        state.start = 0;
        if state.buffer.capacity() > BUFFER_BYTES_KEPT {
            state.buffer = Vec::new();
        }
        match &mut state.tls {
            Some(tls) => self.write_encrypted(tls, &[]).map(|_| ()),
            None => Ok(()),
        }
    }

    fn write(&self, state: &mut State, parts: &[&[u8]]) -> io::Result<usize> {
        match &mut state.tls {
            Some(tls) => self.write_encrypted(tls, parts),
            None => self.write_plain(parts),
        }
    }

    /// Writes until the socket takes no more; returns the bytes written.
    fn write_plain(&self, parts: &[&[u8]]) -> io::Result<usize> {
        let total: usize = parts.iter().map(|part| part.len()).sum();
        let mut done = 0;
        while done < total {
            let mut slices = [IoSlice::new(&[]); PARTS_MAX];
            let count = rest_of(parts, done, &mut slices);
            match self.socket.write(&slices[..count]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    done += count;
                    self.written.fetch_add(count as u64, Ordering::Relaxed);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// Encrypts and writes until the socket takes no more; returns the bytes encrypted.
    fn write_encrypted(&self, tls: &mut ServerConnection, parts: &[&[u8]]) -> io::Result<usize> {
        let (mut done, mut rest) = (0, parts.iter().flat_map(|part| part.chunks(TLS_BYTES_MAX / 4)));
        loop {
            while tls.wants_write() {
                match tls.write_tls(&mut Encrypted(&self.socket, &self.written)) {
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(done),
                    Err(error) => return Err(error),
                }
            }
            let Some(chunk) = rest.next() else { return Ok(done) };
            let taken = tls.writer().write(chunk)?;
            done += taken;
            if taken < chunk.len() {
                return Ok(done);
            }
        }
    }

    fn disconnect(&self, state: &mut State) {
        self.broken.store(true, Ordering::Release);
        (state.buffer, state.start) = (Vec::new(), 0);
        self.waiting.store(0, Ordering::Release);
    }

    fn note(&self, state: &State) {
        let encrypted = state.tls.as_ref().is_some_and(|tls| tls.wants_write());
        let waiting = state.buffer.len() - state.start + usize::from(encrypted);
        self.waiting.store(waiting, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_empty(&self) -> bool {
        self.start == self.buffer.len()
    }

    /// Appends all but the first `done` bytes to the buffer.
    fn append(&mut self, parts: &[&[u8]], mut done: usize) {
        for part in parts {
            let skipped = done.min(part.len());
            self.buffer.extend_from_slice(&part[skipped..]);
            done -= skipped;
        }
    }
}

/// The pieces without their first `done` bytes, as many as there are slices.
fn rest_of<'a>(parts: &[&'a [u8]], mut done: usize, slices: &mut [IoSlice<'a>; PARTS_MAX]) -> usize {
    let mut count = 0;
    for part in parts {
        let skipped = done.min(part.len());
        done -= skipped;
        if skipped < part.len() && count < PARTS_MAX {
            slices[count] = IoSlice::new(&part[skipped..]);
            count += 1;
        }
    }
    count
}

/// The socket, for the TLS session.
struct Encrypted<'a>(&'a Socket, &'a AtomicU64);

impl Read for Encrypted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Encrypted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let count = self.0.write(parts)?;
        self.1.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::socket::LocalSocket;
    use mio::net::UnixStream;
    use std::thread;

    fn pair(waiting_max: usize) -> (SendBuffer, std::os::unix::net::UnixStream) {
        let (here, there) = std::os::unix::net::UnixStream::pair().unwrap();
        here.set_nonblocking(true).unwrap();
        (
            SendBuffer::new(Socket::Unix(LocalSocket::new(UnixStream::from_std(here))), None, waiting_max),
            there,
        )
    }

    #[test]
    fn bytes_that_do_not_fit_wait_in_order() {
        let (send_buffer, mut there) = pair(1 << 20);
        let mut sent = Vec::new();
        let piece: Vec<u8> = (0..100_000_u32).map(|i| (i % 251) as u8).collect();
        while send_buffer.has_capacity(piece.len()) {
            send_buffer.send(&[b"head", &[], &piece]);
            sent.extend_from_slice(b"head");
            sent.extend_from_slice(&piece);
        }
        assert!((1 << 19..=1 << 20).contains(&send_buffer.waiting()), "{}", send_buffer.waiting());
        send_buffer.send(&[b"the end"]);
        sent.extend_from_slice(b"the end");
        let expected = sent.len();
        let reader = thread::spawn(move || {
            let mut read = vec![0; expected];
            there.read_exact(&mut read).unwrap();
            read
        });
        while send_buffer.waiting() > 0 {
            send_buffer.flush();
            thread::yield_now();
        }
        assert!(reader.join().unwrap() == sent);
        assert_eq!(send_buffer.written(), expected as u64);
        assert!(send_buffer.lock().buffer.capacity() <= BUFFER_BYTES_KEPT, "the buffer shrinks");
    }

    #[test]
    fn after_a_disconnect_nothing_is_buffered() {
        let (send_buffer, there) = pair(1 << 20);
        drop(there);
        send_buffer.send(&[&[7; 100_000]]);
        send_buffer.send(&[&[7; 100_000]]);
        assert!(send_buffer.is_broken());
        assert_eq!(send_buffer.waiting(), 0);
    }

    #[test]
    fn slices_resume_at_any_offset() {
        let parts: [&[u8]; 3] = [b"abc", b"", b"defg"];
        for done in 0..=7 {
            let mut slices = [IoSlice::new(&[]); PARTS_MAX];
            let count = rest_of(&parts, done, &mut slices);
            let rest: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.to_vec()).collect();
            assert_eq!(rest, b"abcdefg"[done..]);
        }
    }
}
