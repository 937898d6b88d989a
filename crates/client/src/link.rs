//! One connection, from its welcome until it breaks.
//!
//! There is no thread that only reads: whoever waits for an answer or a push takes the reading half if it is free, hands
//! out all that comes, and passes the half on when his own is there. So an answer costs no change of threads. While
//! nobody waits the line's keeper reads ([`Link::keep`]).
//!
//! Always true: who has `reader` hands out frames in the order in which they came, alone; no lock is held while he does
//! so but that one; a channel in `receivers` is open in `session`, and after `broken` is set there is none.

use crate::options::Options;
use crate::signal::{Signal, locked};
use crate::slot::{Answer, Slot};
use crate::socket::{Socket, is_timeout, shake_hands};
use crate::{address::Address, convert};
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, TryLockError};
use std::thread;
use std::time::{Duration, Instant};
use tapedb_engine::Error;
use tapedb_wire::{ClientSession, Decoder, Due, Pulse, ToClient, ToServer, WireError};

/// Bytes that are read at once, if they are there.
const READ_BYTES: usize = 256 << 10;
/// A read waits no longer before the pulse is looked at.
const READ_TIMEOUT: Duration = Duration::from_millis(250);

/// So long the keeper leaves the reading half alone where nobody misses what comes.
const REST: Duration = Duration::from_millis(2);

/// What takes in what comes on a channel.
pub(crate) trait Receiver: Send + Sync {
    /// Takes a message in. Must be quick, and ask for nothing.
    fn receive(&self, message: ToClient<'_>) -> Result<(), WireError>;
    /// The connection is lost; nothing more comes.
    fn lost(&self);
    /// Whether what comes is wanted at once even while nobody waits for it at the connection.
    fn is_urgent(&self) -> bool {
        false
    }
}

/// A connection that has been let in.
pub(crate) struct Link {
    socket: Socket,
    /// The reading half.
    reader: Mutex<Reader>,
    /// The writing half.
    writer: Mutex<()>,
    /// Frames that whoever writes next writes too.
    posted: Mutex<Vec<u8>>,
    channels: Mutex<Channels>,
    /// Those who wait for something that comes over this connection.
    waiters: Signal,
    /// [`Options::spin`].
    spin: Duration,
    /// How often somebody else than the keeper began to read.
    led: AtomicU64,
    broken: OnceLock<String>,
    /// Commands under way: sealing may take the server minutes, in which it says nothing.
    commands: AtomicUsize,
    born: Instant,
    pulse: Mutex<Pulse>,
}

struct Reader {
    decoder: Decoder,
    timeout: Duration,
}

struct Channels {
    session: ClientSession,
    receivers: HashMap<u32, Arc<dyn Receiver>>,
}

/// The connection was lost, and how.
#[derive(Debug)]
pub(crate) struct Lost(pub String);

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("broken", &self.broken.get()).finish_non_exhaustive()
    }
}

impl Link {
    /// Connects, and is let in.
    ///
    /// # Errors
    /// [`Error::Unreachable`], and [`Error::Refused`] when there is no use in trying again.
    pub fn open(address: &Address, options: &Options) -> Result<Self, Error> {
        let unreachable = |why: String| Error::Unreachable { place: address.to_string(), why };
        let (socket, came) =
            Socket::connect(address, options).map_err(|error| unreachable(error.to_string()))?;
        let mut greeting =
            Greeting { socket: &socket, decoder: Decoder::new(), session: ClientSession::new() };
        greeting.decoder.push(&came);
        let heartbeat = match greeting.shake_hands(options) {
            Ok(Ok(heartbeat)) => heartbeat,
            Ok(Err(refusal)) => return Err(convert::refused(address, refusal)),
            Err(error) => {
                let why = mismatch(address, &error, greeting.decoder.pending());
                let refused = |why| Error::Refused { place: address.to_string(), why };
                let not_let_in = || unreachable(format!("it has not let the client in: {error}"));
                return Err(why.map_or_else(not_let_in, refused));
            }
        };
        let Greeting { decoder, session, .. } = greeting;
        Ok(Self {
            reader: Mutex::new(Reader { decoder, timeout: Duration::ZERO }),
            writer: Mutex::default(),
            posted: Mutex::default(),
            channels: Mutex::new(Channels { session, receivers: HashMap::new() }),
            waiters: Signal::default(),
            spin: options.spin,
            led: AtomicU64::new(0),
            broken: OnceLock::new(),
            commands: AtomicUsize::new(0),
            born: Instant::now(),
            pulse: Mutex::new(Pulse::new(heartbeat.into(), 0)),
            socket,
        })
    }

