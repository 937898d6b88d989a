//! Clients of kdb+ on plants and RDBs: their address and their rights.

use clap::ValueEnum;
use serde_json::json;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use tapedb_access::{AuthenticatedUser, Authenticator, May};
use tapedb_server::{Component, Endpoint, MetricsPage};
use tapedb_terminal::{Failure, Ui};
use tapedb_tick::kdb::front::{Access, Front, FrontOptions, FrontStatus, Rights, Served, Slow};

/// Addresses for clients of kdb+.
#[derive(clap::Args, Debug)]
#[group(skip)]
pub struct KdbArgs {
    /// Address for clients of kdb+ (IPC, port 5010 in most installations); PLANT=HOST:PORT for the plant of that name.
    #[arg(long, value_name = "[PLANT=]HOST:PORT")]
    kdb: Vec<KdbAt>,

    /// Folder for logs in kdb+'s format, one for each day, from which an RDB of kdb+ replays. Without it, RDBs receive no log.
    #[arg(long, value_name = "DIR", requires = "kdb")]
    kdb_log: Option<PathBuf>,

    /// What happens to kdb+ subscribers that are too slow: they replay until they have caught up, are disconnected, or receive only the
    /// last row of each symbol. A subscriber can choose with .u.slow.
    #[arg(long, value_enum, default_value = "replay", requires = "kdb")]
    kdb_slow: SlowArg,

    /// Maximum bytes queued for all clients of kdb+ together. Beyond it the client with the longest queue is disconnected; each has at
    /// most 64MiB.
    #[arg(long, value_name = "SIZE", value_parser = tapedb_terminal::quantity::size, default_value = "1GiB", requires = "kdb")]
    kdb_memory: u64,
}

#[derive(Debug, Clone)]
struct KdbAt {
    plant: Option<String>,
    at: Endpoint,
}

impl FromStr for KdbAt {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (plant, at) = match text.split_once('=') {
            Some((plant, at)) => (Some(plant.into()), at),
            None => (None, text),
        };
        at.parse().map(|at| Self { plant, at }).map_err(|error| format!("{error}"))
    }
}

#[derive(ValueEnum, Debug, Clone, Copy)]
enum SlowArg {
    Replay,
    Disconnect,
    Conflate,
}

impl KdbArgs {
    /// Starts to serve clients of kdb+; `served` returns the plant or RDB of a name, `users` whether there are users.
    pub fn serve(
        &self,
        authenticator: &Authenticator,
        has_users: bool,
        served: impl Fn(Option<&str>) -> Result<Served, Failure>,
        ui: &Ui,
    ) -> Result<Arc<Fronts>, Failure> {
        let mut fronts = Vec::new();
        for KdbAt { plant, at } in &self.kdb {
            let Some(address) = at.address() else { continue };
            if at.is_open() && !has_users {
                return Err(Failure::usage(format!(
                    "listening on {address} without users would let every client write; give a file of users, or listen on 127.0.0.1"
                )));
            }
            let front = Front::start(served(plant.as_deref())?, self.options(address, authenticator))?;
            tell(&front, ui)?;
            fronts.push(front);
        }
        Ok(Arc::new(Fronts(fronts)))
    }

    fn options(&self, address: SocketAddr, authenticator: &Authenticator) -> FrontOptions {
        let slow = match self.kdb_slow {
            SlowArg::Replay => Slow::Replay,
            SlowArg::Disconnect => Slow::Disconnect,
            SlowArg::Conflate => Slow::Conflate,
        };
        let access = Arc::new(Door(authenticator.clone()));
        FrontOptions {
            log_folder: self.kdb_log.clone(),
            access,
            slow,
            all_waiting_bytes_max: usize::try_from(self.kdb_memory).unwrap_or(usize::MAX),
            ..FrontOptions::at(address)
        }
    }
}

/// The addresses for clients of kdb+.
#[derive(Debug)]
pub struct Fronts(Vec<Front>);

/// Name, help and value of a metric.
type Number = (&'static str, &'static str, fn(&FrontStatus) -> u64);

impl Component for Fronts {
    fn metrics(&self, page: &mut MetricsPage) {
        let statuses: Vec<(String, FrontStatus)> =
            self.0.iter().map(|front| (front.address().to_string(), front.status())).collect();
        let gauges: [Number; 2] = [
            ("kdb_connections", "Clients of kdb+ that are connected.", |status| status.connections as u64),
            ("kdb_waiting_bytes", "Bytes that wait to be sent to clients of kdb+.", |status| {
                status.waiting_bytes
            }),
        ];
        for (name, help, value) in gauges.into_iter().filter(|_| !statuses.is_empty()) {
            page.gauges(name, help);
            statuses.iter().for_each(|(at, status)| page.line(name, &[("address", at)], value(status)));
        }
        let counters: [Number; 4] = [
            ("kdb_updates", "Updates published to clients of kdb+.", |status| status.published),
            ("kdb_cut_off", "Clients of kdb+ cut off because too much waited for all together.", |status| {
                status.cut_off
            }),
            ("kdb_slow_disconnected", "Clients of kdb+ disconnected for being slow.", |status| {
                status.slow_disconnected
            }),
            ("kdb_errors", "Requests of clients of kdb+ that failed.", |status| status.errors),
        ];
        for (name, help, value) in counters.into_iter().filter(|_| !statuses.is_empty()) {
            page.counters(name, help);
            let name = format!("{name}_total");
            statuses.iter().for_each(|(at, status)| page.line(&name, &[("address", at)], value(status)));
        }
    }

    fn problems(&self) -> Vec<(String, String)> {
        let failure =
            |front: &Front| Some((format!("kdb+ clients on {}", front.address()), front.status().failure?));
        self.0.iter().filter_map(failure).collect()
    }
}

fn tell(front: &Front, ui: &Ui) -> Result<(), Failure> {
    if ui.json() {
        return ui.print_json(&json!({ "kdb": front.address().to_string() }));
    }
    ui.print(&format!("  kdb+ clients on {}\n", front.address()))
}

/// The server's users.
struct Door(Authenticator);

impl Access for Door {
    fn authenticate(&self, user: &str, password: &str, peer: SocketAddr) -> Option<Arc<dyn Rights>> {
        let visitor = self.0.authenticate(Some(peer.ip()), user, password)?;
        Some(Arc::new(Guest(visitor)))
    }
}

/// The rights of a user, from the users file as last loaded.
struct Guest(AuthenticatedUser);

impl Rights for Guest {
    fn may_read(&self, stream: &str) -> bool {
        self.0.may(May::Read, stream)
    }

    fn may_write(&self, stream: &str) -> bool {
        self.0.may(May::Write, stream)
    }

    fn may_end_days(&self, plant: &str) -> bool {
        self.0.may(May::Write, &format!("{plant}/{}", tapedb_tick::CALENDAR))
    }
}
