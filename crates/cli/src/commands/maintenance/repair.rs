//! `tapedb repair`: makes damaged files whole, as far as others say what they were.

use crate::args::DatabaseArgs;
use serde::Serialize;
use tapedb_engine::{Database, Repair};
use tapedb_terminal::{Failure, Ui, ui};

/// Repair the files of a database, or of the streams named, as far as other files say what they were.
///
/// Says what there is to do; does it with --yes only. A definition without a good copy is made from the schema of a segment,
/// a manifest from the headers of segments and the log; damaged copies are written anew; damaged segments are written anew with
/// what can be read. Nothing that can be read now is out of reach afterwards, and what was damaged is kept under its name
/// with `.damaged` behind it. A copy of the database is the better cure: see `tapedb restore`.
///
/// Nobody may have the database open for writing. Exit code: 0 when there is nothing (left) to do, 1 when there is.
///
/// Example: tapedb repair --db demo.tape
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    db: DatabaseArgs,

    /// Only these streams.
    #[arg(value_name = "STREAM")]
    streams: Vec<String>,

    /// Do it.
    #[arg(long)]
    yes: bool,
}

/// Something to do, as programs see it.
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
    // Not made if it is not there.
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
            Err(Failure::new(format!("{count} things to repair; `tapedb repair --yes` does it")))
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
