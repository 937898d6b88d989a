//! Topics: one-way latency at a given rate, messages a second, and the stall after a killed subscriber; each thread on its own
//! processor if there are enough.

pub mod killed;
mod latency;
mod records;
pub mod study;
mod throughput;

use super::report::Report;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tapedb_codec::{Record, SchemaBuilder};
use tapedb_shm::ticks;
use tapedb_terminal::{Failure, Ui};
use tapedb_topic::{Delivery, Folder, Topic, TopicOptions};

/// Topics: latency and throughput between threads of one process
///
/// Publishers and subscribers spin, each pinned to a processor. Latency counts from the due time of a message until its subscriber
/// has decoded every word, by the processors' clock; throughput is without loss. The sum of all words received must equal that of
/// all words sent. `topic.killed` is the longest time without a publication when a subscriber, a separate process, is killed.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only the case of this name or, if there is none, the cases with it in their names, for example latency.40
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// Runs of each case; the median counts
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Approximate duration of each run of a case
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = tapedb_terminal::quantity::duration)]
    time: Duration,
    /// Size of the ring
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = tapedb_terminal::quantity::size)]
    ring: u64,
    /// Folder for the topic, instead of memory
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
}

/// Runs the benchmark.
pub fn run(args: &Args, ui: &Ui) -> Result<Report, Failure> {
    let mut report = Report::new("topic");
    let mut chosen = cases();
    let is_one = chosen.iter().any(|(case, _)| *case == args.only);
    chosen.retain(|(case, _)| if is_one { *case == args.only } else { case.contains(&args.only) });
    if chosen.is_empty() {
        return Err(Failure::usage(format!(
            "no case has {:?} in its name; omit --only to run all",
            args.only
        )));
    }
    for run in 0..args.runs {
        ui.note(&format!("run {} of {}", run + 1, args.runs));
        for (case, work) in &chosen {
            ui.check_interrupt()?;
            work(args, case, &mut report)?;
        }
    }
    Ok(report)
}

/// Measures a case.
type Work = Box<dyn Fn(&Args, &str, &mut Report) -> Result<(), Failure>>;

fn cases() -> Vec<(String, Work)> {
    let mut cases: Vec<(String, Work)> = Vec::new();
    for (name, rate) in [("50k", 50_000), ("1m", 1_000_000)] {
        cases.push((
            format!("topic.latency.40.{name}"),
            Box::new(latency::run::<records::Body40>(rate, true)),
        ));
        cases.push((
            format!("topic.latency.256.{name}"),
            Box::new(latency::run::<records::Body256>(rate, true)),
        ));
    }
    let shared = latency::run::<records::Body40>(50_000, false);
    cases.push(("topic.latency.40.50k.shared".into(), Box::new(shared)));
    let how = throughput::How::default();
    for (size, work) in throughput::sizes() {
        for (name, batch) in [("single", 1), ("batched", BATCH)] {
            let how = throughput::How { batch, ..how };
            cases.push((
                format!("topic.throughput.{size}.{name}"),
                Box::new(move |args, case, report| work(args, case, report, how)),
            ));
        }
    }
    for publishers in 1..=4 {
        let how = throughput::How { publishers, shared: true, ..how };
        cases.push((format!("topic.publishers.{publishers}"), throughput::of_40(how)));
    }
    for subscribers in 1..=4 {
        let how = throughput::How { subscribers, ..how };
        cases.push((format!("topic.subscribers.{subscribers}"), throughput::of_40(how)));
    }
    cases.push(("topic.killed".into(), Box::new(killed::run)));
    cases
}

/// Messages of a batch: as many records of 40 bytes as rivals get into one message of theirs (Aeron's takes 1,376 bytes).
const BATCH: u64 = 32;

/// A topic that is removed at the end.
struct Bench {
    topic: Topic,
    folder: Folder,
    name: String,
}

impl Bench {
    fn new<T: Record>(args: &Args) -> Result<Self, Failure> {
        let folder = args.folder.as_ref().map_or_else(Folder::shared, Folder::at);
        let name = format!("bench-{}", std::process::id());
        let schema = SchemaBuilder::new().with::<T>().finish();
        let options =
            TopicOptions { delivery: Delivery::Reliable, ring_bytes: args.ring, ..TopicOptions::default() };
        let topic = Topic::create(&folder, &name, &schema, &options)?;
        Ok(Self { topic, folder, name })
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = Topic::delete(&self.folder, &self.name);
    }
}

/// Pins the thread to the nth processor, modulo their number.
fn pin(nth: usize) {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    // If the system refuses, the benchmark runs without pinning.
    let _ = tapedb_shm::pin_to_core(nth % processors);
}

/// A clock that is cheap to read.
#[derive(Debug, Clone, Copy)]
struct Clock {
    began: Instant,
    /// Nanoseconds of a tick; 0 if the processor has no tick counter.
    tick_ns: f64,
}

impl Clock {
    fn new() -> Self {
        let (began, first) = (Instant::now(), ticks());
        while began.elapsed() < Duration::from_millis(20) {
            std::hint::spin_loop();
        }
        let (elapsed, last) = (began.elapsed(), ticks());
        let passed = first.zip(last).map(|(first, last)| last.wrapping_sub(first).max(1));
        Self { began, tick_ns: passed.map_or(0.0, |passed| elapsed.as_nanos() as f64 / passed as f64) }
    }

    /// The time in ticks, or in nanoseconds without a tick counter.
    #[inline(always)]
    fn now(&self) -> u64 {
        ticks().unwrap_or_else(|| self.began.elapsed().as_nanos() as u64)
    }

    fn nanos(&self, span: u64) -> f64 {
        if self.tick_ns == 0.0 { span as f64 } else { span as f64 * self.tick_ns }
    }

    fn span(&self, nanos: f64) -> f64 {
        if self.tick_ns == 0.0 { nanos } else { nanos / self.tick_ns }
    }
}
