//! `tapedb tick eod`: end a day.

use super::ask::{Request, ask};
use super::socket;
use std::path::PathBuf;
use tapedb_terminal::{Failure, Ui};

/// End a day of a plant now: the next day begins, and subscribers are notified.
///
/// Works on this machine, for the user that runs the plant. From other machines, a client of kdb+ with the right to write the
/// calendar sends .u.end (see --kdb of the plant).
///
/// Example: tapedb tick eod
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Socket of the plant, which it prints when it starts [default: that of this user's plant or `tick all`].
    #[arg(long, value_name = "PATH")]
    at: Option<PathBuf>,

    /// Name of the plant, if there are several.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// The date that ends [default: today]. If it has already ended, nothing happens.
    #[arg(long, value_name = "DATE")]
    date: Option<String>,
}

/// Ends a day.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    let request = Request::EndOfDay { plant: args.name, date: args.date };
    let at = args.at.map_or_else(|| socket::of_some_role(&["plant", "all"]), Ok)?;
    ask(&at, &request, |line| ui.print(&format!("{line}\n")).map(|()| false))
}
