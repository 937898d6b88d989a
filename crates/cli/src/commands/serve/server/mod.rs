//! `tapedb server`: serve a database to clients.

#[cfg(feature = "flight")]
mod flight;
mod http;
#[cfg(feature = "gateway")]
mod postgres;
mod reload;
mod status;
#[cfg(feature = "web")]
mod web;

use crate::commands::serve::copies::Copies;
use crate::commands::serve::lines::Lines;
use crate::commands::serve::traces::{self, Traces};
use crate::creation;
use serde::Serialize;
use signal_hook::consts::SIGHUP;
use signal_hook::flag;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use tapedb_access::Authenticator;
use tapedb_engine::Database;
use tapedb_server::{
    Component, Config, CopyTopic, DurabilityMin, Endpoint, LineProtocol, Server, ServerError, Tls,
};
use tapedb_shm::Awake;
use tapedb_terminal::{Failure, Ui, awake, location};
use tracing::Level;

/// Time between two checks for signals.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// The settings of a server, as options.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// TOML file with settings.
    #[arg(long, value_name = "FILE", env = "TAPEDB_SERVER_CONFIG")]
    config: Option<PathBuf>,

    /// Directory of the database.
    #[arg(long, value_name = "DIR", env = "TAPEDB_SERVER_DB")]
    db: Option<PathBuf>,

    /// Create the database if there is none.
    #[arg(long, env = "TAPEDB_SERVER_CREATE")]
    create: bool,

    /// TCP address for clients; port 0 for any free port, or off.
    #[arg(long, value_name = "HOST:PORT", env = "TAPEDB_SERVER_LISTEN")]
    listen: Option<Endpoint>,

    /// A Unix socket for clients on this machine; only its owner may open it.
    #[arg(long, value_name = "PATH", env = "TAPEDB_SERVER_UNIX_SOCKET")]
    unix_socket: Option<PathBuf>,

    /// Address of the console, of REST, and of /health, /status and /metrics, or off.
    #[arg(long, value_name = "HOST:PORT", env = "TAPEDB_SERVER_HTTP")]
    http: Option<Endpoint>,

    /// A name by which browsers reach --http, with or without a port; may be given several times.
    ///
    /// Requests for other names than these, localhost and the address itself are refused, so that no web page can reach the server
    /// under a name of its own.
    #[arg(long, value_name = "NAME[:PORT]", env = "TAPEDB_SERVER_HTTP_HOSTS", value_delimiter = ',')]
    http_host: Vec<String>,

    /// Encrypt --http too, with the certificate.
    #[arg(long, env = "TAPEDB_SERVER_HTTP_TLS")]
    http_tls: bool,

    /// Address for clients of PostgreSQL, such as psql: 127.0.0.1:5432; off by default. They read with SQL (docs/GATEWAYS.md).
    #[arg(long, value_name = "HOST:PORT", env = "TAPEDB_SERVER_POSTGRES")]
    postgres: Option<Endpoint>,

    /// Address for clients of Arrow Flight SQL, such as ADBC: 127.0.0.1:31337; off by default. They read with SQL, and upload rows
    /// (docs/GATEWAYS.md).
    #[arg(long, value_name = "HOST:PORT", env = "TAPEDB_SERVER_FLIGHT")]
    flight: Option<Endpoint>,

    /// OpenTelemetry collector that receives traces of requests and queries: http://collector:4318; off by default.
    ///
    /// Spans are sent over OTLP/HTTP in JSON. A collector that is slow or away delays nothing: spans are then dropped, and counted in
    /// /metrics. OTEL_EXPORTER_OTLP_HEADERS and OTEL_SERVICE_NAME have their usual meaning.
    #[arg(long, value_name = "URL", env = "TAPEDB_SERVER_OTLP")]
    otlp: Option<String>,

    /// File with the users; see `tapedb user`. Without it, every client has all rights.
    #[arg(long, value_name = "FILE", env = "TAPEDB_SERVER_USERS")]
    users: Option<PathBuf>,

    /// File for the audit log: logins, refusals, and changes with their users.
    #[arg(long, value_name = "FILE", env = "TAPEDB_SERVER_AUDIT_LOG")]
    audit_log: Option<PathBuf>,

    /// TOML file with the servers of a cluster: queries read the streams of all of them as those of one (docs/SERVER.md).
    #[arg(long, value_name = "FILE", env = "TAPEDB_SERVER_CLUSTER")]
    cluster: Option<PathBuf>,

    /// Directory of a backup that administrators may bring up to date from the console; see `tapedb backup`.
    #[arg(long, value_name = "DIR", env = "TAPEDB_SERVER_BACKUP")]
    backup: Option<PathBuf>,

    /// Certificate (PEM) for TCP connections, which are then encrypted.
    #[arg(long, value_name = "FILE", env = "TAPEDB_SERVER_TLS_CERTIFICATE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,

    /// Private key (PEM) of the certificate.
    #[arg(long, value_name = "FILE", env = "TAPEDB_SERVER_TLS_KEY", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,

    /// Minimum durability of streams that clients create: transient, async or sync.
    #[arg(long, value_name = "DURABILITY", env = "TAPEDB_SERVER_DURABILITY_MIN", value_parser = durability)]
    durability_min: Option<DurabilityMin>,

    /// Maximum number of connections.
    #[arg(long, value_name = "COUNT", env = "TAPEDB_SERVER_CONNECTIONS_MAX")]
    connections_max: Option<usize>,

    /// Microseconds for which threads poll busy connections before they sleep: low latency at the cost of a core.
    #[arg(long, value_name = "MICROSECONDS", env = "TAPEDB_SERVER_SPIN_US")]
    spin_us: Option<u64>,

    /// Keep the machine's processors from halting: a wake-up then takes half the time or less.
    ///
    /// One thread of idle priority spins on each. Processors show as 100 % busy, take power, leave less to their hyperthreads
    /// and use up the budget of a burstable machine or of a container with a quota. One command on a machine is enough.
    #[arg(long, env = "TAPEDB_SERVER_KEEP_AWAKE")]
    keep_awake: bool,

    /// Seconds for connections to finish their requests when the server shuts down.
    #[arg(long, value_name = "SECONDS", env = "TAPEDB_SERVER_SHUTDOWN_GRACE_SECONDS")]
    shutdown_grace_seconds: Option<u64>,

    /// Copy a topic to a stream of its name or another one while serving; may be given several times.
    ///
    /// The topic is the one of that name in the database, or else one without a database; it need not exist yet. See `tapedb topic`.
    #[arg(long, value_name = "TOPIC[=STREAM]", env = "TAPEDB_SERVER_COPY_TOPIC", value_delimiter = ',')]
    copy_topic: Vec<CopyTopic>,

    /// Address for the InfluxDB line protocol over HTTP, as InfluxDB's and QuestDB's clients send it, or off. See docs/GATEWAYS.md.
    #[arg(long, value_name = "HOST:PORT", env = "TAPEDB_SERVER_ILP")]
    ilp: Option<Endpoint>,

    /// Address for the line protocol over TCP, without authentication, or off.
    #[arg(long, value_name = "HOST:PORT", env = "TAPEDB_SERVER_ILP_TCP")]
    ilp_tcp: Option<Endpoint>,

    /// Encrypt --ilp and --ilp-tcp with the certificate.
    #[arg(long, env = "TAPEDB_SERVER_ILP_TLS")]
    ilp_tls: bool,

    /// Name of the tag that has the symbol; may be given several times, the most important first.
    #[arg(long, value_name = "TAG", env = "TAPEDB_SERVER_ILP_SYMBOL", value_delimiter = ',')]
    ilp_symbol: Vec<String>,

    /// Listen on other addresses than this machine without users: every client that reaches the port can read and delete all data.
    #[arg(long, env = "TAPEDB_SERVER_INSECURE_ALLOW_ANYONE")]
    insecure_allow_anyone: bool,

    /// Level of the log on standard error: error, warn, info, debug or trace.
    #[arg(long, value_name = "LEVEL", env = "TAPEDB_SERVER_LOG", default_value = "info")]
    log: Level,

    /// Print the settings as TOML and exit.
    #[arg(long)]
    print_config: bool,
}

