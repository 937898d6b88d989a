//! `tapedb demo`: record, replay and go live on an embedded database, with proof.
//!
//! A feed of several exchanges is recorded into a durable stream. Then four readers replay it from the beginning while a writer
//! continues to append; each reaches the end of history and stays live. At the end every reader must have seen every sequence
//! number once and in order, and the same bytes that the writer wrote.

#[cfg(feature = "web")]
mod serve;

use crate::checksum::Checksum;
use crate::output::{Format, write_plain};
use serde::Serialize;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};
use tapedb_codec::{Record, SchemaBuilder, encode};
use tapedb_engine::{Database, Error, Loader, Message, Stream, StreamOptions};
use tapedb_market::Package;
use tapedb_market::feed::{Feed, FeedConfig};
use tapedb_terminal::{
    Failure, Ui,
    quantity::count,
    ui::{self, per_second, thousands},
};

/// Maximum characters of a shown message.
const LINE_LENGTH_MAX: usize = 160;
/// Where the demo's database is, unless --db names another place.
const DIRECTORY: &str = "demo.tapedb";
/// The demo's stream.
const STREAM: &str = "demo";
/// An empty file in the stream's directory that marks a stream of the demo.
const MARK: &str = "made-by-demo";
/// Time between two flushes of the writer during the replay.
const LIVE_FLUSH_INTERVAL: Duration = Duration::from_millis(1);
/// Maximum messages that the writer appends before it flushes and checks for the end, also when it is behind its rate.
const LIVE_BURST_MAX: u64 = 4096;
/// A reader ends after this number of waits without a message once the writer has stopped; the report shows what is missing.
const SILENCES_MAX: u32 = 50;

/// Record a generated feed, replay it with four readers while it grows, and prove that nothing is lost.
///
/// Creates the database if it does not exist, and a stream "demo" in it, shows some of its messages, and removes both at the end,
/// unless --keep is given. A stream "demo" of an earlier demo is replaced; one that was not created by a demo is refused, and other
/// streams are not touched.
///
/// With --serve: shows the console of a server in the browser, on two hours of generated data that go on live, until Ctrl-C.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Directory of the database [default: demo.tapedb; with --serve a temporary one, which is removed at the end].
    #[arg(long, value_name = "DIR", value_parser = tapedb_terminal::location::local)]
    db: Option<PathBuf>,

    /// Serve generated data that goes on live, with the console in the browser, until Ctrl-C.
    #[arg(long, conflicts_with_all = ["readers", "live_time", "keep"])]
    serve: bool,

    /// With --serve: address of the console [default: 127.0.0.1:7848, or the next port that is free].
    #[arg(long, value_name = "HOST:PORT", requires = "serve")]
    http: Option<std::net::SocketAddr>,

    /// Messages to record before the replay, such as 10M or 500k; with --serve the history [default there: 1M].
    #[arg(long, value_name = "N", default_value = "10M", default_value_if("serve", "true", "1M"), value_parser = count)]
    messages: u64,

    /// Concurrent readers.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    readers: u32,

    /// Messages a second that the writer appends while the readers replay; with --serve [default there: 150] of history too.
    #[arg(long, value_name = "N", default_value = "100k", default_value_if("serve", "true", "150"), value_parser = count)]
    live_rate: u64,

    /// How long the writer continues after the last reader has reached the end of history.
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = tapedb_terminal::quantity::duration)]
    live_time: Duration,

    /// Seed of the generated feed.
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Keep the recorded stream.
    #[arg(long)]
    keep: bool,
}

/// What the writer has written, or a reader has seen.
#[derive(Debug, Default)]
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
    /// First unexpected sequence number.
    broken_at: Option<u64>,
}

/// State shared by the writer and the readers.
#[derive(Default)]
struct Progress {
    /// Readers that the writer waits for: neither live nor ended.
    readers_behind: AtomicUsize,
    /// Messages in all, once the writer has stopped.
    total: AtomicU64,
    writer_done: AtomicBool,
}

/// Marks a reader that the writer waits for, until it is dropped, also by an error or a panic.
struct Behind<'a>(&'a AtomicUsize);

impl<'a> Behind<'a> {
    fn new(readers: &'a AtomicUsize) -> Self {
        readers.fetch_add(1, Ordering::AcqRel);
        Self(readers)
    }
}

impl Drop for Behind<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The feed, and what was written.
struct Writer {
    feed: Feed,
    written: Tally,
    body: Vec<u8>,
}

/// The result in JSON output.
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

/// Messages that are shown from the beginning and from the end.
const SHOWN: u64 = 3;

