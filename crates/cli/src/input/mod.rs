//! Messages from lines of JSON, as `tapedb read --output json` writes them: from files, and from pipes as the lines arrive.
//!
//! `source` waits for bytes and for signals, `lines` splits bytes into lines, `bad` handles lines that are not messages, `prompt`
//! reads answers and scripts.

mod bad;
mod lines;
mod prompt;
mod source;

pub use bad::{BadLineArgs, BadLines};
pub use lines::{Lines, Piece};
pub use prompt::{ScriptLines, StandardInput, confirm, is_yes, line};
pub use source::{Arrived, Source};

use lines::LINE_BYTES_MAX;
use std::io;
use std::path::PathBuf;
use std::str;
use std::time::{Duration, Instant};
use tapedb_codec::dynamic::{BareTimes, Layouts, RecordValue};
use tapedb_schema::{TimeUnit, Timestamp};
use tapedb_terminal::{Failure, Ui};

/// Time without input after which messages are flushed.
const PAUSE: Duration = Duration::from_millis(5);

/// The source of messages.
#[derive(clap::Args, Debug)]
pub struct Input {
    /// Files or named pipes, read one after another [default: standard input].
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,

    /// Unit of times that are bare numbers since 1970: s, ms, us or ns. Without it they are nanoseconds, and times before 1973 are
    /// refused.
    #[arg(long, value_name = "UNIT")]
    pub time_unit: Option<TimeUnit>,
}

/// Receiver of messages.
pub trait Sink {
    /// Takes a message.
    fn take(&mut self, symbol: &str, time: Timestamp, record: &RecordValue) -> Result<(), Refusal>;

    /// Makes all messages taken so far visible to readers, with the durability of the stream.
    fn flush(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}

/// Why a message was refused.
#[derive(Debug)]
pub enum Refusal {
    /// The line is not a message of the stream.
    Line(String),
    /// The sink can take no message.
    Sink(Failure),
}

/// How much input has been taken.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Messages.
    pub messages: u64,
    /// Bytes of the last line, if it was incomplete when a signal arrived.
    pub cut_bytes: usize,
}

impl Input {
    /// Passes every message to the sink. Flushes when the input pauses, and at the latest `flush_interval` after a message.
    /// Ends with the input, or with a signal (see [`Ui::check_interrupt`]) after it has taken all bytes sent before the signal.
    /// Empty lines are ignored.
    ///
    /// # Errors
    /// Names a line that is not a message, unless bad lines are skipped; errors of the sink. All lines before it have been taken,
    /// but perhaps not flushed.
    pub fn read(
        &self,
        layouts: &Layouts,
        sink: &mut impl Sink,
        bad: &mut BadLines,
        flush_interval: Duration,
        ui: &Ui,
    ) -> Result<Taken, Failure> {
        let times = self.time_unit.map_or(BareTimes::PlausibleNanos, BareTimes::In);
        let mut reading = Reading {
            layouts,
            times,
            sink,
            bad,
            ui,
            flush_interval,
            unflushed: None,
            taken: Taken::default(),
        };
        if self.files.is_empty() {
            reading.source(Source::stdin()?)?;
        }
        for path in &self.files {
            if !ui.is_interrupted() {
                reading.source(Source::open(path)?)?;
            }
        }
        Ok(reading.taken)
    }
}

/// Until when to wait for more input before flushing messages of which the oldest was taken at `unflushed_since`.
pub fn flush_deadline(unflushed_since: Instant, flush_interval: Duration) -> Instant {
    let pause = Instant::now() + PAUSE;
    unflushed_since.checked_add(flush_interval).map_or(pause, |due| due.min(pause))
}

/// State while input is read.
struct Reading<'a, S> {
    layouts: &'a Layouts,
    times: BareTimes,
    sink: &'a mut S,
    bad: &'a mut BadLines,
    ui: &'a Ui,
    flush_interval: Duration,
    /// When the oldest message that is not flushed was taken.
    unflushed: Option<Instant>,
    taken: Taken,
}

/// Position of a line in the input.
struct Position<'a> {
    name: &'a str,
    line: u64,
}

