//! Finds the batches in bytes that may be damaged. Pure: no file, easy to fuzz.

use crate::format::{FILE_HEADER_BYTES, FileHeader, FileKind};
use crate::granule::{self, Granule};
use crate::producers::Producers;
use crate::report::{Damage, Reason};
use tapedb_codec::batch::{self, BatchError, BatchHeader};

/// Bytes of bad payloads that one search looks through after it has checked them: four of the largest batches.
const SEARCH_BYTES: usize = 4 * batch::MAX_BATCH_BYTES;

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
    /// Why the bytes after `end` are not a batch; `None` when there are none but room.
    pub tail: Option<BatchError>,
    /// Zeros at the end of the file, behind everything else: room for more.
    pub room: u64,
    /// Readable batches.
    pub batches: u64,
    /// Sequence number after the last readable message.
    pub next_sequence: u64,
    /// The last readable batch of each producer.
    pub(crate) producers: Producers,
}

/// Finds the batches in the content of a log file. Never fails: what is not readable is listed.
pub fn scan_bytes(bytes: &[u8]) -> Scan {
    let header = FileHeader::parse(FileKind::Log, bytes);
    let first = header.map(|h| h.first_sequence);
    // Without a header the first batch tells where the numbers begin.
    let found = || Search::default().next(bytes, 0, 0).map(|(_, header)| header.first_sequence);
    let expected = first.or_else(found).unwrap_or(0);
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
    let (mut at, mut search) = (0, Search::default());
    // The last batch may end with zeros, but none begins with one.
    let used = bytes.len() - zeros_at_end(bytes);
    while at < bytes.len() {
        scan.room = (bytes.len() - at.max(used)) as u64;
        if at >= used {
            break;
        }
        let place = Place { file, offset: offset + at as u64 };
        at += match batch::check(&bytes[at..]) {
            Ok(header) => scan.accept(place, &header),
            Err(error) => match search.next(bytes, after_bad(bytes, at), scan.next_sequence) {
                Some((next, header)) => scan.skip(place, next - at, header.first_sequence, error),
                None => {
                    scan.tail = Some(error);
                    break;
                }
            },
        };
    }
    if at >= bytes.len() {
        scan.room = 0;
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
        self.producers.note(header);
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

/// Looks for whole batches behind damage.
#[derive(Clone, Debug)]
pub(crate) struct Search {
    /// Bytes of payloads that may still be checked in vain, and then looked through for other batches.
    budget: usize,
}

impl Default for Search {
    fn default() -> Self {
        Self { budget: SEARCH_BYTES }
    }
}

impl Search {
    /// The next whole batch at or after `from` whose sequence numbers are not below `expected`.
    pub(crate) fn next(&mut self, bytes: &[u8], from: usize, expected: u64) -> Option<(usize, BatchHeader)> {
        self.next_before(bytes, from, bytes.len(), expected).ok()
    }

    /// [`Search::next`] that begins before `to`; else the first place that was not looked at.
    pub(crate) fn next_before(
        &mut self,
        bytes: &[u8],
        from: usize,
        to: usize,
        expected: u64,
    ) -> Result<(usize, BatchHeader), usize> {
        let magic = batch::MAGIC.to_le_bytes();
        let mut at = from;
        while at < to {
            let starts = &bytes[at..bytes.len().min(to + magic.len() - 1)];
            let Some(found) = starts.windows(magic.len()).position(|window| window == magic) else { break };
            at += found;
            at += match BatchHeader::parse(&bytes[at..]) {
                Ok(header) if header.first_sequence >= expected => match batch::check(&bytes[at..]) {
                    Ok(header) => return Ok((at, header)),
                    Err(_) => self.step_after(&header, bytes.len() - at),
                },
                _ => 1,
            };
        }
        Err(at.max(to))
    }

    /// How far to go on from a good header with a bad payload. A header may be part of a message, so batches may lie
    /// in what it says is its payload; but a file full of such headers would have every byte checked as often as
    /// there are headers before it. So once the budget is used up, the header is believed.
    fn step_after(&mut self, header: &BatchHeader, have: usize) -> usize {
        let bytes = header.batch_bytes();
        if bytes > have {
            // Nothing was checked: the payload is not all there.
            return 1;
        }
        match self.budget.checked_sub(bytes) {
            Some(left) => {
                self.budget = left;
                1
            }
            None => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tapedb_codec::batch::{BatchBuilder, assign_sequence};

    fn one_batch(first_sequence: u64, body_bytes: usize) -> Vec<u8> {
        let (mut builder, mut out) = (BatchBuilder::new(), Vec::new());
        builder.push_bytes(0, 0, 0, &vec![0; body_bytes]).unwrap();
        builder.finish(1, &mut out);
        assign_sequence(&mut out, first_sequence).unwrap();
        out
    }

    /// Headers that each promise the next mebibyte, with batches that can be read at the start and the end.
    fn forged(headers: usize) -> Vec<u8> {
        let promise = one_batch(1, 1 << 20);
        let mut bytes = vec![0xff; 10];
        for _ in 0..headers {
            bytes.extend_from_slice(&promise[..batch::HEADER_BYTES]);
        }
        bytes.extend(one_batch(2, 50));
        bytes.resize(bytes.len() + (2 << 20), 0);
        bytes
    }

    #[test]
    fn a_search_looks_into_what_forged_headers_promise_until_that_costs_too_much() {
        let few = forged(20);
        let mut search = Search::default();
        assert_eq!(search.next(&few, 1, 0).map(|(_, header)| header.first_sequence), Some(2));
        assert!(search.budget < SEARCH_BYTES);
        let mut many = forged(10_000);
        many.extend(one_batch(3, 50));
        let mut search = Search::default();
        assert_eq!(search.next(&many, 1, 0).map(|(_, header)| header.first_sequence), Some(3));
        assert!(search.budget < 2 << 20);
    }

    #[test]
    fn one_scan_has_one_budget() {
        // Between any two forged headers a batch is found: the cost must not begin anew behind each.
        let promise = one_batch(u64::MAX >> 1, 1 << 20);
        let mut bytes = Vec::new();
        for sequence in 0..500 {
            bytes.extend_from_slice(&[0xff; 7]);
            bytes.extend_from_slice(&promise[..batch::HEADER_BYTES]);
            bytes.extend(one_batch(sequence, 8));
        }
        bytes.resize(bytes.len() + (2 << 20), 0);
        let scan = scan_region(&bytes, 0, 0, 0);
        assert!(scan.batches > 60 && scan.batches < 100, "{} batches", scan.batches);
    }
}
