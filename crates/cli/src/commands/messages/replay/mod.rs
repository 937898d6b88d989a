//! `tapedb replay`: play history again as if it were live.

mod lines;
mod socket;
mod steering;

use crate::args::{DatabaseArgs, Selection, TimeRange};
use crate::commands::topic::folder;
use crate::creation::CreateArgs;
use crate::input::Source;
use crate::output::{Damage, Format, Writer};
use lines::{Lines, Noting};
use serde::Serialize;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use tapedb_engine::{Database, Stream, StreamOptions};
use tapedb_replay::{Command, Control, Player, ReplayError, Report, Speed, StreamSink, TopicSink};
use tapedb_schema::Schema;
use tapedb_terminal::{Failure, Ui, location, ui};
use tapedb_topic::{Folder, Topic, TopicOptions};

/// Time between two checks for Ctrl-C.
const WAIT: Duration = Duration::from_millis(50);

/// Play history again as if it were live: each message when it is due, with the times between them as they were, or faster.
///
/// The messages of one stream, or of several merged by time, become lines on standard output, or go into a topic (--into-topic), into another
/// stream (--into), or into the streams of the same names in another database (--into-db), such as the tables of a tick plant: their live
/// readers get the messages as if they were new. Messages keep their times and symbols. Gaps that a stream has as messages are played as such.
///
/// At the end a hash of what was delivered is printed. It depends on the messages and their order alone: not on the speed, the target, or
/// where the database is.
///
/// With --websocket, clients connect and ask for what they want, each at its own speed, at the paths of tardis-machine:
/// ws://127.0.0.1:8001/ws-replay-normalized?options=JSON. It serves until Ctrl-C.
///
/// With --control, lines on standard input control the replay while it runs: `pause`, `resume`, `step N` (pauses, and delivers N messages at
/// once), `speed 10x`, `seek TIME`, `stop`. They are obeyed one after another. When standard input ends, a replay that is paused ends too.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    db: DatabaseArgs,

    #[command(flatten)]
    selection: Selection,

    #[command(flatten)]
    range: TimeRange,

    /// How fast: 1x as it happened, 10x, 0.5x, max without waiting, or pause to begin with a pause (see --control) [default: 1x, with
    /// --websocket max].
    #[arg(long, value_parser = Start::parse, value_name = "SPEED")]
    speed: Option<Start>,

    /// Publish to this topic, which is created if it does not exist.
    #[arg(long, value_name = "TOPIC", conflicts_with_all = ["into", "into_db", "output"])]
    into_topic: Option<String>,

    /// Folder with the topic's file, instead of the usual one: that of the database's topics, or of topics without a database if a server
    /// has the database.
    #[arg(long, value_name = "DIR", requires = "into_topic")]
    topic_folder: Option<PathBuf>,

    /// Write into this stream, which is created if it does not exist: of the same database, or of that of --into-db.
    #[arg(long, value_name = "STREAM", conflicts_with = "output")]
    into: Option<String>,

    /// Write into this database, a directory or the URL of a server; without --into, each stream into the one of its name.
    #[arg(long, value_name = "DIR|URL", conflicts_with = "output")]
    into_db: Option<PathBuf>,

    #[command(flatten)]
    create: CreateArgs,

    /// Serve WebSocket clients on this address, such as 127.0.0.1:8001, or a port of this machine. Every client that can connect can read the streams.
    #[arg(long, value_name = "ADDRESS", value_parser = socket::address,
        conflicts_with_all = ["into_topic", "into", "into_db", "output", "control", "symbols", "types", "from", "to"])]
    websocket: Option<SocketAddr>,

    /// Most WebSocket clients at a time.
    #[arg(long, value_name = "N", requires = "websocket", default_value_t = 32, value_parser = clap::value_parser!(u8).range(1..))]
    max_clients: u8,

    /// Names of this machine that WebSocket clients may use in their addresses, beside localhost.
    #[arg(long, value_name = "A,B", requires = "websocket", value_delimiter = ',')]
    host_names: Vec<String>,

    /// Format of the lines on standard output: text, json, csv, or none [default: text, json with --json].
    #[arg(long, value_enum, value_name = "FORMAT")]
    output: Option<Format>,

    /// Take commands from standard input.
    #[arg(long)]
    control: bool,
}