impl<S: Sink> Reading<'_, S> {
    /// Reads to the end, or to a signal.
    fn source(&mut self, mut source: Source) -> Result<(), Failure> {
        self.bad.check_source(&source)?;
        let (mut lines, mut line) = (Lines::default(), 0);
        let name = source.name.clone();
        let cannot = |error: io::Error| Failure::new(format!("cannot read {name}: {error}"));
        loop {
            let deadline = self.unflushed.map(|since| flush_deadline(since, self.flush_interval));
            match source.read(lines.spare(), deadline, self.ui.signals()).map_err(cannot)? {
                Arrived::Bytes(count) => {
                    lines.filled(count);
                    self.lines(&mut lines, &name, &mut line)?;
                    self.flush_when_due()?;
                }
                Arrived::Nothing => self.flush()?,
                Arrived::Signal => {
                    self.rest(&mut source, &mut lines, &mut line)?;
                    return self.flush();
                }
                Arrived::End => {
                    self.last(&mut lines, &name, &mut line)?;
                    return self.flush();
                }
            }
        }
    }

    /// After a signal: takes the bytes that were sent before it.
    fn rest(&mut self, source: &mut Source, lines: &mut Lines, line: &mut u64) -> Result<(), Failure> {
        let (name, mut rest) = (source.name.clone(), source.waiting());
        let cannot = |error: io::Error| Failure::new(format!("cannot read {name}: {error}"));
        while let Arrived::Bytes(count) = source.read_rest(lines.spare(), &mut rest).map_err(cannot)? {
            lines.filled(count);
            self.lines(lines, &name, line)?;
        }
        // In a file, the rest of the line can be read again.
        self.taken.cut_bytes = if source.is_live { lines.pending() } else { 0 };
        Ok(())
    }

    /// Takes all complete lines.
    fn lines(&mut self, lines: &mut Lines, name: &str, line: &mut u64) -> Result<(), Failure> {
        while let Some(piece) = lines.next() {
            self.piece(piece, name, line)?;
        }
        Ok(())
    }

    fn last(&mut self, lines: &mut Lines, name: &str, line: &mut u64) -> Result<(), Failure> {
        lines.last().map_or(Ok(()), |piece| self.piece(piece, name, line))
    }

    fn piece(&mut self, piece: Piece<'_>, name: &str, line: &mut u64) -> Result<(), Failure> {
        *line += u64::from(matches!(piece, Piece::Line(_) | Piece::Beginning(_)));
        let position = Position { name, line: *line };
        match piece {
            Piece::Line(bytes) => self.line(bytes, position),
            Piece::Beginning(_) => {
                let what = format!("it is longer than {} MiB, the limit of a message", LINE_BYTES_MAX >> 20);
                self.bad.count(&position.describe(&what), self.ui)?;
                self.bad.store(piece, self.ui);
                Ok(())
            }
            piece => {
                self.bad.store(piece, self.ui);
                Ok(())
            }
        }
    }

    #[inline]
    fn line(&mut self, bytes: &[u8], position: Position<'_>) -> Result<(), Failure> {
        match self.take(bytes) {
            Ok(()) => Ok(()),
            Err(Refusal::Line(what)) => self.bad.note(&position.describe(&what), bytes, self.ui),
            Err(Refusal::Sink(Failure::Failed(what))) => Err(Failure::new(position.describe(&what))),
            Err(Refusal::Sink(failure)) => Err(failure),
        }
    }

    #[inline]
    fn take(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        let bad = |what: String| Refusal::Line(what);
        let text = str::from_utf8(bytes)
            .map_err(|error| bad(format!("it is not UTF-8 from byte {} on", error.valid_up_to() + 1)))?;
        if text.trim_ascii().is_empty() {
            return Ok(());
        }
        let read = self.layouts.message_from_json_with(text, self.times);
        let (symbol, time, record) = read.map_err(|error| bad(self.explain(error.to_string())))?;
        let symbol = symbol.ok_or_else(|| bad("it has no \"symbol\"".into()))?;
        let time = time.ok_or_else(|| bad("it has no \"timestamp\"".into()))?;
        self.sink.take(&symbol, time, &record)?;
        self.taken.messages += 1;
        if self.unflushed.is_none() {
            self.unflushed = Some(Instant::now());
        }
        Ok(())
    }

    /// Adds a hint about --time-unit where a number is not a plausible time.
    #[cold]
    fn explain(&self, what: String) -> String {
        let says = ["in nanoseconds is ", "which may count "].iter().any(|text| what.contains(text));
        let is_about_unit = self.times == BareTimes::PlausibleNanos && says;
        if is_about_unit { format!("{what}; name the unit with --time-unit s, ms, us or ns") } else { what }
    }

    fn flush_when_due(&mut self) -> Result<(), Failure> {
        match self.unflushed {
            Some(since) if since.elapsed() >= self.flush_interval => self.flush(),
            _ => Ok(()),
        }
    }

    fn flush(&mut self) -> Result<(), Failure> {
        if self.unflushed.take().is_some() { self.sink.flush() } else { Ok(()) }
    }
}

impl Position<'_> {
    #[cold]
    fn describe(&self, what: &str) -> String {
        format!("line {} of {}: {what}", self.line, self.name)
    }
}
