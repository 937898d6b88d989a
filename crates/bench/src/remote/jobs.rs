//! Jobs of worker processes around a server: serve, load, read, follow.

use crate::content::Content;
use crate::pool::Tally;
use crate::worker::{Job, Worker, now_ns, ready, send};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;
use tapedb_client::Client;
use tapedb_engine::{Cursor, Database};
use tapedb_server::{Config, Endpoint, Limits, Server};
use tapedb_terminal::{Failure, Ui};

/// A consumer fails after this time without a message.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// The most connections of a server: a process of a benchmark may open thousands.
const CONNECTIONS_MAX: usize = 20_000;

/// Serves a database until its input ends.
#[derive(Debug, Serialize, Deserialize)]
pub struct Serve {
    /// Directory of the database.
    pub db: PathBuf,
    /// The Unix socket to listen on.
    pub socket: PathBuf,
    /// How long connections spin, in microseconds.
    pub spin_us: u64,
}

/// Addresses of a server.
#[derive(Debug, Serialize, Deserialize)]
pub struct Addresses {
    /// TCP.
    pub tcp: String,
    /// Unix socket.
    pub uds: String,
    /// Shared memory, requested on the Unix socket.
    pub shm: String,
}

/// Messages of a stream.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Messages {
    /// URL of the server.
    pub url: String,
    /// The stream.
    pub stream: String,
    /// Number of messages.
    pub messages: u64,
    /// Their content.
    pub content: Content,
}

/// Loads messages.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Load {
    /// The messages.
    pub messages: Messages,
    /// Loaders, each in a thread, with an equal share of the messages.
    pub loaders: u32,
    /// Connections that the loaders share.
    pub connections: u32,
}

/// Reads all messages of the stream.
#[derive(Debug, Serialize, Deserialize)]
pub struct Read(pub Messages);

/// Reads messages as they arrive.
#[derive(Debug, Serialize, Deserialize)]
pub struct Follow(pub Messages);

/// What a producer or a consumer did.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Done {
    /// Number of messages.
    pub messages: u64,
    /// Sum of all fields and times.
    pub sum: u64,
    /// When it began, in nanoseconds since the Unix epoch.
    pub began_ns: u64,
    /// When it was done.
    pub ended_ns: u64,
}

impl Done {
    fn new(tally: Tally, began_ns: u64) -> Self {
        Self { messages: tally.messages, sum: tally.sum, began_ns, ended_ns: now_ns() }
    }

    /// Fails unless a consumer received what was sent.
    pub fn check(&self, sent: &Self) -> Result<(), Failure> {
        if (self.messages, self.sum) == (sent.messages, sent.sum) {
            return Ok(());
        }
        Err(Failure::new(format!("sent {sent:?}, received {self:?}; please report this")))
    }
}

impl Job for Serve {
    const NAME: &'static str = "Serve";

    fn run(self, _: &Ui) -> Result<(), Failure> {
        let Self { db, socket, spin_us } = self;
        let _ = std::fs::remove_file(&socket);
        let config = Config {
            database: db,
            listen: Endpoint::loopback(0),
            unix_socket: Some(socket.clone()),
            http: Endpoint::OFF,
            spin_us,
            limits: Limits {
                connections_max: CONNECTIONS_MAX,
                connections_per_user_max: CONNECTIONS_MAX,
                handshakes_max: CONNECTIONS_MAX,
                handshakes_per_address_max: CONNECTIONS_MAX,
                ..Limits::default()
            },
            ..Config::default()
        };
        let server = Server::start(config).map_err(|error| Failure::new(error.to_string()))?;
        let tcp = server.addresses().tcp.map(|address| format!("tape://{address}")).unwrap_or_default();
        let [uds, shm] = ["unix", "shm"].map(|how| format!("tape+{how}://{}", socket.display()));
        send(&Addresses { tcp, uds, shm })?;
        let _ = std::io::stdin().lines().count();
        server.shutdown();
        Ok(())
    }
}

impl Job for Load {
    const NAME: &'static str = "Load";

    fn run(self, ui: &Ui) -> Result<(), Failure> {
        let Messages { url, stream, messages, content } = self.messages;
        let client = Client::at(&url).connections(self.connections as usize);
        let stream = connected(client)?.stream(&stream)?;
        let pool = content.pool(messages)?;
        let began = ready()?;
        let tally = pool.load(&stream, messages, self.loaders, ui)?;
        send(&Done::new(tally, began))
    }
}

impl Job for Read {
    const NAME: &'static str = "Read";

    fn run(self, _: &Ui) -> Result<(), Failure> {
        let Self(Messages { url, stream, content, .. }) = self;
        let stream = connect(&url)?.stream(&stream)?;
        let began = ready()?;
        let mut cursor = stream.cursor().open()?;
        // Without a limit: more messages than were sent are a fault too.
        let tally = content.tally(&mut cursor, u64::MAX, Cursor::next)?;
        send(&Done::new(tally, began))
    }
}

impl Job for Follow {
    const NAME: &'static str = "Follow";

    fn run(self, _: &Ui) -> Result<(), Failure> {
        let Self(Messages { url, stream, messages, content }) = self;
        let stream = connect(&url)?.stream(&stream)?;
        let mut cursor = stream.cursor().live().open()?;
        let began = ready()?;
        let tally = content.tally(&mut cursor, messages, |cursor| cursor.next_within(SILENCE_MAX))?;
        if tally.messages < messages {
            let what = format!("no message for {SILENCE_MAX:?} after {} messages", tally.messages);
            return Err(Failure::new(format!("{what}; please report this")));
        }
        send(&Done::new(tally, began))
    }
}

/// Connects to a server.
pub fn connect(url: &str) -> Result<Database, Failure> {
    connected(Client::at(url))
}

/// Connects a client.
pub fn connected(client: Client) -> Result<Database, Failure> {
    client.connect().map_err(|error| Failure::new(error.to_string()))
}

/// Starts all workers, and collects their results.
pub fn run_all(workers: &mut [Worker]) -> Result<Vec<Done>, Failure> {
    workers.iter_mut().try_for_each(Worker::go)?;
    workers.iter_mut().map(Worker::receive).collect()
}