    /// Asks for something: the answer comes into a slot.
    ///
    /// # Errors
    /// [`Lost`]: it was not asked.
    pub fn ask(&self, message: &ToServer<'_>, buffer: Vec<u8>) -> Result<Arc<Slot>, Lost> {
        let slot = Arc::new(Slot::new(buffer));
        self.open_channel(message, slot.clone())?;
        Ok(slot)
    }

    /// Asks for something, or begins a watch or a load; what comes goes to a receiver. Returns the channel.
    ///
    /// # Errors
    /// [`Lost`]: it was not asked.
    pub fn open_channel(&self, message: &ToServer<'_>, receiver: Arc<dyn Receiver>) -> Result<u32, Lost> {
        let mut frame = Vec::with_capacity(64);
        let channel = {
            let mut channels = locked(&self.channels);
            self.check()?;
            let channel = channels.session.ask(message, &mut frame);
            channels.receivers.insert(channel, receiver);
            channel
        };
        // If this fails the receiver is told, as of a connection that is lost later.
        self.send(&frame, &[]);
        Ok(channel)
    }

    /// Waits for an answer.
    ///
    /// # Errors
    /// [`Lost`]: it may have been answered or not.
    pub fn answer(&self, slot: &Slot) -> Result<Answer, Lost> {
        self.wait(slot.signal(), &|| slot.is_done(), None);
        slot.take().ok_or_else(|| self.lost())
    }

    /// Asks for something that may take long, and waits for the answer.
    ///
    /// # Errors
    /// [`Lost`]: it may have been done or not.
    pub fn command(&self, message: &ToServer<'_>) -> Result<Answer, Lost> {
        self.commands.fetch_add(1, Ordering::Relaxed);
        let answer = self.ask(message, Vec::new()).and_then(|slot| self.answer(&slot));
        self.commands.fetch_sub(1, Ordering::Relaxed);
        answer
    }

    /// Waits until something is true of what the connection brings, the connection is lost, or the time is over. Whoever
    /// makes it true rings the signal. Returns whether it is true.
    pub fn wait(&self, signal: &Signal, done: &dyn Fn() -> bool, until: Option<Instant>) -> bool {
        if done() {
            return true;
        }
        signal.join();
        self.waiters.join();
        let is_done = loop {
            if done() || self.is_broken() {
                break done();
            }
            let left =
                until.map_or(Duration::from_secs(1), |at| at.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                break false;
            }
            match self.reader.try_lock() {
                Ok(mut reader) => {
                    self.led.fetch_add(1, Ordering::Relaxed);
                    self.lead(&mut reader, done, until);
                }
                Err(TryLockError::Poisoned(_)) => self.break_off("a thread that read from it panicked"),
                Err(TryLockError::WouldBlock) => thread::park_timeout(left),
            }
        };
        self.waiters.leave();
        signal.leave();
        self.hand_on();
        is_done
    }

    /// Sends frames that are ready, in two pieces.
    pub fn send(&self, first: &[u8], second: &[u8]) {
        {
            let _writing = locked(&self.writer);
            self.write(first, second);
        }
        self.flush_posted();
    }

    /// Sends a message when there is no other being sent; does not wait for those.
    pub fn post(&self, channel: u32, message: &ToServer<'_>) {
        message.encode(channel, &mut locked(&self.posted));
        self.flush_posted();
    }

