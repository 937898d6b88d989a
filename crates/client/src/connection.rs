//! One connection, from its welcome until it breaks.
//!
//! No thread only reads: a thread that waits for an answer or a push takes the reading half if it is free, dispatches
//! all received messages, and passes the half on when its own message has arrived. So an answer costs no thread switch.
//! While no thread waits, the maintenance thread reads ([`Connection::maintain`]).
//!
//! Always true: the holder of `reader` dispatches frames in their order, alone; no other lock is held during a
//! dispatch; a channel in `receivers` is open in `session`, and after `broken` is set there is none.

use crate::address::Address;
use crate::answer::{Answer, PendingAnswer};
use crate::certificate_verifier;
use crate::convert::{self, is_timeout};
use crate::notifier::{Notifier, locked};
use crate::options::Options;
use crate::receiver::Receiver;
use crate::socket::{Socket, shake_hands};
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, TryLockError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};
use tapedb_engine::interrupt::{is_interrupted, slice};
use tapedb_engine::{ConnectionError, Error};
use tapedb_wire::{ClientSession, Decoder, Due, Heartbeat, ToClient, ToServer};

/// The most bytes of one read.
const READ_BYTES: usize = 256 << 10;
/// The longest wait of a read before the heartbeat is checked.
const READ_TIMEOUT: Duration = Duration::from_millis(250);

/// How long the maintenance thread leaves the reading half alone while no receiver is urgent.
const ACCUMULATE_TIME: Duration = Duration::from_millis(2);

/// A connection that the server has accepted.
pub(crate) struct Connection {
    socket: Socket,
    /// The reading half.
    reader: Mutex<Reader>,
    /// The writing half.
    writer: Mutex<()>,
    /// Frames that the next writer sends too.
    posted: Mutex<Vec<u8>>,
    channels: Mutex<Channels>,
    /// Threads that wait for a message of this connection.
    waiters: Notifier,
    /// [`Options::spin`].
    spin: Duration,
    /// How often another thread than the maintenance thread began to read.
    foreign_reads: AtomicU64,
    broken: OnceLock<String>,
    /// The thread in [`Connection::maintain`].
    maintainer: OnceLock<Thread>,
    /// Running commands: sealing may take minutes, in which the server sends nothing.
    commands: AtomicUsize,
    /// Whether the server runs queries, once it was asked.
    has_queries: OnceLock<bool>,
    opened: Instant,
    heartbeat: Mutex<Heartbeat>,
}

struct Reader {
    decoder: Decoder,
    timeout: Duration,
}

struct Channels {
    session: ClientSession,
    receivers: HashMap<u32, Arc<dyn Receiver>>,
}

/// The connection was lost, with the reason.
#[derive(Debug)]
pub(crate) struct Lost(pub String);

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("broken", &self.broken.get()).finish_non_exhaustive()
    }
}

impl Connection {
    /// Connects and authenticates.
    ///
    /// # Errors
    /// [`ConnectionError::Unreachable`]; [`ConnectionError::Refused`] when another attempt would fail too.
    pub fn open(address: &Address, options: &Options) -> Result<Self, Error> {
        let place = || address.to_string().into();
        let unreachable =
            |why: String| Error::Connection(ConnectionError::Unreachable { place: place(), why });
        let (socket, received) =
            Socket::connect(address, options).map_err(|error| unreachable(error.to_string()))?;
        let mut handshake =
            Handshake { socket: &socket, decoder: Decoder::new(), session: ClientSession::new() };
        handshake.decoder.push(&received);
        let heartbeat = match handshake.shake_hands(options) {
            Ok(Ok(heartbeat)) => heartbeat,
            Ok(Err(refusal)) => return Err(convert::refused(address, refusal)),
            Err(error) => {
                let why = mismatch(address, &error, handshake.decoder.pending());
                let refused = |why| Error::Connection(ConnectionError::Refused { place: place(), why });
                let not_let_in = || unreachable(format!("it did not accept the client: {error}"));
                return Err(why.map_or_else(not_let_in, refused));
            }
        };
        let Handshake { decoder, session, .. } = handshake;
        Ok(Self {
            reader: Mutex::new(Reader { decoder, timeout: Duration::ZERO }),
            writer: Mutex::default(),
            posted: Mutex::default(),
            channels: Mutex::new(Channels { session, receivers: HashMap::new() }),
            waiters: Notifier::default(),
            spin: options.spin,
            foreign_reads: AtomicU64::new(0),
            broken: OnceLock::new(),
            maintainer: OnceLock::new(),
            commands: AtomicUsize::new(0),
            has_queries: OnceLock::new(),
            opened: Instant::now(),
            heartbeat: Mutex::new(Heartbeat::new(heartbeat.into(), 0)),
            socket,
        })
    }

