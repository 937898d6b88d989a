//! The report at the end of an import.

use serde::Serialize;
use std::collections::BTreeMap;
use tapedb_terminal::{Failure, Ui, ui};
use tapedb_venue::Counters;

/// Result of a transfer.
#[derive(Default)]
pub struct Outcome {
    /// Messages of each source wanted, in the order of the inputs.
    pub messages: Vec<u64>,
    pub found: u64,
    pub bad_lines: u64,
    pub ignored: BTreeMap<String, u64>,
    /// Frames that are no data, by kind.
    pub control: BTreeMap<String, u64>,
    pub checks: Checks,
    pub guessed_units: Vec<&'static str>,
    pub seconds: f64,
}

/// What venues' own sequence numbers and checksums have shown.
#[derive(Serialize, Default, Clone, Debug, PartialEq)]
pub struct Checks {
    passed: u64,
    failed: u64,
    /// Changes that nothing can prove to be complete.
    unverifiable: u64,
    gaps: u64,
    rounded_numbers: u64,
    /// Messages that are earlier than the one before them in their file.
    backward: u64,
}

impl Checks {
    pub fn of(counters: &Counters) -> Self {
        Self {
            passed: counters.checks_passed,
            failed: counters.checks_failed,
            unverifiable: counters.unverifiable,
            gaps: counters.gaps,
            rounded_numbers: counters.rounded_numbers,
            backward: counters.backward,
        }
    }

    fn is_none(&self) -> bool {
        *self == Self::default()
    }

    fn text(&self) -> String {
        let mut text = String::new();
        if self.passed + self.failed + self.unverifiable > 0 {
            text.push_str(&format!(
                "sequences and checksums: {} changes passed, {} failed, {} cannot be verified; {} gaps\n",
                ui::thousands(self.passed),
                ui::thousands(self.failed),
                ui::thousands(self.unverifiable),
                ui::thousands(self.gaps)
            ));
        }
        if self.rounded_numbers > 0 {
            let count = ui::thousands(self.rounded_numbers);
            text.push_str(&format!("{count} numbers of more than 16 digits were rounded\n"));
        }
        if self.backward > 0 {
            let count = ui::thousands(self.backward);
            text.push_str(&format!("{count} messages are earlier than the one before them in their file\n"));
        }
        text
    }
}

/// The result for one file.
#[derive(Serialize, Debug)]
pub struct FileReport {
    pub file: String,
    pub bytes: u64,
    /// Messages of the file in the stream; `None` if it was skipped.
    pub messages: Option<u64>,
}

/// The totals.
#[derive(Serialize, Debug)]
struct Totals {
    stream: String,
    files: usize,
    messages: u64,
    /// Messages that an interrupted import had written.
    resumed: u64,
    bad_lines: u64,
    ignored: BTreeMap<String, u64>,
    /// Frames that are no data, by kind.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    control: BTreeMap<String, u64>,
    #[serde(skip_serializing_if = "Checks::is_none")]
    checks: Checks,
    /// Assumed units of receive times that are not nanoseconds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    guessed_units: Vec<&'static str>,
    seconds: f64,
    messages_per_second: f64,
}

/// Prints the report of a stream's files.
pub fn print(stream: &str, files: &[FileReport], outcome: &Outcome, ui: &Ui) -> Result<(), Failure> {
    let messages = outcome.messages.iter().sum();
    let totals = Totals {
        stream: stream.into(),
        files: files.iter().filter(|file| file.messages.is_some()).count(),
        messages,
        resumed: outcome.found,
        bad_lines: outcome.bad_lines,
        ignored: outcome.ignored.clone(),
        control: outcome.control.clone(),
        checks: outcome.checks.clone(),
        guessed_units: outcome.guessed_units.clone(),
        seconds: outcome.seconds,
        messages_per_second: ui::per_second(messages, outcome.seconds),
    };
    if ui.json() {
        files.iter().try_for_each(|file| ui.print_json(file))?;
        return ui.print_json(&totals);
    }
    // The one file of an upload is known, and its path is of no use.
    if !ui.is_apart() {
        let rows: Vec<Vec<String>> = files.iter().map(FileReport::row).collect();
        ui.print(&ui::table(&["file", "bytes", "messages"], &[1, 2], &rows))?;
    }
    ui.print(&totals.text())
}

impl FileReport {
    fn row(&self) -> Vec<String> {
        let messages = self.messages.map_or("was there".into(), ui::thousands);
        vec![self.file.clone(), ui::thousands(self.bytes), messages]
    }
}

impl Totals {
    fn text(&self) -> String {
        let rate = ui::rate(self.messages, self.seconds);
        let mut text = format!(
            "{:?}: {} messages of {} files in {:.2} s, {rate}\n",
            self.stream,
            ui::thousands(self.messages),
            self.files,
            self.seconds
        );
        if self.resumed > 0 {
            text.push_str(&format!(
                "{} of them were written by the interrupted import\n",
                ui::thousands(self.resumed)
            ));
        }
        if self.bad_lines > 0 {
            text.push_str(&format!("{} bad lines skipped\n", ui::thousands(self.bad_lines)));
        }
        text.push_str(&self.checks.text());
        if !self.control.is_empty() {
            let count = ui::thousands(self.control.values().sum());
            text.push_str(&format!("{count} frames were no data: heartbeats, subscriptions and others\n"));
        }
        for unit in &self.guessed_units {
            text.push_str(&format!("receive times were assumed to be {unit}, by their size\n"));
        }
        for (kind, count) in &self.ignored {
            text.push_str(&format!("{} lines of kind {kind:?} are not imported\n", ui::thousands(*count)));
        }
        text
    }
}
