//! TapeDB over the network: opens a database by its URL, wherever it is.
//!
//! [`open`] gives the same [`Database`] that [`Database::open`] gives for a directory. Reading runs here, over files that are
//! read through the server and batches that it pushes; batches are built here and appended there. A lost connection is
//! made anew, and cursors and loaders go on where they were: nothing is missing, and nothing comes twice.
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
pub mod asynchronous;
mod convert;
mod event;
mod file;
mod line;
mod link;
mod load;
mod memory;
mod options;
mod pinned;
mod rewrite;
mod signal;
mod slot;
mod socket;
mod upstream;
mod watch;

pub use address::{Address, AddressError, PORT};
pub use event::{ConnectionEvent, Listener};
pub use options::{Login, Options, Validate};
pub use tapedb_engine::Database;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tapedb_engine::Error;
use upstream::RemoteDatabase;

/// Opens the database that a URL names: see [`Address::parse`]. A directory is opened for writing in this process.
///
/// # Errors
/// [`OpenError`].
pub fn open(url: &str) -> Result<Database, OpenError> {
    Client::at(url).connect()
}

/// Chooses how to connect.
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
    /// A client of the database that a URL names.
    pub fn at(url: impl Into<String>) -> Self {
        Self { url: url.into(), options: Options::default(), has_login: false }
    }

    /// Who wants in. Without it, whom the URL names.
    pub fn login(mut self, login: Login) -> Self {
        self.options.login = login;
        self.has_login = true;
        self
    }

    /// How many connections there are, 1 to 64: cursors and loaders are spread over them.
    pub fn connections(mut self, connections: usize) -> Self {
        self.options.connections = connections;
        self
    }

    /// A PEM file with certificates of the authorities that are trusted, instead of those that the system trusts.
    pub fn tls_roots(mut self, path: impl Into<PathBuf>) -> Self {
        self.options.tls_roots = Some(path.into());
        self
    }

    /// How long a server that cannot be reached at first is tried again, as one that is only being started: not at all unless
    /// chosen. A server that answers and refuses the client is not tried again.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.options.wait = wait;
        self
    }

    /// Whether messages are compared with their schema as they come, before readers get them:
    /// [`Validate::Auto`] unless chosen.
    pub fn validate(mut self, validate: Validate) -> Self {
        self.options.validate = validate;
        self
    }

    /// Ends [`Client::wait`] early once the flag is raised, as by Ctrl-C.
    pub fn give_up_when(mut self, flag: Arc<AtomicBool>) -> Self {
        self.options.give_up = Some(flag);
        self
    }

    /// Has a function called when a connection is lost, and when it is there again. Client threads call it, one at a time: it
    /// must be quick, and use nothing of this client's database.
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

    /// How long calls wait for a lost connection to come back: 30 s unless chosen.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.options.patience = patience;
        self
    }

    /// How long whoever waits for messages looks again and again whether some have come before it sleeps: low latency at the
    /// price of a core. 0 unless chosen.
    pub fn spin(mut self, spin: Duration) -> Self {
        self.options.spin = spin;
        self
    }

    /// Everything that can be chosen.
    pub fn options(mut self, options: Options) -> Self {
        self.has_login |= options.login != Login::Anyone;
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
        if let Address::Directory(path) = address {
            return Ok(Database::open(path)?);
        }
        Ok(Database::open_upstream(Arc::new(RemoteDatabase::connect(&address, &options)?)))
    }
}

/// Why a database could not be opened.
#[derive(Debug)]
pub enum OpenError {
    /// The URL names none.
    Address(AddressError),
    /// What the engine, or the server, says.
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