    /// Sends a request; the answer arrives in the returned object.
    ///
    /// # Errors
    /// [`Lost`]: the request was not sent.
    pub fn ask(&self, message: &ToServer<'_>, buffer: Vec<u8>) -> Result<Arc<PendingAnswer>, Lost> {
        let pending = Arc::new(PendingAnswer::new(buffer));
        self.open_channel(message, pending.clone())?;
        Ok(pending)
    }

    /// Sends a request, or begins a watch or a load; its messages go to `receiver`. Returns the channel.
    ///
    /// # Errors
    /// [`Lost`]: the request was not sent.
    pub fn open_channel(&self, message: &ToServer<'_>, receiver: Arc<dyn Receiver>) -> Result<u32, Lost> {
        let mut frame = Vec::with_capacity(64);
        let channel = {
            let mut channels = locked(&self.channels);
            self.check()?;
            let channel = channels.session.ask(message, &mut frame);
            channels.receivers.insert(channel, receiver);
            channel
        };
        // If this fails the receiver is notified as for a later loss of the connection.
        self.send(&frame, &[]);
        Ok(channel)
    }

    /// Waits for an answer.
    ///
    /// # Errors
    /// [`Lost`]: the request may have been executed or not.
    pub fn answer(&self, pending: &PendingAnswer) -> Result<Answer, Lost> {
        self.wait(pending.notifier(), &|| pending.is_done(), None);
        pending.take().ok_or_else(|| self.lost())
    }

    /// Executes a command that may take long, and waits for the answer.
    ///
    /// # Errors
    /// [`Lost`]: the command may have been executed or not.
    pub fn command(&self, message: &ToServer<'_>) -> Result<Answer, Lost> {
        self.commands.fetch_add(1, Ordering::Relaxed);
        let answer = self.ask(message, Vec::new()).and_then(|pending| self.answer(&pending));
        self.commands.fetch_sub(1, Ordering::Relaxed);
        answer
    }

    /// Whether the server accepts watches of some messages.
    pub fn watches_some(&self) -> bool {
        locked(&self.channels).session.watches_some()
    }

    /// Whether the server runs queries, if it was asked.
    pub fn has_queries(&self) -> Option<bool> {
        self.has_queries.get().copied()
    }

    /// The server has answered whether it runs queries.
    pub fn note_queries(&self, has_queries: bool) {
        let _ = self.has_queries.set(has_queries);
    }

    /// Waits for a condition that depends on received messages, until it is true, the connection is lost, the time
    /// is over, or the calling thread is [interrupted](crate::interruptible). A thread that makes it true notifies
    /// `notifier`. Returns whether it is true.
    pub fn wait(&self, notifier: &Notifier, done: &dyn Fn() -> bool, until: Option<Instant>) -> bool {
        if done() {
            return true;
        }
        notifier.register();
        self.waiters.register();
        let is_done = loop {
            if done() || self.is_broken() || is_interrupted() {
                break done();
            }
            let left =
                until.map_or(Duration::from_secs(1), |at| at.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                break false;
            }
            let left = slice(left);
            match self.reader.try_lock() {
                Ok(mut reader) => {
                    self.foreign_reads.fetch_add(1, Ordering::Relaxed);
                    self.read_until(&mut reader, done, until);
                }
                Err(TryLockError::Poisoned(_)) => self.close("a thread that read from it panicked"),
                Err(TryLockError::WouldBlock) => thread::park_timeout(left),
            }
        };
        self.waiters.unregister();
        notifier.unregister();
        self.hand_over();
        is_done
    }

