//! `tapedb demo`: the main job on an embedded database, with proof.
//!
//! A feed of several exchanges is recorded into a durable stream. Then four readers replay it from the beginning while
//! a writer goes on appending; each comes to the end of history and stays live. In the end every reader must have seen
//! every sequence number once and in order, and the same bytes that the writer wrote.

use crate::args::count;
use crate::checksum::Checksum;
use crate::failure::Failure;
use crate::ui::{self, Ui, per_second, thousands};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use tapedb_codec::{SchemaBuilder, encode};
use tapedb_engine::{Database, Error, Loader, Stream, StreamOptions};
use tapedb_market::Package;
use tapedb_market::feed::{Feed, FeedConfig};

/// The demo's stream.
const STREAM: &str = "feed";
/// The writer flushes so often while the readers replay.
const LIVE_FLUSH_INTERVAL: Duration = Duration::from_millis(1);
/// A reader that waits in vain so often after the writer has stopped gives up; the report shows what it lacks.
const SILENCES_MAX: u32 = 50;

/// Record a generated feed, replay it with four readers while it grows, and prove that nothing is lost.
///
/// Makes the database if it is not there; a stream "feed" in it from an earlier demo is replaced.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Directory of the database.
    #[arg(long, value_name = "DIR", default_value = "demo.tapedb")]
    db: PathBuf,

    /// Messages to record before the replay, such as 10M or 500k.
    #[arg(long, value_name = "N", default_value = "10M", value_parser = count)]
    messages: u64,

    /// Concurrent readers.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    readers: u32,

    /// Messages a second that the writer appends while the readers replay.
    #[arg(long, value_name = "N", default_value = "100k", value_parser = count)]
    live_rate: u64,

    /// How long the writer goes on after the last reader has come to the end of history.
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = crate::args::duration)]
    live_time: Duration,

    /// Seed of the generated feed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// What the writer has written, or a reader has seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Tally {
    messages: u64,
    entries: u64,
    sum: Checksum,
}

/// What one reader did.
#[derive(Debug, Default)]
struct Reading {
    seen: Tally,
    history: u64,
    history_time: Duration,
    /// First sequence number that was not the one expected.
    broken_at: Option<u64>,
}

/// What the writer and the readers tell each other.
#[derive(Default)]
struct Progress {
    readers_live: AtomicUsize,
    /// Messages in all, once the writer has stopped.
    total: AtomicU64,
    writer_done: AtomicBool,
}

/// The demo in numbers, for programs.
#[derive(Serialize)]
struct Summary {
    messages: u64,
    load_rate: f64,
    bytes_per_message: f64,
    readers: usize,
    history_rate: f64,
    live_messages: u64,
    checksum: String,
    proven: bool,
}

