//! The configuration of a server: the database, addresses, users and limits.
//!
//! The same settings are flags of `tapedb server`, environment variables and keys of one TOML file. The defaults suit a
//! single machine: loopback only, no users, generous limits.

use crate::line_protocol::LineProtocol;
use rustls::ServerConfig;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;
use tapedb_access::{AccessLimits, ConfigError};

/// Port of the protocol.
pub const PORT: u16 = 7847;
/// Port of health and metrics.
pub const HTTP_PORT: u16 = 7848;

/// The configuration of a server. [`Config::check`] finds contradictions.
///
/// ```
/// use tapedb_server::Config;
///
/// let config = Config::from_toml("database = 'my.tapedb'\nlisten = '127.0.0.1:0'\nhttp = 'off'")?;
/// config.check()?;
/// assert_eq!(config.limits.connections_max, 4096);
/// # Ok::<(), tapedb_server::ConfigError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Directory of the database. [`Server::start`](crate::Server::start) creates it if it does not exist.
    pub database: PathBuf,
    /// Whether the command may create the database.
    pub create: bool,
    /// Address for clients over TCP: `host:port`, port 0 for any free port, or `off`.
    pub listen: Endpoint,
    /// A Unix socket for clients on this machine; its file is created with mode 0600.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unix_socket: Option<PathBuf>,
    /// Address of `/health`, `/status` and `/metrics` over HTTP, without authentication: `host:port` or `off`. `tapedb server` has its
    /// console and its REST interface there too.
    pub http: Endpoint,
    /// Names by which clients reach [`http`](Self::http), beside the names of this machine's loopback and the address itself: `name` or
    /// `name:port`. Requests for other names are refused, so that no web page can reach the server under a name of its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub http_hosts: Vec<String>,
    /// Whether `tapedb server` encrypts [`http`](Self::http) with [`tls`](Self::tls). A [`Server`](crate::Server) alone does not support
    /// this, and refuses it.
    pub http_tls: bool,
    /// URL of an OpenTelemetry collector that receives traces: `http://collector:4318`. `tapedb server` implements it; a
    /// [`Server`](crate::Server) alone does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub otlp: Option<String>,
    /// Address for clients of PostgreSQL: `host:port` or `off`. `tapedb server` implements it; a [`Server`](crate::Server) alone does not,
    /// and refuses it.
    pub postgres: Endpoint,
    /// Address for clients of Arrow Flight SQL: `host:port` or `off`. `tapedb server` implements it; a [`Server`](crate::Server) alone does
    /// not, and refuses it.
    pub flight: Endpoint,
    /// The users file; without it every client may do everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub users: Option<PathBuf>,
    /// The audit log: logins, refusals and changes, as JSON lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audit_log: Option<PathBuf>,
    /// A file that names the servers of a cluster, of which queries read. `tapedb server` implements it; a [`Server`](crate::Server) alone does
    /// not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<PathBuf>,
    /// The directory of a backup that administrators may bring up to date from the console of `tapedb server`; without it, they may not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup: Option<PathBuf>,
    /// Allow a listening address that other machines can reach without users: every client that connects may read and
    /// delete everything.
    pub insecure_allow_anyone: bool,
    /// The weakest durability of streams that clients create: `transient`, `async` or `sync`.
    pub durability_min: DurabilityMin,
    /// Seconds that connections have to finish requests when the server shuts down.
    pub shutdown_grace_seconds: u64,
    /// Microseconds that a connection's thread polls after activity before it sleeps: low latency at the price of a
    /// core. At most as many connections poll at once as there are cores, minus one; 0: no polling.
    pub spin_us: u64,
    /// Whether `tapedb server` keeps the processors from entering idle states. A [`Server`](crate::Server) alone does
    /// not support this, and refuses it.
    pub keep_awake: bool,
    /// Topics that `tapedb server` copies to streams, each `TOPIC` or `TOPIC=STREAM`. A [`Server`](crate::Server) alone
    /// does not support topics, and refuses them.
    pub copy_topics: Vec<CopyTopic>,
    /// Encryption of [`listen`](Self::listen).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// The InfluxDB line protocol. A [`Server`](crate::Server) alone does not support it, and refuses it.
    pub ilp: LineProtocol,
    /// Limits.
    pub limits: Limits,
}

/// The server's certificate and its key, both PEM.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// The certificate, followed by intermediate certificates.
    pub certificate: PathBuf,
    /// Its private key. Only the path is ever printed.
    pub key: PathBuf,
}

