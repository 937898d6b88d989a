//! What imports from brokers and exports to them share: arguments, progress, reports.

use crate::args::{StreamArgs, open_stream};
use serde_json::json;
use std::time::{Duration, Instant};
use tapedb_brokers::{
    BadRecords, Counts, Encoding, Error, Intake, IntakeOptions, LaneStatus, LostRecords, Mapping, Observer,
};
use tapedb_codec::dynamic::BareTimes;
use tapedb_engine::{Database, Stream};
use tapedb_schema::TimeUnit;
use tapedb_terminal::ui::{Progress, per_second, rate, thousands};
use tapedb_terminal::{Failure, Ui, location, quantity, ui};

/// How records become messages.
#[derive(clap::Args, Debug, Clone)]
pub struct IntakeArgs {
    /// The field of the JSON with the time [default: timestamp, else the record's own time].
    #[arg(long, value_name = "FIELD")]
    time: Option<String>,

    /// The field of the JSON with the symbol [default: symbol, else the record's key; NATS: the last word of the subject].
    #[arg(long, value_name = "FIELD")]
    symbol: Option<String>,

    /// A name in the JSON that is another field of the record type; NAME= leaves the value out. May be repeated.
    #[arg(long, value_name = "NAME=FIELD")]
    map: Vec<String>,

    /// The record type of JSON without "$type" [default: the stream's only one].
    #[arg(long = "type", value_name = "NAME")]
    record: Option<String>,

    /// Unit of times that are bare numbers since 1970: s, ms, us or ns. Without it they are nanoseconds, and times before 1973 are
    /// refused.
    #[arg(long, value_name = "UNIT")]
    time_unit: Option<TimeUnit>,

    /// What to do with a record that is no message of the stream: stop, skip it, or keep it in STREAM (a stream that is not named stop or
    /// skip), with topic, offset, reason, key and value. Skipped records are counted and do not end the command.
    #[arg(long, value_name = "stop|skip|STREAM", default_value = "stop")]
    on_bad_record: String,

    /// What to do when the broker has removed records that were not read: stop, or skip them; with --on-bad-record STREAM they are recorded there.
    #[arg(long, value_name = "stop|skip", default_value = "stop", value_parser = ["stop", "skip"])]
    on_lost_records: String,

    /// Name of the source, to which positions belong [default: the topic]. Another name begins with the oldest record again.
    #[arg(long, value_name = "NAME")]
    source: Option<String>,

    /// Continue at the position without comparing the record before it with what is stored.
    #[arg(long)]
    trust_position: bool,

    /// How long a message may wait for others before they are stored together, for example 50ms.
    #[arg(long, value_name = "DURATION", value_parser = quantity::duration, default_value = "200ms")]
    flush_interval: Duration,

    /// The space of the stream to write.
    #[arg(long, value_name = "N", default_value_t = 0)]
    space: u32,
}

impl IntakeArgs {
    /// Opens the stream for records.
    pub fn open(&self, stream: &StreamArgs, ui: &Ui) -> Result<(Database, Intake), Failure> {
        if location::url_of(&stream.db.db).is_some() {
            return Err(Failure::usage(
                "how far a broker was read is written with its messages, where the database is open: name its directory",
            ));
        }
        // For reading first: this creates no database, and its error names what is missing.
        drop(stream.db.open_to_read()?.stream(&stream.name)?);
        let db = stream.db.open_to_write()?;
        let opened = open_stream(&db, &stream.name, ui)?;
        let intake = Intake::open(&db, opened, self.options()?).map_err(failure)?;
        Ok((db, intake))
    }

    fn options(&self) -> Result<IntakeOptions, Failure> {
        let renamed = self.map.iter().map(|pair| {
            let (name, field) = pair.rsplit_once('=').ok_or_else(|| {
                Failure::usage(format!("--map {pair:?}: write NAME=FIELD, or NAME= to leave the value out"))
            })?;
            Ok((name.to_string(), field.to_string()))
        });
        let bad = match self.on_bad_record.as_str() {
            "" => {
                return Err(Failure::usage(
                    "--on-bad-record: give one of: stop, skip, a stream for bad records",
                ));
            }
            "stop" => BadRecords::Stop,
            "skip" => BadRecords::Skip,
            stream => BadRecords::Keep(stream.into()),
        };
        let lost = if self.on_lost_records == "skip" { LostRecords::Skip } else { LostRecords::Stop };
        let mapping = Mapping {
            time: self.time.clone(),
            symbol: self.symbol.clone(),
            renamed: renamed.collect::<Result<_, Failure>>()?,
            record: self.record.clone(),
            times: self.time_unit.map_or(BareTimes::PlausibleNanos, BareTimes::In),
        };
        Ok(IntakeOptions {
            space: self.space,
            mapping,
            bad,
            lost,
            source: self.source.clone(),
            trust_position: self.trust_position,
            flush_interval: self.flush_interval,
        })
    }
}

