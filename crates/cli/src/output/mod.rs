//! The formats in which messages are printed.

#[cfg(feature = "arrow")]
pub mod arrow;
mod counter;
mod csv;
mod json;
mod text;
mod value;

use clap::ValueEnum;
pub use counter::{Counter, Totals};
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use tapedb_codec::dynamic::RecordRef;
use tapedb_engine::{Cursor, Message, Stream};
use tapedb_schema::Timestamp;
use tapedb_terminal::{Failure, Ui};

/// Bytes that are collected before they are written.
const BUFFER_BYTES: usize = 256 << 10;
/// Messages between two checks for Ctrl-C.
const INTERRUPT_CHECK_INTERVAL: u64 = 4096;
/// Damaged locations that are reported one by one; the others are counted.
const DAMAGE_REPORTED_MAX: u64 = 20;
/// Damaged locations after which reading stops.
const DAMAGE_MAX: u64 = 100_000;

/// How messages are printed.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A line for people: time, symbol, type, fields
    Text,
    /// A canonical JSON object per line; "$stream" comes first when several streams are read
    Json,
    /// Columns of one record type; one row for each item of its array
    Csv,
    /// An Arrow IPC stream of one record type, for example for Polars or pyarrow; only of `tapedb read`
    #[value(hide = cfg!(not(feature = "arrow")))]
    Arrow,
    /// Nothing: validate, count and checksum
    None,
}

impl Format {
    /// The format chosen by the command's own option or by `--json`.
    pub fn chosen(own: Option<Self>, ui: &Ui) -> Self {
        own.unwrap_or(if ui.json() { Self::Json } else { Self::Text })
    }

    /// The format that a file's extension implies.
    pub fn of_name(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "csv" => Some(Self::Csv),
            "json" | "jsonl" | "ndjson" => Some(Self::Json),
            "txt" => Some(Self::Text),
            "arrow" | "arrows" => Some(Self::Arrow),
            _ => None,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "text",
            Self::Json => "json",
            Self::Csv => "csv",
            Self::Arrow => "arrow",
            Self::None => "none",
        })
    }
}

/// Encodes messages in one format.
#[derive(Debug)]
pub enum Writer {
    /// See [`Format::Text`].
    Text(text::TextWriter),
    /// See [`Format::Json`].
    Json(json::JsonWriter),
    /// See [`Format::Csv`].
    Csv(Box<csv::CsvWriter>),
    /// See [`Format::None`].
    None(Box<Counter>),
}

impl Writer {
    /// A writer for messages of these streams; `types` are the selected record types, empty for all.
    ///
    /// # Errors
    /// When the format cannot hold the streams together.
    pub fn new(format: Format, streams: &[Stream], types: &[String]) -> Result<Self, Failure> {
        let several = streams.len() > 1;
        Ok(match format {
            Format::Text => Self::Text(text::TextWriter { several }),
            Format::Json => Self::Json(json::JsonWriter { several }),
            Format::Csv => Self::Csv(Box::new(csv::CsvWriter::new(streams, types)?)),
            Format::Arrow => {
                return Err(Failure::usage("arrow is a format of `tapedb read` only; use another one"));
            }
            Format::None => Self::None(Box::default()),
        })
    }

    /// Appends the lines before the first message.
    pub fn header(&self, out: &mut Vec<u8>) {
        if let Self::Csv(csv) = self {
            csv.header(out);
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
            Self::Text(text) => text.write(message, record, out),
            Self::Json(json) => json.write(message, record, out),
            Self::Csv(csv) => csv.write(message, record, out),
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

/// Copies messages from a cursor to the output until history ends or `limit` is reached.
pub fn copy(
    cursor: &mut Cursor,
    writer: &mut Writer,
    limit: u64,
    out: &mut Output,
    ui: &Ui,
) -> Result<(), Failure> {
    let mut damage = Damage::default();
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
    out.flush()?;
    ui.check_interrupt()?;
    damage.finish()
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
