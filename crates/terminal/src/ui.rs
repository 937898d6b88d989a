//! Output for people and programs: lines, tables, progress.

use crate::Failure;
use crate::apart::Apart;
use crate::signals::Signals;
use serde::Serialize;
use serde_json::{Value, json};
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Whether standard error is JSON, for code without a [`Ui`].
static JSON: AtomicBool = AtomicBool::new(false);

/// Prints an event on standard error, from any thread.
pub fn print_event(what: &str) {
    print_error(JSON.load(Ordering::Relaxed), what, json!({ "event": what }));
}

fn print_error(json: bool, what: &str, object: Value) {
    match json {
        true => eprintln!("{object}"),
        false => eprintln!("tapedb: {}", what.replace('\n', "; ")),
    }
}

/// Time between two updates of the progress line.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// Standard output, standard error and the keyboard.
#[derive(Debug)]
pub struct Ui {
    json: bool,
    /// Whether standard error is a terminal.
    is_terminal: bool,
    signals: Signals,
    /// Where the output goes, instead of the standard streams.
    apart: Option<Arc<Apart>>,
}

impl Ui {
    /// Prepares for one command. The first Ctrl-C (or SIGTERM) asks the command to stop, the second ends the process at once.
    pub fn new(json: bool, signals: Signals) -> Self {
        JSON.store(json, Ordering::Relaxed);
        Self { json, is_terminal: io::stderr().is_terminal(), signals, apart: None }
    }

    /// Prepares for a command that a part of this process runs: it prints there, and is interrupted from there.
    ///
    /// # Errors
    /// When the system has no file left.
    pub fn apart(apart: Arc<Apart>) -> Result<Self, Failure> {
        let signals = Signals::apart(apart.interrupted.clone())?;
        Ok(Self { json: false, is_terminal: false, signals, apart: Some(apart) })
    }

    /// Whether a part of this process runs the command: [`Ui::apart`].
    pub fn is_apart(&self) -> bool {
        self.apart.is_some()
    }

    /// Whether the output is JSON.
    pub fn json(&self) -> bool {
        self.json
    }

    /// The signals of the process.
    pub fn signals(&self) -> &Signals {
        &self.signals
    }

    /// Whether a signal has arrived.
    #[inline]
    pub fn is_interrupted(&self) -> bool {
        self.signals.is_interrupted()
    }

    /// [`Failure::Interrupted`] once a signal has arrived.
    #[inline]
    pub fn check_interrupt(&self) -> Result<(), Failure> {
        if self.is_interrupted() { Err(self.interruption()) } else { Ok(()) }
    }

    /// Forgets signals that have been handled.
    pub fn forget_interrupt(&self) {
        self.signals.forget();
    }

    #[cold]
    fn interruption(&self) -> Failure {
        Failure::Interrupted { code: self.signals.code() }
    }

    /// Prints a warning on standard error.
    pub fn warn(&self, what: &str) {
        if let Some(apart) = &self.apart {
            return apart.print(&format!("warning: {what}\n"));
        }
        print_error(self.json, &format!("warning: {what}"), json!({ "warning": what }));
    }

    /// Prints a note on standard error, unless the output is JSON.
    pub fn note(&self, what: &str) {
        if let Some(apart) = &self.apart {
            return apart.print(&format!("{what}\n"));
        }
        if !self.json {
            eprintln!("{what}");
        }
    }

    /// Prints text on standard output, unchanged.
    pub fn print(&self, text: &str) -> Result<(), Failure> {
        if let Some(apart) = &self.apart {
            apart.print(text);
            return Ok(());
        }
        io::stdout().lock().write_all(text.as_bytes()).map_err(Failure::output)
    }

    /// Prints one object as a line of JSON.
    pub fn print_json(&self, object: &impl Serialize) -> Result<(), Failure> {
        let mut line = serde_json::to_vec(object)
            .map_err(|error| Failure::new(format!("cannot write JSON: {error}; please report this")))?;
        line.push(b'\n');
        io::stdout().lock().write_all(&line).map_err(Failure::output)
    }

