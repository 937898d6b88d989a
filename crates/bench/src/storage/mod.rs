//! Loading, sealing, opening and reading, embedded: generated bars and level-2 feed, recorded data if available, single durable
//! messages, and how costs grow.

mod args;
pub mod cold;
pub mod columns;
mod merge;
mod read;
pub mod recorded;
mod scale;
mod scratch;
pub mod sealed;
mod stages;
pub mod steps;
mod sync;

use crate::pool::{bars_pool, feed_pool};
use crate::report::Report;
pub use args::Args;
use args::Group;
pub use scratch::{Scratch, ScratchDir};
use tapedb_terminal::{Failure, Ui};

/// Runs the stage of a worker process; `None` if this is not one.
pub fn run_stage(args: &Args, ui: &Ui) -> Option<Result<(), Failure>> {
    args.stage.map(|stage| stages::run(stage, &args.db, args.messages, ui))
}

/// Runs the benchmark.
pub fn run(args: Args, ui: &Ui) -> Result<Report, Failure> {
    let scratch = Scratch::new(&args.db)?;
    let (bars, feed) = (bars_pool(10), feed_pool(args.messages)?);
    let mut report = Report::new("storage");
    for run in 0..args.runs {
        ui.note(&format!("run {} of {}", run + 1, args.runs));
        if args.wants(Group::Main) {
            read::bars(&scratch, &bars, args.messages, &mut report, ui)?;
        } else if args.wants(Group::Sealed) {
            sealed::measure(&scratch, &bars, args.messages, &mut report, ui)?;
        }
        if args.wants(Group::Main) || args.wants(Group::Sealed) {
            sealed::on_one_core(&args.db, &bars, args.messages, &mut report, ui)?;
        }
        if args.wants(Group::Columns) {
            columns::measure(&scratch, &bars, args.messages, &mut report, ui)?;
        }
        if args.wants(Group::Feed) {
            read::feed(&scratch, &feed, args.messages, &mut report, ui)?;
        }
        if args.wants(Group::Sync) {
            sync::measure(&scratch, &bars, args.messages, &mut report, ui)?;
        }
        if let Some(data) = args.data.as_ref().filter(|_| args.wants(Group::Recorded)) {
            for set in &recorded::SETS {
                recorded::measure(&scratch, set, data, &mut report, ui)?;
            }
        }
    }
    if args.wants(Group::Scale) {
        scale::measure(&args, &mut report, ui)?;
    }
    if args.wants(Group::Symbol) {
        scale::symbol(&args, &mut report, ui)?;
    }
    if args.wants(Group::Merge) {
        merge::measure(&args, &mut report, ui)?;
    }
    Ok(report)
}
