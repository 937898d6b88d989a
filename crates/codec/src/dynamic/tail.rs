//! The end of a vector that text is appended to, in pieces of a few bytes each.
//!
//! Appending to a vector costs a call for each piece. Here pieces are copied with constant lengths into spare bytes, and what
//! is too much is overwritten by the next piece.

use super::names::Name;
use tapedb_schema::{Decimal64, TEXT_MAX, TimeOfDay, TimeText, Timestamp, format_integer};

/// Always true: `at` is not beyond the vector's length, and what lies behind it is spare.
pub(super) struct Tail<'a> {
    bytes: &'a mut Vec<u8>,
    at: usize,
    times: &'a mut TimeText,
}

/// Spare bytes that are made at once.
const SPARE: usize = 512;

impl<'a> Tail<'a> {
    /// Behind what `bytes` holds.
    pub fn of(bytes: &'a mut Vec<u8>, times: &'a mut TimeText) -> Self {
        let at = bytes.len();
        Self { bytes, at, times }
    }

    /// Cuts off what is spare.
    pub fn finish(self) {
        self.bytes.truncate(self.at);
    }

    /// Bytes so far.
    #[inline]
    pub fn len(&self) -> usize {
        self.at
    }

    /// Replaces a byte that has been written.
    #[inline]
    pub fn replace(&mut self, at: usize, byte: u8) {
        self.bytes[at] = byte;
    }

    /// The next `N` bytes.
    #[inline(always)]
    fn spare<const N: usize>(&mut self) -> &mut [u8; N] {
        spare(self.bytes, self.at)
    }

    #[inline(always)]
    pub fn byte(&mut self, byte: u8) {
        *self.spare::<1>() = [byte];
        self.at += 1;
    }

    #[inline(always)]
    pub fn name(&mut self, name: &Name) {
        if name.length > Name::SHORT {
            return self.text(&name.long);
        }
        *self.spare() = name.short;
        self.at += name.length;
    }

    /// Bytes as they are.
    #[inline]
    pub fn text(&mut self, text: &[u8]) {
        if self.bytes.len() - self.at < text.len() {
            grow(self.bytes, self.at, text.len());
        }
        self.bytes[self.at..self.at + text.len()].copy_from_slice(text);
        self.at += text.len();
    }

    /// An ASCII text of `N` bytes in quotes, zeros at its end left out, if JSON takes it as it is.
    #[inline]
    pub fn short_text<const N: usize>(&mut self, padded: &[u8; N]) -> bool {
        let length = N - padded.iter().rev().take_while(|byte| **byte == 0).count();
        let is_plain =
            padded.iter().fold(true, |all, byte| all & (is_plain(*byte) & byte.is_ascii() | (*byte == 0)));
        if !is_plain || padded[..length].contains(&0) {
            return false;
        }
        self.byte(b'"');
        *self.spare() = *padded;
        self.at += length;
        self.byte(b'"');
        true
    }

    #[inline(always)]
    pub fn decimal(&mut self, value: Decimal64) {
        self.quoted(|_, text| value.format(text));
    }

    #[inline(always)]
    pub fn timestamp(&mut self, value: Timestamp) {
        self.quoted(|times, text| times.format(value, text));
    }

    #[inline]
    pub fn time_of_day(&mut self, value: TimeOfDay) {
        self.quoted(|_, text| value.format(text));
    }

    /// A text in quotes, which `format` writes and counts.
    #[inline(always)]
    fn quoted(&mut self, format: impl FnOnce(&mut TimeText, &mut [u8; TEXT_MAX]) -> usize) {
        let room = spare::<{ TEXT_MAX + 2 }>(self.bytes, self.at);
        room[0] = b'"';
        let text = room[1..].first_chunk_mut().expect("the room is for two quotes more");
        let length = format(self.times, text);
        room[1 + length] = b'"';
        self.at += length + 2;
    }

    #[inline(always)]
    pub fn integer(&mut self, value: i64) {
        if value < 0 {
            self.byte(b'-');
        }
        self.number(value.unsigned_abs());
    }

    #[inline(always)]
    pub fn number(&mut self, value: u64) {
        self.at += format_integer(value, self.spare());
    }
}

/// The `N` bytes of `bytes` from `at` on.
#[inline(always)]
fn spare<const N: usize>(bytes: &mut Vec<u8>, at: usize) -> &mut [u8; N] {
    if bytes.len() - at < N {
        grow(bytes, at, N);
    }
    bytes[at..].first_chunk_mut().expect("there are as many spare bytes")
}

#[cold]
fn grow(bytes: &mut Vec<u8>, at: usize, need: usize) {
    bytes.resize(at + need + SPARE, 0);
}

/// Whether a byte stands for itself in a JSON string.
#[inline(always)]
pub(super) fn is_plain(byte: u8) -> bool {
    byte >= 0x20 && byte != b'"' && byte != b'\\'
}
