//! One client: the handshake, its replay, the end.

use crate::access;
use crate::plan;
use crate::request::{Request, RequestError};
use crate::server::{Ended, Shared};
use crate::sink::NormalizedSink;
use crate::wire::{Duplex, Wire};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc;
use std::sync::{Arc, mpsc::Receiver};
use std::thread;
use std::time::{Duration, Instant};
use tapedb_replay::{Control, Player, ReplayError};
use tungstenite::handshake::server::{ErrorResponse, Request as Asked, Response};
use tungstenite::http::{StatusCode, header};
use tungstenite::protocol::frame::{CloseFrame, Frame, coding::CloseCode};
use tungstenite::protocol::{WebSocket, WebSocketConfig};
use tungstenite::{HandshakeError, Message, accept_hdr_with_config};

/// A client that sends its request more slowly than this is not waited for.
const REQUEST_WAIT: Duration = Duration::from_secs(10);
/// Largest message of a client, which has nothing to send.
const CLIENT_MESSAGE_MAX: usize = 64 << 10;
/// How long a client may take to read what is on its way to it when the replay is over.
const CLOSE_WAIT: Duration = Duration::from_secs(60);
/// The same while the server stops.
const CLOSE_WAIT_STOPPING: Duration = Duration::from_secs(1);
/// Longest reason of a close frame, in bytes.
const REASON_MAX: usize = 123;

/// The path of a request, as tardis-machine has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Path {
    Raw,
    Normalized,
}

/// Serves a client to its end.
pub(crate) fn serve(
    socket: TcpStream,
    peer: SocketAddr,
    shared: &Shared,
    control: &Control,
    wire: &Arc<Wire>,
) -> Ended {
    let mut ended = Ended { peer, messages: 0, bytes: 0, seconds: 0.0, error: None };
    let began = Instant::now();
    match shake_hands(socket, shared, wire) {
        Ok((client, path, query)) => {
            wire.begin();
            replay(client, (path, &query), shared, control, wire, &mut ended);
        }
        Err(error) => ended.error = Some(error.to_string()),
    }
    wire.end();
    ended.seconds = began.elapsed().as_secs_f64();
    ended
}

type Opened = (WebSocket<Duplex>, Path, String);

fn shake_hands(socket: TcpStream, shared: &Shared, wire: &Arc<Wire>) -> io::Result<Opened> {
    // Frames are whole when they are sent: nothing is gained by waiting for more.
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(REQUEST_WAIT))?;
    let mut asked = None;
    #[expect(clippy::result_large_err, reason = "the type is tungstenite's")]
    let callback = |request: &Asked, response: Response| -> Result<Response, ErrorResponse> {
        let text = |name| request.headers().get(name).map(|value| value.to_str().unwrap_or("?"));
        if let Err(why) = access::check(text(header::HOST), text(header::ORIGIN), &shared.options.hosts) {
            return Err(refusal(StatusCode::FORBIDDEN, why));
        }
        if !shared.has_space() {
            return Err(refusal(
                StatusCode::SERVICE_UNAVAILABLE,
                "as many clients as are allowed are connected",
            ));
        }
        let path = match request.uri().path() {
            "/ws-replay" => Path::Raw,
            "/ws-replay-normalized" => Path::Normalized,
            _ => return Err(refusal(StatusCode::NOT_FOUND, "ask for /ws-replay-normalized")),
        };
        asked = Some((path, request.uri().query().unwrap_or_default().to_string()));
        Ok(response)
    };
    let config = WebSocketConfig::default()
        .read_buffer_size(4 << 10)
        .write_buffer_size(0)
        .max_message_size(Some(CLIENT_MESSAGE_MAX))
        .max_frame_size(Some(CLIENT_MESSAGE_MAX));
    let duplex = Duplex { socket, wire: Arc::clone(wire) };
    let client = accept_hdr_with_config(duplex, callback, Some(config)).map_err(|error| match error {
        HandshakeError::Failure(tungstenite::Error::Io(error)) => error,
        HandshakeError::Failure(error) => io::Error::other(error.to_string()),
        HandshakeError::Interrupted(_) => {
            io::Error::new(io::ErrorKind::TimedOut, "the client sends no request")
        }
    })?;
    client.get_ref().socket.set_read_timeout(None)?;
    let (path, query) = asked.ok_or_else(|| io::Error::other("the client sent no path"))?;
    Ok((client, path, query))
}

