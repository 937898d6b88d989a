//! Messages as lines, in any of the formats that have lines.

use super::csv::CsvWriter;
use super::format::Format;
use super::head::Head;
use super::json::JsonWriter;
use super::text::TextWriter;
use tapedb_codec::dynamic::RecordRef;
use tapedb_engine::Stream;
use tapedb_terminal::Failure;

/// Makes lines of messages. Each thread has one of its own.
#[derive(Debug, Clone)]
pub enum Lines {
    /// See [`Format::Text`].
    Text(TextWriter),
    /// See [`Format::Json`].
    Json(JsonWriter),
    /// See [`Format::Csv`].
    Csv(Box<CsvWriter>),
}

impl Lines {
    /// Lines of messages of these streams; `types` are the selected record types, empty for all.
    ///
    /// # Errors
    /// When the format cannot hold the streams together.
    pub fn new(format: Format, streams: &[Stream], types: &[String]) -> Result<Self, Failure> {
        let several = streams.len() > 1;
        Ok(match format {
            Format::Json => Self::Json(JsonWriter::new(several)),
            Format::Csv => Self::Csv(Box::new(CsvWriter::new(streams, types)?)),
            _ => Self::Text(TextWriter { several }),
        })
    }

    /// Appends the lines before the first message.
    pub fn header(&self, out: &mut Vec<u8>) {
        if let Self::Csv(csv) = self {
            csv.header(out);
        }
    }

    /// Appends the lines of one message.
    #[inline]
    pub fn write(&mut self, head: Head<'_>, record: RecordRef<'_>, out: &mut Vec<u8>) {
        match self {
            Self::Text(text) => text.write(head, record, out),
            Self::Json(json) => json.write(head, record, out),
            Self::Csv(csv) => csv.write(head, record, out),
        }
    }
}
