//! The server: opens the database, accepts connections, starts a thread for each, and shuts all of them down in order.

use crate::component::Component;
use crate::config::{Config, Endpoint};
use crate::connection::{Connection, SOCKET, WAKER, refusal_frame};
use crate::face::ServerHandle;
use crate::handshakes::HandshakePermit;
use crate::http::Http;
use crate::listen_error::ListenError;
use crate::log_limit::FailureKind;
use crate::producers::ProducerIds;
use crate::reload::Reload;
use crate::rewrites::IDLE_MAX;
use crate::send_buffer::SendBuffer;
use crate::socket::{LocalSocket, Peer, Socket};
use crate::state::ServerState;
use crate::tls::Encryption;
use mio::net::TcpListener;
#[cfg(unix)]
use mio::net::UnixListener;
use mio::{Events, Interest, Poll, Token, Waker};
use rustls::{ServerConfig, ServerConnection};
use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::{self, JoinHandle};
use std::time::Duration;
use std::{fmt, fs};
use tapedb_access::{Access, AuditLog, Authenticator, ConfigError, Logins, random};
use tapedb_engine::{Database, Error, QueryEngine};

const TCP: Token = Token(10);
const UNIX: Token = Token(11);
const HTTP: Token = Token(12);
const STOP: Token = Token(13);
/// Pause when the system has no more files or memory for connections.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(50);
/// Extra time for connections after the grace period; those that are still open are abandoned.
const LAST_WAIT: Duration = Duration::from_millis(500);

impl Addresses {
    /// A URL for clients on this machine; `None`: it does not listen.
    pub fn url(&self) -> Option<String> {
        let tcp = self.tcp.map(|mut address| {
            if address.ip().is_unspecified() {
                address.set_ip(if address.is_ipv4() {
                    Ipv4Addr::LOCALHOST.into()
                } else {
                    Ipv6Addr::LOCALHOST.into()
                });
            }
            format!("{}://{address}", if self.is_encrypted { "tapes" } else { "tape" })
        });
        tcp.or_else(|| Some(format!("tape+unix://{}", self.unix.as_ref()?.display())))
    }
}

/// A running server. It ends when it is [shut down](Server::shutdown) or dropped.
///
/// ```
/// use tapedb_server::{Config, Server};
///
/// # let directory = tempfile::tempdir()?;
/// let config = Config {
///     database: directory.path().join("db"),
///     listen: "127.0.0.1:0".parse()?,
///     http: "off".parse()?,
///     ..Config::default()
/// };
/// let server = Server::start(config)?;
/// println!("clients connect to {}", server.addresses().tcp.expect("it listens"));
/// server.shutdown();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Server {
    state: Arc<ServerState>,
    addresses: Addresses,
    stop: Arc<Waker>,
    acceptor: Option<JoinHandle<()>>,
}

/// `tapedb server` removes these settings from its configuration; another program that sets them would copy nothing.
const COPIES_NOT_SUPPORTED: &str = "`copy_topics` is implemented by `tapedb server`; a server alone does not support topics: remove \
                                   the setting, and start a `tapedb_topic_copy::Copier` for each topic beside the server";

/// Like the copies.
const LINES_NOT_SUPPORTED: &str = "`ilp` is implemented by `tapedb server`; a server alone does not support the line protocol: remove the \
                                   setting, and start a `tapedb_ilp_load::LineServer` beside the server";

/// Like the copies.
const POSTGRES_NOT_SUPPORTED: &str = "`postgres` is implemented by `tapedb server`; a server alone does not support it: remove the setting, \
                                      and start a `tapedb_gateway::Postgres` beside the server";

/// Like the copies.
const FLIGHT_NOT_SUPPORTED: &str = "`flight` is implemented by `tapedb server`; a server alone does not support it: remove the setting, \
                                    and start a `tapedb_flight::Flight` beside the server";

/// Like the copies.
const OTLP_NOT_SUPPORTED: &str = "`otlp` is implemented by `tapedb server`; a server alone does not support it: remove the setting, and \
                                  subscribe to the spans of `tracing` whose target is `tapedb::trace`";

