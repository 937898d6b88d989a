//! What clients are sent: messages, appended to a buffer.

use crate::postgres::failure::Failure;
use crate::postgres::types::Column;

/// Begins a message; its length is written by [`end`].
pub(crate) fn begin(out: &mut Vec<u8>, kind: u8) -> usize {
    out.push(kind);
    let at = out.len();
    out.extend([0; 4]);
    at
}

/// Writes the length of a message that [`begin`] began.
pub(crate) fn end(out: &mut [u8], at: usize) {
    let length = (out.len() - at) as u32;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

/// A message with a body.
pub(crate) fn message(out: &mut Vec<u8>, kind: u8, body: &[u8]) {
    let at = begin(out, kind);
    out.extend(body);
    end(out, at);
}

fn text(out: &mut Vec<u8>, text: &str) {
    // A zero would end it.
    out.extend(text.bytes().filter(|byte| *byte != 0));
    out.push(0);
}

/// An error, or a notice.
pub(crate) fn failure(out: &mut Vec<u8>, failure: &Failure) {
    let severity = if failure.is_fatal { "FATAL" } else { "ERROR" };
    fields(out, b'E', severity, failure.state, &failure.text);
}

/// A warning.
pub(crate) fn warning(out: &mut Vec<u8>, state: &str, words: &str) {
    fields(out, b'N', "WARNING", state, words);
}

fn fields(out: &mut Vec<u8>, kind: u8, severity: &str, state: &str, words: &str) {
    let at = begin(out, kind);
    for (field, value) in [(b'S', severity), (b'V', severity), (b'C', state), (b'M', words)] {
        out.push(field);
        text(out, value);
    }
    out.push(0);
    end(out, at);
}

/// A setting of the session.
pub(crate) fn parameter(out: &mut Vec<u8>, name: &str, value: &str) {
    let at = begin(out, b'S');
    text(out, name);
    text(out, value);
    end(out, at);
}

/// The key with which the client can cancel.
pub(crate) fn key(out: &mut Vec<u8>, process: i32, secret: [u8; 4]) {
    let at = begin(out, b'K');
    out.extend(process.to_be_bytes());
    out.extend(secret);
    end(out, at);
}

/// What was done.
pub(crate) fn complete(out: &mut Vec<u8>, tag: &str) {
    let at = begin(out, b'C');
    text(out, tag);
    end(out, at);
}

/// Types of parameters.
pub(crate) fn parameters(out: &mut Vec<u8>, types: &[u32]) {
    let at = begin(out, b't');
    out.extend((types.len() as u16).to_be_bytes());
    types.iter().for_each(|oid| out.extend(oid.to_be_bytes()));
    end(out, at);
}

/// The columns of rows; `formats` has one entry for each, or there are none: text.
pub(crate) fn columns(out: &mut Vec<u8>, columns: &[Column], formats: &[bool]) {
    let at = begin(out, b'T');
    out.extend((columns.len() as u16).to_be_bytes());
    for (index, column) in columns.iter().enumerate() {
        text(out, &column.name);
        // Neither table nor column.
        out.extend([0; 6]);
        out.extend(column.ty.oid().to_be_bytes());
        out.extend(column.ty.size().to_be_bytes());
        out.extend(column.ty.modifier().to_be_bytes());
        out.extend(u16::from(formats.get(index).copied().unwrap_or(false)).to_be_bytes());
    }
    end(out, at);
}

/// Rows follow as `COPY`.
pub(crate) fn copy_out(out: &mut Vec<u8>, columns: usize, is_binary: bool) {
    copy(out, b'H', columns, is_binary);
}

/// Rows of the client may follow as `COPY`.
pub(crate) fn copy_in(out: &mut Vec<u8>, columns: usize, is_binary: bool) {
    copy(out, b'G', columns, is_binary);
}

fn copy(out: &mut Vec<u8>, kind: u8, columns: usize, is_binary: bool) {
    let at = begin(out, kind);
    out.push(is_binary.into());
    out.extend((columns as u16).to_be_bytes());
    (0..columns).for_each(|_| out.extend(u16::from(is_binary).to_be_bytes()));
    end(out, at);
}
