//! Asking before something is deleted, and deleting messages of a stream.

use crate::args::{DatabaseArgs, open_stream};
use crate::failure::Failure;
use crate::input;
use crate::streams::Summary;
use crate::ui::Ui;
use serde::Serialize;
use std::io::{self, IsTerminal};
use tapedb_engine::{Error, Stream};

/// What the commands that delete messages have in common.
#[derive(clap::Args, Debug)]
pub struct EraseArgs {
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
struct Erased<'a> {
    stream: &'a str,
    deleted: &'a str,
}

impl EraseArgs {
    /// Deletes `what` of the stream, when asking for it was answered by yes.
    pub fn run(
        &self,
        what: &str,
        ui: &Ui,
        erase: impl FnOnce(&Stream) -> Result<(), Error>,
    ) -> Result<(), Failure> {
        let name = &self.stream;
        // Looked at for reading first: that makes no database where there was none, and tells what is there.
        let content = Summary::of(&open_stream(&self.db.open_to_read()?, name, ui)?)?.content();
        let subject = format!("{what} of stream {name:?}");
        if !self.yes && !confirm(&format!("Delete {subject} ({content})"), &subject, ui)? {
            return Err(Failure::new("nothing was deleted; answer yes if you mean it"));
        }
        let db = self.db.open_to_write()?;
        erase(&open_stream(&db, name, ui)?)?;
        if ui.json() {
            return ui.print_json(&Erased { stream: name, deleted: what });
        }
        ui.print(&format!("deleted {subject}\n"))
    }
}

/// Asks whether to go on; somebody must be there to answer.
pub fn confirm(question: &str, subject: &str, ui: &Ui) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::new(format!(
            "{subject}: nothing was changed, for there is nobody to ask; add --yes if you mean it"
        )));
    }
    input::is_yes(question, ui)
}
