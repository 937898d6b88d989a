//! How late messages come through a durable stream, or a topic, at a given rate, from when they should have been sent.

use super::serving::{Serving, connect, connected};
use super::worker::{Task, Worker, now_ns, ready, say};
use super::{Common, Transport};
use crate::content::fields_of;
use crate::fields::Fields;
use crate::pool::{Tally, compare, plus};
use crate::report::Report;
use crate::series::{self, Series};
use crate::svg::Scale;
use crate::topic::study::Study;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::thread;
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

/// Messages of the first part of a run do not count: pages are touched and caches filled for the first time.
const WARM_UP: Duration = Duration::from_secs(1);

/// The largest latency told apart, in nanoseconds: a minute.
const LATENCY_MAX_NS: u64 = 60_000_000_000;

/// A pacer sleeps until so long before the next message is due, then looks at the clock: it may not be late itself.
const SPIN_NS: u64 = 100_000;

/// Latency of a durable live stream, or of a topic, at a given rate
///
/// --mode topic is the study of 25 exchanges with 10 contracts each (level-2 books, 50 by 50): each exchange publishes to one
/// topic, one consumer keeps a histogram, both spin on a processor of their own; --copy keeps a durable stream of it.
///
/// Each message carries the time at which it should have been sent, by a plan that does not wait for anything; how late
/// the consumer has decoded it, every field, counts from then, so that what a stall holds up is counted in full. Producers
/// are loaders of one process, which plays them in turn by one plan, over one connection or, in the cases that end in
/// `.connectionsN`, N of them. The consumer is a process. By default server and consumer sleep until something comes (`sleep`);
/// `spin` is low latency at the price of a core each: they look again and again for --spin-us before they sleep. `floor` is
/// what the machine allows: one producer, a relay that appends to a file and passes on, one consumer, and no database.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What messages go through
    #[arg(long, value_name = "MODE", default_value = "stream")]
    mode: Mode,
    /// Keep a carbon copy of the topic meanwhile
    #[arg(long)]
    copy: bool,
    /// Tell the percentiles of each such part of a topic's run
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
    /// How long each run takes
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
    /// Also with so many live cursors that read nothing meanwhile, over ten connections
    #[arg(long, value_name = "N", default_value_t = 0)]
    idle_cursors: u32,
    #[command(flatten)]
    awake: AwakeArgs,
    #[command(flatten)]
    common: Common,
}

impl Args {
    /// Whether processors are kept awake meanwhile.
    pub fn keeps_awake(&self) -> bool {
        self.awake.keep_awake
    }
}

/// How server and consumer wait for something to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Wait {
    /// Asleep, as they do unless told otherwise.
    Sleep,
    /// Spinning.
    Spin,
}

/// What messages go through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Mode {
    /// A durable stream of a server.
    Stream,
    /// A topic.
    Topic,
    /// One after the other.
    Both,
}

/// What a process with producers is told.
#[derive(Debug, Serialize, Deserialize)]
pub struct Pacing {
    url: String,
    producers: u32,
    connections: u32,
    /// Nanoseconds between two messages, of whichever producer.
    interval_ns: u64,
    messages: u64,
}

/// What a process with idle cursors is told.
#[derive(Debug, Serialize, Deserialize)]
pub struct Idling {
    url: String,
    cursors: u32,
}

impl Idling {
    /// Opens live cursors, and in the end reads all with one of them; says what that was.
    pub fn run(self) -> Result<(), Failure> {
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
        say(&found)
    }
}

/// What a process with a consumer is told.
#[derive(Debug, Serialize, Deserialize)]
pub struct Listening {
    url: String,
    messages: u64,
    /// Messages at the beginning that do not count.
    skipped: u64,
    /// How long it spins before it sleeps.
    spin_us: u64,
}

/// Percentiles, in nanoseconds.
#[derive(Debug, Serialize, Deserialize)]
pub struct Latencies {
    /// What was sent, or came.
    pub(super) tally: Tally,
    mean: f64,
    values: Vec<u64>,
}

