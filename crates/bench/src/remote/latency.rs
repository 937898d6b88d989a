//! Latency of messages through a durable stream or a topic at a given rate, counted from when each was due.

use super::common::Common;
use super::floor;
use super::jobs::{connect, connected};
use super::percentiles::{Latencies, add_one, histogram, latencies, wait_until};
use super::serving::Serving;
use super::transport::Transport;
use crate::content::fields_of;
use crate::fields::Fields;
use crate::pool::{Tally, compare, plus};
use crate::report::Report;
use crate::series::{self, Series};
use crate::svg::Scale;
use crate::topic::study::Study;
use crate::worker::{Job, Worker, now_ns, ready, send};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;
use tapedb_client::Client;
use tapedb_codec::SchemaBuilder;
use tapedb_engine::{Cursor, Loader, StreamOptions};
use tapedb_market::Bar;
use tapedb_market::bars::{Bars, BarsConfig};
use tapedb_schema::Timestamp;
use tapedb_terminal::{
    Failure, Ui,
    awake::AwakeArgs,
    quantity::{count, duration},
};

const STREAM: &str = "live";

/// Maximum of the first period, whose messages do not count: pages are touched and caches are filled for the first time.
const WARM_UP_MAX: Duration = Duration::from_secs(1);

/// Latency of a durable live stream, or of a topic, at a given rate
///
/// --mode topic is the study of 25 exchanges with 10 contracts each (level-2 books, 50 by 50): each exchange publishes to one
/// topic, one consumer records a histogram, both spin on a processor of their own; --copy also writes the topic to a durable stream.
///
/// Each message carries the time at which it is due, by a schedule that waits for nothing; its latency counts from then until the
/// consumer has decoded every field, so a stall counts for every message that it delays. Producers are loaders of one process,
/// which uses them in turn by one schedule, over one connection or, in the cases that end in `.connectionsN`, over N. The consumer
/// is a process. By default server and consumer sleep until a message arrives (`sleep`); with `spin` they poll for --spin-us before
/// they sleep, which costs a core each. `floor` is the limit of the machine: one producer, a relay that appends to a file and
/// forwards, one consumer, and no database.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Transport of the messages
    #[arg(long, value_name = "MODE", default_value = "stream")]
    mode: Mode,
    /// Also write the topic to a durable stream
    #[arg(long)]
    copy: bool,
    /// Report the percentiles of each such interval of a topic's run
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    interval: Duration,
    /// File for the distribution of a topic's run, for HdrHistogram's plotter
    #[arg(long, value_name = "FILE")]
    hdr: Option<PathBuf>,
    /// Producers
    #[arg(long, value_name = "N", default_value_t = 25, value_parser = clap::value_parser!(u32).range(1..=1000))]
    producers: u32,
    /// Messages a second of all producers together
    #[arg(long, value_name = "N", default_value = "50k", value_parser = count)]
    rate: u64,
    /// Duration of each run
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    time: Duration,
    /// How server and consumer wait
    #[arg(long, value_name = "HOW,…", value_delimiter = ',', default_value = "sleep,spin")]
    wait: Vec<Wait>,
    /// Microseconds that they spin
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    spin_us: u64,
    /// Connections that the producers share; more than one are cases of their own (`….connectionsN`)
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,25", value_parser = clap::value_parser!(u32).range(1..=64))]
    connections: Vec<u32>,
    /// Also measure with this many live cursors that read nothing, over ten connections
    #[arg(long, value_name = "N", default_value_t = 0)]
    idle_cursors: u32,
    #[command(flatten)]
    awake: AwakeArgs,
    #[command(flatten)]
    common: Common,
}

impl Args {
    /// The first period, which does not count; not longer than the run itself.
    fn warm_up(&self) -> Duration {
        self.time.min(WARM_UP_MAX)
    }

    /// Whether processors are kept awake during the run.
    pub fn keeps_awake(&self) -> bool {
        self.awake.keep_awake
    }
}

