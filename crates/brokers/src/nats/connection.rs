//! A connection to a NATS server: one thread, blocking, with what was published kept until it is flushed.
//!
//! Always true: `input[start..end]` has arrived and was not returned; the message that [`Connection::message`] gives is in front of it.

use super::address::Address;
use super::frame::{Frame, PAYLOAD_BYTES_MAX, parse, status};
use super::login::{Login, Proof};
use crate::error::Error;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::{Value, json};
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a server may take to answer.
const ANSWER: Duration = Duration::from_secs(10);
/// Bytes read at once.
const CHUNK_BYTES: usize = 256 << 10;

/// How servers are reached.
#[derive(Debug, Clone, Default)]
pub struct Server {
    /// The servers of one cluster: they are tried one after another.
    pub addresses: Vec<Address>,
    /// How to log in.
    pub login: Login,
    /// A PEM file of authorities to trust, in place of the system's.
    pub authorities: Option<PathBuf>,
}

/// A connection.
pub(super) struct Connection {
    socket: Socket,
    /// Which server.
    pub place: String,
    /// The largest payload that the server takes.
    pub payload_max: usize,
    input: Vec<u8>,
    start: usize,
    end: usize,
    output: Vec<u8>,
    message: Ranges,
    inbox: String,
    replies: u64,
}

enum Socket {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

#[derive(Default)]
struct Ranges {
    subject: Range<usize>,
    reply: Range<usize>,
    headers: Range<usize>,
    payload: Range<usize>,
}

/// A message that has arrived.
#[derive(Debug, Clone, Copy)]
pub(super) struct Message<'a> {
    pub subject: &'a str,
    pub reply: &'a str,
    pub headers: &'a [u8],
    pub payload: &'a [u8],
}

impl Message<'_> {
    /// The status, where it is one; 0: it is a message.
    pub fn status(&self) -> (u16, &str) {
        status(self.headers)
    }
}

impl Server {
    /// Connects to the first server that answers.
    ///
    /// # Errors
    /// [`Error::Away`] when none does; [`Error::Refused`] when one refuses the login.
    pub(super) fn connect(&self) -> Result<Connection, Error> {
        let mut failures = Vec::new();
        for address in &self.addresses {
            match self.connect_to(address) {
                Err(Error::Away(why)) => failures.push(format!("{address}: {why}")),
                other => return other,
            }
        }
        Err(Error::Away(format!(
            "NATS cannot be reached ({}); check the address, and that the server runs",
            failures.join("; ")
        )))
    }

    fn connect_to(&self, address: &Address) -> Result<Connection, Error> {
        let tcp = tcp(address).map_err(|error| Error::Away(error.to_string()))?;
        let mut connection = Connection {
            socket: Socket::Plain(tcp),
            place: address.to_string(),
            payload_max: 1 << 20,
            input: Vec::new(),
            start: 0,
            end: 0,
            output: Vec::new(),
            message: Ranges::default(),
            inbox: format!("_INBOX.{}", unique()),
            replies: 0,
        };
        let info = connection.info()?;
        let must = |name: &str| info[name].as_bool().unwrap_or(false);
        if address.tls || must("tls_required") {
            connection = self.secured(connection, address)?;
        }
        if let Some(bytes) = info["max_payload"].as_u64() {
            connection.payload_max =
                usize::try_from(bytes).unwrap_or(PAYLOAD_BYTES_MAX).min(PAYLOAD_BYTES_MAX);
        }
        if !must("headers") {
            let what =
                format!("{address} is a NATS server without headers; JetStream needs version 2.2 or later");
            return Err(Error::Refused(what));
        }
        if !must("jetstream") && info["jetstream"].is_boolean() {
            return Err(Error::Refused(format!(
                "{address} runs without JetStream; start it with `nats-server -js`"
            )));
        }
        let hello = self.hello(address, info["nonce"].as_str().unwrap_or_default())?;
        let subscribe = format!("CONNECT {hello}\r\nSUB {}.* 1\r\nPING\r\n", connection.inbox);
        connection.output.extend_from_slice(subscribe.as_bytes());
        connection.flush()?;
        connection.pong()?;
        Ok(connection)
    }

    fn hello(&self, address: &Address, nonce: &str) -> Result<Value, Error> {
        let mut hello = json!({
            "verbose": false, "pedantic": false, "name": "tapedb", "lang": "rust", "version": env!("CARGO_PKG_VERSION"),
            "protocol": 1, "headers": true, "no_responders": true, "echo": true,
        });
        let mut set = |name: &str, value: &Option<String>| {
            if let Some(value) = value {
                hello[name] = value.as_str().into();
            }
        };
        let Login { user, password, token, .. } = &self.login;
        set("user", if address.user.is_some() { &address.user } else { user });
        set("pass", password);
        set("auth_token", token);
        match self.login.prove(nonce).map_err(Error::Settings)? {
            Some(Proof::Jwt { jwt, signature }) => {
                set("jwt", &Some(jwt));
                set("sig", &Some(signature));
            }
            Some(Proof::Key { public, signature }) => {
                set("nkey", &Some(public));
                set("sig", &Some(signature));
            }
            None => {}
        }
        Ok(hello)
    }

