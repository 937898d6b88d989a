//! `tapedb server`: a database for clients elsewhere.

mod status;

use crate::commands::serve::copies::Copies;
use crate::creation;
use serde::Serialize;
use signal_hook::consts::SIGHUP;
use signal_hook::flag;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use tapedb_engine::Database;
use tapedb_server::{
    Addresses, Companion, Config, CopyTopic, DurabilityMin, Endpoint, Entrance, Server, ServerError, Tls,
};
use tapedb_shm::Awake;
use tapedb_terminal::{Failure, Ui, awake, location};
use tracing::Level;

/// How often it is looked whether a signal has come.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Serve a database over TCP, TLS and Unix sockets.
///
/// Without options: the database in ./tapedb (--create makes it) on 127.0.0.1:7847, health and metrics on
/// http://127.0.0.1:7848. Whatever is an option here can also be a variable of the environment (TAPEDB_SERVER_LISTEN) or
/// a line of a TOML file (listen = "0.0.0.0:7847"); options win over variables, variables over the file. The file also has
/// limits: --print-config shows all. Users, rights and limits: see docs/SERVER.md.
///
/// SIGHUP reads the users again; SIGTERM and Ctrl-C end in good order.
///
/// Example: tapedb server --db demo.tape --create --listen 0.0.0.0:7847 --users users.toml
#[derive(clap::Args, Debug)]
pub struct Args {
    /// TOML file with settings.
    #[arg(long, value_name = "FILE", env = "TAPEDB_SERVER_CONFIG")]
    config: Option<PathBuf>,

    /// Directory of the database.
    #[arg(long, value_name = "DIR", env = "TAPEDB_SERVER_DB")]
    db: Option<PathBuf>,

    /// Make the database if there is none.
    #[arg(long, env = "TAPEDB_SERVER_CREATE")]
    create: bool,

    /// Where clients connect over TCP; port 0 for any that is free, or off.
    #[arg(long, value_name = "HOST:PORT", env = "TAPEDB_SERVER_LISTEN")]
    listen: Option<Endpoint>,

    /// A Unix socket for clients on this machine; only its owner may open it.
    #[arg(long, value_name = "PATH", env = "TAPEDB_SERVER_UNIX_SOCKET")]
    unix_socket: Option<PathBuf>,

    /// Where /health and /metrics are, or off.
    #[arg(long, value_name = "HOST:PORT", env = "TAPEDB_SERVER_HTTP")]
    http: Option<Endpoint>,

    /// File with the users; see `tapedb user`. Without, whoever can connect may do everything.
    #[arg(long, value_name = "FILE", env = "TAPEDB_SERVER_USERS")]
    users: Option<PathBuf>,

    /// File for the audit log: who came, who was refused, who changed what.
    #[arg(long, value_name = "FILE", env = "TAPEDB_SERVER_AUDIT_LOG")]
    audit_log: Option<PathBuf>,

    /// Certificate (PEM) that encrypts TCP connections.
    #[arg(long, value_name = "FILE", env = "TAPEDB_SERVER_TLS_CERTIFICATE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,

    /// Private key (PEM) of the certificate.
    #[arg(long, value_name = "FILE", env = "TAPEDB_SERVER_TLS_KEY", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,

    /// Least durability of streams that clients create: transient, async or sync.
    #[arg(long, value_name = "DURABILITY", env = "TAPEDB_SERVER_DURABILITY_MIN", value_parser = durability)]
    durability_min: Option<DurabilityMin>,

    /// Most connections at once.
    #[arg(long, value_name = "COUNT", env = "TAPEDB_SERVER_CONNECTIONS_MAX")]
    connections_max: Option<usize>,

    /// Microseconds that busy connections are looked at before their threads sleep: low latency at the price of a core.
    #[arg(long, value_name = "MICROSECONDS", env = "TAPEDB_SERVER_SPIN_US")]
    spin_us: Option<u64>,

    /// Keep the machine's processors from halting: a wake-up then takes half the time or less.
    ///
    /// One thread of idle priority spins on each. Processors show as 100 % busy, take power, leave less to their hyperthreads
    /// and use up the budget of a burstable machine or of a container with a quota. One command on a machine is enough.
    #[arg(long, env = "TAPEDB_SERVER_KEEP_AWAKE")]
    keep_awake: bool,

