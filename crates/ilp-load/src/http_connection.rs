//! HTTP/1.1: requests one after another over a connection, each within limits of bytes and time.

use crate::http::{HttpRequest, HttpResponse, LineGateway};
use crate::load::{LineConnection, Pending};
use crate::open::Open;
use crate::socket::Socket;
use httparse::{Request, Status};
use rustls::ServerConfig;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const HEAD_BYTES_MAX: usize = 16 << 10;
const HEADERS_MAX: usize = 64;
/// Time between two requests.
const IDLE_MAX: Duration = Duration::from_secs(120);
/// Time for the head of a request, and for the answer to be taken.
const HEAD_TIME_MAX: Duration = Duration::from_secs(10);
/// A body that comes slower than this, after [`HEAD_TIME_MAX`], is refused.
const BODY_BYTES_PER_SECOND_MIN: usize = 16 << 10;
/// Bytes that are read at once, at most.
const PIECE_BYTES: usize = 256 << 10;
/// Longest line between chunks.
const CHUNK_LINE_BYTES_MAX: usize = 1 << 10;

/// What was received and is not used.
struct Input<'s> {
    socket: Socket<'s>,
    bytes: Vec<u8>,
    at: usize,
}

/// The head of a request.
struct Head {
    method: String,
    path: String,
    headers: Vec<(String, Vec<u8>)>,
    is_1_0: bool,
}

