//! Loading and reading, embedded: generated bars and level-2 feed, real data where it is at hand, and single messages
//! that are on the disk when they are acknowledged.

use super::fields::Fields;
use super::report::Report;
use crate::args::count;
use crate::failure::Failure;
use crate::ui::Ui;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;
use tapedb_codec::{Record, SchemaBuilder, view_trusted};
use tapedb_engine::{Cursor, Database, Durability, Message, Stream, StreamOptions};
use tapedb_market::bars::{Bars, BarsConfig};
use tapedb_market::feed::{Feed, FeedConfig};
use tapedb_market::import::{self, Format, ImportOptions, Merge};
use tapedb_market::{Bar, Package};
use tapedb_schema::Timestamp;

/// Distinct messages that are generated; a load repeats them, moved on in time, so that generating costs nothing.
const POOL: usize = 200_000;

/// Writers of `load.sync`; each waits for the disk after every message.
const SYNC_WRITERS: u64 = 64;
/// Most messages of `load.sync`, a thousand from each writer.
const SYNC_MESSAGES_MAX: u64 = SYNC_WRITERS * 1_000;
/// Most syncs of `disk.fdatasync`.
const DISK_SYNCS_MAX: u64 = 2_000;

/// Loading and reading rates, and bytes per message
///
/// Reads touch every field in place, through views over bytes that this process wrote itself and does not validate
/// again; `tapedb read --output none` measures reading with validation.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Messages of each generated case, such as 10M or 500k
    #[arg(long, value_name = "N", default_value = "10M", value_parser = count)]
    messages: u64,
    /// Runs of each case; the median counts
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Directory for the database, which is removed afterwards
    #[arg(long, value_name = "DIR", default_value = "bench.tapedb")]
    db: PathBuf,
    /// Folder with recorded market data (us-equity-ticks, binance-raw-ws, …); without it those cases are left out
    #[arg(long, value_name = "DIR", env = "TAPEDB_DATA")]
    data: Option<PathBuf>,
}

/// Runs the benchmark.
pub fn run(args: Args, ui: &Ui) -> Result<Report, Failure> {
    let db = Scratch::new(&args.db)?;
    let (bars, feed) = (bars_pool(), feed_pool(args.messages)?);
    let mut report = Report::new("storage");
    for run in 0..args.runs {
        ui.note(&format!("run {} of {}", run + 1, args.runs));
        generated(&db, "bars", &bars, args.messages, &mut report, ui)?;
        generated(&db, "feed", &feed, args.messages, &mut report, ui)?;
        synced(&db, &bars, args.messages, &mut report, ui)?;
        for (name, format) in [("us-equity", Format::UsEquityTicks), ("binance", Format::BinanceRawWs)] {
            if let Some(data) = &args.data {
                recorded(&db, name, format, data, &mut report, ui)?;
            }
        }
    }
    Ok(report)
}

/// A database that is removed in the end.
struct Scratch {
    db: Database,
    path: PathBuf,
}

impl Scratch {
    fn new(path: &Path) -> Result<Self, Failure> {
        if path.exists() {
            let path = path.display();
            return Err(Failure::new(format!(
                "{path} exists; remove it, or name another directory with --db"
            )));
        }
        Ok(Self { db: Database::open(path)?, path: path.into() })
    }

    fn stream<T: Record>(&self, name: &str) -> Result<Stream, Failure> {
        let schema = SchemaBuilder::new().with::<T>().finish();
        Ok(self.db.create_stream(name, schema, StreamOptions::default())?)
    }