/// Runs the demo, and removes what it has created.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    if args.serve {
        return serve(&args, ui);
    }
    let was_there = args.directory().exists();
    let outcome = demonstrate(&args, ui);
    match &outcome {
        // The files stay, to find the cause.
        Err(Failure::Failed(_)) => outcome,
        Ok(()) if args.keep => look_around(&args, ui),
        _ if args.keep => outcome,
        _ => remove(&args, was_there, ui).and(outcome),
    }
}

#[cfg(feature = "web")]
fn serve(args: &Args, ui: &Ui) -> Result<(), Failure> {
    serve::run(args, ui)
}

#[cfg(not(feature = "web"))]
fn serve(args: &Args, _: &Ui) -> Result<(), Failure> {
    // It is of no use here, and accepted all the same, so that the error names what is missing.
    let _ = args.http;
    Err(Failure::usage(
        "this program was built without the console; build it with the feature `web`, as `make demo-serve` does",
    ))
}

impl Args {
    /// The directory of the database, without --serve.
    fn directory(&self) -> &Path {
        self.db.as_deref().unwrap_or(Path::new(DIRECTORY))
    }
}

/// Records, replays and proves.
fn demonstrate(args: &Args, ui: &Ui) -> Result<(), Failure> {
    let db = Database::open(args.directory())?;
    let stream = new_stream(&db)?;
    let mut writer = Writer::new(args.seed)?;
    let (load_rate, bytes_per_message) = record(&stream, &mut writer, args, ui)?;
    show(&stream, ui)?;
    let readings = replay(&stream, &mut writer, args, ui)?;
    let written = &writer.written;
    let summary = Summary {
        messages: written.messages,
        load_rate,
        bytes_per_message,
        readers: readings.len(),
        history_rate: history_rate(&readings),
        live_messages: written.messages - args.messages,
        checksum: written.checksum(),
        proven: readings.iter().all(|reading| reading.is_exact(written)),
    };
    report(&summary, &readings, written, ui)?;
    match summary.proven {
        true => say(ui, "Proven: every reader saw every message once, in order, bit for bit."),
        false => Err(Failure::new(
            "a reader did not see what was written; please report this with the lines above",
        )),
    }
}

/// Prints the result of the replay.
fn report(summary: &Summary, readings: &[Reading], written: &Tally, ui: &Ui) -> Result<(), Failure> {
    if ui.json() {
        return ui.print_json(summary);
    }
    for (i, reading) in readings.iter().enumerate() {
        say(ui, &reading.describe(i + 1, written))?;
    }
    say(ui, &format!("  writer: {} messages, checksum {}", thousands(written.messages), summary.checksum))?;
    let rate = whole(summary.history_rate);
    say(ui, &format!("  all readers together: {rate} messages/s of history, every field decoded"))
}

/// Prints the first messages and the last ones.
fn show(stream: &Stream, ui: &Ui) -> Result<(), Failure> {
    let ends = [("The first messages:", stream.cursor()), ("The last ones:", stream.cursor().last(SHOWN))];
    for (what, cursor) in ends {
        let (mut cursor, mut lines) = (cursor.open()?, Vec::new());
        for _ in 0..SHOWN {
            let Some(message) = cursor.next()? else { break };
            write_plain(Format::Text, message.symbol(), message.time(), message.record()?, &mut lines);
        }
        say(ui, what)?;
        for line in String::from_utf8_lossy(&lines).lines() {
            let end = line.char_indices().nth(LINE_LENGTH_MAX);
            say(ui, &end.map_or(format!("  {line}"), |(end, _)| format!("  {} …", &line[..end])))?;
        }
    }
    Ok(())
}

/// Removes the stream, and the database if the demo created it.
fn remove(args: &Args, was_there: bool, ui: &Ui) -> Result<(), Failure> {
    if was_there {
        return Ok(Database::open(args.directory())?.delete_stream(STREAM)?);
    }
    std::fs::remove_dir_all(args.directory()).map_err(|error| {
        let database = args.directory().display();
        Failure::new(format!("cannot remove {database}, which the demo created: {error}; remove it by hand"))
    })?;
    say(ui, &format!("{} is removed again; --keep leaves it for inspection.", args.directory().display()))
}

/// Prints what to do next.
fn look_around(args: &Args, ui: &Ui) -> Result<(), Failure> {
    say(ui, "\nLook around:")?;
    let database = args.directory().display().to_string();
    let program = std::env::args().next().unwrap_or_else(|| "tapedb".into());
    for command in ["streams --db DB", "desc --db DB demo", "tail --db DB demo --last 3 --for 1s"] {
        say(ui, &format!("  {program} {}", command.replace("DB", &database)))?;
    }
    Ok(())
}

