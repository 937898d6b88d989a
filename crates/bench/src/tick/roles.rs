//! The processes of the benchmark: plant, RDB, feed.

use super::data::{SYMBOLS, TABLE, body, symbols};
use super::kdb::{InPlant, KdbFeedRole, KdbSubscriberRole};
use super::times::{FeedDone, Percentiles, histogram, wait_until};
use crate::worker::{Job, now_ns, ready, send};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tapedb_client::Client;
use tapedb_codec::batch::BatchBuilder;
use tapedb_engine::{Database, Stream};
use tapedb_server::{Config, Endpoint, Server};
use tapedb_terminal::{Failure, Ui};
use tapedb_tick::kdb::front::{Front, FrontOptions, Served};
use tapedb_tick::{
    Column, Feed, FeedOptions, Inserted, Plan, Plant, PlantOptions, Probe, Publish, Query, Rdb, RdbOptions,
};

const PLANT: &str = "tp";
/// Maximum time of every wait.
const PATIENCE: Duration = Duration::from_secs(300);
/// Beyond this number of rows only the count and the last rows are checked.
const CHECKED_MAX: u64 = 20_000_000;

/// A process of the benchmark.
#[derive(Debug, Serialize, Deserialize)]
pub struct Process {
    pub role: Role,
    /// The core that it is pinned to.
    pub core: Option<usize>,
}

/// The role of a process.
#[derive(Debug, Serialize, Deserialize)]
pub enum Role {
    Plant(PlantRole),
    Rdb(RdbRole),
    Feed(FeedRole),
    KdbFeed(KdbFeedRole),
    KdbSubscriber(KdbSubscriberRole),
}

/// A plant with its server.
#[derive(Debug, Serialize, Deserialize)]
pub struct PlantRole {
    pub db: PathBuf,
    pub socket: PathBuf,
    pub extra_columns: usize,
    pub timer: Timer,
    pub spin_us: u64,
    /// Serve clients of kdb+.
    pub kdb: Option<KdbClients>,
    /// Generate updates in the plant, without a feed.
    pub drive: Option<Drive>,
}

/// What a plant does on a timer.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub enum Timer {
    Off,
    PublishEvery {
        ms: u64,
    },
    /// For kdb+ feeds.
    LogEvery {
        ms: u64,
    },
}

/// Clients of kdb+.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct KdbClients {
    pub rows_per_update: u64,
    /// First updates, which do not count.
    pub skipped: u64,
}

/// Addresses of a plant.
#[derive(Debug, Serialize, Deserialize)]
pub struct PlantAt {
    /// TCP.
    pub tcp: String,
    /// Unix socket.
    pub uds: String,
    /// Shared memory, requested on the Unix socket.
    pub shm: String,
    /// kdb+ IPC; empty if it is off.
    pub kdb: String,
}

/// Updates for a plant by a schedule.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Drive {
    pub rows_per_update: u64,
    pub interval_ns: u64,
    pub updates: u64,
    /// First updates, which do not count.
    pub skipped: u64,
}

/// Times of these updates in the plant.
#[derive(Debug, Serialize, Deserialize)]
pub struct Driven {
    pub log: Percentiles,
    pub publish: Percentiles,
    /// How late updates were started, which the plant does not cause; `None` if a feed sends them.
    pub late: Option<Percentiles>,
}

/// An RDB that ends after `rows`.
#[derive(Debug, Serialize, Deserialize)]
pub struct RdbRole {
    pub url: String,
    pub spin_us: u64,
    pub rows: u64,
    pub rows_per_update: u64,
    /// First updates, which do not count.
    pub skipped: u64,
}

/// What an RDB measured.
#[derive(Debug, Serialize, Deserialize)]
pub struct RdbDone {
    /// When it was started, in nanoseconds since the Unix epoch.
    pub began_ns: u64,
    /// When it had the last row.
    pub ended_ns: u64,
    /// From the due time of an update at the plant.
    pub receive: Percentiles,
    /// Decoding and inserting an update.
    pub insert: Percentiles,
    /// From the due time of an update at the plant until it is inserted.
    pub ready: Percentiles,
}

