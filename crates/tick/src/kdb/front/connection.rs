//! One connection: a thread that reads and answers, and one that writes.

use super::access::Rights;
use super::answer::Answerer;
use super::catch_up::CatchUp;
use super::outbox::Outbox;
use super::state::FrontState;
use super::subscriber::Connection;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tapedb_kdb_ipc::{Event, Kind, Message, Session, Value, compress, message};

/// How long it waits before it checks whether it is to stop.
const TICK: Duration = Duration::from_millis(100);
/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;
/// Most asynchronous updates that are logged together, if they have arrived together.
const TOGETHER_MAX: usize = 64;
/// Beyond so many bytes updates are logged at once.
const TOGETHER_BYTES_MAX: usize = 64 << 10;

/// Serves a connection until it ends.
pub(super) fn serve(state: &Arc<FrontState>, socket: &TcpStream, peer: SocketAddr, id: u64) {
    let _ = socket.set_nodelay(true);
    let is_ready = socket.set_read_timeout(Some(TICK)).and_then(|()| socket.set_write_timeout(Some(TICK)));
    let mut session = Session::server(state.options.limits);
    let rights = is_ready.ok().and_then(|()| log_in(state, socket, peer, &mut session));
    match rights {
        Some(rights) => serve_authenticated(state, socket, peer, id, session, &*rights),
        None => {
            state.refused.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

/// Authenticates a client.
fn log_in(
    state: &FrontState,
    mut socket: &TcpStream,
    peer: SocketAddr,
    session: &mut Session,
) -> Option<Arc<dyn Rights>> {
    let deadline = Instant::now() + state.options.greeting_timeout;
    loop {
        match session.next_event() {
            Ok(Some(Event::Greeting(greeting))) => {
                let rights = state.options.access.authenticate(&greeting.user, &greeting.password, peer)?;
                socket.write_all(&session.accept(greeting.capability)).ok()?;
                return Some(rights);
            }
            Ok(None) if Instant::now() < deadline && !state.is_stopping() => {}
            _ => return None,
        }
        if !read(socket, session, 1).ok()? {
            return None;
        }
    }
}

/// Reads what has arrived, or waits a little; `false`: the other side has closed.
fn read(mut socket: &TcpStream, session: &mut Session, least: usize) -> io::Result<bool> {
    match socket.read(session.spare(least)) {
        Ok(0) => Ok(false),
        Ok(bytes) => {
            session.filled(bytes);
            Ok(true)
        }
        Err(error) if is_timeout(&error) => Ok(true),
        Err(error) => Err(error),
    }
}

/// Nothing could be read or written for now.
fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

fn serve_authenticated(
    state: &Arc<FrontState>,
    socket: &TcpStream,
    peer: SocketAddr,
    id: u64,
    mut session: Session,
    rights: &dyn Rights,
) {
    let outbox = state.budget.outbox(state.options.waiting_bytes_max);
    let compresses = !peer.ip().is_loopback();
    let connection = Connection { id, outbox: outbox.clone(), slow: state.options.slow, compresses };
    std::thread::scope(|scope| {
        let writer = std::thread::Builder::new().name("kdb-writer".into());
        if writer.spawn_scoped(scope, || write(state, socket, &outbox, id)).is_ok() {
            listen(state, socket, &mut session, &connection, rights);
        }
        if let Some(hub) = state.hub() {
            hub.lock().unsubscribe(id, None);
        }
        outbox.close();
    });
    let _ = socket.shutdown(Shutdown::Both);
}

/// Reads requests and answers them until the connection ends.
fn listen(
    state: &FrontState,
    socket: &TcpStream,
    session: &mut Session,
    connection: &Connection,
    rights: &dyn Rights,
) {
    // When the current message must be complete.
    let mut deadline = None;
    let mut unlogged = Unlogged::default();
    while !state.is_stopping() && !connection.outbox.is_closed() {
        loop {
            match session.next_event() {
                Ok(Some(Event::Message(message))) => {
                    take(state, &message, connection, rights, &mut unlogged);
                }
                Ok(_) => break,
                Err(error) => {
                    unlogged.log(state);
                    return end(state, &error.to_string());
                }
            }
            deadline = None;
        }
        unlogged.log(state);
        deadline = match (session.pending(), deadline) {
            (0, _) => None,
            (_, None) => Some(Instant::now() + state.options.message_timeout),
            (_, deadline) => deadline,
        };
        if deadline.is_some_and(|deadline| Instant::now() > deadline) {
            return end(state, "a message was not complete in time");
        }
        acknowledge(socket);
        if !read(socket, session, READ_BYTES).unwrap_or(false) {
            return;
        }
    }
}

/// Makes the system acknowledge received bytes now, and not after 40 ms without an answer: a client whose system collects small
/// writes sends nothing more before, neither updates nor the request after them.
fn acknowledge(socket: &TcpStream) {
    // On other systems clients wait.
    #[cfg(target_os = "linux")]
    let _ = std::os::linux::net::TcpStreamExt::set_quickack(socket, true);
}

fn end(state: &FrontState, why: &str) {
    state.hostile.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    state.record_error(why);
}

/// Updates that are accepted and not logged yet. They are logged before the next answer.
#[derive(Default)]
struct Unlogged {
    updates: usize,
    rows: usize,
    bytes: usize,
    /// How long accepting them took.
    took: Duration,
}

impl Unlogged {
    fn add(&mut self, rows: usize, bytes: usize, took: Duration) {
        self.updates += 1;
        self.rows += rows;
        self.bytes += bytes;
        self.took += took;
    }

    fn is_much(&self) -> bool {
        self.updates >= TOGETHER_MAX || self.bytes >= TOGETHER_BYTES_MAX
    }

    fn log(&mut self, state: &FrontState) {
        let Some(plant) = state.served.plant.as_ref().filter(|_| self.updates > 0) else { return };
        let began = Instant::now();
        if let Err(error) = plant.log() {
            state.record_error(&error.to_string());
        }
        if let Some(probe) = &state.options.probe {
            probe.logged(self.rows, self.took + began.elapsed());
        }
        *self = Self::default();
    }
}

/// Handles a message, and answers it if it is synchronous.
fn take(
    state: &FrontState,
    request: &Message<'_>,
    connection: &Connection,
    rights: &dyn Rights,
    unlogged: &mut Unlogged,
) {
    let is_synchronous = request.kind == Kind::Synchronous;
    if is_synchronous || unlogged.is_much() {
        unlogged.log(state);
    }
    if is_synchronous {
        connection.outbox.begin_answer();
    }
    let began = Instant::now();
    let (served, hub) = (&state.served, state.hub());
    let mut answerer =
        Answerer { served, hub, connection, rights, is_synchronous, collected: false, rows: 0, state: None };
    let answer = request.value(&state.options.limits).map_err(|error| error.to_string());
    let answer = answer.and_then(|value| answerer.answer(value));
    let (collected, rows) = (answerer.collected, answerer.rows);
    if collected {
        unlogged.add(rows, request.payload.len(), began.elapsed());
    } else if rows > 0
        && let Some(probe) = &state.options.probe
    {
        probe.logged(rows, began.elapsed());
    }
    if let Err(error) = &answer {
        state.record_error(error);
    }
    if is_synchronous {
        let answer = answer.unwrap_or_else(|error| Value::error(&error));
        connection.outbox.answer(response(&answer, connection.compresses).into());
    }
}

fn response(answer: &Value, compresses: bool) -> Vec<u8> {
    let plain = message(Kind::Response, answer).unwrap_or_else(|error| {
        // An error of a few bytes is not too long.
        message(Kind::Response, &Value::error(&error.to_string())).unwrap_or_default()
    });
    if compresses { compress(&plain).unwrap_or(plain) } else { plain }
}

/// Writes the messages of the outbox until the connection ends.
fn write(state: &FrontState, socket: &TcpStream, outbox: &Outbox, id: u64) {
    let mut out = Vec::new();
    let mut reading = None;
    while outbox.take(&mut out, if outbox.is_behind() { Duration::ZERO } else { TICK }) {
        if !out.is_empty() {
            if !write_all(state, socket, &out, outbox) {
                break;
            }
            outbox.written(out.len());
        } else if outbox.is_behind()
            && let Some(hub) = state.hub()
        {
            match CatchUp::step(&mut reading, hub, id) {
                Ok(true) => {}
                Ok(false) => reading = None,
                Err(error) => {
                    state.record_error(&error.to_string());
                    break;
                }
            }
        }
    }
    outbox.close();
    let _ = socket.shutdown(Shutdown::Both);
}

/// Writes all of it, however slowly the other side reads; `false`: the connection has ended.
fn write_all(state: &FrontState, mut socket: &TcpStream, bytes: &[u8], outbox: &Outbox) -> bool {
    let mut written = 0;
    while written < bytes.len() {
        match socket.write(&bytes[written..]) {
            Ok(0) => return false,
            Ok(more) => written += more,
            Err(error) if is_timeout(&error) && !state.is_stopping() && !outbox.is_closed() => {}
            Err(_) => return false,
        }
    }
    true
}
