//! How long a killed subscriber stalls its publisher.

use super::latency::joined;
use super::records::{Body40, Numbered};
use super::setup::{Args, Bench, pin};
use crate::report::Report;
use crate::worker::{Job, Worker, send};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};
use tapedb_schema::Timestamp;
use tapedb_terminal::{Failure, Ui};
use tapedb_topic::{Folder, Publisher, Sent, Topic, TopicSymbol, Waiting};

/// A subscriber ends after this time without a message: the process of its publisher has ended.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// Reads a topic until it is killed.
#[derive(Debug, Serialize, Deserialize)]
pub struct Subscribe {
    folder: PathBuf,
    topic: String,
}

impl Job for Subscribe {
    const NAME: &'static str = "Subscribe";

    fn run(self, _: &Ui) -> Result<(), Failure> {
        let topic = Topic::open(&Folder::at(&self.folder), &self.topic)?;
        let mut subscriber = topic.subscriber().waiting(Waiting::Spin).open()?;
        pin(1);
        send(&"ready")?;
        while subscriber.next_within(SILENCE_MAX)?.is_some() {}
        Ok(())
    }
}

/// Measures the stall.
pub fn run(args: &Args, case: &str, report: &mut Report) -> Result<(), Failure> {
    let stall = thread::scope(|scope| joined(scope.spawn(|| measure(args)).join()))?;
    report.add(case, "stall", "ms", stall.as_secs_f64() * 1e3);
    Ok(())
}

/// Publishes at full speed to a subscriber, kills it, and publishes for the same time again.
fn measure(args: &Args) -> Result<Duration, Failure> {
    let bench = Bench::new::<Body40>(args)?;
    let mut publisher = bench.topic.exclusive_publisher()?;
    publisher.set_timeout(Duration::ZERO);
    let symbol = publisher.symbol("AAPL")?;
    let subscribe = Subscribe { folder: bench.folder.path().into(), topic: bench.name.clone() };
    let mut subscriber = Worker::start(&subscribe, None)?;
    subscriber.receive::<String>()?;
    pin(0);
    publish(&mut publisher, symbol, args.time)?;
    drop(subscriber);
    publish(&mut publisher, symbol, args.time)
}

/// Publishes for a time; returns the longest time without a publication.
fn publish(publisher: &mut Publisher, symbol: TopicSymbol, time: Duration) -> Result<Duration, Failure> {
    let began = Instant::now();
    let (mut number, mut last, mut longest) = (0, Duration::ZERO, Duration::ZERO);
    while last < time {
        let now = began.elapsed();
        if let Sent::Published { .. } = publisher.publish_by_id(symbol, Timestamp(0), &Body40::of(number))? {
            longest = longest.max(now - last);
            (number, last) = (number + 1, now);
        } else if now > time {
            return Ok(longest.max(now - last));
        }
    }
    Ok(longest)
}
