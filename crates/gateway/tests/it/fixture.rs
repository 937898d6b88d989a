//! A gateway on a small database, and what speaks to it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use tapedb_access::{
    Access, AccessLimits, AuditLog, Authenticator, May, Quotas, Right, User, UserLimits, Users, hash_password,
};
use tapedb_engine::{Access as DatabaseAccess, Database, StreamOptions};
use tapedb_gateway::{Options, Postgres};
use tapedb_log::sim::SimStorage;
use tapedb_query::QueryService;
use tapedb_schema::Timestamp;

/// 2024-01-02T14:30:00Z, and some nanoseconds.
pub const START: i64 = 1_704_205_800_000_000_123;
pub const ROWS: i64 = 20_000;

pub struct Gateway {
    pub postgres: Postgres,
    pub access: Access,
    pub folder: tempfile::TempDir,
}

/// How a gateway differs from others.
#[derive(Default)]
pub struct Setup {
    pub has_users: bool,
    pub tls: Option<Arc<rustls::ServerConfig>>,
    pub connections_max: Option<usize>,
    pub handshake_time: Option<Duration>,
    /// The disk that the database is on; `None`: a folder.
    pub disk: Option<SimStorage>,
}

impl Gateway {
    pub fn start() -> Self {
        Self::with(Setup::default())
    }

    pub fn with(setup: Setup) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let db = match setup.disk {
            Some(disk) => Database::open_on(Arc::new(disk), "/db", DatabaseAccess::Write).unwrap(),
            None => Database::open(folder.path().join("db")).unwrap(),
        };
        fill(&db);
        let users = setup.has_users.then(|| users(&folder));
        let access = Access {
            authenticator: Authenticator::open(users).unwrap(),
            quotas: Arc::new(Quotas::default()),
            audit: Arc::new(
                AuditLog::open(Some(&folder.path().join("audit.jsonl")), &AccessLimits::default()).unwrap(),
            ),
            limits: AccessLimits::default(),
        };
        let queries = QueryService::new(&db, tapedb_query::Options::default()).unwrap();
        let postgres = Postgres::start(Options {
            address: "127.0.0.1:0".parse().unwrap(),
            queries: Arc::new(queries),
            access: access.clone(),
            tls: setup.tls,
            connections_max: setup.connections_max.unwrap_or(100),
            handshakes_max: 50,
            handshakes_per_address_max: 50,
            handshake_time: setup.handshake_time.unwrap_or(Duration::from_secs(20)),
        });
        Self { postgres: postgres.unwrap(), access, folder }
    }

    pub fn address(&self) -> SocketAddr {
        self.postgres.address()
    }

    /// A raw connection with a session of a user.
    pub fn session(&self, user: &str) -> Raw {
        let mut raw = Raw::connect(self.address());
        raw.start(user);
        raw
    }

    /// Python of the environment with clients below target/, with the address as arguments.
    pub fn python(&self) -> Option<Command> {
        let python = environment()?;
        let mut command = Command::new(python);
        command.env("GATEWAY_PORT", self.address().port().to_string());
        Some(command)
    }
}

/// Python with psycopg and asyncpg, where `testing/gateways/environment` has made it.
fn environment() -> Option<PathBuf> {
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).parent()?.to_path_buf();
    let python = target.join("gateway-clients/bin/python");
    python.exists().then_some(python)
}

fn users(folder: &tempfile::TempDir) -> PathBuf {
    let path = folder.path().join("users.toml");
    let right = |streams: &str| Right { streams: streams.into(), may: vec![May::Read] };
    let ann = User {
        name: "ann".into(),
        password: Some(hash_password("secret").unwrap()),
        rights: vec![right("ticks"), right("kinds")],
        limits: UserLimits { queries_max: Some(2), ..UserLimits::default() },
        ..User::default()
    };
    let anonymous = User { name: "anonymous".into(), rights: vec![right("ticks")], ..User::default() };
    Users { users: vec![ann, anonymous] }.write(&path).unwrap();
    path
}

