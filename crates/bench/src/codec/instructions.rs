//! Instructions of an operation, counted by valgrind: the same on a busy machine as on an idle one.
//!
//! Each case runs twice in a separate process, the second time with twice the laps. The difference is the cost of the laps,
//! without start and preparation.

use super::cases::{Case, Subject};
use crate::report::Report;
use std::path::Path;
use std::process::{Command, Stdio};
use tapedb_terminal::{Failure, Ui};

/// Operations of the shorter run: enough for one-time costs, such as growing memory.
const OPERATIONS: u64 = 256;

/// Counts every case.
pub fn count(subjects: &[Subject], report: &mut Report, ui: &Ui) -> Result<(), Failure> {
    let program = std::env::current_exe().map_err(|error| {
        Failure::new(format!("cannot find this program: {error}; start it by its full path"))
    })?;
    for case in subjects.iter().flat_map(|subject| &subject.cases) {
        ui.check_interrupt()?;
        ui.note(&format!("counting {}", case.name));
        let laps = OPERATIONS.div_ceil(case.operations);
        let (once, twice) = (counted(&program, case, laps)?, counted(&program, case, 2 * laps)?);
        let operations = (laps * case.operations) as f64;
        report.add(
            &case.name,
            "instructions",
            "instructions",
            twice.saturating_sub(once) as f64 / operations,
        );
    }
    Ok(())
}

/// Instructions of a run of `laps` laps, with start and preparation.
fn counted(program: &Path, case: &Case, laps: u64) -> Result<u64, Failure> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program);
    command.args(["bench", "codec", "--case", &case.name, "--laps", &laps.to_string()]);
    let output = command.stdin(Stdio::null()).output().map_err(|error| {
        Failure::new(format!(
            "cannot run valgrind: {error}; install it (`apt install valgrind`, `dnf install valgrind`), or omit \
             --instructions"
        ))
    })?;
    let log = String::from_utf8_lossy(&output.stderr);
    match collected(&log) {
        Some(count) if output.status.success() => Ok(count),
        _ => Err(Failure::new(format!(
            "valgrind failed on {}: {}; run it by hand to see its output",
            case.name,
            last_line(&log)
        ))),
    }
}

/// The number in callgrind's last lines: `==123== Collected : 456`.
fn collected(log: &str) -> Option<u64> {
    let line = log.lines().rev().find(|line| line.contains("Collected :"))?;
    line.rsplit(' ').next()?.parse().ok()
}

fn last_line(log: &str) -> &str {
    log.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no output")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_in_the_last_lines() {
        let log = "==7== Events    : Ir\n==7== Collected : 1830\n==7== \n==7== I   refs:      1,830\n";
        assert_eq!(collected(log), Some(1830));
        assert_eq!((collected("==7== bad"), last_line("a\nb\n\n"), last_line("")), (None, "b", "no output"));
    }
}
