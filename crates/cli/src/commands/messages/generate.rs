//! `tapedb generate`: generated market data from a seed.

use crate::args::{DatabaseArgs, open_stream};
use crate::commands::streams::list::Summary;
use crate::creation::CreateArgs;
use clap::ValueEnum;
use serde::Serialize;
use std::time::{Duration, Instant};
use tapedb_codec::{Record, SchemaBuilder};
use tapedb_engine::{Database, Loader, Stream, StreamOptions};
use tapedb_market::bars::{Bars, BarsConfig};
use tapedb_market::feed::{Feed, FeedConfig};
use tapedb_market::{Bar, Package};
use tapedb_schema::Timestamp;
use tapedb_terminal::{
    Failure, Ui, quantity,
    ui::{self, Progress},
};

/// Messages between two checks for Ctrl-C and progress.
const CHECK_INTERVAL: u64 = 4096;

/// Fill a stream with generated market data.
///
/// feed: level-2 updates, trades and rare snapshots of contracts at several exchanges, in bursts, as `Package`s.
///
/// bars: one `Bar` for each symbol and interval. The same options give the same messages on every machine.
///
/// The stream is created if it does not exist; an existing one must have the same record type. Readers receive the messages while
/// they are written: see `tapedb tail`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    db: DatabaseArgs,

    #[command(flatten)]
    creation: CreateArgs,

    /// The stream to write to.
    #[arg(long)]
    stream: String,

    /// What to generate.
    #[arg(long, value_enum, default_value_t = Kind::Feed)]
    kind: Kind,

    /// Number of messages, for example 500k or 10M.
    #[arg(long, value_parser = quantity::count, default_value = "10M", value_name = "N")]
    messages: u64,

    /// Seed of the random generator.
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Exchanges of the feed [default: 5].
    #[arg(long, value_name = "N")]
    exchanges: Option<u32>,

    /// Contracts of each exchange; for bars, symbols [default: 10].
    #[arg(long, value_name = "N")]
    contracts: Option<u32>,

    /// Messages of the feed per second of its own clock, for example 50k (the default).
    #[arg(long, value_parser = quantity::count, value_name = "N")]
    rate: Option<u64>,

    /// Length of a bar, for example 1s [default: 1m].
    #[arg(long, value_parser = quantity::duration, value_name = "DURATION")]
    interval: Option<Duration>,

    /// Time of the first message [default: after the last message of the stream; in an empty one
    /// 2024-01-02T14:30:00Z].
    #[arg(long, value_parser = quantity::time, value_name = "TIME", allow_hyphen_values = true)]
    start: Option<Timestamp>,
}

const EXAMPLES: &str = "\
Examples:
  tapedb generate --db demo.tape --create --stream feed
  tapedb generate --db demo.tape --stream bars --kind bars --contracts 500 --messages 1M --interval 1s";

#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Feed,
    Bars,
}

/// The result in JSON output.
#[derive(Serialize)]
struct Generated {
    written: u64,
    seconds: f64,
    messages_per_second: f64,
    stream: Summary,
}

/// Generates.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    args.check()?;
    match args.kind {
        Kind::Feed => {
            // Checks the settings before anything is created.
            Feed::new(args.feed(None)).map_err(wrong_setting)?;
            let (db, stream) = args.open::<Package>(ui)?;
            let mut feed = Feed::new(args.feed(last_time(&stream)?)).map_err(wrong_setting)?;
            args.fill(db, &stream, ui, |loader| {
                let message = feed.next();
                loader.append(message.symbol, message.time, message.package)
            })
        }
        Kind::Bars => {
            let (db, stream) = args.open::<Bar>(ui)?;
            let mut bars = Bars::new(args.bars(last_time(&stream)?));
            args.fill(db, &stream, ui, |loader| {
                let message = bars.next();
                loader.append(message.symbol, message.time, message.bar)
            })
        }
    }
}