    /// Reads while nobody else does, and keeps the pulse, until the connection breaks. For one thread: its keeper.
    pub fn keep(&self) {
        let mut led = self.led.load(Ordering::Relaxed);
        while !self.is_broken() {
            self.beat();
            let led_before = std::mem::replace(&mut led, self.led.load(Ordering::Relaxed));
            // Who has just read will most likely read again, and should not have to be woken then.
            match (led_before == led).then(|| self.reader.try_lock()) {
                Some(Ok(mut reader)) => {
                    self.lead_alone(&mut reader);
                    drop(reader);
                    self.rest();
                }
                Some(Err(TryLockError::Poisoned(_))) => self.break_off("a thread that read from it panicked"),
                Some(Err(TryLockError::WouldBlock)) => thread::park_timeout(READ_TIMEOUT),
                None => thread::park_timeout(REST),
            }
            self.hand_on();
        }
    }

    /// Whether the connection is lost.
    pub fn is_broken(&self) -> bool {
        self.broken.get().is_some()
    }

    /// How the connection was lost.
    pub fn lost(&self) -> Lost {
        Lost(self.broken.get().cloned().unwrap_or_else(|| "the answer was another's".into()))
    }

    /// Ends the connection; the first reason counts.
    pub fn break_off(&self, why: &str) {
        let receivers = {
            let mut channels = locked(&self.channels);
            if self.broken.set(why.into()).is_err() {
                return;
            }
            std::mem::take(&mut channels.receivers)
        };
        self.socket.shutdown();
        receivers.values().for_each(|receiver| receiver.lost());
        self.waiters.ring();
    }

    fn check(&self) -> Result<(), Lost> {
        if self.is_broken() { Err(self.lost()) } else { Ok(()) }
    }

    /// Reads and hands out until something is true.
    fn lead(&self, reader: &mut Reader, done: &dyn Fn() -> bool, until: Option<Instant>) {
        loop {
            if let Err(why) = self.hand_out(reader) {
                return self.break_off(&why);
            }
            if done() || self.is_broken() {
                return;
            }
            let left = until.map_or(READ_TIMEOUT, |at| at.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return;
            }
            if let Err(why) = self.fill(reader, self.spin.min(left), left.min(READ_TIMEOUT)) {
                return self.break_off(&why);
            }
        }
    }

    /// Reads and hands out as long as nobody waits, or once where nothing that comes is urgent.
    fn lead_alone(&self, reader: &mut Reader) {
        loop {
            let read = self.hand_out(reader).and_then(|()| self.fill(reader, Duration::ZERO, READ_TIMEOUT));
            if let Err(why) = read.and_then(|()| self.hand_out(reader)) {
                return self.break_off(&why);
            }
            self.beat();
            if self.is_broken() || !self.waiters.is_empty() || !self.has_urgent() {
                return;
            }
        }
    }

    /// Lets what nobody waits for gather, such as the answers to batches: being woken for each costs more than taking it.
    fn rest(&self) {
        if self.waiters.is_empty() && !self.is_broken() && !self.has_urgent() {
            thread::park_timeout(REST);
        }
    }

    fn has_urgent(&self) -> bool {
        locked(&self.channels).receivers.values().any(|receiver| receiver.is_urgent())
    }

    /// Reads what there is, if anything comes in time.
    fn fill(&self, reader: &mut Reader, spin: Duration, timeout: Duration) -> Result<(), String> {
        match self.read(reader, spin, timeout) {
            Ok(0) => return Err("the server closed it".into()),
            Ok(read) => {
                reader.decoder.filled(read);
                locked(&self.pulse).heard(self.now());
            }
            Err(error) if is_timeout(&error) => self.beat(),
            Err(error) => return Err(error.to_string()),
        }
        Ok(())
    }