    /// TLS over the connection.
    fn secured(&self, connection: Connection, address: &Address) -> Result<Connection, Error> {
        let Socket::Plain(tcp) = connection.socket else { return Ok(connection) };
        let config = self.tls().map_err(|error| Error::Settings(format!("TLS: {error}")))?;
        let name = ServerName::try_from(address.host.clone()).map_err(|_| {
            Error::Settings(format!("{} is no name that a certificate can have", address.host))
        })?;
        let session =
            ClientConnection::new(config, name).map_err(|error| Error::Settings(error.to_string()))?;
        let mut stream = StreamOwned::new(session, tcp);
        stream.sock.set_read_timeout(Some(ANSWER)).map_err(away)?;
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock).map_err(|error| {
                let is_certificate = error.get_ref().is_some_and(|error| error.is::<rustls::Error>());
                let what = format!("{address}: TLS failed: {error}");
                if is_certificate {
                    Error::Refused(format!("{what}; TAPEDB_CA names a PEM file of authorities to trust"))
                } else {
                    Error::Away(what)
                }
            })?;
        }
        Ok(Connection { socket: Socket::Tls(Box::new(stream)), ..connection })
    }

    fn tls(&self) -> io::Result<Arc<ClientConfig>> {
        let mut roots = RootCertStore::empty();
        match &self.authorities {
            Some(path) => {
                let found =
                    CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
                roots.add_parsable_certificates(
                    found.map_err(|error| io::Error::other(format!("{}: {error}", path.display())))?,
                );
            }
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            }
        }
        if roots.is_empty() {
            return Err(io::Error::other(
                "there is no trusted certificate authority; TAPEDB_CA names a PEM file of them",
            ));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        Ok(Arc::new(builder.map_err(io::Error::other)?.with_root_certificates(roots).with_no_client_auth()))
    }
}

impl Connection {
    /// A subject for replies that no other request has.
    pub fn reply_subject(&mut self) -> String {
        self.replies += 1;
        format!("{}.{}", self.inbox, self.replies)
    }

    /// Adds a message to what is sent with the next flush. `headers`: without the line `NATS/1.0`.
    pub fn publish(&mut self, subject: &str, reply: &str, headers: &[u8], payload: &[u8]) {
        let out = &mut self.output;
        let space = if reply.is_empty() { "" } else { " " };
        let written = match headers.len() {
            0 => write!(out, "PUB {subject} {reply}{space}{}\r\n", payload.len()),
            bytes => {
                let bytes = bytes + HEADER_BEGIN.len() + 2;
                write!(out, "HPUB {subject} {reply}{space}{bytes} {}\r\n", bytes + payload.len())
            }
        };
        debug_assert!(written.is_ok(), "a vector takes all");
        if !headers.is_empty() {
            out.extend_from_slice(HEADER_BEGIN);
            out.extend_from_slice(headers);
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(payload);
        out.extend_from_slice(b"\r\n");
    }

    /// Bytes that wait for a flush.
    pub fn unflushed(&self) -> usize {
        self.output.len()
    }

    /// Sends what was published.
    pub fn flush(&mut self) -> Result<(), Error> {
        let written = match &mut self.socket {
            Socket::Plain(socket) => socket.write_all(&self.output),
            Socket::Tls(stream) => stream.write_all(&self.output).and_then(|()| stream.flush()),
        };
        self.output.clear();
        written.map_err(away)
    }

    /// A request and its answer. Other messages that arrive before the answer are dropped.
    ///
    /// # Errors
    /// [`Error::Away`].
    pub fn request(&mut self, subject: &str, payload: &[u8]) -> Result<Message<'_>, Error> {
        let reply = self.reply_subject();
        self.publish(subject, &reply, &[], payload);
        self.flush()?;
        let deadline = Instant::now() + ANSWER;
        loop {
            if !self.arrive(deadline.saturating_duration_since(Instant::now()))? {
                return Err(Error::Away(format!("{} does not answer {subject}", self.place)));
            }
            if self.input[self.message.subject.clone()] == *reply.as_bytes() {
                return Ok(self.message());
            }
        }
    }

