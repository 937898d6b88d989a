//! The rows of `COPY … FROM`, cut out of bytes that arrive in pieces: text, csv, binary.

use crate::postgres::failure::Failure;
use crate::postgres::statement::{CopyFormat, CopyOptions};
use std::ops::Range;

/// Bytes of one row.
const ROW_BYTES_MAX: usize = 64 << 20;
const SIGNATURE: &[u8; 11] = b"PGCOPY\n\xff\r\n\0";

/// What [`CopyRows::next`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Row {
    /// A row: see [`CopyRows::fields`].
    Fields,
    /// More bytes are needed.
    Waiting,
    End,
}

/// The fields of a row.
pub(crate) struct Fields<'a, I: Iterator<Item = Option<&'a [u8]>>> {
    /// The line, or in binary the row, from 1.
    pub line: u64,
    pub is_binary: bool,
    pub values: I,
}

/// Cuts rows out of bytes.
#[derive(Debug)]
pub(crate) struct CopyRows {
    options: CopyOptions,
    columns: usize,
    input: Vec<u8>,
    used: usize,
    /// How far the row that begins at `used` was looked through, and whether that is within quotes.
    seen: usize,
    is_quoted: bool,
    /// The line that begins at `used`, from 1.
    line: u64,
    is_started: bool,
    is_over: bool,
    /// The values of the last row without their escapes, and where each lies; `None`: null.
    values: Vec<u8>,
    places: Vec<Option<Range<usize>>>,
    row_line: u64,
}

fn wrong(line: u64, what: impl std::fmt::Display) -> Failure {
    Failure::new("22P04", format!("line {line}: {what}"))
}

impl CopyRows {
    pub fn new(options: CopyOptions, columns: usize) -> Self {
        Self {
            options,
            columns,
            input: Vec::new(),
            used: 0,
            seen: 0,
            is_quoted: false,
            line: 1,
            is_started: false,
            is_over: false,
            values: Vec::new(),
            places: Vec::new(),
            row_line: 0,
        }
    }

    pub fn is_binary(&self) -> bool {
        self.options.format == CopyFormat::Binary
    }

    /// Adds bytes.
    ///
    /// # Errors
    /// When a row is too long.
    pub fn add(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        if self.used > 0 {
            self.input.drain(..self.used);
            self.seen -= self.used;
            self.used = 0;
        }
        if self.input.len() + bytes.len() > ROW_BYTES_MAX {
            return Err(wrong(self.line, format!("the row is longer than {ROW_BYTES_MAX} bytes")));
        }
        self.input.extend_from_slice(bytes);
        Ok(())
    }