    /// Sends encoded frames, in two pieces.
    pub fn send(&self, first: &[u8], second: &[u8]) {
        {
            let _writing = locked(&self.writer);
            self.write(first, second);
        }
        self.flush_posted();
    }

    /// Queues a message and sends it if no other thread is sending; otherwise that thread sends it.
    pub fn post(&self, channel: u32, message: &ToServer<'_>) {
        message.encode(channel, &mut locked(&self.posted));
        self.flush_posted();
    }

    /// Reads while no other thread does, and sends heartbeats, until the connection breaks. Called by the maintenance
    /// thread.
    pub fn maintain(&self) {
        self.maintainer.get_or_init(thread::current);
        let mut foreign_reads = self.foreign_reads.load(Ordering::Relaxed);
        while !self.is_broken() {
            self.check_heartbeat();
            let reads_before =
                std::mem::replace(&mut foreign_reads, self.foreign_reads.load(Ordering::Relaxed));
            // A thread that has just read will most likely read again, and then needs not be woken.
            match (reads_before == foreign_reads).then(|| self.reader.try_lock()) {
                Some(Ok(mut reader)) => {
                    self.read_while_idle(&mut reader);
                    drop(reader);
                    self.let_accumulate();
                }
                Some(Err(TryLockError::Poisoned(_))) => self.close("a thread that read from it panicked"),
                Some(Err(TryLockError::WouldBlock)) => thread::park_timeout(READ_TIMEOUT),
                None => thread::park_timeout(ACCUMULATE_TIME),
            }
            self.hand_over();
        }
    }

    /// Whether the connection is lost.
    pub fn is_broken(&self) -> bool {
        self.broken.get().is_some()
    }

    /// The reason why the connection was lost.
    pub fn lost(&self) -> Lost {
        Lost(self.broken.get().cloned().unwrap_or_else(|| "the answer does not match the request".into()))
    }

    /// Closes the connection; the first reason counts.
    pub fn close(&self, why: &str) {
        let receivers = {
            let mut channels = locked(&self.channels);
            if self.broken.set(why.into()).is_err() {
                return;
            }
            std::mem::take(&mut channels.receivers)
        };
        self.socket.shutdown();
        receivers.values().for_each(|receiver| receiver.lost());
        self.waiters.notify_all();
        // It sleeps while another thread reads, and it is the one that reconnects.
        self.maintainer.get().into_iter().for_each(Thread::unpark);
    }

    fn check(&self) -> Result<(), Lost> {
        if self.is_broken() { Err(self.lost()) } else { Ok(()) }
    }

    /// Reads and dispatches until a condition is true.
    fn read_until(&self, reader: &mut Reader, done: &dyn Fn() -> bool, until: Option<Instant>) {
        loop {
            if let Err(why) = self.dispatch(reader) {
                return self.close(&why);
            }
            if done() || self.is_broken() || is_interrupted() {
                return;
            }
            let left = until.map_or(READ_TIMEOUT, |at| at.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return;
            }
            if let Err(why) = self.fill(reader, self.spin.min(left), slice(left.min(READ_TIMEOUT))) {
                return self.close(&why);
            }
        }
    }