fn fill(db: &Database) {
    let schema =
        "enum Side { Buy, Sell } message Trade { price: decimal64, size: u32, side: Side?, id: u64 }";
    let ticks = db.create_stream("ticks", schema.parse().unwrap(), StreamOptions::default()).unwrap();
    let mut loader = ticks.loader().unwrap();
    for row in 0..ROWS {
        let side = ["\"Buy\"", "\"Sell\"", "null"][row as usize % 3];
        let (cents, size, id) = (row % 100, row % 7, u64::MAX - row as u64);
        let trade = format!(
            r#"{{"$type": "Trade", "price": "100.{cents:02}", "size": {size}, "side": {side}, "id": {id}}}"#
        );
        let symbol = ["AAPL", "MSFT"][row as usize % 2];
        loader
            .append_value(
                symbol,
                Timestamp(START + row * 1_000_000),
                &ticks.layouts().from_json(&trade).unwrap(),
            )
            .unwrap();
    }
    loader.close().unwrap();
    let schema = "record Level { price: decimal64, size: i64 }
        message Kind { flag: bool, small: i8, wide: i64?, ratio: f64, exact: decimal(18,4), clock: time_of_day, text: string, bytes: binary,
            list: array<i64>, level: record<Level> }";
    let kinds = db.create_stream("kinds", schema.parse().unwrap(), StreamOptions::default()).unwrap();
    let mut loader = kinds.loader().unwrap();
    for text in [
        r#"{"$type": "Kind", "flag": true, "small": -5, "wide": null, "ratio": 0.1, "exact": "12345.6700", "clock": "14:30:00.5",
            "text": "a\tb\"c\\\nü", "bytes": "00ff", "list": [1, 2], "level": {"price": "1.5", "size": 7}}"#,
        r#"{"$type": "Kind", "flag": false, "small": 5, "wide": 9007199254740993, "ratio": "NaN", "exact": "-0.0001", "clock": "00:00:00",
            "text": "", "bytes": "", "list": [], "level": {"price": "2", "size": -1}}"#,
    ] {
        loader.append_value("K", Timestamp(START), &kinds.layouts().from_json(text).unwrap()).unwrap();
    }
    loader.close().unwrap();
    let hidden = db
        .create_stream("hidden", "message Secret { a: i64 }".parse().unwrap(), StreamOptions::default())
        .unwrap();
    let mut loader = hidden.loader().unwrap();
    loader
        .append_value(
            "S",
            Timestamp(START),
            &hidden.layouts().from_json(r#"{"$type": "Secret", "a": 1}"#).unwrap(),
        )
        .unwrap();
    loader.close().unwrap();
}

/// A connection on which any bytes are sent.
pub struct Raw(pub TcpStream);

impl Raw {
    pub fn connect(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Self(socket)
    }

    pub fn start(&mut self, user: &str) {
        self.send(&startup(user));
        self.until(b'Z');
    }

    pub fn send(&mut self, bytes: &[u8]) {
        // It may be closed already.
        let _ = self.0.write_all(bytes);
    }

    /// The next message; `None`: the connection has ended.
    pub fn next(&mut self) -> Option<(u8, Vec<u8>)> {
        let mut head = [0; 5];
        self.0.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let mut body = vec![0; length - 4];
        self.0.read_exact(&mut body).ok()?;
        Some((head[0], body))
    }

    /// Messages up to one of a kind.
    pub fn until(&mut self, kind: u8) -> Vec<(u8, Vec<u8>)> {
        let mut messages = Vec::new();
        loop {
            let message =
                self.next().unwrap_or_else(|| panic!("the connection has ended after {messages:?}"));
            let is_last = message.0 == kind;
            messages.push(message);
            if is_last {
                return messages;
            }
        }
    }

    /// The code of the next error.
    pub fn error(&mut self) -> String {
        loop {
            match self.next() {
                None => return "closed".into(),
                Some((b'E', body)) => return code(&body),
                Some(_) => {}
            }
        }
    }

    /// Rows of a query, or the code of its error.
    pub fn query(&mut self, text: &str) -> Result<usize, String> {
        self.send(&message(b'Q', &[text.as_bytes(), b"\0"].concat()));
        let answers = self.until(b'Z');
        match answers.iter().find(|(kind, _)| *kind == b'E') {
            Some((_, body)) => Err(code(body)),
            None => Ok(answers.iter().filter(|(kind, _)| matches!(kind, b'D' | b'd')).count()),
        }
    }
}

fn code(body: &[u8]) -> String {
    let field = body.split(|byte| *byte == 0).find(|field| field.first() == Some(&b'C'));
    String::from_utf8_lossy(&field.unwrap()[1..]).into()
}

/// A message of a kind.
pub fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
}

/// A start-up packet.
pub fn startup(user: &str) -> Vec<u8> {
    let body = [b"\0\x03\0\0user\0", user.as_bytes(), b"\0database\0tapedb\0\0"].concat();
    [&(body.len() as u32 + 4).to_be_bytes()[..], &body].concat()
}
