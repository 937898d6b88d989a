//! TapeDB over the network: opens a local or remote database by its URL.
//!
//! [`open`] returns the same [`Database`] that [`Database::open`] returns for a directory. Cursors run in this process,
//! over files that are read through the server and batches that it pushes; loaders build batches here and append them
//! there. A lost connection is restored, and cursors and loaders continue: no message is lost or duplicated.
//!
//! ```no_run
//! let db = tapedb_client::open("tape://localhost:7847")?;
//! let mut cursor = db.stream("bars")?.cursor().live().open()?;
//! while let Some(message) = cursor.next_within(std::time::Duration::MAX)? {
//!     println!("{} {}", message.time(), message.symbol());
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod address;
mod answer;
pub mod asynchronous;
mod certificate_verifier;
mod connection;
mod convert;
mod event;
mod file;
mod load;
mod notifier;
mod options;
mod query;
mod read_ahead;
mod receiver;
mod reconnector;
mod rewrite;
mod shm_socket;
mod socket;
mod upstream;
mod watch;
mod web;

pub use address::{Address, AddressError, PORT};
pub use event::{ConnectionEvent, Listener};
pub use options::{Login, Options, Validate};
pub use tapedb_engine::{Database, interruptible};
pub use web::{WebAddress, WebAnswer};

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tapedb_engine::Error;
use upstream::RemoteDatabase;

/// Opens the database of a URL: see [`Address::parse`]. A directory is opened for writing in this process.
///
/// # Errors
/// [`OpenError`].
pub fn open(url: &str) -> Result<Database, OpenError> {
    Client::at(url).connect()
}

/// Options of a connection.
///
/// ```no_run
/// use tapedb_client::{Client, Login};
///
/// let token = std::env::var("TAPEDB_TOKEN")?;
/// let db = Client::at("tapes://ticks.example.com").login(Login::token(token)).connections(2).connect()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Client {
    url: String,
    options: Options,
    has_login: bool,
}

impl Client {
    /// A client of the database of a URL.
    pub fn at(url: impl Into<String>) -> Self {
        Self { url: url.into(), options: Options::default(), has_login: false }
    }

    /// Credentials, instead of those in the URL.
    pub fn login(mut self, login: Login) -> Self {
        self.options.login = login;
        self.has_login = true;
        self
    }

    /// Number of connections, 1 to 64: cursors and loaders are distributed over them.
    pub fn connections(mut self, connections: usize) -> Self {
        self.options.connections = connections;
        self
    }

    /// A PEM file of trusted certificate authorities, instead of those of the system.
    pub fn tls_roots(mut self, path: impl Into<PathBuf>) -> Self {
        self.options.tls_roots = Some(path.into());
        self
    }

    /// How long a server that cannot be reached at first is tried again, such as one that is starting. Default: not at
    /// all. A server that refuses the client is not tried again.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.options.wait = wait;
        self
    }

    /// Whether received messages are validated against their schema before readers get them. Default:
    /// [`Validate::Auto`].
    pub fn validate(mut self, validate: Validate) -> Self {
        self.options.validate = validate;
        self
    }

    /// Ends [`Client::wait`] early when the flag is set, such as by Ctrl-C.
    pub fn give_up_when(mut self, flag: Arc<AtomicBool>) -> Self {
        self.options.give_up = Some(flag);
        self
    }

    /// Calls a function when a connection is lost, and when it is restored. The client's threads call it, one at a
    /// time: it must return quickly, and must not use a database of this client.
    ///
    /// ```no_run
    /// use tapedb_client::Client;
    ///
    /// let db = Client::at("tape://localhost").on_connection(|event| eprintln!("{event}")).connect()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_connection(mut self, tell: impl Fn(&ConnectionEvent) + Send + Sync + 'static) -> Self {
        self.options.on_connection = Some(Listener::new(tell));
        self
    }

    /// How long calls wait for a lost connection to be restored. Default: 30 s.
    pub fn reconnect_timeout(mut self, reconnect_timeout: Duration) -> Self {
        self.options.reconnect_timeout = reconnect_timeout;
        self
    }

    /// How long a thread that waits for messages polls before it sleeps: low latency at the price of a core. Default:
    /// 0.
    pub fn spin(mut self, spin: Duration) -> Self {
        self.options.spin = spin;
        self
    }

    /// All options.
    pub fn options(mut self, options: Options) -> Self {
        self.has_login |= options.login != Login::Anonymous;
        self.options = options;
        self
    }

    /// Connects, or opens the directory.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn connect(self) -> Result<Database, OpenError> {
        let Self { url, mut options, has_login } = self;
        let (address, login) = Address::parse(&url)?;
        if let Some(login) = login.filter(|_| !has_login) {
            options.login = login;
        }
        match &address {
            Address::Directory(path) => return Ok(Database::open(path)?),
            Address::Objects(url) => return Ok(Database::open_object_store(url)?),
            _ => {}
        }
        Ok(Database::open_upstream(Arc::new(RemoteDatabase::connect(&address, &options)?)))
    }
}

/// Why a database could not be opened.
#[derive(Debug)]
pub enum OpenError {
    /// The URL is not valid.
    Address(AddressError),
    /// An error of the engine or of the server.
    Engine(Error),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(error) => error.fmt(f),
            Self::Engine(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OpenError {}

impl From<AddressError> for OpenError {
    fn from(error: AddressError) -> Self {
        Self::Address(error)
    }
}

impl From<Error> for OpenError {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}