/// Why a request cannot be read.
enum Bad {
    Io(io::Error),
    /// An answer, after which the connection is closed.
    Answer(u16, &'static str),
}

impl From<io::Error> for Bad {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Answers requests until the client leaves.
pub(crate) fn serve(
    open: &Open,
    peer: SocketAddr,
    gateway: &LineGateway,
    tls: Option<&Arc<ServerConfig>>,
) -> io::Result<()> {
    open.socket.set_nodelay(true)?;
    open.socket.set_write_timeout(Some(HEAD_TIME_MAX))?;
    let mut input = Input { socket: Socket::new(open, tls)?, bytes: Vec::new(), at: 0 };
    let mut connection = LineConnection::from(peer);
    while !open.stop.load(Ordering::SeqCst) {
        if input.is_empty() && !input.fill(Instant::now() + IDLE_MAX)? {
            return Ok(());
        }
        open.is_busy.store(true, Ordering::SeqCst);
        let (response, keeps) = match request(&mut input, gateway, &mut connection, peer) {
            Ok(answered) => answered,
            Err(Bad::Io(error)) => return Err(error),
            Err(Bad::Answer(status, what)) => {
                let body = format!("{{\"code\":\"invalid\",\"message\":\"{what}\"}}");
                (HttpResponse { status, headers: Vec::new(), body }, false)
            }
        };
        let keeps = keeps && !open.stop.load(Ordering::SeqCst);
        input.socket.write(text_of(&response, keeps).as_bytes())?;
        open.is_busy.store(false, Ordering::SeqCst);
        if !keeps {
            return close(&mut input);
        }
    }
    Ok(())
}

/// Reads a request and answers it; whether another one may follow.
fn request(
    input: &mut Input<'_>,
    gateway: &LineGateway,
    connection: &mut LineConnection,
    peer: SocketAddr,
) -> Result<(HttpResponse, bool), Bad> {
    let head = head(input)?;
    let header = |name: &str| {
        let found = head.headers.iter().find(|(header, _)| header.eq_ignore_ascii_case(name));
        found.map(|(_, value)| String::from_utf8_lossy(value).trim().to_ascii_lowercase())
    };
    let count =
        |name: &str| head.headers.iter().filter(|(found, _)| found.eq_ignore_ascii_case(name)).count();
    let keeps = match header("connection") {
        Some(value) if value.contains("close") => false,
        Some(value) if value.contains("keep-alive") => true,
        _ => !head.is_1_0,
    };
    if count("host") > 1 || count("content-length") > 1 || count("transfer-encoding") > 1 {
        return Err(Bad::Answer(400, "a header is there twice"));
    }
    let length = header("content-length");
    let mut pending = gateway.loader().pending();
    let body = match header("transfer-encoding") {
        Some(_) if length.is_some() => {
            return Err(Bad::Answer(400, "Content-Length and Transfer-Encoding contradict each other"));
        }
        Some(encoding) if encoding == "chunked" => {
            go_on(input, &header("expect"))?;
            chunked(input, gateway, &mut pending)?
        }
        Some(_) => return Err(Bad::Answer(501, "the Transfer-Encoding is not supported")),
        None => {
            let length = length.unwrap_or_else(|| "0".into());
            let is_number = !length.is_empty() && length.bytes().all(|digit| digit.is_ascii_digit());
            let length = if is_number { length.parse::<usize>().ok() } else { None };
            let length = length.ok_or(Bad::Answer(400, "Content-Length is not a number"))?;
            if length > gateway.loader().options().request_bytes_max {
                return Err(Bad::Answer(413, "the body is too long; send fewer lines at once"));
            }
            go_on(input, &header("expect"))?;
            body(input, length, &mut pending)?
        }
    };
    // The gateway counts the bytes itself.
    drop(pending);
    let headers: Vec<(&str, &[u8])> =
        head.headers.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect();
    let request = HttpRequest {
        method: &head.method,
        path: &head.path,
        headers: &headers,
        body: &body,
        address: Some(peer.ip()),
    };
    let mut response = gateway.answer(connection, &request);
    if head.method == "HEAD" {
        response.body.clear();
    }
    Ok((response, keeps))
}

fn head(input: &mut Input<'_>) -> Result<Head, Bad> {
    let end = Instant::now() + HEAD_TIME_MAX;
    loop {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut request = Request::new(&mut headers);
        match request.parse(input.unread()) {
            Ok(Status::Complete(length)) => {
                let copied = |header: &httparse::Header<'_>| (header.name.to_string(), header.value.to_vec());
                let head = Head {
                    method: request.method.unwrap_or_default().into(),
                    path: request.path.unwrap_or_default().into(),
                    headers: request.headers.iter().map(copied).collect(),
                    is_1_0: request.version == Some(0),
                };
                input.at += length;
                return Ok(head);
            }
            Ok(Status::Partial) if input.unread().len() >= HEAD_BYTES_MAX => {
                return Err(Bad::Answer(431, "the head of the request is too long"));
            }
            Ok(Status::Partial) => {
                if !input.fill(end)? {
                    return Err(Bad::Io(io::ErrorKind::UnexpectedEof.into()));
                }
            }
            Err(httparse::Error::TooManyHeaders) => {
                return Err(Bad::Answer(431, "the request has too many headers"));
            }
            Err(_) => return Err(Bad::Answer(400, "not an HTTP request")),
        }
    }
}

/// Tells a client that waits for it to send the body.
fn go_on(input: &mut Input<'_>, expect: &Option<String>) -> Result<(), Bad> {
    match expect.as_deref() {
        None => Ok(()),
        Some("100-continue") => Ok(input.socket.write(b"HTTP/1.1 100 Continue\r\n\r\n")?),
        Some(_) => Err(Bad::Answer(417, "the header Expect is not supported")),
    }
}

fn busy() -> Bad {
    Bad::Answer(503, "the server has too many lines in memory; try again")
}

/// Reads so many bytes of a body. Memory grows with what arrives, not with what is stated.
fn body(input: &mut Input<'_>, length: usize, pending: &mut Pending<'_>) -> Result<Vec<u8>, Bad> {
    let begin = Instant::now();
    let mut body = Vec::new();
    if !read_to(input, &mut body, length, begin, pending)? {
        return Err(Bad::Io(io::ErrorKind::UnexpectedEof.into()));
    }
    Ok(body)
}

/// Reads until the body has so many bytes; `false`: the client has left.
fn read_to(
    input: &mut Input<'_>,
    body: &mut Vec<u8>,
    length: usize,
    begin: Instant,
    pending: &mut Pending<'_>,
) -> Result<bool, Bad> {
    let have = input.unread();
    let taken = have.len().min(length - body.len());
    if !pending.add(taken) {
        return Err(busy());
    }
    body.extend_from_slice(&have[..taken]);
    input.at += taken;
    while body.len() < length {
        let begins = body.len();
        // Doubles, so that each byte is moved once or twice.
        let more = (length - begins).min(PIECE_BYTES.max(begins));
        if !pending.add(more) {
            return Err(busy());
        }
        body.resize(begins + more, 0);
        let mut at = begins;
        while at < body.len() {
            match input.socket.read(&mut body[at..], begin + time_for(at))? {
                0 => return Ok(false),
                read => at += read,
            }
        }
    }
    Ok(true)
}

/// The time that so many bytes may take.
fn time_for(bytes: usize) -> Duration {
    HEAD_TIME_MAX + Duration::from_secs((bytes / BODY_BYTES_PER_SECOND_MIN) as u64)
}

/// Reads a body in chunks.
fn chunked(input: &mut Input<'_>, gateway: &LineGateway, pending: &mut Pending<'_>) -> Result<Vec<u8>, Bad> {
    let begin = Instant::now();
    let most = gateway.loader().options().request_bytes_max;
    let mut body = Vec::new();
    loop {
        let line = line(input, begin + time_for(body.len()))?;
        let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        let is_hex = !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit);
        let digits = if is_hex { str::from_utf8(digits).ok() } else { None };
        let length = digits.and_then(|digits| usize::from_str_radix(digits, 16).ok());
        let length = length.ok_or(Bad::Answer(400, "the length of a chunk is not a number"))?;
        if length == 0 {
            // What may follow the last chunk is not used.
            for _ in 0..HEADERS_MAX {
                if self::line(input, begin + time_for(body.len()))?.is_empty() {
                    return Ok(body);
                }
            }
            return Err(Bad::Answer(431, "the request has too many headers"));
        }
        if length > most - body.len() {
            return Err(Bad::Answer(413, "the body is too long; send fewer lines at once"));
        }
        let whole = body.len() + length;
        if !read_to(input, &mut body, whole, begin, pending)? {
            return Err(Bad::Io(io::ErrorKind::UnexpectedEof.into()));
        }
        if !self::line(input, begin + time_for(body.len()))?.is_empty() {
            return Err(Bad::Answer(400, "a chunk does not end where it states"));
        }
    }
}

/// A line between chunks, without its line break.
fn line(input: &mut Input<'_>, end: Instant) -> Result<Vec<u8>, Bad> {
    loop {
        let unread = input.unread();
        if let Some(at) = unread.iter().take(CHUNK_LINE_BYTES_MAX).position(|byte| *byte == b'\n') {
            let line = unread[..at].strip_suffix(b"\r").unwrap_or(&unread[..at]).to_vec();
            input.at += at + 1;
            return Ok(line);
        }
        if unread.len() >= CHUNK_LINE_BYTES_MAX {
            return Err(Bad::Answer(400, "a chunk begins with a line that is too long"));
        }
        if !input.fill(end)? {
            return Err(Bad::Io(io::ErrorKind::UnexpectedEof.into()));
        }
    }
}

impl Input<'_> {
    fn unread(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// Receives more bytes; `false`: the client has left.
    fn fill(&mut self, end: Instant) -> io::Result<bool> {
        if self.is_empty() {
            self.bytes.clear();
        } else {
            self.bytes.drain(..self.at);
        }
        self.at = 0;
        let length = self.bytes.len();
        self.bytes.resize(length + HEAD_BYTES_MAX, 0);
        let read = self.socket.read(&mut self.bytes[length..], end);
        self.bytes.truncate(length + read.as_ref().copied().unwrap_or(0));
        Ok(read? > 0)
    }
}

fn text_of(response: &HttpResponse, keeps: bool) -> String {
    let HttpResponse { status, headers, body } = response;
    let reason = match status {
        200 => "OK",
        204 => "No Content",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        413 => "Content Too Large",
        415 => "Unsupported Media Type",
        417 => "Expectation Failed",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        _ => "Internal Server Error",
    };
    let mut text = format!(
        "HTTP/1.1 {status} {reason}\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
    );
    if *status != 204 {
        text.push_str(&format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len()));
    }
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str(if keeps { "Connection: keep-alive\r\n\r\n" } else { "Connection: close\r\n\r\n" });
    text.push_str(body);
    text
}

/// Closes a connection after its last answer. Closing the socket with unread bytes would reset it and discard the answer.
fn close(input: &mut Input<'_>) -> io::Result<()> {
    let end = Instant::now() + Duration::from_secs(2);
    input.socket.end()?;
    input.at = input.bytes.len();
    while input.fill(end)? {
        input.at = input.bytes.len();
    }
    Ok(())
}