/// Serve a database over TCP, TLS and Unix sockets.
///
/// Without options: the database in ./tapedb (--create creates it) on 127.0.0.1:7847, the console, REST, health and metrics on
/// http://127.0.0.1:7848. Every option can also be an environment variable (TAPEDB_SERVER_LISTEN) or a line of a TOML file
/// (listen = "0.0.0.0:7847"); options override variables, variables override the file. The file also has limits: --print-config
/// shows all settings. Users, rights and limits: see docs/SERVER.md.
///
/// SIGHUP reloads the users and the certificate, as `tapedb server reload` does; SIGTERM and Ctrl-C shut the server down in order.
///
/// Example: tapedb server --db demo.tape --create --listen 0.0.0.0:7847 --users users.toml
#[derive(clap::Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ServerCommand {
    #[command(subcommand)]
    query: Option<StatusQuery>,

    #[command(flatten)]
    args: Args,
}

#[derive(clap::Subcommand, Debug)]
enum StatusQuery {
    Status(status::Args),
    Reload(reload::Args),
}

fn durability(text: &str) -> Result<DurabilityMin, String> {
    match text {
        "transient" => Ok(DurabilityMin::Transient),
        "async" => Ok(DurabilityMin::Async),
        "sync" => Ok(DurabilityMin::Sync),
        _ => Err(format!("{text:?} is not a durability; give transient, async or sync")),
    }
}