/// Like the copies.
const KEEP_AWAKE_NOT_SUPPORTED: &str = "`keep_awake` is implemented by `tapedb server`; a server alone does not support it: remove \
                                       the setting, and hold a `tapedb_shm::Awake` beside the server";

/// Like the copies.
const HTTP_TLS_NOT_SUPPORTED: &str = "`http_tls` is implemented by `tapedb server`; the pages of a server alone are not encrypted: \
                                      remove the setting, and start a `tapedb_web::Web` beside the server";

/// The addresses of a server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Addresses {
    /// Of TCP, with the configured port or the one that was assigned.
    pub tcp: Option<SocketAddr>,
    /// Whether TCP is encrypted.
    pub is_encrypted: bool,
    /// Path of the Unix socket.
    pub unix: Option<PathBuf>,
    /// Of health and metrics, over HTTP.
    pub http: Option<SocketAddr>,
}

/// Why a server does not start.
#[derive(Debug)]
pub enum ServerError {
    /// The configuration is not valid.
    Config(ConfigError),
    /// The database cannot be opened.
    Database(Error),
    /// An address cannot be listened on.
    Listen(ListenError),
    /// The operating system refused something.
    System {
        /// The operation, and its object.
        what: String,
        /// The system's error.
        source: io::Error,
    },
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => write!(f, "{error}"),
            Self::Database(error) => write!(f, "{error}"),
            Self::Listen(error) => write!(f, "{error}"),
            Self::System { what, source } => write!(f, "cannot {what}: {source}"),
        }
    }
}

impl std::error::Error for ServerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Config(error) => Some(error),
            Self::Database(error) => Some(error),
            Self::Listen(error) => Some(error),
            Self::System { source, .. } => Some(source),
        }
    }
}

impl From<ConfigError> for ServerError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

impl From<Error> for ServerError {
    fn from(error: Error) -> Self {
        Self::Database(error)
    }
}

fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> ServerError {
    let what = what.into();
    move |source| ServerError::System { what, source }
}

impl Server {
    /// Opens the database of the configuration for writing, and serves it.
    ///
    /// # Errors
    /// [`ServerError`]: a configuration with a contradiction, a database that another process has open, an address in
    /// use.
    pub fn start(config: Config) -> Result<Self, ServerError> {
        config.check()?;
        let db = Database::open(&config.database)?;
        Self::start_with(config, db)
    }

