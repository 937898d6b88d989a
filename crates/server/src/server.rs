//! The server: opens the database, listens, gives every connection its thread, and ends all of them in good order.

use crate::audit::Audit;
use crate::companion::Companion;
use crate::config::{Config, ConfigError};
use crate::connection::{Connection, SOCKET, WAKER, no_place};
use crate::entrance::Entrance;
use crate::handshakes::Handshake;
use crate::http::Http;
use crate::login::Logins;
use crate::noise::Kind;
use crate::outbox::Outbox;
use crate::producers::ProducerIds;
use crate::rewrites::IDLE_MAX;
use crate::secret;
use crate::shared::Shared;
use crate::socket::{Local, Peer, Socket};
use crate::tls;
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
use tapedb_engine::{Database, Error};

const TCP: Token = Token(10);
const UNIX: Token = Token(11);
const HTTP: Token = Token(12);
const STOP: Token = Token(13);
/// Pause when the system has no more files or memory for connections.
const SHORTAGE_PAUSE: Duration = Duration::from_millis(50);
/// What ends after the grace does so within this, or is left behind.
const LAST_WAIT: Duration = Duration::from_millis(500);

impl Addresses {
    /// A URL for clients of this machine; `None`: it listens nowhere.
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

/// A server that is running. It ends when it is [shut down](Server::shutdown) or dropped.
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
    shared: Arc<Shared>,
    addresses: Addresses,
    stop: Arc<Waker>,
    acceptor: Option<JoinHandle<()>>,
}

/// The command takes them out of the configuration; a program of somebody else's that leaves them in would copy nothing.
const COPIES_ARE_NOT_OURS: &str = "`copy_topics` are copied by `tapedb server`; a server alone knows no topics: leave them \
                                   out, and start a `tapedb_topic_copy::Copier` for each beside it";

/// As the copies.
const PROCESSORS_ARE_NOT_OURS: &str = "`keep_awake` is kept by `tapedb server`; a server alone leaves processors alone: leave it \
                                       out, and hold a `tapedb_shm::Awake` beside it";

/// Where a server can be reached.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Addresses {
    /// Over TCP, with the port that was given or found.
    pub tcp: Option<SocketAddr>,
    /// Whether TCP is encrypted.
    pub is_encrypted: bool,
    /// Over this Unix socket.
    pub unix: Option<PathBuf>,
    /// Health and metrics, over HTTP.
    pub http: Option<SocketAddr>,
}

/// Why a server does not start.
#[derive(Debug)]
pub enum ServerError {
    /// It was told something that cannot be.
    Config(ConfigError),
    /// The database does not open.
    Database(Error),
    /// The system refused something.
    System {
        /// What was tried, and on what.
        what: String,
        /// What the system said.
        source: io::Error,
    },
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => write!(f, "{error}"),
            Self::Database(error) => write!(f, "{error}"),
            Self::System { what, source } => write!(f, "cannot {what}: {source}"),
        }
    }
}