const PERCENTILES: [(&str, f64); 6] =
    [("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("p99.9", 99.9), ("p99.99", 99.99), ("max", 100.0)];

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
            add_one(&mut report, &format!("latency.floor.{}", transport.name()), &floor(args, *transport)?);
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
                    let idle = Idle::before(args, &serving, *transport);
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
        // Its picture is that of the run.
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
    let study = Study { feeds, rate: rate.max(1), time, warm_up: WARM_UP, copy };
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

/// Live cursors that read nothing.
struct Idle {
    cursors: u32,
    url: String,
    /// What the server had in memory before, in bytes.
    server_bytes: u64,
}

impl Idle {
    /// Processes that share the cursors.
    const PROCESSES: u32 = 10;

    fn before(args: &Args, serving: &Serving, transport: Transport) -> Self {
        let (cursors, url) = (args.idle_cursors, serving.url(transport).to_string());
        Self { cursors, url, server_bytes: serving.resident_bytes() }
    }

    /// Opens them, each process a connection.
    fn open(&self) -> Result<Vec<Worker>, Failure> {
        let share = |process| (self.cursors + process) / Self::PROCESSES;
        let shares = (0..Self::PROCESSES).map(share).filter(|cursors| *cursors > 0);
        Worker::start_all(shares.map(|cursors| Task::Idle(Idling { url: self.url.clone(), cursors })))
    }

    fn kib_each(&self, measured: &Measured) -> f64 {
        let grown = measured.server_bytes.saturating_sub(self.server_bytes);
        grown as f64 / 1024.0 / f64::from(self.cursors)
    }
}

/// How late messages were sent, how late they came, and what the server had in memory at the end.
struct Measured {
    late: Latencies,
    heard: Latencies,
    server_bytes: u64,
}

/// Nanoseconds between two messages; how many there are, and how many of them do not count.
fn plan(args: &Args) -> (u64, (u64, u64)) {
    let rate = args.rate.max(1);
    let in_time = |time: Duration| time.as_millis() as u64 * rate / 1000;
    (1_000_000_000 / rate, (in_time(args.time + WARM_UP), in_time(WARM_UP)))
}

/// What the machine allows.
fn floor(args: &Args, transport: Transport) -> Result<Latencies, Failure> {
    let (interval_ns, counts) = plan(args);
    super::floor::measure(args.common.db(), transport, interval_ns, counts)
}

/// How producers and consumer reach the server.
#[derive(Debug, Clone, Copy)]
struct How {
    transport: Transport,
    /// How long the consumer spins.
    spin_us: u64,
    /// Of all producers.
    connections: u32,
}

impl How {
    /// The case, named after the connections where they are more than one.
    fn case(self, case: &str) -> String {
        match self.connections {
            1 => case.into(),
            connections => format!("{case}.connections{connections}"),
        }
    }
}

fn measure(args: &Args, serving: &Serving, how: How, idle: Option<&Idle>) -> Result<Measured, Failure> {
    let db = serving.connect()?;
    let schema = SchemaBuilder::new().with::<Bar>().finish();
    db.create_stream(STREAM, schema, StreamOptions::default())?;
    let How { transport, spin_us, connections } = how;
    let url = serving.url(transport).to_string();
    let (interval_ns, (messages, skipped)) = plan(args);
    let listening = Listening { url: url.clone(), messages, skipped, spin_us };
    let pacing = Pacing { url, producers: args.producers, connections, interval_ns, messages };
    let idle = idle.map(Idle::open).transpose()?;
    let mut consumer = Worker::start_all([Task::Listen(listening)])?;
    let mut producer = Worker::start_all([Task::Pace(pacing)])?;
    consumer[0].go()?;
    producer[0].go()?;
    let late: Latencies = producer[0].hear()?;
    let heard: Latencies = consumer[0].hear()?;
    compare(late.tally, heard.tally)?;
    let server_bytes = serving.resident_bytes();
    // What idle cursors have not read is there for them: nothing is lost.
    for mut worker in idle.into_iter().flatten() {
        worker.go()?;
        compare(late.tally, worker.hear()?)?;
    }
    db.delete_stream(STREAM)?;
    Ok(Measured { late, heard, server_bytes })
}

fn add(report: &mut Report, case: &str, measured: Measured) {
    add_one(report, case, &measured.heard);
    add_one(report, &format!("{case}.sent"), &measured.late);
}

fn add_one(report: &mut Report, case: &str, latencies: &Latencies) {
    for ((name, _), nanos) in PERCENTILES.iter().zip(&latencies.values) {
        report.add(case, name, "µs", *nanos as f64 / 1000.0);
    }
    report.add(case, "mean", "µs", latencies.mean / 1000.0);
}

impl Pacing {
    /// Appends by plan: the producers in turn, each message sent on its own and not waited for. Says how late they were sent.
    pub fn run(self) -> Result<(), Failure> {
        let mut loaders: Vec<Loader> = Vec::new();
        let client = Client::at(&self.url).connections(self.connections as usize);
        let stream = connected(client)?.stream(STREAM)?;
        for _ in 0..self.producers {
            loaders.push(stream.loader()?);
        }
        let mut bars = Bars::new(BarsConfig { symbols: 250, ..BarsConfig::default() });
        let (mut late, mut sent) = (histogram()?, Tally::default());
        // Where the system lets us, a sleep ends when it should, and not up to 50 µs later.
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
        say(&latencies(&late, sent))
    }
}

impl Listening {
    /// Decodes messages as they come, and then takes the time; says how late they were, and what all fields add up to.
    pub fn run(self) -> Result<(), Failure> {
        let client = Client::at(&self.url).spin(Duration::from_micros(self.spin_us));
        let stream = connected(client)?.stream(STREAM)?;
        let mut cursor = stream.cursor().live().open()?;
        let (mut heard, mut came) = (histogram()?, Tally::default());
        ready()?;
        for number in 0..self.messages {
            let Some(message) = cursor.next_within(Duration::from_secs(30))? else {
                return Err(Failure::new(format!("nothing came for 30 s after {number} messages")));
            };
            came.add(message.time(), fields_of::<Bar>(&message));
            let now = now_ns();
            if number >= self.skipped {
                heard.saturating_record(now.saturating_sub(message.time().0 as u64));
            }
        }
        say(&latencies(&heard, came))
    }
}

pub(super) fn wait_until(due: u64) {
    loop {
        let now = now_ns();
        match due.checked_sub(now) {
            None | Some(0) => return,
            Some(left) if left > SPIN_NS => thread::sleep(Duration::from_nanos(left - SPIN_NS)),
            // Server and consumer may need this core.
            Some(_) => thread::yield_now(),
        }
    }
}

pub(super) fn histogram() -> Result<Histogram<u64>, Failure> {
    Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3).map_err(|error| Failure::new(error.to_string()))
}

pub(super) fn latencies(histogram: &Histogram<u64>, tally: Tally) -> Latencies {
    let values = PERCENTILES.iter().map(|(_, percentile)| histogram.value_at_percentile(*percentile));
    Latencies { tally, mean: histogram.mean(), values: values.collect() }
}
