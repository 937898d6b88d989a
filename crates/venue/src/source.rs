//! One file, row by row.

use super::container::Opened;
use super::error::ImportError;
use super::error::{LineLocation, excerpt};
use super::fields::BadLine;
use super::lines::{Line, Lines, MAX_LINE_BYTES};
use super::options::OnBadLine;
use super::record::AnyRecord;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tapedb_codec::batch::MAX_MESSAGE_BYTES;
use tapedb_schema::{TimeUnit, Timestamp};

/// Most kinds of unknown frames that are counted by name; further ones go under `other`.
pub const MAX_UNKNOWN_KINDS: usize = 64;

/// Longest symbol of a row, in bytes; the shortest is one byte.
pub const MAX_SYMBOL_BYTES: usize = 255;
/// More bytes than any entry has in a package's body.
const ENTRY_BYTES_MAX: usize = 128;

/// Header of a row; borrowed from its source until the next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowHeader<'a> {
    /// The message's time.
    pub time: Timestamp,
    /// The symbol, in upper case; 1 to [`MAX_SYMBOL_BYTES`] bytes.
    pub symbol: &'a str,
}

/// What a source has counted so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    /// Rows returned.
    pub rows: u64,
    /// Bad lines skipped.
    pub bad_lines: u64,
    /// Lines of a kind that is not imported, skipped, by kind; at most [`MAX_UNKNOWN_KINDS`] and `other`.
    pub unknown_kinds: BTreeMap<String, u64>,
    /// Frames that are no data, such as heartbeats, by kind; at most [`MAX_UNKNOWN_KINDS`] and `other`.
    pub control_kinds: BTreeMap<String, u64>,
    /// Numbers of more than 16 digits that were rounded.
    pub rounded_numbers: u64,
    /// Changes whose sequence number or checksum has shown that nothing is missing before them.
    pub checks_passed: u64,
    /// Changes whose sequence number or checksum has shown that something is missing.
    pub checks_failed: u64,
    /// Changes that nothing can prove to be complete: neither clean nor known to be broken.
    pub unverifiable: u64,
    /// Messages [`Gap`](tapedb_market::Gap) among the rows.
    pub gaps: u64,
    /// Rows that are earlier than the row before them in their file.
    pub backward: u64,
    /// Units that times of receipt seem to have, by their size, where these are not the format's.
    pub guessed_units: BTreeSet<&'static str>,
}

impl Counters {
    /// Adds those of another source.
    pub fn add(&mut self, other: &Self) {
        self.rows += other.rows;
        self.bad_lines += other.bad_lines;
        for (kind, count) in &other.unknown_kinds {
            self.add_unknown(kind.clone(), *count);
        }
        for (kind, count) in &other.control_kinds {
            self.add_control(kind.clone(), *count);
        }
        self.rounded_numbers += other.rounded_numbers;
        self.checks_passed += other.checks_passed;
        self.checks_failed += other.checks_failed;
        self.unverifiable += other.unverifiable;
        self.gaps += other.gaps;
        self.backward += other.backward;
        self.guessed_units.extend(&other.guessed_units);
    }

    pub(super) fn add_unknown(&mut self, kind: String, count: u64) {
        add_kind(&mut self.unknown_kinds, kind, count);
    }

    pub(super) fn add_control(&mut self, kind: String, count: u64) {
        add_kind(&mut self.control_kinds, kind, count);
    }
}

fn add_kind(kinds: &mut BTreeMap<String, u64>, kind: String, count: u64) {
    let full = kinds.len() >= MAX_UNKNOWN_KINDS && !kinds.contains_key(&kind);
    let kind = if full { "other".to_string() } else { kind };
    *kinds.entry(kind).or_default() += count;
}

/// Rows of one file in the order of the file. A line whose row no stream could hold is a bad line.
pub trait Source: Send {
    /// Replaces `out` by the next row; at the end, and with an error, it is an empty package.
    ///
    /// # Errors
    /// [`ImportError::Line`] at a bad line that is not to be skipped, [`ImportError::Read`] if the bytes end too early
    /// or are damaged. After an error the source has ended.
    fn next(&mut self, out: &mut AnyRecord) -> Result<Option<RowHeader<'_>>, ImportError>;

