//! `tapedb tick plant`: a tickerplant.

use super::ask::{self, Answers, Reply, Request, asked};
use super::kdb::KdbArgs;
use super::place::{self, PLANT};
use crate::commands::serve::server;
use clap::ValueEnum;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tapedb_engine::{Database, Durability, StreamOptions};
use tapedb_schema::{TimeOfDay, Timestamp};
use tapedb_terminal::{Failure, Ui, quantity::duration};
use tapedb_tick::kdb::front::Served;
use tapedb_tick::{
    DEFINITION_BYTES_MAX, Date, DayEnd, Hdb, Plan, Plant, PlantOptions, Publish, TickError, tables,
};

/// A tickerplant: takes updates from feeds, logs and publishes them, and ends days.
///
/// It is a server (see `tapedb server`) for a database with a stream for each table, PLANT/TABLE, and PLANT/calendar. Feeds load
/// these streams, subscribers read them with live cursors.
///
/// A file defines the tables: a schema with one `message` for each table, or the sym.q of a kdb+tick installation.
///
/// Example: tapedb tick plant --db tp.tape --create --tables sym.q --day-ends 17:00 --zone America/New_York
#[derive(clap::Args, Debug)]
#[group(skip)]
pub struct Args {
    #[command(flatten)]
    plants: PlantArgs,

    #[command(flatten)]
    server: server::Args,

    #[command(flatten)]
    ask: ask::AskArgs,

    #[command(flatten)]
    kdb: KdbArgs,
}

/// The plants and their settings.
#[derive(clap::Args, Debug)]
pub struct PlantArgs {
    /// File that defines the tables; NAME=FILE for a plant of that name (tp by default). Several plants may share a database.
    #[arg(long, value_name = "[NAME=]FILE", required = true)]
    tables: Vec<String>,

    /// What acknowledged updates survive: async a killed process, sync a power cut.
    #[arg(long, value_enum, default_value = "async")]
    durability: DurabilityArg,

    /// Time of day at which days end.
    #[arg(long, value_name = "HH:MM", default_value = "00:00")]
    day_ends: TimeOfDay,

    /// The time zone of --day-ends, for example America/New_York.
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    zone: String,

    /// Days end only on request (`tapedb tick eod`).
    #[arg(long, conflicts_with_all = ["day_ends", "zone"])]
    by_hand: bool,

    /// Publish at this interval, and log each update at once: less work with many subscribers.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    publish_every: Option<Duration>,

    /// Collect updates of kdb+ feeds in memory, and log and publish them at this interval.
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "publish_every")]
    log_every: Option<Duration>,

    /// Keep this number of ended days [default: all].
    #[arg(long, value_name = "DAYS")]
    keep_days: Option<u32>,

    /// The HDB, directory or URL: days are removed only after they are in it.
    #[arg(long, value_name = "DIR|URL", requires = "keep_days")]
    kept_in: Option<PathBuf>,
}

#[derive(ValueEnum, Debug, Clone, Copy)]
enum DurabilityArg {
    Transient,
    Async,
    Sync,
}

/// Open plants, by name.
pub struct Plants {
    pub plants: BTreeMap<String, Arc<Plant>>,
    timers: Vec<thread::JoinHandle<()>>,
    stopping: Arc<AtomicBool>,
    /// When days end, in words: for the console.
    #[cfg_attr(not(feature = "web"), expect(dead_code, reason = "there is no console"))]
    day_ends: String,
    /// The last warning about days that cannot be removed, by plant.
    kept_back: Mutex<BTreeMap<String, String>>,
}

/// Runs plants until a signal arrives.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    let config = args.server.config()?;
    let db = Database::open(&config.database)?;
    let plants = args.plants.open(&db, None, config.create)?;
    let serving = args.server.start(&config, Some(db), ui)?;
    plants.show(&serving);
    let asked = args.ask.serve("plant", Arc::new(Asked(plants.plants.clone())))?;
    plants.tell(ask::address_of(asked.as_ref()), ui)?;
    let served = |name: Option<&str>| plants.served(name);
    let fronts = args.kdb.serve(&serving.authenticator(), config.users.is_some(), served, ui)?;
    serving.add_component(fronts);
    serving.run(ui, || plants.tick(ui))
}