    /// Serves an open database: clients see the changes of this process, and this process those of clients.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_with(config: Config, db: Database) -> Result<Self, ServerError> {
        config.check()?;
        if !config.copy_topics.is_empty() {
            return Err(ConfigError(COPIES_NOT_SUPPORTED.into()).into());
        }
        if config.ilp.is_on() {
            return Err(ConfigError(LINES_NOT_SUPPORTED.into()).into());
        }
        if config.postgres != Endpoint::OFF {
            return Err(ConfigError(POSTGRES_NOT_SUPPORTED.into()).into());
        }
        if config.flight != Endpoint::OFF {
            return Err(ConfigError(FLIGHT_NOT_SUPPORTED.into()).into());
        }
        if config.otlp.is_some() {
            return Err(ConfigError(OTLP_NOT_SUPPORTED.into()).into());
        }
        if config.keep_awake {
            return Err(ConfigError(KEEP_AWAKE_NOT_SUPPORTED.into()).into());
        }
        if config.http_tls {
            return Err(ConfigError(HTTP_TLS_NOT_SUPPORTED.into()).into());
        }
        let encryption = config.tls.as_ref().map(Encryption::read).transpose()?;
        let logins = Arc::new(Logins::new(config.users.clone(), &config.limits.access())?);
        let audit = AuditLog::open(config.audit_log.as_deref(), &config.limits.access())
            .map_err(system(format!("open the audit log {}", path_of(config.audit_log.as_deref()))))?;
        open_streams(&db)?;
        let epoch = u64::from_le_bytes(random().map_err(ConfigError)?);
        let producers = ProducerIds::of(&db).map_err(ConfigError)?;
        let is_encrypted = encryption.is_some();
        let (acceptor, stop) = Acceptor::new(&config, encryption.as_ref().map(Encryption::config))?;
        let addresses = acceptor.addresses(is_encrypted);
        db.announce(addresses.url().as_deref());
        let state =
            Arc::new(ServerState::new(config, db, Arc::new(audit), logins, encryption, epoch, producers));
        let stop = Arc::new(stop);
        let accept = {
            let state = state.clone();
            move || acceptor.run(&state)
        };
        let thread = thread::Builder::new().name("tape-accept".into()).spawn(accept);
        let acceptor = Some(thread.map_err(system("begin a thread"))?);
        Ok(Self { state, addresses, stop, acceptor })
    }

    /// Its addresses.
    pub fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// The database.
    pub fn database(&self) -> &Database {
        &self.state.db
    }

    /// Reloads the users file. Rights and limits apply to connected clients too: live cursors and loads of streams that
    /// a user may not read or write any more end, and so does a connection whose user, password or token was removed.
    ///
    /// # Errors
    /// The error in the file; the users stay unchanged.
    pub fn reload_users(&self) -> Result<(), ConfigError> {
        self.state.logins.reload()?;
        self.state.wake_all();
        Ok(())
    }

    /// Reads the users file and the certificate again. Handshakes from now on use the new certificate, in every protocol that has its
    /// settings from [`encryption`](Self::encryption); open connections stay. Files that cannot be used change nothing.
    pub fn reload(&self) -> Reload {
        self.state.reload()
    }

    /// The settings of TLS, for other protocols of this process; they follow [reloads](Self::reload). `None`: it has no certificate.
    pub fn encryption(&self) -> Option<Arc<ServerConfig>> {
        self.state.encryption.as_ref().map(Encryption::config)
    }

    /// Gives clients queries on the database, with their rights and limits. The first call counts.
    pub fn serve_queries(&self, engine: Arc<dyn QueryEngine>) {
        let _ = self.state.query_engine.set(engine);
    }

    /// Authentication with the same users for another protocol; it follows reloads of the server's users.
    pub fn authenticator(&self) -> Authenticator {
        Authenticator::new(self.state.logins.clone())
    }

    /// What other protocols of this process use of the server. Let go of it before the database is opened again.
    pub fn handle(&self) -> ServerHandle {
        ServerHandle::new(self.state.clone())
    }

    /// The users, quotas and audit log of this server for another protocol: what is counted is counted together.
    pub fn access(&self) -> Access {
        Access {
            authenticator: self.authenticator(),
            quotas: self.state.quotas.clone(),
            audit: self.state.audit.clone(),
            limits: self.state.access,
        }
    }

    /// Adds a component to the metrics and the health, until the server ends.
    pub fn add_component(&self, component: Arc<dyn Component>) {
        self.state.add_component(component);
    }

    /// Open connections.
    pub fn connections(&self) -> usize {
        self.state.connections()
    }

    /// Stops accepting connections, notifies the open ones, lets them finish their requests within the configured grace
    /// period, and ends. Returns the number of abandoned connections: most likely blocked by the disk.
    pub fn shutdown(mut self) -> usize {
        self.stop_all()
    }

    fn stop_all(&mut self) -> usize {
        let Some(acceptor) = self.acceptor.take() else { return 0 };
        self.state.stopping.store(true, Ordering::Release);
        // If it cannot be woken, its thread checks the flag regularly.
        let _ = self.stop.wake();
        let _ = acceptor.join();
        self.state.db.announce(None);
        self.state.stop(self.state.config.shutdown_grace() + LAST_WAIT)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop_all();
    }
}

/// Opens every stream, so that its maintenance runs. A stream that cannot be opened does not stop the others.
fn open_streams(db: &Database) -> Result<(), Error> {
    for name in db.streams()? {
        match db.stream(&name) {
            Ok(stream) if !stream.recovery().is_clean() => {
                tracing::warn!(stream = name, "{}", stream.recovery());
            }
            Ok(_) => {}
            Err(error) => tracing::error!(stream = name, %error, "a stream cannot be opened"),
        }
    }
    Ok(())
}

