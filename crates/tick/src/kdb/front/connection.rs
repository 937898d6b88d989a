//! One connection: a thread that reads and answers, and one that writes.

use super::Rights;
use super::Shared;
use super::answer::Answerer;
use super::catch_up::CatchUp;
use super::outbox::Outbox;

use super::subscriber::Connection;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tapedb_kdb_ipc::{Event, Kind, Message, Session, Value, compress, message};

/// How long it waits before it looks whether it shall stop.
const TICK: Duration = Duration::from_millis(100);
/// Room for what arrives at once.
const READ_BYTES: usize = 64 << 10;
/// So many updates that nobody waits for are logged together, if they have arrived together.
const TOGETHER_MAX: usize = 64;
/// Beyond so many bytes of updates none waits for another.
const TOGETHER_BYTES_MAX: usize = 64 << 10;

/// Serves a connection until it ends.
pub(super) fn serve(shared: &Arc<Shared>, socket: &TcpStream, peer: SocketAddr, id: u64) {
    let _ = socket.set_nodelay(true);
    let is_ready = socket.set_read_timeout(Some(TICK)).and_then(|()| socket.set_write_timeout(Some(TICK)));
    let mut session = Session::server(shared.options.limits);
    let entered = is_ready.ok().and_then(|()| greet(shared, socket, peer, &mut session));
    match entered {
        Some(rights) => talk(shared, socket, peer, id, session, &*rights),
        None => {
            shared.refused.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

/// Lets a client in, or not.
fn greet(
    shared: &Shared,
    mut socket: &TcpStream,
    peer: SocketAddr,
    session: &mut Session,
) -> Option<Arc<dyn Rights>> {
    let deadline = Instant::now() + shared.options.greeting_timeout;
    loop {
        match session.next_event() {
            Ok(Some(Event::Greeting(greeting))) => {
                let rights = shared.options.access.enter(&greeting.user, &greeting.password, peer)?;
                socket.write_all(&session.accept(greeting.capability)).ok()?;
                return Some(rights);
            }
            Ok(None) if Instant::now() < deadline && !shared.is_stopping() => {}
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
        Err(error) if is_patience(&error) => Ok(true),
        Err(error) => Err(error),
    }
}

/// Nothing came, or nothing could go, for now.
fn is_patience(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

fn talk(
    shared: &Arc<Shared>,
    socket: &TcpStream,
    peer: SocketAddr,
    id: u64,
    mut session: Session,
    rights: &dyn Rights,
) {
    let outbox = shared.budget.outbox(shared.options.waiting_bytes_max);
    let compresses = !peer.ip().is_loopback();
    let connection = Connection { id, outbox: outbox.clone(), slow: shared.options.slow, compresses };
    std::thread::scope(|scope| {
        let writer = std::thread::Builder::new().name("kdb-writer".into());
        if writer.spawn_scoped(scope, || write(shared, socket, &outbox, id)).is_ok() {
            listen(shared, socket, &mut session, &connection, rights);
        }
        if let Some(hub) = shared.hub() {
            hub.lock().unsubscribe(id, None);
        }
        outbox.close();
    });
    let _ = socket.shutdown(Shutdown::Both);
}

/// Reads requests and answers them until the connection ends.
fn listen(
    shared: &Shared,
    socket: &TcpStream,
    session: &mut Session,
    connection: &Connection,
    rights: &dyn Rights,
) {
    // When the message that has begun must be there.
    let mut deadline = None;
    let mut unlogged = Unlogged::default();
    while !shared.is_stopping() && !connection.outbox.is_closed() {
        loop {
            match session.next_event() {
                Ok(Some(Event::Message(message))) => {
                    take(shared, &message, connection, rights, &mut unlogged);
                }
                Ok(_) => break,
                Err(error) => {
                    unlogged.log(shared);
                    return end(shared, &error.to_string());
                }
            }
            deadline = None;
        }
        unlogged.log(shared);
        deadline = match (session.pending(), deadline) {
            (0, _) => None,
            (_, None) => Some(Instant::now() + shared.options.message_timeout),
            (_, deadline) => deadline,
        };
        if deadline.is_some_and(|deadline| Instant::now() > deadline) {
            return end(shared, "a message did not come to its end in time");
        }
        acknowledge(socket);
        if !read(socket, session, READ_BYTES).unwrap_or(false) {
            return;
        }
    }
}

/// Has the system acknowledge now what has arrived, and not when 40 ms have passed without an answer: a client whose system
/// collects small writes sends nothing else before, be it updates or the question behind them.
fn acknowledge(socket: &TcpStream) {
    // Where it cannot, clients wait.
    #[cfg(target_os = "linux")]
    let _ = std::os::linux::net::TcpStreamExt::set_quickack(socket, true);
}

fn end(shared: &Shared, why: &str) {
    shared.hostile.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    shared.note_error(why);
}

/// Updates that are taken and not logged yet. What is answered comes after them.
#[derive(Default)]
struct Unlogged {
    updates: usize,
    rows: usize,
    bytes: usize,
    /// How long taking them took.
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

    fn log(&mut self, shared: &Shared) {
        let Some(plant) = shared.served.plant.as_ref().filter(|_| self.updates > 0) else { return };
        let begun = Instant::now();
        if let Err(error) = plant.log() {
            shared.note_error(&error.to_string());
        }
        if let Some(probe) = &shared.options.probe {
            probe.logged(self.rows, self.took + begun.elapsed());
        }
        *self = Self::default();
    }
}

/// Takes a message, and answers it if it wants an answer.
fn take(
    shared: &Shared,
    request: &Message<'_>,
    connection: &Connection,
    rights: &dyn Rights,
    unlogged: &mut Unlogged,
) {
    let is_asked = request.kind == Kind::Synchronous;
    if is_asked || unlogged.is_much() {
        unlogged.log(shared);
    }
    if is_asked {
        connection.outbox.begin_answer();
    }
    let begun = Instant::now();
    let (served, hub) = (&shared.served, shared.hub());
    let mut answerer =
        Answerer { served, hub, connection, rights, is_asked, collected: false, rows: 0, state: None };
    let answer = request.value(&shared.options.limits).map_err(|error| error.to_string());
    let answer = answer.and_then(|value| answerer.answer(value));
    let (collected, rows) = (answerer.collected, answerer.rows);
    if collected {
        unlogged.add(rows, request.payload.len(), begun.elapsed());
    } else if rows > 0
        && let Some(probe) = &shared.options.probe
    {
        probe.logged(rows, begun.elapsed());
    }
    if let Err(error) = &answer {
        shared.note_error(error);
    }
    if is_asked {
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

/// Writes what waits until the connection ends.
fn write(shared: &Shared, socket: &TcpStream, outbox: &Outbox, id: u64) {
    let mut out = Vec::new();
    let mut reading = None;
    while outbox.take(&mut out, if outbox.is_behind() { Duration::ZERO } else { TICK }) {
        if !out.is_empty() {
            if !write_all(shared, socket, &out, outbox) {
                break;
            }
            outbox.written(out.len());
        } else if outbox.is_behind()
            && let Some(hub) = shared.hub()
        {
            match CatchUp::step(&mut reading, hub, id) {
                Ok(true) => {}
                Ok(false) => reading = None,
                Err(error) => {
                    shared.note_error(&error.to_string());
                    break;
                }
            }
        }
    }
    outbox.close();
    let _ = socket.shutdown(Shutdown::Both);
}

/// Writes all of it, however slowly the other side reads; `false`: the connection has ended.
fn write_all(shared: &Shared, mut socket: &TcpStream, bytes: &[u8], outbox: &Outbox) -> bool {
    let mut written = 0;
    while written < bytes.len() {
        match socket.write(&bytes[written..]) {
            Ok(0) => return false,
            Ok(more) => written += more,
            Err(error) if is_patience(&error) && !shared.is_stopping() && !outbox.is_closed() => {}
            Err(_) => return false,
        }
    }
    true
}