/// The weakest durability of new streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DurabilityMin {
    /// Any durability.
    #[default]
    Transient,
    /// At least `async`: messages survive a killed process.
    Async,
    /// Only `sync`: messages survive a power cut.
    Sync,
}

/// Limits. Each states what happens when it is reached; none is ever exceeded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Connections at once. Further ones are refused with a message, and closed.
    pub connections_max: usize,
    /// Connections of one user at once, unless the users file sets another limit.
    pub connections_per_user_max: usize,
    /// Unauthenticated connections at once. Further ones are closed.
    pub handshakes_max: usize,
    /// Unauthenticated connections of one address at once (of IPv6, a 64-bit network; the Unix socket counts as one).
    /// Further ones are closed.
    pub handshakes_per_address_max: usize,
    /// Milliseconds for authentication; unauthenticated connections are closed after this time.
    pub handshake_ms_max: u64,
    /// Failed passwords that a user has free from one address; then one every
    /// [`login_failure_ms`](Self::login_failure_ms). Further logins as this user from this address wait for up to 5 s,
    /// or are refused without a check. Tokens, and clients on this machine, are not limited.
    pub login_failures_max: u32,
    /// Milliseconds until a failed login is no longer counted.
    pub login_failure_ms: u64,
    /// Milliseconds within which each side sends something; a peer that is silent for three times as long counts as
    /// dead.
    pub heartbeat_ms: u64,
    /// Bytes of a frame. A longer one closes the connection.
    pub frame_bytes_max: usize,
    /// Watches (live cursors) and loaders of one connection together. A further one closes the connection.
    pub channels_max: usize,
    /// Watches of one user, over all of the user's connections, unless the users file sets another limit. Further ones
    /// are refused.
    pub watches_per_user_max: usize,
    /// Open files of one connection. Further ones are refused.
    pub files_max: usize,
    /// Queries of one user at once, over all of the user's connections, unless the users file sets another limit. Further ones are
    /// refused.
    pub queries_per_user_max: usize,
    /// Bytes of memory for the state of operators (sorts, groups, joins), all queries of the server together. A query that needs more
    /// continues on the disk, or ends with an error.
    pub query_bytes_max: usize,
    /// Of those, bytes for all queries of one user, unless the users file sets another limit.
    pub query_bytes_per_user_max: usize,
    /// Bytes of temporary files of all queries together, in the system's directory for temporary files. A query that needs more ends
    /// with an error.
    pub query_disk_bytes_max: u64,
    /// Milliseconds that a query may run, unless the users file sets another limit; 0: unlimited. A query that runs longer ends with an
    /// error.
    pub query_ms_max: u64,
    /// Rows of a query, unless the users file sets another limit; 0: unlimited. A query that has more ends with an error.
    pub query_rows_max: u64,
    /// Unsent bytes of one connection; above this limit its requests are not read, and nothing is pushed.
    pub outbox_bytes_max: usize,
    /// Bytes per second to and from one user, over all of the user's connections, unless the users file sets another
    /// limit; 0: unlimited. Transfers above the rate are delayed.
    pub bytes_per_second_max: u64,
    /// Bytes that a watch may fall behind before the server ends it; 0: unlimited: it is then read from files at its
    /// own pace.
    pub lag_bytes_max: u64,
    /// Bytes of a file that is uploaded to the console of `tapedb server` for an import. A longer one is refused; 0: none can be uploaded.
    pub upload_bytes_max: u64,
    /// Bytes of the audit log before it is rotated.
    pub audit_bytes_max: u64,
    /// Rotated audit logs that are stored, beside the current one.
    pub audit_files_max: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            database: "tapedb".into(),
            create: false,
            listen: Endpoint::loopback(PORT),
            unix_socket: None,
            http: Endpoint::loopback(HTTP_PORT),
            http_hosts: Vec::new(),
            http_tls: false,
            otlp: None,
            postgres: Endpoint::OFF,
            flight: Endpoint::OFF,
            users: None,
            audit_log: None,
            cluster: None,
            backup: None,
            insecure_allow_anyone: false,
            durability_min: DurabilityMin::Transient,
            shutdown_grace_seconds: 10,
            spin_us: 0,
            keep_awake: false,
            copy_topics: Vec::new(),
            tls: None,
            ilp: LineProtocol::default(),
            limits: Limits::default(),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        let access = AccessLimits::default();
        Self {
            connections_max: 4096,
            connections_per_user_max: access.connections_per_user_max,
            handshakes_max: 256,
            handshakes_per_address_max: 64,
            handshake_ms_max: 10_000,
            login_failures_max: access.login_failures_max,
            login_failure_ms: access.login_failure_ms,
            heartbeat_ms: 5_000,
            frame_bytes_max: 17 << 20,
            channels_max: 4096,
            watches_per_user_max: access.watches_per_user_max,
            files_max: 1024,
            queries_per_user_max: access.queries_per_user_max,
            query_bytes_max: 1 << 30,
            query_bytes_per_user_max: access.query_bytes_per_user_max,
            query_disk_bytes_max: 16 << 30,
            query_ms_max: access.query_ms_max,
            query_rows_max: access.query_rows_max,
            outbox_bytes_max: 1 << 20,
            bytes_per_second_max: access.bytes_per_second_max,
            lag_bytes_max: 0,
            upload_bytes_max: 1 << 30,
            audit_bytes_max: access.audit_bytes_max,
            audit_files_max: access.audit_files_max,
        }
    }
}

