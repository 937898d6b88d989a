//! `tapedb purge`: the beginning of a stream.

use crate::args;
use crate::erase::EraseArgs;
use crate::failure::Failure;
use crate::ui::Ui;
use tapedb_schema::Timestamp;

/// Delete all messages before a time, exactly those. To let them go by themselves see `tapedb alter --keep-for`.
///
/// Asks before it does; --yes answers beforehand, and is needed where there is nobody to ask. Readers no longer find the
/// messages at once; the room on the disk is free again when the files have been removed or written anew.
///
/// Example: tapedb purge --db demo.tape feed --before 2024-01-02 --yes
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    erase: EraseArgs,

    /// First time to keep (UTC unless it says else).
    #[arg(long, value_name = "TIME", value_parser = args::time)]
    before: Timestamp,
}

/// Purges the stream.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    let what = format!("all messages before {}", args.before);
    args.erase.run(&what, ui, |stream| stream.purge(args.before))
}
