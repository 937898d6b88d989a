//! `tapedb tier`: move segments to the object store now.

use crate::args::StreamArgs;
use serde::Serialize;
use std::time::Duration;
use tapedb_engine::Offloaded;
use tapedb_terminal::{Failure, Ui, quantity::duration, ui};

/// Move sealed segments to the stream's object store now, and bring what it states of the stream up to date.
///
/// The process that writes does this automatically for segments that are old enough (`tapedb alter --tier URL --after AGE`). Each segment
/// is copied, read back and compared before the local file is removed. With --sweep, objects that nothing has named for the given time are
/// removed: copies that were interrupted, and segments that have been purged.
///
/// Example: tapedb tier --db demo.tape feed --now
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    stream: StreamArgs,

    /// Move all sealed segments, however young.
    #[arg(long)]
    now: bool,

    /// Move segments whose messages are all older than this, for example 1d; without it the stream's setting decides.
    #[arg(long, value_name = "AGE", value_parser = duration, conflicts_with = "now")]
    older_than: Option<Duration>,

    /// Go on in the place of another copy of this database, which is gone for good: after it was restored from a backup.
    #[arg(long)]
    take_over: bool,

    /// Remove objects that nothing has named for this long, for example 0s where no other process reads.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    sweep: Option<Duration>,
}

#[derive(Serialize)]
struct Moved<'a> {
    stream: &'a str,
    segments: u64,
    bytes: u64,
    segments_in_tier: u64,
    bytes_in_tier: u64,
}

/// Moves the segments.
pub fn run(args: Args, ui: &Ui) -> Result<(), Failure> {
    let stream = args.stream.open_to_write(ui)?;
    let Some(offload) = stream.options().offload else {
        return Err(Failure::usage(
            "the stream has no object tier; set one with `tapedb alter --tier URL --after AGE`",
        ));
    };
    if args.take_over {
        stream.take_over_objects()?;
    }
    let older_than = if args.now { Some(Duration::ZERO) } else { args.older_than };
    let Offloaded { segments, bytes } = match args.sweep {
        Some(grace) => stream.offload_and_sweep(older_than, grace)?,
        None => stream.offload(older_than)?,
    };
    let all = stream.offloaded();
    if ui.json() {
        let (segments_in_tier, bytes_in_tier) = (all.segments, all.bytes);
        return ui.print_json(&Moved {
            stream: &args.stream.name,
            segments,
            bytes,
            segments_in_tier,
            bytes_in_tier,
        });
    }
    ui.print(&format!(
        "moved {segments} segments ({}) of stream {:?} to {}, which has {} ({})\n",
        ui::bytes(bytes),
        args.stream.name,
        offload.url,
        all.segments,
        ui::bytes(all.bytes)
    ))
}
