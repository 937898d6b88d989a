//! A tickerplant with its RDB, measured as in the kdb+tick throughput study: by rows per update, with extra columns, with many
//! subscribers, on timers, and at full speed. Each role is a process.

mod data;
mod kdb;
pub mod roles;
mod times;

use crate::remote::Transport;
use crate::report::Report;
use crate::worker::Worker;
use clap::ValueEnum;
use kdb::{KdbFeedRole, KdbSubscriberRole};
use roles::{
    Drive, Driven, FeedRole, KdbClients, PlantAt, PlantRole, Process, RdbDone, RdbRole, Role, Timer,
};
use std::path::PathBuf;
use std::time::Duration;
use tapedb_terminal::{
    Failure, Ui,
    awake::AwakeArgs,
    quantity::{count, duration},
};
use times::{FeedDone, Percentiles, Received};

/// Milliseconds in one percent of a second.
const PERCENT_MS: f64 = 10.0;

/// How long a single row waits for rows that follow at once, at full speed.
const GATHER_US: u64 = 20;

/// The study's updates: name, rows, extra columns.
const UPDATES: [(&str, u64, usize); 5] =
    [("r1", 1, 0), ("r10", 10, 0), ("r100", 100, 0), ("r1000", 1000, 0), ("r100.x50", 100, 50)];

/// Tickerplant and RDB, with the parameters of the kdb+tick throughput study
///
/// Cases `tick.rN`: updates of N rows reach the plant by a schedule, 1,000 a second by default; `tplog` is the time to check and
/// log one, `tppub` to publish it, `rdbrecv` from its due time at the plant until the RDB has all of it, `rdbupd` to decode and
/// insert it, `rdbready` from its due time until it is inserted; `late` is how late it was started, which the plant does not
/// cause and which is part of `rdbrecv` and `rdbready`.
/// `tick.r100.x50`: with 50 extra columns of floats; `tick.r100.s10`: with ten subscribers, of which the first and the last count.
/// `tick.max`: feed, plant and RDB at full speed; updates wait up to 20 µs for those that follow at once (`single.each`: not at
/// all). `tick.cpu`: the plant's share of a core, for single rows at 10,000 a second (published at once, on a timer of 100 ms, and
/// also logged on it) and for 100 rows five times a millisecond. `tick.restart`: an RDB that starts after a full day.
///
/// Cases that end in `.kdb`, or have it before the last word: over kdb+ IPC. A kdb+ feed sends `.u.upd`, and a kdb+ subscriber
/// measures. There `tplog` begins with the bytes of the message and `tppub` ends with them; `rdbrecv` is from the time the update
/// is due at the feed until the subscriber has decoded it.
///
/// Received rows are checked one by one. A process with a schedule sleeps until 0.4 ms before an update is due and then polls the
/// clock: that takes up to 40 % of a core. Each process is pinned to its own core if there are enough cores.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Which cases
    #[arg(long, value_name = "CASES", value_delimiter = ',', default_value = "latency,max,cpu,restart")]
    cases: Vec<Case>,
    /// Protocol of feeds and subscribers
    #[arg(long, value_name = "IPC", value_delimiter = ',', default_value = "native,kdb")]
    ipc: Vec<Ipc>,
    /// Runs of each case; the median counts
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Updates of a run; a fifth more are sent first and do not count
    #[arg(long, value_name = "N", default_value = "2000", value_parser = count)]
    updates: u64,
    /// Time between updates
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = duration)]
    interval: Duration,
    /// Rows at full speed
    #[arg(long, value_name = "COUNT", default_value = "4M", value_parser = count)]
    rows: u64,
    /// Rows in the plant when the RDB is started again
    #[arg(long, value_name = "COUNT", default_value = "10M", value_parser = count)]
    restart_rows: u64,
    /// Subscribers in the cases with many
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    subscribers: u32,
    /// How long the RDB and the plant's server poll for messages before they sleep, in microseconds
    #[arg(long, value_name = "N", default_value_t = 0)]
    spin_us: u64,
    /// Transport between the processes
    #[arg(long, value_name = "HOW", default_value = "tcp")]
    transport: Transport,
    /// Let the system choose the cores
    #[arg(long)]
    unpinned: bool,
    #[command(flatten)]
    awake: AwakeArgs,
    /// Directory for the database, which is removed afterwards
    #[arg(long, value_name = "DIR", default_value = "bench.tapedb", value_parser = tapedb_terminal::location::local)]
    db: PathBuf,
}