impl std::error::Error for ServerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Config(error) => Some(error),
            Self::Database(error) => Some(error),
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
    /// [`ServerError`]: what contradicts itself, a database that another process has open, an address in use.
    pub fn start(config: Config) -> Result<Self, ServerError> {
        config.check()?;
        let db = Database::open(&config.database)?;
        Self::start_with(config, db)
    }

    /// Serves a database that is open already: what this process does with it, clients see, and the other way round.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_with(config: Config, db: Database) -> Result<Self, ServerError> {
        config.check()?;
        if !config.copy_topics.is_empty() {
            return Err(ConfigError(COPIES_ARE_NOT_OURS.into()).into());
        }
        if config.keep_awake {
            return Err(ConfigError(PROCESSORS_ARE_NOT_OURS.into()).into());
        }
        let encryption = config.tls.as_ref().map(tls::server_config).transpose()?;
        let logins = Arc::new(Logins::new(config.users.clone(), &config.limits)?);
        let audit = Audit::open(config.audit_log.as_deref(), &config.limits)
            .map_err(system(format!("open the audit log {}", path_of(config.audit_log.as_deref()))))?;
        open_streams(&db)?;
        let epoch = u64::from_le_bytes(secret::random().map_err(ConfigError)?);
        let producers = ProducerIds::of(&db).map_err(ConfigError)?;
        let is_encrypted = encryption.is_some();
        let (acceptor, stop) = Acceptor::new(&config, encryption)?;
        let addresses = acceptor.addresses(is_encrypted);
        db.announce(addresses.url().as_deref());
        let shared = Arc::new(Shared::new(config, db, audit, logins, epoch, producers));
        let stop = Arc::new(stop);
        let accept = {
            let shared = shared.clone();
            move || acceptor.run(&shared)
        };
        let thread = thread::Builder::new().name("tape-accept".into()).spawn(accept);
        let acceptor = Some(thread.map_err(system("begin a thread"))?);
        Ok(Self { shared, addresses, stop, acceptor })
    }

    /// Where it can be reached.
    pub fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// The database that it serves.
    pub fn database(&self) -> &Database {
        &self.shared.db
    }

    /// Reads the users file again. Rights and limits hold for those who are connected too: live cursors and loads of streams
    /// that they may not read or write any more end, and so does the connection of whoever has been removed, or whose
    /// password or token has.
    ///
    /// # Errors
    /// What is wrong with the file; the users stay what they were.
    pub fn reload_users(&self) -> Result<(), ConfigError> {
        self.shared.logins.reload()?;
        self.shared.wake_all();
        Ok(())
    }

    /// The same users for another protocol; they are read again with those of the server.
    pub fn entrance(&self) -> Entrance {
        Entrance::of(self.shared.logins.clone())
    }

    /// Shows what runs beside it, for as long as the server runs.
    pub fn accompany(&self, companion: Arc<dyn Companion>) {
        self.shared.accompany(companion);
    }

    /// Connections now.
    pub fn connections(&self) -> usize {
        self.shared.connections()
    }

    /// Takes no more connections, tells those there are, lets them finish what they have begun for as long as the
    /// configuration grants, and ends. Returns how many were left behind: blocked by the disk, most likely.
    pub fn shutdown(mut self) -> usize {
        self.stop_all()
    }

    fn stop_all(&mut self) -> usize {
        let Some(acceptor) = self.acceptor.take() else { return 0 };
        self.shared.stopping.store(true, Ordering::Release);
        // Its thread looks up now and then if it cannot be woken.
        let _ = self.stop.wake();
        let _ = acceptor.join();
        self.shared.db.announce(None);
        self.shared.stop(self.shared.config.shutdown_grace() + LAST_WAIT)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop_all();
    }
}

/// Opens every stream, so that upkeep looks after it. One that does not open keeps the others from nothing.
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

