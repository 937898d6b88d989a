//! One connection, on its own thread: reads what comes, in turn pushes to watches that are behind, keeps the pulse, and ends
//! in good order. Whatever takes long here keeps nobody else waiting.
//!
//! Always true: nothing is read while the outbox is full, so a client that does not take its answers is not asked for more
//! questions; before it has said who it is a client costs one small buffer, and shared memory if it asks for that (as much of it
//! as it writes to), for a limited time.

use crate::account::Place;
use crate::burst::Burst;
use crate::convert;
use crate::handshakes::Handshake;
use crate::login::{Admitted, Credentials, Refusal};
use crate::noise::Kind;
use crate::session::Session;
use crate::shared::{Handle, Shared};
use mio::{Events, Poll, Token};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};
use tapedb_wire::{
    Decoder, Due, FRAME_HEADER_BYTES, Frame, Login, Opening, Pulse, ServerSession, ToClient, ToServer,
    WireError,
};

/// The socket among the connection's events.
pub(crate) const SOCKET: Token = Token(0);
/// The waker among them.
pub(crate) const WAKER: Token = Token(1);

/// Room for the next bytes: little at first, more for those who fill it.
const ROOM_BYTES_MIN: usize = 8 << 10;
const ROOM_BYTES_MAX: usize = 512 << 10;
/// Reads in a row before it is looked at what else there is to do.
const READS_MAX: usize = 8;
/// Times that what has come is found by spinning before it is looked for what else there is.
const SPINS_MAX: u32 = 64;
/// Frames are short until the client is let in.
const HELLO_BYTES_MAX: usize = 64 << 10;
/// How long a wrong login waits for its answer.
const REFUSAL_DELAY: Duration = Duration::from_millis(250);
/// What is kept of what a client calls itself.
const PROGRAM_LETTERS_MAX: usize = 80;
/// How long what was said last has to get through.
const FAREWELL_MS: u64 = 1000;

/// A connection's thread.
pub(crate) struct Connection {
    shared: Arc<Shared>,
    handle: Arc<Handle>,
    poll: Poll,
    decoder: Decoder,
    /// Whether something may have come.
    is_readable: bool,
    /// Whether the client will send no more: what it sent is followed by the end.
    is_read_closed: bool,
    /// Whether a frame may have come that has not been taken.
    has_frames: bool,
    /// Whether something has come since the thread spun last.
    was_busy: bool,
    /// Whether the poll tells of room to write.
    waits_for_room: bool,
    /// How long answers may still wait that do.
    answers: Option<Duration>,
    room_bytes: usize,
    began: Instant,
    /// Milliseconds from then to the last look at the socket. What came since has not been heard, and is not missed.
    now: u64,
    /// The millisecond in which it was measured last how long appending takes.
    measured: Option<u64>,
    pulse: Pulse,
    written: u64,
    phase: Phase,
}

enum Phase {
    /// It has not said who it is; the place is one among those who may be so.
    Hello { preface: bool, _place: Handshake },
    /// It is let in; the place is one among the user's.
    In { session: Box<Session>, account: Arc<crate::account::Account>, _place: Place },
}

/// Why a connection ends.
#[derive(Debug)]
enum End {
    /// The client has closed it, or has said goodbye.
    Closed,
    /// The client is to be told why, in the log's words and its own.
    Told { kind: Kind, why: String },
    /// The client is not let in.
    Refused { kind: Kind, why: String },
    /// There is nobody to tell any more.
    Lost { why: String },
    /// The server ends.
    Stopping,
}

impl From<WireError> for End {
    fn from(error: WireError) -> Self {
        Self::Told { kind: Kind::Protocol, why: error.to_string() }
    }
}

impl Connection {
    /// A connection that has just been accepted.
    pub fn new(shared: Arc<Shared>, handle: Arc<Handle>, poll: Poll, place: Handshake) -> Self {
        let pulse = Pulse::new(shared.config.limits.heartbeat_ms, 0);
        Self {
            shared,
            handle,
            poll,
            decoder: Decoder::with_bytes_max(HELLO_BYTES_MAX),
            is_readable: true,
            is_read_closed: false,
            has_frames: false,
            was_busy: false,
            waits_for_room: false,
            answers: None,
            room_bytes: ROOM_BYTES_MIN,
            began: Instant::now(),
            now: 0,
            measured: None,
            pulse,
            written: 0,
            phase: Phase::Hello { preface: false, _place: place },
        }
    }

