//! `tapedb rename`: rename a stream or a symbol.

use crate::args::StreamArgs;
use serde::Serialize;
use tapedb_terminal::{Failure, Ui};

/// Rename a stream, or one of its symbols.
///
/// A stream: positions that programs have saved in it stay valid. Programs that read it receive the new name, and open it again.
///
/// A symbol: all its messages have the new name from then on, including stored ones; nothing is rewritten. The old name is free for
/// another symbol.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    stream: StreamArgs,

    /// The symbol to rename, instead of the stream.
    #[arg(long, value_name = "SYMBOL")]
    symbol: Option<String>,

    /// The new name.
    #[arg(value_name = "NEW")]
    new: String,
}

const EXAMPLES: &str = "\
Examples:
  tapedb rename --db demo.tape feed us-equities
  tapedb rename --db demo.tape feed --symbol FB META";

#[derive(Serialize)]
struct Renamed<'a> {
    renamed: &'a str,
    to: &'a str,
}

#[derive(Serialize)]
struct RenamedSymbol<'a> {
    stream: &'a str,
    renamed: &'a str,
    to: &'a str,
}

/// Renames the stream or the symbol.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    let Args { stream: of, symbol, new } = &args;
    let stream = &of.name;
    if let Some(symbol) = symbol {
        of.open_to_write(ui)?.rename_symbol(symbol, new)?;
        if ui.json() {
            return ui.print_json(&RenamedSymbol { stream, renamed: symbol, to: new });
        }
        return ui.print(&format!("renamed symbol {symbol:?} of stream {stream:?} to {new:?}\n"));
    }
    // For reading first: this creates no database.
    drop(of.db.open_to_read()?);
    of.db.open_to_write()?.rename_stream(stream, new)?;
    if ui.json() {
        return ui.print_json(&Renamed { renamed: stream, to: new });
    }
    ui.print(&format!("renamed stream {stream:?} to {new:?}\n"))
}