/// Accepts connections.
struct Acceptor {
    poll: Poll,
    tcp: Option<TcpListener>,
    #[cfg(unix)]
    unix: Option<(UnixListener, SocketFile)>,
    http: Option<TcpListener>,
    encryption: Option<Arc<ServerConfig>>,
    pages: Http,
}

impl Acceptor {
    fn new(config: &Config, encryption: Option<Arc<ServerConfig>>) -> Result<(Self, Waker), ServerError> {
        let poll = Poll::new().map_err(system("wait for connections"))?;
        let stop = Waker::new(poll.registry(), STOP).map_err(system("wait for connections"))?;
        let listen = |setting, address: Option<SocketAddr>, token| {
            let listener = |address| {
                let mut listener = TcpListener::bind(address)?;
                poll.registry().register(&mut listener, token, Interest::READABLE)?;
                Ok(listener)
            };
            address
                .map(|address| {
                    let refused = |error| ServerError::Listen(ListenError::new(setting, address, error));
                    listener(address).map_err(refused)
                })
                .transpose()
        };
        let tcp = listen("listen", config.listen.address(), TCP)?;
        let http = listen("http", config.http.address(), HTTP)?;
        #[cfg(unix)]
        let unix = config.unix_socket.as_deref().map(|path| listen_unix(path, &poll)).transpose()?;
        #[cfg(not(unix))]
        if config.unix_socket.is_some() {
            return Err(ConfigError("this system has no Unix sockets; remove `unix_socket`".into()).into());
        }
        let pages = Http::default();
        Ok((
            Self {
                poll,
                tcp,
                #[cfg(unix)]
                unix,
                http,
                encryption,
                pages,
            },
            stop,
        ))
    }

    fn addresses(&self, is_encrypted: bool) -> Addresses {
        let address = |listener: &Option<TcpListener>| listener.as_ref()?.local_addr().ok();
        #[cfg(unix)]
        let unix = self.unix.as_ref().map(|(_, file)| file.0.clone());
        #[cfg(not(unix))]
        let unix = None;
        Addresses { tcp: address(&self.tcp), is_encrypted, unix, http: address(&self.http) }
    }