    /// Reads and dispatches as long as no thread waits, or once if no receiver is urgent.
    fn read_while_idle(&self, reader: &mut Reader) {
        loop {
            let read = self.dispatch(reader).and_then(|()| self.fill(reader, Duration::ZERO, READ_TIMEOUT));
            if let Err(why) = read.and_then(|()| self.dispatch(reader)) {
                return self.close(&why);
            }
            self.check_heartbeat();
            if self.is_broken() || !self.waiters.is_empty() || !self.has_urgent() {
                return;
            }
        }
    }

    /// Lets messages accumulate that no thread waits for, such as the answers to batches: a wake-up for each would cost
    /// more than processing it.
    fn let_accumulate(&self) {
        if self.waiters.is_empty() && !self.is_broken() && !self.has_urgent() {
            thread::park_timeout(ACCUMULATE_TIME);
        }
    }

    fn has_urgent(&self) -> bool {
        locked(&self.channels).receivers.values().any(|receiver| receiver.is_urgent())
    }

    /// Reads available bytes, or waits for them up to the timeout.
    fn fill(&self, reader: &mut Reader, spin: Duration, timeout: Duration) -> Result<(), String> {
        match self.read(reader, spin, timeout) {
            Ok(0) => return Err("the server closed the connection".into()),
            Ok(read) => {
                reader.decoder.filled(read);
                locked(&self.heartbeat).note_received(self.now());
            }
            Err(error) if is_timeout(&error) => self.check_heartbeat(),
            Err(error) => return Err(error.to_string()),
        }
        Ok(())
    }

    /// Reads available bytes; at first by polling.
    fn read(&self, reader: &mut Reader, spin: Duration, timeout: Duration) -> io::Result<usize> {
        let buffer = reader.decoder.spare(READ_BYTES);
        if !spin.is_zero() {
            let until = Instant::now() + spin;
            loop {
                match self.socket.read_now(buffer) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    done => return done,
                }
                if Instant::now() >= until {
                    break;
                }
                // The sender may need this core.
                thread::yield_now();
            }
        }
        self.socket.read_within(buffer, timeout, &mut reader.timeout)
    }

    /// Dispatches all received frames.
    fn dispatch(&self, reader: &mut Reader) -> Result<(), String> {
        loop {
            let frame = match reader.decoder.next_frame() {
                Ok(Some(frame)) => frame,
                Ok(None) => return Ok(()),
                Err(error) => return Err(error.to_string()),
            };
            let (message, receiver) = {
                let mut channels = locked(&self.channels);
                let (channel, message) =
                    channels.session.receive(frame).map_err(|error| error.to_string())?;
                let receiver = match channels.session.is_open(channel) {
                    true => channels.receivers.get(&channel).cloned(),
                    false => channels.receivers.remove(&channel),
                };
                (message, receiver)
            };
            match receiver {
                Some(receiver) => receiver.receive(message).map_err(|error| error.to_string())?,
                None => self.receive(&message)?,
            }
        }
    }

    /// Processes messages for the connection itself.
    fn receive(&self, message: &ToClient<'_>) -> Result<(), String> {
        match message {
            ToClient::Ping { number } => self.post(0, &ToServer::Pong { number: *number }),
            ToClient::Goodbye { failure } => {
                return Err(format!("the server closed the connection: {}", convert::reason(failure)));
            }
            _ => {}
        }
        Ok(())
    }

    /// Lets another waiting thread read, if no thread does.
    fn hand_over(&self) {
        if !self.waiters.is_empty() && self.reader.try_lock().is_ok() {
            self.waiters.notify_one();
        }
    }

    fn flush_posted(&self) {
        // The current writer checks again afterwards: a posted frame is written by one of the two threads.
        while !locked(&self.posted).is_empty() {
            let Ok(_writing) = self.writer.try_lock() else { return };
            let posted = std::mem::take(&mut *locked(&self.posted));
            self.write(&posted, &[]);
        }
    }

    fn write(&self, first: &[u8], second: &[u8]) {
        match self.socket.write_all(first, second) {
            Ok(()) => locked(&self.heartbeat).note_sent(self.now()),
            Err(error) if is_timeout(&error) => self.close("the server did not read for too long"),
            Err(error) => self.close(&error.to_string()),
        }
    }

    /// Sends a heartbeat when it is due, and closes the connection to a silent server.
    fn check_heartbeat(&self) {
        let now = self.now();
        let due = locked(&self.heartbeat).due(now);
        match due {
            Due::At(_) => {}
            Due::Now => self.post(0, &ToServer::Ping { number: now }),
            // A dead connection is then detected by the operating system.
            Due::Dead if self.commands.load(Ordering::Relaxed) > 0 => {
                locked(&self.heartbeat).note_received(now);
                self.post(0, &ToServer::Ping { number: now });
            }
            Due::Dead => self.close("nothing was received from the server for three heartbeats"),
        }
    }

    fn now(&self) -> u64 {
        self.opened.elapsed().as_millis() as u64
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if !self.is_broken() {
            self.post(0, &ToServer::Goodbye { reason: "the client is done" });
            self.socket.shutdown();
        }
    }
}

