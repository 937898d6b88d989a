//! One connection, on its own thread: reads requests, pushes to watches that are behind, sends heartbeats, and closes
//! in order. A slow operation here delays no other connection.
//!
//! Always true: nothing is read while the send buffer is full, so a client that does not read its answers cannot send
//! more requests; an unauthenticated client costs one small buffer, and shared memory if it requests that (only as much
//! as it writes to), for a limited time.

use crate::coalesce::Coalescing;
use crate::convert;
use crate::handle::ConnectionHandle;
use crate::handshakes::HandshakePermit;
use crate::log_limit::FailureKind;
use crate::session::Session;
use crate::state::ServerState;
use mio::{Events, Poll, Token};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};
use tapedb_access::{Credentials, Identity, Permit, Refusal};
use tapedb_wire::{
    Decoder, Due, FRAME_HEADER_BYTES, Frame, Heartbeat, Login, Opening, ServerSession, ToClient, ToServer,
    WireError,
};

/// Token of the socket.
pub(crate) const SOCKET: Token = Token(0);
/// Token of the waker.
pub(crate) const WAKER: Token = Token(1);

/// Bytes to read at once: little at first, more for clients that fill the buffer.
const READ_BYTES_MIN: usize = 8 << 10;
const READ_BYTES_MAX: usize = 512 << 10;
/// Reads in a row before other work is checked.
const READS_MAX: usize = 8;
/// Successful polls in a row before other work is checked.
const SPINS_MAX: u32 = 64;
/// Limit of frames before authentication.
const HELLO_BYTES_MAX: usize = 64 << 10;
/// Delay of the answer to a wrong login.
const REFUSAL_DELAY: Duration = Duration::from_millis(250);
/// Characters of the client's program name that are stored.
const PROGRAM_LETTERS_MAX: usize = 80;
/// How long the last message has to be sent, and how long a client that takes nothing is waited for.
const GOODBYE_MS: u64 = 1000;

/// A connection's thread.
pub(crate) struct Connection {
    server: Arc<ServerState>,
    handle: Arc<ConnectionHandle>,
    poll: Poll,
    decoder: Decoder,
    /// Whether there may be bytes to read.
    is_readable: bool,
    /// Whether the client has closed its side: no bytes follow those that were sent.
    is_read_closed: bool,
    /// Whether there may be a frame that was not taken.
    has_frames: bool,
    /// Whether something was received since the thread polled last.
    was_busy: bool,
    /// Whether the poll is registered for writability.
    wants_writable: bool,
    /// How long delayed answers may still wait.
    answers: Option<Duration>,
    read_bytes: usize,
    began: Instant,
    /// Milliseconds from then to the last check of the socket. What arrives later is not received yet, and is not
    /// missed.
    now: u64,
    /// The millisecond of the last measurement of an append.
    measured: Option<u64>,
    heartbeat: Heartbeat,
    written: u64,
    phase: Phase,
}

enum Phase {
    /// Not authenticated; the permit is one of those for unauthenticated connections.
    Hello { preface: bool, _permit: HandshakePermit },
    /// Authenticated; the permit is one of the user's.
    Authenticated { session: Box<Session>, quota: Arc<tapedb_access::UserQuota>, _permit: Permit },
}

/// Why a connection ends.
#[derive(Debug)]
enum End {
    /// The client has closed it, or has sent a goodbye.
    Closed,
    /// The server closes it, and sends the reason, which is also logged.
    Closing { kind: FailureKind, why: String },
    /// The client is not accepted.
    Refused { kind: FailureKind, why: String },
    /// The client cannot be reached any more.
    Lost { why: String },
    /// The server shuts down.
    Stopping,
}

impl From<WireError> for End {
    fn from(error: WireError) -> Self {
        Self::Closing { kind: FailureKind::Protocol, why: error.to_string() }
    }
}

