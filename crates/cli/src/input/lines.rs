//! Lines of bytes that come in pieces, in bounded memory.
//!
//! Always true: `start..end` of the buffer has come and not been given out, and has no newline before `searched`.

use std::io::BufRead;
use std::ops::Range;

/// No line is longer: a message of the largest size, with every byte escaped.
pub const LINE_BYTES_MAX: usize = 64 << 20;
/// Room for bytes to come. A pipe has 64 KiB.
const CHUNK_BYTES: usize = 256 << 10;

/// A line, or a piece of one that is too long to be held.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// A line without its end; the last may have had none.
    Line(&'a [u8]),
    /// The beginning of a line of more than [`LINE_BYTES_MAX`].
    Beginning(&'a [u8]),
    /// More of it.
    More(&'a [u8]),
    /// The rest of it, without its end.
    Rest(&'a [u8]),
}

/// Cuts bytes into lines.
#[derive(Debug)]
pub struct Lines {
    buffer: Vec<u8>,
    start: usize,
    searched: usize,
    end: usize,
    /// Within a line that is too long.
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

    /// Where the next bytes go.
    pub fn room(&mut self) -> &mut [u8] {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.searched, self.end) = (self.searched - self.start, self.end - self.start);
            self.start = 0;
        }
        // As much again as there is: a long line is not moved for every chunk of it.
        let wanted = self.end + CHUNK_BYTES.max(self.end);
        if self.end == 0 && self.buffer.len() > CHUNK_BYTES {
            self.buffer = Vec::new();
        }
        if self.buffer.len() < self.end + CHUNK_BYTES {
            self.buffer.resize(wanted, 0);
        }
        &mut self.buffer[self.end..]
    }

    /// So many bytes have come.
    pub fn filled(&mut self, count: usize) {
        self.end += count;
    }

    /// Bytes of a line that has not ended.
    pub fn pending(&self) -> usize {
        self.end - self.start
    }

    /// The next line that has ended, or a piece of one that is too long; `None`: more has to come.
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

    /// What is left when nothing more comes.
    pub fn last(&mut self) -> Option<Piece<'_>> {
        let was_long = std::mem::take(&mut self.is_long);
        if self.pending() == 0 && !was_long {
            return None;
        }
        let line = self.give(self.end, self.end);
        let line = &self.buffer[line];
        Some(if was_long { Piece::Rest(line) } else { Piece::Line(line) })
    }

    /// Gives what there is up to `end`, and goes on at `next`.
    fn give(&mut self, end: usize, next: usize) -> Range<usize> {
        let start = std::mem::replace(&mut self.start, next);
        start..end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pieces of bytes that come so many at a time; `+` marks those of a long line.
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
            lines.room()[..chunk.len()].copy_from_slice(chunk);
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
    fn lines_are_the_same_however_they_come() {
        let text = b"one\n\ntwo\r\nthree\nlast";
        for step in 1..=text.len() {
            assert_eq!(pieces(text, step, 100), ["one", "", "two\r", "three", "last"], "{step}");
        }
        assert_eq!(pieces(b"", 1, 100), [""; 0]);
        assert_eq!(pieces(b"\n", 1, 100), [""]);
    }

    #[test]
    fn a_line_that_is_too_long_comes_in_pieces() {
        let text = b"a\n0123456789\nb\n";
        for step in 1..=text.len() {
            let found = pieces(text, step, 4);
            let long: String = found.iter().filter(|piece| piece.starts_with('+')).cloned().collect();
            // What comes at once with its end is held anyway.
            let whole = if long.is_empty() { found[1].clone() } else { long.replace('+', "") };
            assert_eq!(whole, "0123456789", "{step}");
            assert_eq!((found[0].as_str(), found[found.len() - 1].as_str()), ("a", "b"), "{step}");
        }
        let cut = pieces(b"0123456789", 3, 4);
        assert_eq!(cut.last().unwrap(), "+++", "the end of a long line is told at the end of the input");
    }

    #[test]
    fn memory_is_given_back_after_a_long_line() {
        let mut lines = Lines::of_at_most(CHUNK_BYTES);
        for _ in 0..100 {
            let room = lines.room();
            room.fill(b'x');
            let count = room.len();
            lines.filled(count);
            while lines.next().is_some() {}
            assert!(lines.buffer.len() <= 4 * CHUNK_BYTES, "{}", lines.buffer.len());
        }
        lines.room()[0] = b'\n';
        lines.filled(1);
        assert_eq!(lines.next(), Some(Piece::Rest(b"")));
        assert_eq!(lines.room().len(), CHUNK_BYTES);
    }
}