impl Config {
    /// Reads a configuration from TOML.
    ///
    /// # Errors
    /// The error in the text, with its line.
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        toml::from_str(text).map_err(|error| ConfigError(error.to_string().trim_end().to_string()))
    }

    /// The configuration as TOML: what [`from_toml`](Self::from_toml) reads.
    ///
    /// # Errors
    /// When a path is not UTF-8.
    pub fn to_toml(&self) -> Result<String, ConfigError> {
        toml::to_string(self).map_err(|error| ConfigError(error.to_string()))
    }

    /// Checks for contradictions, and for a database that other machines could reach without authentication.
    ///
    /// # Errors
    /// The first error.
    pub fn check(&self) -> Result<(), ConfigError> {
        let Self { listen, tls, users, limits, copy_topics, .. } = self;
        let mut streams = BTreeSet::new();
        if let Some(twice) = copy_topics.iter().find(|copy| !streams.insert(&copy.stream)) {
            return refuse(format!(
                "two topics of `copy_topics` are copied to stream {:?}; choose another stream for one of them: TOPIC=STREAM",
                twice.stream
            ));
        }
        if listen.address().is_none() && self.unix_socket.is_none() {
            return refuse("no client could connect: set `listen` to an address, or set `unix_socket`");
        }
        if listen.is_open() && users.is_none() && !self.insecure_allow_anyone {
            return refuse(format!(
                "listening on {listen} without users would let every client read and delete everything; set `users` to a file \
                 (`tapedb user add` creates one), listen on 127.0.0.1, or set `insecure_allow_anyone`"
            ));
        }
        for (name, address) in [("ilp.http", self.ilp.http), ("ilp.tcp", self.ilp.tcp)] {
            if address.is_open() && users.is_none() && !self.insecure_allow_anyone {
                return refuse(format!(
                    "listening on {address} without users would let every client write everything; set `users` to a file, set \
                     `{name}` to an address of 127.0.0.1, or set `insecure_allow_anyone`"
                ));
            }
        }
        for (clients, address, all) in
            [("PostgreSQL", self.postgres, "read"), ("Flight SQL", self.flight, "read and write")]
        {
            if address.is_open() && users.is_none() && !self.insecure_allow_anyone {
                return refuse(format!(
                    "listening on {address} for clients of {clients} without users would let every client {all} everything; set `users` to a \
                     file, listen on 127.0.0.1, or set `insecure_allow_anyone`"
                ));
            }
        }
        let is_encrypted =
            [*listen, self.postgres, self.flight].iter().any(|endpoint| endpoint.address().is_some());
        if !is_encrypted && !self.http_tls && !self.ilp.tls && tls.is_some() {
            return refuse(
                "`tls` encrypts connections to `listen`, `postgres`, `flight`, with `http_tls` `http`, and with `ilp.tls` `ilp`, which are off; \
                 remove `tls`, or set one of them",
            );
        }
        if self.http_tls && tls.is_none() {
            return refuse("`http_tls` needs the certificate of `tls`; set `tls`, or remove `http_tls`");
        }
        if self.ilp.tls && tls.is_none() {
            return refuse("`ilp.tls` needs the certificate of `tls`; set `tls`, or remove `ilp.tls`");
        }
        if self.ilp.tls && !self.ilp.is_on() {
            return refuse(
                "`ilp.tls` encrypts `ilp.http` and `ilp.tcp`, which are off; remove it, or set one of them",
            );
        }
        limits.check()
    }

    /// The settings of TLS, where there are any: certificate and key are read.
    ///
    /// # Errors
    /// Files that cannot be read, are not PEM, or do not belong together.
    pub fn tls_config(&self) -> Result<Option<Arc<ServerConfig>>, ConfigError> {
        self.tls.as_ref().map(Tls::server_config).transpose()
    }

    /// How long a connection's thread polls after activity before it sleeps.
    pub(crate) fn spin(&self) -> Duration {
        Duration::from_micros(self.spin_us)
    }

    /// The time that connections have to finish when the server shuts down.
    pub(crate) fn shutdown_grace(&self) -> Duration {
        Duration::from_secs(self.shutdown_grace_seconds)
    }
}