impl Args {
    /// Refuses options that the kind does not have.
    fn check(&self) -> Result<(), Failure> {
        let misplaced = match self.kind {
            Kind::Feed => self.interval.map(|_| "--interval"),
            Kind::Bars => self.exchanges.map(|_| "--exchanges").or(self.rate.map(|_| "--rate")),
        };
        match misplaced {
            Some(option) => Err(Failure::usage(format!("this --kind does not have {option}; omit it"))),
            None => Ok(()),
        }
    }

    fn feed(&self, after: Option<Timestamp>) -> FeedConfig {
        let default = FeedConfig::default();
        FeedConfig {
            seed: self.seed,
            exchanges: self.exchanges.unwrap_or(default.exchanges),
            contracts_per_exchange: self.contracts.unwrap_or(default.contracts_per_exchange),
            messages_per_second: self.rate.unwrap_or(default.messages_per_second),
            start: self.start.or(after).unwrap_or(default.start),
            ..default
        }
    }

    fn bars(&self, after: Option<Timestamp>) -> BarsConfig {
        let default = BarsConfig::default();
        let interval = self.interval.map(|interval| i64::try_from(interval.as_nanos()).unwrap_or(i64::MAX));
        let interval_ns = interval.unwrap_or(default.interval_ns);
        let next = after.map(|time| Timestamp(time.nanos().saturating_add(interval_ns)));
        BarsConfig {
            seed: self.seed,
            symbols: self.contracts.unwrap_or(default.symbols),
            start: self.start.or(next).unwrap_or(default.start),
            interval_ns,
        }
    }

    /// The stream, created if it does not exist.
    fn open<T: Record + 'static>(&self, ui: &Ui) -> Result<(Database, Stream), Failure> {
        let db = self.db.open_or_create(self.creation.create)?;
        let stream = if db.streams()?.contains(&self.stream) {
            open_stream(&db, &self.stream, ui)?
        } else {
            let schema = SchemaBuilder::new().with::<T>().finish();
            db.create_stream(&self.stream, schema, StreamOptions::default())?
        };
        stream.type_id_of::<T>()?;
        Ok((db, stream))
    }

    /// Appends messages until their number is reached or Ctrl-C is pressed.
    fn fill(
        &self,
        db: Database,
        stream: &Stream,
        ui: &Ui,
        mut append: impl FnMut(&mut Loader) -> Result<(), tapedb_engine::Error>,
    ) -> Result<(), Failure> {
        let start = Instant::now();
        let mut progress: Progress = ui.progress("generating", self.messages);
        let mut loader = stream.loader()?;
        let mut written = 0;
        while written < self.messages {
            append(&mut loader)?;
            written += 1;
            if written % CHECK_INTERVAL == 0 {
                progress.update(written, written);
                if ui.is_interrupted() {
                    break;
                }
            }
        }
        loader.close()?;
        drop(progress);
        let seconds = start.elapsed().as_secs_f64();
        let result = report(stream, written, seconds, ui);
        drop(db);
        ui.check_interrupt().and(result)
    }
}

fn report(stream: &Stream, written: u64, seconds: f64, ui: &Ui) -> Result<(), Failure> {
    let summary = Summary::of(stream)?;
    if ui.json() {
        let messages_per_second = ui::per_second(written, seconds);
        return ui.print_json(&Generated { written, seconds, messages_per_second, stream: summary });
    }
    let (rate, content) = (ui::rate(written, seconds), summary.content());
    let written = ui::thousands(written);
    ui.print(&format!(
        "{written} messages written in {seconds:.2} s, {rate}\n{:?}: {content}\n",
        stream.name()
    ))
}

fn last_time(stream: &Stream) -> Result<Option<Timestamp>, Failure> {
    Ok(stream.stats()?.times.map(|(_, last)| last))
}

fn wrong_setting(error: tapedb_market::feed::FeedConfigError) -> Failure {
    Failure::usage(error.to_string())
}
