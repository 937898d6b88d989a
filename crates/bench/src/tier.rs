//! Segments in an object store: moving them there, and reading them from there, beside local ones.

use crate::report::Report;
use crate::storage::ScratchDir;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tapedb_engine::{
    Database, MessageColumns, ObjectCounts, Offload, ReadCounts, StoreUrl, Stream, StreamOptions, Symbols,
    Values,
};
use tapedb_terminal::{Failure, Ui, quantity::count};

/// Old segments in an object store: moved there, read from there
///
/// `tier.local`: messages a second that a full scan reads from local segments, all fields as columns. `tier.move`: bytes a second that are
/// copied to the store and read back. `tier.store`: the scan again when all segments are in the store and nothing is cached; `share` is its rate beside
/// the local one, `gets` the requests for each 8 MiB. `tier.cached`: again, from the cache on the disk, by another process's handle. `tier.symbol`:
/// requests, and bytes as a share of all, for one symbol of --symbols.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Messages, such as 20M or 500k
    #[arg(long, value_name = "N", default_value = "20M", value_parser = count)]
    messages: u64,
    /// Symbols of the messages
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    symbols: u32,
    /// Runs of each scan; the median counts
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// The object store, such as s3://bucket/prefix, whose objects stay [default: a folder beside the database]
    #[arg(long, value_name = "URL")]
    url: Option<StoreUrl>,
    /// Directory for the database, which is removed afterwards
    #[arg(long, value_name = "DIR", default_value = "bench.tapedb", value_parser = tapedb_terminal::location::local)]
    db: PathBuf,
}

/// Messages that are appended at once.
const AT_ONCE: u64 = 50_000;
const STREAM: &str = "ticks";
const FIELDS: [&str; 3] = ["number", "price", "size"];

/// Measures.
pub fn run(args: &Args, ui: &Ui) -> Result<Report, Failure> {
    let mut report = Report::new("tier");
    let dir = ScratchDir::beside(&args.db, "tier");
    let store = ScratchDir::beside(&args.db, "tier-store");
    std::fs::create_dir_all(&store.0)
        .map_err(|error| Failure::new(format!("cannot make {}: {error}", store.0.display())))?;
    let folder = std::path::absolute(&store.0).map_err(|error| Failure::new(error.to_string()))?;
    let url = match args.url {
        Some(url) => url,
        None => format!("file://{}", folder.display()).parse()?,
    };
    let db = Database::open_without_maintenance(&dir.0)?;
    let offload = Some(Offload { url, after: None });
    let stream = fill(&db, args, ui)?;
    let opened = || -> Result<Stream, Failure> { Ok(Database::open_read_only(&dir.0)?.stream(STREAM)?) };
    let mut local = Vec::new();
    for _ in 0..args.runs {
        ui.check_interrupt()?;
        let seconds = scan(&opened()?, args.messages)?;
        local.push(seconds);
        report.add("tier.local", "rate", "messages/s", args.messages as f64 / seconds);
    }
    stream.alter(StreamOptions { offload, ..stream.options() })?;
    let started = Instant::now();
    let moved = stream.offload(Some(Duration::ZERO))?;
    report.add("tier.move", "rate", "bytes/s", moved.bytes as f64 / started.elapsed().as_secs_f64());
    let cache = dir.0.join("object-cache");
    for local in &local {
        ui.check_interrupt()?;
        let _ = std::fs::remove_dir_all(&cache);
        let before = ObjectCounts::now();
        let seconds = scan(&opened()?, args.messages)?;
        let read = ObjectCounts::now().since(before);
        report.add("tier.store", "rate", "messages/s", args.messages as f64 / seconds);
        report.add("tier.store", "share", "%", 100.0 * local / seconds);
        report.add(
            "tier.store",
            "gets",
            "per 8 MiB",
            read.gets as f64 / (moved.bytes as f64 / f64::from(8 << 20)).max(1.0),
        );
        report.add("tier.store", "read", "% of bytes", 100.0 * read.bytes_read as f64 / moved.bytes as f64);
        let seconds = scan(&opened()?, args.messages)?;
        report.add("tier.cached", "rate", "messages/s", args.messages as f64 / seconds);
    }
    let _ = std::fs::remove_dir_all(&cache);
    let (before, counted) = (ObjectCounts::now(), ReadCounts::of_this_thread());
    let mut cursor = opened()?.cursor().symbols([symbol(0)]).open()?;
    let mut found = 0;
    while let Some(message) = cursor.next()? {
        found += u64::from(message.symbol() == symbol(0));
    }
    let (read, used) = (ObjectCounts::now().since(before), ReadCounts::of_this_thread().since(counted));
    if found != args.messages.div_ceil(args.symbols.into()) {
        return Err(Failure::new(format!("{found} messages of one symbol were found; please report this")));
    }
    report.add("tier.symbol", "requests", "", read.gets as f64);
    report.add("tier.symbol", "read", "% of bytes", 100.0 * read.bytes_read as f64 / moved.bytes as f64);
    report.add("tier.symbol", "used", "% of bytes", 100.0 * used.bytes as f64 / moved.bytes as f64);
    Ok(report)
}

