//! `tapedb repair`: repair damaged files from the content of other files.

use crate::args::DatabaseArgs;
use serde::Serialize;
use tapedb_engine::{Database, Repair};
use tapedb_terminal::{Failure, Ui, ui};

/// Repair the files of a database, or of the given streams, from the content of other files.
///
/// Lists the repairs, and makes them only with --yes. A definition without an intact copy is created from the schema of a segment, a
/// manifest from the headers of segments and the log; damaged copies are written again; damaged segments are written again with
/// the readable messages. All messages that can be read now can be read afterwards, and damaged files are kept with the suffix
/// `.damaged`. If there is a copy of the database, prefer `tapedb restore`.
///
/// No process may have the database open for writing. Exit code: 0 if nothing (more) is to be repaired, 1 otherwise.
///
/// Example: tapedb repair --db demo.tape
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    db: DatabaseArgs,

    /// Only these streams.
    #[arg(value_name = "STREAM")]
    streams: Vec<String>,

    /// Make the repairs.
    #[arg(long)]
    yes: bool,
}

/// A repair in JSON output.
#[derive(Serialize)]
struct Line<'a> {
    stream: &'a str,
    file: String,
    what: &'a str,
    messages_lost: u64,
    done: bool,
}

/// Repairs the streams.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    // For reading first: this creates no database.
    drop(args.db.open_files_to_read()?);
    let db = Database::open_without_maintenance(args.db.directory()?)?;
    let names = if args.streams.is_empty() { db.streams()? } else { args.streams };
    let mut count = 0;
    for name in &names {
        ui.check_interrupt()?;
        let repairs = db.repair(name, args.yes)?;
        count += repairs.len();
        repairs.iter().try_for_each(|repair| print(&db, name, repair, args.yes, ui))?;
    }
    match (count, args.yes) {
        (0, _) if ui.json() => Ok(()),
        (0, _) => ui.print("nothing to repair\n"),
        (_, true) => Ok(()),
        (count, false) => {
            Err(Failure::new(format!("{count} repairs to make; `tapedb repair --yes` makes them")))
        }
    }
}

fn print(db: &Database, stream: &str, repair: &Repair, done: bool, ui: &Ui) -> Result<(), Failure> {
    let Repair { path, what, messages_lost, .. } = repair;
    let file = path.strip_prefix(db.path()).unwrap_or(path).display().to_string();
    let messages_lost = *messages_lost;
    if ui.json() {
        return ui.print_json(&Line { stream, file, what, messages_lost, done });
    }
    let lost = match messages_lost {
        0 => String::new(),
        lost => format!("; {} messages are lost", ui::thousands(lost)),
    };
    ui.print(&format!("{file}: {}{lost}\n", what.replace('\n', "; ")))
}
