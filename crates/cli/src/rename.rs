//! `tapedb rename`: another name for a stream, or for a symbol.

use crate::args::{DatabaseArgs, open_stream};
use crate::failure::Failure;
use crate::ui::Ui;
use serde::Serialize;

/// Rename a stream, or one of its symbols.
///
/// A stream: positions that programs have saved in it stay good. Programs that read it are told the new name, and open it
/// anew.
///
/// A symbol: all its messages have the new name from then on, those that are stored included; nothing is rewritten. The old
/// name is free, for another symbol.
#[derive(clap::Args, Debug)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    db: DatabaseArgs,

    /// The stream.
    #[arg(value_name = "STREAM")]
    stream: String,

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
    // For reading first: that makes no database where there was none.
    drop(args.db.open_to_read()?);
    let Args { db, stream, symbol, new } = &args;
    if let Some(symbol) = symbol {
        open_stream(&db.open_to_write()?, stream, ui)?.rename_symbol(symbol, new)?;
        if ui.json() {
            return ui.print_json(&RenamedSymbol { stream, renamed: symbol, to: new });
        }
        return ui.print(&format!("renamed symbol {symbol:?} of stream {stream:?} to {new:?}\n"));
    }
    db.open_to_write()?.rename_stream(stream, new)?;
    if ui.json() {
        return ui.print_json(&Renamed { renamed: stream, to: new });
    }
    ui.print(&format!("renamed stream {stream:?} to {new:?}\n"))
}
