//! Topics: one-way latency at a given rate, messages a second, and the stall after a killed subscriber; each thread on its own
//! processor if there are enough.

pub mod killed;
mod latency;
mod records;
mod setup;
pub mod study;
mod throughput;

use crate::report::Report;
pub use setup::Args;
use setup::Work;
use tapedb_terminal::{Failure, Ui};

/// Runs the benchmark.
pub fn run(args: &Args, ui: &Ui) -> Result<Report, Failure> {
    let mut report = Report::new("topic");
    let mut chosen = cases();
    let is_one = chosen.iter().any(|(case, _)| *case == args.only);
    chosen.retain(|(case, _)| if is_one { *case == args.only } else { case.contains(&args.only) });
    if chosen.is_empty() {
        return Err(Failure::usage(format!(
            "no case has {:?} in its name; omit --only to run all",
            args.only
        )));
    }
    for run in 0..args.runs {
        ui.note(&format!("run {} of {}", run + 1, args.runs));
        for (case, work) in &chosen {
            ui.check_interrupt()?;
            work(args, case, &mut report)?;
        }
    }
    Ok(report)
}

fn cases() -> Vec<(String, Work)> {
    let mut cases: Vec<(String, Work)> = Vec::new();
    for (name, rate) in [("50k", 50_000), ("1m", 1_000_000)] {
        cases.push((
            format!("topic.latency.40.{name}"),
            Box::new(latency::run::<records::Body40>(rate, true)),
        ));
        cases.push((
            format!("topic.latency.256.{name}"),
            Box::new(latency::run::<records::Body256>(rate, true)),
        ));
    }
    let shared = latency::run::<records::Body40>(50_000, false);
    cases.push(("topic.latency.40.50k.shared".into(), Box::new(shared)));
    let how = throughput::How::default();
    for (size, work) in throughput::sizes() {
        for (name, batch) in [("single", 1), ("batched", BATCH)] {
            let how = throughput::How { batch, ..how };
            cases.push((
                format!("topic.throughput.{size}.{name}"),
                Box::new(move |args, case, report| work(args, case, report, how)),
            ));
        }
    }
    for publishers in 1..=4 {
        let how = throughput::How { publishers, shared: true, ..how };
        cases.push((format!("topic.publishers.{publishers}"), throughput::of_40(how)));
    }
    for subscribers in 1..=4 {
        let how = throughput::How { subscribers, ..how };
        cases.push((format!("topic.subscribers.{subscribers}"), throughput::of_40(how)));
    }
    cases.push(("topic.killed".into(), Box::new(killed::run)));
    cases
}

/// Messages of a batch: as many records of 40 bytes as rivals get into one message of theirs (Aeron's takes 1,376 bytes).
const BATCH: u64 = 32;
