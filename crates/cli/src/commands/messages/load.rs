//! `tapedb load`: load messages from JSON lines, as they arrive.

use crate::args::{DatabaseArgs, open_stream};
use crate::input::{BadLineArgs, Input, Refusal, Sink, Taken};
use serde::Serialize;
use std::time::Duration;
use tapedb_codec::dynamic::RecordValue;
use tapedb_engine::{Error, Invalid, Loader, LogError, Rejected};
use tapedb_schema::Timestamp;
use tapedb_terminal::{Failure, Ui, quantity, ui::thousands};

/// Append messages to a stream from lines of JSON, as `tapedb read --output json` writes them: from files or standard input.
///
/// Each line is an object with "symbol", "timestamp", "$type" if the stream has several message types, and the fields of the
/// record; `tapedb desc` shows them. Fields with defaults may be omitted.
///
/// Reads pipes as data arrives: messages are stored, and visible to readers, when the input pauses and at the latest after
/// --flush-interval. Ctrl-C and SIGTERM end the command after all data sent before them is stored. A line that is not a message
/// ends the command, unless --on-bad-line is given: the messages before it are in the stream, and the error has their number.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    db: DatabaseArgs,

    /// The stream, which must exist: see `tapedb create`.
    #[arg(value_name = "STREAM")]
    stream: String,

    #[command(flatten)]
    input: Input,

    #[command(flatten)]
    bad: BadLineArgs,

    /// How long a message may wait for others before they are stored together, for example 50ms; 0ms stores each message at once.
    #[arg(long, value_name = "DURATION", value_parser = quantity::duration, default_value = "200ms")]
    flush_interval: Duration,

    /// The space of the stream to load into.
    #[arg(long, value_name = "N", default_value_t = 0)]
    space: u32,
}

const EXAMPLES: &str = "\
Examples:
  tapedb load --db my.tapedb ticks ticks.jsonl
  feed | tapedb load --db my.tapedb ticks --on-bad-line bad.jsonl --time-unit ms
  tapedb read --db demo.tape feed --output json | tapedb load --db my.tapedb feed";

#[derive(Serialize)]
struct Loaded<'a> {
    stream: &'a str,
    messages: u64,
    bad_lines: u64,
}

/// Loads.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    ui.signals().give_time_to_finish()?;
    // For reading first: this creates no database, and its error names what is missing.
    drop(args.db.open_to_read()?.stream(&args.stream)?);
    let db = args.db.open_to_write()?;
    let stream = open_stream(&db, &args.stream, ui)?;
    let mut sink = Loading { loader: stream.loader_in(args.space)?, taken: 0, given_up: 0 };
    let mut bad = args.bad.open()?;
    let read = args.input.read(stream.layouts(), &mut sink, &mut bad, args.flush_interval, ui);
    let Taken { cut_bytes, .. } = sink.finish(read)?;
    if sink.given_up > 0 {
        let given_up = thousands(sink.given_up);
        ui.warn(&format!("{given_up} messages were refused: the stream already had later messages"));
    }
    if cut_bytes > 0 {
        ui.warn(&format!("the input ended inside a line: its first {cut_bytes} bytes are not stored"));
    }
    let (messages, bad_lines) = (sink.taken - sink.given_up, bad.count + sink.given_up);
    if ui.json() {
        ui.print_json(&Loaded { stream: &args.stream, messages, bad_lines })?;
    } else {
        let (messages, bad) = (thousands(messages), bad.summary());
        ui.print(&format!("loaded {messages} messages into stream {:?}{bad}\n", args.stream))?;
    }
    bad.finish()?;
    ui.check_interrupt()
}

/// The stream that takes the messages.
struct Loading {
    loader: Loader,
    /// Messages that the loader took.
    taken: u64,
    /// Messages that it dropped later: see [`Rejected::Late`].
    given_up: u64,
}

impl Sink for Loading {
    #[inline]
    fn take(&mut self, symbol: &str, time: Timestamp, record: &RecordValue) -> Result<(), Refusal> {
        if let Err(error) = self.loader.append_value(symbol, time, record) {
            self.refused(error)?;
            // The error concerned earlier messages.
            self.loader.append_value(symbol, time, record).map_err(refusal)?;
        }
        self.taken += 1;
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Failure> {
        match self.loader.flush() {
            Ok(_) => Ok(()),
            Err(error) => self.refused(error).map_err(|refusal| match refusal {
                Refusal::Line(what) => Failure::new(what),
                Refusal::Sink(failure) => failure,
            }),
        }
    }
}

impl Loading {
    /// Fails, unless waiting messages were dropped because another loader had appended later ones.
    #[cold]
    fn refused(&mut self, error: Error) -> Result<(), Refusal> {
        let given_up = self.loader.given_up();
        if matches!(error, Error::Rejected(Rejected::Late { .. })) && given_up > self.given_up {
            self.given_up = given_up;
            return Ok(());
        }
        Err(refusal(error))
    }

    /// Stores the messages taken, also after an error: those before a bad line count.
    fn finish(&mut self, read: Result<Taken, Failure>) -> Result<Taken, Failure> {
        let flushed = Sink::flush(self);
        let stored = || self.taken - self.given_up - self.loader.pending() as u64;
        let failure = match (read, flushed) {
            (Ok(taken), Ok(())) => return Ok(taken),
            (Err(failure), _) | (_, Err(failure)) => failure,
        };
        match failure {
            Failure::Failed(what) => {
                let waiting = match self.loader.pending() {
                    0 => String::new(),
                    waiting => format!(", and {} are not", thousands(waiting as u64)),
                };
                let stored = thousands(stored());
                Err(Failure::new(format!(
                    "{what}; the {stored} messages before it are in the stream{waiting}"
                )))
            }
            other => Err(other),
        }
    }
}

/// Whether an error concerns the message or the stream.
#[cold]
fn refusal(error: Error) -> Refusal {
    let is_about_line = match &error {
        Error::Rejected(Rejected::Encode(_))
        | Error::Rejected(Rejected::Size(_))
        | Error::Rejected(Rejected::Late { .. })
        | Error::Invalid(Invalid::Type { .. }) => true,
        Error::Log(error) => matches!(**error, LogError::SymbolLength { .. } | LogError::TooManySymbols),
        _ => false,
    };
    if is_about_line { Refusal::Line(error.to_string()) } else { Refusal::Sink(error.into()) }
}