/// Messages of history a second, of all readers together.
fn history_rate(readings: &[Reading]) -> f64 {
    let history: u64 = readings.iter().map(|reading| reading.history).sum();
    let longest = readings.iter().map(|reading| reading.history_time).max().unwrap_or_default();
    per_second(history, longest.as_secs_f64())
}

/// Prints a line, unless the output is JSON.
fn say(ui: &Ui, line: &str) -> Result<(), Failure> {
    if ui.json() { Ok(()) } else { ui.print(&format!("{line}\n")) }
}

fn whole(rate: f64) -> String {
    thousands(rate as u64)
}

/// A new stream for the demo, replacing that of an earlier demo.
fn new_stream(db: &Database) -> Result<Stream, Failure> {
    if db.streams()?.iter().any(|name| name == STREAM) {
        if !db.stream(STREAM)?.path().join(MARK).exists() {
            return Err(Failure::new(format!(
                "{} has a stream {STREAM:?} that was not created by a demo and is not replaced; name another database with --db",
                db.path().display()
            )));
        }
        db.delete_stream(STREAM)?;
    }
    let schema = SchemaBuilder::new().with::<Package>().finish();
    let stream = db.create_stream(STREAM, schema, StreamOptions::default())?;
    let mark = stream.path().join(MARK);
    File::create(&mark).map_err(|error| {
        Failure::new(format!("cannot write {}: {error}; check the free disk space", mark.display()))
    })?;
    Ok(stream)
}

impl Writer {
    fn new(seed: u64) -> Result<Self, Failure> {
        let feed = Feed::new(FeedConfig { seed, ..FeedConfig::default() });
        let feed = feed.map_err(|error| Failure::new(error.to_string()))?;
        Ok(Self { feed, written: Tally::default(), body: Vec::new() })
    }

    /// Appends the feed's next message and counts it.
    fn append(&mut self, loader: &mut Loader) -> Result<(), Error> {
        let message = self.feed.next();
        loader.append(message.symbol, message.time, message.package)?;
        // The proof needs the bytes that the writer encoded, not those that are read.
        self.body.clear();
        encode(message.package, &mut self.body);
        self.written.sum.add(message.time, message.symbol, Package::NAME, &self.body);
        self.written.messages += 1;
        self.written.entries += message.package.entries.len() as u64;
        Ok(())
    }
}

/// Records messages at full speed; returns messages a second, and bytes per message.
fn record(stream: &Stream, writer: &mut Writer, args: &Args, ui: &Ui) -> Result<(f64, f64), Failure> {
    let (messages, contracts) = (thousands(args.messages), writer.feed.symbols().len());
    let database = args.directory().display();
    say(ui, &format!("Recording {messages} messages of {contracts} contracts into {database} …"))?;
    let started = Instant::now();
    let mut loader = stream.loader()?;
    let mut progress = ui.progress("recording", args.messages);
    for done in 0..args.messages {
        writer.append(&mut loader)?;
        if done % 16_384 == 0 {
            progress.update(done, done);
            ui.check_interrupt()?;
        }
    }
    loader.close()?;
    drop(progress);
    let rate = per_second(args.messages, started.elapsed().as_secs_f64());
    let bytes = stream.stats()?.bytes;
    let bytes_per_message = bytes as f64 / args.messages.max(1) as f64;
    let (entries, size) = (thousands(writer.written.entries), ui::bytes(bytes));
    let whole = whole(rate);
    say(ui, &format!("  {messages} messages with {entries} book changes and trades: {whole} messages/s"))?;
    say(ui, &format!("  {size} on disk, {bytes_per_message:.1} bytes per message, all fields kept"))?;
    Ok((rate, bytes_per_message))
}

/// Reads with several readers while the writer continues.
fn replay(stream: &Stream, writer: &mut Writer, args: &Args, ui: &Ui) -> Result<Vec<Reading>, Failure> {
    let (readers, rate) = (args.readers, thousands(args.live_rate));
    say(ui, &format!("\nReplaying with {readers} readers while a writer appends {rate} messages/s …"))?;
    let progress = Progress::default();
    thread::scope(|scope| {
        let start = |_| {
            // Counted before the writer checks whether all are live.
            let behind = Behind::new(&progress.readers_behind);
            scope.spawn(|| read(stream, behind, &progress, ui))
        };
        let readers: Vec<_> = (0..readers).map(start).collect();
        let outcome = write_live(stream, writer, args, &progress, ui);
        progress.total.store(writer.written.messages, Ordering::Release);
        progress.writer_done.store(true, Ordering::Release);
        let join = |reader: ScopedJoinHandle<'_, _>| reader.join().unwrap_or_else(|_| Err(crashed()));
        let readings: Result<Vec<Reading>, Failure> = readers.into_iter().map(join).collect();
        outcome.and(readings)
    })
}

fn crashed() -> Failure {
    Failure::new("a reader crashed; please report this with what it printed")
}