/// A group of cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Case {
    Latency,
    Max,
    Cpu,
    Restart,
}

/// Protocol of feeds and subscribers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Ipc {
    Native,
    Kdb,
}

/// Runs the benchmark.
pub fn run(args: &Args, ui: &Ui) -> Result<Report, Failure> {
    let mut report = Report::new("tick");
    for run in 0..args.runs {
        ui.note(&format!("run {} of {}", run + 1, args.runs));
        for case in &args.cases {
            ui.check_interrupt()?;
            for ipc in &args.ipc {
                match (case, ipc) {
                    (Case::Latency, Ipc::Native) => args.latency(&mut report)?,
                    (Case::Latency, Ipc::Kdb) => args.latency_kdb(&mut report)?,
                    (Case::Max, _) => args.max(*ipc, &mut report)?,
                    (Case::Cpu, _) => args.cpu(*ipc, &mut report)?,
                    (Case::Restart, Ipc::Native) => args.restart(&mut report)?,
                    // The RDB that restarts is native in both cases.
                    (Case::Restart, Ipc::Kdb) => {}
                }
            }
        }
    }
    Ok(report)
}

impl Args {
    /// Whether processors are kept awake during the run.
    pub fn keeps_awake(&self) -> bool {
        self.awake.keep_awake
    }