/// The addresses of a server that is ready, in JSON output.
#[derive(Debug, Serialize)]
pub struct Ready {
    pub tcp: Option<String>,
    encrypted: bool,
    unix: Option<PathBuf>,
    pub http: Option<String>,
    ilp: Option<String>,
    ilp_tcp: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    postgres: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    flight: Option<String>,
}

/// Serves until a signal arrives, or shows the status of a server.
pub fn run(ServerCommand { query, args }: ServerCommand, ui: &Ui) -> Result<(), Failure> {
    match &query {
        Some(StatusQuery::Status(args)) => return status::run(args, ui),
        Some(StatusQuery::Reload(args)) => return reload::run(args, ui),
        None => {}
    }
    let config = args.config()?;
    if args.print_config {
        config.check().map_err(usage)?;
        return ui.print(&config.to_toml().map_err(usage)?);
    }
    let serving = args.start(&config, None, ui)?;
    serving.run(ui, || Ok(()))
}

/// A running server that handles SIGHUP.
pub struct Serving {
    server: Server,
    copies: Copies,
    lines: Option<Arc<Lines>>,
    #[cfg(feature = "sql")]
    views: tapedb_query::Views,
    #[cfg(feature = "web")]
    web: Option<tapedb_web::Web>,
    #[cfg(feature = "gateway")]
    postgres: Option<tapedb_gateway::Postgres>,
    #[cfg(feature = "flight")]
    flight: Option<tapedb_flight::Flight>,
    grace: Duration,
    reload: Arc<AtomicBool>,
    /// Last but one: it has the spans of all others.
    _traces: Option<Traces>,
    _awake: Option<Awake>,
}

