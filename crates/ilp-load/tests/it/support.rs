//! A database, a server of the line protocol, and what is in a stream.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use tapedb_access::{Authenticator, May, Right, User, Users, hash_password, hash_token};
use tapedb_engine::Database;
use tapedb_ilp_load::{
    LineAddresses, LineGateway, LineLoader, LineServer, LoadOptions, Precision, WriteError,
};
use tempfile::TempDir;

pub struct Place {
    pub db: Database,
    pub directory: TempDir,
}

pub fn place() -> Place {
    let directory = tempfile::tempdir().unwrap();
    Place { db: Database::open(directory.path().join("db")).unwrap(), directory }
}

impl Place {
    pub fn loader(&self) -> LineLoader {
        LineLoader::new(self.db.clone(), LoadOptions::default())
    }

    pub fn write(&self, lines: &str) -> Result<usize, WriteError> {
        self.loader().write(lines.as_bytes(), Precision::Nanoseconds, &User::unrestricted())
    }

    /// The messages of a stream, one a line: time, symbol, and the record as JSON.
    pub fn read(&self, stream: &str) -> String {
        let mut cursor = self.db.stream(stream).unwrap().cursor().open().unwrap();
        let mut text = String::new();
        while let Some(message) = cursor.next().unwrap() {
            let record = message.record().unwrap();
            let mut json = Vec::new();
            record.write_json(&mut json);
            let json = String::from_utf8(json).unwrap();
            text += &format!("{} {} {json}\n", message.time().0, message.symbol());
        }
        text
    }

    pub fn schema(&self, stream: &str) -> String {
        self.db.stream(stream).unwrap().schema().to_string()
    }

    /// A server for everyone, or for the users of a file.
    pub fn serve(&self, options: LoadOptions, users: Option<PathBuf>) -> LineServer {
        self.serve_with(LineLoader::new(self.db.clone(), options), users, None)
    }

    pub fn serve_with(
        &self,
        loader: LineLoader,
        users: Option<PathBuf>,
        tls: Option<Arc<rustls::ServerConfig>>,
    ) -> LineServer {
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let gateway = LineGateway::new(loader, Authenticator::open(users).unwrap());
        LineServer::start(gateway, LineAddresses { http: Some(any), tcp: Some(any) }, tls).unwrap()
    }

    /// Users: ann has a password and may do everything with `t*`, the token `tape_feed` may only write `feed`.
    pub fn users(&self) -> PathBuf {
        let path = self.directory.path().join("users.toml");
        let right = |streams: &str, may: &[May]| Right { streams: streams.into(), may: may.into() };
        let ann = User {
            name: "ann".into(),
            password: Some(hash_password("secret").unwrap()),
            rights: vec![right("t*", &[May::Read, May::Write, May::Create])],
            ..User::default()
        };
        let token = tapedb_access::Token { name: "feed".into(), hash: hash_token("tape_feed") };
        let feed = User {
            name: "feed".into(),
            tokens: vec![token],
            rights: vec![right("feed", &[May::Write])],
            ..User::default()
        };
        Users { users: vec![ann, feed] }.write(&path).unwrap();
        path
    }
}

/// An answer over HTTP: status, head, body.
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

/// A client over HTTP that keeps its connection.
pub struct Client(pub TcpStream);

impl Client {
    pub fn new(server: &LineServer) -> Self {
        Self(TcpStream::connect(server.addresses().http.unwrap()).unwrap())
    }

    pub fn post(&mut self, path: &str, headers: &str, body: &[u8]) -> Answer {
        let head =
            format!("POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n{headers}\r\n", body.len());
        self.0.write_all(head.as_bytes()).unwrap();
        self.0.write_all(body).unwrap();
        self.answer()
    }

    pub fn send(&mut self, request: &[u8]) -> Answer {
        self.0.write_all(request).unwrap();
        self.answer()
    }

    pub fn answer(&mut self) -> Answer {
        let mut bytes = Vec::new();
        let end = loop {
            if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            let mut byte = [0];
            assert_eq!(self.0.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&bytes));
            bytes.push(byte[0]);
        };
        let head = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        self.0.read_exact(&mut body).unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head, body: String::from_utf8(body).unwrap() }
    }

    /// Whether the server has closed the connection.
    pub fn is_closed(&mut self) -> bool {
        self.0.read(&mut [0]).is_ok_and(|read| read == 0)
    }
}

/// Waits until something is so; a test that waits longer than a minute fails.
pub fn wait_until(mut is_so: impl FnMut() -> bool) {
    for _ in 0..6_000 {
        if is_so() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("it did not become so within a minute");
}