    /// The next message, waiting at most `timeout`.
    pub fn next(&mut self, timeout: Duration) -> Result<Option<Message<'_>>, Error> {
        Ok(self.arrive(timeout)?.then(|| self.message()))
    }

    fn message(&self) -> Message<'_> {
        let Ranges { subject, reply, headers, payload } = &self.message;
        let text = |range: &Range<usize>| str::from_utf8(&self.input[range.clone()]).unwrap_or_default();
        Message {
            subject: text(subject),
            reply: text(reply),
            headers: &self.input[headers.clone()],
            payload: &self.input[payload.clone()],
        }
    }

    /// Waits for a message, and answers what else arrives.
    fn arrive(&mut self, timeout: Duration) -> Result<bool, Error> {
        let deadline = Instant::now() + timeout;
        loop {
            match self.frame()? {
                Some(Frame::Message { subject, reply, headers, payload }) => {
                    self.message = Ranges { subject, reply, headers, payload };
                    return Ok(true);
                }
                Some(Frame::Ping) => {
                    self.output.extend_from_slice(b"PONG\r\n");
                    self.flush()?;
                }
                Some(Frame::Refused(why)) => return Err(refused(&self.place, &why)),
                Some(_) => {}
                None => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() || !self.read(left)? {
                        return Ok(false);
                    }
                }
            }
        }
    }

    /// The next frame that is there whole, with ranges of the input.
    fn frame(&mut self) -> Result<Option<Frame>, Error> {
        let parsed = parse(&self.input[self.start..self.end]);
        let parsed = parsed
            .map_err(|what| Error::Away(format!("{} sent {what}; is it a NATS server?", self.place)))?;
        let Some((frame, length)) = parsed else { return Ok(None) };
        let begin = self.start;
        self.start += length;
        let shifted = |range: Range<usize>| range.start + begin..range.end + begin;
        Ok(Some(match frame {
            Frame::Message { subject, reply, headers, payload } => Frame::Message {
                subject: shifted(subject),
                reply: shifted(reply),
                headers: shifted(headers),
                payload: shifted(payload),
            },
            Frame::Info(range) => Frame::Info(shifted(range)),
            other => other,
        }))
    }

    /// Reads what there is; `false`: nothing came in time.
    fn read(&mut self, timeout: Duration) -> Result<bool, Error> {
        self.input.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        let wanted = self.end + CHUNK_BYTES.max(self.end);
        if self.input.len() < self.end + CHUNK_BYTES {
            self.input.resize(wanted, 0);
        } else if self.end == 0 && self.input.len() > 4 * CHUNK_BYTES {
            self.input = vec![0; CHUNK_BYTES];
        }
        let spare = &mut self.input[self.end..];
        let timeout = Some(timeout.max(Duration::from_millis(1)));
        let read = match &mut self.socket {
            Socket::Plain(socket) => socket.set_read_timeout(timeout).and_then(|()| socket.read(spare)),
            Socket::Tls(stream) => stream.sock.set_read_timeout(timeout).and_then(|()| stream.read(spare)),
        };
        match read {
            Ok(0) => Err(Error::Away(format!("{} has closed the connection", self.place))),
            Ok(count) => {
                self.end += count;
                Ok(true)
            }
            Err(error) if is_timeout(&error) => Ok(false),
            Err(error) => Err(Error::Away(format!("the connection to {} is lost: {error}", self.place))),
        }
    }

    /// The first frame of a server: what it is and wants.
    fn info(&mut self) -> Result<Value, Error> {
        let deadline = Instant::now() + ANSWER;
        loop {
            match self.frame()? {
                Some(Frame::Info(range)) => {
                    let info = serde_json::from_slice(&self.input[range]);
                    return info.map_err(|_| {
                        Error::Away("it states nothing of itself; is it a NATS server?".into())
                    });
                }
                Some(_) => return Err(Error::Away("it does not begin as a NATS server does".into())),
                None => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() || !self.read(left)? {
                        return Err(Error::Away("it does not answer; is it a NATS server?".into()));
                    }
                }
            }
        }
    }

    /// Waits for the answer to the login.
    fn pong(&mut self) -> Result<(), Error> {
        let deadline = Instant::now() + ANSWER;
        loop {
            match self.frame()? {
                Some(Frame::Pong) => return Ok(()),
                Some(Frame::Refused(why)) => return Err(refused(&self.place, &why)),
                Some(_) => {}
                None => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() || !self.read(left)? {
                        return Err(Error::Away("it does not answer the login".into()));
                    }
                }
            }
        }
    }
}

/// What headers begin with.
const HEADER_BEGIN: &[u8] = b"NATS/1.0\r\n";

/// A server's refusal: of the login or of a right for good, else of the connection.
fn refused(place: &str, why: &str) -> Error {
    let lower = why.to_ascii_lowercase();
    let is_final = ["authorization", "authentication", "permissions", "maximum payload", "account"];
    if is_final.iter().any(|word| lower.contains(word)) {
        return Error::Refused(format!(
            "{place} refuses: {why}; check user, password (TAPEDB_NATS_PASSWORD) or credentials (--creds)"
        ));
    }
    Error::Away(format!("{place} ends the connection: {why}"))
}

fn away(error: io::Error) -> Error {
    Error::Away(format!("the connection is lost: {error}"))
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

fn tcp(address: &Address) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host name has no address");
    for place in (address.host.as_str(), address.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&place, ANSWER) {
            Ok(tcp) => {
                tcp.set_nodelay(true)?;
                tcp.set_read_timeout(Some(ANSWER))?;
                tcp.set_write_timeout(Some(3 * ANSWER))?;
                return Ok(tcp);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// A word that no other client has.
pub(super) fn unique() -> String {
    let random = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:08x}", random(), random() as u32)
}
