//! A server with streams, and clients.

use serde_json::Value;
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tapedb_codec::{Record, SchemaBuilder};
use tapedb_engine::{Database, Stream, StreamOptions};
use tapedb_market::{BookAction, PackageKind, Side};
use tapedb_market::{
    Entry, Gap, Level2Snapshot, Level2Update, Liquidation, MarketByPrice, Order, Package, Trade,
};
use tapedb_replay_socket::{Ended, ReplayServer, ServerOptions};
use tapedb_schema::{Ascii, Decimal64, Timestamp};
use tempfile::TempDir;
use tungstenite::client::IntoClientRequest;
use tungstenite::protocol::CloseFrame;
use tungstenite::{Message, WebSocket};

pub struct Place {
    _folder: TempDir,
    pub db: Database,
    pub streams: Vec<Stream>,
}

pub fn number(text: &str) -> Decimal64 {
    text.parse().unwrap()
}

pub fn code(text: &str) -> Option<Ascii<8>> {
    Some(Ascii::new(text).unwrap())
}

/// Milliseconds after 2024-01-02T14:30.
pub fn at(millis: i64) -> Timestamp {
    Timestamp(1_704_205_800_000_000_000 + millis * 1_000_000)
}

pub fn set(exchange: Option<Ascii<8>>, side: Side, price: &str, size: &str) -> Entry {
    let (price, size) = (number(price), number(size));
    let action = if size == Decimal64::ZERO { BookAction::Delete } else { BookAction::Set };
    let size = (action == BookAction::Set).then_some(size);
    Entry::Level2Update(Level2Update { action, side, price, size, exchange, ..Level2Update::default() })
}

pub fn whole(exchange: Option<Ascii<8>>, side: Side, price: &str, size: &str) -> Entry {
    let (price, size) = (number(price), number(size));
    Entry::Level2Snapshot(Level2Snapshot { side, price, size, exchange, ..Level2Snapshot::default() })
}

pub fn trade(exchange: Option<Ascii<8>>, price: &str, size: &str) -> Entry {
    Entry::Trade(Trade {
        exchange,
        price: number(price),
        size: number(size),
        id: Some(7),
        ..Trade::default()
    })
}

pub fn update(entries: Vec<Entry>) -> Package {
    Package { entries, ..Package::default() }
}

pub fn snapshot(entries: Vec<Entry>) -> Package {
    Package { kind: PackageKind::Snapshot, entries, ..Package::default() }
}

impl Place {
    pub fn new(names: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let db = Database::open(folder.path()).unwrap();
        let schema = SchemaBuilder::new().with::<Package>().with::<Order>().with::<MarketByPrice>();
        let schema = schema.with::<Liquidation>().with::<Gap>().finish();
        let create = |name: &&str| db.create_stream(name, schema.clone(), StreamOptions::default()).unwrap();
        let streams = names.iter().map(create).collect();
        Self { _folder: folder, db, streams }
    }

    pub fn append<R: Record + 'static>(&self, stream: usize, symbol: &str, time: Timestamp, record: &R) {
        let mut loader = self.streams[stream].loader().unwrap();
        loader.append(symbol, time, record).unwrap();
        loader.close().unwrap();
    }

    /// Trades of `symbol`, a millisecond apart.
    pub fn fill(&self, stream: usize, symbol: &str, messages: i64) {
        let mut loader = self.streams[stream].loader().unwrap();
        for n in 0..messages {
            let package = update(vec![trade(None, &format!("{n}.5"), "1")]);
            loader.append(symbol, at(n), &package).unwrap();
        }
        loader.close().unwrap();
    }

    pub fn serve(&self, options: ServerOptions) -> Served {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ended = Arc::<Mutex<Vec<Ended>>>::default();
        let of_observer = Arc::clone(&ended);
        let observer = move |one: &Ended| of_observer.lock().unwrap().push(one.clone());
        let options = ServerOptions { observer: Some(Arc::new(observer)), ..options };
        let server = ReplayServer::start(&self.db, self.streams.clone(), listener, options).unwrap();
        Served { server, ended }
    }

    /// All that a client of a new server receives.
    pub fn receive(&self, options: &str) -> Vec<Value> {
        let (messages, end) = self.serve(ServerOptions::default()).connect(options, "").rest();
        let end = end.expect("a close frame");
        assert_eq!((u16::from(end.code), end.reason.as_str()), (1000, "WS replay finished"));
        messages
    }
}

pub struct Served {
    pub server: ReplayServer,
    pub ended: Arc<Mutex<Vec<Ended>>>,
}

impl Served {
    /// A client that asks for these options.
    pub fn connect(&self, options: &str, more: &str) -> Client {
        let encoded: String = options.bytes().map(|byte| format!("%{byte:02X}")).collect();
        self.get(&format!("/ws-replay-normalized?options={encoded}{more}"), &[]).expect("it is served")
    }

    /// A client, or the status and the text of a refusal.
    pub fn get(&self, path: &str, headers: &[(&'static str, &str)]) -> Result<Client, (u16, String)> {
        let address = self.server.address();
        let mut request = format!("ws://{address}{path}").into_client_request().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        let socket = TcpStream::connect(address).unwrap();
        match tungstenite::client(request, socket) {
            Ok((socket, _)) => Ok(Client(socket)),
            Err(tungstenite::HandshakeError::Failure(tungstenite::Error::Http(response))) => {
                let body = response.body().clone().unwrap_or_default();
                Err((response.status().as_u16(), String::from_utf8_lossy(&body).into_owned()))
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Waits until all connections have ended, and returns them.
    pub fn ended(&self, count: usize) -> Vec<Ended> {
        while self.ended.lock().unwrap().len() < count || self.server.clients() > 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.ended.lock().unwrap().clone()
    }
}

pub struct Client(pub WebSocket<TcpStream>);

impl Client {
    /// The next message; `Err`: the close frame, if one came.
    pub fn next(&mut self) -> Result<Value, Option<CloseFrame>> {
        loop {
            match self.0.read() {
                Ok(Message::Text(text)) => return Ok(serde_json::from_str(&text).expect(&text)),
                Ok(Message::Close(frame)) => {
                    // The answer is on its way with the next call.
                    while self.0.read().is_ok() {}
                    return Err(frame);
                }
                Ok(_) => {}
                Err(_) => return Err(None),
            }
        }
    }

    /// All messages that are left, and the close frame.
    pub fn rest(mut self) -> (Vec<Value>, Option<CloseFrame>) {
        let mut messages = Vec::new();
        loop {
            match self.next() {
                Ok(message) => messages.push(message),
                Err(frame) => return (messages, frame),
            }
        }
    }
}