/// A frame must have space for a batch.
const FRAME_BYTES_MIN: usize = 1 << 20;
/// The protocol's limit.
const FRAME_BYTES_MAX: usize = 17 << 20;

impl Limits {
    /// Those of users and of the audit log.
    pub fn access(&self) -> AccessLimits {
        AccessLimits {
            connections_per_user_max: self.connections_per_user_max,
            watches_per_user_max: self.watches_per_user_max,
            queries_per_user_max: self.queries_per_user_max,
            query_bytes_per_user_max: self.query_bytes_per_user_max,
            query_ms_max: self.query_ms_max,
            query_rows_max: self.query_rows_max,
            bytes_per_second_max: self.bytes_per_second_max,
            login_failures_max: self.login_failures_max,
            login_failure_ms: self.login_failure_ms,
            audit_bytes_max: self.audit_bytes_max,
            audit_files_max: self.audit_files_max,
        }
    }

    fn check(&self) -> Result<(), ConfigError> {
        let least = [
            ("connections_max", self.connections_max as u64, 1),
            ("connections_per_user_max", self.connections_per_user_max as u64, 1),
            ("handshakes_max", self.handshakes_max as u64, 1),
            ("handshakes_per_address_max", self.handshakes_per_address_max as u64, 1),
            ("handshake_ms_max", self.handshake_ms_max, 100),
            ("login_failures_max", self.login_failures_max.into(), 1),
            ("login_failure_ms", self.login_failure_ms, 1),
            ("heartbeat_ms", self.heartbeat_ms, 100),
            ("frame_bytes_max", self.frame_bytes_max as u64, FRAME_BYTES_MIN as u64),
            ("channels_max", self.channels_max as u64, 1),
            ("files_max", self.files_max as u64, 1),
            ("queries_per_user_max", self.queries_per_user_max as u64, 1),
            ("query_bytes_max", self.query_bytes_max as u64, 1 << 20),
            ("query_bytes_per_user_max", self.query_bytes_per_user_max as u64, 1 << 20),
            ("outbox_bytes_max", self.outbox_bytes_max as u64, 64 << 10),
            ("audit_bytes_max", self.audit_bytes_max, 4 << 10),
        ];
        for (name, value, least) in least {
            if value < least {
                return refuse(format!("limits.{name} is {value}; set {least} or more"));
            }
        }
        if self.frame_bytes_max > FRAME_BYTES_MAX {
            return refuse(format!(
                "limits.frame_bytes_max is {}; set at most {FRAME_BYTES_MAX}",
                self.frame_bytes_max
            ));
        }
        Ok(())
    }
}

fn refuse<T>(what: impl Into<String>) -> Result<T, ConfigError> {
    Err(ConfigError(what.into()))
}

/// An address to listen on, or none: `127.0.0.1:7847`, `[::1]:7847`, `localhost:7847` or `off`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoint(Option<SocketAddr>);

impl Endpoint {
    /// No address.
    pub const OFF: Self = Self(None);

    /// A loopback address.
    pub fn loopback(port: u16) -> Self {
        Self(Some(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)))
    }

    /// The address; `None`: off.
    pub fn address(self) -> Option<SocketAddr> {
        self.0
    }

    /// Whether other machines may reach the address.
    pub fn is_open(self) -> bool {
        self.0.is_some_and(|address| !is_loopback(address.ip()))
    }
}

fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Self {
        Self(Some(address))
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(address) => write!(f, "{address}"),
            None => f.write_str("off"),
        }
    }
}

