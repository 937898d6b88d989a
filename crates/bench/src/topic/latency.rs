//! Latency of a message from the publisher to the subscriber.

use super::records::{Numbered, decode};
use super::setup::{Args, Bench, Clock, pin};
use crate::pool::{Tally, compare};
use crate::report::Report;
use std::thread;
use std::time::Duration;
use tapedb_schema::Timestamp;
use tapedb_terminal::Failure;
use tapedb_topic::{Sent, Subscriber, TopicError, Waiting};

/// A subscriber fails after this time without a message.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// First messages, which do not count.
const WARM_UP: u64 = 2_000;

/// Measures a rate.
pub fn run<T: Numbered>(rate: u64, alone: bool) -> impl Fn(&Args, &str, &mut Report) -> Result<(), Failure> {
    move |args, case, report| {
        let mut latencies = measure::<T>(args, rate, alone)?;
        latencies.sort_by(f64::total_cmp);
        let at = |share: f64| latencies[((latencies.len() - 1) as f64 * share) as usize];
        for (metric, share) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)] {
            report.add(case, metric, "ns", at(share));
        }
        Ok(())
    }
}

/// The latency of each message, in nanoseconds.
fn measure<T: Numbered>(args: &Args, rate: u64, alone: bool) -> Result<Vec<f64>, Failure> {
    let bench = Bench::new::<T>(args)?;
    let messages = WARM_UP + (args.time.as_secs_f64() * rate as f64) as u64;
    let clock = Clock::new();
    let subscriber = bench.topic.subscriber().waiting(Waiting::Spin).open()?;
    thread::scope(|scope| {
        let publishing = scope.spawn(|| publish::<T>(&bench, clock, rate, alone, messages));
        let listening = scope.spawn(move || listen::<T>(subscriber, clock, messages));
        let sent = joined(publishing.join())?;
        let (latencies, received) = joined(listening.join())?;
        compare(sent, received)?;
        Ok(latencies)
    })
}

/// Publishes by a schedule; the time of a message is when it is due.
fn publish<T: Numbered>(
    bench: &Bench,
    clock: Clock,
    rate: u64,
    alone: bool,
    messages: u64,
) -> Result<Tally, Failure> {
    pin(0);
    let topic = &bench.topic;
    let mut publisher = if alone { topic.exclusive_publisher()? } else { topic.publisher()? };
    let symbol = publisher.symbol("AAPL")?;
    let interval = clock.span(1e9 / rate as f64);
    let began = clock.now() + clock.span(5e6) as u64;
    let mut sent = Tally::default();
    for number in 0..messages {
        let due = began + (number as f64 * interval) as u64;
        let record = T::of(number);
        sent.add(Timestamp(due as i64), record.sum());
        while clock.now() < due {}
        if let Sent::BackPressured(slowest) =
            publisher.publish_by_id(symbol, Timestamp(due as i64), &record)?
        {
            return Err(Failure::new(format!("the ring is full because of {slowest:?}")));
        }
    }
    Ok(sent)
}

/// Decodes each message, then reads the clock.
fn listen<T: Numbered>(
    mut subscriber: Subscriber,
    clock: Clock,
    messages: u64,
) -> Result<(Vec<f64>, Tally), Failure> {
    pin(1);
    let mut received = Tally::default();
    let mut latencies = vec![0.0; (messages - WARM_UP) as usize];
    for number in 0..messages {
        let Some(message) = subscriber.next_within(SILENCE_MAX)? else {
            return Err(Failure::new(format!("no message for {SILENCE_MAX:?} after {number} messages")));
        };
        let (found, sum) = decode::<T>(message.body());
        received.add(message.time(), sum);
        let now = clock.now();
        if found != number {
            return Err(Failure::new(format!(
                "message {number} differs from the one sent; please report this"
            )));
        }
        if let Some(at) = number.checked_sub(WARM_UP) {
            latencies[at as usize] = clock.nanos(now.saturating_sub(message.time().0 as u64));
        }
    }
    Ok((latencies, received))
}

/// The result of a thread.
pub fn joined<T>(result: thread::Result<Result<T, Failure>>) -> Result<T, Failure> {
    result.unwrap_or_else(|_| Err(Failure::new("a thread of the benchmark panicked; see its message above")))
}

/// The failure of a subscriber of a reliable topic that was removed because it stalled.
pub fn lost(error: TopicError) -> Failure {
    Failure::new(format!("{error}; run it again when the machine is quieter"))
}
