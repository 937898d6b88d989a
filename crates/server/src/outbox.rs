//! What goes out over a connection. Whoever has something to say writes it at once, in his own thread; what does not fit
//! the socket waits in a buffer, which the connection's thread writes when there is room again.
//!
//! Always true: bytes go out in the order of [`Outbox::send`]; while something waits, nothing passes it. Those who send
//! ask before whether there is [room](Outbox::has_room), so what waits is at most the bound and one frame.

use crate::socket::Socket;
use mio::{Registry, Token};
use rustls::ServerConnection;
use std::io::{self, IoSlice, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What the buffer keeps of its memory when it is empty.
const BUFFER_BYTES_KEPT: usize = 256 << 10;
/// Encrypted bytes that wait in the TLS session: more would only be encrypted too early.
const TLS_BYTES_MAX: usize = 256 << 10;
/// Pieces handed to the system in one call.
const PARTS_MAX: usize = 4;

/// The sending half of a connection, and what both halves share: the socket and its encryption.
#[derive(Debug)]
pub(crate) struct Outbox {
    socket: Socket,
    state: Mutex<State>,
    /// Whether `state` has a TLS session: known without the lock.
    is_encrypted: bool,
    /// Bytes that wait, in the buffer and in the TLS session.
    waiting: AtomicUsize,
    waiting_max: usize,
    /// The other side is gone: what is sent is dropped.
    broken: AtomicBool,
    /// Bytes that the socket has taken.
    written: AtomicU64,
}

#[derive(Debug)]
struct State {
    tls: Option<Box<ServerConnection>>,
    buffer: Vec<u8>,
    /// What of the buffer is written already.
    start: usize,
}

impl Outbox {
    /// Over a socket that does not block.
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

    /// Whether `bytes` more may be sent now: alone, any number may.
    pub fn has_room(&self, bytes: usize) -> bool {
        let waiting = self.waiting();
        waiting == 0 || waiting + bytes <= self.waiting_max
    }

    /// Bytes that wait to be written.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Acquire)
    }

    /// Bytes that have been written.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Whether the other side is gone.
    pub fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    /// Sends the parts, one behind the other. Whether something waits that did not before: the connection's thread is to be
    /// told then, for it writes that when there is room.
    pub fn send(&self, parts: &[&[u8]]) -> bool {
        let mut state = self.lock();
        if self.is_broken() {
            return false;
        }
        let waited = self.waiting() > 0;
        let done = if state.is_empty() { self.write(&mut state, parts) } else { Ok(0) };
        match done {
            Ok(done) => state.keep(parts, done),
            Err(_) => self.break_off(&mut state),
        }
        self.note(&state);
        !waited && self.waiting() > 0
    }

    /// Has the parts wait for [`Outbox::flush`], behind what waits already.
    pub fn hold(&self, parts: &[&[u8]]) {
        let mut state = self.lock();
        if !self.is_broken() {
            state.keep(parts, 0);
            self.note(&state);
        }
    }

    /// Has a poll tell of what comes and, where that is waited for, of room to write.
    ///
    /// # Errors
    /// Those of the poll.
    pub fn register(&self, registry: &Registry, token: Token, waits_for_room: bool) -> io::Result<()> {
        self.socket.reregister(registry, token, waits_for_room)
    }

    /// Writes what waits, as far as there is room.
    pub fn flush(&self) {
        let mut state = self.lock();
        if self.is_broken() {
            return;
        }
        if self.flush_state(&mut state).is_err() {
            self.break_off(&mut state);
        }
        self.note(&state);
    }

    /// Reads what has come; `WouldBlock` when nothing has.
    ///
    /// # Errors
    /// Those of the socket; [`io::ErrorKind::InvalidData`] for what is no TLS.
    pub fn read(&self, room: &mut [u8]) -> io::Result<usize> {
        if !self.is_encrypted {
            return self.socket.read(room);
        }
        let mut state = self.lock();
        let read = self.read_encrypted(&mut state, room);
        // The handshake and its alerts.
        if self.flush_state(&mut state).is_err() && !matches!(read, Ok(1..)) {
            self.break_off(&mut state);
        }
        self.note(&state);
        read
    }

    /// Reads what has come as it came, to be thrown away.
    ///
    /// # Errors
    /// Those of the socket.
    pub fn read_unread(&self, room: &mut [u8]) -> io::Result<usize> {
        self.socket.read(room)
    }

    /// Whether what is read may end before all that has come is read.
    pub fn reads_in_part(&self) -> bool {
        self.is_encrypted || self.socket.pipe().is_some()
    }

    /// Has all that follows, both ways, go through shared memory, which is offered to the client now.
    ///
    /// # Errors
    /// As [`Socket::share_memory`].
    pub fn share_memory(&self) -> io::Result<()> {
        self.socket.share_memory()
    }

    /// Whether both ways go through shared memory.
    pub fn is_shared_memory(&self) -> bool {
        self.socket.pipe().is_some()
    }

    /// Tells a client behind shared memory that the connection's thread is about to sleep. Whether it may: `false` when something
    /// has come or there is room, whichever is wanted.
    ///
    /// # Errors
    /// When the client has broken the pipe.
    pub fn doze(&self, wants_data: bool, wants_room: bool) -> io::Result<bool> {
        self.socket.pipe().map_or(Ok(true), |pipe| pipe.prepare_sleep(wants_data, wants_room))
    }

    /// Tells it that the thread is awake, whatever has woken it.
    pub fn woke(&self, has_rung: bool) {
        if let Some(pipe) = self.socket.pipe() {
            pipe.end_sleep(has_rung);
        }
    }

    /// Says that nothing more follows; what waits is written before, as far as there is room.
    pub fn end(&self) {
        let mut state = self.lock();
        if let Some(tls) = &mut state.tls {
            tls.send_close_notify();
        }
        let _ = self.flush_state(&mut state);
        self.break_off(&mut state);
        self.socket.end();
    }

    fn read_encrypted(&self, state: &mut State, room: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &mut state.tls else { return Ok(0) };
        loop {
            match tls.reader().read(room) {
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

    /// Writes until there is no room; how many bytes.
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

    /// Encrypts and writes until there is no room; how many bytes were encrypted.
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

    fn break_off(&self, state: &mut State) {
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

    /// Keeps all but the first `done` bytes for later.
    fn keep(&mut self, parts: &[&[u8]], mut done: usize) {
        for part in parts {
            let skipped = done.min(part.len());
            self.buffer.extend_from_slice(&part[skipped..]);
            done -= skipped;
        }
    }
}

/// The parts without their first `done` bytes, as many as there are slices for.
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

/// The socket as the TLS session sees it.
struct Encrypted<'a>(&'a Socket, &'a AtomicU64);

impl Read for Encrypted<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.0.read(room)
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
    use crate::socket::Local;
    use mio::net::UnixStream;
    use std::thread;

    fn pair(waiting_max: usize) -> (Outbox, std::os::unix::net::UnixStream) {
        let (here, there) = std::os::unix::net::UnixStream::pair().unwrap();
        here.set_nonblocking(true).unwrap();
        (Outbox::new(Socket::Unix(Local::new(UnixStream::from_std(here))), None, waiting_max), there)
    }

    #[test]
    fn what_does_not_fit_waits_and_keeps_its_place() {
        let (outbox, mut there) = pair(1 << 20);
        let mut sent = Vec::new();
        let piece: Vec<u8> = (0..100_000_u32).map(|i| (i % 251) as u8).collect();
        while outbox.has_room(piece.len()) {
            outbox.send(&[b"head", &[], &piece]);
            sent.extend_from_slice(b"head");
            sent.extend_from_slice(&piece);
        }
        assert!((1 << 19..=1 << 20).contains(&outbox.waiting()), "{}", outbox.waiting());
        outbox.send(&[b"the end"]);
        sent.extend_from_slice(b"the end");
        let expected = sent.len();
        let reader = thread::spawn(move || {
            let mut read = vec![0; expected];
            there.read_exact(&mut read).unwrap();
            read
        });
        while outbox.waiting() > 0 {
            outbox.flush();
            thread::yield_now();
        }
        assert!(reader.join().unwrap() == sent);
        assert_eq!(outbox.written(), expected as u64);
        assert!(outbox.lock().buffer.capacity() <= BUFFER_BYTES_KEPT, "memory is given back");
    }

    #[test]
    fn when_the_other_side_is_gone_nothing_is_kept() {
        let (outbox, there) = pair(1 << 20);
        drop(there);
        outbox.send(&[&[7; 100_000]]);
        outbox.send(&[&[7; 100_000]]);
        assert!(outbox.is_broken());
        assert_eq!(outbox.waiting(), 0);
    }

    #[test]
    fn parts_go_on_where_they_were_cut() {
        let parts: [&[u8]; 3] = [b"abc", b"", b"defg"];
        for done in 0..=7 {
            let mut slices = [IoSlice::new(&[]); PARTS_MAX];
            let count = rest_of(&parts, done, &mut slices);
            let rest: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.to_vec()).collect();
            assert_eq!(rest, b"abcdefg"[done..]);
        }
    }
}
