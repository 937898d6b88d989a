//! Live readers beside a loader.

use super::args::Args;
use super::crowd::{Crowd, Feeder, STREAM, Tick};
use crate::remote::{Latencies, Serving, add_one};
use crate::report::Report;
use crate::worker::Worker;
use tapedb_codec::SchemaBuilder;
use tapedb_engine::StreamOptions;
use tapedb_terminal::Failure;

/// The largest share of the messages at the start that do not count.
const SKIPPED: u64 = 5;

/// Measures with a number of readers.
pub fn measure(args: &Args, readers: u32, report: &mut Report) -> Result<(), Failure> {
    let serving = Serving::start(&args.db, None, 0)?;
    let schema = SchemaBuilder::new().with::<Tick>().finish();
    serving.connect()?.create_stream(STREAM, schema, StreamOptions::default())?;
    let rate = if args.rate == 0 { 5_000_000 } else { args.rate };
    let messages = ((args.time.as_secs_f64() * rate as f64) as u64).max(u64::from(args.symbols));
    let url = serving.url(args.transport).to_string();
    let Args { symbols, wanted, connections, rate, .. } = *args;
    let crowd = Crowd {
        url: url.clone(),
        readers,
        symbols,
        wanted,
        connections: connections.min(readers),
        messages,
        skipped: messages / SKIPPED,
    };
    let mut crowd = Worker::start_all([crowd])?;
    let mut feeder = Worker::start_all([Feeder { url, symbols, messages, rate }])?;
    let before = serving.cpu_ms();
    crowd[0].go()?;
    feeder[0].go()?;
    let (sent, nanos): (u64, u64) = feeder[0].receive()?;
    let received: Latencies = crowd[0].receive()?;
    let of_each = if wanted == 0 { messages } else { messages / u64::from(symbols) * u64::from(wanted) };
    if received.tally.messages < of_each * u64::from(readers) {
        let found = received.tally.messages;
        return Err(Failure::new(format!(
            "{readers} readers got {found} messages together; please report this"
        )));
    }
    let case = format!("scale.readers.{readers}");
    add_one(report, &case, &received);
    report.add(&case, "server", "ms/million messages", (serving.cpu_ms() - before) * 1e6 / sent as f64);
    report.add(
        &format!("scale.writer.{readers}"),
        "rate",
        "messages/s",
        sent as f64 * 1e9 / nanos.max(1) as f64,
    );
    Ok(())
}