    /// Conditions of the run that the names of cases do not show.
    pub fn remarks(&self) -> Vec<&'static str> {
        let pinned = if self.unpinned {
            "the system chooses the cores"
        } else {
            "each process on its own core, if there are enough"
        };
        vec![self.transport.name(), pinned]
    }

    fn latency(&self, report: &mut Report) -> Result<(), Failure> {
        for (name, rows, extra) in UPDATES {
            let (driven, done) = self.drive(rows, extra, 1)?;
            let case = format!("tick.{name}");
            add_driven(report, &case, &driven);
            done.iter().for_each(|done| {
                add(report, &format!("{case}.rdbrecv"), &done.receive);
                add(report, &format!("{case}.rdbupd"), &done.insert);
                add(report, &format!("{case}.rdbready"), &done.ready);
            });
        }
        let (driven, done) = self.drive(100, 0, self.subscribers)?;
        let case = format!("tick.r100.s{}", self.subscribers);
        add_driven(report, &case, &driven);
        add_first_and_last(report, &case, done.iter().map(|done| done.receive));
        Ok(())
    }

    /// Updates by a schedule, to `subscribers`.
    fn drive(&self, rows: u64, extra: usize, subscribers: u32) -> Result<(Driven, Vec<RdbDone>), Failure> {
        let skipped = self.skipped();
        let updates = self.updates + skipped;
        let interval_ns = self.interval.as_nanos() as u64;
        let drive = Drive { rows_per_update: rows, interval_ns, updates, skipped };
        let cores = self.cores(1 + subscribers);
        let mut plant = self.plant(extra, cores, |role| role.drive = Some(drive))?;
        let role = || RdbRole {
            url: plant.url.clone(),
            spin_us: self.spin_us,
            rows: updates * rows,
            rows_per_update: rows,
            skipped,
        };
        let mut rdbs =
            Worker::start_all((1..=subscribers).map(|nth| cores.process(nth as usize, Role::Rdb(role()))))?;
        rdbs.iter_mut().try_for_each(Worker::go)?;
        plant.worker.go()?;
        let driven = plant.worker.receive()?;
        let done = rdbs.iter_mut().map(Worker::receive).collect::<Result<_, _>>()?;
        Ok((driven, done))
    }

    fn latency_kdb(&self, report: &mut Report) -> Result<(), Failure> {
        for (name, rows, extra) in UPDATES {
            let (driven, done) = self.drive_kdb(rows, extra, 1)?;
            let case = format!("tick.{name}.kdb");
            add_driven(report, &case, &driven);
            done.iter().for_each(|done| add(report, &format!("{case}.rdbrecv"), &done.receive));
        }
        let (driven, done) = self.drive_kdb(100, 0, self.subscribers)?;
        let case = format!("tick.r100.s{}.kdb", self.subscribers);
        add_driven(report, &case, &driven);
        add_first_and_last(report, &case, done.iter().map(|done| done.receive));
        Ok(())
    }

    /// Updates that a kdb+ feed sends by a schedule, to kdb+ subscribers.
    fn drive_kdb(
        &self,
        rows_per_update: u64,
        extra_columns: usize,
        subscribers: u32,
    ) -> Result<(Driven, Vec<Received>), Failure> {
        let skipped = self.skipped();
        let rows = (self.updates + skipped) * rows_per_update;
        let cores = self.cores(2 + subscribers);
        let clients = KdbClients { rows_per_update, skipped };
        let mut plant = self.plant(extra_columns, cores, |role| role.kdb = Some(clients))?;
        let address = plant.kdb.clone();
        let role = || KdbSubscriberRole { address: address.clone(), rows, rows_per_update, skipped };
        let processes = (1..=subscribers).map(|nth| cores.process(nth as usize, Role::KdbSubscriber(role())));
        let mut receiving = Worker::start_all(processes)?;
        let interval_ns = self.interval.as_nanos() as u64;
        let pace = Pace { interval_ns, ..Pace::FULL };
        let role = pace.kdb_feed(&plant, rows_per_update, rows, extra_columns, skipped);
        let mut feed = cores.started(1 + subscribers as usize, role)?;
        receiving.iter_mut().try_for_each(Worker::go)?;
        feed.go()?;
        let fed: FeedDone = feed.receive()?;
        let done = receiving.iter_mut().map(Worker::receive).collect::<Result<_, _>>()?;
        plant.worker.go()?;
        let driven: Driven = plant.worker.receive()?;
        Ok((Driven { late: Some(fed.late), ..driven }, done))
    }

    fn max(&self, ipc: Ipc, report: &mut Report) -> Result<(), Failure> {
        // Single rows are about ten times slower.
        for (case, rows_per_update, gather_us, rows) in [
            ("tick.max.single", 1, GATHER_US, self.rows),
            ("tick.max.single.each", 1, 0, self.rows / 8),
            ("tick.max.r100", 100, GATHER_US, self.rows),
        ] {
            let rows = if ipc == Ipc::Kdb && rows_per_update == 1 { rows / 4 } else { rows };
            let rows = (rows / rows_per_update).max(1) * rows_per_update;
            let pace = Pace { gather_us, ..Pace::FULL };
            let flown = self.flow(ipc, rows, rows_per_update, pace, Timer::Off)?;
            let rate = |ended: u64| rows as f64 * 1e9 / ended.saturating_sub(flown.began_ns).max(1) as f64;
            let case = ipc.case(case);
            report.add(&case, "rows received", "rows/s", rate(flown.received_ns));
            report.add(&case, "rows acknowledged", "rows/s", rate(flown.acknowledged_ns));
        }
        Ok(())
    }

    fn cpu(&self, ipc: Ipc, report: &mut Report) -> Result<(), Failure> {
        let ms = Duration::from_millis(1);
        let publishing = Timer::PublishEvery { ms: 100 };
        // A native feed decides itself when it flushes.
        let (rows, interval, logging) = match ipc {
            Ipc::Native => (1000, ms * 100, Timer::Off),
            Ipc::Kdb => (1, ms / 10, Timer::LogEvery { ms: 100 }),
        };
        for (case, rows_per_update, updates_per_tick, interval, timer) in [
            ("tick.cpu.single", 1, 1, ms / 10, Timer::Off),
            ("tick.cpu.publish", 1, 1, ms / 10, publishing),
            ("tick.cpu.log", rows, 1, interval, logging),
            ("tick.cpu.r100x5", 100, 5, ms, Timer::Off),
        ] {
            // The same duration as the updates of the other cases.
            let ticks =
                (self.interval.as_nanos() * u128::from(self.updates) / interval.as_nanos()).max(1) as u64;
            let rows = ticks * updates_per_tick * rows_per_update;
            let pace = Pace { updates_per_tick, interval_ns: interval.as_nanos() as u64, gather_us: 0 };
            let flown = self.flow(ipc, rows, rows_per_update, pace, timer)?;
            let seconds = flown.acknowledged_ns.saturating_sub(flown.began_ns).max(1) as f64 / 1e9;
            let case = ipc.case(case);
            report.add(&case, "core", "%", flown.cpu_ms / seconds / PERCENT_MS);
            report.add(&case, "rate", "rows/s", rows as f64 / seconds);
        }
        Ok(())
    }

    /// Rows that a feed sends through a plant to a subscriber.
    fn flow(
        &self,
        ipc: Ipc,
        rows: u64,
        rows_per_update: u64,
        pace: Pace,
        timer: Timer,
    ) -> Result<Flown, Failure> {
        let cores = self.cores(3);
        let kdb = (ipc == Ipc::Kdb).then_some(KdbClients { rows_per_update, skipped: 0 });
        let plant = self.plant(0, cores, |role| (role.timer, role.kdb) = (timer, kdb))?;
        let (subscriber, feed) = match ipc {
            Ipc::Native => {
                let rdb = RdbRole {
                    url: plant.url.clone(),
                    spin_us: self.spin_us,
                    rows,
                    rows_per_update,
                    skipped: 0,
                };
                (Role::Rdb(rdb), pace.feed(&plant, rows_per_update, rows))
            }
            Ipc::Kdb => {
                let address = plant.kdb.clone();
                let subscriber = KdbSubscriberRole { address, rows, rows_per_update, skipped: 0 };
                (Role::KdbSubscriber(subscriber), pace.kdb_feed(&plant, rows_per_update, rows, 0, 0))
            }
        };
        let mut subscriber = cores.started(1, subscriber)?;
        let mut feed = cores.started(2, feed)?;
        subscriber.go()?;
        let before = plant.worker.cpu_ms();
        feed.go()?;
        let fed: FeedDone = feed.receive()?;
        let received_ns = match ipc {
            Ipc::Native => subscriber.receive::<RdbDone>()?.ended_ns,
            Ipc::Kdb => subscriber.receive::<Received>()?.ended_ns,
        };
        let cpu_ms = plant.worker.cpu_ms() - before;
        Ok(Flown { began_ns: fed.began_ns, acknowledged_ns: fed.ended_ns, received_ns, cpu_ms })
    }

    /// First updates, which do not count.
    fn skipped(&self) -> u64 {
        self.updates / 5
    }

    fn cores(&self, processes: u32) -> Cores {
        let available = std::thread::available_parallelism().map_or(1, usize::from);
        // A spinning thread must not take the core from other threads of its process.
        Cores { are_own: !self.unpinned && self.spin_us == 0 && processes as usize <= available }
    }

    fn restart(&self, report: &mut Report) -> Result<(), Failure> {
        let cores = self.cores(2);
        let plant = self.plant(0, cores, |_| ())?;
        let rows = self.restart_rows / 1000 * 1000;
        let mut feed = cores.started(1, Pace::FULL.feed(&plant, 1000, rows))?;
        feed.go()?;
        let _: FeedDone = feed.receive()?;
        let (url, spin_us) = (plant.url.clone(), self.spin_us);
        let role = RdbRole { url, spin_us, rows, rows_per_update: 1000, skipped: 0 };
        let mut rdb = cores.started(1, Role::Rdb(role))?;
        rdb.go()?;
        let done: RdbDone = rdb.receive()?;
        let seconds = done.ended_ns.saturating_sub(done.began_ns).max(1) as f64 / 1e9;
        report.add("tick.restart", "rate", "rows/s", rows as f64 / seconds);
        Ok(())
    }

    /// Starts a plant over a new database.
    fn plant(
        &self,
        extra_columns: usize,
        cores: Cores,
        choose: impl FnOnce(&mut PlantRole),
    ) -> Result<Planted, Failure> {
        if self.db.exists() {
            let path = self.db.display();
            let what = format!("{path} exists; remove it, or name another directory with --db");
            return Err(Failure::new(what));
        }
        let socket = crate::remote::socket_of(&self.db);
        let mut role = PlantRole {
            db: self.db.clone(),
            socket,
            extra_columns,
            timer: Timer::Off,
            spin_us: self.spin_us,
            kdb: None,
            drive: None,
        };
        choose(&mut role);
        let mut worker = Worker::start(&cores.process(0, Role::Plant(role)), None)?;
        let at: PlantAt = worker.receive()?;
        let url = match self.transport {
            Transport::Tcp => at.tcp,
            Transport::Uds => at.uds,
            Transport::Shm => at.shm,
        };
        Ok(Planted { worker, url, kdb: at.kdb, path: self.db.clone() })
    }
}