impl PlantArgs {
    /// Opens the plants.
    pub fn open(&self, db: &Database, hdb: Option<Hdb>, create: bool) -> Result<Plants, Failure> {
        let mut plants = Plants {
            plants: BTreeMap::new(),
            timers: Vec::new(),
            stopping: Arc::default(),
            day_ends: if self.by_hand {
                "by hand".into()
            } else {
                format!("{} {}", self.day_ends, self.zone)
            },
            kept_back: Mutex::default(),
        };
        let options = self.options(hdb, create)?;
        for named in &self.tables {
            let (name, file) = named.split_once('=').unwrap_or((PLANT, named));
            let tables = tables(&read(Path::new(file))?)
                .map_err(|error| Failure::usage(format!("{file}: {error}")))?;
            let plant = Arc::new(Plant::open(db, name, &tables, options.clone())?);
            if plants.plants.insert(name.into(), plant.clone()).is_some() {
                return Err(Failure::usage(format!("plant {name} is given twice; give each plant once")));
            }
            plants.start_timer(plant)?;
        }
        Ok(plants)
    }

    fn options(&self, hdb: Option<Hdb>, create: bool) -> Result<PlantOptions, Failure> {
        let durability = match self.durability {
            DurabilityArg::Transient => Durability::Transient,
            DurabilityArg::Async => Durability::Async,
            DurabilityArg::Sync => Durability::Sync,
        };
        let publish = match (self.publish_every, self.log_every) {
            (Some(every), _) => Publish::Every(every),
            (None, Some(every)) => Publish::LogEvery(every),
            (None, None) => Publish::Each,
        };
        let hdb = match &self.kept_in {
            Some(place) => Some(Hdb::new(place::open_to_write(place, create)?)),
            None => hdb,
        };
        Ok(PlantOptions {
            stream: StreamOptions { durability, ..StreamOptions::default() },
            day_end: if self.by_hand { None } else { Some(DayEnd::at(self.day_ends, &self.zone)?) },
            publish,
            keep_days: self.keep_days,
            hdb,
            ..PlantOptions::default()
        })
    }
}

impl Plants {
    /// Shows the plants in the console of a server.
    #[cfg(feature = "web")]
    pub fn show(&self, serving: &server::Serving) {
        serving.show_plants(Arc::new(super::shown::Shown::new(&self.plants, &self.day_ends)));
    }

    /// There is no console.
    #[cfg(not(feature = "web"))]
    pub fn show(&self, _: &server::Serving) {}

    /// The plant for clients of kdb+: the named one, or the only one.
    pub fn served(&self, name: Option<&str>) -> Result<Served, Failure> {
        let known = Asked(self.plants.clone());
        let name = known.plant(name)?.plan().name();
        let plant = self.plants.get(name).cloned();
        plant.map(Served::plant).ok_or_else(|| Failure::usage(format!("there is no plant {name}")))
    }

    /// Prints the plants.
    pub fn tell(&self, asked: Option<String>, ui: &Ui) -> Result<(), Failure> {
        let names: Vec<&String> = self.plants.keys().collect();
        if ui.json() {
            return ui.print_json(&json!({ "plants": names, "ask": asked }));
        }
        let mut text = String::new();
        for (name, plant) in &self.plants {
            let tables: Vec<&str> = plant.plan().tables().iter().map(|(table, _)| table.name()).collect();
            text.push_str(&format!("  plant {name}: {}; it is {}\n", tables.join(", "), plant.day().date));
        }
        if let Some(asked) = asked {
            text.push_str(&format!("  queries on {asked} (tapedb tick query, eod)\n"));
        }
        ui.print(&text)
    }

    /// Ends days and removes old ones when due.
    pub fn tick(&self, ui: &Ui) -> Result<(), Failure> {
        for (name, plant) in &self.plants {
            match plant.tick(now()) {
                Ok(None) => {}
                Ok(Some(day)) => tracing::info!(plant = name, date = %day.date, "a day has begun"),
                Err(error) => ui.warn(&format!("plant {name}: {error}")),
            }
            self.tell_kept_back(name, plant.kept_back(), ui);
        }
        Ok(())
    }