    /// Serves the connection until it ends.
    pub fn run(mut self) {
        let end = match self.serve() {
            Ok(never) => match never {},
            Err(end) => end,
        };
        self.say_goodbye(&end);
        let (peer, user) = (self.handle.peer, self.handle.user().to_string());
        if matches!(self.phase, Phase::In { .. }) {
            self.shared.audit(&self.handle, "logout", "", "");
        } else {
            self.shared.metrics.connections_refused.one();
        }
        match &end {
            End::Told { kind, why } | End::Refused { kind, why } => self.shared.warn(*kind, peer, why),
            End::Lost { why } => tracing::debug!(%peer, user, "connection lost: {why}"),
            End::Closed | End::Stopping => tracing::debug!(%peer, user, "connection ended"),
        }
        let Self { shared, handle, phase, mut poll, .. } = self;
        // The watches first: they push into the outbox.
        drop(phase);
        handle.outbox.end();
        if !matches!(end, End::Closed | End::Lost { .. }) {
            linger(&handle, &mut poll);
        }
        shared.leave(&handle);
    }

    fn serve(&mut self) -> Result<std::convert::Infallible, End> {
        let mut events = Events::with_capacity(4);
        let mut wait = Some(Duration::ZERO);
        let (mut spins, mut may_work) = (0, false);
        loop {
            // Whoever has found it, this thread a moment ago or another that has woken it.
            if self.handle.outbox.is_broken() {
                return Err(End::Lost { why: "the client is gone".into() });
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
                // A bell rings for room too, without saying so.
                let may_have_room = event.is_writable() || self.handle.outbox.is_shared_memory();
                if may_have_room && self.handle.outbox.waiting() > 0 {
                    self.write();
                }
            }
            if self.shared.is_stopping() {
                return Err(End::Stopping);
            }
            self.review()?;
            let pause = self.pause();
            // Who has to wait is not listened to.
            self.was_busy &= pause.is_zero();
            may_work = pause.is_zero();
            let is_more = may_work && self.work()?;
            let due = self.keep_pulse()?;
            wait = Some(match is_more {
                true => Duration::ZERO,
                false if pause.is_zero() => self.answers.map_or(due, |answers| answers.min(due)),
                false => pause.min(due),
            });
        }
    }

    /// Waits for events; not at all if the thread may go on with what is there.
    fn poll(&mut self, events: &mut Events, wait: Option<Duration>, may_work: bool) -> Result<(), End> {
        let waits_for_room = self.handle.outbox.waiting() > 0;
        if waits_for_room != self.waits_for_room {
            let registered = self.handle.outbox.register(self.poll.registry(), SOCKET, waits_for_room);
            registered.map_err(|error| End::Lost { why: error.to_string() })?;
            self.waits_for_room = waits_for_room;
        }
        // Others may just have made the room for answers that this thread has missed.
        let goes_on = may_work && (self.has_frames || self.is_readable) && self.handle.outbox.has_room(1);
        let wait = if goes_on { Some(Duration::ZERO) } else { wait };
        // What is not read although it is there, because the client has to wait or takes no answers, keeps nobody awake.
        let wanted = Wanted { data: !self.is_readable, room: waits_for_room };
        let may_sleep =
            sleep(&self.handle, &mut self.poll, events, wait, wanted).map_err(|error| self.lost(error))?;
        if !may_sleep {
            self.is_readable = true;
            if self.handle.outbox.waiting() > 0 {
                self.write();
            }
        }
        Ok(())
    }

    /// Looks again and again whether something comes, where that is wanted and something has just come; whether it has. What
    /// the poll would tell else ends it.
    fn spin(&mut self) -> Result<bool, End> {
        let spin = self.shared.config.spin();
        if !std::mem::take(&mut self.was_busy) || spin.is_zero() || !self.shared.spinners.begin() {
            return Ok(false);
        }
        let until = Instant::now() + spin;
        let is_quiet = |handle: &Handle| {
            !handle.has_due.load(Ordering::Acquire) && handle.outbox.waiting() == 0 && Instant::now() < until
        };
        let mut read = Ok(());
        while !self.has_frames && read.is_ok() && is_quiet(&self.handle) {
            thread::yield_now();
            read = self.read();
        }
        self.shared.spinners.end();
        read.map(|()| self.has_frames)
    }

