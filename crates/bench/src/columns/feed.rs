//! A generated level-2 feed, whose packages have two entries each: loaded until sealed, read as rows and as columns, printed as
//! JSON.

use super::sum;
use crate::pool::{Pool, load};
use crate::report::Report;
use crate::storage::{Scratch, steps};
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;
use tapedb_engine::StreamOptions;
use tapedb_market::Package;
use tapedb_terminal::{Failure, Ui};

/// The stream's name.
const STREAM: &str = "feed";

/// The fields of packages and of the entries that the feed has.
pub const FIELDS: [&str; 20] = [
    "kind",
    "source_time",
    "match_time",
    "sequence",
    "entries.Trade.price",
    "entries.Trade.size",
    "entries.Trade.aggressor",
    "entries.Trade.id",
    "entries.Level2Snapshot.side",
    "entries.Level2Snapshot.level",
    "entries.Level2Snapshot.price",
    "entries.Level2Snapshot.size",
    "entries.Level2Snapshot.orders",
    "entries.Level2Update.action",
    "entries.Level2Update.side",
    "entries.Level2Update.level",
    "entries.Level2Update.price",
    "entries.Level2Update.size",
    "entries.Level2Update.orders",
    "entries.Level2Update.exchange",
];

/// Measures the cases of the feed: a quarter as many messages as bars.
pub fn measure(
    scratch: &Scratch,
    pool: &Pool<Package>,
    bars: u64,
    report: &mut Report,
    ui: &Ui,
) -> Result<(), Failure> {
    let stream = scratch.stream::<Package>(STREAM, StreamOptions::default())?;
    let started = Instant::now();
    let expected = load(&stream, pool, (bars / 4).max(1), steps::BATCH, ui)?;
    steps::seal(&stream, "load.sealed.feed", started, report)?;
    steps::rows::<Package>(&stream, "read.feed", 1, expected, report)?;
    let columns = sum::measure(stream.columns("Package", FIELDS), FIELDS.len(), "read.feed.columns", report)?;
    let in_order = sum::read(stream.columns("Package", FIELDS).in_time_order(), FIELDS.len())?;
    sum::check("read.feed.columns", &in_order, &columns)?;
    json(&scratch.path, expected.messages, report)?;
    scratch.db.delete_stream(STREAM)?;
    Ok(())
}

/// `tapedb read --output json` in a process of its own, whose lines are counted.
fn json(db: &Path, messages: u64, report: &mut Report) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::new(format!("tapedb read: {error}"));
    let started = Instant::now();
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.args(["read", STREAM, "--output", "json", "--db"]).arg(db).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    let mut lines = 0;
    if let Some(mut out) = child.stdout.take() {
        let mut buffer = vec![0; 1 << 20];
        loop {
            match out.read(&mut buffer).map_err(failed)? {
                0 => break,
                count => lines += line_ends(&buffer[..count]),
            }
        }
    }
    let status = child.wait().map_err(failed)?;
    if !status.success() || lines != messages {
        return Err(Failure::new(format!(
            "tapedb read printed {lines} lines of {messages} messages, and ended with {status}"
        )));
    }
    steps::rate(report, "output.json.feed", messages, started);
    Ok(())
}

/// Ends of lines. Counted in bytes, which the widest registers hold most of, so that what reads costs little.
fn line_ends(text: &[u8]) -> u64 {
    let ends = |part: &[u8]| part.iter().map(|byte| u8::from(*byte == b'\n')).sum::<u8>();
    text.chunks(usize::from(u8::MAX)).map(|part| u64::from(ends(part))).sum()
}
