//! Lines out of a byte stream in bounded memory.
//!
//! Always true: `start..end` of the buffer is read and not yet given out; the buffer never exceeds [`MAX_LINE_BYTES`].

use std::io::{self, Read};

/// Longest line, in bytes without its end.
pub const MAX_LINE_BYTES: usize = 4 << 20;
/// Buffer at first, and most that is read at once.
const CHUNK_BYTES: usize = 64 << 10;

/// What a text in UTF-8 may begin with.
pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// A line, or why there is none.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// A line without its end (`\n` or `\r\n`); the last may have none.
    Whole(&'a [u8]),
    /// The beginning of a line longer than [`MAX_LINE_BYTES`]; the next call continues after its end.
    TooLong(&'a [u8]),
    /// There are no more.
    End,
}

pub(super) struct Lines<R> {
    inner: R,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    at_end: bool,
    discarding: bool,
    /// Nothing was given out yet: a mark of the byte order is passed over.
    first: bool,
}

impl<R: Read> Lines<R> {
    pub(super) fn new(inner: R) -> Self {
        let buffer = vec![0; CHUNK_BYTES];
        Self { inner, buffer, start: 0, end: 0, at_end: false, discarding: false, first: true }
    }

    /// The next line.
    pub(super) fn next(&mut self) -> io::Result<Line<'_>> {
        if std::mem::take(&mut self.first) {
            self.pass_over_mark()?;
        }
        if self.discarding {
            self.discard()?;
        }
        let mut searched = 0;
        loop {
            if let Some(length) = find_newline(&self.buffer[self.start + searched..self.end]) {
                let line = self.start..self.start + searched + length;
                self.start = line.end + 1;
                return Ok(Line::Whole(without_cr(&self.buffer[line])));
            }
            searched = self.end - self.start;
            if self.at_end {
                let line = self.start..self.end;
                self.start = self.end;
                return Ok(if line.is_empty() {
                    Line::End
                } else {
                    Line::Whole(without_cr(&self.buffer[line]))
                });
            }
            if searched >= MAX_LINE_BYTES {
                self.discarding = true;
                return Ok(Line::TooLong(&self.buffer[self.start..self.end]));
            }
            self.fill()?;
        }
    }

    /// Programs under Windows begin a text in UTF-8 with a mark.
    fn pass_over_mark(&mut self) -> io::Result<()> {
        while self.end < BYTE_ORDER_MARK.len() && !self.at_end {
            self.fill()?;
        }
        if self.buffer[..self.end].starts_with(BYTE_ORDER_MARK) {
            self.start = BYTE_ORDER_MARK.len();
        }
        Ok(())
    }

    /// Drops the rest of a line that is too long, and its memory.
    fn discard(&mut self) -> io::Result<()> {
        loop {
            if let Some(length) = find_newline(&self.buffer[self.start..self.end]) {
                self.start += length + 1;
                break;
            }
            (self.start, self.end) = (0, 0);
            if self.at_end {
                break;
            }
            self.fill()?;
        }
        self.discarding = false;
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        self.buffer.truncate(CHUNK_BYTES.max(self.end));
        self.buffer.shrink_to_fit();
        Ok(())
    }

    /// Reads more bytes after the present ones; makes space first.
    fn fill(&mut self) -> io::Result<()> {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        if self.end == self.buffer.len() {
            self.buffer.resize((2 * self.end).min(MAX_LINE_BYTES), 0);
        }
        let count = loop {
            match self.inner.read(&mut self.buffer[self.end..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result?,
            }
        };
        self.at_end = count == 0;
        self.end += count;
        Ok(())
    }
}

fn without_cr(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Eight bytes at a time: a byte of `x` is zero where the text has a newline, and `x - 1 & !x` shows the first such.
fn find_newline(text: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    let (words, rest) = text.as_chunks::<8>();
    for (i, word) in words.iter().enumerate() {
        let x = u64::from_le_bytes(*word) ^ (ONES * u64::from(b'\n'));
        let zeros = x.wrapping_sub(ONES) & !x & (ONES << 7);
        if zeros != 0 {
            return Some(8 * i + zeros.trailing_zeros() as usize / 8);
        }
    }
    rest.iter().position(|&byte| byte == b'\n').map(|at| 8 * words.len() + at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(text: &[u8]) -> Vec<Vec<u8>> {
        let mut lines = Lines::new(text);
        let mut found = Vec::new();
        while let Line::Whole(line) = lines.next().unwrap() {
            found.push(line.to_vec());
        }
        found
    }

    #[test]
    fn ends_of_all_kinds() {
        assert_eq!(all(b"a\r\nb\n\nc"), [&b"a"[..], b"b", b"", b"c"]);
        assert_eq!(all(b"a\r\n"), [b"a"]);
        assert_eq!(all(b""), [b""; 0]);
        assert_eq!(all(b"\xEF\xBB\xBFa\n\xEF\xBB\xBFb"), [&b"a"[..], b"\xEF\xBB\xBFb"]);
        assert_eq!(all(b"\xEF\xBB"), [b"\xEF\xBB"]);
    }

    #[test]
    fn a_line_of_100_mb_is_passed_over_in_bounded_memory() {
        let endless = io::repeat(b'x').take(100_000_000);
        let mut lines = Lines::new(b"first\n".chain(endless).chain(&b"\nlast"[..]));
        assert_eq!(lines.next().unwrap(), Line::Whole(b"first"));
        assert!(matches!(lines.next().unwrap(), Line::TooLong(_)));
        assert_eq!(lines.buffer.len(), MAX_LINE_BYTES);
        assert_eq!(lines.next().unwrap(), Line::Whole(b"last"));
        assert!(lines.buffer.len() <= CHUNK_BYTES);
        assert_eq!(lines.next().unwrap(), Line::End);
    }

    proptest! {
        #[test]
        fn newlines_are_found_where_they_are(text in prop::collection::vec(prop_oneof![Just(b'\n'), 0u8..=255], 0..60)) {
            prop_assert_eq!(find_newline(&text), text.iter().position(|&byte| byte == b'\n'));
        }
    }
}
