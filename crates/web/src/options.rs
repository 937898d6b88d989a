//! How the HTTP server listens, and its limits.

use rustls::ServerConfig;
use serde::Deserialize;
use std::fmt::Debug;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How to serve HTTP.
#[derive(Debug, Clone)]
pub struct WebOptions {
    /// The address to listen on; port 0 for any free port.
    pub address: SocketAddr,
    /// Names by which clients reach the server, beside those of the loopback and the address itself: `name` or `name:port`.
    pub hosts: Vec<String>,
    /// Encrypts connections.
    pub tls: Option<Arc<ServerConfig>>,
    /// The topics that the program copies to streams.
    pub topics: Option<Arc<dyn TopicList>>,
    /// What imports files that are uploaded; without it, there are no imports.
    pub importer: Option<Arc<dyn Importer>>,
    /// The directory of the backup that administrators may bring up to date; without it, there are no backups.
    pub backup: Option<PathBuf>,
    /// Limits.
    pub limits: WebLimits,
}

/// The topics that a program copies to streams, beside its server.
pub trait TopicList: Debug + Send + Sync {
    /// The topics now.
    fn topics(&self) -> Vec<TopicRow>;
}

/// A topic that is copied to a stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TopicRow {
    /// The topic.
    pub name: String,
    /// The stream of its copy.
    pub stream: String,
    /// What the copy does, in a word.
    pub state: String,
    /// Messages copied since the server started.
    pub messages: u64,
    /// Messages that were overwritten before they could be copied.
    pub missed: u64,
    /// Messages published and not copied yet.
    pub lag: u64,
    /// The last error, while the copy fails.
    pub failure: Option<String>,
}

/// The tickerplants that a program runs beside its server.
pub trait PlantList: Debug + Send + Sync {
    /// The plants now.
    fn plants(&self) -> Vec<PlantRow>;

    /// Ends the day of a plant, and returns the date that begins.
    ///
    /// # Errors
    /// Why it did not end.
    fn end_day(&self, plant: &str) -> Result<String, String>;
}

/// A tickerplant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlantRow {
    /// Its name.
    pub name: String,
    /// The date of its day.
    pub date: String,
    /// When days end, in words.
    pub day_ends: String,
    /// Why old days are kept, while they should not be.
    pub kept_back: Option<String>,
    /// Its tables.
    pub tables: Vec<PlantTable>,
}

/// A table of a tickerplant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PlantTable {
    /// Its name.
    pub name: String,
    /// The stream that has its rows.
    pub stream: String,
    /// Rows of the day.
    pub today: u64,
    /// Rows that were ever written.
    pub ever: u64,
}

/// Makes imports of files.
pub trait Importer: Debug + Send + Sync {
    /// An import of a file into a stream, which has not begun.
    ///
    /// # Errors
    /// What is wrong with the options.
    fn job(&self, file: &Path, stream: &str, options: &ImportOptions) -> Result<Arc<dyn ImportJob>, String>;
}

/// The options of an import.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ImportOptions {
    /// The format; without it, it is found out by the name and the first bytes.
    pub format: Option<String>,
    /// The column of times, of symbols, of dates.
    pub time: Option<String>,
    /// See [`time`](Self::time).
    pub symbol: Option<String>,
    /// See [`time`](Self::time).
    pub date_column: Option<String>,
    /// The symbol of all rows.
    pub symbol_is: Option<String>,
    /// The zone of times that have none.
    pub zone: Option<String>,
    /// What separates cells.
    pub delimiter: Option<String>,
    /// The record type.
    #[serde(rename = "type")]
    pub record_type: Option<String>,
    /// The unit of times that are numbers.
    pub time_unit: Option<String>,
    /// The symbol and the provider of quotes of currencies.
    pub fx_symbol: Option<String>,
    /// See [`fx_symbol`](Self::fx_symbol).
    pub fx_provider: Option<String>,
    /// `COLUMN=FIELD` for columns whose fields have other names; without a field, the column is left out.
    pub map: Vec<String>,
    /// Whether lines that cannot be read are skipped and counted.
    pub skip_bad_lines: bool,
    /// Whether a file that the stream has is imported once more.
    pub again: bool,
    /// Whether only what would be written is shown.
    pub preview: bool,
}

/// An import, on a thread of its own.
pub trait ImportJob: Debug + Send + Sync {
    /// Runs it to its end.
    ///
    /// # Errors
    /// Why it has stopped.
    fn run(&self) -> Result<(), String>;

    /// Asks it to stop soon.
    fn cancel(&self);

    /// How far it is.
    fn progress(&self) -> ImportProgress;
}

/// How far an import is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImportProgress {
    /// What is done of `total`.
    pub done: u64,
    /// 0: not known yet.
    pub total: u64,
    /// Messages so far.
    pub messages: u64,
    /// What it reports: lines for people.
    pub text: String,
}

/// Limits, each with what happens when it is reached.
#[derive(Debug, Clone)]
pub struct WebLimits {
    /// Connections at once. A further one closes the oldest that waits for a request; if there is none, it is closed itself.
    pub connections_max: usize,
    /// Time for the head of a request, and between two requests. Then the connection is closed.
    pub head_time: Duration,
    /// Time for the body of a request. Then it is answered with 408.
    pub body_time: Duration,
    /// Bytes of a body. A longer one is answered with 413.
    pub body_bytes_max: usize,
    /// Time in which a client reads something of an answer. Then the connection is closed.
    pub write_time: Duration,
    /// A session ends when it was not used for this time.
    pub session_idle: Duration,
    /// A session ends after this time.
    pub session_time: Duration,
    /// WebSockets of one session, or of one address without sessions. Further ones are refused.
    pub sockets_max: usize,
    /// Bytes of an uploaded file. A longer one is answered with 413; 0: no file can be uploaded.
    pub upload_bytes_max: u64,
    /// Bytes per second of a WebSocket's frames. State channels then skip states, and `tail` skips messages.
    pub socket_bytes_per_second: u64,
}

impl Default for WebLimits {
    fn default() -> Self {
        Self {
            connections_max: 1200,
            head_time: Duration::from_secs(10),
            body_time: Duration::from_secs(20),
            body_bytes_max: 1 << 20,
            write_time: Duration::from_secs(30),
            session_idle: Duration::from_secs(8 * 3600),
            session_time: Duration::from_secs(24 * 3600),
            sockets_max: 1100,
            upload_bytes_max: 1 << 30,
            socket_bytes_per_second: 300_000,
        }
    }
}

impl WebOptions {
    /// The defaults, on an address.
    pub fn new(address: SocketAddr) -> Self {
        Self {
            address,
            hosts: Vec::new(),
            tls: None,
            topics: None,
            importer: None,
            backup: None,
            limits: WebLimits::default(),
        }
    }
}
