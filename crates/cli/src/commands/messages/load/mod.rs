//! `tapedb load`: load messages as they arrive, from lines of JSON or from Arrow record batches.

#[cfg(feature = "arrow")]
mod batches;
mod lines;

use crate::args::{DatabaseArgs, open_stream};
use crate::input::{BadLineArgs, Input};
use clap::ValueEnum;
use serde::Serialize;
use std::time::Duration;
use tapedb_terminal::{Failure, Ui, quantity, ui::thousands};

/// Append messages to a stream, as `tapedb read` writes them: from files or standard input.
///
/// json: each line is an object with "symbol", "timestamp", "$type" if the stream has several message types, and the fields of the
/// record; `tapedb desc` shows them. Fields with defaults may be omitted.
///
/// Reads pipes as data arrives: messages are stored, and visible to readers, when the input pauses and at the latest after
/// --flush-interval. Ctrl-C and SIGTERM end the command after all data sent before them is stored. A line that is not a message
/// ends the command, unless --on-bad-line is given: the messages before it are in the stream, and the error has their number.
#[cfg_attr(
    feature = "arrow",
    doc = "",
    doc = "arrow: an IPC stream or an IPC file, its buffers compressed or not. The columns time and symbol are needed; each other",
    doc = "column is a field of the record type. Values are converted exactly or refused, with batch, row and column; a batch is",
    doc = "stored whole or not at all."
)]
#[derive(clap::Args, Debug)]
#[command(after_long_help = [EXAMPLES, ARROW_EXAMPLES].concat())]
pub struct Args {
    #[command(flatten)]
    db: DatabaseArgs,

    /// The stream, which must exist: see `tapedb create`.
    #[arg(value_name = "STREAM")]
    stream: String,

    #[command(flatten)]
    input: Input,

    /// Format of the input [default: json].
    #[cfg_attr(feature = "arrow", doc = "A first file that is named .arrow or .arrows implies arrow.")]
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<Format>,

    #[command(flatten)]
    bad: BadLineArgs,

    /// With arrow: the record type of the rows, for example Trade [default: the stream's only one].
    #[arg(long = "type", value_name = "NAME", hide = cfg!(not(feature = "arrow")))]
    record: Option<String>,

    /// With arrow: times without a time zone are UTC. Without this they are refused.
    #[arg(long, hide = cfg!(not(feature = "arrow")))]
    naive_utc: bool,

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
const ARROW_EXAMPLES: &str = if cfg!(feature = "arrow") {
    "
  tapedb read --db demo.tape bars --output arrow --decimals raw | tapedb load --db my.tapedb bars --format arrow
  tapedb load --db tape://ticks:7847 bars bars.arrows --naive-utc"
} else {
    ""
};

/// Format of the input.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    /// Lines of JSON
    Json,
    /// Record batches of one record type, as an Arrow IPC stream or file
    #[value(hide = cfg!(not(feature = "arrow")))]
    Arrow,
}

#[derive(Serialize)]
struct Loaded<'a> {
    stream: &'a str,
    messages: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    bad_lines: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    batches: Option<u64>,
}

/// Loads.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    let format = args.format()?;
    ui.signals().give_time_to_finish()?;
    // For reading first: this creates no database, and its error names what is missing.
    drop(args.db.open_to_read()?.stream(&args.stream)?);
    let db = args.db.open_to_write()?;
    let stream = open_stream(&db, &args.stream, ui)?;
    match format {
        Format::Json => lines::load(&args, &stream, ui)?,
        #[cfg(feature = "arrow")]
        Format::Arrow => batches::load(&args, &stream, ui)?,
        #[cfg(not(feature = "arrow"))]
        Format::Arrow => return Err(crate::args::not_built("arrow")),
    }
    ui.check_interrupt()
}

/// Prints the result; `more` is a clause.
fn report(loaded: &Loaded<'_>, more: &str, ui: &Ui) -> Result<(), Failure> {
    if ui.json() {
        return ui.print_json(loaded);
    }
    let (messages, stream) = (thousands(loaded.messages), loaded.stream);
    ui.print(&format!("loaded {messages} messages into stream {stream:?}{more}\n"))
}

impl Args {
    /// The format, which the other options fit.
    fn format(&self) -> Result<Format, Failure> {
        let is_arrow = |name: &std::path::PathBuf| {
            name.extension().is_some_and(|extension| extension == "arrow" || extension == "arrows")
        };
        let named = if self.input.files.first().is_some_and(is_arrow) { Format::Arrow } else { Format::Json };
        let format = self.format.unwrap_or(named);
        let is_of_lines = !self.bad.stops() || self.input.time_unit.is_some();
        let is_of_batches = self.record.is_some() || self.naive_utc;
        match format {
            Format::Json if is_of_batches => Err(Failure::usage(
                "--type and --naive-utc are for --format arrow; each line of JSON has its type",
            )),
            Format::Arrow if is_of_lines => {
                Err(Failure::usage("--on-bad-line and --time-unit are for --format json; arrow has no lines"))
            }
            format => Ok(format),
        }
    }
}
