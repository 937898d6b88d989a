//! What people and programs see: lines, tables, progress.

use crate::failure::Failure;
use crate::signals::Signals;
use serde::Serialize;
use serde_json::{Value, json};
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Whether a program reads standard error, for what has no [`Ui`].
static JSON: AtomicBool = AtomicBool::new(false);

/// Says on standard error what happens meanwhile, from whatever thread.
pub fn tell_event(what: &str) {
    tell(JSON.load(Ordering::Relaxed), what, json!({ "event": what }));
}

fn tell(json: bool, what: &str, object: Value) {
    match json {
        true => eprintln!("{object}"),
        false => eprintln!("tapedb: {}", what.replace('\n', "; ")),
    }
}

/// How often progress is drawn.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// Standard output, standard error and the keyboard.
#[derive(Debug)]
pub struct Ui {
    json: bool,
    /// Whether somebody watches standard error.
    watched: bool,
    signals: Signals,
}

impl Ui {
    /// Prepares for one command. The first Ctrl-C (or SIGTERM) asks the command to come to an end, the second ends
    /// the process at once.
    pub fn new(json: bool) -> Result<Self, Failure> {
        JSON.store(json, Ordering::Relaxed);
        Ok(Self { json, watched: io::stderr().is_terminal(), signals: Signals::listen()? })
    }

    /// Whether a program reads the output.
    pub fn json(&self) -> bool {
        self.json
    }

    /// Ctrl-C and its like.
    pub fn signals(&self) -> &Signals {
        &self.signals
    }

    /// Whether Ctrl-C was pressed.
    #[inline]
    pub fn is_interrupted(&self) -> bool {
        self.signals.is_interrupted()
    }

    /// [`Failure::Interrupted`] once Ctrl-C was pressed.
    #[inline]
    pub fn check_interrupt(&self) -> Result<(), Failure> {
        if self.is_interrupted() { Err(self.interruption()) } else { Ok(()) }
    }

    /// Forgets a Ctrl-C that has been heeded.
    pub fn forget_interrupt(&self) {
        self.signals.forget();
    }

    #[cold]
    fn interruption(&self) -> Failure {
        Failure::Interrupted { code: self.signals.code() }
    }

    /// Says something on standard error that the output does not hold.
    pub fn warn(&self, what: &str) {
        tell(self.json, &format!("warning: {what}"), json!({ "warning": what }));
    }

    /// Says how it goes on standard error, to people only.
    pub fn note(&self, what: &str) {
        if !self.json {
            eprintln!("{what}");
        }
    }

    /// Prints text on standard output as it is.
    pub fn print(&self, text: &str) -> Result<(), Failure> {
        io::stdout().lock().write_all(text.as_bytes()).map_err(Failure::output)
    }

    /// Prints one object for programs.
    pub fn print_json(&self, object: &impl Serialize) -> Result<(), Failure> {
        let mut line = serde_json::to_vec(object)
            .map_err(|error| Failure::new(format!("cannot write JSON: {error}; please report this")))?;
        line.push(b'\n');
        io::stdout().lock().write_all(&line).map_err(Failure::output)
    }

    /// Begins to show how far something is, if somebody watches. `total` is what `done` will come to.
    pub fn progress(&self, what: &str, total: u64) -> Progress {
        let shown = self.watched && !self.json;
        let start = Instant::now();
        Progress { what: what.into(), total, shown, start, drawn: start }
    }
}

/// One line on standard error that says how far something is; gone when dropped.
#[derive(Debug)]
pub struct Progress {
    what: String,
    total: u64,
    shown: bool,
    start: Instant,
    drawn: Instant,
}

impl Progress {
    /// Draws the line anew when it is time to: `done` of the total, and so many messages.
    pub fn update(&mut self, done: u64, messages: u64) {
        if !self.shown || self.drawn.elapsed() < PROGRESS_INTERVAL {
            return;
        }
        self.drawn = Instant::now();
        let seconds = self.start.elapsed().as_secs_f64();
        let part = if self.total == 0 { 1.0 } else { (done as f64 / self.total as f64).min(1.0) };
        let left = if part > 0.0 { seconds / part - seconds } else { 0.0 };
        let rate = rate(messages, seconds);
        let (what, percent, messages) = (&self.what, part * 100.0, thousands(messages));
        eprint!("\r\x1b[K{what}: {percent:.0} %, {messages} messages, {rate}, {left:.0} s left");
    }
}

impl Progress {
    /// Takes the line away, so that something else can be printed.
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

/// Columns side by side; those named in `right` (by number) are aligned to the right.
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

/// Messages per second in words.
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

/// Bytes in words: `1.5 MiB`.
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
    fn numbers_in_words() {
        assert_eq!([0, 999, 1000, 1_234_567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0, 1023, 1536, 5 << 30].map(bytes), ["0 B", "1023 B", "1.5 KiB", "5.0 GiB"]);
        assert_eq!(rate(3_000_000, 2.0), "1.50 M messages/s");
        assert_eq!(rate(10, 0.0), "0 messages/s");
    }

    #[test]
    fn tables_line_up() {
        let rows = [vec!["a".to_string(), "10".to_string()], vec!["longer".to_string(), "9".to_string()]];
        let text = table(&["name", "n"], &[1], &rows);
        assert_eq!(text, "name     n\na       10\nlonger   9\n");
    }
}
