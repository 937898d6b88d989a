//! `tapedb delete`: a stream and all its messages.

use crate::args::{StreamArgs, open_stream};
use crate::commands::streams::list::Summary;
use crate::input::confirm;
use serde::Serialize;
use tapedb_engine::Database;
use tapedb_terminal::{Failure, Ui};

/// Delete a stream with all its messages, permanently.
///
/// Asks first; --yes skips the question and is required where standard input is not a terminal. A stream with damaged files
/// is deleted like any other.
///
/// Example: tapedb delete --db demo.tape feed --yes
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    stream: StreamArgs,

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
    let name = &args.stream.name;
    // Opened for reading first: the question states what would be deleted.
    let content = content(&args.stream.db.open_to_read()?, name, ui)?;
    let subject = format!("stream {name:?}");
    if !args.yes && !confirm(&format!("Delete {subject} ({content})"), &subject, ui)? {
        return Err(Failure::new("nothing was deleted; answer yes to delete"));
    }
    args.stream.db.open_to_write()?.delete_stream(name)?;
    if ui.json() {
        return ui.print_json(&Deleted { deleted: name });
    }
    ui.print(&format!("deleted stream {name:?}\n"))
}

/// The stream's content in one line, if its files can be read.
fn content(db: &Database, name: &str, ui: &Ui) -> Result<String, Failure> {
    let exists = db.streams()?.iter().any(|known| known == name);
    match open_stream(db, name, ui).and_then(|stream| Summary::of(&stream)) {
        Ok(summary) => Ok(summary.content()),
        Err(failure) if exists => {
            ui.warn(&format!("stream {name:?} cannot be opened: {failure}"));
            Ok("its files are damaged".into())
        }
        Err(failure) => Err(failure),
    }
}
