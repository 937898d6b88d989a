//! A tickerplant with its RDB, measured as the kdb+tick throughput study measured one: by rows of an update, with extra columns,
//! with many subscribers, on timers, and as fast as it goes. Each role is a process.

pub mod roles;

use super::remote::Transport;
use super::remote::worker::{Addresses, Task, Worker};
use super::report::Report;
use crate::args::{count, duration};
use crate::failure::Failure;
use crate::ui::Ui;
use clap::ValueEnum;
use roles::{Drive, Driven, FeedDone, FeedRole, Percentiles, PlantRole, RdbDone, RdbRole, Role};
use std::path::PathBuf;
use std::time::Duration;

/// Milliseconds of a second that are one percent.
const PERCENT_MS: f64 = 10.0;

/// How long a single row waits for others right behind it, where rows come as fast as they go.
const GATHER_US: u64 = 20;

/// Tickerplant and RDB, with the parameters of the kdb+tick throughput study
///
/// Cases `tick.rN`: updates of N rows reach the plant by a plan, 1,000 a second unless said; `tplog` is the time to check and
/// log one, `tppub` to publish it, `rdbrecv` from when it was due at the plant to when the RDB has it, `rdbupd` to insert it.
/// `tick.r100.x50`: with 50 extra columns of floats; `tick.r100.s10`: with ten subscribers, of which the first and the last count.
/// `tick.max`: a feed, plant and RDB as fast as they go together; updates wait up to 20 µs
/// for those right behind them (`single.each`: not at all). `tick.cpu`: the plant's share of a core, for single rows at
/// 10,000 a second (published as they come, on a timer of 100 ms, and logged on it too) and for 100 rows five times a
/// millisecond. `tick.restart`: an RDB that is begun behind a full day. What the RDB has is checked row by row.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Which cases
    #[arg(long, value_name = "CASES", value_delimiter = ',', default_value = "latency,max,cpu,restart")]
    cases: Vec<Case>,
    /// Runs of each case; the median counts
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Updates of a run; a fifth more before them do not count
    #[arg(long, value_name = "N", default_value = "2000", value_parser = count)]
    updates: u64,
    /// Time between updates
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = duration)]
    interval: Duration,
    /// Rows that go through as fast as they go
    #[arg(long, value_name = "COUNT", default_value = "4M", value_parser = count)]
    rows: u64,
    /// Rows that are there when the RDB is begun again
    #[arg(long, value_name = "COUNT", default_value = "10M", value_parser = count)]
    restart_rows: u64,
    /// Subscribers where there are many
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    subscribers: u32,
    /// How long the RDB and the plant's server look for messages before they sleep, in microseconds
    #[arg(long, value_name = "N", default_value_t = 0)]
    spin_us: u64,
    /// How they reach each other
    #[arg(long, value_name = "HOW", default_value = "tcp")]
    transport: Transport,
    /// Directory for the database, which is removed afterwards
    #[arg(long, value_name = "DIR", default_value = "bench.tapedb", value_parser = crate::remote::local)]
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

/// Runs the benchmark.
pub fn run(args: &Args, ui: &Ui) -> Result<Report, Failure> {
    let mut report = Report::new("tick");
    for run in 0..args.runs {
        ui.note(&format!("run {} of {}", run + 1, args.runs));
        for case in &args.cases {
            ui.check_interrupt()?;
            match case {
                Case::Latency => args.latency(&mut report)?,
                Case::Max => args.max(&mut report)?,
                Case::Cpu => args.cpu(&mut report)?,
                Case::Restart => args.restart(&mut report)?,
            }
        }
    }
    Ok(report)
}

