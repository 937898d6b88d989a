//! Full speed: so many producers, each to a consumer of its own through a stream of its own.
//!
//! The warm-up is sent, acknowledged and received before the clock starts. It stops when the last consumer has its end
//! mark and found all records there.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::jetstream::{Consumer, Publisher, create_stream, delete_stream};
use crate::record::{self, Found, Reader, Writer};
use crate::{Failure, Settings};

/// Messages between two looks at the clock.
const CLOCK_INTERVAL: u32 = 32;
/// Step of the time in the records, which no process waits for here.
const TIME_STEP: u64 = 20_000;

/// Measures; the answer is how many records there were and the seconds they took.
pub async fn measure(settings: &Settings) -> Result<(u64, f64), Failure> {
    let names: Vec<String> = (0..settings.pairs).map(|pair| format!("ticks{pair}")).collect();
    let barrier = Arc::new(Barrier::new(2 * settings.pairs));
    let (mut producers, mut consumers) = (JoinSet::new(), JoinSet::new());
    for name in &names {
        create_stream(&settings.url, name).await?;
        consumers.spawn(consume(settings.clone(), name.clone(), Arc::clone(&barrier)));
        producers.spawn(produce(settings.clone(), name.clone(), Arc::clone(&barrier)));
    }
    let (count, seconds) = joined(&mut producers, &mut consumers).await?;
    for name in &names {
        delete_stream(&settings.url, name).await?;
    }
    Ok((count, seconds))
}

/// All records, over the time from the first start to the last end.
async fn joined(
    producers: &mut JoinSet<Result<Instant, Failure>>,
    consumers: &mut JoinSet<Result<(u64, Instant), Failure>>,
) -> Result<(u64, f64), Failure> {
    let (mut count, mut started, mut ended) = (0, None::<Instant>, None::<Instant>);
    // The first failure is reported at once: the other threads may wait for that one for ever.
    while !(producers.is_empty() && consumers.is_empty()) {
        tokio::select! {
            Some(start) = producers.join_next() => {
                let start = start??;
                started = Some(started.map_or(start, |other| other.min(start)));
            }
            Some(end) = consumers.join_next() => {
                let (records, end) = end??;
                count += records;
                ended = ended.max(Some(end));
            }
        }
    }
    let (started, ended) = started.zip(ended).ok_or("no pair was asked for")?;
    Ok((count, (ended - started).as_secs_f64()))
}

/// When the measured phase started.
async fn produce(settings: Settings, name: String, barrier: Arc<Barrier>) -> Result<Instant, Failure> {
    let mut publisher = Publisher::connect(&settings.url, &name, settings.is_fast).await?;
    send(&settings, settings.warmup, &mut publisher).await?;
    barrier.wait().await;
    let started = Instant::now();
    send(&settings, settings.duration, &mut publisher).await?;
    Ok(started)
}

async fn send(settings: &Settings, duration: Duration, publisher: &mut Publisher) -> Result<(), Failure> {
    let (mut writer, mut time) = (Writer::default(), 0);
    let until = Instant::now() + duration;
    while Instant::now() < until {
        for _ in 0..CLOCK_INTERVAL {
            let mut payload = Vec::with_capacity(settings.packed * record::BYTES);
            for _ in 0..settings.packed {
                time += TIME_STEP;
                writer.write(time, &mut payload);
            }
            publisher.send(payload.into()).await?;
        }
    }
    publisher.finish(end_mark(&mut writer)).await
}

fn end_mark(writer: &mut Writer) -> Bytes {
    let mut payload = Vec::with_capacity(record::BYTES);
    writer.end(&mut payload);
    payload.into()
}

/// How many records the measured phase had, and when the last was there.
async fn consume(settings: Settings, name: String, barrier: Arc<Barrier>) -> Result<(u64, Instant), Failure> {
    let mut consumer = Consumer::connect(&settings.url, &name).await?;
    receive(&mut consumer).await?;
    barrier.wait().await;
    let count = receive(&mut consumer).await?;
    Ok((count, Instant::now()))
}

/// Reads up to the end mark.
async fn receive(consumer: &mut Consumer) -> Result<u64, Failure> {
    let mut reader = Reader::default();
    loop {
        for bytes in consumer.next().await?.chunks(record::BYTES) {
            if let Found::End(count) = reader.read(bytes)? {
                return Ok(count);
            }
        }
    }
}