/// Which messages are exported, and as what.
#[derive(clap::Args, Debug, Clone)]
pub struct OutletArgs {
    /// What values are: json, as `tapedb read --output json` writes them, or row, the stream's own bytes for a stream of the same schema.
    #[arg(long, value_name = "FORMAT", default_value = "json")]
    pub format: Encoding,

    /// Only these symbols, for example AIG,BAC.
    #[arg(long, value_delimiter = ',', value_name = "A,B")]
    pub symbols: Vec<String>,

    /// Only these record types, for example Trade,Quote.
    #[arg(long, value_delimiter = ',', value_name = "X,Y")]
    pub types: Vec<String>,

    /// The space of the stream to export.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub space: u32,

    /// The first sequence number, where the topic does not state how far it is [default: 0].
    #[arg(long, value_name = "N")]
    pub from_sequence: Option<u64>,

    /// Go on with messages that arrive, until Ctrl-C or SIGTERM.
    #[arg(long)]
    pub follow: bool,
}

/// Opens the stream for an export, which may be that of a server.
pub fn open_outlet(stream: &StreamArgs, follow: bool, ui: &Ui) -> Result<Stream, Failure> {
    let db = if follow { stream.db.open_to_follow()? } else { stream.db.open_to_read()? };
    open_stream(&db, &stream.name, ui)
}

/// Shows what happens, and passes signals on.
pub struct Watching<'a> {
    ui: &'a Ui,
    progress: Progress,
    counts: Counts,
    start: Instant,
}

impl<'a> Watching<'a> {
    /// `what`: the word of the progress line.
    pub fn new(what: &str, ui: &'a Ui) -> Self {
        Self { ui, progress: ui.progress(what, 0), counts: Counts::default(), start: Instant::now() }
    }

    /// Prints what was moved. `done` is a word such as `imported`; `way` states from where to where.
    pub fn finish(
        self,
        result: Result<Counts, Error>,
        (done, way): (&str, &str),
        stream: &str,
    ) -> Result<(), Failure> {
        let Self { ui, progress, counts, start } = self;
        drop(progress);
        let Counts { messages, bytes, bad, lost } = *result.as_ref().unwrap_or(&counts);
        let seconds = start.elapsed().as_secs_f64();
        match result {
            Ok(_) | Err(Error::Interrupted) => {}
            Err(error) if messages > 0 && !matches!(error, Error::Settings(_)) => {
                return Err(Failure::new(format!(
                    "{error} ({} messages before it were {done}; the same command continues behind them)",
                    thousands(messages)
                )));
            }
            Err(error) => return Err(failure(error)),
        }
        if ui.json() {
            ui.print_json(&json!({
                "stream": stream, "messages": messages, "bytes": bytes, "bad": bad, "lost": lost, "seconds": seconds,
                "messages_per_second": per_second(messages, seconds),
            }))?;
        } else {
            let bad = if bad > 0 {
                format!("; {} bad ones were passed over", thousands(bad))
            } else {
                String::new()
            };
            let lost =
                if lost > 0 { format!("; {} offsets were lost", thousands(lost)) } else { String::new() };
            ui.print(&format!(
                "{done} {} messages {way}, {}{bad}{lost}\n",
                thousands(messages),
                rate(messages, seconds)
            ))?;
        }
        ui.check_interrupt()
    }
}

impl Observer for Watching<'_> {
    fn is_interrupted(&self) -> bool {
        self.ui.is_interrupted()
    }

    fn warn(&mut self, what: &str) {
        self.progress.hide();
        self.ui.warn(what);
    }

    fn progress(&mut self, counts: &Counts, total: u64) {
        self.counts = *counts;
        self.progress.set_total(total);
        self.progress.update(counts.messages + counts.bad, counts.messages);
    }
}

/// Prints where partitions stand.
pub fn print_status(lanes: &[LaneStatus], ui: &Ui) -> Result<(), Failure> {
    if ui.json() {
        return lanes.iter().try_for_each(|lane| {
            ui.print_json(&json!({
                "source": lane.name, "next": lane.next, "first": lane.first, "end": lane.end, "waiting": lane.waiting(),
                "lost": lane.lost(),
            }))
        });
    }
    let row = |lane: &LaneStatus| {
        let next = lane.next.map_or("none yet".to_string(), thousands);
        vec![
            lane.name.clone(),
            next,
            thousands(lane.first),
            thousands(lane.end),
            thousands(lane.waiting()),
            thousands(lane.lost()),
        ]
    };
    let rows: Vec<Vec<String>> = lanes.iter().map(row).collect();
    ui.print(&ui::table(&["source", "next", "first", "end", "waiting", "lost"], &[1, 2, 3, 4, 5], &rows))
}

/// A failure of the command.
pub fn failure(error: Error) -> Failure {
    match error {
        Error::Settings(what) => Failure::usage(what),
        error => Failure::new(error.to_string()),
    }
}
