//! Reading from a sequence number on, for live cursors.

use crate::error::LogError;
use crate::granule::Span;
use crate::log::{Located, Log};
use tapedb_codec::batch::{BatchHeader, HEADER_BYTES};

/// The position of a reader: a sequence number, and the location of its batch once known, which saves a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TailPosition {
    sequence: u64,
    /// File and offset at which the batch begins whose first message is `sequence`.
    batch_at: Option<(u64, u64)>,
}

impl TailPosition {
    /// A reader that continues with `sequence`.
    pub fn at(sequence: u64) -> Self {
        Self { sequence, batch_at: None }
    }

    /// The next sequence number to read.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }
}

impl Log {
    /// Reads whole batches into `buf`, from the one that holds the position's sequence number on: as many as
    /// fit `max_bytes`, at least one, at most to the end of their granule. Moves the position after them.
    /// The span is empty when there is nothing new.
    ///
    /// The first batch may begin before the position: the caller skips its earlier rows. Walk the bytes with
    /// [`batches`](Log::batches). Damage known to the index is an error here, once: the position is then after it.
    pub fn read_from(
        &self,
        position: &mut TailPosition,
        max_bytes: usize,
        buf: &mut Vec<u8>,
    ) -> Result<Span, LogError> {
        buf.clear();
        let granule = match self.locate(position.sequence)? {
            Located::Within(span) => span,
            Located::End => return Ok(Span { first_sequence: position.sequence, ..Span::default() }),
            Located::Missing(damage, next) => {
                *position = TailPosition::at(next);
                let path = self.dir.log_path(damage.file);
                return Err(LogError::Damaged { path, damage: Box::new(damage) });
            }
        };
        let read =
            self.rest_of(&granule, position, buf).and_then(|rest| self.read_some(rest, max_bytes, buf));
        let span = read.map_err(|error| self.trimmed_or(error, position.sequence))?;
        *position = TailPosition { sequence: span.next_sequence(), batch_at: Some((span.file, span.end())) };
        Ok(span)
    }

    /// The rest of a granule, from the batch with the position's sequence number on.
    fn rest_of(&self, granule: &Span, position: &TailPosition, buf: &mut Vec<u8>) -> Result<Span, LogError> {
        if position.sequence == granule.first_sequence {
            return Ok(*granule);
        }
        if let Some((file, offset)) = position.batch_at
            && file == granule.file
            && (granule.offset..granule.end()).contains(&offset)
        {
            return Ok(after(granule, offset, position.sequence));
        }
        self.read_bytes(granule.file, granule.offset, granule.len as usize, buf)?;
        let (skipped, sequence) =
            walk(buf, granule.first_sequence, |header, _| header.next_sequence() <= position.sequence);
        Ok(after(granule, granule.offset + skipped as u64, sequence))
    }

    /// Reads as many whole batches of `rest` as fit `max_bytes`, at least one.
    fn read_some(&self, rest: Span, max_bytes: usize, buf: &mut Vec<u8>) -> Result<Span, LogError> {
        let len = rest.len as usize;
        if len <= max_bytes {
            self.read_bytes(rest.file, rest.offset, len, buf)?;
            return Ok(rest);
        }
        self.read_bytes(rest.file, rest.offset, len.min(max_bytes.max(HEADER_BYTES)), buf)?;
        let (fits, sequence) = walk(buf, rest.first_sequence, |_, end| end <= max_bytes);
        if fits > 0 {
            buf.truncate(fits);
            return Ok(before(&rest, fits, sequence));
        }
        // The first batch is larger than `max_bytes`, or damaged: then the rest of the granule is read.
        let first = BatchHeader::parse_stored(buf).ok().filter(|h| h.first_sequence == rest.first_sequence);
        let span = first.map_or(rest, |h| before(&rest, h.batch_bytes().min(len), h.next_sequence()));
        self.read_bytes(span.file, span.offset, span.len as usize, buf)?;
        Ok(span)
    }
}

/// Walks whole headers from the start of `bytes` while they are in sequence and `go_on` accepts the header and the end of
/// its batch. Returns the bytes walked and the sequence number there.
fn walk(bytes: &[u8], first_sequence: u64, go_on: impl Fn(&BatchHeader, usize) -> bool) -> (usize, u64) {
    let (mut at, mut sequence) = (0, first_sequence);
    while let Some(rest) = bytes.get(at..)
        && let Ok(header) = BatchHeader::parse_stored(rest)
    {
        let end = at + header.batch_bytes();
        if header.first_sequence != sequence || end > bytes.len() || !go_on(&header, end) {
            break;
        }
        (at, sequence) = (end, header.next_sequence());
    }
    (at, sequence)
}

/// The part of `span` from `offset` on, where `sequence` begins.
fn after(span: &Span, offset: u64, sequence: u64) -> Span {
    Span {
        file: span.file,
        offset,
        len: (span.end() - offset) as u32,
        first_sequence: sequence,
        count: span.next_sequence() - sequence,
    }
}

/// The first `len` bytes of `span`, which end before `sequence`.
fn before(span: &Span, len: usize, sequence: u64) -> Span {
    Span { len: len as u32, count: sequence - span.first_sequence, ..*span }
}
