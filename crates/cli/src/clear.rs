//! `tapedb clear`: all messages of a stream.

use crate::erase::EraseArgs;
use crate::failure::Failure;
use crate::ui::Ui;
use tapedb_engine::Stream;

/// Delete all messages of a stream. The stream, its schema and its symbols stay.
///
/// Asks before it does; --yes answers beforehand, and is needed where there is nobody to ask. Readers no longer find the
/// messages at once; the room on the disk is free again when the files have been removed or written anew.
///
/// Example: tapedb clear --db demo.tape feed --yes
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    erase: EraseArgs,
}

/// Clears the stream.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    args.erase.run("all messages", ui, Stream::clear)
}