/// Appends at the live rate, or at full speed if that is lower, until all readers have been live for the given time.
fn write_live(
    stream: &Stream,
    writer: &mut Writer,
    args: &Args,
    progress: &Progress,
    ui: &Ui,
) -> Result<(), Failure> {
    let mut loader = stream.loader()?;
    let (started, before) = (Instant::now(), writer.written.messages);
    let mut all_live_since: Option<Instant> = None;
    while all_live_since.is_none_or(|since| since.elapsed() < args.live_time) {
        ui.check_interrupt()?;
        let due = before.saturating_add((started.elapsed().as_secs_f64() * args.live_rate as f64) as u64);
        let behind = due.saturating_sub(writer.written.messages);
        for _ in 0..behind.min(LIVE_BURST_MAX) {
            writer.append(&mut loader)?;
        }
        loader.flush()?;
        if progress.readers_behind.load(Ordering::Acquire) == 0 {
            all_live_since.get_or_insert_with(Instant::now);
        }
        if behind <= LIVE_BURST_MAX {
            thread::sleep(LIVE_FLUSH_INTERVAL);
        }
    }
    loader.close()?;
    Ok(())
}

/// One reader: from the first message through history and the live part to the writer's last message.
fn read(stream: &Stream, behind: Behind<'_>, progress: &Progress, ui: &Ui) -> Result<Reading, Failure> {
    let mut cursor = stream.cursor().live().open()?;
    let (mut reading, mut package) = (Reading::default(), Package::default());
    let (started, mut behind, mut silences) = (Instant::now(), Some(behind), 0);
    loop {
        if behind.is_some() && cursor.is_live() {
            behind = None;
            reading.history_time = started.elapsed();
            // The first live message ends history, if there is one.
            reading.history = reading.seen.messages.saturating_sub(u64::from(silences == 0));
        }
        let Some(message) = cursor.next_within(Duration::from_millis(20))? else {
            ui.check_interrupt()?;
            silences += 1;
            if progress.writer_done.load(Ordering::Acquire) {
                // All messages are committed: a message that is missing now will not arrive.
                let total = progress.total.load(Ordering::Acquire);
                if reading.seen.messages >= total || silences > SILENCES_MAX {
                    return Ok(reading);
                }
            }
            continue;
        };
        silences = 0;
        reading.take(&message, &mut package)?;
        if reading.seen.messages % 65_536 == 0 {
            ui.check_interrupt()?;
        }
    }
}

impl Tally {
    fn checksum(&self) -> String {
        format!("{:08x}", self.sum.value())
    }
}

impl Reading {
    /// Decodes and counts one message.
    fn take(&mut self, message: &Message<'_>, package: &mut Package) -> Result<(), Error> {
        if message.sequence() != self.seen.messages {
            self.broken_at.get_or_insert(message.sequence());
        }
        message.decode_into(package)?;
        self.seen.entries += package.entries.len() as u64;
        self.seen.sum.add(message.time(), message.symbol(), message.type_name(), message.body());
        self.seen.messages += 1;
        Ok(())
    }

    /// Whether the reader saw what the writer wrote.
    fn is_exact(&self, written: &Tally) -> bool {
        let of = |tally: &Tally| (tally.messages, tally.entries, tally.sum.value());
        self.broken_at.is_none() && of(&self.seen) == of(written)
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
            self.seen.checksum(),
            if self.is_exact(written) { "ok" } else { "WRONG" },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tapedb_terminal::signals::Signals;

    #[test]
    fn a_reader_that_fails_or_panics_is_not_waited_for() {
        let progress = Progress::default();
        let directory = tempfile::tempdir().unwrap();
        let stream = new_stream(&Database::open(directory.path()).unwrap()).unwrap();
        let mut writer = Writer::new(1).unwrap();
        let args = Args {
            db: Some(directory.path().into()),
            serve: false,
            http: None,
            messages: 0,
            readers: 2,
            live_rate: u64::MAX,
            live_time: Duration::from_millis(1),
            seed: 1,
            keep: false,
        };
        thread::scope(|scope| {
            for panics in [true, false] {
                let behind = Behind::new(&progress.readers_behind);
                scope
                    .spawn(move || {
                        let _behind = behind;
                        // Not by `panic!`, which prints.
                        if panics {
                            std::panic::resume_unwind(Box::new(()))
                        }
                    })
                    .join()
                    .ok();
            }
            write_live(&stream, &mut writer, &args, &progress, &Ui::new(true, Signals::listen().unwrap()))
                .unwrap();
        });
        // At any rate the writer checks for the end after each burst.
        assert_eq!(stream.stats().unwrap().messages % LIVE_BURST_MAX, 0);
    }
}
