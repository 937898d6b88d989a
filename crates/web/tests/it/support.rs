//! A server, a web server beside it, and a plain HTTP client.

use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tapedb_access::{May, Right, User, Users, hash_password};
use tapedb_engine::{Durability, Stream, StreamOptions};
use tapedb_schema::Timestamp;
use tapedb_server::{Config, Server};
use tapedb_web::{Web, WebLimits, WebOptions};

/// A server and its web server.
pub struct Place {
    pub folder: tempfile::TempDir,
    pub server: Server,
    pub web: Web,
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

pub fn user(name: &str, rights: &[(&str, &[May])]) -> User {
    let password = Some(hash_password("secret").unwrap());
    let rights = rights.iter().map(|(streams, may)| Right { streams: (*streams).into(), may: may.to_vec() });
    User { name: name.into(), password, rights: rights.collect(), ..User::default() }
}

impl Place {
    pub fn new() -> Self {
        Self::with(&[], WebLimits::default())
    }

    /// With users, if there are some, and an audit log.
    pub fn with(users: &[User], limits: WebLimits) -> Self {
        Self::with_options(users, limits, |_, _| ())
    }

    /// With other options too; they are given the folder.
    pub fn with_options(users: &[User], limits: WebLimits, set: impl FnOnce(&mut WebOptions, &Path)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users.toml");
        if !users.is_empty() {
            Users { users: users.to_vec() }.write(&path).unwrap();
        }
        let config = Config {
            database: folder.path().join("db"),
            listen: "127.0.0.1:0".parse().unwrap(),
            http: "off".parse().unwrap(),
            users: (!users.is_empty()).then_some(path),
            audit_log: Some(folder.path().join("audit.jsonl")),
            ..Config::default()
        };
        let server = Server::start(config).unwrap();
        let mut options = WebOptions { limits, ..WebOptions::new("127.0.0.1:0".parse().unwrap()) };
        set(&mut options, folder.path());
        let web = Web::start(server.handle(), options).unwrap();
        Self { folder, server, web }
    }

    pub fn address(&self) -> SocketAddr {
        self.web.address()
    }

    pub fn audit(&self) -> String {
        std::fs::read_to_string(self.path("audit.jsonl")).unwrap()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A stream `ticks` of symbols A and B: message `i` has the time `i` seconds and the price `i`.
    pub fn ticks(&self, name: &str, count: i64) -> Stream {
        let schema = "message Tick { price: f64, size: i32, id: u64? }".parse().unwrap();
        let options = StreamOptions { durability: Durability::Async, ..StreamOptions::default() };
        let stream = self.server.database().create_stream(name, schema, options).unwrap();
        append(&stream, 0..count);
        stream
    }

    /// Sends a request and reads the answer.
    pub fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut text = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            text.push_str(&format!("Host: {}\r\n", self.address()));
        }
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        if !body.is_empty() {
            text.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        text.push_str("\r\n");
        text.push_str(body);
        self.raw(text.as_bytes())
    }

    pub fn raw(&self, bytes: &[u8]) -> Answer {
        let mut socket = self.connect();
        // The server may have refused it before its end.
        let _ = socket.write_all(bytes);
        let mut answer = Vec::new();
        // The server may reset a connection whose request it has not read to the end.
        let _ = socket.read_to_end(&mut answer);
        parse(&answer)
    }

    pub fn connect(&self) -> TcpStream {
        let socket = TcpStream::connect(self.address()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        socket
    }

    pub fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], "")
    }

    /// A request with a body of JSON, as the console sends it.
    pub fn send(&self, method: &str, path: &str, cookie: &str, body: &Value) -> Answer {
        let headers = [("Cookie", cookie), ("X-TapeDB", "1"), ("Content-Type", "application/json")];
        self.ask(method, path, &headers, &body.to_string())
    }

    pub fn get_as(&self, path: &str, cookie: &str) -> Answer {
        self.ask("GET", path, &[("Cookie", cookie)], "")
    }

    /// The cookie of a new session.
    pub fn login(&self, name: &str) -> String {
        let answer =
            self.send("POST", "/api/login", "", &serde_json::json!({ "user": name, "password": "secret" }));
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.header("set-cookie").unwrap().split(';').next().unwrap().to_string()
    }
}

/// Appends ticks to both symbols in turn.
pub fn append(stream: &Stream, numbers: std::ops::Range<i64>) {
    let mut loader = stream.loader().unwrap();
    for number in numbers {
        let symbol = if number % 2 == 0 { "A" } else { "B" };
        let text = format!("{{\"$type\":\"Tick\",\"price\":{number},\"size\":2,\"id\":{number}}}");
        let body = body_of(stream, &text);
        loader.append_body(symbol, Timestamp(number * 1_000_000_000), 0, &body).unwrap();
    }
    loader.close().unwrap();
}

fn body_of(stream: &Stream, json: &str) -> Vec<u8> {
    let record = stream.layouts().from_json(json).unwrap();
    let mut body = Vec::new();
    stream.layouts().encode(&record, &mut body).unwrap();
    body
}

fn parse(bytes: &[u8]) -> Answer {
    let text = String::from_utf8_lossy(bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let is_chunked = head.to_lowercase().contains("transfer-encoding: chunked");
    let body = if is_chunked { unchunked(body) } else { body.to_string() };
    Answer { status, head: head.to_string(), body }
}

fn unchunked(mut text: &str) -> String {
    let mut body = String::new();
    while let Some((length, rest)) = text.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap_or(0);
        if length == 0 || rest.len() < length {
            break;
        }
        body.push_str(&rest[..length]);
        text = rest[length..].trim_start_matches("\r\n");
    }
    body
}