/// A feed.
#[derive(Debug, Serialize, Deserialize)]
pub struct FeedRole {
    pub url: String,
    pub rows_per_update: u64,
    pub updates_per_tick: u64,
    pub interval_ns: u64,
    /// How long an update waits for updates that follow at once.
    pub gather_us: u64,
    pub rows: u64,
}

impl Job for Process {
    const NAME: &'static str = "Tick";

    fn run(self, _: &Ui) -> Result<(), Failure> {
        // If the system allows it, a sleep ends on time and not up to 50 µs later.
        let _ = std::fs::write("/proc/self/timerslack_ns", "1");
        if let Some(core) = self.core {
            // Threads started later inherit the core. If the system refuses, the benchmark runs without pinning.
            let _ = tapedb_shm::pin_to_core(core);
        }
        match self.role {
            Role::Plant(role) => role.run(),
            Role::Rdb(role) => role.run(),
            Role::Feed(role) => role.run(),
            Role::KdbFeed(role) => role.run(),
            Role::KdbSubscriber(role) => role.run(),
        }
    }
}

impl PlantRole {
    fn run(self) -> Result<(), Failure> {
        let db = Database::open(&self.db)?;
        let publish = match self.timer {
            Timer::Off => Publish::Each,
            Timer::PublishEvery { ms } => Publish::Every(Duration::from_millis(ms)),
            Timer::LogEvery { ms } => Publish::LogEvery(Duration::from_millis(ms)),
        };
        let options = PlantOptions { publish, day_end: None, ..PlantOptions::default() };
        let plant = Arc::new(Plant::open(&db, PLANT, &[Feed::table(TABLE, self.extra_columns)?], options)?);
        let config = Config {
            listen: Endpoint::loopback(0),
            unix_socket: Some(self.socket.clone()),
            http: Endpoint::OFF,
            spin_us: self.spin_us,
            ..Config::default()
        };
        let server = Server::start_with(config, db).map_err(|error| Failure::new(error.to_string()))?;
        let tcp = server.addresses().tcp.map(|address| format!("tape://{address}")).unwrap_or_default();
        let kdb = self.kdb.map(|clients| serve_kdb(&plant, clients)).transpose()?;
        let [uds, shm] = ["unix", "shm"].map(|how| format!("tape+{how}://{}", self.socket.display()));
        let address = kdb.as_ref().map_or(String::new(), |(front, _)| front.address().to_string());
        send(&PlantAt { tcp, uds, shm, kdb: address })?;
        let stopping = Arc::new(AtomicBool::new(false));
        let timer = match publish {
            Publish::Each => None,
            Publish::Every(every) | Publish::LogEvery(every) => {
                Some(publish_on_timer(plant.clone(), every, stopping.clone()))
            }
        };
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).map_err(|error| Failure::new(error.to_string()))?;
        match (self.drive, &kdb) {
            // The input has ended.
            _ if line.is_empty() => {}
            (Some(drive), _) => send(&drive.run(&plant.plan().table(TABLE)?.1)?)?,
            (None, Some((_, probe))) => {
                let [log, publish] = probe.percentiles();
                send(&Driven { log, publish, late: None })?;
            }
            (None, None) => {}
        }
        let _ = std::io::stdin().lines().count();
        drop(kdb);
        stopping.store(true, Ordering::Release);
        if let Some(timer) = timer {
            let _ = timer.join();
        }
        server.shutdown();
        Ok(())
    }
}

/// Serves clients of kdb+, with a probe.
fn serve_kdb(plant: &Arc<Plant>, clients: KdbClients) -> Result<(Front, Arc<InPlant>), Failure> {
    let probe = Arc::new(InPlant::new(clients.rows_per_update, clients.skipped)?);
    let options = FrontOptions { probe: Some(probe.clone()), ..FrontOptions::at(([127, 0, 0, 1], 0).into()) };
    Ok((Front::start(Served::plant(plant.clone()), options)?, probe))
}

