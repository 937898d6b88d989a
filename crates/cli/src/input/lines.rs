//! Splits bytes that arrive in chunks into lines, in bounded memory.
//!
//! Invariant: `start..end` of the buffer has arrived and was not returned yet, and has no newline before `searched`.

use std::io::BufRead;
use std::ops::Range;

/// Maximum bytes of a line: the largest message, with every byte escaped.
pub const LINE_BYTES_MAX: usize = 64 << 20;
/// Spare capacity for the next read. A pipe holds 64 KiB.
const CHUNK_BYTES: usize = 256 << 10;

/// A line, or a fragment of one that exceeds the limit.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A line without its newline; the last line may have none.
    Line(&'a [u8]),
    /// The first fragment of a line of more than [`LINE_BYTES_MAX`].
    Beginning(&'a [u8]),
    /// A middle fragment.
    More(&'a [u8]),
    /// The last fragment, without its newline.
    Rest(&'a [u8]),
}

/// Splits bytes into lines.
#[derive(Debug)]
pub struct Lines {
    buffer: Vec<u8>,
    start: usize,
    searched: usize,
    end: usize,
    /// Inside a line that exceeds the limit.
    is_long: bool,
    bytes_max: usize,
}

impl Default for Lines {
    fn default() -> Self {
        Self::of_at_most(LINE_BYTES_MAX)
    }
}

impl Lines {
    fn of_at_most(bytes_max: usize) -> Self {
        Self { buffer: Vec::new(), start: 0, searched: 0, end: 0, is_long: false, bytes_max }
    }

    /// Spare capacity for the next bytes.
    pub fn spare(&mut self) -> &mut [u8] {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.searched, self.end) = (self.searched - self.start, self.end - self.start);
            self.start = 0;
        }
        // Doubles: a long line is not moved for every chunk.
        let wanted = self.end + CHUNK_BYTES.max(self.end);
        if self.end == 0 && self.buffer.len() > CHUNK_BYTES {
            self.buffer = Vec::new();
        }
        if self.buffer.len() < self.end + CHUNK_BYTES {
            self.buffer.resize(wanted, 0);
        }
        &mut self.buffer[self.end..]
    }

    /// `count` bytes were written into the spare capacity.
    pub fn filled(&mut self, count: usize) {
        self.end += count;
    }

    /// Bytes of the incomplete line.
    pub fn pending(&self) -> usize {
        self.end - self.start
    }

    /// The next complete line, or a fragment of one that exceeds the limit; `None` if more bytes are needed.
    pub fn next(&mut self) -> Option<Piece<'_>> {
        let mut rest = &self.buffer[self.searched..self.end];
        let skipped = rest.skip_until(b'\n').unwrap_or(0);
        let found = skipped > 0 && self.buffer[self.searched + skipped - 1] == b'\n';
        self.searched += skipped;
        if found {
            let line = self.give(self.searched - 1, self.searched);
            let was_long = std::mem::take(&mut self.is_long);
            let line = &self.buffer[line];
            return Some(if was_long { Piece::Rest(line) } else { Piece::Line(line) });
        }
        if self.is_long && self.pending() > 0 {
            let piece = self.give(self.end, self.end);
            return Some(Piece::More(&self.buffer[piece]));
        }
        if self.pending() > self.bytes_max {
            self.is_long = true;
            let piece = self.give(self.end, self.end);
            return Some(Piece::Beginning(&self.buffer[piece]));
        }
        None
    }

    /// The remaining bytes at the end of the input.
    pub fn last(&mut self) -> Option<Piece<'_>> {
        let was_long = std::mem::take(&mut self.is_long);
        if self.pending() == 0 && !was_long {
            return None;
        }
        let line = self.give(self.end, self.end);
        let line = &self.buffer[line];
        Some(if was_long { Piece::Rest(line) } else { Piece::Line(line) })
    }

    /// Returns the bytes up to `end`, and continues at `next`.
    fn give(&mut self, end: usize, next: usize) -> Range<usize> {
        let start = std::mem::replace(&mut self.start, next);
        start..end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of a text that arrives in chunks of `step` bytes; `+` marks fragments of a long line.
    fn pieces(text: &[u8], step: usize, bytes_max: usize) -> Vec<String> {
        let mut lines = Lines::of_at_most(bytes_max);
        let mut found = Vec::new();
        let mut note = |piece: Piece<'_>| {
            let (mark, bytes) = match piece {
                Piece::Line(bytes) => ("", bytes),
                Piece::Beginning(bytes) => ("+", bytes),
                Piece::More(bytes) => ("++", bytes),
                Piece::Rest(bytes) => ("+++", bytes),
            };
            found.push(format!("{mark}{}", String::from_utf8_lossy(bytes)));
        };
        for chunk in text.chunks(step) {
            lines.spare()[..chunk.len()].copy_from_slice(chunk);
            lines.filled(chunk.len());
            while let Some(piece) = lines.next() {
                note(piece);
            }
        }
        if let Some(piece) = lines.last() {
            note(piece);
        }
        assert!(lines.last().is_none() && lines.pending() == 0);
        found
    }

    #[test]
    fn lines_do_not_depend_on_the_size_of_chunks() {
        let text = b"one\n\ntwo\r\nthree\nlast";
        for step in 1..=text.len() {
            assert_eq!(pieces(text, step, 100), ["one", "", "two\r", "three", "last"], "{step}");
        }
        assert_eq!(pieces(b"", 1, 100), [""; 0]);
        assert_eq!(pieces(b"\n", 1, 100), [""]);
    }

    #[test]
    fn a_line_over_the_limit_is_returned_in_fragments() {
        let text = b"a\n0123456789\nb\n";
        for step in 1..=text.len() {
            let found = pieces(text, step, 4);
            let long: String = found.iter().filter(|piece| piece.starts_with('+')).cloned().collect();
            // A line that arrives in one chunk with its newline is returned whole.
            let whole = if long.is_empty() { found[1].clone() } else { long.replace('+', "") };
            assert_eq!(whole, "0123456789", "{step}");
            assert_eq!((found[0].as_str(), found[found.len() - 1].as_str()), ("a", "b"), "{step}");
        }
        let cut = pieces(b"0123456789", 3, 4);
        assert_eq!(cut.last().unwrap(), "+++", "the end of a long line is returned at the end of the input");
    }

    #[test]
    fn memory_is_freed_after_a_long_line() {
        let mut lines = Lines::of_at_most(CHUNK_BYTES);
        for _ in 0..100 {
            let spare = lines.spare();
            spare.fill(b'x');
            let count = spare.len();
            lines.filled(count);
            while lines.next().is_some() {}
            assert!(lines.buffer.len() <= 4 * CHUNK_BYTES, "{}", lines.buffer.len());
        }
        lines.spare()[0] = b'\n';
        lines.filled(1);
        assert_eq!(lines.next(), Some(Piece::Rest(b"")));
        assert_eq!(lines.spare().len(), CHUNK_BYTES);
    }
}