/// How server and consumer wait for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Wait {
    /// Asleep, the default.
    Sleep,
    /// Spinning.
    Spin,
}

/// Transport of the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Mode {
    /// A durable stream of a server.
    Stream,
    /// A topic.
    Topic,
    /// Both, one after the other.
    Both,
}

/// Appends messages by a schedule.
#[derive(Debug, Serialize, Deserialize)]
pub struct Pace {
    url: String,
    producers: u32,
    connections: u32,
    /// Nanoseconds between two messages of all producers.
    interval_ns: u64,
    messages: u64,
}

/// Opens live cursors that read nothing.
#[derive(Debug, Serialize, Deserialize)]
pub struct Idle {
    url: String,
    cursors: u32,
}

impl Job for Idle {
    const NAME: &'static str = "Idle";

    /// Opens live cursors; at the end reads all messages with one of them, and reports them.
    fn run(self, _: &Ui) -> Result<(), Failure> {
        let stream = connect(&self.url)?.stream(STREAM)?;
        let open = |_| stream.cursor().live().open();
        let mut cursors: Vec<Cursor> = (0..self.cursors).map(open).collect::<Result<_, _>>()?;
        ready()?;
        let mut found = Tally::default();
        if let Some(cursor) = cursors.last_mut() {
            while let Some(message) = cursor.next_within(Duration::from_secs(1))? {
                found.add(message.time(), fields_of::<Bar>(&message));
            }
        }
        send(&found)
    }
}

/// Measures the latency of messages as they arrive.
#[derive(Debug, Serialize, Deserialize)]
pub struct Listen {
    url: String,
    messages: u64,
    /// First messages, which do not count.
    skipped: u64,
    /// How long it spins before it sleeps, in microseconds.
    spin_us: u64,
}

/// Runs the benchmark.
pub fn run(args: &Args, ui: &Ui) -> Result<Report, Failure> {
    let mut report = args.common.report("latency")?;
    for run in 0..args.common.runs {
        ui.note(&format!("run {} of {}", run + 1, args.common.runs));
        if args.mode != Mode::Stream {
            through_topic(args, &mut report, ui)?;
        }
        if args.mode == Mode::Topic {
            continue;
        }
        let sockets = args.common.transport.iter().filter(|transport| **transport != Transport::Shm);
        for transport in sockets {
            ui.check_interrupt()?;
            add_one(
                &mut report,
                &format!("latency.floor.{}", transport.name()),
                &floor_of(args, *transport)?,
            );
        }
        for wait in &args.wait {
            let (spin_us, how) = match wait {
                Wait::Sleep => (0, ""),
                Wait::Spin => (args.spin_us, ".spin"),
            };
            let serving = args.common.serve_spinning(spin_us)?;
            for transport in &args.common.transport {
                let case = format!("latency.stream.{}{how}", transport.name());
                for connections in &args.connections {
                    ui.check_interrupt()?;
                    let how = How { transport: *transport, spin_us, connections: *connections };
                    add(&mut report, &how.case(&case), measure(args, &serving, how, None)?);
                }
                if args.idle_cursors > 0 {
                    let case = format!("{case}.idle{}", args.idle_cursors);
                    let idle = IdleCursors::before(args, &serving, *transport);
                    let how = How { transport: *transport, spin_us, connections: 1 };
                    let measured = measure(args, &serving, how, Some(&idle))?;
                    let kib = idle.kib_each(&measured);
                    report.add(&case, "server memory", "KiB/cursor", kib);
                    add(&mut report, &case, measured);
                }
            }
        }
    }
    if args.mode == Mode::Topic {
        // The plot was written by the run.
        return Ok(report);
    }
    let mut bars = report.bars("p50", Some("p99"));
    bars.retain(|bar| !bar.label.ends_with(".sent"));
    args.common.draw("Latency of a durable stream, µs: median, and up to p99", Scale::Powers, &bars)?;
    Ok(report)
}

