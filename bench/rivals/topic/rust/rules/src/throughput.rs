//! How many records a second pass at full speed from one publisher to one subscriber.
//!
//! Two phases of the same, of which the first is to warm up; each ends with an end mark, and the subscriber's clock runs
//! from the first message of the second to its mark.

use std::time::{Duration, Instant};

use crate::medium::{Failure, Medium, Publish, Subscribe};
use crate::program::Settings;
use crate::record::{Reader, Writer};
use crate::together::{publish, together};

/// Messages between two looks at the clock, which would cost more than a message.
const CLOCK_INTERVAL: u32 = 1_024;

/// Sends messages of `N` words, records of `W` words; how many records came, all there, and in how many seconds.
pub fn measure<M: Medium, const W: usize, const N: usize>(
    medium: &M,
    settings: &Settings,
) -> Result<(u64, f64), Failure> {
    const { assert!(N.is_multiple_of(W)) };
    let found = together::<M, _, N>(
        medium,
        |publisher| {
            produce::<W, N>(settings.warmup, publisher)?;
            produce::<W, N>(settings.duration, publisher)
        },
        receive::<W, N>,
    );
    Ok(found)
}

fn produce<const W: usize, const N: usize>(
    duration: Duration,
    publisher: &mut impl Publish<N>,
) -> Result<(), Failure> {
    let mut writer = Writer::<W>::default();
    let started = Instant::now();
    while started.elapsed() < duration {
        for _ in 0..CLOCK_INTERVAL {
            publish(publisher, &writer.message(0))?;
        }
    }
    publish(publisher, &writer.end())
}

fn receive<const W: usize, const N: usize>(
    subscriber: &mut impl Subscribe<N>,
) -> Result<(u64, f64), Failure> {
    let mut warmup = Reader::<W>::default();
    let mut reader = Reader::<W>::default();
    let mut started = None;
    while !reader.is_over() {
        // Messages of both phases may come at once.
        subscriber.poll(|message| {
            if !warmup.is_over() {
                warmup.read(message);
            } else {
                started.get_or_insert_with(Instant::now);
                reader.read(message);
            }
        })?;
    }
    let seconds = started.map_or(0.0, |started| started.elapsed().as_secs_f64());
    warmup.finish()?;
    Ok((reader.finish()?, seconds))
}
