//! Prints messages in any of the formats.

#[cfg(feature = "arrow")]
pub mod arrow;
mod counter;
mod csv;
mod format;
mod head;
mod json;
mod lines;
mod pipeline;
mod text;
mod value;

pub use counter::{Counter, Totals};
pub use format::Format;
use head::Head;
use lines::Lines;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::thread;
use tapedb_codec::dynamic::RecordRef;
use tapedb_engine::{Cursor, Message, Stream};
use tapedb_schema::Timestamp;
use tapedb_terminal::{Failure, Ui};

/// Bytes that are collected before they are written.
const BUFFER_BYTES: usize = 256 << 10;
/// Bytes that a pipe at standard output holds: the most that Linux gives without privileges.
const PIPE_BYTES: usize = 1 << 20;
/// Messages that one thread copies before others join it.
const ALONE_MAX: u64 = 16 << 10;
/// Threads that make lines: more of them would wait for the one that reads.
const THREADS_MAX: usize = 8;
/// Messages between two checks for Ctrl-C.
const INTERRUPT_CHECK_INTERVAL: u64 = 4096;
/// Damaged locations that are reported one by one; the others are counted.
const DAMAGE_REPORTED_MAX: u64 = 20;
/// Damaged locations after which reading stops.
const DAMAGE_MAX: u64 = 100_000;

/// Encodes messages in one format.
#[derive(Debug)]
pub enum Writer {
    /// One line or several for each message.
    Lines(Lines),
    /// See [`Format::None`].
    None(Box<Counter>),
}

impl Writer {
    /// A writer for messages of these streams; `types` are the selected record types, empty for all.
    ///
    /// # Errors
    /// When the format cannot hold the streams together.
    pub fn new(format: Format, streams: &[Stream], types: &[String]) -> Result<Self, Failure> {
        Ok(match format {
            Format::Arrow => {
                return Err(Failure::usage("arrow is a format of `tapedb read` only; use another one"));
            }
            Format::None => Self::None(Box::default()),
            _ => Self::Lines(Lines::new(format, streams, types)?),
        })
    }

    /// Appends the lines before the first message.
    pub fn header(&self, out: &mut Vec<u8>) {
        if let Self::Lines(lines) = self {
            lines.header(out);
        }
    }

    /// What makes its lines, unless it only counts.
    fn lines(&self) -> Option<&Lines> {
        match self {
            Self::Lines(lines) => Some(lines),
            Self::None(_) => None,
        }
    }

    /// Appends one message, whole or not at all.
    ///
    /// # Errors
    /// When its bytes are damaged.
    #[inline]
    pub fn write(&mut self, message: &Message<'_>, out: &mut Vec<u8>) -> Result<(), tapedb_engine::Error> {
        // Validated before any byte is printed.
        let record = message.record()?;
        match self {
            Self::Lines(lines) => lines.write(Head::of(message), record, out),
            Self::None(counter) => counter.add(message),
        }
        Ok(())
    }
}

/// Appends one message without a stream, as text unless the format is JSON.
pub fn write_plain(format: Format, symbol: &str, time: Timestamp, record: RecordRef<'_>, out: &mut Vec<u8>) {
    if format == Format::Json {
        record.write_message_json(symbol, time, out);
        out.push(b'\n');
    } else {
        text::write_line(time, symbol, record, out);
    }
}

/// A buffer in front of standard output or a file.
#[derive(Debug, Default)]
pub struct Output {
    /// Bytes not yet written.
    pub buffer: Vec<u8>,
    file: Option<(File, PathBuf)>,
}

impl Output {
    /// Output into a new file.
    ///
    /// # Errors
    /// When the file exists.
    pub fn to_file(path: &Path) -> Result<Self, Failure> {
        let file = File::create_new(path).map_err(|error| {
            let path = path.display();
            Failure::new(format!("cannot create {path}: {error}; name a file that does not exist"))
        })?;
        Ok(Self { buffer: Vec::new(), file: Some((file, path.into())) })
    }

    /// Lets a pipe at standard output hold more, so that its reader has work while lines are made. Without a pipe, or where the system
    /// refuses, nothing changes.
    fn widen_pipe(&self) {
        if self.file.is_none() {
            let _ = rustix::pipe::fcntl_setpipe_size(io::stdout(), PIPE_BYTES);
        }
    }

