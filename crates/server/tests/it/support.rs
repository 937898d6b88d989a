//! A server for tests, and a client that sends given frames.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use tapedb_access::{Right, Token, User, Users, hash_password, hash_token};
use tapedb_codec::batch::BatchBuilder;
use tapedb_engine::{Command, Description, StreamOptions};
use tapedb_server::{Config, Server};
use tapedb_wire::{ClientSession, Coded, Decoder, Login, ToClient, ToServer};
use tempfile::TempDir;

/// Longer than any step takes, short enough for a failing test.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A server with a temporary directory.
pub struct Served {
    pub server: Option<Server>,
    pub directory: TempDir,
    config: Config,
}

/// Starts a server on a free port of this machine.
pub fn serve(change: impl FnOnce(&mut Config)) -> Served {
    serve_with(&[], change)
}

/// Starts a server with users.
pub fn serve_with(users: &[User], change: impl FnOnce(&mut Config)) -> Served {
    let directory = tempfile::tempdir().unwrap();
    let mut config = Config {
        database: directory.path().join("db"),
        listen: "127.0.0.1:0".parse().unwrap(),
        http: "127.0.0.1:0".parse().unwrap(),
        audit_log: Some(directory.path().join("audit.jsonl")),
        shutdown_grace_seconds: 5,
        ..Config::default()
    };
    if !users.is_empty() {
        let path = directory.path().join("users.toml");
        Users { users: users.to_vec() }.write(&path).unwrap();
        config.users = Some(path);
    }
    change(&mut config);
    Served { server: Some(Server::start(config.clone()).unwrap()), directory, config }
}

/// A user with the password `secret-NAME`, the token `tape_NAME` and one right.
pub fn user(name: &str, streams: &str, may: &[tapedb_access::May]) -> User {
    User {
        name: name.into(),
        password: Some(hash_password(&format!("secret-{name}")).unwrap()),
        tokens: vec![Token { name: "test".into(), hash: hash_token(&format!("tape_{name}")) }],
        rights: vec![Right { streams: streams.into(), may: may.to_vec() }],
        ..User::default()
    }
}

impl Served {
    pub fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    /// Ends the server, and starts another one, possibly on another port.
    pub fn restart(&mut self) {
        self.server = None;
        self.server = Some(Server::start(self.config.clone()).unwrap());
    }

    pub fn address(&self) -> SocketAddr {
        self.server().addresses().tcp.unwrap()
    }

    /// A new connection.
    pub fn connect(&self) -> Client<TcpStream> {
        Client::new(socket(self.address()))
    }

    /// A connection of the anonymous user with all rights.
    pub fn client(&self) -> Client<TcpStream> {
        self.client_as(Login::Anonymous)
    }

    pub fn client_as(&self, login: Login<'_>) -> Client<TcpStream> {
        let mut client = self.connect();
        client.hello(login).unwrap();
        client
    }

