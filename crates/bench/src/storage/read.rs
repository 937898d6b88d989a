//! Loading a generated stream, sealing it, and reading it as rows and as columns.

use super::scratch::Scratch;
use super::{cold, sealed};
use crate::content::fields_of;
use crate::fields::Fields;
use crate::pool::{Pool, Tally, load};
use crate::report::Report;
use std::thread;
use std::time::Instant;
use tapedb_engine::{Cursor, Stream, StreamOptions, Values};
use tapedb_market::{Bar, Package};
use tapedb_terminal::{Failure, Ui};

/// The fields of a bar.
const BAR_FIELDS: [&str; 5] = ["open", "high", "low", "close", "volume"];

/// Messages that `load.async` acknowledges at a time.
pub const BATCH: u64 = 1_000;

/// Bars: what the design's targets are about.
pub fn bars(
    scratch: &Scratch,
    pool: &Pool<Bar>,
    messages: u64,
    report: &mut Report,
    ui: &Ui,
) -> Result<(), Failure> {
    let (stream, expected) = sealed::bars(scratch, pool, messages, "", report, ui)?;
    for readers in [1, 2] {
        rows::<Bar>(&stream, &format!("read.rows.{readers}"), readers, expected, report)?;
    }
    columns(&stream, "read.columns.1", expected, report)?;
    size(&stream, "size.bars", report)?;
    cold::measure::<Bar>(&stream, "bars", expected, report)?;
    columns(&stream, "read.columns.cold", expected, report)?;
    scratch.db.delete_stream(sealed::STREAM)?;
    Ok(())
}

/// The generated feed: records that are not alike.
pub fn feed(
    scratch: &Scratch,
    pool: &Pool<Package>,
    messages: u64,
    report: &mut Report,
    ui: &Ui,
) -> Result<(), Failure> {
    let stream = scratch.stream::<Package>("feed", StreamOptions::default())?;
    let started = Instant::now();
    let messages = messages / 4;
    let expected = load(&stream, pool, messages, BATCH, ui)?;
    rate(report, "load.feed", messages, started);
    seal(&stream, "load.feed.sealed", started, report)?;
    rows::<Package>(&stream, "read.feed.1", 1, expected, report)?;
    size(&stream, "size.feed", report)?;
    scratch.db.delete_stream("feed")?;
    Ok(())
}

/// Seals what upkeep, which ran beside the loader, has not sealed; as a rate of all messages, from when loading began.
pub fn seal(stream: &Stream, case: &str, loading: Instant, report: &mut Report) -> Result<(), Failure> {
    stream.seal()?;
    rate(report, case, stream.stats()?.messages, loading);
    Ok(())
}

/// Reads all rows with so many readers at once.
pub fn rows<T: Fields>(
    stream: &Stream,
    case: &str,
    readers: u64,
    expected: Tally,
    report: &mut Report,
) -> Result<(), Failure> {
    let started = Instant::now();
    let tallies = from_each(readers, |_| read_all::<T>(stream));
    let seconds = started.elapsed().as_secs_f64();
    for tally in tallies {
        check(stream, expected, tally?)?;
    }
    report.add(case, "rate", "messages/s", (expected.messages * readers) as f64 / seconds);
    Ok(())
}

/// Reads all fields of bars, column by column.
fn columns(stream: &Stream, case: &str, expected: Tally, report: &mut Report) -> Result<(), Failure> {
    let started = Instant::now();
    let mut cursor = stream.columns("Bar", BAR_FIELDS).open()?;
    let mut tally = Tally::default();
    while let Some(chunk) = cursor.next()? {
        tally.messages += chunk.len() as u64;
        tally.sum = tally.sum.wrapping_add(sum(chunk.times()));
        for column in 0..BAR_FIELDS.len() {
            match chunk.column(column).values() {
                Values::Ints(values) => tally.sum = tally.sum.wrapping_add(sum(values)),
                other => return Err(Failure::new(format!("a bar's {column}th field is {other:?}"))),
            }
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    check(stream, expected, tally)?;
    report.add(case, "rate", "messages/s", expected.messages as f64 / seconds);
    Ok(())
}

fn sum(values: &[i64]) -> u64 {
    values.iter().fold(0, |sum, value| sum.wrapping_add(*value as u64))
}

/// What is found by reading row by row.
pub fn read_all<T: Fields>(stream: &Stream) -> Result<Tally, Failure> {
    let mut cursor: Cursor = stream.cursor().open()?;
    let mut tally = Tally::default();
    while let Some(message) = cursor.next()? {
        tally.add(message.time(), fields_of::<T>(&message));
    }
    Ok(tally)
}

/// Fails unless what was read is what was written.
pub fn check(stream: &Stream, expected: Tally, found: Tally) -> Result<(), Failure> {
    if found == expected {
        return Ok(());
    }
    let name = stream.name();
    Err(Failure::new(format!("stream {name:?}: wrote {expected:?}, read {found:?}; please report this")))
}

/// Bytes of all the stream's files for each message.
pub fn size(stream: &Stream, case: &str, report: &mut Report) -> Result<(), Failure> {
    let stats = stream.stats()?;
    report.add(case, "size", "bytes/message", stats.bytes as f64 / stats.messages as f64);
    Ok(())
}

/// Messages a second since `started`.
pub fn rate(report: &mut Report, case: &str, messages: u64, started: Instant) {
    report.add(case, "rate", "messages/s", messages as f64 / started.elapsed().as_secs_f64());
}

/// What `work` returns on each of so many threads.
pub fn from_each<R: Send>(threads: u64, work: impl Fn(u64) -> R + Sync) -> Vec<R> {
    thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread panicked")).collect()
    })
}