impl Ipc {
    /// The case, with a suffix for kdb+ IPC.
    fn case(self, case: &str) -> String {
        match self {
            Self::Native => case.into(),
            Self::Kdb => format!("{case}.kdb"),
        }
    }
}

/// The cores on which processes run.
#[derive(Debug, Clone, Copy)]
struct Cores {
    /// Whether each process has its own core.
    are_own: bool,
}

impl Cores {
    fn process(self, nth: usize, role: Role) -> Process {
        Process { role, core: self.are_own.then_some(nth) }
    }

    /// Starts a process, and waits until it is ready.
    fn started(self, nth: usize, role: Role) -> Result<Worker, Failure> {
        let mut worker = Worker::start(&self.process(nth, role), None)?;
        worker.receive::<String>()?;
        Ok(worker)
    }
}

/// How a feed sends.
#[derive(Debug, Clone, Copy)]
struct Pace {
    updates_per_tick: u64,
    interval_ns: u64,
    gather_us: u64,
}

impl Pace {
    /// Full speed.
    const FULL: Self = Self { updates_per_tick: 1, interval_ns: 0, gather_us: 0 };

    fn feed(self, plant: &Planted, rows_per_update: u64, rows: u64) -> Role {
        let Self { updates_per_tick, interval_ns, gather_us } = self;
        let url = plant.url.clone();
        Role::Feed(FeedRole { url, rows_per_update, updates_per_tick, interval_ns, gather_us, rows })
    }