impl Connection {
    /// A connection that was just accepted.
    pub fn new(
        server: Arc<ServerState>,
        handle: Arc<ConnectionHandle>,
        poll: Poll,
        permit: HandshakePermit,
    ) -> Self {
        let heartbeat = Heartbeat::new(server.config.limits.heartbeat_ms, 0);
        Self {
            server,
            handle,
            poll,
            decoder: Decoder::with_bytes_max(HELLO_BYTES_MAX),
            is_readable: true,
            is_read_closed: false,
            has_frames: false,
            was_busy: false,
            wants_writable: false,
            answers: None,
            read_bytes: READ_BYTES_MIN,
            began: Instant::now(),
            now: 0,
            measured: None,
            heartbeat,
            written: 0,
            phase: Phase::Hello { preface: false, _permit: permit },
        }
    }

    /// Serves the connection until it ends.
    pub fn run(mut self) {
        let end = match self.serve() {
            Ok(never) => match never {},
            Err(end) => end,
        };
        self.send_goodbye(&end);
        let (peer, user) = (self.handle.peer, self.handle.user().to_string());
        if matches!(self.phase, Phase::Authenticated { .. }) {
            self.server.audit(&self.handle, "logout", "", "");
        } else {
            self.server.metrics.connections_refused.one();
        }
        match &end {
            End::Closing { kind, why } | End::Refused { kind, why } => self.server.warn(*kind, peer, why),
            End::Lost { why } => tracing::debug!(%peer, user, "connection lost: {why}"),
            End::Closed | End::Stopping => tracing::debug!(%peer, user, "connection ended"),
        }
        let Self { server, handle, phase, mut poll, .. } = self;
        // The watches first: they push into the send buffer.
        drop(phase);
        handle.send_buffer.end();
        if !matches!(end, End::Closed | End::Lost { .. }) {
            linger(&handle, &mut poll);
        }
        server.remove(&handle);
    }

    fn serve(&mut self) -> Result<std::convert::Infallible, End> {
        let mut events = Events::with_capacity(4);
        let mut wait = Some(Duration::ZERO);
        let (mut spins, mut may_work) = (0, false);
        loop {
            // The failure may have been found by this thread or by another one, which has woken this one.
            if self.handle.send_buffer.is_broken() {
                return Err(End::Lost { why: "the client has disconnected".into() });
            }
            events.clear();
            let has_come = spins < SPINS_MAX && wait != Some(Duration::ZERO) && self.spin()?;
            spins = if has_come { spins + 1 } else { 0 };
            if !has_come {
                self.poll(&mut events, wait, may_work)?;
            }
            self.now = self.began.elapsed().as_millis() as u64;
            for event in events.iter().filter(|event| event.token() == SOCKET) {
                self.is_read_closed |= event.is_read_closed();
                self.is_readable |= event.is_readable() || event.is_read_closed() || event.is_error();
                // A notification through shared memory also means free space, without an event for it.
                let may_have_room = event.is_writable() || self.handle.send_buffer.is_shared_memory();
                if may_have_room && self.handle.send_buffer.waiting() > 0 {
                    self.write();
                }
            }
            if self.server.is_stopping() {
                return Err(End::Stopping);
            }
            if let Some(why) = self.handle.ended_because.get() {
                return Err(End::Closing { kind: FailureKind::Login, why: why.clone() });
            }
            self.review()?;
            // Also where another thread has emptied the send buffer.
            if self.handle.may_go_on() {
                self.note_capacity();
            }
            let pause = self.pause();
            // A delayed connection is not read.
            self.was_busy &= pause.is_zero();
            may_work = pause.is_zero();
            let is_more = may_work && self.work()?;
            let due = self.check_heartbeat()?;
            wait = Some(match is_more {
                true => Duration::ZERO,
                false if pause.is_zero() => self.answers.map_or(due, |answers| answers.min(due)),
                false => pause.min(due),
            });
        }
    }

    /// Waits for events; not at all if there is work.
    fn poll(&mut self, events: &mut Events, wait: Option<Duration>, may_work: bool) -> Result<(), End> {
        let wants_writable = self.handle.send_buffer.waiting() > 0;
        if wants_writable != self.wants_writable {
            let registered = self.handle.send_buffer.register(self.poll.registry(), SOCKET, wants_writable);
            registered.map_err(|error| End::Lost { why: error.to_string() })?;
            self.wants_writable = wants_writable;
        }
        // Another thread may just have freed buffer space for answers and pushes that this thread has missed.
        let has_work = (self.has_frames || self.is_readable) && self.handle.send_buffer.has_capacity(1);
        let goes_on = may_work && (has_work || self.handle.may_go_on());
        let wait = if goes_on { Some(Duration::ZERO) } else { wait };
        // Data that is not read because the client is delayed or reads no answers must not keep the thread awake.
        let wanted = Wanted { data: !self.is_readable, space: wants_writable };
        let may_sleep =
            sleep(&self.handle, &mut self.poll, events, wait, wanted).map_err(|error| self.lost(error))?;
        if !may_sleep {
            self.is_readable = true;
            if self.handle.send_buffer.waiting() > 0 {
                self.write();
            }
        }
        Ok(())
    }

