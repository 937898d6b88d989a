//! Messages from lines of JSON, as `tapedb read --output json` writes them: out of files, and out of pipes as they come.
//!
//! `source` waits for bytes and for signals, `lines` cuts them into lines, `bad` is about lines that are no messages, `prompt`
//! about what people type.

mod bad;
mod lines;
mod prompt;
mod source;

pub use bad::{BadLineArgs, BadLines};
pub use prompt::{ScriptLines, StandardInput, is_yes, line};

use crate::failure::Failure;
use crate::ui::Ui;
use lines::{LINE_BYTES_MAX, Lines, Piece};
use source::{Arrived, Source};
use std::io;
use std::path::PathBuf;
use std::str;
use std::time::{Duration, Instant};
use tapedb_codec::dynamic::{BareTimes, Layouts, RecordValue};
use tapedb_schema::{TimeUnit, Timestamp};

/// Input that has nothing for so long pauses: what was taken is flushed.
const PAUSE: Duration = Duration::from_millis(5);

/// Where messages come from.
#[derive(clap::Args, Debug)]
pub struct Input {
    /// Files of JSON lines, or named pipes, one after the other [default: standard input].
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// What bare numbers of times count since 1970: s, ms, us or ns. Without it they are nanoseconds, and those that would be
    /// before 1973 are refused.
    #[arg(long, value_name = "UNIT")]
    time_unit: Option<TimeUnit>,
}

/// What takes messages.
pub trait Sink {
    /// Takes a message.
    fn take(&mut self, symbol: &str, time: Timestamp, record: &RecordValue) -> Result<(), Refusal>;

    /// Makes everything that was taken seen, and as durable as it will be.
    fn flush(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}

/// Why a message was not taken.
#[derive(Debug)]
pub enum Refusal {
    /// The line is no message that could be taken.
    Line(String),
    /// Nothing can be taken.
    Sink(Failure),
}

/// How far input has been read.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Messages.
    pub messages: u64,
    /// Bytes of a last line that had not ended when a signal came.
    pub cut_bytes: usize,
}

impl Input {
    /// Gives every message to the sink, and flushes it whenever the input pauses, and at the latest so long after a message
    /// came. Ends with the input, or with a signal (see [`Ui::check_interrupt`]) when all that had been sent by then has been
    /// taken. Empty lines are no messages.
    ///
    /// # Errors
    /// For a line that is no message, if such are not skipped: it is named; and what keeps the sink from taking more. All
    /// before it has been taken, and not all of it been flushed.
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

/// Input being read.
struct Reading<'a, S> {
    layouts: &'a Layouts,
    times: BareTimes,
    sink: &'a mut S,
    bad: &'a mut BadLines,
    ui: &'a Ui,
    flush_interval: Duration,
    /// Since when there are messages that have not been flushed.
    unflushed: Option<Instant>,
    taken: Taken,
}

/// Where in the input a line is.
struct Place<'a> {
    name: &'a str,
    line: u64,
}

impl<S: Sink> Reading<'_, S> {
    /// Reads to the end, or to a signal.
    fn source(&mut self, mut source: Source) -> Result<(), Failure> {
        self.bad.check_source(&source)?;
        let (mut lines, mut line) = (Lines::default(), 0);
        let name = source.name.clone();
        let cannot = |error: io::Error| Failure::new(format!("cannot read on in {name}: {error}"));
        loop {
            let deadline = self.unflushed.map(|since| self.deadline(since));
            match source.read(lines.room(), deadline, self.ui.signals()).map_err(cannot)? {
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

    /// Until when more is waited for before what there is, is flushed.
    fn deadline(&self, unflushed_since: Instant) -> Instant {
        let pause = Instant::now() + PAUSE;
        unflushed_since.checked_add(self.flush_interval).map_or(pause, |due| due.min(pause))
    }

    /// After a signal: takes what had been sent by then.
    fn rest(&mut self, source: &mut Source, lines: &mut Lines, line: &mut u64) -> Result<(), Failure> {
        let (name, mut rest) = (source.name.clone(), source.waiting());
        let cannot = |error: io::Error| Failure::new(format!("cannot read on in {name}: {error}"));
        while let Arrived::Bytes(count) = source.read_rest(lines.room(), &mut rest).map_err(cannot)? {
            lines.filled(count);
            self.lines(lines, &name, line)?;
        }
        // Of a file, the rest of the line is still there.
        self.taken.cut_bytes = if source.is_live { lines.pending() } else { 0 };
        Ok(())
    }

    /// Takes all lines that have ended.
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
        let place = Place { name, line: *line };
        match piece {
            Piece::Line(bytes) => self.line(bytes, place),
            Piece::Beginning(_) => {
                let what = format!("it is longer than {} MiB, which no message is", LINE_BYTES_MAX >> 20);
                self.bad.count(&place.tell(&what), self.ui)?;
                self.bad.keep(piece, self.ui);
                Ok(())
            }
            piece => {
                self.bad.keep(piece, self.ui);
                Ok(())
            }
        }
    }

    #[inline]
    fn line(&mut self, bytes: &[u8], place: Place<'_>) -> Result<(), Failure> {
        match self.take(bytes) {
            Ok(()) => Ok(()),
            Err(Refusal::Line(what)) => self.bad.note(&place.tell(&what), bytes, self.ui),
            Err(Refusal::Sink(Failure::Failed(what))) => Err(Failure::new(place.tell(&what))),
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

    /// Names the option where a number was no time.
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

impl Place<'_> {
    #[cold]
    fn tell(&self, what: &str) -> String {
        format!("line {} of {}: {what}", self.line, self.name)
    }
}