/// One run through a topic.
fn through_topic(args: &Args, report: &mut Report, ui: &Ui) -> Result<(), Failure> {
    let Args { producers: feeds, rate, time, copy, .. } = *args;
    let study = Study { feeds, rate: rate.max(1), time, warm_up: args.warm_up(), copy };
    let (mut series, copied) = study.run(args.common.db(), Series::new(args.interval)?)?;
    series.finish();
    let case = if copy { "latency.topic.copy" } else { "latency.topic" };
    for ((name, _), nanos) in series::PERCENTILES.iter().zip(series.values()) {
        report.add(case, name, "µs", nanos as f64 / 1000.0);
    }
    report.add(case, "mean", "µs", series.mean() / 1000.0);
    if let Some(copied) = copied {
        report.add(case, "copied", "messages", copied.copied as f64);
        report.add(case, "missed", "messages", copied.missed as f64);
    }
    ui.note(&series.table());
    if let Some(path) = &args.hdr {
        series.write_hdr(path)?;
    }
    match args.common.svg.as_deref().filter(|_| args.mode == Mode::Topic) {
        Some(path) => {
            series.write_svg(path, &format!("{case}: {feeds} feeds, {rate} messages/s, one-way latency"))
        }
        None => Ok(()),
    }
}

/// Live cursors that read nothing, in worker processes.
struct IdleCursors {
    cursors: u32,
    url: String,
    /// Memory of the server before, in bytes.
    server_bytes: u64,
}

impl IdleCursors {
    /// Processes that share the cursors.
    const PROCESSES: u32 = 10;

    fn before(args: &Args, serving: &Serving, transport: Transport) -> Self {
        let (cursors, url) = (args.idle_cursors, serving.url(transport).to_string());
        Self { cursors, url, server_bytes: serving.resident_bytes() }
    }

    /// Opens the cursors, with one connection per process.
    fn open(&self) -> Result<Vec<Worker>, Failure> {
        let share = |process| (self.cursors + process) / Self::PROCESSES;
        let shares = (0..Self::PROCESSES).map(share).filter(|cursors| *cursors > 0);
        Worker::start_all(shares.map(|cursors| Idle { url: self.url.clone(), cursors }))
    }

    fn kib_each(&self, measured: &Measured) -> f64 {
        let grown = measured.server_bytes.saturating_sub(self.server_bytes);
        grown as f64 / 1024.0 / f64::from(self.cursors)
    }
}

/// Lateness of sending, latency at the consumer, and memory of the server at the end.
struct Measured {
    sent: Latencies,
    received: Latencies,
    server_bytes: u64,
}

/// Nanoseconds between two messages; their number, and how many of them do not count.
fn plan(args: &Args) -> (u64, (u64, u64)) {
    let rate = args.rate.max(1);
    let in_time = |time: Duration| time.as_millis() as u64 * rate / 1000;
    (1_000_000_000 / rate, (in_time(args.time + args.warm_up()), in_time(args.warm_up())))
}

/// The limit of the machine.
fn floor_of(args: &Args, transport: Transport) -> Result<Latencies, Failure> {
    let (interval_ns, counts) = plan(args);
    floor::measure(args.common.db(), transport, interval_ns, counts)
}

/// How producers and consumer reach the server.
#[derive(Debug, Clone, Copy)]
struct How {
    transport: Transport,
    /// How long the consumer spins, in microseconds.
    spin_us: u64,
    /// Of all producers.
    connections: u32,
}

impl How {
    /// The case, with a suffix for more than one connection.
    fn case(self, case: &str) -> String {
        match self.connections {
            1 => case.into(),
            connections => format!("{case}.connections{connections}"),
        }
    }
}

