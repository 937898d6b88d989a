//! `tapedb tick eod`: ends a day.

use super::ask::{Question, ask};
use super::plant::ASK_PORT;
use crate::failure::Failure;
use crate::ui::Ui;

/// End a day of a plant now: tomorrow begins, and whoever subscribes is told.
///
/// Example: tapedb tick eod; beside `tapedb tick all`: tapedb tick eod --at 127.0.0.1:7851
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Where the plant is asked; `tapedb tick all` is asked on port 7851.
    #[arg(long, value_name = "HOST:PORT", default_value = ASK_PORT)]
    at: String,

    /// Name of the plant, where there are several.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// The date that ends; today unless said. If it has ended, nothing happens.
    #[arg(long, value_name = "DATE")]
    date: Option<String>,
}

/// Ends a day.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    let question = Question::EndOfDay { plant: args.name, date: args.date };
    ask(&args.at, &question, |line| ui.print(&format!("{line}\n")).map(|()| false))
}
