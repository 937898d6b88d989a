//! Canonical JSON, one object per line.

use super::value::write_quoted;
use tapedb_codec::dynamic::RecordRef;
use tapedb_engine::Message;

/// Prints JSON lines.
#[derive(Debug)]
pub struct JsonWriter {
    /// Whether each object begins with `"$stream"`.
    pub several: bool,
}

impl JsonWriter {
    /// Appends one line.
    pub fn write(&self, message: &Message<'_>, record: RecordRef<'_>, out: &mut Vec<u8>) {
        if self.several {
            out.extend_from_slice(b"{\"$stream\":");
            write_quoted(message.stream_name(), out);
        }
        let start = out.len();
        record.write_message_json(message.symbol(), message.time(), out);
        if self.several {
            // The object continues where the stream ended.
            out[start] = b',';
        }
        out.push(b'\n');
    }
}