    /// Reads what there is; at first without sleeping.
    fn read(&self, reader: &mut Reader, spin: Duration, timeout: Duration) -> io::Result<usize> {
        let room = reader.decoder.room(READ_BYTES);
        if !spin.is_zero() {
            let until = Instant::now() + spin;
            loop {
                match self.socket.read_now(room) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    done => return done,
                }
                if Instant::now() >= until {
                    break;
                }
                // Whoever shall send it may need this core.
                thread::yield_now();
            }
        }
        self.socket.read_within(room, timeout, &mut reader.timeout)
    }

    /// Hands out all frames that are there.
    fn hand_out(&self, reader: &mut Reader) -> Result<(), String> {
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

    /// Takes in what concerns the connection itself.
    fn receive(&self, message: &ToClient<'_>) -> Result<(), String> {
        match message {
            ToClient::Ping { number } => self.post(0, &ToServer::Pong { number: *number }),
            ToClient::Goodbye { failure } => {
                return Err(format!("the server ended it: {}", convert::error(failure)));
            }
            _ => {}
        }
        Ok(())
    }

    /// Lets another waiter read, if nobody does.
    fn hand_on(&self) {
        if !self.waiters.is_empty() && self.reader.try_lock().is_ok() {
            self.waiters.ring_one();
        }
    }

    fn flush_posted(&self) {
        // Who writes meanwhile looks once more afterwards: whatever was posted before that is written by one of the two.
        while !locked(&self.posted).is_empty() {
            let Ok(_writing) = self.writer.try_lock() else { return };
            let posted = std::mem::take(&mut *locked(&self.posted));
            self.write(&posted, &[]);
        }
    }

    fn write(&self, first: &[u8], second: &[u8]) {
        match self.socket.write_all(first, second) {
            Ok(()) => locked(&self.pulse).said(self.now()),
            Err(error) if is_timeout(&error) => self.break_off("the server has taken nothing for too long"),
            Err(error) => self.break_off(&error.to_string()),
        }
    }

    /// Says something if nothing was said for long, and gives up a server from which nothing was heard.
    fn beat(&self) {
        let now = self.now();
        let due = locked(&self.pulse).due(now);
        match due {
            Due::At(_) => {}
            Due::Now => self.post(0, &ToServer::Ping { number: now }),
            // If it is gone and not just busy, the system finds out.
            Due::Dead if self.commands.load(Ordering::Relaxed) > 0 => {
                locked(&self.pulse).heard(now);
                self.post(0, &ToServer::Ping { number: now });
            }
            Due::Dead => self.break_off("nothing was heard from the server for three heartbeats"),
        }
    }

    fn now(&self) -> u64 {
        self.born.elapsed().as_millis() as u64
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if !self.is_broken() {
            self.post(0, &ToServer::Goodbye { reason: "the client is done" });
            self.socket.shutdown();
        }
    }
}

/// Why there is no use in trying again: what answers is not what the URL says. `came` is what has come of it.
fn mismatch(address: &Address, error: &io::Error, came: &[u8]) -> Option<String> {
    let of_tls = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
    if let (Address::Tls { host, port }, Some(rustls::Error::InvalidMessage(_))) = (address, of_tls) {
        let plain = Address::Tcp { host: host.clone(), port: *port };
        return Some(format!(
            "what answers there speaks no TLS; for a server without it write {plain} (its HTTP port is for browsers alone)"
        ));
    }
    match came {
        [b'H', b'T', b'T', b'P', ..] => Some(
            "that is an HTTP port, as a server has for health and metrics; its clients connect to another, 7847 unless changed".into(),
        ),
        [0x15 | 0x16, 3, ..] => {
            let Address::Tcp { host, port } = address else { return None };
            Some(format!("it speaks TLS; write {}", Address::Tls { host: host.clone(), port: *port }))
        }
        _ => None,
    }
}

/// A connection that has not been let in.
struct Greeting<'s> {
    socket: &'s Socket,
    decoder: Decoder,
    session: ClientSession,
}

impl Greeting<'_> {
    /// Says hello; returns the heartbeat in milliseconds, or why the server does not let the client in.
    fn shake_hands(&mut self, options: &Options) -> io::Result<Result<u32, tapedb_wire::Parts>> {
        let until = Instant::now() + options.connect_timeout;
        self.socket.set_read_timeout(options.connect_timeout)?;
        shake_hands(self.socket)?;
        let mut hello = Vec::new();
        ClientSession::hello(&options.program, options.login.as_wire(), &mut hello);
        // Where something has come already, it is why the client is turned away.
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
                return Err(io::Error::new(io::ErrorKind::TimedOut, "it said nothing in time"));
            }
            self.socket.set_read_timeout(left)?;
            let read = self.socket.read(self.decoder.room(1024)).map_err(|error| match is_timeout(&error) {
                true => io::Error::new(io::ErrorKind::TimedOut, "it said nothing in time"),
                false => error,
            });
            match read? {
                0 => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection")),
                read => self.decoder.filled(read),
            }
        }
    }
}
