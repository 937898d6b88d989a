//! Messages a second through a topic, without loss.

use super::latency::{joined, lost};
use super::records::{Body16, Body40, Body256, Numbered, decode};
use super::setup::{Args, Bench, Work, pin};
use crate::pool::{Tally, compare};
use crate::report::Report;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;
use tapedb_schema::Timestamp;
use tapedb_terminal::Failure;
use tapedb_topic::{Subscriber, Waiting};

/// Publishers, subscribers and batches of a case.
#[derive(Debug, Clone, Copy)]
pub struct How {
    /// Messages in a claim.
    pub batch: u64,
    /// Publishers.
    pub publishers: usize,
    /// Subscribers.
    pub subscribers: usize,
    /// Whether a single publisher uses the shared mode.
    pub shared: bool,
}

impl Default for How {
    fn default() -> Self {
        Self { batch: 1, publishers: 1, subscribers: 1, shared: false }
    }
}

/// Measures messages of one size.
type Sized = fn(&Args, &str, &mut Report, How) -> Result<(), Failure>;

/// The sizes, in bytes.
pub fn sizes() -> [(u32, Sized); 3] {
    [(16, measure::<Body16>), (40, measure::<Body40>), (256, measure::<Body256>)]
}

/// Measures messages of 40 bytes.
pub fn of_40(how: How) -> Work {
    Box::new(move |args, case, report| measure::<Body40>(args, case, report, how))
}

fn measure<T: Numbered>(args: &Args, case: &str, report: &mut Report, how: How) -> Result<(), Failure> {
    let bench = Bench::new::<T>(args)?;
    let subscribers: Vec<Subscriber> = (0..how.subscribers)
        .map(|_| bench.topic.subscriber().waiting(Waiting::Spin).open())
        .collect::<Result<_, _>>()?;
    let (stop, start) = (AtomicBool::new(false), Barrier::new(how.publishers + how.subscribers + 1));
    thread::scope(|scope| {
        let publishing: Vec<_> = (0..how.publishers)
            .map(|nth| {
                let (bench, stop, start) = (&bench, &stop, &start);
                scope.spawn(move || publish::<T>(bench, how, nth, stop, start))
            })
            .collect();
        let listening: Vec<_> = subscribers
            .into_iter()
            .enumerate()
            .map(|(nth, subscriber)| {
                let start = &start;
                scope.spawn(move || listen::<T>(subscriber, how, nth, start))
            })
            .collect();
        start.wait();
        let began = Instant::now();
        thread::sleep(args.time);
        stop.store(true, Ordering::Relaxed);
        let mut sent = Tally::default();
        for thread in publishing {
            sent = sent.and(joined(thread.join())?);
        }
        for thread in listening {
            compare(sent, joined(thread.join())?)?;
        }
        report.add(case, "rate", "messages/s", sent.messages as f64 / began.elapsed().as_secs_f64());
        Ok(())
    })
}

/// Marks a publisher's last message, whose number is the count of its messages.
const END: u64 = 1 << 63;

/// Publishes at full speed until `stop` is set.
fn publish<T: Numbered>(
    bench: &Bench,
    how: How,
    nth: usize,
    stop: &AtomicBool,
    start: &Barrier,
) -> Result<Tally, Failure> {
    pin(nth);
    let time = Timestamp(nth as i64);
    let is_alone = how.publishers == 1 && !how.shared;
    let mut publisher =
        if is_alone { bench.topic.exclusive_publisher()? } else { bench.topic.publisher()? };
    let symbol = publisher.symbol("AAPL")?;
    start.wait();
    let mut sent = Tally::default();
    while !stop.load(Ordering::Relaxed) {
        if how.batch == 1 {
            let record = T::of(sent.messages);
            let _ = publisher.publish_by_id(symbol, time, &record)?;
            sent.add(time, record.sum());
        } else {
            let mut batch = publisher.batch();
            for _ in 0..how.batch {
                let record = T::of(sent.messages);
                if batch.push_by_id(symbol, time, &record)? {
                    sent.add(time, record.sum());
                }
            }
            let _ = batch.commit()?;
        }
    }
    let _ = publisher.publish_by_id(symbol, time, &T::of(END | sent.messages))?;
    Ok(sent)
}

/// Reads every word of every message until all publishers have ended, and checks the order of each publisher's messages.
fn listen<T: Numbered>(
    mut subscriber: Subscriber,
    how: How,
    nth: usize,
    start: &Barrier,
) -> Result<Tally, Failure> {
    pin(nth + how.publishers);
    let mut next = vec![0u64; how.publishers];
    let (mut ended, mut received) = (0, Tally::default());
    start.wait();
    while ended < how.publishers {
        let Some(message) = subscriber.next().map_err(lost)? else { continue };
        let (number, sum) = decode::<T>(message.body());
        let expected = &mut next[message.time().0 as usize % how.publishers];
        if number == *expected {
            *expected += 1;
            received.add(message.time(), sum);
        } else if number == END | *expected {
            ended += 1;
        } else {
            return Err(Failure::new("a message differs from the one sent; please report this"));
        }
    }
    Ok(received)
}
