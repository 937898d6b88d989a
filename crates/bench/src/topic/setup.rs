//! Arguments, topic, cores and clock of the benchmark.

use crate::report::Report;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tapedb_codec::{Record, SchemaBuilder};
use tapedb_shm::ticks;
use tapedb_terminal::Failure;
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
    pub only: String,
    /// Runs of each case; the median counts
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub runs: u32,
    /// Approximate duration of each run of a case
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = tapedb_terminal::quantity::duration)]
    pub time: Duration,
    /// Size of the ring
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = tapedb_terminal::quantity::size)]
    pub ring: u64,
    /// Folder for the topic, instead of memory
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,
}

/// Measures a case.
pub type Work = Box<dyn Fn(&Args, &str, &mut Report) -> Result<(), Failure>>;

/// A topic that is removed at the end.
pub struct Bench {
    pub topic: Topic,
    pub folder: Folder,
    pub name: String,
}

impl Bench {
    /// Creates the topic.
    pub fn new<T: Record>(args: &Args) -> Result<Self, Failure> {
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
pub fn pin(nth: usize) {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    // If the system refuses, the benchmark runs without pinning.
    let _ = tapedb_shm::pin_to_core(nth % processors);
}

/// A clock that is cheap to read.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    began: Instant,
    /// Nanoseconds of a tick; 0 if the processor has no tick counter.
    tick_ns: f64,
}

impl Clock {
    /// Measures the length of a tick.
    pub fn new() -> Self {
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
    pub fn now(&self) -> u64 {
        ticks().unwrap_or_else(|| self.began.elapsed().as_nanos() as u64)
    }

    /// Nanoseconds of a span of the clock.
    pub fn nanos(&self, span: u64) -> f64 {
        if self.tick_ns == 0.0 { span as f64 } else { span as f64 * self.tick_ns }
    }

    /// The span of the clock for nanoseconds.
    pub fn span(&self, nanos: f64) -> f64 {
        if self.tick_ns == 0.0 { nanos } else { nanos / self.tick_ns }
    }
}
