//! From the time at which a message should be sent, by the timetable, until the subscriber has it.
//!
//! The publisher spins until the next message is due, and publishes whatever is due by then. Late publishing counts as
//! latency, so that a publisher that was held up does not leave out what it should have sent meanwhile.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::medium::{Failure, Medium, Publish, Subscribe};
use crate::program::Settings;
use crate::record::{Reader, Writer};
use crate::together::{publish, together};

const DIGITS: u8 = 3;
/// The largest latency that is told from larger ones.
const NANOS_MAX: u64 = 60_000_000_000;
/// From when both sides are there until the first message is due.
const LEAD: Duration = Duration::from_millis(20);

/// Measures messages of one record with `W` words; the histogram is in nanoseconds.
pub fn measure<M: Medium, const W: usize>(
    medium: &M,
    settings: &Settings,
) -> Result<Histogram<u64>, Failure> {
    let epoch = Instant::now();
    let warmup = settings.warmup;
    let found = together::<M, _, W>(
        medium,
        |publisher| produce::<W>(settings, publisher, epoch),
        |subscriber| receive::<W>(warmup, subscriber, epoch),
    );
    Ok(found)
}

fn produce<const W: usize>(
    settings: &Settings,
    publisher: &mut impl Publish<W>,
    epoch: Instant,
) -> Result<(), Failure> {
    let seconds = (settings.warmup + settings.duration).as_secs_f64();
    let count = (seconds * f64::from(settings.rate)) as u64;
    let first = (epoch.elapsed() + LEAD).as_nanos() as u64;
    let mut writer = Writer::<W>::default();
    // So that the subscriber knows from when on to count.
    publish(publisher, &writer.message(first))?;
    for index in 1..=count {
        let due = first + index * 1_000_000_000 / u64::from(settings.rate);
        while (epoch.elapsed().as_nanos() as u64) < due {
            std::hint::spin_loop();
        }
        publish(publisher, &writer.message(due))?;
    }
    publish(publisher, &writer.end())
}

fn receive<const W: usize>(
    warmup: Duration,
    subscriber: &mut impl Subscribe<W>,
    epoch: Instant,
) -> Result<Histogram<u64>, Failure> {
    let mut histogram = Histogram::new_with_max(NANOS_MAX, DIGITS)?;
    let mut reader = Reader::<W>::default();
    let mut counted_from = u64::MAX;
    while !reader.is_over() {
        subscriber.poll(|message| {
            let now = epoch.elapsed().as_nanos() as u64;
            let Some(due) = reader.read(message) else { return };
            if counted_from == u64::MAX {
                counted_from = due + warmup.as_nanos() as u64;
            } else if due >= counted_from {
                histogram.saturating_record(now.saturating_sub(due));
            }
        })?;
    }
    reader.finish()?;
    Ok(histogram)
}
