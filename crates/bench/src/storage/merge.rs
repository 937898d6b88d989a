//! One cursor over thousands of streams, merged in time order: speed and memory.

use super::args::Args;
use super::scratch::ScratchDir;
use super::stages::Worker;
use super::steps::BATCH;
use crate::content::fields_of;
use crate::pool::{Tally, bars_pool, load};
use crate::report::Report;
use std::path::Path;
use std::time::Instant;
use tapedb_codec::SchemaBuilder;
use tapedb_engine::{Database, StreamOptions};
use tapedb_market::Bar;
use tapedb_terminal::{Failure, Ui};

/// Streams that one cursor merges, with at least a hundred messages each.
const STREAMS: u64 = 5_000;

/// All streams have the same times; every second stream is sealed, the others are in the log.
pub fn measure(args: &Args, report: &mut Report, ui: &Ui) -> Result<(), Failure> {
    let streams = STREAMS.min(args.messages.div_ceil(100));
    let each = args.messages / streams;
    let dir = ScratchDir::beside(&args.db, "merge");
    let expected = fill(&dir.0, streams, each, ui)?;
    let case = format!("merge.{streams}");
    for _ in 0..args.runs {
        let (_process, answer) = Worker::start("merge", &dir.0, expected.messages)?;
        let found = Tally { messages: answer[0], sum: answer[1] };
        if found != expected {
            return Err(Failure::new(format!("wrote {expected:?}, read {found:?}; please report this")));
        }
        let seconds = answer[3] as f64 / 1e6;
        report.add(&case, "rate", "messages/s", expected.messages as f64 / seconds);
        report.add(&case, "memory", "MiB", answer[2] as f64 / f64::from(1 << 20));
    }
    Ok(())
}

fn fill(path: &Path, streams: u64, each: u64, ui: &Ui) -> Result<Tally, Failure> {
    let db = Database::open_without_maintenance(path)?;
    let (pool, mut expected) = (bars_pool(10), Tally::default());
    for nth in 0..streams {
        let schema = SchemaBuilder::new().with::<Bar>().finish();
        let stream = db.create_stream(&format!("bars{nth}"), schema, StreamOptions::default())?;
        expected = expected.and(load(&stream, &pool, each, BATCH, ui)?);
        if nth % 2 == 0 {
            stream.seal()?;
        }
    }
    Ok(expected)
}

/// Reads all streams of a database through one cursor: the messages, and microseconds without opening the database.
pub fn read(path: &Path) -> Result<(Tally, u64), Failure> {
    let db = Database::open_read_only(path)?;
    let started = Instant::now();
    let mut cursor = db.cursor(db.streams()?)?.open()?;
    let (mut tally, mut last) = (Tally::default(), None);
    while let Some(message) = cursor.next()? {
        if last > Some(message.time()) {
            return Err(Failure::new("messages are out of order; please report this"));
        }
        last = Some(message.time());
        tally.add(message.time(), fields_of::<Bar>(&message));
    }
    Ok((tally, started.elapsed().as_micros() as u64))
}
