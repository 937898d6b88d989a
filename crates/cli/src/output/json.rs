//! Canonical JSON, one object per line.

use super::head::Head;
use super::value::write_quoted;
use tapedb_codec::dynamic::RecordRef;
use tapedb_schema::TimeText;

/// Prints JSON lines.
#[derive(Debug, Clone)]
pub struct JsonWriter {
    /// Whether each object begins with `"$stream"`.
    several: bool,
    times: TimeText,
}

impl JsonWriter {
    /// For messages of one stream or of several.
    pub fn new(several: bool) -> Self {
        Self { several, times: TimeText::default() }
    }

    /// Appends one line.
    pub fn write(&mut self, head: Head<'_>, record: RecordRef<'_>, out: &mut Vec<u8>) {
        if self.several {
            out.extend_from_slice(b"{\"$stream\":");
            write_quoted(head.stream, out);
        }
        let start = out.len();
        record.write_next_message_json(head.symbol, head.time, &mut self.times, out);
        if self.several {
            // The object continues where the stream ended.
            out[start] = b',';
        }
        out.push(b'\n');
    }
}
