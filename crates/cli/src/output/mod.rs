//! Messages in the forms in which they are printed.

mod counter;
mod csv;
mod json;
mod text;
mod value;

use crate::failure::Failure;
use crate::ui::Ui;
use clap::ValueEnum;
pub use counter::{Counter, Totals};
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use tapedb_codec::dynamic::RecordRef;
use tapedb_engine::{Cursor, Message, Stream};
use tapedb_schema::Timestamp;

/// Bytes that are collected before they are written.
const BUFFER_BYTES: usize = 256 << 10;
/// Messages between two looks at Ctrl-C.
const INTERRUPT_CHECK_INTERVAL: u64 = 4096;
/// Damaged places that are told one by one; the others are counted.
const DAMAGE_TOLD_MAX: u64 = 20;
/// Damaged places after which reading is given up.
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
    /// Nothing: validate, count and checksum
    None,
}

impl Format {
    /// What was asked for, by the command's own option or by `--json`.
    pub fn chosen(own: Option<Self>, ui: &Ui) -> Self {
        own.unwrap_or(if ui.json() { Self::Json } else { Self::Text })
    }

    /// What the end of a file's name says.
    pub fn of_name(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "csv" => Some(Self::Csv),
            "json" | "jsonl" | "ndjson" => Some(Self::Json),
            "txt" => Some(Self::Text),
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
            Self::None => "none",
        })
    }
}

/// Turns messages into bytes of one format.
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
    /// Prepares for messages of these streams; `types` are the record types wanted, none for all.
    ///
    /// # Errors
    /// When the streams do not go together in this format.
    pub fn new(format: Format, streams: &[Stream], types: &[String]) -> Result<Self, Failure> {
        let several = streams.len() > 1;
        Ok(match format {
            Format::Text => Self::Text(text::TextWriter { several }),
            Format::Json => Self::Json(json::JsonWriter { several }),
            Format::Csv => Self::Csv(Box::new(csv::CsvWriter::new(streams, types)?)),
            Format::None => Self::None(Box::default()),
        })
    }

    /// What comes before the first message.
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
        // Validated before anything is printed.
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

/// Appends one message that is no stream's, as text unless JSON is asked for.
pub fn write_plain(format: Format, symbol: &str, time: Timestamp, record: RecordRef<'_>, out: &mut Vec<u8>) {
    if format == Format::Json {
        record.write_message_json(symbol, time, out);
        out.push(b'\n');
    } else {
        text::write_line(time, symbol, record, out);
    }
}

/// Collects bytes for standard output, or for a file.
#[derive(Debug, Default)]
pub struct Output {
    /// Bytes not yet written.
    pub buffer: Vec<u8>,
    file: Option<(File, PathBuf)>,
}

impl Output {
    /// Output into a file, which must not be there yet.
    pub fn to_file(path: &Path) -> Result<Self, Failure> {
        let file = File::create_new(path).map_err(|error| {
            let path = path.display();
            Failure::new(format!("cannot make {path}: {error}; name a file that is not there yet"))
        })?;
        Ok(Self { buffer: Vec::new(), file: Some((file, path.into())) })
    }

    /// Writes if enough has come together.
    #[inline]
    pub fn drain(&mut self) -> Result<(), Failure> {
        if self.buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    /// Writes what there is.
    pub fn flush(&mut self) -> Result<(), Failure> {
        match &mut self.file {
            Some((file, path)) => file.write_all(&self.buffer).map_err(|error| {
                Failure::new(format!(
                    "cannot write {}: {error}; make room or name another file",
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

/// Damage met while reading: told, left out, and failing the command at its end.
#[derive(Debug, Default)]
pub struct Damage {
    places: u64,
}

impl Damage {
    /// Tells of one damaged place, which is left out.
    ///
    /// # Errors
    /// What is no damage: a server that does not let the program in any more, or cannot be reached.
    pub fn note(&mut self, error: &tapedb_engine::Error, ui: &Ui) -> Result<(), Failure> {
        if !is_left_out(error) {
            return Err(Failure::new(error.to_string()));
        }
        self.places += 1;
        if self.places <= DAMAGE_TOLD_MAX {
            ui.warn(&error.to_string());
        }
        if self.places < DAMAGE_MAX { Ok(()) } else { self.finish_now() }
    }

    /// Fails if there was any.
    pub fn finish(&self) -> Result<(), Failure> {
        if self.places == 0 { Ok(()) } else { self.finish_now() }
    }

    fn finish_now(&self) -> Result<(), Failure> {
        let places = self.places;
        Err(Failure::new(format!(
            "{places} damaged places were left out; restore the stream's files from a copy if you have one"
        )))
    }
}

/// Whether reading goes on behind an error: it is about a place, and not about who reads.
fn is_left_out(error: &tapedb_engine::Error) -> bool {
    use tapedb_engine::Error::{Denied, Disconnected, Protocol, Refused, Unreachable};
    !matches!(
        error,
        Denied { .. } | Disconnected { .. } | Protocol { .. } | Refused { .. } | Unreachable { .. }
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use tapedb_engine::Error;

    #[test]
    fn who_is_not_let_in_has_found_no_damage() {
        let (place, why) = ("tape://h:7847".to_string(), "a login is needed".to_string());
        assert!(!is_left_out(&Error::Refused { place: place.clone(), why: why.clone() }));
        assert!(!is_left_out(&Error::Unreachable { place, why: why.clone() }));
        assert!(!is_left_out(&Error::Denied { what: why }));
        let source = io::Error::from(io::ErrorKind::InvalidData);
        assert!(is_left_out(&Error::Io { operation: "read", path: "1.log".into(), source }));
    }
}
