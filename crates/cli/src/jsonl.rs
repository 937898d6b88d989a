//! Reads messages from lines of JSON, as `tapedb read --output json` writes them.

use crate::failure::Failure;
use crate::ui::Ui;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use tapedb_codec::dynamic::{Layouts, RecordValue};
use tapedb_schema::Timestamp;

/// Lines between two looks at Ctrl-C.
const INTERRUPT_CHECK_INTERVAL: u64 = 4096;
/// No line is longer: a message of the largest size, with every byte escaped.
const LINE_BYTES_MAX: u64 = 64 << 20;

/// Where messages come from.
#[derive(clap::Args, Debug)]
pub struct Input {
    /// Files of JSON lines, one after the other [default: standard input].
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
}

impl Input {
    /// Gives every message to `take`: symbol, time, record. Returns how many there were. Empty lines are no messages.
    ///
    /// # Errors
    /// For a line that is no message of the schema, or that `take` refuses: the error names it.
    pub fn read<E: Into<Failure>>(
        &self,
        layouts: &Layouts,
        ui: &Ui,
        mut take: impl FnMut(&str, Timestamp, &RecordValue) -> Result<(), E>,
    ) -> Result<u64, Failure> {
        if self.files.is_empty() {
            let mut lines = Lines::new(io::stdin().lock(), "standard input".into());
            return lines.each(layouts, ui, &mut take);
        }
        let mut messages = 0;
        for path in &self.files {
            let mut lines = Lines::new(BufReader::new(open(path)?), path.display().to_string());
            messages += lines.each(layouts, ui, &mut take)?;
        }
        Ok(messages)
    }
}

fn open(path: &Path) -> Result<File, Failure> {
    File::open(path).map_err(|error| Failure::new(format!("cannot open {}: {error}", path.display())))
}

/// The lines of one file.
struct Lines<R> {
    reader: R,
    name: String,
    number: u64,
    line: String,
}

impl<R: BufRead> Lines<R> {
    fn new(reader: R, name: String) -> Self {
        Self { reader, name, number: 0, line: String::new() }
    }

    fn each<E: Into<Failure>>(
        &mut self,
        layouts: &Layouts,
        ui: &Ui,
        take: &mut impl FnMut(&str, Timestamp, &RecordValue) -> Result<(), E>,
    ) -> Result<u64, Failure> {
        let mut messages = 0;
        while self.next()? {
            if self.number.is_multiple_of(INTERRUPT_CHECK_INTERVAL) {
                ui.check_interrupt()?;
            }
            if self.line.trim().is_empty() {
                continue;
            }
            let read = layouts.message_from_json(&self.line);
            let (symbol, time, record) = read.map_err(|error| self.wrong(&error.to_string()))?;
            let symbol = symbol.ok_or_else(|| self.wrong("it has no \"symbol\""))?;
            let time = time.ok_or_else(|| self.wrong("it has no \"timestamp\""))?;
            take(&symbol, time, &record).map_err(|error| match error.into() {
                Failure::Failed(what) => self.wrong(&what),
                other => other,
            })?;
            messages += 1;
        }
        Ok(messages)
    }

    fn next(&mut self) -> Result<bool, Failure> {
        self.line.clear();
        self.number += 1;
        let read = io::Read::take(&mut self.reader, LINE_BYTES_MAX).read_line(&mut self.line);
        let read = read.map_err(|error| self.wrong(&error.to_string()))?;
        if read as u64 == LINE_BYTES_MAX && !self.line.ends_with('\n') {
            return Err(self.wrong("it is longer than 64 MiB, which no message is"));
        }
        Ok(read > 0)
    }

    fn wrong(&self, what: &str) -> Failure {
        Failure::new(format!("line {} of {}: {what}", self.number, self.name))
    }
}