const EXAMPLES: &str = "\
Examples:
  tapedb replay --db demo.tape feed --from 2024-01-02T14:30:05 --to 2024-01-02T14:31 --speed 10x
  tapedb replay --db demo.tape feed --speed max --into-topic feed
  tapedb replay --db tp.tape tp/trade tp/quote --into-db tape://localhost:7847
  tapedb replay --db demo.tape feed --speed pause --control --output json
  tapedb replay --db demo.tape feed --websocket 127.0.0.1:8001
  printf 'seek 2024-01-02T14:30:30\\nstep 5\\n' | tapedb replay --db demo.tape feed --speed pause --control";

/// How a replay begins.
#[derive(Debug, Clone, Copy)]
struct Start {
    speed: Speed,
    is_paused: bool,
}

impl Start {
    fn parse(text: &str) -> Result<Self, String> {
        if text.eq_ignore_ascii_case("pause") {
            return Ok(Self { speed: Speed::Times(1.0), is_paused: true });
        }
        let speed = text.parse().map_err(|error| format!("{error}, or pause"))?;
        Ok(Self { speed, is_paused: false })
    }
}

/// What is printed at the end.
#[derive(Serialize)]
struct Summary {
    messages: u64,
    hash: String,
    stopped: bool,
    seconds: f64,
    messages_per_second: f64,
    /// How much later than due messages were, in microseconds; only where they were due at an instant.
    late_us: Option<Late>,
}

#[derive(Serialize)]
struct Late {
    p50: f64,
    p99: f64,
    max: f64,
}

/// Replays.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    if let Some(address) = args.websocket {
        return socket::serve(&args, address, ui);
    }
    let start = args.speed.unwrap_or(Start { speed: Speed::Times(1.0), is_paused: false });
    if start.is_paused && !args.control {
        return Err(Failure::usage("a replay that begins with a pause needs --control to go on"));
    }
    if args.create.create && args.into_db.is_none() {
        return Err(Failure::usage("--create is for the database of --into-db"));
    }
    let is_written = args.into.is_some() && args.into_db.is_none();
    let db = if is_written { args.db.open_to_write()? } else { args.db.open_to_read()? };
    let streams = args.selection.open(&db, ui)?;
    let cursor = args.range.of(args.selection.cursor(&db)?).open()?;
    let control = Control::default();
    if start.is_paused {
        control.ask(Command::Pause);
    }
    let steering = args.control.then(Source::stdin).transpose()?;
    let player = Player::new(cursor, start.speed, control.clone());
    if let Some(name) = &args.into_topic {
        let topic = topic(&args, name, &streams)?;
        let mut sink = Noting::new(TopicSink::new(&topic, &streams).map_err(failed)?, ui);
        let report = watched(&control, steering, ui, || player.run(&mut sink));
        return finish(report, sink.damage, true, ui);
    }
    if args.into.is_some() || args.into_db.is_some() {
        let mut sink = Noting::new(into_streams(&args, &db, &streams)?, ui);
        let report = watched(&control, steering, ui, || player.run(&mut sink));
        return finish(report, sink.damage, true, ui);
    }
    let format = Format::chosen(args.output, ui);
    let writer = Writer::new(format, &streams, &args.selection.types)?;
    let mut sink = Noting::new(Lines::new(writer), ui);
    let report = watched(&control, steering, ui, || player.run(&mut sink));
    if let Some(failure) = sink.sink.failure {
        return Err(failure);
    }
    finish(report, sink.damage, format == Format::None, ui)
}

/// The topic, with the record types of the streams.
fn topic(args: &Args, name: &str, streams: &[Stream]) -> Result<Topic, Failure> {
    let folder = match (&args.topic_folder, location::url_of(&args.db.db)) {
        (Some(folder), _) => Folder::at(folder),
        (None, Some(_)) => Folder::shared(),
        (None, None) => folder::of_database(args.db.directory()?)?,
    };
    Ok(Topic::open_or_create(&folder, name, schema_of_all(name, streams)?, &TopicOptions::default())?)
}