    fn sync_stream<T: Record>(&self, name: &str) -> Result<Stream, Failure> {
        let schema = SchemaBuilder::new().with::<T>().finish();
        let options = StreamOptions { durability: Durability::Sync, ..StreamOptions::default() };
        Ok(self.db.create_stream(name, schema, options)?)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Messages to load again and again.
struct Pool<T> {
    messages: Vec<(Timestamp, String, T)>,
    /// Virtual time that the pool spans: the next round begins so much later.
    span_ns: i64,
}

/// Loads and reads one generated stream.
fn generated<T: Fields + Sync>(
    scratch: &Scratch,
    name: &str,
    pool: &Pool<T>,
    messages: u64,
    report: &mut Report,
    ui: &Ui,
) -> Result<(), Failure> {
    let stream = scratch.stream::<T>(name)?;
    let started = Instant::now();
    let expected = load(&stream, pool, messages, ui)?;
    let seconds = started.elapsed().as_secs_f64();
    report.add(&format!("load.{name}"), "rate", "messages/s", messages as f64 / seconds);
    read::<T>(&stream, name, Tally { messages, sum: expected }, report)?;
    scratch.db.delete_stream(name)?;
    Ok(())
}

/// Loads the pool as often as it takes; returns the sum of all fields.
fn load<T: Fields>(stream: &Stream, pool: &Pool<T>, messages: u64, ui: &Ui) -> Result<u64, Failure> {
    let mut loader = stream.loader()?;
    let sums: Vec<u64> = pool.messages.iter().map(|(_, _, record)| record.fold(ordered)).collect();
    let (mut expected, mut left, mut shift) = (0u64, messages, 0);
    while left > 0 {
        ui.check_interrupt()?;
        for ((time, symbol, record), sum) in pool.messages.iter().zip(&sums).take(left as usize) {
            let time = Timestamp(time.0 + shift);
            loader.append(symbol, time, record)?;
            expected = expected.wrapping_add(sum ^ time.0 as u64);
        }
        left = left.saturating_sub(pool.messages.len() as u64);
        shift += pool.span_ns;
    }
    loader.close()?;
    Ok(expected)
}

/// What a reader found, or should find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tally {
    messages: u64,
    sum: u64,
}

/// Reads the stream with one reader, then with four at once, every field of every message.
fn read<T: Fields>(stream: &Stream, name: &str, expected: Tally, report: &mut Report) -> Result<(), Failure> {
    for readers in [1, 4] {
        let started = Instant::now();
        let tallies = from_each(readers, |_| read_all::<T>(stream));
        let seconds = started.elapsed().as_secs_f64();
        for tally in tallies {
            check(stream, expected, tally?)?;
        }
        let rate = (expected.messages * readers) as f64 / seconds;
        report.add(&format!("read.{name}.{readers}"), "rate", "messages/s", rate);
    }
    let stats = stream.stats()?;
    report.add(&format!("size.{name}"), "size", "bytes/message", stats.bytes as f64 / stats.messages as f64);
    Ok(())
}

fn check(stream: &Stream, expected: Tally, found: Tally) -> Result<(), Failure> {
    if found == expected {
        return Ok(());
    }
    let name = stream.name();
    Err(Failure::new(format!("stream {name:?}: wrote {expected:?}, read {found:?}; please report this")))
}

fn read_all<T: Fields>(stream: &Stream) -> Result<Tally, Failure> {
    let mut cursor: Cursor = stream.cursor().open()?;
    let mut tally = Tally { messages: 0, sum: 0 };
    while let Some(message) = cursor.next()? {
        tally.messages += 1;
        tally.sum = tally.sum.wrapping_add(sum_of::<T>(&message) ^ message.time().0 as u64);
    }
    Ok(tally)
}

/// The bytes are this process's own: no need to validate them again.
#[inline]
fn sum_of<T: Fields>(message: &Message<'_>) -> u64 {
    T::fold_view(view_trusted::<T>(message.body()), ordered)
}

/// Joins a field to those before it so that their order counts.
#[inline]
fn ordered(sum: u64, word: u64) -> u64 {
    sum.rotate_left(1) ^ word
}

/// Many writers of single messages, each acknowledged when it is on the disk; then the disk alone: the same bytes, one
/// append and one sync after the other.
fn synced(
    scratch: &Scratch,
    pool: &Pool<Bar>,
    messages: u64,
    report: &mut Report,
    ui: &Ui,
) -> Result<(), Failure> {
    let each = messages.clamp(SYNC_WRITERS, SYNC_MESSAGES_MAX) / SYNC_WRITERS;
    let stream = scratch.sync_stream::<Bar>("sync")?;
    let started = Instant::now();
    let sums = from_each(SYNC_WRITERS, |writer| load_singly(&stream, pool, writer, each, ui));
    let seconds = started.elapsed().as_secs_f64();
    let mut expected = Tally { messages: SYNC_WRITERS * each, sum: 0 };
    for sum in sums {
        expected.sum = expected.sum.wrapping_add(sum?);
    }
    check(&stream, expected, read_all::<Bar>(&stream)?)?;
    report.add("load.sync", "rate", "messages/s", expected.messages as f64 / seconds);
    let message_bytes = stream.stats()?.bytes / expected.messages;
    let syncs = expected.messages.min(DISK_SYNCS_MAX);
    let rate = disk_syncs_per_second(&scratch.path.join("fdatasync"), message_bytes, syncs)?;
    report.add("disk.fdatasync", "rate", "syncs/s", rate);
    scratch.db.delete_stream("sync")?;
    Ok(())
}

/// Loads every so many-eth message of the pool, from the `writer`-th on; returns the sum of all fields.
fn load_singly(stream: &Stream, pool: &Pool<Bar>, writer: u64, each: u64, ui: &Ui) -> Result<u64, Failure> {
    let mut loader = stream.loader()?;
    let own = pool.messages.iter().skip(writer as usize).step_by(SYNC_WRITERS as usize);
    let mut expected = 0u64;
    for (time, symbol, record) in own.cycle().take(each as usize) {
        ui.check_interrupt()?;
        loader.append(symbol, *time, record)?;
        loader.flush()?;
        expected = expected.wrapping_add(record.fold(ordered) ^ time.0 as u64);
    }
    Ok(expected)
}

/// How often a second this disk takes an append of so many bytes to a file, and a sync of it.
fn disk_syncs_per_second(path: &Path, bytes: u64, syncs: u64) -> Result<f64, Failure> {
    let failed = |error| Failure::new(format!("{}: {error}; check the disk", path.display()));
    let mut file = File::create(path).map_err(failed)?;
    let message = vec![0x5a; bytes as usize];
    let started = Instant::now();
    for _ in 0..syncs {
        file.write_all(&message).and_then(|()| file.sync_data()).map_err(failed)?;
    }
    let rate = syncs as f64 / started.elapsed().as_secs_f64();
    std::fs::remove_file(path).map_err(failed)?;
    Ok(rate)
}

/// What `work` returns on each of so many threads.
fn from_each<R: Send>(threads: u64, work: impl Fn(u64) -> R + Sync) -> Vec<R> {
    thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread panicked")).collect()
    })
}