    /// Writes what waits; where there is room again, watches may push.
    fn write(&mut self) {
        let written = self.handle.outbox.written();
        self.handle.outbox.flush();
        // Who takes what waited is alive. (What did not wait, the system has taken: that says nothing of the client.)
        if self.handle.outbox.written() > written {
            self.pulse.heard(self.now);
        }
        if let Phase::In { session, .. } = &self.phase {
            session.note_room();
        }
    }

    /// How long the user has to wait, who may move so many bytes a second.
    fn pause(&mut self) -> Duration {
        let Phase::In { account, session, .. } = &self.phase else { return Duration::ZERO };
        let pause = account.meter.wait(Instant::now);
        if !pause.is_zero() {
            session.note_room();
            // It is not listened to: that it is silent says nothing.
            self.pulse.heard(self.now);
        }
        pause
    }

    /// Looks again at who the client is, when the users have been read again.
    fn review(&mut self) -> Result<(), End> {
        let Phase::In { session, .. } = &mut self.phase else { return Ok(()) };
        if session.review() {
            return Ok(());
        }
        let why = "the user has been removed, or the password or token he came with".into();
        Err(End::Told { kind: Kind::Login, why })
    }

    /// Takes in what has come, and pushes; whether there is more to do at once.
    fn work(&mut self) -> Result<bool, End> {
        for _ in 0..READS_MAX {
            if self.has_frames {
                self.take_frames()?;
            }
            if self.has_frames || !self.is_readable || !self.handle.outbox.has_room(1) {
                break;
            }
            self.read()?;
        }
        let is_behind = match &mut self.phase {
            Phase::In { session, .. } => {
                self.answers = self.answers.and_then(|_| session.finish());
                session.push()
            }
            Phase::Hello { .. } => false,
        };
        let has_room = self.handle.outbox.has_room(1);
        Ok(has_room && (is_behind || self.is_readable || self.has_frames))
    }