/// Why another attempt would fail too: the server's protocol is not the one of the URL, or its certificate is refused. `received` are the received bytes.
fn mismatch(address: &Address, error: &io::Error, received: &[u8]) -> Option<String> {
    let of_tls = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
    if let (Address::Tls { host, port }, Some(rustls::Error::InvalidMessage(_))) = (address, of_tls) {
        let plain = Address::Tcp { host: host.clone(), port: *port };
        return Some(format!(
            "the server there does not use TLS; for a server without TLS write {plain} (its HTTP port is only for health and metrics)"
        ));
    }
    if let Some(rustls::Error::InvalidCertificate(wrong)) = of_tls {
        return Some(certificate_verifier::refusal(wrong));
    }
    match received {
        [b'H', b'T', b'T', b'P', ..] => Some(
            "that is an HTTP port, such as a server's for health and metrics; clients connect to another port, by default 7847".into(),
        ),
        [0x15 | 0x16, 3, ..] => {
            let Address::Tcp { host, port } = address else { return None };
            Some(format!("it uses TLS; write {}", Address::Tls { host: host.clone(), port: *port }))
        }
        _ => None,
    }
}

/// A connection before authentication.
struct Handshake<'s> {
    socket: &'s Socket,
    decoder: Decoder,
    session: ClientSession,
}

impl Handshake<'_> {
    /// Sends the hello; returns the heartbeat interval in milliseconds, or the reason why the server refuses the
    /// client.
    fn shake_hands(&mut self, options: &Options) -> io::Result<Result<u32, tapedb_wire::Coded>> {
        let until = Instant::now() + options.connect_timeout;
        self.socket.set_read_timeout(options.connect_timeout)?;
        shake_hands(self.socket)?;
        let mut hello = Vec::new();
        ClientSession::hello(&options.program, options.login.as_wire(), &mut hello);
        // Bytes that arrived before are the reason of a refusal.
        if self.decoder.pending().is_empty() {
            self.socket.write_all(&hello, &[])?;
        }
        loop {
            if let Some(frame) = self.decoder.next_frame().map_err(io::Error::other)? {
                match self.session.receive(frame).map_err(io::Error::other)?.1 {
                    ToClient::Welcome { heartbeat_ms, .. } => return Ok(Ok(heartbeat_ms)),
                    ToClient::Refused { failure } | ToClient::Goodbye { failure } => return Ok(Err(failure)),
                    _ => {}
                }
                continue;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time"));
            }
            self.socket.set_read_timeout(left)?;
            match self.socket.read(self.decoder.spare(1024)) {
                Ok(0) => {
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection"));
                }
                Ok(read) => self.decoder.filled(read),
                // A signal of the process, such as that of a window that changes its size: the answer may still come.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if is_timeout(&error) => {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "no answer in time"));
                }
                Err(error) => return Err(error),
            }
        }
    }
}