impl Args {
    fn latency(&self, report: &mut Report) -> Result<(), Failure> {
        for (case, rows, extra, subscribers) in [
            ("tick.r1", 1, 0, 1),
            ("tick.r10", 10, 0, 1),
            ("tick.r100", 100, 0, 1),
            ("tick.r1000", 1000, 0, 1),
            ("tick.r100.x50", 100, 50, 1),
        ] {
            let (driven, done) = self.drive(rows, extra, subscribers)?;
            add(report, &format!("{case}.tplog"), &driven.log);
            add(report, &format!("{case}.tppub"), &driven.publish);
            done.iter().for_each(|done| {
                add(report, &format!("{case}.rdbrecv"), &done.receive);
                add(report, &format!("{case}.rdbupd"), &done.insert);
            });
        }
        let (driven, done) = self.drive(100, 0, self.subscribers)?;
        let case = format!("tick.r100.s{}", self.subscribers);
        add(report, &format!("{case}.tppub"), &driven.publish);
        let median = |done: &&RdbDone| done.receive.p50;
        if let (Some(first), Some(last)) = (done.iter().min_by_key(median), done.iter().max_by_key(median)) {
            add(report, &format!("{case}.rdbrecv.first"), &first.receive);
            add(report, &format!("{case}.rdbrecv.last"), &last.receive);
        }
        Ok(())
    }

    /// Updates by a plan, to so many subscribers.
    fn drive(&self, rows: u64, extra: usize, subscribers: u32) -> Result<(Driven, Vec<RdbDone>), Failure> {
        let skipped = self.updates / 5;
        let updates = self.updates + skipped;
        let interval_ns = self.interval.as_nanos() as u64;
        let drive = Drive { rows_per_update: rows, interval_ns, updates, skipped };
        let mut plant = self.plant(extra, Some(drive))?;
        let role = || RdbRole {
            url: plant.url.clone(),
            spin_us: self.spin_us,
            rows: updates * rows,
            rows_per_update: rows,
            skipped,
        };
        let mut rdbs = Worker::start_all((0..subscribers).map(|_| Task::Tick(Role::Rdb(role()))))?;
        rdbs.iter_mut().try_for_each(Worker::go)?;
        plant.worker.go()?;
        let driven = plant.worker.hear()?;
        let done = rdbs.iter_mut().map(Worker::hear).collect::<Result<_, _>>()?;
        Ok((driven, done))
    }

    fn max(&self, report: &mut Report) -> Result<(), Failure> {
        // Single rows are a tenth as fast, or so.
        for (case, rows_per_update, gather_us, rows) in [
            ("tick.max.single", 1, GATHER_US, self.rows),
            ("tick.max.single.each", 1, 0, self.rows / 8),
            ("tick.max.r100", 100, GATHER_US, self.rows),
        ] {
            let plant = self.plant(0, None)?;
            let rows = rows / rows_per_update * rows_per_update;
            let mut rdb = self.rdb(&plant, rows, rows_per_update)?;
            let pace = Pace { gather_us, ..Pace::FULL };
            let mut feed = self.feed(&plant, rows_per_update, pace, rows)?;
            rdb.go()?;
            feed.go()?;
            let (fed, done): (FeedDone, RdbDone) = (feed.hear()?, rdb.hear()?);
            let rate = |ended: u64| rows as f64 * 1e9 / ended.saturating_sub(fed.began_ns).max(1) as f64;
            report.add(case, "rows received", "rows/s", rate(done.ended_ns));
            report.add(case, "rows acknowledged", "rows/s", rate(fed.ended_ns));
        }
        Ok(())
    }

    fn cpu(&self, report: &mut Report) -> Result<(), Failure> {
        let ms = Duration::from_millis(1);
        for (case, rows_per_update, updates, interval, publish_every_ms) in [
            ("tick.cpu.single", 1, 1, ms / 10, 0),
            ("tick.cpu.publish", 1, 1, ms / 10, 100),
            ("tick.cpu.log", 1000, 1, ms * 100, 0),
            ("tick.cpu.r100x5", 100, 5, ms, 0),
        ] {
            let plant = self.plant_publishing(0, None, publish_every_ms)?;
            // As long as the updates of the other cases take.
            let ticks =
                (self.interval.as_nanos() * u128::from(self.updates) / interval.as_nanos()).max(1) as u64;
            let rows = ticks * updates * rows_per_update;
            let mut rdb = self.rdb(&plant, rows, rows_per_update)?;
            let interval_ns = interval.as_nanos() as u64;
            let pace = Pace { updates_per_tick: updates, interval_ns, gather_us: 0 };
            let mut feed = self.feed(&plant, rows_per_update, pace, rows)?;
            rdb.go()?;
            let before = plant.worker.cpu_ms();
            feed.go()?;
            let (fed, _): (FeedDone, RdbDone) = (feed.hear()?, rdb.hear()?);
            let seconds = fed.ended_ns.saturating_sub(fed.began_ns).max(1) as f64 / 1e9;
            let cpu_ms = plant.worker.cpu_ms() - before;
            report.add(case, "core", "%", cpu_ms / seconds / PERCENT_MS);
            report.add(case, "rate", "rows/s", rows as f64 / seconds);
        }
        Ok(())
    }

