//! Both codecs on the three messages of TimeBase's codec benchmark: an empty one, a trade, a book of forty levels.

pub mod cases;
mod instructions;

use crate::report::Report;
use cases::{Case, Subject, names, subjects_with};
use std::time::{Duration, Instant};
use tapedb_terminal::{Failure, Ui, quantity::duration};

/// Encoding, decoding and validating, in nanoseconds or instructions
///
/// Cases are `{empty|trade|book}.{compiled|interpreted}.{encode|decode|decode.copy}`, `….validate` and
/// `….validate.interpreted`. Decoding sums up every field of every entry: in place, or copied into a reused value. The
/// sums must equal those of the source, and both codecs must write the same bytes.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Rounds, each of which runs every case; the median counts
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: u32,
    /// Minimum time of a case in a round
    #[arg(long, value_name = "DURATION", default_value = "10ms", value_parser = duration)]
    round_time: Duration,
    /// Only cases with this in their name, such as `trade.compiled` or `book*decode`; a whole name is that case alone
    #[arg(long = "case", value_name = "PATTERN")]
    patterns: Vec<String>,
    /// Count instructions of an operation with valgrind instead of measuring its time: independent of the load of the machine
    #[arg(long)]
    instructions: bool,
    /// Run this many laps of the selected cases and print nothing: for valgrind.
    #[arg(long, value_name = "N", hide = true)]
    laps: Option<u64>,
}

impl Args {
    /// The laps to run, if valgrind counts this run.
    pub fn laps(&self) -> Option<u64> {
        self.laps
    }
}

/// Runs the benchmark.
pub fn run(args: &Args, ui: &Ui) -> Result<Report, Failure> {
    let mut subjects = selected(&args.patterns)?;
    let mut report = Report::new("codec");
    if args.instructions {
        instructions::count(&subjects, &mut report, ui)?;
    } else {
        time(&mut subjects, args, &mut report, ui)?;
    }
    for subject in &subjects {
        subject.prove().map_err(Failure::new)?;
        report.add(subject.name, "bytes", "bytes", subject.bytes);
        report.add(subject.name, "checksum", "", f64::from(folded(subject.checksum)));
    }
    Ok(report)
}

/// Runs `laps` laps of each selected case.
pub fn run_laps(args: &Args, laps: u64) -> Result<(), Failure> {
    let mut subjects = selected(&args.patterns)?;
    let mut cases = subjects.iter_mut().flat_map(|subject| &mut subject.cases);
    cases.try_for_each(|case| case.run(laps)).map_err(Failure::new)
}

/// Runs all cases in each round, so that disturbances of the machine affect all of them.
fn time(subjects: &mut [Subject], args: &Args, report: &mut Report, ui: &Ui) -> Result<(), Failure> {
    let mut cases: Vec<(&mut Case, u64)> = Vec::new();
    for case in subjects.iter_mut().flat_map(|subject| &mut subject.cases) {
        let laps = laps_for(case, args.round_time)?;
        cases.push((case, laps));
    }
    for round in 0..args.rounds {
        ui.note(&format!("round {} of {}", round + 1, args.rounds));
        for (case, laps) in &mut cases {
            ui.check_interrupt()?;
            let nanos = timed(case, *laps)?.as_nanos() as f64;
            report.add(&case.name, "time", "ns", nanos / (*laps * case.operations) as f64);
        }
    }
    Ok(())
}

/// Number of laps that take at least this long; the search also warms up.
fn laps_for(case: &mut Case, least: Duration) -> Result<u64, Failure> {
    let mut laps = 1;
    while timed(case, laps)? < least || timed(case, laps)? < least {
        laps *= 2;
    }
    Ok(laps)
}

fn timed(case: &mut Case, laps: u64) -> Result<Duration, Failure> {
    let started = Instant::now();
    case.run(laps).map_err(Failure::new)?;
    Ok(started.elapsed())
}

/// The cases that one of the patterns selects; all without patterns.
fn selected(patterns: &[String]) -> Result<Vec<Subject>, Failure> {
    let names = names();
    for pattern in patterns {
        if !names.iter().any(|name| matches(pattern, name)) {
            let what = format!("no case has {pattern:?} in its name; the cases are {}", names.join(", "));
            return Err(Failure::usage(what));
        }
    }
    let is_whole = |pattern: &str| names.iter().any(|name| name == pattern);
    let selects = |pattern: &String, name: &str| {
        if is_whole(pattern) { pattern == name } else { matches(pattern, name) }
    };
    let is_selected =
        |name: &str| patterns.is_empty() || patterns.iter().any(|pattern| selects(pattern, name));
    Ok(subjects_with(is_selected))
}

/// Whether the parts of the pattern, which stars divide, occur in the name in order.
fn matches(pattern: &str, name: &str) -> bool {
    let mut rest = Some(name);
    for part in pattern.split('*') {
        rest = rest.and_then(|rest| rest.split_once(part)).map(|(_, behind)| behind);
    }
    rest.is_some()
}

/// A sum as a number that JSON holds exactly.
fn folded(sum: u64) -> u32 {
    (sum ^ (sum >> 32)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_select() {
        let names = |patterns: &[&str]| -> Vec<String> {
            let patterns: Vec<String> = patterns.iter().map(ToString::to_string).collect();
            let subjects = selected(&patterns).unwrap();
            subjects.into_iter().flat_map(|subject| subject.cases).map(|case| case.name).collect()
        };
        assert_eq!(names(&[]).len(), 24);
        assert_eq!(names(&["trade.compiled.decode"]), ["trade.compiled.decode"]);
        assert_eq!(names(&["book*d.encode"]), ["book.compiled.encode", "book.interpreted.encode"]);
        assert_eq!(
            names(&["empty.validate", "trade*copy"]),
            ["empty.validate", "trade.compiled.decode.copy", "trade.interpreted.decode.copy"]
        );
        assert!(matches!(selected(&["fly".to_string()]), Err(Failure::Usage(_))));
    }

    #[test]
    fn bodies_have_the_documented_sizes() {
        let sizes: Vec<(&str, f64)> = cases::subjects().iter().map(|s| (s.name, s.bytes)).collect();
        assert_eq!(sizes, [("empty", 0.0), ("trade", 78.0), ("book", 1354.0)]);
    }

    #[test]
    fn every_case_is_proven() {
        for mut subject in cases::subjects() {
            assert_eq!(subject.cases.len(), 8);
            subject.cases.iter_mut().for_each(|case| case.run(2).unwrap());
            subject.prove().unwrap();
        }
    }
}
