//! `tapedb delete`: a stream and all its messages.

use crate::args::{DatabaseArgs, open_stream};
use crate::erase::confirm;
use crate::failure::Failure;
use crate::streams::Summary;
use crate::ui::Ui;
use serde::Serialize;
use tapedb_engine::Database;

/// Delete a stream with all its messages, for good.
///
/// Asks before it does; --yes answers beforehand, and is needed where there is nobody to ask. A stream whose files are
/// damaged is deleted like any other.
///
/// Example: tapedb delete --db demo.tape feed --yes
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    db: DatabaseArgs,

    /// The stream.
    #[arg(value_name = "STREAM")]
    stream: String,

    /// Do not ask.
    #[arg(long)]
    yes: bool,
}

#[derive(Serialize)]
struct Deleted<'a> {
    deleted: &'a str,
}

/// Deletes the stream.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    // Looked at for reading first: that makes no database where there was none, and tells what would go.
    let content = content(&args.db.open_to_read()?, &args.stream, ui)?;
    let subject = format!("stream {:?}", args.stream);
    if !args.yes && !confirm(&format!("Delete {subject} ({content})"), &subject, ui)? {
        return Err(Failure::new("nothing was deleted; answer yes if you mean it"));
    }
    args.db.open_to_write()?.delete_stream(&args.stream)?;
    if ui.json() {
        return ui.print_json(&Deleted { deleted: &args.stream });
    }
    ui.print(&format!("deleted stream {:?}\n", args.stream))
}

/// What the stream holds, in one line, as far as its files tell.
fn content(db: &Database, name: &str, ui: &Ui) -> Result<String, Failure> {
    let is_there = db.streams()?.iter().any(|known| known == name);
    match open_stream(db, name, ui).and_then(|stream| Summary::of(&stream)) {
        Ok(summary) => Ok(summary.content()),
        Err(failure) if is_there => {
            ui.warn(&format!("stream {name:?} cannot be opened: {failure}"));
            Ok("its files are damaged".into())
        }
        Err(failure) => Err(failure),
    }
}
