//! From the time at which a record should be sent, by the timetable, until the consumer has read every word of it.
//!
//! One producer keeps the timetable: it sleeps until the next record is due, and sends all records that are due. Late
//! sending counts as latency.

use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use tokio::runtime::Handle;

use crate::jetstream::{Consumer, Publisher, create_stream, delete_stream};
use crate::record::{self, Found, Reader, Writer};
use crate::{Failure, Settings};

const STREAM: &str = "ticks";
const DIGITS: u8 = 3;

/// Measures; the histogram is in nanoseconds.
pub async fn measure(settings: &Settings) -> Result<Histogram<u64>, Failure> {
    create_stream(&settings.url, STREAM).await?;
    let mut consumer = Consumer::connect(&settings.url, STREAM).await?;
    let publisher = Publisher::connect(&settings.url, STREAM, settings.is_fast).await?;
    let epoch = Instant::now();
    let (paced, handle) = (settings.clone(), Handle::current());
    // A thread of its own, as it sleeps.
    let producer = thread::spawn(move || produce(&paced, publisher, epoch, &handle));
    let received = receive(settings, &mut consumer, epoch).await;
    // A consumer that gave up is stopped first; the producer ends in any case.
    producer.join().map_err(|_| "the producer panicked")??;
    delete_stream(&settings.url, STREAM).await?;
    received
}

fn produce(
    settings: &Settings,
    mut publisher: Publisher,
    epoch: Instant,
    handle: &Handle,
) -> Result<(), Failure> {
    let interval = Duration::from_secs(1) / settings.rate;
    let count = ((settings.warmup + settings.duration).as_secs_f64() * f64::from(settings.rate)) as u32;
    let mut writer = Writer::default();
    for index in 0..count {
        let due = interval * index;
        thread::sleep(due.saturating_sub(epoch.elapsed()));
        let mut payload = Vec::with_capacity(record::BYTES);
        writer.write(due.as_nanos() as u64, &mut payload);
        handle.block_on(publisher.send(payload.into()))?;
    }
    let mut payload = Vec::with_capacity(record::BYTES);
    writer.end(&mut payload);
    handle.block_on(publisher.finish(payload.into()))
}

async fn receive(
    settings: &Settings,
    consumer: &mut Consumer,
    epoch: Instant,
) -> Result<Histogram<u64>, Failure> {
    let mut histogram = Histogram::new(DIGITS)?;
    let mut reader = Reader::default();
    let warmup = settings.warmup.as_nanos() as u64;
    loop {
        match reader.read(&consumer.next().await?)? {
            Found::Record(due) if due >= warmup => {
                let now = epoch.elapsed().as_nanos() as u64;
                histogram.record(now.saturating_sub(due))?;
            }
            Found::Record(_) => {}
            Found::End(_) => return Ok(histogram),
        }
    }
}