    /// Compressed bytes read so far, and in all.
    fn progress(&self) -> (u64, u64);

    /// What has been counted so far.
    fn counters(&self) -> &Counters;
}

/// A format, as the lines of one file.
pub(super) trait LineParser: Send {
    /// Replaces `out` by what a line, without its end, says.
    fn parse(&mut self, line: &[u8], out: &mut AnyRecord) -> Result<Parsed, BadLine>;

    /// Symbol of the last row.
    fn symbol(&self) -> &str;

    /// Replaces `out` by the next row of the lines so far, if they have more than [`Parsed`] says. A stream can hold it.
    fn queued(&mut self, _out: &mut AnyRecord) -> Option<Timestamp> {
        None
    }

    /// A line was passed over, in or before this parser: rows may say that something is missing.
    fn refused(&mut self, _bad: &BadLine) {}

    /// The file has ended: what was held back, to see what follows, is queued.
    fn finish(&mut self) {}

    /// Adds what was counted since it was last called.
    fn count(&mut self, _counters: &mut Counters) {}

    /// The unit in which times were taken to be, for their size, where it is not the format's.
    fn guessed_unit(&self) -> Option<TimeUnit> {
        None
    }
}

/// A line that is not bad.
pub(super) enum Parsed {
    /// A row with its time.
    Row(Timestamp),
    /// A row, and another directly after it.
    Both(Timestamp, AnyRecord),
    /// Something that is not imported, by the name of its kind.
    Unknown(String),
    /// Any number of rows, which [`LineParser::queued`] gives.
    Queued,
}

pub(super) struct TextSource<P> {
    parser: P,
    lines: Lines<Box<dyn Read + Send>>,
    /// Position: file, and the last line read.
    place: LineLocation,
    bytes_read: Arc<AtomicU64>,
    bytes_total: u64,
    on_bad_line: OnBadLine,
    counters: Counters,
    /// The row directly after the returned one, if the line had both.
    after: Option<(Timestamp, AnyRecord)>,
    /// There are no more lines.
    finished: bool,
    ended: bool,
}

impl<P: LineParser> TextSource<P> {
    pub(super) fn new(
        parser: P,
        opened: Opened,
        (path, member): (PathBuf, Option<String>),
        bytes_total: u64,
        on_bad_line: OnBadLine,
    ) -> Self {
        Self {
            parser,
            lines: Lines::new(opened.reader),
            place: LineLocation { path, member, line: 0, column: None },
            bytes_read: opened.bytes_read,
            bytes_total,
            on_bad_line,
            counters: Counters::default(),
            after: None,
            finished: false,
            ended: false,
        }
    }

    /// The time of the next row.
    fn advance(&mut self, out: &mut AnyRecord) -> Result<Option<Timestamp>, ImportError> {
        if let Some((time, record)) = self.after.take() {
            *out = record;
            return Ok(Some(time));
        }
        loop {
            if let Some(time) = self.parser.queued(out) {
                return Ok(Some(time));
            }
            let line = match self.lines.next() {
                Ok(line) => line,
                Err(source) => return Err(ImportError::Read { place: self.place.clone(), source }),
            };
            self.place.line += u64::from(line != Line::End);
            let (text, bad) = match line {
                Line::End if self.finished => return Ok(None),
                Line::End => {
                    self.finished = true;
                    self.parser.finish();
                    self.parser.count(&mut self.counters);
                    continue;
                }
                Line::TooLong(text) => {
                    (text, BadLine::new(0, format!("a line of at most {MAX_LINE_BYTES} bytes")))
                }
                Line::Whole(text) => match parse(&mut self.parser, text, out) {
                    Ok(Parsed::Row(time)) => return Ok(Some(time)),
                    Ok(Parsed::Both(time, record)) => {
                        self.after = Some((time, record));
                        return Ok(Some(time));
                    }
                    Ok(Parsed::Unknown(kind)) => {
                        self.counters.add_unknown(kind, 1);
                        continue;
                    }
                    Ok(Parsed::Queued) => {
                        self.parser.count(&mut self.counters);
                        continue;
                    }
                    Err(bad) => (text, bad),
                },
            };
            if !self.on_bad_line.skips(self.counters.bad_lines) {
                return Err(line_error(&self.place, bad, text));
            }
            self.counters.bad_lines += 1;
            self.parser.refused(&bad);
            self.parser.count(&mut self.counters);
        }
    }
}