    /// Polls for a short time, where that is configured and something was just received; whether bytes arrived. Any
    /// event that the poll would report ends it.
    fn spin(&mut self) -> Result<bool, End> {
        let spin = self.server.config.spin();
        if !std::mem::take(&mut self.was_busy) || spin.is_zero() || !self.server.spinners.begin() {
            return Ok(false);
        }
        let until = Instant::now() + spin;
        let is_quiet = |handle: &ConnectionHandle| {
            !handle.has_due.load(Ordering::Acquire)
                && handle.send_buffer.waiting() == 0
                && Instant::now() < until
        };
        let mut read = Ok(());
        while !self.has_frames && read.is_ok() && is_quiet(&self.handle) {
            thread::yield_now();
            read = self.read();
        }
        self.server.spinners.end();
        read.map(|()| self.has_frames)
    }

    /// Flushes the send buffer; watches may push again when it has capacity.
    fn write(&mut self) {
        let written = self.handle.send_buffer.written();
        self.handle.send_buffer.flush();
        // A client that reads waiting bytes is alive. (Bytes that did not wait were taken by the system: that proves
        // nothing.)
        if self.handle.send_buffer.written() > written {
            self.heartbeat.note_received(self.now);
        }
        self.note_capacity();
    }

    /// Lets watches and queries push again.
    fn note_capacity(&self) {
        self.handle.goes_on();
        if let Phase::Authenticated { session, .. } = &self.phase {
            session.note_capacity();
        }
    }

    /// How long the connection must wait for the user's rate limit.
    fn pause(&mut self) -> Duration {
        let Phase::Authenticated { quota, session, .. } = &self.phase else { return Duration::ZERO };
        let pause = quota.rate_limit.wait(Instant::now);
        if !pause.is_zero() {
            session.note_capacity();
            // The connection is not read now, so its silence proves nothing.
            self.heartbeat.note_received(self.now);
        }
        pause
    }

    /// Checks the user's rights again after the users file was reloaded.
    fn review(&mut self) -> Result<(), End> {
        let Phase::Authenticated { session, .. } = &mut self.phase else { return Ok(()) };
        if session.review() {
            return Ok(());
        }
        let why = "the user was removed, or the password or token of this login".into();
        Err(End::Closing { kind: FailureKind::Login, why })
    }

    /// Takes received frames, and pushes; whether there is more work.
    fn work(&mut self) -> Result<bool, End> {
        for _ in 0..READS_MAX {
            if self.has_frames {
                self.take_frames()?;
            }
            if self.has_frames || !self.is_readable || !self.handle.send_buffer.has_capacity(1) {
                break;
            }
            self.read()?;
        }
        let is_behind = match &mut self.phase {
            Phase::Authenticated { session, .. } => {
                self.answers = self.answers.and_then(|_| session.finish());
                session.push()
            }
            Phase::Hello { .. } => false,
        };
        let has_capacity = self.handle.send_buffer.has_capacity(1);
        Ok(has_capacity && (is_behind || self.is_readable || self.has_frames))
    }

    fn read(&mut self) -> Result<(), End> {
        let buffer = self.decoder.spare(self.read_bytes);
        let size = buffer.len();
        match self.handle.send_buffer.read(buffer) {
            Ok(0) => Err(End::Closed),
            Ok(count) => {
                self.decoder.filled(count);
                // A stream socket that returns less than was requested has no more bytes, unless it is at its end.
                self.is_readable =
                    count == size || self.is_read_closed || self.handle.send_buffer.reads_in_part();
                if count == size {
                    self.read_bytes = (self.read_bytes * 4).min(READ_BYTES_MAX);
                }
                self.note_received(count as u64);
                (self.has_frames, self.was_busy) = (true, true);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.is_readable = false;
                Ok(())
            }
            Err(error) => Err(self.lost(error)),
        }
    }

