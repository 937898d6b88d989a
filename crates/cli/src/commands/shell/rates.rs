//! `tptime` and `tptimea`: measure reading of the selected messages.

use super::settings::Settings;
use std::thread;
use std::time::Instant;
use tapedb_engine::{CursorBuilder, Database};
use tapedb_terminal::{Failure, Ui, ui::per_second};

/// Messages between two checks for Ctrl-C.
const INTERRUPT_CHECK_INTERVAL: u64 = 1 << 16;

/// Reads with several readers at once, each all messages; prints a line for each if there are several, then one for all.
pub fn measure(db: &Database, settings: &Settings, readers: u32, ui: &Ui) -> Result<String, Failure> {
    let cursors: Vec<CursorBuilder> = (0..readers).map(|_| settings.cursor(db)).collect::<Result<_, _>>()?;
    let started = Instant::now();
    let read: Vec<Result<(u64, f64), Failure>> = thread::scope(|scope| {
        let threads: Vec<_> = cursors.into_iter().map(|cursor| scope.spawn(|| read(cursor, ui))).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.map(|read| read.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    let seconds = started.elapsed().as_secs_f64();
    let (mut text, mut messages) = (String::new(), 0);
    for (number, read) in read.into_iter().enumerate() {
        let (found, seconds) = read?;
        messages += found;
        if readers > 1 {
            text.push_str(&format!("reader {}: {}\n", number + 1, line(found, seconds)));
        }
    }
    text.push_str(&line(messages, seconds));
    text.push('\n');
    Ok(text)
}

/// The format of TimeBase's shell.
fn line(messages: u64, seconds: f64) -> String {
    format!("{messages} messages in {seconds:.3} s; speed: {:.0} msg/s", per_second(messages, seconds))
}

fn read(cursor: CursorBuilder, ui: &Ui) -> Result<(u64, f64), Failure> {
    let started = Instant::now();
    let mut cursor = cursor.open()?;
    let mut messages = 0_u64;
    while cursor.next()?.is_some() {
        messages += 1;
        if messages.is_multiple_of(INTERRUPT_CHECK_INTERVAL) {
            ui.check_interrupt()?;
        }
    }
    Ok((messages, started.elapsed().as_secs_f64()))
}