fn publish_on_timer(plant: Arc<Plant>, every: Duration, stopping: Arc<AtomicBool>) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        while !stopping.load(Ordering::Acquire) {
            thread::sleep(every);
            // Rows that cannot be published are missing in the RDB, which the check finds.
            let _ = plant.flush();
        }
    })
}

impl Drive {
    /// Logs and publishes batches as the server does for a feed: `write` checks and logs, `commit` publishes.
    fn run(self, stream: &Stream) -> Result<Driven, Failure> {
        let names = symbols();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let symbols = stream.symbol_ids(&names)?;
        let mut loader = stream.batches(0)?;
        let (mut builder, mut batch) = (BatchBuilder::new(), Vec::new());
        let (mut log, mut publish, mut late) = (histogram()?, histogram()?, histogram()?);
        let began = now_ns() + 10_000_000;
        let mut number = 0;
        for update in 0..self.updates {
            let due = began + update * self.interval_ns;
            batch.clear();
            for _ in 0..self.rows_per_update {
                let body = body(stream, number)?;
                let symbol = symbols[number as usize % symbols.len()];
                builder
                    .push_bytes(due as i64, symbol, 0, &body)
                    .map_err(|error| Failure::new(error.to_string()))?;
                number += 1;
            }
            builder.finish(1, &mut batch);
            wait_until(due);
            let begun = now_ns();
            let start = Instant::now();
            let pending = loader.write(&mut batch)?;
            let logged = start.elapsed();
            loader.commit(pending, &batch)?;
            let published = start.elapsed() - logged;
            if update >= self.skipped {
                log.saturating_record(logged.as_nanos() as u64);
                publish.saturating_record(published.as_nanos() as u64);
                late.saturating_record(begun.saturating_sub(due));
            }
        }
        let [log, publish, late] = [log, publish, late].map(|histogram| Percentiles::of(&histogram));
        Ok(Driven { log, publish, late: Some(late) })
    }
}

impl RdbRole {
    fn run(self) -> Result<(), Failure> {
        let connect = || {
            let client = Client::at(&*self.url).spin(Duration::from_micros(self.spin_us));
            client.connect().map_err(|error| Failure::new(error.to_string()))
        };
        let plan = Plan::open(&connect()?, PLANT)?;
        let stored = plan.table(TABLE)?.1.stats()?.next_sequence;
        let probe = Arc::new(Measured::new(self.rows, self.rows_per_update, self.skipped)?);
        let options = RdbOptions { probe: Some(probe.clone()), ..RdbOptions::default() };
        // With a full day in the plant, the start is what is measured; otherwise it is live before it reports that it is ready.
        if stored > 0 {
            let began_ns = ready()?;
            return self.finish(&Rdb::start(plan, options)?, &probe, began_ns);
        }
        let rdb = Rdb::start(plan, options)?;
        if !rdb.wait_until(PATIENCE, |status| status.is_live) {
            return Err(Failure::new(format!("the RDB is not live: {:?}", rdb.status())));
        }
        let began_ns = ready()?;
        self.finish(&rdb, &probe, began_ns)
    }

    fn finish(&self, rdb: &Rdb, probe: &Measured, began_ns: u64) -> Result<(), Failure> {
        let is_done = |_: &_| probe.rows.load(Ordering::Acquire) >= self.rows;
        if !rdb.wait_until(PATIENCE, is_done) || !rdb.wait_until(PATIENCE, |status| status.is_live) {
            return Err(Failure::new(format!("rows are missing: {:?}", rdb.status())));
        }
        self.check(rdb)?;
        let ended_ns = probe.ended_ns.load(Ordering::Acquire);
        let Histograms { receive, insert, ready } = &*probe.lock();
        let [receive, insert, ready] = [receive, insert, ready].map(Percentiles::of);
        send(&RdbDone { began_ns, ended_ns, receive, insert, ready })
    }

