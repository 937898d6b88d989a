//! Canonical JSON, one object per line.

use super::head::Head;
use super::value::write_quoted;
use tapedb_codec::dynamic::RecordRef;

/// Prints JSON lines.
#[derive(Debug, Clone, Copy)]
pub struct JsonWriter {
    /// Whether each object begins with `"$stream"`.
    pub several: bool,
}

impl JsonWriter {
    /// Appends one line.
    pub fn write(&self, head: Head<'_>, record: RecordRef<'_>, out: &mut Vec<u8>) {
        if self.several {
            out.extend_from_slice(b"{\"$stream\":");
            write_quoted(head.stream, out);
        }
        let start = out.len();
        record.write_message_json(head.symbol, head.time, out);
        if self.several {
            // The object continues where the stream ended.
            out[start] = b',';
        }
        out.push(b'\n');
    }
}
