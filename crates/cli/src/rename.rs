//! `tapedb rename`: another name for a stream.

use crate::args::DatabaseArgs;
use crate::failure::Failure;
use crate::ui::Ui;
use serde::Serialize;

/// Rename a stream. Positions that programs have saved in it stay good.
///
/// Programs that read it are told the new name, and open it anew.
///
/// Example: tapedb rename --db demo.tape feed us-equities
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    db: DatabaseArgs,

    /// The stream.
    #[arg(value_name = "STREAM")]
    stream: String,

    /// Its new name.
    #[arg(value_name = "NEW")]
    new: String,
}

#[derive(Serialize)]
struct Renamed<'a> {
    renamed: &'a str,
    to: &'a str,
}

/// Renames the stream.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    // For reading first: that makes no database where there was none.
    drop(args.db.open_to_read()?);
    let Args { db, stream, new } = &args;
    db.open_to_write()?.rename_stream(stream, new)?;
    if ui.json() {
        return ui.print_json(&Renamed { renamed: stream, to: new });
    }
    ui.print(&format!("renamed stream {stream:?} to {new:?}\n"))
}