fn measure(
    args: &Args,
    serving: &Serving,
    how: How,
    idle: Option<&IdleCursors>,
) -> Result<Measured, Failure> {
    let db = serving.connect()?;
    let schema = SchemaBuilder::new().with::<Bar>().finish();
    db.create_stream(STREAM, schema, StreamOptions::default())?;
    let How { transport, spin_us, connections } = how;
    let url = serving.url(transport).to_string();
    let (interval_ns, (messages, skipped)) = plan(args);
    let listen = Listen { url: url.clone(), messages, skipped, spin_us };
    let pace = Pace { url, producers: args.producers, connections, interval_ns, messages };
    let idle = idle.map(IdleCursors::open).transpose()?;
    let mut consumer = Worker::start_all([listen])?;
    let mut producer = Worker::start_all([pace])?;
    consumer[0].go()?;
    producer[0].go()?;
    let sent: Latencies = producer[0].receive()?;
    let received: Latencies = consumer[0].receive()?;
    compare(sent.tally, received.tally)?;
    let server_bytes = serving.resident_bytes();
    // Idle cursors still find all messages: nothing is lost.
    for mut worker in idle.into_iter().flatten() {
        worker.go()?;
        compare(sent.tally, worker.receive()?)?;
    }
    db.delete_stream(STREAM)?;
    Ok(Measured { sent, received, server_bytes })
}

fn add(report: &mut Report, case: &str, measured: Measured) {
    add_one(report, case, &measured.received);
    add_one(report, &format!("{case}.sent"), &measured.sent);
}

impl Job for Pace {
    const NAME: &'static str = "Pace";

    /// Appends by the schedule: the producers in turn, each message sent alone and without waiting for it. Reports how late the
    /// messages were sent.
    fn run(self, _: &Ui) -> Result<(), Failure> {
        let mut loaders: Vec<Loader> = Vec::new();
        let client = Client::at(&self.url).connections(self.connections as usize);
        let stream = connected(client)?.stream(STREAM)?;
        for _ in 0..self.producers {
            loaders.push(stream.loader()?);
        }
        let mut bars = Bars::new(BarsConfig { symbols: 250, ..BarsConfig::default() });
        let (mut late, mut sent) = (histogram()?, Tally::default());
        // If the system allows it, a sleep ends on time and not up to 50 µs later.
        let _ = std::fs::write("/proc/self/timerslack_ns", "1");
        let began = ready()? + 10_000_000;
        for number in 0..self.messages {
            let due = began + number * self.interval_ns;
            let message = bars.next();
            sent.add(Timestamp(due as i64), message.bar.fold(plus));
            wait_until(due);
            let loader = &mut loaders[number as usize % self.producers as usize];
            late.saturating_record(now_ns().saturating_sub(due));
            loader.append(message.symbol, Timestamp(due as i64), message.bar)?;
            loader.send()?;
        }
        loaders.iter_mut().try_for_each(|loader| loader.flush().map(drop))?;
        send(&latencies(&late, sent))
    }
}

impl Job for Listen {
    const NAME: &'static str = "Listen";

    /// Decodes messages as they arrive, and then reads the clock; reports the latencies and the sum of all fields.
    fn run(self, _: &Ui) -> Result<(), Failure> {
        let client = Client::at(&self.url).spin(Duration::from_micros(self.spin_us));
        let stream = connected(client)?.stream(STREAM)?;
        let mut cursor = stream.cursor().live().open()?;
        let (mut latency, mut received) = (histogram()?, Tally::default());
        ready()?;
        for number in 0..self.messages {
            let Some(message) = cursor.next_within(Duration::from_secs(30))? else {
                return Err(Failure::new(format!("no message for 30 s after {number} messages")));
            };
            received.add(message.time(), fields_of::<Bar>(&message));
            let now = now_ns();
            if number >= self.skipped {
                latency.saturating_record(now.saturating_sub(message.time().0 as u64));
            }
        }
        send(&latencies(&latency, received))
    }
}