    /// Seconds that connections have for what they are doing when the server ends.
    #[arg(long, value_name = "SECONDS", env = "TAPEDB_SERVER_SHUTDOWN_GRACE_SECONDS")]
    shutdown_grace_seconds: Option<u64>,

    /// Keep a copy of a topic, in a stream of its name or another, while it serves; may be said several times.
    ///
    /// The topic is the database's of that name, or else one that belongs to none; it need not be there yet. See `tapedb topic`.
    #[arg(long, value_name = "TOPIC[=STREAM]", env = "TAPEDB_SERVER_COPY_TOPIC", value_delimiter = ',')]
    copy_topic: Vec<CopyTopic>,

    /// Listen beyond this machine although there are no users: whoever reaches the port may read and delete everything.
    #[arg(long, env = "TAPEDB_SERVER_INSECURE_ALLOW_ANYONE")]
    insecure_allow_anyone: bool,

    /// What goes to standard error: error, warn, info, debug or trace.
    #[arg(long, value_name = "LEVEL", env = "TAPEDB_SERVER_LOG", default_value = "info")]
    log: Level,

    /// Print the settings as TOML and do nothing else.
    #[arg(long)]
    print_config: bool,
}

/// Serving, or looking at a server that serves.
#[derive(clap::Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ServerCommand {
    #[command(subcommand)]
    look: Option<Look>,

    #[command(flatten)]
    args: Args,
}

#[derive(clap::Subcommand, Debug)]
enum Look {
    Status(status::Args),
}

fn durability(text: &str) -> Result<DurabilityMin, String> {
    match text {
        "transient" => Ok(DurabilityMin::Transient),
        "async" => Ok(DurabilityMin::Async),
        "sync" => Ok(DurabilityMin::Sync),
        _ => Err(format!("{text:?} is no durability; say transient, async or sync")),
    }
}

/// What a program reads when the server is ready.
#[derive(Serialize)]
struct Ready {
    tcp: Option<String>,
    encrypted: bool,
    unix: Option<PathBuf>,
    http: Option<String>,
}

/// Serves until a signal comes, or shows how a server is.
pub fn run(ServerCommand { look, args }: ServerCommand, ui: &Ui) -> Result<(), Failure> {
    if let Some(Look::Status(args)) = &look {
        return status::run(args, ui);
    }
    let config = args.config()?;
    if args.print_config {
        config.check().map_err(usage)?;
        return ui.print(&config.to_toml().map_err(usage)?);
    }
    let serving = args.start(&config, None, ui)?;
    serving.run(ui, || Ok(()))
}

/// A server that is running, and listens for SIGHUP.
pub struct Serving {
    server: Server,
    copies: Copies,
    grace: Duration,
    reload: Arc<AtomicBool>,
    _awake: Option<Awake>,
}

impl Serving {
    /// The same users for another protocol.
    pub fn entrance(&self) -> Entrance {
        self.server.entrance()
    }

    /// Has something seen with the server that runs beside it; it ends with the server.
    pub fn accompany(&self, companion: Arc<dyn Companion>) {
        self.server.accompany(companion);
    }

    /// Serves until a signal comes, and ends in good order. Meanwhile `work` is called many times a second; what keeps it from
    /// going on ends the server.
    pub fn run(self, ui: &Ui, mut work: impl FnMut() -> Result<(), Failure>) -> Result<(), Failure> {
        let mut worked = Ok(());
        while worked.is_ok() && !ui.is_interrupted() {
            thread::sleep(LOOK_INTERVAL);
            if self.reload.swap(false, Ordering::Relaxed) {
                match self.server.reload_users() {
                    Ok(()) => tracing::info!("the users have been read again"),
                    Err(error) => tracing::error!(%error, "the users stay what they were"),
                }
            }
            worked = work();
        }
        tracing::info!(connections = self.server.connections(), "shutting down");
        // First: clients who follow the copies see the rest.
        self.copies.stop(self.grace);
        match self.server.shutdown() {
            0 => tracing::info!("shut down"),
            left => tracing::warn!(left, "shut down; connections were left behind"),
        }
        worked
    }
}