fn refusal(status: StatusCode, why: &str) -> ErrorResponse {
    let mut response = ErrorResponse::new(Some(format!("{why}\n")));
    *response.status_mut() = status;
    response
}

/// Replays to a client, while another thread reads what it sends.
fn replay(
    client: WebSocket<Duplex>,
    (path, query): (Path, &str),
    shared: &Shared,
    control: &Control,
    wire: &Wire,
    ended: &mut Ended,
) {
    thread::scope(|scope| {
        let (gone, is_gone) = mpsc::channel();
        scope.spawn(move || {
            read_to_the_end(client, control, wire);
            let _ = gone.send(());
        });
        let played = play(path, query, shared, control, wire, ended);
        let (code, reason) = match played {
            _ if wire.is_over() => return wire.end(),
            Ok(()) if wire.is_hurried() => (CloseCode::Away, "the server stops".to_string()),
            Ok(()) => (CloseCode::Normal, "WS replay finished".to_string()),
            Err(error) => {
                ended.error = Some(error.clone());
                (CloseCode::Error, error)
            }
        };
        close(wire, code, &reason, &is_gone);
    });
}

fn play(
    path: Path,
    query: &str,
    shared: &Shared,
    control: &Control,
    wire: &Wire,
    ended: &mut Ended,
) -> Result<(), String> {
    if path == Path::Raw {
        return Err(RequestError::Raw.to_string());
    }
    let request = Request::of(query, &shared.streams).map_err(|error| error.to_string())?;
    let source =
        plan::open(&shared.db, &shared.streams, &request.selections).map_err(|error| error.to_string())?;
    let mut sink = NormalizedSink::new(&shared.streams, source.channels, &request.selections, wire);
    let speed = request.speed.unwrap_or(shared.options.speed);
    let played = Player::new(source.cursor, speed, control.clone()).run(&mut sink);
    (ended.messages, ended.bytes) = sink.sent();
    match played {
        Ok(_) => Ok(()),
        // The client has left, or reads nothing.
        Err(ReplayError::Sink(error)) if wire.is_over() => {
            ended.error = Some(error.to_string());
            Ok(())
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Reads until the client is gone, and then ends its replay. What it sends is answered if it is a ping, and otherwise ignored.
fn read_to_the_end(mut client: WebSocket<Duplex>, control: &Control, wire: &Wire) {
    loop {
        match client.read() {
            Ok(Message::Close(_)) => {
                // The answer is written with the next call; nothing follows it.
                control.stop_now();
            }
            Ok(_) => {}
            Err(_) => break,
        }
    }
    wire.leave();
    control.stop_now();
}

/// Sends a close frame, and waits until the client has read everything.
fn close(wire: &Wire, code: CloseCode, reason: &str, is_gone: &Receiver<()>) {
    let mut end = reason.len().min(REASON_MAX);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    let frame = Frame::close(Some(CloseFrame { code, reason: reason[..end].into() }));
    let mut bytes = Vec::new();
    if frame.format(&mut bytes).is_ok() {
        wire.close_with(&bytes);
    }
    let mut left = CLOSE_WAIT;
    // The server may begin to stop in between.
    while !left.is_zero()
        && is_gone.recv_timeout(CLOSE_WAIT_STOPPING.min(left)).is_err()
        && !wire.is_hurried()
    {
        left = left.saturating_sub(CLOSE_WAIT_STOPPING);
    }
    wire.end();
}