/// Runs the demo.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    let db = Database::open(&args.db)?;
    let stream = new_stream(&db)?;
    let config = FeedConfig { seed: args.seed, ..FeedConfig::default() };
    let mut feed = Feed::new(config).map_err(|error| Failure::new(error.to_string()))?;
    let (contracts, database) = (feed.symbols().len(), args.db.display());
    say(
        ui,
        &format!(
            "Recording {} messages of {contracts} contracts into {database} …",
            thousands(args.messages)
        ),
    )?;

    let (started, mut written) = (Instant::now(), Tally::default());
    record(&stream, &mut feed, &mut written, args.messages, ui)?;
    let load_rate = per_second(written.messages, started.elapsed().as_secs_f64());
    let stats = stream.stats()?;
    let bytes_per_message = stats.bytes as f64 / stats.messages.max(1) as f64;
    let (messages, entries) = (thousands(written.messages), thousands(written.entries));
    say(
        ui,
        &format!(
            "  {messages} messages with {entries} book changes and trades: {} messages/s",
            whole(load_rate)
        ),
    )?;
    let size = ui::bytes(stats.bytes);
    say(ui, &format!("  {size} on disk, {bytes_per_message:.1} bytes per message, all fields kept"))?;

    let (readers, rate) = (args.readers, thousands(args.live_rate));
    say(ui, &format!("\nReplaying with {readers} readers while a writer appends {rate} messages/s …"))?;
    let readings = replay(&stream, &mut feed, &mut written, &args, ui)?;
    let history: u64 = readings.iter().map(|reading| reading.history).sum();
    let longest = readings.iter().map(|reading| reading.history_time).max().unwrap_or_default();
    let history_rate = per_second(history, longest.as_secs_f64());
    let proven = readings.iter().all(|reading| reading.is_exact(&written));
    for (i, reading) in readings.iter().enumerate() {
        say(ui, &reading.describe(i + 1, &written))?;
    }
    say(ui, &format!("  writer: {} messages, checksum {}", thousands(written.messages), written.sum))?;
    say(
        ui,
        &format!(
            "  all readers together: {} messages/s of history, every field decoded",
            whole(history_rate)
        ),
    )?;
    if ui.json() {
        ui.print_json(&Summary {
            messages: written.messages,
            load_rate,
            bytes_per_message,
            readers: readings.len(),
            history_rate,
            live_messages: written.messages - args.messages,
            checksum: written.sum.to_string(),
            proven,
        })?;
    }
    if !proven {
        return Err(Failure::new(
            "a reader did not see what was written; please report this with the lines above",
        ));
    }
    say(ui, "Proven: every reader saw every message once, in order, bit for bit.\n\nLook around:")?;
    for command in ["streams --db DB", "read --db DB feed --limit 5", "tail --db DB feed --last 3 --for 1s"] {
        say(ui, &format!("  target/release/tapedb {}", command.replace("DB", &database.to_string())))?;
    }
    Ok(())
}

/// Prints a line for people.
fn say(ui: &Ui, line: &str) -> Result<(), Failure> {
    if ui.json() { Ok(()) } else { ui.print(&format!("{line}\n")) }
}

fn whole(rate: f64) -> String {
    thousands(rate as u64)
}

