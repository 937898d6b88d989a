//! `tapedb symbols`: the instruments of a stream.

use crate::args::{DatabaseArgs, open_stream};
use crate::failure::Failure;
use crate::ui::Ui;
use serde::Serialize;

/// List the symbols of a stream, one per line, in the order in which they came.
///
/// With --json: objects with the symbol and its number in the stream's dictionary.
///
/// Example: tapedb symbols --db demo.tape feed | sort
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    db: DatabaseArgs,

    /// The stream.
    #[arg(value_name = "STREAM")]
    stream: String,
}

#[derive(Serialize)]
struct Symbol<'a> {
    id: usize,
    symbol: &'a str,
}

/// Lists the symbols.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    let db = args.db.open_to_read()?;
    let symbols = open_stream(&db, &args.stream, ui)?.symbols();
    if ui.json() {
        return symbols.iter().enumerate().try_for_each(|(id, symbol)| ui.print_json(&Symbol { id, symbol }));
    }
    ui.print(&symbols.iter().map(|symbol| format!("{symbol}\n")).collect::<String>())
}