impl<P: LineParser> Source for TextSource<P> {
    fn next(&mut self, out: &mut AnyRecord) -> Result<Option<RowHeader<'_>>, ImportError> {
        if self.ended {
            return Ok(None);
        }
        match self.advance(out) {
            Ok(Some(time)) => {
                self.counters.rows += 1;
                Ok(Some(RowHeader { time, symbol: self.parser.symbol() }))
            }
            end_or_error => {
                self.ended = true;
                self.counters.guessed_units.extend(self.parser.guessed_unit().map(TimeUnit::name));
                out.package();
                end_or_error.map(|_| None)
            }
        }
    }

    fn progress(&self) -> (u64, u64) {
        (self.bytes_read.load(Ordering::Relaxed), self.bytes_total)
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }
}

/// Parses a line, and proves that a stream can hold the row.
#[inline]
fn parse(parser: &mut impl LineParser, line: &[u8], out: &mut AnyRecord) -> Result<Parsed, BadLine> {
    let parsed = parser.parse(line, out)?;
    if !matches!(parsed, Parsed::Unknown(_) | Parsed::Queued) {
        if !is_symbol(parser.symbol()) {
            return Err(BadLine::anywhere(format!("a symbol of 1 to {MAX_SYMBOL_BYTES} bytes")));
        }
        if !fits_a_message(out) {
            return Err(BadLine::anywhere(format!("a message of at most {MAX_MESSAGE_BYTES} bytes")));
        }
    }
    Ok(parsed)
}

/// Whether it can be a row's symbol.
pub(super) fn is_symbol(text: &str) -> bool {
    (1..=MAX_SYMBOL_BYTES).contains(&text.len())
}

/// Whether a package's body is within the limit; only a large one is encoded to see.
#[inline]
pub(super) fn fits_a_message(record: &AnyRecord) -> bool {
    if record.as_package().is_none_or(|package| package.entries.len() < MAX_MESSAGE_BYTES / ENTRY_BYTES_MAX) {
        return true;
    }
    let mut body = Vec::new();
    record.encode(&mut body);
    body.len() <= MAX_MESSAGE_BYTES
}

#[cold]
fn line_error(place: &LineLocation, bad: BadLine, text: &[u8]) -> ImportError {
    let place = LineLocation { column: bad.column.map(|column| column + 1), ..place.clone() };
    ImportError::Line { place, expected: bad.expected, excerpt: excerpt(text, bad.column.unwrap_or(0)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tapedb_codec::encode;
    use tapedb_market::{Entry, Level1, Level2Snapshot, Level2Update, Package, SequenceRange, Trade};
    use tapedb_schema::Ascii;

    #[test]
    fn no_entry_has_more_bytes_than_are_reckoned_with() {
        let (text, size) = (Ascii::new("ABCDEFGH").ok(), Some(Default::default()));
        let (exchange, condition, orders) = (text, text, Some(1));
        let trade = Trade {
            exchange,
            condition,
            aggressor: Some(Default::default()),
            id: Some(1),
            ..Trade::default()
        };
        let quote = Level1 { exchange, condition, orders, price: size, size, ..Level1::default() };
        let update = Level2Update { exchange, orders, size, level: Some(1), ..Level2Update::default() };
        let level = Level2Snapshot { exchange, orders, ..Level2Snapshot::default() };
        let range = SequenceRange { first: 1, previous: Some(1) };
        let entries: [Entry; 5] = [trade.into(), quote.into(), update.into(), level.into(), range.into()];
        for entry in entries {
            let mut body = Vec::new();
            encode(&Package { entries: vec![entry; 1000], ..Package::default() }, &mut body);
            assert!(body.len() < 1000 * (ENTRY_BYTES_MAX - 1), "{}", body.len());
        }
    }
}
