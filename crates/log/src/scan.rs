//! Finds the batches in bytes that may be damaged. Pure: no file, easy to fuzz.

use crate::format::{FILE_HEADER_BYTES, FileHeader, FileKind};
use crate::granule::{self, Granule};
use crate::marks::Marks;
use crate::producers::Producers;
use crate::report::{Damage, Reason};
use crate::search::{Region, Search};
use tapedb_codec::batch::{BatchError, BatchHeader};

/// What the bytes of a log file contain.
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
    /// Why the bytes after `end` are not a batch; `None` when there are none, or only preallocated ones.
    pub end_error: Option<BatchError>,
    /// Preallocated bytes: zeros at the end of the file, after everything else.
    pub preallocated: u64,
    /// Readable batches.
    pub batches: u64,
    /// Sequence number after the last readable message.
    pub next_sequence: u64,
    /// The last readable batch of each producer.
    pub(crate) producers: Producers,
}

/// Finds the batches in the content of a log file. Never fails: unreadable bytes are listed.
pub fn scan_bytes(bytes: &[u8]) -> Scan {
    let header = FileHeader::parse(FileKind::Log, bytes);
    let marks = header.as_ref().map_or_else(|| Marks::by_first_batch([Marks::Magic], bytes), Marks::of);
    let file = header.map(|header| header.first_sequence).or_else(|| first_found(bytes)).unwrap_or(0);
    scan_file(bytes, Region { file, offset: 0, marks }, file)
}

/// Without a header, the first batch shows where the sequence numbers begin.
fn first_found(bytes: &[u8]) -> Option<u64> {
    let region = Region { file: u64::MAX, offset: 0, marks: Marks::Unknown };
    let (_, header) = Search::default().first(region, bytes)?;
    Some(header.first_sequence)
}

/// [`scan_bytes`] of a whole log file, in which no sequence number below `expected` is new.
pub(crate) fn scan_file(bytes: &[u8], region: Region, expected: u64) -> Scan {
    let start = bytes.len().min(FILE_HEADER_BYTES as usize);
    let region = Region { offset: start as u64, ..region };
    let mut scan = scan_region(&bytes[start..], region, expected);
    scan.header = FileHeader::parse(FileKind::Log, bytes);
    scan
}

/// Finds the batches in the bytes of a region.
pub(crate) fn scan_region(bytes: &[u8], region: Region, expected: u64) -> Scan {
    let Region { file, offset, .. } = region;
    let mut scan = Scan { end: offset, next_sequence: expected, ..Scan::default() };
    let (mut at, mut search) = (0, Search::default());
    // The last batch may end with zeros, but none begins with one.
    let used = bytes.len() - zeros_at_end(bytes);
    while at < bytes.len() {
        scan.preallocated = (bytes.len() - at.max(used)) as u64;
        if at >= used {
            break;
        }
        let location = Location { file, offset: offset + at as u64 };
        at += match region.check(bytes, at) {
            Ok(header) => scan.accept(location, &header),
            Err(error) => match search.next(region, bytes, at, scan.next_sequence) {
                Some((next, header)) => scan.skip(location, next - at, header.first_sequence, error),
                None => {
                    scan.end_error = Some(error);
                    break;
                }
            },
        };
    }
    if at >= bytes.len() {
        scan.preallocated = 0;
    }
    scan
}

/// How many zeros there are at the end.
pub(crate) fn zeros_at_end(bytes: &[u8]) -> usize {
    let (head, words) = bytes.as_rchunks::<64>();
    let zeros = words.iter().rev().take_while(|word| **word == [0; 64]).count();
    let rest = match words.get(words.len().wrapping_sub(zeros + 1)) {
        Some(word) => &word[..],
        None => head,
    };
    zeros * 64 + rest.iter().rev().take_while(|byte| **byte == 0).count()
}

struct Location {
    file: u64,
    offset: u64,
}

impl Scan {
    /// Adds a whole batch; returns its bytes.
    fn accept(&mut self, Location { file, offset }: Location, header: &BatchHeader) -> usize {
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
        self.producers.record(header);
        self.batches += 1;
        self.next_sequence = header.next_sequence();
        bytes
    }

    /// Records damage up to the next whole batch, which begins with sequence number `next`; returns the damaged
    /// bytes.
    fn skip(
        &mut self,
        Location { file, offset }: Location,
        bytes: usize,
        next: u64,
        error: BatchError,
    ) -> usize {
        let (first_sequence, reason) = (self.next_sequence, Reason::Batch(error));
        let count = Some(next - first_sequence);
        self.damaged.push(Damage { file, offset, bytes: bytes as u64, first_sequence, count, reason });
        self.next_sequence = next;
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_batches::one_batch;
    use tapedb_codec::batch::HEADER_BYTES;

    #[test]
    fn one_scan_has_one_budget() {
        // Between any two forged headers a batch is found: the budget must not begin again after each.
        let mut bytes = Vec::new();
        for sequence in 0..500 {
            let forged = one_batch(2 * sequence, 1 << 20);
            bytes.extend_from_slice(&[0xff; 7]);
            bytes.extend_from_slice(&forged[..HEADER_BYTES]);
            // Two, because in a file of version 1 a single batch after damage is not accepted.
            bytes.extend(one_batch(2 * sequence, 8));
            bytes.extend(one_batch(2 * sequence + 1, 8));
        }
        bytes.resize(bytes.len() + (2 << 20), 0);
        let scan = scan_region(&bytes, Region { file: 0, offset: 64, marks: Marks::Magic }, 0);
        assert!(scan.batches > 120 && scan.batches < 200, "{} batches", scan.batches);
    }
}
