//! How many messages a second go through a topic, without loss.

use super::latency::{joined, lost};
use super::records::{Body16, Body40, Body256, Numbered, decode};
use super::{Args, Bench, Work, pin};
use crate::pool::{Tally, compare};
use crate::report::Report;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;
use tapedb_schema::Timestamp;
use tapedb_terminal::Failure;
use tapedb_topic::{Subscriber, Waiting};

/// Who does what.
#[derive(Debug, Clone, Copy)]
pub struct How {
    /// Messages in a claim.
    pub batch: u64,
    /// Publishers.
    pub publishers: usize,
    /// Subscribers.
    pub subscribers: usize,
    /// Whether a lone publisher would share the topic.
    pub shared: bool,
}

impl Default for How {
    fn default() -> Self {
        Self { batch: 1, publishers: 1, subscribers: 1, shared: false }
    }
}

/// Measures a size of messages.
type Sized = fn(&Args, &str, &mut Report, How) -> Result<(), Failure>;

/// The sizes, in bytes.
pub fn sizes() -> [(u32, Sized); 3] {
    [(16, measure::<Body16>), (40, measure::<Body40>), (256, measure::<Body256>)]
}

/// Measures 40 bytes.
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

/// The number of a publisher's last message: how many there were before it.
const END: u64 = 1 << 63;

/// Publishes as fast as it can, until it is told to end.
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

/// Reads until all publishers have ended, every word of every message, and checks that each one's messages come one after
/// the other.
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
            return Err(Failure::new("what came is not what was sent; please report this"));
        }
    }
    Ok(received)
}