/// Imports recorded data, and reads it.
fn recorded(
    scratch: &Scratch,
    name: &str,
    format: Format,
    data: &Path,
    report: &mut Report,
    ui: &Ui,
) -> Result<(), Failure> {
    let folder = data.join(format.to_string());
    if !folder.exists() {
        ui.note(&format!("{} is not there: its cases are left out", folder.display()));
        return Ok(());
    }
    let failed = |error: import::ImportError| Failure::new(error.to_string());
    let stream = scratch.stream::<Package>(name)?;
    let files = import::discover(format, &[folder], &ImportOptions::default()).map_err(failed)?;
    let (mut loader, mut package) = (stream.loader()?, Package::default());
    let mut expected = Tally { messages: 0, sum: 0 };
    let started = Instant::now();
    let mut merge = Merge::new(files);
    while let Some(row) = merge.next(&mut package).map_err(failed)? {
        loader.append(row.symbol, row.time, &package)?;
        expected.messages += 1;
        expected.sum = expected.sum.wrapping_add(package.fold(ordered) ^ row.time.0 as u64);
    }
    loader.close()?;
    let seconds = started.elapsed().as_secs_f64();
    report.add(&format!("import.{name}"), "rate", "messages/s", expected.messages as f64 / seconds);
    read::<Package>(&stream, name, expected, report)?;
    scratch.db.delete_stream(name)?;
    Ok(())
}

fn bars_pool() -> Pool<Bar> {
    let mut bars = Bars::new(BarsConfig { symbols: 10, ..BarsConfig::default() });
    let mut next = || {
        let message = bars.next();
        (message.time, message.symbol.to_string(), *message.bar)
    };
    pool((0..POOL).map(|_| next()).collect())
}

fn feed_pool(messages: u64) -> Result<Pool<Package>, Failure> {
    let mut feed = Feed::new(FeedConfig::default()).map_err(|error| Failure::new(error.to_string()))?;
    let mut next = || {
        let message = feed.next();
        (message.time, message.symbol.to_string(), message.package.clone())
    };
    Ok(pool((0..POOL.min(messages as usize)).map(|_| next()).collect()))
}

fn pool<T>(messages: Vec<(Timestamp, String, T)>) -> Pool<T> {
    let span_ns = match (messages.first(), messages.last()) {
        (Some(first), Some(last)) => last.0.0 - first.0.0 + 1,
        _ => 0,
    };
    Pool { messages, span_ns }
}
