//! How many messages a second go through a topic, without loss.

use super::latency::{joined, lost};
use super::records::{Body16, Body40, Body256, Numbered};
use super::{Args, Bench, Work, pin};
use crate::bench::report::Report;
use crate::failure::Failure;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;
use tapedb_schema::Timestamp;
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
        let mut sent = 0;
        for thread in publishing {
            sent += joined(thread.join())?;
        }
        for thread in listening {
            if joined(thread.join())? != sent {
                return Err(Failure::new(format!(
                    "{sent} messages were sent, others came; please report this"
                )));
            }
        }
        report.add(case, "rate", "messages/s", sent as f64 / began.elapsed().as_secs_f64());
        Ok(())
    })
}

/// The number of a publisher's last message: how many there were before it.
const END: u64 = 1 << 63;

/// Publishes as fast as it can, until it is told to end: how many messages.
fn publish<T: Numbered>(
    bench: &Bench,
    how: How,
    nth: usize,
    stop: &AtomicBool,
    start: &Barrier,
) -> Result<u64, Failure> {
    pin(nth);
    let is_alone = how.publishers == 1 && !how.shared;
    let mut publisher =
        if is_alone { bench.topic.exclusive_publisher()? } else { bench.topic.publisher()? };
    let symbol = publisher.symbol("AAPL")?;
    start.wait();
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        if how.batch == 1 {
            let _ = publisher.publish_by_id(symbol, Timestamp(nth as i64), &T::of(number))?;
            number += 1;
        } else {
            let mut batch = publisher.batch();
            for _ in 0..how.batch {
                number += u64::from(batch.push_by_id(symbol, Timestamp(nth as i64), &T::of(number))?);
            }
            let _ = batch.commit()?;
        }
    }
    let _ = publisher.publish_by_id(symbol, Timestamp(nth as i64), &T::of(END | number))?;
    Ok(number)
}

/// Reads until all publishers have ended, and checks that each one's messages come one after the other: how many.
fn listen<T: Numbered>(
    mut subscriber: Subscriber,
    how: How,
    nth: usize,
    start: &Barrier,
) -> Result<u64, Failure> {
    pin(nth + how.publishers);
    let mut next = vec![0u64; how.publishers];
    let (mut ended, mut all) = (0, 0);
    start.wait();
    while ended < how.publishers {
        let Some(message) = subscriber.next().map_err(lost)? else { continue };
        let number = T::number(message.body()).unwrap_or(u64::MAX);
        let expected = &mut next[message.time().0 as usize % how.publishers];
        if number == *expected {
            *expected += 1;
            all += 1;
        } else if number == END | *expected {
            ended += 1;
        } else {
            return Err(Failure::new("what came is not what was sent; please report this"));
        }
    }
    Ok(all)
}