fn new_stream(db: &Database) -> Result<Stream, Failure> {
    match db.delete_stream(STREAM) {
        Ok(()) | Err(Error::NoStream { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    let schema = SchemaBuilder::new().with::<Package>().finish();
    Ok(db.create_stream(STREAM, schema, StreamOptions::default())?)
}

/// Records `messages` messages at full speed.
fn record(
    stream: &Stream,
    feed: &mut Feed,
    written: &mut Tally,
    messages: u64,
    ui: &Ui,
) -> Result<(), Failure> {
    let (mut loader, mut body) = (stream.loader()?, Vec::new());
    let mut progress = ui.progress("recording", messages);
    for done in 0..messages {
        append(&mut loader, feed, written, &mut body)?;
        if done % 16_384 == 0 {
            progress.update(done, done);
            ui.check_interrupt()?;
        }
    }
    loader.close()?;
    Ok(())
}

/// Appends the feed's next message and counts it.
fn append(
    loader: &mut Loader,
    feed: &mut Feed,
    written: &mut Tally,
    body: &mut Vec<u8>,
) -> Result<(), Error> {
    let message = feed.next();
    loader.append(message.symbol, message.time, message.package)?;
    // The proof needs the bytes as the writer meant them, not as they came back.
    body.clear();
    encode(message.package, body);
    written.sum.add(message.time, message.symbol, body);
    written.messages += 1;
    written.entries += message.package.entries.len() as u64;
    Ok(())
}

/// Reads with several readers while the writer goes on.
fn replay(
    stream: &Stream,
    feed: &mut Feed,
    written: &mut Tally,
    args: &Args,
    ui: &Ui,
) -> Result<Vec<Reading>, Failure> {
    let progress = Progress::default();
    thread::scope(|scope| {
        let readers: Vec<_> =
            (0..args.readers).map(|_| scope.spawn(|| read(stream, &progress, ui))).collect();
        let outcome = write_live(stream, feed, written, args, &progress, ui);
        progress.total.store(written.messages, Ordering::Release);
        progress.writer_done.store(true, Ordering::Release);
        let readings: Result<Vec<Reading>, Failure> =
            readers.into_iter().map(|reader| reader.join().expect("a reader panicked")).collect();
        outcome.and(readings)
    })
}

/// Appends at the live rate until all readers have been live for a while.
fn write_live(
    stream: &Stream,
    feed: &mut Feed,
    written: &mut Tally,
    args: &Args,
    progress: &Progress,
    ui: &Ui,
) -> Result<(), Failure> {
    let (mut loader, mut body) = (stream.loader()?, Vec::new());
    let (started, before) = (Instant::now(), written.messages);
    let mut all_live_since: Option<Instant> = None;
    while all_live_since.is_none_or(|since| since.elapsed() < args.live_time) {
        ui.check_interrupt()?;
        let due = before + (started.elapsed().as_secs_f64() * args.live_rate as f64) as u64;
        while written.messages < due {
            append(&mut loader, feed, written, &mut body)?;
        }
        loader.flush()?;
        if progress.readers_live.load(Ordering::Acquire) == args.readers as usize {
            all_live_since.get_or_insert_with(Instant::now);
        }
        thread::sleep(LIVE_FLUSH_INTERVAL);
    }
    loader.close()?;
    Ok(())
}

/// One reader: from the first message through history into the live part, to the writer's last message.
fn read(stream: &Stream, progress: &Progress, ui: &Ui) -> Result<Reading, Failure> {
    let mut cursor = stream.cursor().live().open()?;
    let (mut reading, mut package) = (Reading::default(), Package::default());
    let (started, mut live, mut silences) = (Instant::now(), false, 0);
    loop {
        if !live && cursor.is_live() {
            live = true;
            reading.history_time = started.elapsed();
            // It is the first live message that ends history, if one has come.
            reading.history = reading.seen.messages.saturating_sub(u64::from(silences == 0));
            progress.readers_live.fetch_add(1, Ordering::AcqRel);
        }
        let Some(message) = cursor.next_within(Duration::from_millis(20))? else {
            ui.check_interrupt()?;
            silences += 1;
            if progress.writer_done.load(Ordering::Acquire) {
                // Everything is committed: what a reader has not got by now, it will not get.
                let total = progress.total.load(Ordering::Acquire);
                if reading.seen.messages >= total || silences > SILENCES_MAX {
                    return Ok(reading);
                }
            }
            continue;
        };
        silences = 0;
        if message.sequence() != reading.seen.messages {
            reading.broken_at.get_or_insert(message.sequence());
        }
        message.decode_into(&mut package)?;
        reading.seen.entries += package.entries.len() as u64;
        reading.seen.sum.add(message.time(), message.symbol(), message.body());
        reading.seen.messages += 1;
        if reading.seen.messages % 65_536 == 0 {
            ui.check_interrupt()?;
        }
    }
}

impl Reading {
    /// Whether the reader saw what the writer wrote.
    fn is_exact(&self, written: &Tally) -> bool {
        self.broken_at.is_none() && self.seen == *written
    }

    fn describe(&self, number: usize, written: &Tally) -> String {
        let seconds = self.history_time.as_secs_f64();
        let sequences = match self.broken_at {
            None => format!("0 to {} once and in order", thousands(self.seen.messages.saturating_sub(1))),
            Some(at) => format!("BROKEN at {at}"),
        };
        format!(
            "  reader {number}: {} from history in {seconds:.1} s, {} live; sequences {sequences}; checksum {} {}",
            thousands(self.history),
            thousands(self.seen.messages - self.history),
            self.seen.sum,
            if self.is_exact(written) { "ok" } else { "WRONG" },
        )
    }
}
