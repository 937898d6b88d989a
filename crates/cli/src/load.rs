//! `tapedb load`: messages from JSON lines.

use crate::args::{DatabaseArgs, open_stream};
use crate::failure::Failure;
use crate::jsonl::Input;
use crate::ui::{Ui, thousands};
use serde::Serialize;

/// Append messages to a stream from lines of JSON, as `tapedb read --output json` writes them: from files or standard input.
///
/// Each line is an object with "symbol", "timestamp", "$type" where the stream has several message types, and the fields of
/// the record; `tapedb desc` shows them. Fields with defaults may be left out. At a line that is no such message it ends:
/// what came before it is in the stream, and the error says how many that is.
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

    /// The space of the stream to load into.
    #[arg(long, value_name = "N", default_value_t = 0)]
    space: u32,
}

const EXAMPLES: &str = "\
Examples:
  tapedb load --db my.tapedb ticks ticks.jsonl
  tapedb read --db demo.tape feed --output json | tapedb load --db my.tapedb feed";

#[derive(Serialize)]
struct Loaded<'a> {
    stream: &'a str,
    messages: u64,
}

/// Loads.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    // For reading first: that makes no database where there was none.
    drop(args.db.open_to_read()?.stream(&args.stream)?);
    let db = args.db.open_to_write()?;
    let stream = open_stream(&db, &args.stream, ui)?;
    let mut loader = stream.loader_in(args.space)?;
    let mut taken = 0;
    let read = args.input.read(stream.layouts(), ui, |symbol, time, record| {
        loader.append_value(symbol, time, record)?;
        taken += 1;
        Ok::<_, tapedb_engine::Error>(())
    });
    // What came before a bad line counts.
    loader.close()?;
    let messages = read.map_err(|failure| match failure {
        Failure::Failed(what) => {
            Failure::new(format!("{what}; the {} messages before it are in the stream", thousands(taken)))
        }
        other => other,
    })?;
    if ui.json() {
        return ui.print_json(&Loaded { stream: &args.stream, messages });
    }
    ui.print(&format!("loaded {} messages into stream {:?}\n", thousands(messages), args.stream))
}