    fn restart(&self, report: &mut Report) -> Result<(), Failure> {
        let plant = self.plant(0, None)?;
        let rows = self.restart_rows / 1000 * 1000;
        let mut feed = self.feed(&plant, 1000, Pace::FULL, rows)?;
        feed.go()?;
        let _: FeedDone = feed.hear()?;
        let mut rdb = self.rdb(&plant, rows, 1000)?;
        rdb.go()?;
        let done: RdbDone = rdb.hear()?;
        let seconds = done.ended_ns.saturating_sub(done.began_ns).max(1) as f64 / 1e9;
        report.add("tick.restart", "rate", "rows/s", rows as f64 / seconds);
        Ok(())
    }

    fn plant(&self, extra_columns: usize, drive: Option<Drive>) -> Result<Planted, Failure> {
        self.plant_publishing(extra_columns, drive, 0)
    }

    /// Starts a plant over a new database.
    fn plant_publishing(
        &self,
        extra_columns: usize,
        drive: Option<Drive>,
        publish_every_ms: u64,
    ) -> Result<Planted, Failure> {
        if self.db.exists() {
            let path = self.db.display();
            let what = format!("{path} exists; remove it, or name another directory with --db");
            return Err(Failure::new(what));
        }
        let socket = super::remote::socket_of(&self.db);
        let (db, spin_us) = (self.db.clone(), self.spin_us);
        let role = PlantRole { db, socket, extra_columns, publish_every_ms, spin_us, drive };
        let mut worker = Worker::start(&Task::Tick(Role::Plant(role)), None)?;
        let addresses: Addresses = worker.hear()?;
        let url = match self.transport {
            Transport::Tcp => addresses.tcp,
            Transport::Uds => addresses.uds,
        };
        Ok(Planted { worker, url, path: self.db.clone() })
    }

    fn rdb(&self, plant: &Planted, rows: u64, rows_per_update: u64) -> Result<Worker, Failure> {
        let (url, spin_us) = (plant.url.clone(), self.spin_us);
        let role = RdbRole { url, spin_us, rows, rows_per_update, skipped: 0 };
        started(Role::Rdb(role))
    }

    fn feed(&self, plant: &Planted, rows_per_update: u64, pace: Pace, rows: u64) -> Result<Worker, Failure> {
        let Pace { updates_per_tick, interval_ns, gather_us } = pace;
        let url = plant.url.clone();
        started(Role::Feed(FeedRole { url, rows_per_update, updates_per_tick, interval_ns, gather_us, rows }))
    }
}

/// How a feed sends.
struct Pace {
    updates_per_tick: u64,
    interval_ns: u64,
    gather_us: u64,
}

impl Pace {
    /// As fast as it goes.
    const FULL: Self = Self { updates_per_tick: 1, interval_ns: 0, gather_us: 0 };
}

/// A plant that is running; its database goes with it.
struct Planted {
    worker: Worker,
    url: String,
    path: PathBuf,
}

impl Drop for Planted {
    fn drop(&mut self) {
        self.worker.end();
        let _ = std::fs::remove_dir_all(&self.path);
        let _ = std::fs::remove_file(super::remote::socket_of(&self.path));
    }
}

fn started(role: Role) -> Result<Worker, Failure> {
    let mut worker = Worker::start(&Task::Tick(role), None)?;
    worker.hear::<String>()?;
    Ok(worker)
}

fn add(report: &mut Report, case: &str, nanos: &Percentiles) {
    for (metric, nanos) in [("p50", nanos.p50), ("p99", nanos.p99), ("max", nanos.max)] {
        report.add(case, metric, "µs", nanos as f64 / 1000.0);
    }
}
