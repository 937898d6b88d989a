//! `tapedb truncate`: the end of a stream.

use crate::args;
use crate::erase::EraseArgs;
use crate::failure::Failure;
use crate::ui::Ui;
use tapedb_schema::Timestamp;

/// Delete all messages at or after a time: what was loaded wrongly at the end, say, to load it again.
///
/// Asks before it does; --yes answers beforehand, and is needed where there is nobody to ask. Readers no longer find the
/// messages at once; the room on the disk is free again when the files have been removed or written anew.
///
/// Example: tapedb truncate --db demo.tape feed --from 2024-01-02T14:30 --yes
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    erase: EraseArgs,

    /// First time to delete (UTC unless it says else).
    #[arg(long, value_name = "TIME", value_parser = args::time)]
    from: Timestamp,
}

/// Truncates the stream.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    let what = format!("all messages at or after {}", args.from);
    args.erase.run(&what, ui, |stream| stream.truncate(args.from))
}