    /// The fields that [`CopyRows::next`] found last.
    pub fn fields(&self) -> Fields<'_, impl Iterator<Item = Option<&[u8]>>> {
        let values = self.places.iter().map(|place| place.clone().map(|place| &self.values[place]));
        Fields { line: self.row_line, is_binary: self.is_binary(), values }
    }

    /// Finds the next row; `is_end`: no further bytes come.
    ///
    /// # Errors
    /// When the bytes are no row.
    pub fn next(&mut self, is_end: bool) -> Result<Row, Failure> {
        loop {
            if self.is_over {
                self.used = self.input.len();
                self.seen = self.used;
                return Ok(Row::End);
            }
            if self.is_binary() {
                return self.next_binary(is_end);
            }
            let Some(end) = self.line_end(is_end)? else {
                return Ok(if is_end { Row::End } else { Row::Waiting });
            };
            let (start, line) = (self.used, self.line);
            let raw = start..end;
            self.used = (end + 1).min(self.input.len());
            self.seen = self.used;
            self.line += 1 + self.input[raw.clone()].iter().filter(|byte| **byte == b'\n').count() as u64;
            let raw = match self.input[raw.clone()].last() {
                Some(b'\r') => raw.start..raw.end - 1,
                _ => raw,
            };
            if self.input[raw.clone()] == *b"\\." {
                self.is_over = true;
                continue;
            }
            if !std::mem::replace(&mut self.is_started, true) && self.options.has_header {
                continue;
            }
            self.row_line = line;
            match self.options.format {
                CopyFormat::Csv => self.split_csv(raw)?,
                _ => self.split_text(raw)?,
            }
            let (found, expected) = (self.places.len(), self.columns);
            if found != expected {
                return Err(wrong(line, format!("{found} values, where there are {expected} columns")));
            }
            return Ok(Row::Fields);
        }
    }

    /// Where the line ends that begins at `used`; `None`: more bytes are needed, or there are none.
    fn line_end(&mut self, is_end: bool) -> Result<Option<usize>, Failure> {
        let is_csv = self.options.format == CopyFormat::Csv;
        let mut at = self.seen;
        while let Some(byte) = self.input.get(at) {
            match byte {
                b'\n' if !self.is_quoted => return Ok(Some(at)),
                // What is escaped ends nothing.
                b'\\' if !is_csv => at += 1,
                quote if is_csv && *quote == self.options.quote => self.is_quoted = !self.is_quoted,
                _ => {}
            }
            at += 1;
        }
        if is_end && self.used < self.input.len() {
            return match self.is_quoted {
                true => Err(wrong(self.line, "a quote has no end")),
                false => Ok(Some(self.input.len())),
            };
        }
        // An escape at the end is looked at again, with what follows.
        self.seen = match self.input.last() {
            Some(b'\\') if !is_csv => self.used,
            _ => at.min(self.input.len()),
        };
        Ok(None)
    }

    fn begin_row(&mut self) {
        self.values.clear();
        self.places.clear();
    }

    fn split_text(&mut self, raw: Range<usize>) -> Result<(), Failure> {
        self.begin_row();
        let Self { input, values, places, options, .. } = self;
        let (delimiter, null) = (options.delimiter, options.null.as_bytes());
        let mut field_start = raw.start;
        let mut at = raw.start;
        let mut value_start = 0;
        loop {
            let byte = input[raw.start..raw.end].get(at - raw.start).copied();
            match byte {
                None => {}
                Some(byte) if byte == delimiter => {}
                Some(b'\\') => {
                    let escaped = input[raw.start..raw.end].get(at + 1 - raw.start).copied();
                    values.push(match escaped {
                        None => b'\\',
                        Some(b'n') => b'\n',
                        Some(b't') => b'\t',
                        Some(b'r') => b'\r',
                        Some(b'b') => 8,
                        Some(b'f') => 12,
                        Some(b'v') => 11,
                        Some(other) => other,
                    });
                    at += 2;
                    continue;
                }
                Some(byte) => {
                    values.push(byte);
                    at += 1;
                    continue;
                }
            }
            let at_end = at.min(raw.end);
            let is_null = &input[field_start..at_end] == null;
            places.push((!is_null).then_some(value_start..values.len()));
            value_start = values.len();
            if at >= raw.end {
                return Ok(());
            }
            at += 1;
            field_start = at;
        }
    }

    fn split_csv(&mut self, raw: Range<usize>) -> Result<(), Failure> {
        self.begin_row();
        let Self { input, values, places, options, row_line, .. } = self;
        let (delimiter, quote, null) = (options.delimiter, options.quote, options.null.as_bytes());
        let bytes = &input[raw];
        let mut at = 0;
        loop {
            let value_start = values.len();
            let (mut was_quoted, mut is_quoted) = (false, false);
            while let Some(byte) = bytes.get(at) {
                if *byte == quote {
                    was_quoted = true;
                    if is_quoted && bytes.get(at + 1) == Some(&quote) {
                        values.push(quote);
                        at += 2;
                        continue;
                    }
                    is_quoted = !is_quoted;
                } else if *byte == delimiter && !is_quoted {
                    break;
                } else {
                    values.push(*byte);
                }
                at += 1;
            }
            if is_quoted {
                return Err(wrong(*row_line, "a quote has no end"));
            }
            let is_null = !was_quoted && &values[value_start..] == null;
            places.push((!is_null).then_some(value_start..values.len()));
            if at >= bytes.len() {
                return Ok(());
            }
            at += 1;
        }
    }

    fn next_binary(&mut self, is_end: bool) -> Result<Row, Failure> {
        let row = self.line;
        let waiting = || match is_end {
            true => {
                Err(wrong(row, "the rows end in the middle; the binary format ends with a row of -1 columns"))
            }
            false => Ok(Row::Waiting),
        };
        let rest = &self.input[self.used..];
        if !self.is_started {
            let known = rest.len().min(SIGNATURE.len());
            if rest[..known] != SIGNATURE[..known] {
                return Err(wrong(row, "this is not PostgreSQL's binary format of COPY"));
            }
            let (Some(flags), Some(extra)) = (number(rest, 11), number(rest, 15)) else { return waiting() };
            if flags != 0 {
                return Err(wrong(row, format!("flags {flags:#x} of the binary format are not supported")));
            }
            let extra = usize::try_from(extra).map_err(|_| wrong(row, "a head of a negative length"))?;
            if extra > ROW_BYTES_MAX || rest.len() < 19 + extra {
                return if extra > ROW_BYTES_MAX {
                    Err(wrong(row, "a head that is too long"))
                } else {
                    waiting()
                };
            }
            self.used += 19 + extra;
            self.seen = self.used;
            self.is_started = true;
        }
        let rest = &self.input[self.used..];
        let Some(count) = rest.first_chunk::<2>().map(|bytes| i16::from_be_bytes(*bytes)) else {
            return waiting();
        };
        if count == -1 {
            self.is_over = true;
            return Ok(Row::End);
        }
        if usize::try_from(count) != Ok(self.columns) {
            return Err(wrong(row, format!("{count} values, where there are {} columns", self.columns)));
        }
        self.values.clear();
        self.places.clear();
        let mut at = 2;
        for _ in 0..self.columns {
            let Some(length) = number(rest, at) else { return waiting() };
            at += 4;
            if length == -1 {
                self.places.push(None);
                continue;
            }
            let length = usize::try_from(length).map_err(|_| wrong(row, "a value of a negative length"))?;
            if length > ROW_BYTES_MAX {
                return Err(wrong(row, format!("a value of {length} bytes")));
            }
            let Some(value) = rest.get(at..at + length) else { return waiting() };
            let start = self.values.len();
            self.values.extend_from_slice(value);
            self.places.push(Some(start..start + length));
            at += length;
        }
        self.used += at;
        self.seen = self.used;
        self.row_line = row;
        self.line += 1;
        Ok(Row::Fields)
    }
}