impl FromStr for Endpoint {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        if text == "off" {
            return Ok(Self::OFF);
        }
        let address = text.to_socket_addrs().ok().and_then(|mut found| found.next());
        match address {
            Some(address) => Ok(address.into()),
            None => refuse(format!(
                "{text:?} is not an address of this machine; write host:port, such as 127.0.0.1:7847, or off"
            )),
        }
    }
}

impl Serialize for Endpoint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Endpoint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// A topic, and the stream that it is copied to: `TOPIC=STREAM`, or `TOPIC` for a stream of the same name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyTopic {
    /// The topic's name.
    pub topic: String,
    /// The stream's name.
    pub stream: String,
}

impl FromStr for CopyTopic {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let (topic, stream) = text.split_once('=').unwrap_or((text, text));
        if topic.is_empty() || stream.is_empty() {
            return refuse(format!("{text:?} is not a topic and a stream; write TOPIC or TOPIC=STREAM"));
        }
        Ok(Self { topic: topic.into(), stream: stream.into() })
    }
}

impl fmt::Display for CopyTopic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { topic, stream } = self;
        if topic == stream { f.write_str(topic) } else { write!(f, "{topic}={stream}") }
    }
}

impl Serialize for CopyTopic {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CopyTopic {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Result<Config, ConfigError> {
        let config = Config::from_toml(text)?;
        config.check()?;
        Ok(config)
    }

    #[test]
    fn an_empty_file_is_the_default() {
        assert_eq!(config(""), Ok(Config::default()));
    }

    #[test]
    fn a_configuration_round_trips() {
        let text = "
            database = 'db'\ncreate = true\nlisten = '0.0.0.0:1'\nunix_socket = '/run/t.sock'\nhttp = 'off'\nusers = 'users.toml'
            audit_log = 'audit.jsonl'\ndurability_min = 'sync'\nshutdown_grace_seconds = 3
            copy_topics = ['quotes', 'trades=us.trades']
            [tls]\ncertificate = 'c.pem'\nkey = 'k.pem'
            [limits]\nconnections_max = 7";
        let config = config(text).unwrap();
        assert_eq!(config.limits.connections_max, 7);
        assert_eq!(config.durability_min, DurabilityMin::Sync);
        let trades = CopyTopic { topic: "trades".into(), stream: "us.trades".into() };
        assert_eq!(config.copy_topics, ["quotes".parse().unwrap(), trades]);
        assert_eq!(Config::from_toml(&config.to_toml().unwrap()), Ok(config));
    }

    #[test]
    fn without_users_only_loopback_addresses_are_allowed() {
        for listen in ["0.0.0.0:7847", "[::]:7847", "192.0.2.1:7847"] {
            let error = config(&format!("listen = '{listen}'")).unwrap_err();
            assert!(error.to_string().contains("insecure_allow_anyone"), "{error}");
            assert!(config(&format!("listen = '{listen}'\nusers = 'u'")).is_ok());
            assert!(config(&format!("listen = '{listen}'\ninsecure_allow_anyone = true")).is_ok());
        }
        for listen in ["127.0.0.1:7847", "[::1]:7847", "localhost:0", "[::ffff:127.0.0.1]:1"] {
            assert!(config(&format!("listen = '{listen}'")).is_ok(), "{listen}");
        }
    }

    #[test]
    fn contradictions_are_refused() {
        for (text, expected) in [
            ("listen = 'off'", "no client could connect"),
            (
                "listen = 'off'\nunix_socket = 'x'\n[tls]\ncertificate = 'c'\nkey = 'k'",
                "remove `tls`, or set one of them",
            ),
            ("listen = 'nowhere'", "host:port"),
            ("[limits]\nconnections_max = 0", "limits.connections_max is 0; set 1 or more"),
            ("[limits]\nframe_bytes_max = 99999999", "set at most"),
            ("copy_topics = ['a', 'b=a']", "two topics of `copy_topics`"),
            ("copy_topics = ['a=']", "write TOPIC or TOPIC=STREAM"),
            ("colour = 'red'", "unknown field `colour`"),
            ("[limits]\nwatchs = 1", "unknown field `watchs`"),
            ("[tls]\ncertificate = 'c'", "missing field `key`"),
            ("http_tls = true", "set `tls`"),
            ("[ilp]\ntls = true\nhttp = '127.0.0.1:0'", "`ilp.tls` needs the certificate"),
            ("[ilp]\ntls = true\n[tls]\ncertificate = 'c'\nkey = 'k'", "which are off"),
        ] {
            let error = config(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
