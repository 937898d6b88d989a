//! `tapedb topic delete`: delete a topic.

use super::folder::TopicArgs;
use crate::input::confirm;
use serde_json::json;
use tapedb_terminal::{Failure, Ui};
use tapedb_topic::Topic;

/// Delete a topic with the messages in its ring.
///
/// Programs that have it open continue to use it; others no longer find it. Asks first; --yes skips the question and is required
/// where standard input is not a terminal.
///
/// Example: tapedb topic delete quotes --yes
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    topic: TopicArgs,

    /// Do not ask.
    #[arg(long)]
    yes: bool,
}

/// Deletes the topic.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    let subject = format!("topic {:?}", args.topic.name);
    if !args.yes && !confirm(&format!("Delete {subject}"), &subject, ui)? {
        return Err(Failure::new("nothing was deleted; answer yes to delete"));
    }
    Topic::delete(&args.topic.folder()?, &args.topic.name)?;
    if ui.json() {
        return ui.print_json(&json!({ "deleted": args.topic.name }));
    }
    ui.print(&format!("deleted {subject}\n"))
}
