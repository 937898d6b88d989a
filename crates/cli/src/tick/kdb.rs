//! Clients of kdb+ on plants and RDBs: their address, and who may come in.

use crate::failure::Failure;
use crate::ui::Ui;
use clap::ValueEnum;
use serde_json::json;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use tapedb_server::{Endpoint, Entrance, May, Visitor};
use tapedb_tick::kdb::front::{Access, Front, FrontOptions, Rights, Served, Slow};

/// Where clients of kdb+ connect.
#[derive(clap::Args, Debug)]
#[group(skip)]
pub struct KdbArgs {
    /// Where clients of kdb+ connect (IPC, port 5010 in most installations); PLANT=HOST:PORT for the plant of that name.
    #[arg(long, value_name = "[PLANT=]HOST:PORT")]
    kdb: Vec<KdbAt>,

    /// Folder for logs as kdb+ has them, one for each day: an RDB of kdb+ replays from it. Without, it is told of no log.
    #[arg(long, value_name = "DIR", requires = "kdb")]
    kdb_log: Option<PathBuf>,

    /// What is done with kdb+ subscribers that are too slow: they read for themselves until they have caught up, are
    /// disconnected, or get only the last row of each symbol. They may say it themselves, with .u.slow.
    #[arg(long, value_enum, default_value = "replay", requires = "kdb")]
    kdb_slow: SlowArg,
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
    /// Begins to serve those that are wanted; `served` gives what a plant of a name has to serve, `users` says whether
    /// there are users to be known by.
    pub fn serve(
        &self,
        entrance: &Entrance,
        has_users: bool,
        served: impl Fn(Option<&str>) -> Result<Served, Failure>,
        ui: &Ui,
    ) -> Result<Vec<Front>, Failure> {
        let mut fronts = Vec::new();
        for KdbAt { plant, at } in &self.kdb {
            let Some(address) = at.address() else { continue };
            if at.is_open() && !has_users {
                return Err(Failure::usage(format!(
                    "listening on {address} without users would let whoever reaches it write; name a file of users, or listen on 127.0.0.1"
                )));
            }
            let front = Front::start(served(plant.as_deref())?, self.options(address, entrance))?;
            tell(&front, ui)?;
            fronts.push(front);
        }
        Ok(fronts)
    }

    fn options(&self, address: SocketAddr, entrance: &Entrance) -> FrontOptions {
        let slow = match self.kdb_slow {
            SlowArg::Replay => Slow::Replay,
            SlowArg::Disconnect => Slow::Disconnect,
            SlowArg::Conflate => Slow::Conflate,
        };
        let access = Arc::new(Door(entrance.clone()));
        FrontOptions { log_folder: self.kdb_log.clone(), access, slow, ..FrontOptions::at(address) }
    }
}

fn tell(front: &Front, ui: &Ui) -> Result<(), Failure> {
    if ui.json() {
        return ui.print_json(&json!({ "kdb": front.address().to_string() }));
    }
    ui.print(&format!("  kdb+ clients on {}\n", front.address()))
}

/// The server's users.
struct Door(Entrance);

impl Access for Door {
    fn enter(&self, user: &str, password: &str, peer: SocketAddr) -> Option<Arc<dyn Rights>> {
        let visitor = self.0.enter(Some(peer.ip()), user, password)?;
        Some(Arc::new(Guest(visitor)))
    }
}

/// What he may do, as the users file says that was read last.
struct Guest(Visitor);

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