impl Args {
    /// Starts the server: over its database, or over one that is open already.
    pub fn start(&self, config: &Config, db: Option<Database>, ui: &Ui) -> Result<Serving, Failure> {
        log_to_stderr(self.log);
        // Before the server begins: who sends it must not end it.
        let reload = Arc::new(AtomicBool::new(false));
        flag::register(SIGHUP, reload.clone())
            .map_err(|error| Failure::new(format!("cannot listen for SIGHUP: {error}; try again")))?;
        config.check().map_err(usage)?;
        // The server alone knows no topics and no processors.
        let serving = Config { copy_topics: Vec::new(), keep_awake: false, ..config.clone() };
        let started = match db {
            None => Server::start(serving),
            Some(db) => Server::start_with(serving, db),
        };
        let server = started.map_err(|error| match error {
            ServerError::Config(error) => usage(error),
            error => Failure::new(error.to_string()),
        })?;
        let copies = Copies::start(config, server.database())?;
        server.accompany(copies.companion());
        let awake = awake::keep(config.keep_awake)?;
        if let Some(awake) = &awake {
            tracing::info!("{}", awake::description(awake));
        }
        tell(config, server.addresses(), ui)?;
        let grace = Duration::from_secs(config.shutdown_grace_seconds);
        Ok(Serving { server, copies, grace, reload, _awake: awake })
    }

    /// The file's settings, and over them the environment's and the command line's.
    pub fn config(&self) -> Result<Config, Failure> {
        let mut config = match &self.config {
            Some(path) => {
                let told = |what: String| Failure::usage(format!("{}: {what}", path.display()));
                let text = std::fs::read_to_string(path).map_err(|error| told(error.to_string()))?;
                Config::from_toml(&text).map_err(|error| told(error.to_string()))?
            }
            None => Config::default(),
        };
        let set = |to: &mut Option<PathBuf>, from: &Option<PathBuf>| *to = from.clone().or(to.take());
        set(&mut config.unix_socket, &self.unix_socket);
        set(&mut config.users, &self.users);
        set(&mut config.audit_log, &self.audit_log);
        config.database = self.db.clone().unwrap_or(config.database);
        location::directory(&config.database)?;
        config.listen = self.listen.unwrap_or(config.listen);
        config.http = self.http.unwrap_or(config.http);
        config.durability_min = self.durability_min.unwrap_or(config.durability_min);
        config.limits.connections_max = self.connections_max.unwrap_or(config.limits.connections_max);
        config.spin_us = self.spin_us.unwrap_or(config.spin_us);
        config.shutdown_grace_seconds = self.shutdown_grace_seconds.unwrap_or(config.shutdown_grace_seconds);
        config.create |= self.create;
        if !self.print_config {
            creation::check(&config.database, config.create)?;
        }
        config.keep_awake |= self.keep_awake;
        config.insecure_allow_anyone |= self.insecure_allow_anyone;
        if !self.copy_topic.is_empty() {
            config.copy_topics.clone_from(&self.copy_topic);
        }
        if let (Some(certificate), Some(key)) = (self.tls_certificate.clone(), self.tls_key.clone()) {
            config.tls = Some(Tls { certificate, key });
        }
        Ok(config)
    }
}

fn usage(error: tapedb_server::ConfigError) -> Failure {
    Failure::usage(error.to_string())
}

fn log_to_stderr(level: Level) {
    let log = tracing_subscriber::fmt().with_writer(io::stderr).with_max_level(level);
    // A second one in the same process changes nothing.
    let _ = log.with_target(false).with_ansi(io::stderr().is_terminal()).compact().try_init();
}

/// Says where clients find it.
fn tell(config: &Config, addresses: &Addresses, ui: &Ui) -> Result<(), Failure> {
    let Addresses { tcp, is_encrypted, unix, http } = addresses;
    if ui.json() {
        let text = |address: &Option<std::net::SocketAddr>| address.map(|address| address.to_string());
        let ready = Ready { tcp: text(tcp), encrypted: *is_encrypted, unix: unix.clone(), http: text(http) };
        return ui.print_json(&ready);
    }
    let mut text = format!("serving {}\n", config.database.display());
    if let Some(address) = tcp {
        let scheme = if *is_encrypted { "tapes" } else { "tape" };
        text.push_str(&format!("  {scheme}://{address}\n"));
    }
    if let Some(path) = unix {
        let path = path.display();
        text.push_str(&format!("  tape+unix://{path}, or through shared memory tape+shm://{path}\n"));
    }
    if let Some(address) = http {
        text.push_str(&format!("  http://{address}/health, /status and /metrics\n"));
    }
    if config.users.is_none() {
        text.push_str("  no users: whoever can connect may do everything (see `tapedb user`)\n");
    }
    ui.print(&text)
}
