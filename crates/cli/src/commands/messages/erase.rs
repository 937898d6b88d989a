//! `tapedb truncate`, `tapedb purge`, `tapedb clear`: delete the end, the beginning, or all messages of a stream.

use crate::args::StreamArgs;
use crate::commands::streams::list::Summary;
use crate::input::confirm;
use serde::Serialize;
use std::fmt;
use tapedb_engine::{Error, Stream};
use tapedb_schema::Timestamp;
use tapedb_terminal::{Failure, Ui, quantity};

/// Arguments that the three commands share.
#[derive(clap::Args, Debug)]
struct EraseArgs {
    #[command(flatten)]
    stream: StreamArgs,

    /// Do not ask.
    #[arg(long)]
    yes: bool,
}

/// Delete all messages at or after a time, for example to load the end again.
///
/// Asks first; --yes skips the question and is required where standard input is not a terminal. Readers stop seeing the messages
/// at once; the disk space is freed when their files have been removed or rewritten.
///
/// Example: tapedb truncate --db demo.tape feed --from 2024-01-02T14:30 --yes
#[derive(clap::Args, Debug)]
pub struct TruncateArgs {
    #[command(flatten)]
    erase: EraseArgs,

    /// First time to delete (UTC unless it names an offset).
    #[arg(long, value_name = "TIME", value_parser = quantity::time)]
    from: Timestamp,
}

/// Delete all messages before a time, exactly those. `tapedb alter --keep-for` deletes old messages automatically.
///
/// Asks first; --yes skips the question and is required where standard input is not a terminal. Readers stop seeing the messages
/// at once; the disk space is freed when their files have been removed or rewritten.
///
/// Example: tapedb purge --db demo.tape feed --before 2024-01-02 --yes
#[derive(clap::Args, Debug)]
pub struct PurgeArgs {
    #[command(flatten)]
    erase: EraseArgs,

    /// First time to keep (UTC unless it names an offset).
    #[arg(long, value_name = "TIME", value_parser = quantity::time)]
    before: Timestamp,
}

/// Delete all messages of a stream. The stream, its schema and its symbols stay.
///
/// Asks first; --yes skips the question and is required where standard input is not a terminal. Readers stop seeing the messages
/// at once; the disk space is freed when their files have been removed or rewritten.
///
/// Example: tapedb clear --db demo.tape feed --yes
#[derive(clap::Args, Debug)]
pub struct ClearArgs {
    #[command(flatten)]
    erase: EraseArgs,
}

/// The messages to delete.
#[derive(Debug, Clone, Copy)]
enum Range {
    From(Timestamp),
    Before(Timestamp),
    All,
}

impl Range {
    fn delete(self, stream: &Stream) -> Result<(), Error> {
        match self {
            Self::From(time) => stream.truncate(time),
            Self::Before(time) => stream.purge(time),
            Self::All => stream.clear(),
        }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::From(time) => write!(f, "all messages at or after {time}"),
            Self::Before(time) => write!(f, "all messages before {time}"),
            Self::All => f.write_str("all messages"),
        }
    }
}

#[derive(Serialize)]
struct Erased<'a> {
    stream: &'a str,
    deleted: String,
}

/// Runs `tapedb truncate`.
pub fn truncate(args: TruncateArgs, ui: &Ui) -> Result<(), Failure> {
    erase(&args.erase, Range::From(args.from), ui)
}

/// Runs `tapedb purge`.
pub fn purge(args: PurgeArgs, ui: &Ui) -> Result<(), Failure> {
    erase(&args.erase, Range::Before(args.before), ui)
}

/// Runs `tapedb clear`.
pub fn clear(args: ClearArgs, ui: &Ui) -> Result<(), Failure> {
    erase(&args.erase, Range::All, ui)
}

/// Asks, and deletes a range of the stream's messages.
fn erase(args: &EraseArgs, range: Range, ui: &Ui) -> Result<(), Failure> {
    let name = &args.stream.name;
    // Opened for reading first: a mistyped path creates no database, and the question states the contents of the stream.
    let content = Summary::of(&args.stream.open_to_read(ui)?)?.content();
    let subject = format!("{range} of stream {name:?}");
    if !args.yes && !confirm(&format!("Delete {subject} ({content})"), &subject, ui)? {
        return Err(Failure::new("nothing was deleted; answer yes to delete"));
    }
    range.delete(&args.stream.open_to_write(ui)?)?;
    if ui.json() {
        return ui.print_json(&Erased { stream: name, deleted: range.to_string() });
    }
    ui.print(&format!("deleted {subject}\n"))
}