    /// Classifies a socket error: for bytes that are not TLS, or a violation of the pipe's protocol, the client gets a
    /// message.
    fn lost(&self, error: io::Error) -> End {
        let of = if self.handle.send_buffer.is_shared_memory() { "" } else { "TLS: " };
        match error.kind() {
            io::ErrorKind::InvalidData => {
                End::Closing { kind: FailureKind::Protocol, why: format!("{of}{error}") }
            }
            _ => End::Lost { why: error.to_string() },
        }
    }

    fn note_received(&mut self, bytes: u64) {
        self.handle.received.fetch_add(bytes, Ordering::Relaxed);
        self.heartbeat.note_received(self.now);
        if let Phase::Authenticated { quota, .. } = &self.phase {
            quota.rate_limit.count(bytes, Instant::now);
        }
    }

    /// Takes complete frames, as long as the send buffer has capacity for answers.
    fn take_frames(&mut self) -> Result<(), End> {
        if let Phase::Hello { .. } = self.phase {
            self.take_hello()?;
        }
        // At most once per millisecond: reading the clock takes longer than writing a short batch.
        let is_measured = self.measured != Some(self.now);
        let began = is_measured.then(Instant::now);
        let Phase::Authenticated { session, .. } = &mut self.phase else { return Ok(()) };
        let coalescing = Coalescing::begin();
        let ended = loop {
            if !self.handle.send_buffer.has_capacity(1) {
                break Ok(());
            }
            match self.decoder.next_frame() {
                Ok(Some(frame)) => match session.receive(frame) {
                    Ok(true) => {}
                    Ok(false) => break Err(End::Closed),
                    Err(error) => break Err(error.into()),
                },
                Ok(None) => {
                    self.has_frames = false;
                    break Ok(());
                }
                Err(error) => break Err(error.into()),
            }
        };
        session.commit();
        let stored = session.take_stored();
        if let (Some(began), Some(durability)) = (began, stored) {
            self.measured = Some(self.now);
            self.server.metrics.append(durability).record(began.elapsed());
        }
        let has_pushed = coalescing.end();
        if let (Some(began), Some(_), true) = (began, stored, has_pushed) {
            self.server.metrics.delivery.record(began.elapsed());
        }
        // Appended batches are acknowledged even if the connection ends.
        self.answers = session.finish();
        ended
    }

    fn take_hello(&mut self) -> Result<(), End> {
        let Phase::Hello { preface, .. } = &mut self.phase else { return Ok(()) };
        if !*preface {
            match self.decoder.take_opening()? {
                None => {}
                Some(Opening::Frames) => *preface = true,
                Some(Opening::SharedMemory) => return self.share_memory(),
            }
        }
        let whole = if *preface { self.decoder.next_frame()? } else { None };
        let Some(frame) = whole else {
            self.has_frames = false;
            return Ok(());
        };
        let Frame { kind, channel, payload } = frame;
        let mut out = Vec::new();
        // A temporary session: it only checks that a hello is allowed here.
        let limits = tapedb_wire::Limits { channels_max: 0, credit_max: 0 };
        let message = ServerSession::new(limits).receive(Frame { kind, channel, payload })?;
        let ToServer::Hello { version_min, version_max, program, login } = message else {
            return Err(End::Closed);
        };
        let Some(version) = ServerSession::version_of(version_min, version_max) else {
            let (kind, ours) = (FailureKind::Protocol, tapedb_wire::VERSION);
            let why = format!(
                "the client speaks versions {version_min} to {version_max} of the protocol, the server {ours}; upgrade the \
                 older of the two"
            );
            return Err(End::Refused { kind, why });
        };
        let identity = log_in(&self.server, &self.handle, login)?;
        let user = identity.user.clone();
        let _ = self.handle.user.set(user.name.clone());
        // Truncated: the client controls the text.
        let _ = self.handle.program.set(program.chars().take(PROGRAM_LETTERS_MAX).collect());
        let Some((quota, permit)) = self.server.quotas.open(&user, &self.server.access) else {
            let why = format!("user {:?} has reached the limit of connections; close some", user.name);
            return Err(End::Refused { kind: FailureKind::Full, why });
        };
        self.server.audit(&self.handle, "login", "", program);
        let limits = &self.server.config.limits;
        ToClient::Welcome {
            version,
            server: concat!("tapedb ", env!("CARGO_PKG_VERSION")),
            epoch: self.server.epoch,
            user: &user.name,
            heartbeat_ms: limits.heartbeat_ms as u32,
            files_max: limits.files_max as u32,
            channels_max: limits.channels_max as u32,
        }
        .encode(0, &mut out);
        self.handle.send(&[&out]);
        self.decoder.set_bytes_max(limits.frame_bytes_max);
        let session =
            Session::new(self.server.clone(), self.handle.clone(), identity, quota.clone(), version);
        self.phase = Phase::Authenticated { session: Box::new(session), quota, _permit: permit };
        Ok(())
    }