impl Serving {
    /// Starts a server: over its database, or over one that is open already.
    pub fn start(config: &Config, db: Option<Database>, log: Level) -> Result<(Self, Ready), Failure> {
        // Before the server starts: an early SIGHUP must not end the process.
        let reload = Arc::new(AtomicBool::new(false));
        flag::register(SIGHUP, reload.clone())
            .map_err(|error| Failure::new(format!("cannot listen for SIGHUP: {error}; try again")))?;
        let traces = traces::subscribe(config, log)?;
        config.check().map_err(usage)?;
        // Before the database is created: nothing is left of a server that cannot start.
        config.tls_config().map_err(usage)?;
        if cfg!(not(feature = "web")) && config.http_tls {
            return Err(Failure::usage(
                "this build has no TLS for `http`; remove `http_tls`, or build it with the feature `web`",
            ));
        }
        // The command handles topics, other protocols and processors, not the server.
        let (copy_topics, ilp) = (Vec::new(), LineProtocol::default());
        let (postgres, flight) = (Endpoint::OFF, Endpoint::OFF);
        let mut serving =
            Config { copy_topics, ilp, postgres, flight, keep_awake: false, otlp: None, ..config.clone() };
        if cfg!(feature = "web") {
            // The pages are among those of the console.
            (serving.http, serving.http_tls) = (Endpoint::OFF, false);
        }
        if cfg!(not(feature = "gateway")) && config.postgres != Endpoint::OFF {
            return Err(Failure::usage(
                "this build has no clients of PostgreSQL; remove `postgres`, or build it with the feature `gateway`",
            ));
        }
        if cfg!(not(feature = "flight")) && config.flight != Endpoint::OFF {
            return Err(Failure::usage(
                "this build has no clients of Flight SQL; remove `flight`, or build it with the feature `flight`",
            ));
        }
        if cfg!(not(feature = "sql")) && config.cluster.is_some() {
            return Err(Failure::usage(
                "this build runs no queries; remove `cluster`, or build it with the feature `sql`",
            ));
        }
        #[cfg(feature = "sql")]
        let peers = config.cluster.as_deref().map(crate::cluster::Peers::read).transpose()?;
        let started = match db {
            None => Server::start(serving),
            Some(db) => Server::start_with(serving, db),
        };
        let server = started.map_err(|error| match error {
            ServerError::Config(error) => usage(error),
            error => Failure::new(error.to_string()),
        })?;
        #[cfg(feature = "sql")]
        let queries = queries(config, server.database(), peers)?;
        #[cfg(feature = "sql")]
        let views = {
            server.serve_queries(queries.clone());
            let failed = |view: &str, error: &tapedb_query::Error| tracing::error!(view, %error, "cannot keep a view up to date");
            queries.maintain_views(failed).map_err(|error| Failure::new(error.to_string()))?
        };
        #[cfg(feature = "gateway")]
        let postgres = postgres::start(config, &server, &queries)?;
        #[cfg(feature = "gateway")]
        let postgres_address = postgres.as_ref().map(tapedb_gateway::Postgres::address);
        #[cfg(not(feature = "gateway"))]
        let postgres_address = None;
        #[cfg(feature = "flight")]
        let flight = flight::start(config, &server, &queries)?;
        #[cfg(feature = "flight")]
        let flight_address = flight.as_ref().map(tapedb_flight::Flight::address);
        #[cfg(not(feature = "flight"))]
        let flight_address = None;
        let copies = Copies::start(config, server.database())?;
        server.add_component(copies.component());
        let lines = Lines::start(config, &server)?;
        if let Some(lines) = &lines {
            server.add_component(lines.clone());
        }
        if let Some(traces) = &traces {
            server.add_component(traces.component());
        }
        let awake = awake::keep(config.keep_awake)?;
        if let Some(awake) = &awake {
            tracing::info!("{}", awake::description(awake));
        }
        #[cfg(feature = "web")]
        let web = web::start(config, &server, copies.topics())?;
        #[cfg(feature = "web")]
        let addresses = {
            let http = web.as_ref().map(tapedb_web::Web::address);
            &tapedb_server::Addresses { http, ..server.addresses().clone() }
        };
        #[cfg(not(feature = "web"))]
        let addresses = server.addresses();
        let line_addresses = lines.as_ref().map(|lines| lines.addresses()).unwrap_or_default();
        let text = |address: Option<std::net::SocketAddr>| address.map(|address| address.to_string());
        let ready = Ready {
            tcp: text(addresses.tcp),
            encrypted: addresses.is_encrypted,
            unix: addresses.unix.clone(),
            http: text(addresses.http),
            ilp: text(line_addresses.http),
            ilp_tcp: text(line_addresses.tcp),
            postgres: text(postgres_address),
            flight: text(flight_address),
        };
        let grace = Duration::from_secs(config.shutdown_grace_seconds);
        let serving = Self {
            server,
            copies,
            lines,
            #[cfg(feature = "sql")]
            views,
            #[cfg(feature = "web")]
            web,
            #[cfg(feature = "gateway")]
            postgres,
            #[cfg(feature = "flight")]
            flight,
            grace,
            reload,
            _traces: traces,
            _awake: awake,
        };
        Ok((serving, ready))
    }