    fn kdb_feed(
        self,
        plant: &Planted,
        rows_per_update: u64,
        rows: u64,
        extra_columns: usize,
        skipped: u64,
    ) -> Role {
        let Self { updates_per_tick, interval_ns, gather_us } = self;
        let address = plant.kdb.clone();
        Role::KdbFeed(KdbFeedRole {
            address,
            rows_per_update,
            updates_per_tick,
            interval_ns,
            gather_us,
            rows,
            extra_columns,
            skipped,
        })
    }
}

/// Times of rows that went through the plant.
struct Flown {
    began_ns: u64,
    acknowledged_ns: u64,
    received_ns: u64,
    /// Processor time of the plant.
    cpu_ms: f64,
}

/// A running plant; its database is removed when this is dropped.
struct Planted {
    worker: Worker,
    url: String,
    /// Address for clients of kdb+.
    kdb: String,
    path: PathBuf,
}

impl Drop for Planted {
    fn drop(&mut self) {
        self.worker.end();
        let _ = std::fs::remove_dir_all(&self.path);
        let _ = std::fs::remove_file(crate::remote::socket_of(&self.path));
    }
}

fn add_driven(report: &mut Report, case: &str, driven: &Driven) {
    add(report, &format!("{case}.tplog"), &driven.log);
    add(report, &format!("{case}.tppub"), &driven.publish);
    if let Some(late) = &driven.late {
        add(report, &format!("{case}.late"), late);
    }
}

/// The first and the last of many subscribers, by their medians.
fn add_first_and_last(report: &mut Report, case: &str, received: impl Iterator<Item = Percentiles>) {
    let mut received: Vec<Percentiles> = received.collect();
    received.sort_by_key(|received| received.p50);
    for (which, received) in [("first", received.first()), ("last", received.last())] {
        if let Some(received) = received {
            add(report, &format!("{case}.rdbrecv.{which}"), received);
        }
    }
}

fn add(report: &mut Report, case: &str, nanos: &Percentiles) {
    for (metric, nanos) in [("p50", nanos.p50), ("p99", nanos.p99), ("max", nanos.max)] {
        report.add(case, metric, "µs", nanos as f64 / 1000.0);
    }
}
