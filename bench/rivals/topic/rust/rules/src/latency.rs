//! From the time at which a message should be sent, by the timetable, until the subscriber has read every word of it.
//!
//! The publisher spins until the next message is due, and publishes all messages that are due. Late publishing counts as
//! latency, so that a publisher that was held up does not leave out what it should have sent during that time.
//!
//! Times are the processor's own, which take a few nanoseconds to read where the system's clock takes 25: `tapedb bench
//! topic` does the same.

use std::time::Duration;

use hdrhistogram::Histogram;
use quanta::Clock;

use crate::medium::{Failure, Medium, Publish, Subscribe};
use crate::program::Settings;
use crate::record::{Reader, Writer};
use crate::together::{publish, together};

const DIGITS: u8 = 3;
/// The largest latency that is distinguished from larger ones.
const NANOS_MAX: u64 = 60_000_000_000;
/// From when both sides are there until the first message is due.
const LEAD: Duration = Duration::from_millis(20);

/// Measures messages of one record with `W` words; the histogram is in nanoseconds.
pub fn measure<M: Medium, const W: usize>(
    medium: &M,
    settings: &Settings,
) -> Result<Histogram<u64>, Failure> {
    let clock = Ticks::new();
    let found = together::<M, _, W>(
        medium,
        |publisher| produce::<W>(settings, publisher, &clock),
        |subscriber| receive::<W>(settings, subscriber, &clock),
    );
    Ok(found)
}

fn produce<const W: usize>(
    settings: &Settings,
    publisher: &mut impl Publish<W>,
    clock: &Ticks,
) -> Result<(), Failure> {
    let seconds = (settings.warmup + settings.duration).as_secs_f64();
    let count = (seconds * f64::from(settings.rate)) as u64;
    let interval = clock.ticks(Duration::from_secs(1)) / f64::from(settings.rate);
    let first = clock.now() + clock.ticks(LEAD) as u64;
    let mut writer = Writer::<W>::default();
    // Gives the subscriber the time from which it counts.
    publish(publisher, &writer.message(first))?;
    for index in 1..=count {
        let due = first + (index as f64 * interval) as u64;
        while clock.now() < due {
            std::hint::spin_loop();
        }
        publish(publisher, &writer.message(due))?;
    }
    publish(publisher, &writer.end())
}

fn receive<const W: usize>(
    settings: &Settings,
    subscriber: &mut impl Subscribe<W>,
    clock: &Ticks,
) -> Result<Histogram<u64>, Failure> {
    let warmup = clock.ticks(settings.warmup) as u64;
    let mut histogram = Histogram::new_with_max(NANOS_MAX, DIGITS)?;
    let mut reader = Reader::<W>::default();
    let mut counted_from = u64::MAX;
    while !reader.is_over() {
        subscriber.poll(|message| {
            let Some(due) = reader.read(message) else { return };
            // Every word is in the sum by now.
            let now = clock.now();
            if counted_from == u64::MAX {
                counted_from = due + warmup;
            } else if due >= counted_from {
                histogram.saturating_record(clock.nanos(due, now));
            }
        })?;
    }
    reader.finish()?;
    Ok(histogram)
}

/// The processor's count of time.
struct Ticks {
    clock: Clock,
    ticks_per_nano: f64,
}

impl Ticks {
    fn new() -> Self {
        let clock = Clock::new();
        let ticks = 1 << 40;
        Self { ticks_per_nano: ticks as f64 / clock.delta_as_nanos(0, ticks) as f64, clock }
    }

    #[inline]
    #[cfg_attr(target_arch = "x86_64", expect(unsafe_code, reason = "an instruction that has no other name"))]
    fn now(&self) -> u64 {
        // Read when all before it is done, as ours is.
        #[cfg(target_arch = "x86_64")]
        // SAFETY: every x86-64 processor has it; it touches no memory.
        unsafe {
            std::arch::x86_64::_mm_lfence();
        }
        self.clock.raw()
    }

    fn ticks(&self, span: Duration) -> f64 {
        span.as_nanos() as f64 * self.ticks_per_nano
    }

    #[inline]
    fn nanos(&self, start: u64, end: u64) -> u64 {
        self.clock.delta_as_nanos(start, end)
    }
}