    /// Offers shared memory to a client that requests it; the preface then follows through it.
    fn share_memory(&mut self) -> Result<(), End> {
        let refused = |why: &str| Err(End::Refused { kind: FailureKind::Protocol, why: why.into() });
        if self.handle.send_buffer.is_shared_memory() || !self.decoder.pending().is_empty() {
            return refused(
                "shared memory is requested once, before anything else; everything after it goes through the memory",
            );
        }
        match self.handle.send_buffer.share_memory() {
            Ok(()) => {
                (self.has_frames, self.is_readable) = (false, true);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Unsupported => refused(
                "shared memory is for clients on the same machine, over a Unix socket: tape+shm:///path/of.sock",
            ),
            Err(error) => {
                Err(End::Refused { kind: FailureKind::System, why: format!("cannot share memory: {error}") })
            }
        }
    }

    /// Sends a heartbeat when it is due; ends a silent connection. Returns the time until the next check.
    fn check_heartbeat(&mut self) -> Result<Duration, End> {
        let now = self.now;
        let written = self.handle.send_buffer.written();
        if written != self.written {
            self.written = written;
            self.heartbeat.note_sent(now);
        }
        let until = |time: u64| Duration::from_millis(time.saturating_sub(now).max(1));
        let Phase::Authenticated { session, .. } = &mut self.phase else {
            let most = self.server.config.limits.handshake_ms_max;
            if now < most {
                return Ok(until(most));
            }
            let why = format!("the client did not authenticate within {most} ms");
            return Err(End::Refused { kind: FailureKind::Silent, why });
        };
        match self.heartbeat.due(now) {
            Due::At(time) => Ok(until(time)),
            Due::Now => {
                // While bytes wait to be sent, a ping would only wait behind them.
                if self.handle.send_buffer.waiting() == 0 {
                    session.ping(now);
                }
                self.heartbeat.note_sent(now);
                Ok(until(now + 1))
            }
            Due::Dead => {
                let heartbeat = self.server.config.limits.heartbeat_ms;
                let why = format!("the client was silent for three heartbeats of {heartbeat} ms");
                Err(End::Closing { kind: FailureKind::Silent, why })
            }
        }
    }

    /// Sends the reason to the client, and waits a short time until it is sent.
    fn send_goodbye(&mut self, end: &End) {
        let mut out = Vec::new();
        match end {
            End::Closed | End::Lost { .. } => {}
            End::Closing { why, .. } => {
                ToClient::Goodbye { failure: convert::refusal("the server", why) }.encode(0, &mut out);
            }
            End::Refused { why, .. } => {
                ToClient::Refused { failure: convert::refusal("the server", why) }.encode(0, &mut out);
            }
            End::Stopping => {
                let failure = convert::refusal("the server", "it is shutting down");
                ToClient::Goodbye { failure }.encode(0, &mut out);
            }
        }
        let grace = match end {
            End::Stopping => self.server.config.shutdown_grace(),
            _ => Duration::from_millis(GOODBYE_MS),
        };
        let deadline = Instant::now() + grace;
        // Running commands send their outcome before the goodbye.
        while matches!(end, End::Stopping) && self.is_busy() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        if !out.is_empty() && !self.handle.send_buffer.is_broken() {
            self.handle.send(&[&out]);
        }
        self.drain(deadline);
    }

    fn is_busy(&self) -> bool {
        matches!(&self.phase, Phase::Authenticated { session, .. } if session.is_busy())
    }

    /// Sends what waits, until the deadline. A client that takes nothing for a while is not waited for: it may be gone, or have never
    /// begun its handshake.
    fn drain(&mut self, deadline: Instant) {
        let mut events = Events::with_capacity(4);
        let patience = Duration::from_millis(GOODBYE_MS);
        let mut until = Instant::now() + patience;
        while self.handle.send_buffer.waiting() > 0 && !self.handle.send_buffer.is_broken() {
            let left = deadline.min(until).saturating_duration_since(Instant::now());
            if left.is_zero() || self.poll(&mut events, Some(left), false).is_err() {
                return;
            }
            let written = self.handle.send_buffer.written();
            self.handle.send_buffer.flush();
            if self.handle.send_buffer.written() > written {
                until = Instant::now() + patience;
            }
        }
    }
}

/// What wakes a sleeping thread, besides its timeout.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    data: bool,
    space: bool,
}