    /// Starts a progress line, which is shown on a terminal only. `total` is the final value of `done`.
    pub fn progress(&self, what: &str, total: u64) -> Progress {
        let shown = self.is_terminal && !self.json;
        let start = Instant::now();
        if let Some(apart) = &self.apart {
            apart.begin(total);
        }
        Progress { what: what.into(), total, shown, start, drawn: start, apart: self.apart.clone() }
    }
}

/// A progress line on standard error; removed when dropped.
#[derive(Debug)]
pub struct Progress {
    what: String,
    total: u64,
    shown: bool,
    start: Instant,
    drawn: Instant,
    apart: Option<Arc<Apart>>,
}

impl Progress {
    /// Updates the line if its interval has passed: `done` of the total, and the number of messages.
    pub fn update(&mut self, done: u64, messages: u64) {
        if let Some(apart) = &self.apart {
            return apart.update(done, messages);
        }
        if !self.shown || self.drawn.elapsed() < PROGRESS_INTERVAL {
            return;
        }
        self.drawn = Instant::now();
        let seconds = self.start.elapsed().as_secs_f64();
        let fraction = if self.total == 0 { 1.0 } else { (done as f64 / self.total as f64).min(1.0) };
        let left = if fraction > 0.0 { seconds / fraction - seconds } else { 0.0 };
        let rate = rate(messages, seconds);
        let (what, percent, messages) = (&self.what, fraction * 100.0, thousands(messages));
        eprint!("\r\x1b[K{what}: {percent:.0} %, {messages} messages, {rate}, {left:.0} s left");
    }
}

impl Progress {
    /// Sets the final value of `done`, where it becomes known while the command runs.
    pub fn set_total(&mut self, total: u64) {
        self.total = total;
    }

    /// Removes the line, so that other text can be printed.
    pub fn hide(&self) {
        if self.shown {
            eprint!("\r\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.hide();
    }
}

/// A table; the columns with the numbers in `right` are aligned to the right.
pub fn table(head: &[&str], right: &[usize], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([head[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let head: Vec<String> = head.iter().map(|name| (*name).to_string()).collect();
    let mut text = String::new();
    for row in [&head].into_iter().chain(rows) {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let padding = " ".repeat(width - cell.chars().count());
            let (before, after) = if right.contains(&column) { (&*padding, "") } else { ("", &*padding) };
            line.extend([before, cell, after, "  "]);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// `1234567` as `1,234,567`.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Messages per second as text, with a unit.
pub fn rate(messages: u64, seconds: f64) -> String {
    let rate = per_second(messages, seconds);
    match rate {
        1e6.. => format!("{:.2} M messages/s", rate / 1e6),
        1e3.. => format!("{:.1} k messages/s", rate / 1e3),
        _ => format!("{rate:.0} messages/s"),
    }
}

/// Messages per second; 0 when no time has passed.
pub fn per_second(messages: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { messages as f64 / seconds } else { 0.0 }
}

/// Bytes as text: `1.5 MiB`.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_separators_and_units() {
        assert_eq!([0, 999, 1000, 1_234_567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0, 1023, 1536, 5 << 30].map(bytes), ["0 B", "1023 B", "1.5 KiB", "5.0 GiB"]);
        assert_eq!(rate(3_000_000, 2.0), "1.50 M messages/s");
        assert_eq!(rate(10, 0.0), "0 messages/s");
    }

    #[test]
    fn table_columns_are_aligned() {
        let rows = [vec!["a".to_string(), "10".to_string()], vec!["longer".to_string(), "9".to_string()]];
        let text = table(&["name", "n"], &[1], &rows);
        assert_eq!(text, "name     n\na       10\nlonger   9\n");
    }
}
