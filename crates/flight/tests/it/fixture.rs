//! A server of Flight SQL on a small database, and what speaks to it.

use arrow_flight::sql::client::FlightSqlServiceClient;
use arrow_flight::{FlightInfo, Ticket};
use futures::TryStreamExt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use tapedb_access::{
    Access, AccessLimits, AuditLog, Authenticator, May, Quotas, Right, Token, User, UserLimits, Users,
    hash_password, hash_token,
};
use tapedb_engine::{Database, Durability, StreamOptions};
use tapedb_flight::{Flight, FlightOptions};
use tapedb_query::QueryService;
use tapedb_query::arrow::array::RecordBatch;
use tapedb_schema::Timestamp;
use tokio::runtime::Runtime;
use tonic::transport::{Channel, Endpoint};

/// 2024-01-02T14:30:00Z, and some nanoseconds.
pub const START: i64 = 1_704_205_800_000_000_123;
pub const ROWS: i64 = 20_000;

pub type Client = FlightSqlServiceClient<Channel>;

pub struct Served {
    pub flight: Option<Flight>,
    pub address: SocketAddr,
    pub db: Database,
    pub runtime: Runtime,
    pub folder: tempfile::TempDir,
}

/// How a server differs from others.
#[derive(Default)]
pub struct Setup {
    pub has_users: bool,
    pub tls: Option<Arc<rustls::ServerConfig>>,
    pub connections_max: Option<usize>,
    pub handshake_time: Option<Duration>,
}

impl Served {
    pub fn start() -> Self {
        Self::with(Setup::default())
    }

    pub fn with_users() -> Self {
        Self::with(Setup { has_users: true, ..Setup::default() })
    }

    pub fn with(setup: Setup) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let db = Database::open(folder.path().join("db")).unwrap();
        fill(&db);
        let users = setup.has_users.then(|| users(&folder));
        let audit = folder.path().join("audit.jsonl");
        let access = Access {
            authenticator: Authenticator::open(users).unwrap(),
            quotas: Arc::new(Quotas::default()),
            audit: Arc::new(AuditLog::open(Some(&audit), &AccessLimits::default()).unwrap()),
            limits: AccessLimits::default(),
        };
        let queries = QueryService::new(&db, tapedb_query::Options::default()).unwrap();
        let flight = Flight::start(FlightOptions {
            address: "127.0.0.1:0".parse().unwrap(),
            database: db.clone(),
            stream: StreamOptions { durability: Durability::Async, ..StreamOptions::default() },
            queries: Arc::new(queries),
            access,
            tls: setup.tls,
            connections_max: setup.connections_max.unwrap_or(100),
            handshakes_max: 50,
            handshakes_per_address_max: 50,
            handshake_time: setup.handshake_time.unwrap_or(Duration::from_secs(20)),
        })
        .unwrap();
        let address = flight.address();
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        Self { flight: Some(flight), address, db, runtime, folder }
    }

    pub fn flight(&self) -> &Flight {
        self.flight.as_ref().unwrap()
    }

    pub fn audit(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("audit.jsonl")).unwrap_or_default()
    }

    /// A connection without a user.
    pub fn client(&self) -> Client {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address)).unwrap();
        Client::new(self.runtime.block_on(endpoint.connect()).unwrap())
    }

    /// A connection whose handshake was made with a password.
    pub fn login(&self, user: &str, password: &str) -> Client {
        let mut client = self.client();
        self.runtime.block_on(client.handshake(user, password)).unwrap();
        client
    }

    /// The rows of a query.
    pub fn query(&self, client: &mut Client, text: &str) -> Result<Vec<RecordBatch>, String> {
        self.runtime.block_on(async {
            let info = client.execute(text.into(), None).await.map_err(|error| error.to_string())?;
            fetch(client, &info).await
        })
    }

    /// The number of rows of a query.
    pub fn count(&self, client: &mut Client, text: &str) -> Result<usize, String> {
        Ok(self.query(client, text)?.iter().map(RecordBatch::num_rows).sum())
    }

    /// Python of the environment with clients below target/, with the address as variables.
    pub fn python(&self) -> Option<Command> {
        let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).parent()?.to_path_buf();
        let python = target.join("gateway-clients/bin/python");
        let has_driver = || Command::new(&python).args(["-c", "import adbc_driver_flightsql"]).output();
        if !python.exists() || !has_driver().is_ok_and(|output| output.status.success()) {
            return None;
        }
        let mut command = Command::new(python);
        command.env("FLIGHT_PORT", self.address.port().to_string()).env("FLIGHT_FOLDER", self.folder.path());
        Some(command)
    }
}

/// The rows behind the first ticket of an answer.
pub async fn fetch(client: &mut Client, info: &FlightInfo) -> Result<Vec<RecordBatch>, String> {
    let stream = client.do_get(ticket(info)).await.map_err(|error| error.to_string())?;
    stream.try_collect().await.map_err(|error| error.to_string())
}

/// The ticket of an answer.
pub fn ticket(info: &FlightInfo) -> Ticket {
    info.endpoint[0].ticket.clone().unwrap()
}

/// Ends when something is true.
pub fn until(what: &str, mut is_true: impl FnMut() -> bool) {
    for _ in 0..3000 {
        if is_true() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{what}");
}

fn users(folder: &tempfile::TempDir) -> PathBuf {
    let path = folder.path().join("users.toml");
    let right = |streams: &str, may: &[May]| Right { streams: streams.into(), may: may.to_vec() };
    let ann = User {
        name: "ann".into(),
        password: Some(hash_password("secret").unwrap()),
        tokens: vec![Token { name: "laptop".into(), hash: hash_token("tape_1") }],
        rights: vec![
            right("ticks", &[May::Read, May::Write]),
            right("mine*", &[May::Read, May::Write, May::Create]),
        ],
        limits: UserLimits { queries_max: Some(2), ..UserLimits::default() },
        ..User::default()
    };
    let bob = User {
        name: "bob".into(),
        password: Some(hash_password("other").unwrap()),
        rights: vec![right("ticks", &[May::Read])],
        ..User::default()
    };
    Users { users: vec![ann, bob] }.write(&path).unwrap();
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
        let trade = ticks.layouts().from_json(&trade).unwrap();
        loader.append_value(symbol, Timestamp(START + row * 1_000_000), &trade).unwrap();
    }
    loader.close().unwrap();
    let schema = "message Secret { a: i64 }".parse().unwrap();
    let hidden = db.create_stream("hidden", schema, StreamOptions::default()).unwrap();
    let mut loader = hidden.loader().unwrap();
    let secret = hidden.layouts().from_json(r#"{"$type": "Secret", "a": 1}"#).unwrap();
    loader.append_value("S", Timestamp(START), &secret).unwrap();
    loader.close().unwrap();
}
