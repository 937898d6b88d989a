//! A line of text: time, symbol, type, then `field=value`; arrays in `[]`, records in `{}`, nulls left out.

use super::head::Head;
use super::value::{write_plain, write_quoted};
use tapedb_codec::dynamic::{RecordRef, ValueRef};
use tapedb_schema::Timestamp;

/// Prints lines of text.
#[derive(Debug, Clone, Copy)]
pub struct TextWriter {
    /// Whether each line begins with the stream.
    pub several: bool,
}

impl TextWriter {
    /// Appends one line.
    pub fn write(&self, head: Head<'_>, record: RecordRef<'_>, out: &mut Vec<u8>) {
        if self.several {
            write_word(head.stream, out);
            out.push(b' ');
        }
        write_line(head.time, head.symbol, record, out);
    }
}

/// Appends one line.
pub fn write_line(time: Timestamp, symbol: &str, record: RecordRef<'_>, out: &mut Vec<u8>) {
    time.write_to(out);
    out.push(b' ');
    write_word(symbol, out);
    out.push(b' ');
    out.extend_from_slice(record.layout().name.as_bytes());
    write_fields(record, true, out);
    out.push(b'\n');
}

/// Appends `a=1 b=2`; `leading`: with a space before the first.
fn write_fields(record: RecordRef<'_>, leading: bool, out: &mut Vec<u8>) {
    let mut space = leading;
    for (field, value) in record.fields().filter(|(_, value)| !value.is_null()) {
        if space {
            out.push(b' ');
        }
        space = true;
        out.extend_from_slice(field.name.as_bytes());
        out.push(b'=');
        write_value(value, out);
    }
}

fn write_value(value: ValueRef<'_>, out: &mut Vec<u8>) {
    match value {
        ValueRef::Null => out.push(b'-'),
        ValueRef::Record(record) => {
            out.extend_from_slice(record.layout().name.as_bytes());
            out.push(b'{');
            write_fields(record, false, out);
            out.push(b'}');
        }
        ValueRef::Array(items) => {
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.extend_from_slice(b", ");
                }
                write_value(item, out);
            }
            out.push(b']');
        }
        ValueRef::Text(text) => write_word(text, out),
        ValueRef::Ascii(text) => write_word(text.as_str(), out),
        ValueRef::Char(letter) => write_word(letter.encode_utf8(&mut [0; 4]), out),
        plain => write_plain(plain, out),
    }
}

/// A text without quotes if that is unambiguous, else in quotes.
fn write_word(text: &str, out: &mut Vec<u8>) {
    let odd = |letter: char| letter.is_whitespace() || letter.is_control() || "\"=,[]{}".contains(letter);
    if text.is_empty() || text.contains(odd) {
        write_quoted(text, out);
    } else {
        out.extend_from_slice(text.as_bytes());
    }
}