fn into_streams(args: &Args, db: &Database, streams: &[Stream]) -> Result<StreamSink, Failure> {
    let open_other = |place: &PathBuf| args.db.beside(place).open_or_create(args.create.create);
    let target = args.into_db.as_ref().map(open_other).transpose()?;
    let target = target.as_ref().unwrap_or(db);
    let open = |name: &str, schema: &Schema| {
        target.open_or_create_stream(name, schema.clone(), StreamOptions::default())
    };
    if let Some(name) = &args.into {
        let target = open(name, schema_of_all(name, streams)?)?;
        return StreamSink::new(&target, streams).map_err(failed);
    }
    let pairs = streams.iter().map(|stream| Ok((stream.clone(), open(stream.name(), stream.schema())?)));
    StreamSink::each(&pairs.collect::<Result<Vec<_>, Failure>>()?).map_err(failed)
}

/// The schema that all streams have: nothing is created for others.
fn schema_of_all<'a>(target: &str, streams: &'a [Stream]) -> Result<&'a Schema, Failure> {
    let Some(first) = streams.first() else { return Err(Failure::usage("name a stream")) };
    match streams.iter().find(|stream| stream.schema() != first.schema()) {
        None => Ok(first.schema()),
        Some(other) => Err(Failure::usage(format!(
            "streams {:?} and {:?} have different record types, so they do not fit into {target:?} together; replay each into a target \
             of its own",
            first.name(),
            other.name()
        ))),
    }
}

/// Runs a replay, with the commands of standard input; stops it after a signal.
fn watched<T>(control: &Control, commands: Option<Source>, ui: &Ui, replay: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            if let Some(source) = commands {
                steering::steer(source, control, &is_over, ui);
            }
            while !is_over.load(Ordering::Acquire) && !ui.is_interrupted() {
                thread::park_timeout(WAIT);
            }
            control.stop_now();
        });
        let result = replay();
        is_over.store(true, Ordering::Release);
        watcher.thread().unpark();
        result
    })
}

/// The failure of a replay.
fn failed(error: ReplayError) -> Failure {
    match error {
        ReplayError::Itself { .. } | ReplayError::OtherTypes { .. } => Failure::usage(error.to_string()),
        error => Failure::new(error.to_string()),
    }
}

/// Prints what was done: on standard error where lines are on standard output.
fn finish(
    report: Result<Report, ReplayError>,
    damage: Damage,
    is_alone: bool,
    ui: &Ui,
) -> Result<(), Failure> {
    let report = report.map_err(failed)?;
    let micros = |nanos: u64| nanos as f64 / 1_000.0;
    let late = (!report.late.is_empty()).then(|| Late {
        p50: micros(report.late.value_at_quantile(0.5)),
        p99: micros(report.late.value_at_quantile(0.99)),
        max: micros(report.late.max()),
    });
    let summary = Summary {
        messages: report.messages,
        hash: format!("{:016x}", report.hash),
        stopped: report.is_stopped,
        seconds: report.seconds,
        messages_per_second: ui::per_second(report.messages, report.seconds),
        late_us: late,
    };
    let mut text = format!(
        "replayed {} messages in {:.3} s ({}), hash {}",
        ui::thousands(summary.messages),
        summary.seconds,
        ui::rate(summary.messages, summary.seconds),
        summary.hash
    );
    if let Some(late) = &summary.late_us {
        text.push_str(&format!(
            "; late by p50 {:.0} µs, p99 {:.0} µs, at most {:.0} µs",
            late.p50, late.p99, late.max
        ));
    }
    match (is_alone, ui.json()) {
        (true, true) => ui.print_json(&summary)?,
        (true, false) => ui.print(&format!("{text}\n"))?,
        (false, true) => eprintln!("{}", serde_json::json!(summary)),
        (false, false) => eprintln!("{text}"),
    }
    ui.check_interrupt()?;
    damage.finish()
}
