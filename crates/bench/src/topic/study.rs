//! The study: many feeds of level-2 books into one topic at a given rate, and one consumer that records a histogram; with and
//! without a durable copy.

use super::latency::{joined, lost};
use super::setup::{Clock, pin};
use crate::fields::Fields;
use crate::pool::{Tally, compare, plus};
use crate::series::Series;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tapedb_codec::{SchemaBuilder, view_trusted};
use tapedb_engine::{Database, Retention, StreamOptions};
use tapedb_market::Package;
use tapedb_market::feed::{Feed, FeedConfig};
use tapedb_schema::Timestamp;
use tapedb_terminal::Failure;
use tapedb_topic::{Delivery, Folder, Publisher, Sent, Subscriber, Topic, TopicOptions, Waiting};
use tapedb_topic_copy::{CopyOptions, CopyProgress, TopicCopy};

const TOPIC: &str = "latency";
/// More than a second of the feeds.
const RING_BYTES: u64 = 32 << 20;
/// Contracts of a feed.
const CONTRACTS: u32 = 10;
/// How long the durable stream keeps messages.
const RETENTION: Duration = Duration::from_secs(15 * 60);
/// A consumer fails after this time without a message.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Parameters of the study.
#[derive(Debug, Clone, Copy)]
pub struct Study {
    /// Feeds: exchanges of ten contracts, each with a publisher.
    pub feeds: u32,
    /// Messages a second of all feeds together.
    pub rate: u64,
    /// Duration.
    pub time: Duration,
    /// The first period, which does not count.
    pub warm_up: Duration,
    /// Whether the topic is also copied to a stream.
    pub copy: bool,
}

/// The processors' clock as calendar time: messages have times that other processes understand.
#[derive(Debug, Clone, Copy)]
struct Calendar {
    clock: Clock,
    ticks: u64,
    nanos: u64,
}

impl Calendar {
    fn new() -> Self {
        let clock = Clock::new();
        let nanos = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
        Self { clock, ticks: clock.now(), nanos }
    }

    #[inline(always)]
    fn now(&self) -> u64 {
        self.nanos + self.clock.nanos(self.clock.now() - self.ticks) as u64
    }
}

impl Study {
    /// Runs the study; the copy is in a database at `path`, which is removed at the end. Returns the latencies of all messages, and
    /// the progress of the copy.
    pub fn run(&self, path: &Path, series: Series) -> Result<(Series, Option<CopyProgress>), Failure> {
        if path.exists() {
            let path = path.display();
            return Err(Failure::new(format!(
                "{path} exists; remove it, or name another directory with --db"
            )));
        }
        let name = format!("{TOPIC}-{}", std::process::id());
        let schema = SchemaBuilder::new().with::<Package>().finish();
        let options =
            TopicOptions { delivery: Delivery::Reliable, ring_bytes: RING_BYTES, ..TopicOptions::default() };
        let folder = Folder::shared();
        let topic = Topic::create(&folder, &name, &schema, &options)?;
        let done = self.run_on(&topic, path, series);
        drop(topic);
        let _ = Topic::delete(&folder, &name);
        let _ = std::fs::remove_dir_all(path);
        done
    }

    fn run_on(
        &self,
        topic: &Topic,
        path: &Path,
        series: Series,
    ) -> Result<(Series, Option<CopyProgress>), Failure> {
        let calendar = Calendar::new();
        let messages = ((self.time + self.warm_up).as_secs_f64() * self.rate as f64) as u64;
        let subscriber = topic.subscriber().waiting(Waiting::Spin).open()?;
        let copy = if self.copy { Some(open_copy(topic, path)?) } else { None };
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let copying = copy.map(|(db, copy)| scope.spawn(|| run_copy(db, copy, messages, &is_over)));
            let publishing = scope.spawn(|| self.publish(topic, calendar, messages));
            let listening = scope.spawn(move || self.listen(subscriber, calendar, messages, series));
            let published = joined(publishing.join());
            let listened = joined(listening.join());
            is_over.store(published.is_err() || listened.is_err(), Ordering::Relaxed);
            let copied = copying.map(|copying| joined(copying.join())).transpose();
            let (sent, (series, received)) = (published?, listened?);
            compare(sent, received)?;
            Ok((series, copied?))
        })
    }

    /// Publishes by a schedule, the feeds in turn.
    fn publish(&self, topic: &Topic, calendar: Calendar, messages: u64) -> Result<Tally, Failure> {
        pin(0);
        let config = FeedConfig {
            exchanges: self.feeds,
            contracts_per_exchange: CONTRACTS,
            messages_per_second: self.rate,
            ..FeedConfig::default()
        };
        let mut feed = Feed::new(config).map_err(|error| Failure::usage(error.to_string()))?;
        let mut publishers: Vec<Publisher> =
            (0..self.feeds).map(|_| topic.publisher()).collect::<Result<_, _>>()?;
        let interval = 1e9 / self.rate as f64;
        let began = calendar.now() + 20_000_000;
        let mut tally = Tally::default();
        for number in 0..messages {
            let due = began + (number as f64 * interval) as u64;
            let message = feed.next();
            let publisher = &mut publishers[(number % u64::from(self.feeds)) as usize];
            let symbol = publisher.symbol(message.symbol)?;
            tally.add(Timestamp(due as i64), message.package.fold(plus));
            while calendar.now() < due {}
            let sent = publisher.publish_by_id(symbol, Timestamp(due as i64), message.package)?;
            if let Sent::BackPressured(slowest) = sent {
                return Err(Failure::new(format!("the ring is full because of {slowest:?}")));
            }
        }
        Ok(tally)
    }

    /// Decodes each message with all levels of the book, then reads the clock.
    fn listen(
        &self,
        mut subscriber: Subscriber,
        calendar: Calendar,
        messages: u64,
        mut series: Series,
    ) -> Result<(Series, Tally), Failure> {
        pin(1);
        let mut tally = Tally::default();
        let skipped = messages - (self.time.as_secs_f64() * self.rate as f64) as u64;
        for number in 0..messages {
            let Some(message) = subscriber.next_within(SILENCE_MAX).map_err(lost)? else {
                let what = format!("no message for {SILENCE_MAX:?} after {number} messages");
                return Err(Failure::new(what));
            };
            tally.add(message.time(), Package::fold_view(view_trusted::<Package>(message.body()), plus));
            let now = calendar.now();
            if message.sequence() != number {
                return Err(Failure::new(format!("message {number} is missing; please report this")));
            }
            if number >= skipped {
                let due = message.time().0 as u64;
                series.record(due, now.saturating_sub(due));
            }
        }
        Ok((series, tally))
    }
}

fn open_copy(topic: &Topic, path: &Path) -> Result<(Database, TopicCopy), Failure> {
    let db = Database::open(path)?;
    let retention = Retention { age: Some(RETENTION), bytes: None };
    let options = StreamOptions { retention, ..StreamOptions::default() };
    let copy = TopicCopy::open(topic, &db, TOPIC, options, CopyOptions::default())?;
    Ok((db, copy))
}

/// Copies until all messages are in the stream.
fn run_copy(
    _db: Database,
    mut copy: TopicCopy,
    messages: u64,
    is_over: &AtomicBool,
) -> Result<CopyProgress, Failure> {
    while copy.progress().copied + copy.progress().missed < messages && !is_over.load(Ordering::Relaxed) {
        copy.step(Duration::from_millis(100))?;
    }
    copy.flush()?;
    Ok(copy.progress())
}
