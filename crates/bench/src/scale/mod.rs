//! Where one server ends: live readers of one symbol each, parts of a stream, one symbol of many, threads that seal.

mod args;
mod crowd;
mod parts;
mod readers;
mod sealing;

pub use args::Args;
pub use crowd::{Crowd, Feeder};

use crate::report::Report;
use args::Group;
use tapedb_terminal::{Failure, Ui};

/// Runs the benchmark.
pub fn run(args: &Args, ui: &Ui) -> Result<Report, Failure> {
    let mut report = Report::new("scale");
    let wants = |group| args.only.is_empty() || args.only.contains(&group);
    for run in 0..args.runs {
        ui.note(&format!("run {} of {}", run + 1, args.runs));
        if wants(Group::Readers) {
            for readers in &args.readers {
                ui.check_interrupt()?;
                readers::measure(args, *readers, &mut report)?;
            }
        }
        if wants(Group::Parts) {
            for parts in &args.parts {
                ui.check_interrupt()?;
                parts::measure(args, *parts, &mut report)?;
            }
        }
        if wants(Group::Symbol) {
            sealing::symbol(args, &mut report, ui)?;
        }
        if wants(Group::Seal) {
            for threads in &args.seal_threads {
                ui.check_interrupt()?;
                sealing::threads(args, *threads, &mut report, ui)?;
            }
        }
    }
    Ok(report)
}