    /// The same users for another protocol.
    pub fn authenticator(&self) -> Authenticator {
        self.server.authenticator()
    }

    /// Adds a component to the server's metrics and status; it ends with the server.
    pub fn add_component(&self, component: Arc<dyn Component>) {
        self.server.add_component(component);
    }

    /// Shows tickerplants of this process in the console.
    #[cfg(feature = "web")]
    pub fn show_plants(&self, plants: Arc<dyn tapedb_web::PlantList>) {
        self.web.iter().for_each(|web| web.show_plants(plants.clone()));
    }

    /// Serves until a signal arrives, then shuts down in order. Calls `work` many times a second; an error of it ends the server.
    pub fn run(self, ui: &Ui, mut work: impl FnMut() -> Result<(), Failure>) -> Result<(), Failure> {
        let mut worked = Ok(());
        while worked.is_ok() && !ui.is_interrupted() {
            thread::sleep(CHECK_INTERVAL);
            if self.reload.swap(false, Ordering::Relaxed) {
                // What it has done is in the log.
                self.server.reload();
            }
            worked = work();
        }
        tracing::info!(connections = self.server.connections(), "shutting down");
        // The other protocols have the time together.
        let began = std::time::Instant::now();
        let left = || self.grace.saturating_sub(began.elapsed());
        #[cfg(feature = "web")]
        self.web.iter().for_each(tapedb_web::Web::begin_shutdown);
        #[cfg(feature = "gateway")]
        if let Some(postgres) = self.postgres {
            postgres.shutdown(left());
        }
        #[cfg(feature = "flight")]
        if let Some(flight) = self.flight {
            flight.shutdown(left());
        }
        // The server holds it too, for its metrics.
        if let Some(lines) = &self.lines {
            lines.stop(left());
        }
        // Before the server, so that clients that follow the copies receive the rest.
        self.copies.stop(left());
        #[cfg(feature = "sql")]
        drop(self.views);
        #[cfg(feature = "web")]
        let began = std::time::Instant::now();
        let behind = self.server.shutdown();
        // Its requests had the same time.
        #[cfg(feature = "web")]
        if let Some(web) = self.web {
            web.shutdown(self.grace.saturating_sub(began.elapsed()));
        }
        match behind {
            0 => tracing::info!("shut down"),
            behind => tracing::warn!(behind, "shut down; connections were left behind"),
        }
        worked
    }
}

impl Args {
    /// Starts the server, over its database or over one that is open already, and prints its addresses.
    pub fn start(&self, config: &Config, db: Option<Database>, ui: &Ui) -> Result<Serving, Failure> {
        let (serving, ready) = Serving::start(config, db, self.log)?;
        print_addresses(config, &ready, ui)?;
        Ok(serving)
    }