/// Takes connections in.
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
        let listen = |address: Option<SocketAddr>, token| {
            let listener = |address| {
                let mut listener = TcpListener::bind(address)?;
                poll.registry().register(&mut listener, token, Interest::READABLE)?;
                Ok(listener)
            };
            address
                .map(|address| listener(address).map_err(system(format!("listen on {address}"))))
                .transpose()
        };
        let tcp = listen(config.listen.address(), TCP)?;
        let http = listen(config.http.address(), HTTP)?;
        #[cfg(unix)]
        let unix = config.unix_socket.as_deref().map(|path| listen_unix(path, &poll)).transpose()?;
        #[cfg(not(unix))]
        if config.unix_socket.is_some() {
            return Err(
                ConfigError("this system has no Unix sockets; leave `unix_socket` away".into()).into()
            );
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

    fn run(mut self, shared: &Arc<Shared>) {
        let mut events = Events::with_capacity(16);
        while !shared.is_stopping() {
            // The time-out is for the case that waking fails.
            match self.poll.poll(&mut events, Some(Duration::from_secs(1))) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                    tracing::error!(%error, "cannot wait for connections");
                    thread::sleep(SHORTAGE_PAUSE);
                }
                _ => {}
            }
            self.accept_all(shared);
            shared.db.forget_idle_rewrites(IDLE_MAX);
        }
    }

    /// Takes in all who wait. When the system has no room for more, the rest is tried again soon.
    fn accept_all(&self, shared: &Arc<Shared>) {
        let each = |accept: &dyn Fn() -> io::Result<()>| {
            loop {
                match accept() {
                    Ok(()) if shared.is_stopping() => return,
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                    Err(error) if is_of_peer(&error) => {}
                    Err(error) => {
                        if let Some(held_back) = shared.noise.admits(Kind::System, std::time::Instant::now())
                        {
                            tracing::error!(%error, held_back, "cannot take connections in");
                        }
                        thread::sleep(SHORTAGE_PAUSE);
                        if shared.is_stopping() {
                            return;
                        }
                    }
                }
            }
        };
        if let Some(tcp) = &self.tcp {
            each(&|| {
                let (socket, address) = tcp.accept()?;
                self.take_in(shared, Socket::Tcp(socket), Peer::Tcp(address));
                Ok(())
            });
        }
        #[cfg(unix)]
        if let Some((unix, _)) = &self.unix {
            each(&|| {
                let (socket, _) = unix.accept()?;
                self.take_in(shared, Socket::Unix(Local::new(socket)), Peer::Unix);
                Ok(())
            });
        }
        if let Some(http) = &self.http {
            each(&|| {
                let (socket, _) = http.accept()?;
                self.pages.serve(socket.into(), shared.clone());
                Ok(())
            });
        }
    }

    fn take_in(&self, shared: &Arc<Shared>, socket: Socket, peer: Peer) {
        shared.metrics.connections_accepted.one();
        let limits = &shared.config.limits;
        let place = match shared.handshakes.take(peer.ip(), limits) {
            Ok(place) => place,
            Err(why) => return self.turn_away(shared, &socket, peer, why),
        };
        if shared.connections() >= limits.connections_max {
            return self.turn_away(
                shared,
                &socket,
                peer,
                "it has all the connections that it may have; try again later",
            );
        }
        if let Err(error) = self.begin(shared, socket, peer, place) {
            shared.warn(Kind::System, peer, &format!("cannot serve a connection: {error}"));
        }
    }

    fn begin(
        &self,
        shared: &Arc<Shared>,
        mut socket: Socket,
        peer: Peer,
        place: Handshake,
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
        let outbox = Outbox::new(socket, tls, shared.config.limits.outbox_bytes_max);
        let Some(handle) = shared.join(peer, outbox, waker) else { return Ok(()) };
        let connection = Connection::new(shared.clone(), handle.clone(), poll, place);
        let spawned =
            thread::Builder::new().name(format!("tape-{}", handle.id)).spawn(move || connection.run());
        if spawned.is_err() {
            shared.leave(&handle);
        }
        spawned.map(drop)
    }

    /// Says why, as far as that gets through, and closes.
    fn turn_away(&self, shared: &Shared, socket: &Socket, peer: Peer, why: &str) {
        shared.metrics.connections_refused.one();
        shared.warn(Kind::Full, peer, why);
        if self.encryption.is_none() || peer == Peer::Unix {
            let _ = socket.write(&[IoSlice::new(&no_place(why))]);
        }
        socket.end();
    }
}

/// Whether it was one connection that failed, not accepting.
fn is_of_peer(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}

fn path_of(path: Option<&Path>) -> String {
    path.map_or(String::new(), |path| path.display().to_string())
}

/// The file of a Unix socket, gone when the server ends.
#[derive(Debug)]
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Listens on a Unix socket. It is made in a directory that only we can enter, and moved to its place when only we can open
/// it, so there is no moment at which others could. One that a killed server has left is replaced.
#[cfg(unix)]
fn listen_unix(path: &Path, poll: &Poll) -> Result<(UnixListener, SocketFile), ServerError> {
    use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
    let told = |error| system(format!("listen on {}", path.display()))(error);
    match fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            return Err(told(io::Error::new(
                io::ErrorKind::AlreadyExists,
                "there is a file that is no socket",
            )));
        }
        Ok(_) if std::os::unix::net::UnixStream::connect(path).is_ok() => {
            return Err(told(io::Error::new(io::ErrorKind::AddrInUse, "another server listens there")));
        }
        _ => {}
    }
    let mut room = path.to_path_buf().into_os_string();
    room.push(format!(".{}", std::process::id()));
    let (room, listener) = (PathBuf::from(&room), PathBuf::from(room).join("s"));
    fs::DirBuilder::new().mode(0o700).create(&room).map_err(told)?;
    let made = UnixListener::bind(&listener)
        .and_then(|socket| fs::set_permissions(&listener, fs::Permissions::from_mode(0o600)).map(|()| socket))
        .and_then(|socket| fs::rename(&listener, path).map(|()| socket));
    if made.is_err() {
        let _ = fs::remove_file(&listener);
    }
    fs::remove_dir(&room).map_err(told)?;
    let mut socket = made.map_err(told)?;
    let file = SocketFile(path.to_path_buf());
    poll.registry().register(&mut socket, UNIX, Interest::READABLE).map_err(told)?;
    Ok((socket, file))
}
