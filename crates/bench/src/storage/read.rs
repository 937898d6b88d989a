//! Loading a generated stream, sealing it, and reading it as rows and as columns.

use super::scratch::Scratch;
use super::steps::{BATCH, check, rate, rows, seal, size};
use super::{cold, sealed};
use crate::pool::{Pool, Tally, load};
use crate::report::Report;
use std::time::Instant;
use tapedb_engine::{Stream, StreamOptions, Values};
use tapedb_market::{Bar, Package};
use tapedb_terminal::{Failure, Ui};

/// The fields of a bar.
const BAR_FIELDS: [&str; 5] = ["open", "high", "low", "close", "volume"];

/// Bars, the content of the performance targets.
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

/// The generated feed: records of different sizes.
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
