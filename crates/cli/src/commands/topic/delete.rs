//! `tapedb topic delete`.

use super::FolderArgs;
use crate::input::confirm;
use serde_json::json;
use tapedb_terminal::{Failure, Ui};
use tapedb_topic::Topic;

/// Delete a topic, with what is in its ring.
///
/// Who has it open goes on with it, but nobody else finds it. Asks before it does; --yes answers beforehand, and is needed where
/// there is nobody to ask.
///
/// Example: tapedb topic delete quotes --yes
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    folder: FolderArgs,

    /// The topic.
    #[arg(value_name = "TOPIC")]
    topic: String,

    /// Do not ask.
    #[arg(long)]
    yes: bool,
}

/// Deletes the topic.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    let subject = format!("topic {:?}", args.topic);
    if !args.yes && !confirm(&format!("Delete {subject}"), &subject, ui)? {
        return Err(Failure::new("nothing was deleted; answer yes if you mean it"));
    }
    Topic::delete(&args.folder.folder()?, &args.topic)?;
    if ui.json() {
        return ui.print_json(&json!({ "deleted": args.topic }));
    }
    ui.print(&format!("deleted {subject}\n"))
}