    /// A page of the HTTP port, with its headers.
    pub fn page(&self, path: &str) -> String {
        let mut socket = socket(self.server().addresses().http.unwrap());
        write!(socket, "GET {path} HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
        let mut text = String::new();
        socket.read_to_string(&mut text).unwrap();
        text
    }

    /// The value of a metric: the sum over all labels.
    pub fn metric(&self, name: &str) -> u64 {
        let page = self.page("/metrics");
        let is_it = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{']));
        let lines: Vec<&str> = page.lines().filter(is_it).collect();
        assert!(!lines.is_empty(), "no metric {name} in {page}");
        lines.iter().map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    }

    pub fn audit(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("audit.jsonl")).unwrap()
    }

    /// Waits until a condition is true.
    pub fn wait_until(&self, what: &str, is_true: impl Fn(&Self) -> bool) {
        let began = std::time::Instant::now();
        while !is_true(self) {
            assert!(began.elapsed() < TIMEOUT, "{what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

pub fn socket(address: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    socket.set_write_timeout(Some(TIMEOUT)).unwrap();
    socket
}

/// A client that sends given frames.
pub struct Client<S> {
    pub socket: S,
    decoder: Decoder,
    session: ClientSession,
    out: Vec<u8>,
}

impl<S: Read + Write> Client<S> {
    pub fn new(socket: S) -> Self {
        Self { socket, decoder: Decoder::new(), session: ClientSession::new(), out: Vec::new() }
    }

    /// Sends a hello; returns the user's name, or the reason of a refusal.
    pub fn hello(&mut self, login: Login<'_>) -> Result<String, String> {
        let mut out = Vec::new();
        ClientSession::hello("test 1.0", login, &mut out);
        self.socket.write_all(&out).unwrap();
        self.receive(|_, message| match message {
            ToClient::Welcome { user, .. } => Ok(user.to_string()),
            ToClient::Refused { failure } => Err(failure.texts.join(": ")),
            other => panic!("{other:?}"),
        })
    }

    /// Sends a message on a new channel; returns the channel.
    pub fn ask(&mut self, message: &ToServer<'_>) -> u32 {
        self.out.clear();
        let channel = self.session.ask(message, &mut self.out);
        self.socket.write_all(&self.out).unwrap();
        channel
    }

    /// Sends a message on a channel.
    pub fn send(&mut self, channel: u32, message: &ToServer<'_>) {
        self.out.clear();
        message.encode(channel, &mut self.out);
        self.socket.write_all(&self.out).unwrap();
    }

    /// Receives the next message that is not a ping.
    pub fn receive<R>(&mut self, take: impl FnOnce(u32, ToClient<'_>) -> R) -> R {
        loop {
            while !self.has_frame() {
                let buffer = self.decoder.spare(64 << 10);
                let count = again(|| self.socket.read(buffer)).unwrap();
                assert!(count > 0, "the server has closed the connection");
                self.decoder.filled(count);
            }
            let frame = self.decoder.next_frame().unwrap().unwrap();
            let (channel, message) = self.session.receive(frame).unwrap();
            match message {
                ToClient::Ping { number } => {
                    let mut out = Vec::new();
                    ToServer::Pong { number }.encode(0, &mut out);
                    self.socket.write_all(&out).unwrap();
                }
                message => return take(channel, message),
            }
        }
    }

    fn has_frame(&self) -> bool {
        let pending = self.decoder.pending();
        pending.first_chunk::<4>().is_some_and(|len| pending.len() >= 12 + u32::from_le_bytes(*len) as usize)
    }

    /// Sends a request, and receives the answer.
    pub fn answer<R>(&mut self, message: &ToServer<'_>, take: impl FnOnce(ToClient<'_>) -> R) -> R {
        let asked = self.ask(message);
        self.receive(|channel, message| {
            assert_eq!(channel, asked);
            take(message)
        })
    }

    /// Executes a command; returns the outcome or the error.
    pub fn command(&mut self, command: &Command) -> Result<Coded, String> {
        let command = tapedb_codes::command::to_coded(command);
        self.answer(&ToServer::Command { command }, |answer| match answer {
            ToClient::Done { outcome } => Ok(outcome),
            ToClient::Failed { failure } => Err(failure.texts.join(": ")),
            other => panic!("{other:?}"),
        })
    }

    /// Creates a stream of [`SCHEMA`]; returns its id.
    pub fn create(&mut self, name: &str, options: StreamOptions) -> Result<u64, String> {
        let options = options.to_text();
        self.command(&Command::CreateStream { name: name.into(), schema: SCHEMA.into(), options })?;
        self.describe(name).map(|(stream_id, _)| stream_id)
    }

    /// A stream's id, and its number of symbols.
    pub fn describe(&mut self, name: &str) -> Result<(u64, u32), String> {
        self.answer(&ToServer::Describe { name, known: None }, |answer| match answer {
            ToClient::Described { description } => Ok((description.stream_id, description.symbols_total)),
            ToClient::Failed { failure } => Err(failure.texts.join(": ")),
            other => panic!("{other:?}"),
        })
    }

    pub fn streams(&mut self) -> Vec<String> {
        self.answer(&ToServer::Streams {}, |answer| match answer {
            ToClient::StreamNames { names } => names.iter().map(|name| name.to_string()).collect(),
            other => panic!("{other:?}"),
        })
    }

    pub fn add_symbols(&mut self, stream_id: u64, names: &[&str]) -> Result<Vec<u32>, String> {
        self.answer(&ToServer::AddSymbols { stream_id, names: names.to_vec() }, |answer| match answer {
            ToClient::SymbolIds { ids } => Ok(ids),
            ToClient::Failed { failure } => Err(failure.texts.join(": ")),
            other => panic!("{other:?}"),
        })
    }

    /// Reads until the server closes the connection; returns the reason that the server sent.
    pub fn close_reason(&mut self) -> Option<String> {
        let mut last = None;
        loop {
            match again(|| self.socket.read(self.decoder.spare(64 << 10))) {
                Ok(0) => break,
                Ok(count) => self.decoder.filled(count),
                Err(error) if is_gone(&error) => break,
                Err(error) => panic!("the connection is not closed: {error}"),
            }
        }
        while let Ok(Some(frame)) = self.decoder.next_frame() {
            if let Ok(ToClient::Goodbye { failure } | ToClient::Refused { failure }) =
                ToClient::parse(frame.kind, frame.payload)
            {
                last = Some(failure.texts.join(": "));
            }
        }
        last
    }
}

/// Reads again after an interrupting signal.
fn again(mut read: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match read() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// Whether the peer has closed the connection.
pub fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

/// One record type with an f64.
pub const SCHEMA: &str = "message Tick { price: f64 }";

/// A batch of ticks of symbol 0, a nanosecond apart.
pub fn batch(first_time: i64, count: usize) -> Vec<u8> {
    batch_of(0, first_time, count)
}

/// A batch of ticks of one symbol.
pub fn batch_of(symbol: u32, first_time: i64, count: usize) -> Vec<u8> {
    let (mut builder, mut out) = (BatchBuilder::new(), Vec::new());
    for i in 0..count as i64 {
        let time = first_time + i;
        builder.push_bytes(time, symbol, 0, &(time as f64).to_le_bytes()).unwrap();
    }
    builder.finish(1, &mut out);
    out
}

/// Options of a stream with this durability.
pub fn options(durability: tapedb_engine::Durability) -> StreamOptions {
    StreamOptions { durability, ..StreamOptions::default() }
}

/// The engine's description of a stream.
pub fn described(served: &Served, name: &str) -> Description {
    served.server().database().describe(name, None).unwrap()
}
