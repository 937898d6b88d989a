//! Walks the batches in bytes read from a log, checking each.

use crate::directory::LogDir;
use crate::error::LogError;
use crate::format::log_name;
use crate::granule::Span;
use crate::marks::Marks;
use crate::report::{Damage, Reason};
use crate::search::{Region, Search};
use tapedb_codec::batch::{self, BatchError, BatchHeader};

/// One whole batch whose header and payload checksums are right.
#[derive(Clone, Copy, Debug)]
pub struct BatchSlice<'a> {
    /// Its header.
    pub header: BatchHeader,
    /// Header and payload, as in the file: with the mark of the offset instead of the magic.
    pub bytes: &'a [u8],
    /// Where it begins in its log file.
    pub offset: u64,
}

/// The batches of a span, in order. Damage is one `Err` item that names the messages that cannot be read; the next item
/// continues after it.
#[derive(Clone, Debug)]
pub struct Batches<'a> {
    dir: &'a LogDir,
    span: Span,
    bytes: &'a [u8],
    at: usize,
    next_sequence: u64,
    search: Search,
}

impl<'a> Batches<'a> {
    pub(crate) fn new(dir: &'a LogDir, span: Span, bytes: &'a [u8]) -> Self {
        Self { dir, span, bytes, at: 0, next_sequence: span.first_sequence, search: Search::default() }
    }

    fn deliver(&mut self, header: BatchHeader) -> Result<BatchSlice<'a>, LogError> {
        let (start, expected) = (self.at, self.next_sequence);
        let end = start + header.batch_bytes();
        if header.first_sequence > expected {
            self.next_sequence = header.first_sequence;
            return Err(self.damage(start, start, expected, Reason::Gap));
        }
        self.at = end;
        if header.first_sequence < expected {
            return Err(self.damage(start, end, expected, Reason::Duplicate));
        }
        self.next_sequence = header.next_sequence();
        Ok(BatchSlice { header, bytes: &self.bytes[start..end], offset: self.span.offset + start as u64 })
    }

    /// Moves to the next whole batch, or to the end of the span.
    fn skip(&mut self, error: BatchError) -> LogError {
        let (start, expected) = (self.at, self.next_sequence);
        // Looked up only here: readers of undamaged bytes do not need it.
        let Span { file, offset, .. } = self.span;
        let marks = self.dir.marks_of(file).unwrap_or(Marks::Unknown);
        let next = self.search.next(Region { file, offset, marks }, self.bytes, start, expected);
        let is_within = |header: &BatchHeader| header.next_sequence() <= self.span.next_sequence();
        let next =
            next.filter(|(_, header)| is_within(header)).map(|(at, header)| (at, header.first_sequence));
        let missing_end = (self.span.len as usize).max(self.bytes.len());
        (self.at, self.next_sequence) =
            next.unwrap_or((missing_end, self.span.next_sequence().max(expected)));
        self.damage(start, self.at, expected, Reason::Batch(error))
    }

    /// The error for the bytes from `start` to `end`, which hold the messages from `first_sequence` to the
    /// next.
    fn damage(&self, start: usize, end: usize, first_sequence: u64, reason: Reason) -> LogError {
        let damage = Damage {
            file: self.span.file,
            offset: self.span.offset + start as u64,
            bytes: (end - start) as u64,
            first_sequence,
            count: Some(self.next_sequence - first_sequence),
            reason,
        };
        LogError::Damaged { path: self.dir.path.join(log_name(self.span.file)), damage: Box::new(damage) }
    }
}

impl<'a> Iterator for Batches<'a> {
    type Item = Result<BatchSlice<'a>, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.span.len as usize {
            return None;
        }
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        Some(match batch::check_stored(rest) {
            // The index is right where a number lies beyond the span.
            Ok(header) if header.first_sequence >= self.span.next_sequence() => {
                let (field, need, have) = ("first_sequence", "one of its span", header.first_sequence);
                Err(self.skip(BatchError::Field { offset: 16, field, need, have }))
            }
            Ok(header) => self.deliver(header),
            Err(error) => Err(self.skip(error)),
        })
    }
}