    fn run(mut self, state: &Arc<ServerState>) {
        let mut events = Events::with_capacity(16);
        while !state.is_stopping() {
            // The timeout is for the case that waking fails.
            match self.poll.poll(&mut events, Some(Duration::from_secs(1))) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                    tracing::error!(%error, "cannot wait for connections");
                    thread::sleep(SHORTAGE_PAUSE);
                }
                _ => {}
            }
            self.accept_all(state);
            state.db.forget_idle_rewrites(IDLE_MAX);
        }
    }

    /// Accepts all pending connections. When the system has no resources for more, it tries again soon.
    fn accept_all(&self, state: &Arc<ServerState>) {
        let each = |accept: &dyn Fn() -> io::Result<()>| {
            loop {
                match accept() {
                    Ok(()) if state.is_stopping() => return,
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                    Err(error) if is_of_peer(&error) => {}
                    Err(error) => {
                        if let Some(held_back) =
                            state.log_limit.admits(FailureKind::System, std::time::Instant::now())
                        {
                            tracing::error!(%error, held_back, "cannot accept connections");
                        }
                        thread::sleep(SHORTAGE_PAUSE);
                        if state.is_stopping() {
                            return;
                        }
                    }
                }
            }
        };
        if let Some(tcp) = &self.tcp {
            each(&|| {
                let (socket, address) = tcp.accept()?;
                self.accept(state, Socket::Tcp(socket), Peer::Tcp(address));
                Ok(())
            });
        }
        #[cfg(unix)]
        if let Some((unix, _)) = &self.unix {
            each(&|| {
                let (socket, _) = unix.accept()?;
                self.accept(state, Socket::Unix(LocalSocket::new(socket)), Peer::Unix);
                Ok(())
            });
        }
        if let Some(http) = &self.http {
            each(&|| {
                let (socket, _) = http.accept()?;
                self.pages.serve(socket.into(), state.clone());
                Ok(())
            });
        }
    }

    fn accept(&self, state: &Arc<ServerState>, socket: Socket, peer: Peer) {
        state.metrics.connections_accepted.one();
        let limits = &state.config.limits;
        let permit = match state.handshakes.take(peer.ip(), limits) {
            Ok(permit) => permit,
            Err(why) => return self.refuse(state, &socket, peer, why),
        };
        if state.connections() >= limits.connections_max {
            return self.refuse(
                state,
                &socket,
                peer,
                "it has reached its limit of connections; try again later",
            );
        }
        if let Err(error) = self.begin(state, socket, peer, permit) {
            state.warn(FailureKind::System, peer, &format!("cannot serve a connection: {error}"));
        }
    }

    fn begin(
        &self,
        state: &Arc<ServerState>,
        mut socket: Socket,
        peer: Peer,
        permit: HandshakePermit,
    ) -> io::Result<()> {
        socket.set_no_delay()?;
        let tls = match (&self.encryption, peer) {
            (Some(config), Peer::Tcp(_)) => {
                Some(ServerConnection::new(config.clone()).map_err(io::Error::other)?)
            }
            _ => None,
        };
        let poll = Poll::new()?;
        poll.registry().register(&mut socket, SOCKET, Interest::READABLE)?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let send_buffer = SendBuffer::new(socket, tls, state.config.limits.outbox_bytes_max);
        let Some(handle) = state.register(peer, send_buffer, waker) else { return Ok(()) };
        let connection = Connection::new(state.clone(), handle.clone(), poll, permit);
        let spawned =
            thread::Builder::new().name(format!("tape-{}", handle.id)).spawn(move || connection.run());
        if spawned.is_err() {
            state.remove(&handle);
        }
        spawned.map(drop)
    }

    /// Sends the reason, if possible, and closes the connection.
    fn refuse(&self, state: &ServerState, socket: &Socket, peer: Peer, why: &str) {
        state.metrics.connections_refused.one();
        state.warn(FailureKind::Full, peer, why);
        if self.encryption.is_none() || peer == Peer::Unix {
            let _ = socket.write(&[IoSlice::new(&refusal_frame(why))]);
        }
        socket.end();
    }
}

/// Whether a single connection failed, and not the listener.
fn is_of_peer(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

fn path_of(path: Option<&Path>) -> String {
    path.map_or(String::new(), |path| path.display().to_string())
}

/// The file of a Unix socket, removed when the server ends.
#[derive(Debug)]
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Listens on a Unix socket. The socket is created in a directory that only its owner can enter, and moved to its path
/// after its mode is set, so other users cannot open it at any moment. A socket that a killed server has left is
/// replaced.
#[cfg(unix)]
fn listen_unix(path: &Path, poll: &Poll) -> Result<(UnixListener, SocketFile), ServerError> {
    use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
    let fail = |error| system(format!("listen on {}", path.display()))(error);
    match fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            return Err(fail(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "a file exists there that is not a socket",
            )));
        }
        Ok(_) if std::os::unix::net::UnixStream::connect(path).is_ok() => {
            return Err(fail(io::Error::new(io::ErrorKind::AddrInUse, "another server listens there")));
        }
        _ => {}
    }
    let mut private = path.to_path_buf().into_os_string();
    private.push(format!(".{}", std::process::id()));
    let (private, listener) = (PathBuf::from(&private), PathBuf::from(private).join("s"));
    fs::DirBuilder::new().mode(0o700).create(&private).map_err(fail)?;
    let made = UnixListener::bind(&listener)
        .and_then(|socket| fs::set_permissions(&listener, fs::Permissions::from_mode(0o600)).map(|()| socket))
        .and_then(|socket| fs::rename(&listener, path).map(|()| socket));
    if made.is_err() {
        let _ = fs::remove_file(&listener);
    }
    fs::remove_dir(&private).map_err(fail)?;
    let mut socket = made.map_err(fail)?;
    let file = SocketFile(path.to_path_buf());
    poll.registry().register(&mut socket, UNIX, Interest::READABLE).map_err(fail)?;
    Ok((socket, file))
}
