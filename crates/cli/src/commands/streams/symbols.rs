//! `tapedb symbols`: the instruments of a stream.

use crate::args::StreamArgs;
use serde::Serialize;
use tapedb_terminal::{Failure, Ui};

/// List the symbols of a stream, one per line, in the order in which they arrived.
///
/// With --json: objects with the symbol and its number in the stream's dictionary.
///
/// Example: tapedb symbols --db demo.tape feed | sort
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    stream: StreamArgs,
}

#[derive(Serialize)]
struct Symbol<'a> {
    id: usize,
    symbol: &'a str,
}

/// Lists the symbols.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    let symbols = args.stream.open_to_read(ui)?.symbols();
    if ui.json() {
        return symbols.iter().enumerate().try_for_each(|(id, symbol)| ui.print_json(&Symbol { id, symbol }));
    }
    ui.print(&symbols.iter().map(|symbol| format!("{symbol}\n")).collect::<String>())
}