    /// Warns once about a day that cannot be removed, with the cause.
    fn tell_kept_back(&self, name: &str, what: Option<String>, ui: &Ui) {
        let mut reported = self.kept_back.lock().unwrap_or_else(PoisonError::into_inner);
        match what {
            None => drop(reported.remove(name)),
            Some(what) if reported.get(name) == Some(&what) => {}
            Some(what) => {
                ui.warn(&format!("plant {name}: {what}; retrying"));
                reported.insert(name.into(), what);
            }
        }
    }

    fn start_timer(&mut self, plant: Arc<Plant>) -> Result<(), Failure> {
        let (Publish::Every(every) | Publish::LogEvery(every)) = plant.options().publish else {
            return Ok(());
        };
        let stopping = self.stopping.clone();
        let publish = move || {
            while !stopping.load(Ordering::Acquire) {
                thread::sleep(every);
                if let Err(error) = plant.flush() {
                    tracing::error!(plant = plant.plan().name(), %error, "cannot publish; retrying");
                }
            }
        };
        let timer = thread::Builder::new().name("tape-publish".into()).spawn(publish);
        self.timers
            .push(timer.map_err(|error| Failure::new(format!("cannot start a thread: {error}; try again")))?);
        Ok(())
    }
}

impl Drop for Plants {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        for timer in self.timers.drain(..) {
            // The thread has no result.
            let _ = timer.join();
        }
    }
}

/// Answers for plants.
pub struct Asked(pub BTreeMap<String, Arc<Plant>>);

impl Answers for Asked {
    fn answer(&self, request: Request) -> Result<Reply, TickError> {
        match request {
            Request::Status => {
                let plants = self.0.values().map(|plant| status(plant)).collect::<Result<Vec<_>, _>>()?;
                Ok(Reply::Object(json!({ "plants": plants })))
            }
            Request::EndOfDay { plant, date } => {
                let plant = self.plant(plant.as_deref())?;
                let date = match date {
                    Some(date) => date.parse::<Date>().map_err(asked)?,
                    None => plant.day().date,
                };
                let day = plant.end_of_day(date)?;
                Ok(Reply::Object(json!({ "ended": date.to_string(), "date": day.date.to_string() })))
            }
            Request::Query(_) => {
                Err(asked("a plant has no tables in memory; ask an RDB, or read its streams"))
            }
        }
    }
}

impl Asked {
    fn plant(&self, name: Option<&str>) -> Result<&Plant, TickError> {
        let known = || self.0.keys().cloned().collect::<Vec<_>>().join(", ");
        let found = match name {
            Some(name) => self.0.get(name),
            None if self.0.len() > 1 => return Err(asked(format!("name one of the plants {}", known()))),
            None => self.0.values().next(),
        };
        found
            .map(|plant| &**plant)
            .ok_or_else(|| asked(format!("there is no such plant; the plants are {}", known())))
    }
}

fn status(plant: &Plant) -> Result<Value, TickError> {
    let day = plant.day();
    let plan: &Plan = plant.plan();
    let mut tables = Vec::new();
    for (table, stream) in plan.tables() {
        let next = stream.stats()?.next_sequence;
        let today = next.saturating_sub(day.first_of(table.name()));
        tables.push(json!({ "table": table.name(), "today": today, "next_sequence": next }));
    }
    Ok(json!({ "plant": plan.name(), "date": day.date.to_string(), "tables": tables }))
}

/// Reads a definition of tables.
fn read(file: &Path) -> Result<String, Failure> {
    let refused = |what: String| Failure::usage(format!("{}: {what}", file.display()));
    let bytes = std::fs::metadata(file).map_err(|error| refused(error.to_string()))?.len();
    if bytes > DEFINITION_BYTES_MAX as u64 {
        return Err(refused(format!(
            "{bytes} bytes are too many for a definition of tables; give a file of at most {DEFINITION_BYTES_MAX}"
        )));
    }
    std::fs::read_to_string(file).map_err(|error| refused(error.to_string()))
}

fn now() -> Timestamp {
    Timestamp(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as i64)
}