    /// Checks that the sizes of rows are their numbers.
    fn check(&self, rdb: &Rdb) -> Result<(), Failure> {
        let query = Query::table(TABLE).columns(["size"]);
        let rows = rdb.count(&query)?;
        let query = if rows > CHECKED_MAX { query.limit(-(CHECKED_MAX as i64)) } else { query };
        let answer = rdb.query(&query)?;
        let Some(Column::Long(sizes)) = answer.column("size") else {
            return Err(Failure::new("the RDB has no sizes; please report this"));
        };
        let first = rows - sizes.len() as u64;
        let is_numbered = sizes.iter().zip(first..).all(|(size, number)| *size == number as i64);
        if rows == self.rows && is_numbered && rdb.status().missed == 0 {
            return Ok(());
        }
        Err(Failure::new(format!(
            "{} rows were sent; the RDB has {rows}, or others; please report this",
            self.rows
        )))
    }
}

/// A probe in the RDB.
struct Measured {
    all: u64,
    rows_per_update: usize,
    /// First rows, which do not count.
    skipped: u64,
    rows: AtomicU64,
    ended_ns: AtomicU64,
    histograms: Mutex<Histograms>,
}

struct Histograms {
    receive: Histogram<u64>,
    insert: Histogram<u64>,
    ready: Histogram<u64>,
}

impl Measured {
    fn new(all: u64, rows_per_update: u64, skipped: u64) -> Result<Self, Failure> {
        Ok(Self {
            all,
            rows_per_update: rows_per_update.max(1) as usize,
            skipped: skipped * rows_per_update,
            rows: AtomicU64::new(0),
            ended_ns: AtomicU64::new(0),
            histograms: Mutex::new(Histograms {
                receive: histogram()?,
                insert: histogram()?,
                ready: histogram()?,
            }),
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Histograms> {
        self.histograms.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Probe for Measured {
    fn inserted(&self, inserted: &Inserted<'_>) {
        let before = self.rows.fetch_add(inserted.times.len() as u64, Ordering::AcqRel);
        if before + inserted.times.len() as u64 >= self.all {
            self.ended_ns.store(now_ns(), Ordering::Release);
        }
        if before < self.skipped || !inserted.is_live {
            return;
        }
        let updates = inserted.times.len().div_ceil(self.rows_per_update) as u64;
        let mut histograms = self.lock();
        // Updates that are inserted together share the time equally.
        histograms.insert.saturating_record_n(inserted.took.as_nanos() as u64 / updates.max(1), updates);
        // The last row of each update: then all of it has arrived.
        for time in inserted.times.iter().skip(self.rows_per_update - 1).step_by(self.rows_per_update) {
            let receive = inserted.received.0.saturating_sub(*time).max(0) as u64;
            histograms.receive.saturating_record(receive);
            // Rows that are inserted together become visible together.
            histograms.ready.saturating_record(receive + inserted.took.as_nanos() as u64);
        }
    }
}

impl FeedRole {
    fn run(self) -> Result<(), Failure> {
        let plan = Plan::open(
            &tapedb_client::open(&self.url).map_err(|error| Failure::new(error.to_string()))?,
            PLANT,
        )?;
        let mut feed = Feed::open(
            &plan,
            FeedOptions {
                table: TABLE.into(),
                rows_per_update: self.rows_per_update as usize,
                updates_per_tick: self.updates_per_tick as usize,
                interval: Duration::from_nanos(self.interval_ns),
                symbols: SYMBOLS,
                gather: Duration::from_micros(self.gather_us),
                ..FeedOptions::default()
            },
        )?;
        let began_ns = ready()?;
        feed.run(|next| next < self.rows)?;
        send(&FeedDone { began_ns, ended_ns: now_ns(), late: Percentiles::of(&histogram()?) })
    }
}
