//! `tapedb seal`: seal all messages now.

use crate::args::StreamArgs;
use crate::commands::streams::list::Summary;
use serde::Serialize;
use tapedb_terminal::{Failure, Ui, ui::thousands};

/// Write all messages in log files to compressed segments now: smaller and faster to read.
///
/// The process that writes does this automatically for log files that are full or old enough (see `tapedb alter --seal-after`).
/// The stream's settings for old segments are applied too.
///
/// Example: tapedb seal --db demo.tape feed
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    stream: StreamArgs,
}

#[derive(Serialize)]
struct Sealed {
    sealed: u64,
    #[serde(flatten)]
    summary: Summary,
}

/// Seals the stream.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    let stream = args.stream.open_to_write(ui)?;
    let sealed = stream.seal()?;
    let summary = Summary::of(&stream)?;
    if ui.json() {
        return ui.print_json(&Sealed { sealed, summary });
    }
    ui.print(&format!(
        "sealed {} messages of stream {:?}, which has {}\n",
        thousands(sealed),
        args.stream.name,
        summary.content()
    ))
}