fn symbol(number: u32) -> String {
    format!("S{number}")
}

/// A sealed stream of messages: a walk of prices, sizes that repeat, symbols in turn.
fn fill(db: &Database, args: &Args, ui: &Ui) -> Result<Stream, Failure> {
    let schema = "message Tick { number: u64, price: i64, size: u32 }".parse::<tapedb_schema::Schema>();
    let schema = schema.map_err(|error| Failure::new(error.to_string()))?;
    let stream = db.create_stream(STREAM, schema, StreamOptions::default())?;
    let mut loader = stream.loader()?;
    let (mut random, mut price) = (1u64, 1_000_000i64);
    let names: Vec<String> = (0..args.symbols).map(symbol).collect();
    for first in (0..args.messages).step_by(AT_ONCE as usize) {
        ui.check_interrupt()?;
        let numbers: Vec<u64> = (first..args.messages.min(first + AT_ONCE)).collect();
        let times: Vec<i64> = numbers.iter().map(|number| *number as i64 * 1_000).collect();
        let symbols: Vec<&str> =
            numbers.iter().map(|number| names[(number % names.len() as u64) as usize].as_str()).collect();
        let mut prices = Vec::with_capacity(numbers.len());
        let mut sizes = Vec::with_capacity(numbers.len());
        for _ in &numbers {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            price += (random >> 40) as i64 % 200 - 100;
            prices.push(price);
            sizes.push((random >> 20) as u32 % 5_000);
        }
        let columns = MessageColumns::new("Tick", &times, Symbols::Names(&symbols));
        let columns = columns.field("number", &numbers).field("price", &prices).field("size", &sizes);
        loader.append_columns(&columns)?;
    }
    loader.close()?;
    stream.seal()?;
    Ok(stream)
}

/// Reads all fields; the seconds that it took.
fn scan(stream: &Stream, messages: u64) -> Result<f64, Failure> {
    let started = Instant::now();
    let mut columns = stream.columns("Tick", FIELDS).open()?;
    let (mut count, mut sum) = (0u64, 0i64);
    while let Some(chunk) = columns.next()? {
        count += chunk.len() as u64;
        for field in 0..FIELDS.len() {
            if let Values::Ints(values) = chunk.column(field).values()
                && field == 0
            {
                sum = values.iter().fold(sum, |sum, value| sum.wrapping_add(*value));
            }
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    match (count, sum as u64) == (messages, messages * messages.saturating_sub(1) / 2) {
        true => Ok(seconds),
        false => Err(Failure::new(format!(
            "{count} of {messages} messages were found, or others; please report this"
        ))),
    }
}