/// Waits for events. A client behind shared memory only notifies threads that have announced that they sleep. Returns
/// `false` when the thread did not sleep because what it waits for is there already, for which there may be no event.
fn sleep(
    handle: &ConnectionHandle,
    poll: &mut Poll,
    events: &mut Events,
    wait: Option<Duration>,
    wanted: Wanted,
) -> io::Result<bool> {
    let may_sleep =
        wait == Some(Duration::ZERO) || handle.send_buffer.prepare_sleep(wanted.data, wanted.space)?;
    let polled = poll.poll(events, if may_sleep { wait } else { Some(Duration::ZERO) });
    handle.send_buffer.end_sleep(events.iter().any(|event| event.token() == SOCKET));
    match polled {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
        _ => Ok(may_sleep),
    }
}

/// Reads and drops bytes for a short time: closing the socket with unread bytes would discard the goodbye.
fn linger(handle: &ConnectionHandle, poll: &mut Poll) {
    let (mut events, mut buffer) = (Events::with_capacity(4), vec![0; READ_BYTES_MIN]);
    let deadline = Instant::now() + Duration::from_millis(GOODBYE_MS);
    loop {
        match handle.send_buffer.read_raw(&mut buffer) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let left = deadline.saturating_duration_since(Instant::now());
                let wanted = Wanted { data: true, space: false };
                if left.is_zero() || sleep(handle, poll, &mut events, Some(left), wanted).is_err() {
                    return;
                }
            }
            Err(_) => return,
        }
        if Instant::now() >= deadline {
            return;
        }
    }
}

/// Authenticates a client.
fn log_in(server: &ServerState, handle: &ConnectionHandle, login: Login<'_>) -> Result<Identity, End> {
    let (name, credentials) = match login {
        Login::Anonymous => ("", Credentials::None),
        Login::Password { user, password } => (user, Credentials::Password { user, password }),
        Login::Token(token) => ("", Credentials::Token(token)),
    };
    let refusal = match server.logins.login(handle.peer.ip(), credentials) {
        Ok(identity) => return Ok(identity),
        Err(refusal) => refusal,
    };
    server.metrics.logins_failed.one();
    let why = match refusal {
        Refusal::Wrong => "user, password or token is wrong",
        Refusal::Missing => "authentication is required: send a user and a password, or a token",
        Refusal::TooOften => "too many failed logins as this user from this address; try again later",
    };
    // Truncated: the client controls the text.
    let name: String = name.chars().take(80).collect();
    if server.log_limit.admits(FailureKind::Login, Instant::now()).is_some() {
        server.audit(handle, "refused", "", &format!("user {name:?}: {why}"));
    }
    if refusal == Refusal::Wrong {
        thread::sleep(REFUSAL_DELAY);
    }
    Err(End::Refused { kind: FailureKind::Login, why: why.into() })
}

/// A frame that refuses a connection.
pub(crate) fn refusal_frame(why: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(FRAME_HEADER_BYTES + 128);
    ToClient::Refused { failure: convert::refusal("the server", why) }.encode(0, &mut out);
    out
}
