//! `tapedb kafka`: topics as sources and sinks.

use super::shared::{IntakeArgs, OutletArgs, Watching, failure, open_outlet, print_status};
use crate::args::StreamArgs;
use clap::ValueEnum;
use std::path::PathBuf;
use std::time::Duration;
use tapedb_brokers::kafka::{self, Settings};
use tapedb_terminal::{Failure, Ui, quantity};

/// Topics of Kafka as sources and sinks, each message once.
///
/// How far an import is, the stream has: messages and offsets are written together, so a restart, a kill and a lost broker change nothing.
/// How far an export is, the topic states: records and the sequence number behind them are committed in one transaction.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  tapedb kafka import --db my.tapedb ticks --brokers broker:9092 --topic ticks --follow
  tapedb kafka import --db my.tapedb ticks --topic ticks --time ts --symbol sym --map px=price --on-bad-record bad
  tapedb kafka export --db my.tapedb ticks --topic ticks --follow --settings client.properties
  tapedb kafka import --db my.tapedb ticks --topic ticks --status";

#[derive(clap::Subcommand, Debug)]
enum Command {
    Import(Box<Import>),
    Export(Box<Export>),
}

/// How brokers are reached.
#[derive(clap::Args, Debug)]
struct BrokerArgs {
    /// Host and port of some of the brokers, with commas.
    #[arg(long, value_name = "HOST:PORT,…", default_value = "127.0.0.1:9092")]
    brokers: String,

    /// A setting of librdkafka, such as security.protocol=SASL_SSL. May be repeated. Other users can see it: secrets belong into --settings.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    set: Vec<String>,

    /// File with settings of librdkafka, a NAME=VALUE in each line.
    #[arg(long, value_name = "FILE", env = "TAPEDB_KAFKA_SETTINGS")]
    settings: Option<PathBuf>,
}

impl BrokerArgs {
    fn settings(&self) -> Result<Settings, Failure> {
        let mut settings = Settings { brokers: self.brokers.clone(), properties: Vec::new() };
        if let Some(path) = &self.settings {
            settings.read(path).map_err(failure)?;
        }
        self.set.iter().try_for_each(|pair| settings.set(pair)).map_err(failure)?;
        Ok(settings)
    }
}

/// Append the records of a topic to a stream, which must exist: see `tapedb create`.
///
/// Values are objects of JSON as `tapedb load` takes them, or rows as `tapedb kafka export --format row` writes them. A record without
/// "symbol" has its key as the symbol, one without "timestamp" its own time. Records of aborted transactions are not read.
///
/// Reads what is there and ends; with --follow it goes on until Ctrl-C or SIGTERM, with new partitions too. Each record is stored once,
/// whatever is killed.
#[derive(clap::Args, Debug)]
struct Import {
    #[command(flatten)]
    stream: StreamArgs,

    #[command(flatten)]
    brokers: BrokerArgs,

    /// The topic.
    #[arg(long, value_name = "NAME")]
    topic: String,

    /// Commit offsets to this consumer group, so that Kafka's tools show the lag. The import does not read them.
    #[arg(long, value_name = "NAME")]
    group: Option<String>,

    #[command(flatten)]
    intake: IntakeArgs,

    /// How often it looks for new partitions.
    #[arg(long, value_name = "DURATION", value_parser = quantity::duration, default_value = "10s", hide = true)]
    refresh: Duration,

    /// Go on with records that arrive, until Ctrl-C or SIGTERM.
    #[arg(long)]
    follow: bool,

    /// Print where each partition stands, and import nothing.
    #[arg(long, conflicts_with = "follow")]
    status: bool,
}

/// Send the messages of a stream to a topic, which must exist, in transactions.
///
/// Keys are symbols; headers state time, record type, stream and sequence number. Consumers that read committed records get each message
/// once, those of a symbol in their order. A second export of the same stream into the same topic ends the first.
///
/// Sends what is there and ends; with --follow it goes on until Ctrl-C or SIGTERM.
#[derive(clap::Args, Debug)]
struct Export {
    #[command(flatten)]
    stream: StreamArgs,

    #[command(flatten)]
    brokers: BrokerArgs,

    /// The topic.
    #[arg(long, value_name = "NAME")]
    topic: String,

    #[command(flatten)]
    outlet: OutletArgs,

    /// The time of records: of the message, or now. A topic's retention removes records by it.
    #[arg(long, value_enum, value_name = "TIME", default_value = "message")]
    record_time: RecordTime,

    /// How long a message may wait for others of its transaction.
    #[arg(long, value_name = "DURATION", value_parser = quantity::duration, default_value = "200ms")]
    commit_interval: Duration,

    /// Print where the export stands, and export nothing.
    #[arg(long, conflicts_with = "follow")]
    status: bool,
}

#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
enum RecordTime {
    /// The message's time
    Message,
    /// When it is sent
    Now,
}

/// Runs the command.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    ui.signals().give_time_to_finish()?;
    match args.command {
        Command::Import(args) => import(&args, ui),
        Command::Export(args) => export(&args, ui),
    }
}

fn import(args: &Import, ui: &Ui) -> Result<(), Failure> {
    let settings = args.brokers.settings()?;
    let options = kafka::ImportOptions {
        topic: args.topic.clone(),
        group: args.group.clone(),
        follow: args.follow,
        refresh: args.refresh,
    };
    let (_db, mut intake) = args.intake.open(&args.stream, ui)?;
    if args.status {
        return print_status(&kafka::import_status(&settings, &options, &mut intake).map_err(failure)?, ui);
    }
    let mut watching = Watching::new("importing", ui);
    let result = kafka::import(&settings, &options, &mut intake, &mut watching);
    let way = format!("from topic {:?} into stream {:?}", args.topic, args.stream.name);
    watching.finish(result, ("imported", &way), &args.stream.name)
}

fn export(args: &Export, ui: &Ui) -> Result<(), Failure> {
    let settings = args.brokers.settings()?;
    let outlet = &args.outlet;
    let options = kafka::ExportOptions {
        topic: args.topic.clone(),
        space: outlet.space,
        symbols: outlet.symbols.clone(),
        types: outlet.types.clone(),
        encoding: outlet.format,
        from_sequence: outlet.from_sequence,
        stamps_now: args.record_time == RecordTime::Now,
        interval: args.commit_interval,
        follow: outlet.follow,
    };
    let stream = open_outlet(&args.stream, outlet.follow, ui)?;
    if args.status {
        return print_status(&[kafka::export_status(&settings, &stream, &options).map_err(failure)?], ui);
    }
    let mut watching = Watching::new("exporting", ui);
    let result = kafka::export(&settings, &stream, &options, &mut watching);
    let way = format!("of stream {:?} to topic {:?}", args.stream.name, args.topic);
    watching.finish(result, ("exported", &way), &args.stream.name)
}