    fn read(&mut self) -> Result<(), End> {
        let room = self.decoder.room(self.room_bytes);
        let size = room.len();
        match self.handle.outbox.read(room) {
            Ok(0) => Err(End::Closed),
            Ok(count) => {
                self.decoder.filled(count);
                // A stream socket that gives less than was asked for has no more, but for its end.
                self.is_readable = count == size || self.is_read_closed || self.handle.outbox.reads_in_part();
                if count == size {
                    self.room_bytes = (self.room_bytes * 4).min(ROOM_BYTES_MAX);
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

    /// What an error of the socket comes to: who sends what is no TLS, or breaks a pipe, is told.
    fn lost(&self, error: io::Error) -> End {
        let of = if self.handle.outbox.is_shared_memory() { "" } else { "TLS: " };
        match error.kind() {
            io::ErrorKind::InvalidData => End::Told { kind: Kind::Protocol, why: format!("{of}{error}") },
            _ => End::Lost { why: error.to_string() },
        }
    }

    fn note_received(&mut self, bytes: u64) {
        self.handle.received.fetch_add(bytes, Ordering::Relaxed);
        self.pulse.heard(self.now);
        if let Phase::In { account, .. } = &self.phase {
            account.meter.count(bytes, Instant::now);
        }
    }

    /// Takes the frames that are whole, as long as there is room for answers.
    fn take_frames(&mut self) -> Result<(), End> {
        if let Phase::Hello { .. } = self.phase {
            self.take_hello()?;
        }
        // Once in a millisecond at most: looking at the clock takes longer than writing a short batch.
        let is_measured = self.measured != Some(self.now);
        let began = is_measured.then(Instant::now);
        let Phase::In { session, .. } = &mut self.phase else { return Ok(()) };
        let burst = Burst::begin();
        let ended = loop {
            if !self.handle.outbox.has_room(1) {
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
            self.shared.metrics.append(durability).record(began.elapsed());
        }
        let has_pushed = burst.end();
        if let (Some(began), Some(_), true) = (began, stored, has_pushed) {
            self.shared.metrics.delivery.record(began.elapsed());
        }
        // What was appended is acknowledged, however the connection goes on.
        self.answers = session.finish();
        ended
    }

    fn take_hello(&mut self) -> Result<(), End> {
        let Phase::Hello { preface, .. } = &mut self.phase else { return Ok(()) };
        if !*preface {
            match self.decoder.take_opening()? {
                None => {}
                Some(Opening::Frames) => *preface = true,
                Some(Opening::Memory) => return self.share_memory(),
            }
        }
        let whole = if *preface { self.decoder.next_frame()? } else { None };
        let Some(frame) = whole else {
            self.has_frames = false;
            return Ok(());
        };
        let Frame { kind, channel, payload } = frame;
        let mut out = Vec::new();
        // A session of its own: it only looks whether a hello may come here.
        let limits = tapedb_wire::Limits { channels_max: 0, credit_max: 0 };
        let message = ServerSession::new(limits).receive(Frame { kind, channel, payload })?;
        let ToServer::Hello { version_min, version_max, program, login } = message else {
            return Err(End::Closed);
        };
        let Some(version) = ServerSession::version_of(version_min, version_max) else {
            let (kind, ours) = (Kind::Protocol, tapedb_wire::VERSION);
            let why = format!(
                "the client speaks versions {version_min} to {version_max} of the protocol, the server {ours}; upgrade the \
                 older of the two"
            );
            return Err(End::Refused { kind, why });
        };
        let admitted = log_in(&self.shared, &self.handle, login)?;
        let user = admitted.user.clone();
        let _ = self.handle.user.set(user.name.clone());
        // Cut short, for anybody can say anything.
        let _ = self.handle.program.set(program.chars().take(PROGRAM_LETTERS_MAX).collect());
        let Some((account, place)) = self.shared.accounts.open(&user, &self.shared.config.limits) else {
            let why = format!("user {:?} has all the connections that he may have; close some", user.name);
            return Err(End::Refused { kind: Kind::Full, why });
        };
        self.shared.audit(&self.handle, "login", "", program);
        let limits = &self.shared.config.limits;
        ToClient::Welcome {
            version,
            server: concat!("tapedb ", env!("CARGO_PKG_VERSION")),
            epoch: self.shared.epoch,
            user: &user.name,
            heartbeat_ms: limits.heartbeat_ms as u32,
            files_max: limits.files_max as u32,
            channels_max: limits.channels_max as u32,
        }
        .encode(0, &mut out);
        self.handle.send(&[&out]);
        self.decoder.set_bytes_max(limits.frame_bytes_max);
        let session = Session::new(self.shared.clone(), self.handle.clone(), admitted, account.clone());
        self.phase = Phase::In { session: Box::new(session), account, _place: place };
        Ok(())
    }

    /// Offers the client what it has asked for instead of a preface, which then comes that way.
    fn share_memory(&mut self) -> Result<(), End> {
        let refused = |why: &str| Err(End::Refused { kind: Kind::Protocol, why: why.into() });
        if self.handle.outbox.is_shared_memory() || !self.decoder.pending().is_empty() {
            return refused(
                "shared memory is asked for once, and first of all; what follows goes through it",
            );
        }
        match self.handle.outbox.share_memory() {
            Ok(()) => {
                (self.has_frames, self.is_readable) = (false, true);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Unsupported => refused(
                "shared memory is for clients on the same machine, at a Unix socket: tape+shm:///path/of.sock",
            ),
            Err(error) => {
                Err(End::Refused { kind: Kind::System, why: format!("no memory to share: {error}") })
            }
        }
    }

    /// Says something when it is time to; ends what is silent. How long until there is something to do about it.
    fn keep_pulse(&mut self) -> Result<Duration, End> {
        let now = self.now;
        let written = self.handle.outbox.written();
        if written != self.written {
            self.written = written;
            self.pulse.said(now);
        }
        let until = |time: u64| Duration::from_millis(time.saturating_sub(now).max(1));
        let Phase::In { session, .. } = &mut self.phase else {
            let most = self.shared.config.limits.handshake_ms_max;
            if now < most {
                return Ok(until(most));
            }
            let why = format!("the client has not said who it is for {most} ms");
            return Err(End::Refused { kind: Kind::Silent, why });
        };
        match self.pulse.due(now) {
            Due::At(time) => Ok(until(time)),
            Due::Now => {
                // While something waits to be taken, a ping would only wait behind it.
                if self.handle.outbox.waiting() == 0 {
                    session.ping(now);
                }
                self.pulse.said(now);
                Ok(until(now + 1))
            }
            Due::Dead => {
                let heartbeat = self.shared.config.limits.heartbeat_ms;
                let why = format!("the client was silent for three heartbeats of {heartbeat} ms");
                Err(End::Told { kind: Kind::Silent, why })
            }
        }
    }

    /// Tells the client why, and waits until it has taken that, but not long.
    fn say_goodbye(&mut self, end: &End) {
        let mut out = Vec::new();
        match end {
            End::Closed | End::Lost { .. } => {}
            End::Told { why, .. } => {
                ToClient::Goodbye { failure: convert::refusal("the server", why) }.encode(0, &mut out);
            }
            End::Refused { why, .. } => {
                ToClient::Refused { failure: convert::refusal("the server", why) }.encode(0, &mut out);
            }
            End::Stopping => {
                let failure = convert::refusal("the server", "it is shutting down; try again later");
                ToClient::Goodbye { failure }.encode(0, &mut out);
            }
        }
        let grace = match end {
            End::Stopping => self.shared.config.shutdown_grace(),
            _ => Duration::from_millis(FAREWELL_MS),
        };
        let deadline = Instant::now() + grace;
        // Commands that are running tell their outcome before the goodbye.
        while matches!(end, End::Stopping) && self.is_busy() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        if !out.is_empty() && !self.handle.outbox.is_broken() {
            self.handle.send(&[&out]);
        }
        self.drain(deadline);
    }

    fn is_busy(&self) -> bool {
        matches!(&self.phase, Phase::In { session, .. } if session.is_busy())
    }

    fn drain(&mut self, deadline: Instant) {
        let mut events = Events::with_capacity(4);
        while self.handle.outbox.waiting() > 0 && !self.handle.outbox.is_broken() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || self.poll(&mut events, Some(left), false).is_err() {
                return;
            }
            self.handle.outbox.flush();
        }
    }
}

/// What a thread that sleeps is to be woken for, besides the end of its time.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    data: bool,
    room: bool,
}

/// Waits for events. A client behind shared memory rings only for those who have said that they sleep. Whether it could be slept:
/// `false` when something that is wanted had come, about which there need be no event.
fn sleep(
    handle: &Handle,
    poll: &mut Poll,
    events: &mut Events,
    wait: Option<Duration>,
    wanted: Wanted,
) -> io::Result<bool> {
    let may_sleep = wait == Some(Duration::ZERO) || handle.outbox.doze(wanted.data, wanted.room)?;
    let polled = poll.poll(events, if may_sleep { wait } else { Some(Duration::ZERO) });
    handle.outbox.woke(events.iter().any(|event| event.token() == SOCKET));
    match polled {
        Err(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
        _ => Ok(may_sleep),
    }
}

/// Takes what still comes, for a while: closing a socket before would take the farewell from the client.
fn linger(handle: &Handle, poll: &mut Poll) {
    let (mut events, mut room) = (Events::with_capacity(4), vec![0; ROOM_BYTES_MIN]);
    let deadline = Instant::now() + Duration::from_millis(FAREWELL_MS);
    loop {
        match handle.outbox.read_unread(&mut room) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let left = deadline.saturating_duration_since(Instant::now());
                let wanted = Wanted { data: true, room: false };
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

/// Who it is that says hello.
fn log_in(shared: &Shared, handle: &Handle, login: Login<'_>) -> Result<Admitted, End> {
    let (name, credentials) = match login {
        Login::Anyone => ("", Credentials::None),
        Login::Password { user, password } => (user, Credentials::Password { user, password }),
        Login::Token(token) => ("", Credentials::Token(token)),
    };
    let refusal = match shared.logins.login(handle.peer.ip(), credentials) {
        Ok(admitted) => return Ok(admitted),
        Err(refusal) => refusal,
    };
    shared.metrics.logins_failed.one();
    let why = match refusal {
        Refusal::Wrong => "user, password or token is wrong",
        Refusal::Missing => "a login is needed: name a user and a password, or a token",
        Refusal::TooOften => "too many logins as this user were wrong from this address; try again later",
    };
    // Cut short, for anybody can say anything.
    let name: String = name.chars().take(80).collect();
    if shared.noise.admits(Kind::Login, Instant::now()).is_some() {
        shared.audit(handle, "refused", "", &format!("user {name:?}: {why}"));
    }
    if refusal == Refusal::Wrong {
        thread::sleep(REFUSAL_DELAY);
    }
    Err(End::Refused { kind: Kind::Login, why: why.into() })
}

/// A frame that refuses a connection for which there is no place.
pub(crate) fn no_place(why: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(FRAME_HEADER_BYTES + 128);
    ToClient::Refused { failure: convert::refusal("the server", why) }.encode(0, &mut out);
    out
}