    /// Writes the buffer if it is full.
    #[inline]
    pub fn drain(&mut self) -> Result<(), Failure> {
        if self.buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    /// Writes the buffer.
    pub fn flush(&mut self) -> Result<(), Failure> {
        match &mut self.file {
            Some((file, path)) => file.write_all(&self.buffer).map_err(|error| {
                Failure::new(format!(
                    "cannot write {}: {error}; free disk space or name another file",
                    path.display()
                ))
            })?,
            None => {
                let mut out = io::stdout().lock();
                out.write_all(&self.buffer).and_then(|()| out.flush()).map_err(Failure::output)?;
            }
        }
        self.buffer.clear();
        Ok(())
    }
}

/// Copies messages from a cursor to the output until history ends or `limit` is reached. Where there are many and processors are at hand,
/// several threads make the lines.
pub fn copy(
    cursor: &mut Cursor,
    writer: &mut Writer,
    limit: u64,
    out: &mut Output,
    ui: &Ui,
) -> Result<(), Failure> {
    let mut damage = Damage::default();
    let threads = thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
    let alone = if threads > 1 && writer.lines().is_some() { limit.min(ALONE_MAX) } else { limit };
    let copied = copy_alone(cursor, writer, alone, out, &mut damage, ui);
    out.flush()?;
    let copied = copied?;
    match writer.lines() {
        Some(lines) if copied == alone && alone < limit => {
            pipeline::copy(cursor, lines, threads, limit - copied, out, &mut damage, ui)?;
        }
        _ => {}
    }
    ui.check_interrupt()?;
    damage.finish()
}

/// Copies in this thread; the number of messages.
fn copy_alone(
    cursor: &mut Cursor,
    writer: &mut Writer,
    limit: u64,
    out: &mut Output,
    damage: &mut Damage,
    ui: &Ui,
) -> Result<u64, Failure> {
    let mut messages = 0;
    while messages < limit {
        let written = match cursor.next() {
            Ok(Some(message)) => writer.write(&message, &mut out.buffer),
            Ok(None) => break,
            Err(error) => Err(error),
        };
        match written {
            Ok(()) => messages += 1,
            Err(error) => damage.note(&error, ui)?,
        }
        out.drain()?;
        if messages % INTERRUPT_CHECK_INTERVAL == 0 && ui.is_interrupted() {
            break;
        }
    }
    Ok(messages)
}

/// Damage found while reading. It is reported and skipped, and fails the command at its end.
#[derive(Debug, Default)]
pub struct Damage {
    locations: u64,
}

impl Damage {
    /// Reports one damaged location, which is skipped.
    ///
    /// # Errors
    /// Errors that are not damage: the server refuses the client, or cannot be reached.
    pub fn note(&mut self, error: &tapedb_engine::Error, ui: &Ui) -> Result<(), Failure> {
        if !is_damage(error) {
            return Err(Failure::new(error.to_string()));
        }
        self.locations += 1;
        if self.locations <= DAMAGE_REPORTED_MAX {
            ui.warn(&error.to_string());
        }
        if self.locations < DAMAGE_MAX { Ok(()) } else { self.finish_now() }
    }

    /// Fails if there was any.
    pub fn finish(&self) -> Result<(), Failure> {
        if self.locations == 0 { Ok(()) } else { self.finish_now() }
    }

    fn finish_now(&self) -> Result<(), Failure> {
        let locations = self.locations;
        Err(Failure::new(format!(
            "{locations} damaged locations were left out; restore the stream's files from a copy if you have one"
        )))
    }
}

/// Whether reading continues after an error: it concerns a location in the files, not the connection.
fn is_damage(error: &tapedb_engine::Error) -> bool {
    use tapedb_engine::Error::{Connection, Denied};
    !matches!(error, Denied { .. } | Connection(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tapedb_engine::{ConnectionError, Error};

    #[test]
    fn errors_of_the_connection_are_not_damage() {
        let (place, why): (Box<str>, _) = ("tape://h:7847".into(), "a login is needed".to_string());
        assert!(!is_damage(&Error::Connection(ConnectionError::Refused {
            place: place.clone(),
            why: why.clone()
        })));
        assert!(!is_damage(&Error::Connection(ConnectionError::Unreachable { place, why: why.clone() })));
        assert!(!is_damage(&Error::Denied { what: why }));
        let source = io::Error::from(io::ErrorKind::InvalidData);
        assert!(is_damage(&Error::Io { operation: "read", path: "1.log".into(), source }));
    }
}
