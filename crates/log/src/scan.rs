//! Finds the batches in bytes that may be damaged. Pure: no file, easy to fuzz.

use crate::format::{FILE_HEADER_BYTES, FileHeader, FileKind};
use crate::granule::{self, Granule};
use crate::report::{Damage, Reason};
use tapedb_codec::batch::{self, BatchError, BatchHeader};

/// What the bytes of a log file hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// The file's header; `None` when damaged or cut short.
    pub header: Option<FileHeader>,
    /// The readable batches, in granules.
    pub granules: Vec<Granule>,
    /// What is not readable although readable batches follow, and messages that are missing or repeated.
    pub damaged: Vec<Damage>,
    /// Where the last readable batch ends (or the file header).
    pub end: u64,
    /// Why the bytes after `end` are not a batch; `None` when there are none.
    pub tail: Option<BatchError>,
    /// Readable batches.
    pub batches: u64,
    /// Sequence number after the last readable message.
    pub next_sequence: u64,
}

/// Finds the batches in the content of a log file. Never fails: what is not readable is listed.
pub fn scan_bytes(bytes: &[u8]) -> Scan {
    let header = FileHeader::parse(FileKind::Log, bytes);
    let first = header.map(|h| h.first_sequence);
    // Without a header the first batch tells where the numbers begin.
    let expected = first.or_else(|| find(bytes, 0, 0).map(|(_, h)| h.first_sequence)).unwrap_or(0);
    scan_file(bytes, expected, expected)
}

/// [`scan_bytes`] of the log file named `file`, in which no sequence number below `expected` is new.
pub(crate) fn scan_file(bytes: &[u8], file: u64, expected: u64) -> Scan {
    let start = bytes.len().min(FILE_HEADER_BYTES as usize);
    let mut scan = scan_region(&bytes[start..], file, start as u64, expected);
    scan.header = FileHeader::parse(FileKind::Log, bytes);
    scan
}

/// Finds the batches in `bytes`, which begin at `offset` in the log file named `file`.
pub(crate) fn scan_region(bytes: &[u8], file: u64, offset: u64, expected: u64) -> Scan {
    let mut scan = Scan { end: offset, next_sequence: expected, ..Scan::default() };
    let mut at = 0;
    while at < bytes.len() {
        let place = Place { file, offset: offset + at as u64 };
        at += match batch::check(&bytes[at..]) {
            Ok(header) => scan.accept(place, &header),
            Err(error) => match find(bytes, after_bad(bytes, at), scan.next_sequence) {
                Some((next, header)) => scan.skip(place, next - at, header.first_sequence, error),
                None => {
                    scan.tail = Some(error);
                    break;
                }
            },
        };
    }
    scan
}

struct Place {
    file: u64,
    offset: u64,
}

impl Scan {
    /// Takes in a whole batch; returns its bytes.
    fn accept(&mut self, Place { file, offset }: Place, header: &BatchHeader) -> usize {
        let bytes = header.batch_bytes();
        let (expected, first_sequence) = (self.next_sequence, header.first_sequence);
        self.end = offset + bytes as u64;
        if first_sequence < expected {
            let (count, reason) = (Some(0), Reason::Duplicate);
            self.damaged.push(Damage { file, offset, bytes: bytes as u64, first_sequence, count, reason });
            return bytes;
        }
        if first_sequence > expected {
            let (count, reason) = (Some(first_sequence - expected), Reason::Gap);
            self.damaged.push(Damage { file, offset, bytes: 0, first_sequence: expected, count, reason });
        }
        granule::extend(&mut self.granules, Granule::of(file, offset, header));
        self.batches += 1;
        self.next_sequence = header.next_sequence();
        bytes
    }

    /// Notes damage up to the next whole batch, which begins with sequence number `next`; returns the damaged
    /// bytes.
    fn skip(&mut self, Place { file, offset }: Place, bytes: usize, next: u64, error: BatchError) -> usize {
        let (first_sequence, reason) = (self.next_sequence, Reason::Batch(error));
        let count = Some(next - first_sequence);
        self.damaged.push(Damage { file, offset, bytes: bytes as u64, first_sequence, count, reason });
        self.next_sequence = next;
        bytes
    }
}

/// Where to look on after the bad batch at `at`: behind its payload when its header is whole, for then its
/// length can be trusted and a message that looks like a batch is not taken for one.
pub(crate) fn after_bad(bytes: &[u8], at: usize) -> usize {
    BatchHeader::parse(&bytes[at..]).map_or(at + 1, |header| at + header.batch_bytes())
}

/// The next whole batch at or after `from` whose sequence numbers are not below `expected`.
pub(crate) fn find(bytes: &[u8], from: usize, expected: u64) -> Option<(usize, BatchHeader)> {
    let magic = batch::MAGIC.to_le_bytes();
    let mut at = from;
    while let Some(rest) = bytes.get(at..) {
        at += rest.windows(magic.len()).position(|window| window == magic)?;
        match batch::check(&bytes[at..]) {
            Ok(header) if header.first_sequence >= expected => return Some((at, header)),
            _ => at += 1,
        }
    }
    None
}