/// The number in four bytes at a place.
fn number(bytes: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_be_bytes(*bytes.get(at..)?.first_chunk::<4>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(format: CopyFormat) -> CopyOptions {
        let is_csv = format == CopyFormat::Csv;
        CopyOptions {
            format,
            has_header: false,
            delimiter: if is_csv { b',' } else { b'\t' },
            null: if is_csv { String::new() } else { "\\N".into() },
            quote: b'"',
        }
    }

    /// The rows of bytes that arrive in pieces of a length.
    fn rows(
        options: &CopyOptions,
        columns: usize,
        bytes: &[u8],
        piece: usize,
    ) -> Result<Vec<String>, String> {
        let mut rows = CopyRows::new(options.clone(), columns);
        let mut found = Vec::new();
        let mut take = |rows: &mut CopyRows, is_end: bool| {
            while rows.next(is_end).map_err(|failure| failure.text)? == Row::Fields {
                let values = rows.fields().values;
                let text = values.map(|value| match value {
                    None => "NULL".to_string(),
                    Some(value) => format!("{:?}", String::from_utf8_lossy(value)),
                });
                found.push(format!("{} {}", rows.row_line, text.collect::<Vec<_>>().join(" ")));
            }
            Ok::<_, String>(())
        };
        for piece in bytes.chunks(piece) {
            rows.add(piece).map_err(|failure| failure.text)?;
            take(&mut rows, false)?;
        }
        take(&mut rows, true)?;
        Ok(found)
    }

    #[test]
    fn rows_are_the_same_in_any_pieces() {
        let mut binary = [&SIGNATURE[..], &[0; 8]].concat();
        for values in [[Some("a\nb"), None], [Some(""), Some("c")]] {
            binary.extend(2i16.to_be_bytes());
            for value in values {
                binary.extend(value.map_or(-1, |value: &str| value.len() as i32).to_be_bytes());
                binary.extend(value.unwrap_or_default().bytes());
            }
        }
        binary.extend((-1i16).to_be_bytes());
        for (format, bytes, expected) in [
            (
                CopyFormat::Text,
                &b"a\\nb\t\\N\n\tc\\\\\\td\r\n\\.\nafter\n"[..],
                vec!["1 \"a\\nb\" NULL", "2 \"\" \"c\\\\\\td\""],
            ),
            (CopyFormat::Text, b"x\\\ny\tz", vec!["1 \"x\\ny\" \"z\""]),
            (
                CopyFormat::Csv,
                b"\"a\nb\",\n\"\",\"c\"\"d\"\r\ne,\"f,g\"",
                vec!["1 \"a\\nb\" NULL", "3 \"\" \"c\\\"d\"", "4 \"e\" \"f,g\""],
            ),
            (CopyFormat::Binary, &binary, vec!["1 \"a\\nb\" NULL", "2 \"\" \"c\""]),
        ] {
            for piece in [1, 2, 3, 5, 7, 100] {
                assert_eq!(
                    rows(&options(format), 2, bytes, piece).unwrap(),
                    expected,
                    "{format:?} in {piece}"
                );
            }
        }
        let header = CopyOptions { has_header: true, ..options(CopyFormat::Csv) };
        assert_eq!(rows(&header, 1, b"name\nA\n", 4).unwrap(), ["2 \"A\""]);
    }

    #[test]
    fn what_is_no_row_is_an_error_with_its_line() {
        for (format, bytes, part) in [
            (CopyFormat::Text, &b"a\tb\nc\n"[..], "line 2: 1 values"),
            (CopyFormat::Text, b"a\tb\tc\n", "line 1: 3 values"),
            (CopyFormat::Csv, b"a,b\n\"c,d\n", "line 2: a quote has no end"),
            (CopyFormat::Binary, b"PGCOPY\n\xff\r\nX", "not PostgreSQL's binary format"),
            (CopyFormat::Binary, b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x05", "5 values"),
            (
                CopyFormat::Binary,
                b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x02\xff\xff\xff\xfe",
                "negative length",
            ),
            (
                CopyFormat::Binary,
                b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\0\x02\x7f\xff\xff\xff",
                "a value of 2147483647 bytes",
            ),
            (CopyFormat::Binary, b"PGCOPY\n\xff\r\n\0\0\0\0\x01\0\0\0\0", "flags"),
            (CopyFormat::Binary, b"PGCOPY", "end in the middle"),
        ] {
            for piece in [1, 100] {
                let error = rows(&options(format), 2, bytes, piece).unwrap_err();
                assert!(error.contains(part), "{error}");
            }
        }
    }
}
