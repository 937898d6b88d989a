//! `tapedb seal`: segments of everything, now.

use crate::args::{DatabaseArgs, open_stream};
use crate::failure::Failure;
use crate::streams::Summary;
use crate::ui::{Ui, thousands};
use serde::Serialize;

/// Make compressed segments of all messages that are still in log files, now: smaller and faster to read.
///
/// The process that writes does it by itself for log files that are full or old enough (see `tapedb alter
/// --seal-after`). What the stream's settings say of old segments is done too.
///
/// Example: tapedb seal --db demo.tape feed
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    db: DatabaseArgs,

    /// The stream.
    #[arg(value_name = "STREAM")]
    stream: String,
}

#[derive(Serialize)]
struct Sealed {
    sealed: u64,
    #[serde(flatten)]
    summary: Summary,
}

/// Seals the stream.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    // For reading first: that makes no database where there was none.
    drop(args.db.open_to_read()?.stream(&args.stream)?);
    let db = args.db.open_to_write()?;
    let stream = open_stream(&db, &args.stream, ui)?;
    let sealed = stream.seal()?;
    let summary = Summary::of(&stream)?;
    if ui.json() {
        return ui.print_json(&Sealed { sealed, summary });
    }
    ui.print(&format!(
        "sealed {} messages of stream {:?}, which has {}\n",
        thousands(sealed),
        args.stream,
        summary.content()
    ))
}