    /// The settings of the file, overridden by the environment and the command line.
    pub fn config(&self) -> Result<Config, Failure> {
        let mut config = match &self.config {
            Some(path) => {
                let refused = |what: String| Failure::usage(format!("{}: {what}", path.display()));
                let text = std::fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
                Config::from_toml(&text).map_err(|error| refused(error.to_string()))?
            }
            None => Config::default(),
        };
        let set = |to: &mut Option<PathBuf>, from: &Option<PathBuf>| *to = from.clone().or(to.take());
        set(&mut config.unix_socket, &self.unix_socket);
        set(&mut config.users, &self.users);
        set(&mut config.audit_log, &self.audit_log);
        set(&mut config.backup, &self.backup);
        set(&mut config.cluster, &self.cluster);
        config.database = self.db.clone().unwrap_or(config.database);
        location::directory(&config.database)?;
        config.listen = self.listen.unwrap_or(config.listen);
        config.http = self.http.unwrap_or(config.http);
        config.http_tls |= self.http_tls;
        if !self.http_host.is_empty() {
            config.http_hosts.clone_from(&self.http_host);
        }
        config.otlp = self.otlp.clone().or(config.otlp);
        config.postgres = self.postgres.unwrap_or(config.postgres);
        config.flight = self.flight.unwrap_or(config.flight);
        config.durability_min = self.durability_min.unwrap_or(config.durability_min);
        config.limits.connections_max = self.connections_max.unwrap_or(config.limits.connections_max);
        config.spin_us = self.spin_us.unwrap_or(config.spin_us);
        config.shutdown_grace_seconds = self.shutdown_grace_seconds.unwrap_or(config.shutdown_grace_seconds);
        config.create |= self.create;
        if !self.print_config {
            creation::check(&config.database, config.create)?;
        }
        config.ilp.http = self.ilp.unwrap_or(config.ilp.http);
        config.ilp.tcp = self.ilp_tcp.unwrap_or(config.ilp.tcp);
        config.ilp.tls |= self.ilp_tls;
        if !self.ilp_symbol.is_empty() {
            config.ilp.symbols.clone_from(&self.ilp_symbol);
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

/// What runs the queries of clients.
#[cfg(feature = "sql")]
fn queries(
    config: &Config,
    db: &Database,
    peers: Option<crate::cluster::Peers>,
) -> Result<Arc<tapedb_query::QueryService>, Failure> {
    let options = tapedb_query::Options {
        memory_bytes: config.limits.query_bytes_max,
        disk_bytes: config.limits.query_disk_bytes_max,
        ..Default::default()
    };
    let service = tapedb_query::QueryService::new(db, options).map(|service| match peers {
        Some(peers) => service.with_cluster(Arc::new(peers)),
        None => service,
    });
    service.map(Arc::new).map_err(|error| Failure::new(error.to_string()))
}

fn usage(error: tapedb_server::ConfigError) -> Failure {
    Failure::usage(error.to_string())
}

/// Prints the addresses for clients.
fn print_addresses(config: &Config, ready: &Ready, ui: &Ui) -> Result<(), Failure> {
    if ui.json() {
        return ui.print_json(ready);
    }
    let Ready { tcp, encrypted, unix, http, ilp, ilp_tcp, postgres, flight } = ready;
    let mut text = format!("serving {}\n", config.database.display());
    if let Some(address) = tcp {
        let scheme = if *encrypted { "tapes" } else { "tape" };
        text.push_str(&format!("  {scheme}://{address}\n"));
    }
    if let Some(path) = unix {
        let path = path.display();
        text.push_str(&format!("  tape+unix://{path}, or through shared memory tape+shm://{path}\n"));
    }
    if let Some(address) = http {
        let scheme = if config.http_tls { "https" } else { "http" };
        let console = if cfg!(feature = "web") { " (console)" } else { "" };
        text.push_str(&format!("  {scheme}://{address}/{console}, /health, /status and /metrics\n"));
    }
    if let Some(address) = ilp {
        let scheme = if config.ilp.tls { "https" } else { "http" };
        text.push_str(&format!("  {scheme}://{address}/write and /api/v2/write, for the line protocol\n"));
    }
    if let Some(address) = ilp_tcp {
        let encrypted = if config.ilp.tls { " with TLS" } else { "" };
        text.push_str(&format!("  {address}, for the line protocol over TCP{encrypted}\n"));
    }
    if let Some(address) = postgres {
        text.push_str(&format!("  postgresql://{address}/tapedb\n"));
    }
    if let Some(address) = flight {
        let scheme = if config.tls.is_some() { "grpc+tls" } else { "grpc" };
        text.push_str(&format!("  {scheme}://{address}, for Flight SQL\n"));
    }
    if config.users.is_none() {
        text.push_str("  no users: every client has all rights (see `tapedb user`)\n");
    }
    ui.print(&text)
}
