//! Searches for the next whole batch after damage. Pure, as `scan.rs`.
//!
//! The searched bytes may be a body, and a body may contain anything, even a batch with valid checksums. These rules
//! prevent that a part of a body is accepted:
//!
//! * A batch must have the mark of its offset (`marks.rs`). From version 2 on that is proof.
//! * Its sequence numbers are not below the expected one, nor further above it than the bytes in between can hold.
//! * Where marks are no proof (version 1, and files whose header is lost), a header with one wrong bit is corrected, which
//!   gives the length of the damaged batch, so its body is skipped. And a batch must be followed by a batch with the next
//!   sequence number, by preallocated space, or by the end of the file.

use crate::format::FILE_HEADER_BYTES;
use crate::marks::{MARK_BYTES, Marks};
use std::ops::{Range, RangeInclusive};
use tapedb_codec::batch::{self, BatchError, BatchHeader, HEADER_BYTES, MAX_BATCH_MESSAGES};
use tapedb_codec::bytes::{u32_at, u64_at};

/// Bytes of bad payloads that one search reads through after checking them: four of the largest batches.
pub(crate) const SEARCH_BYTES: usize = 4 * batch::MAX_BATCH_BYTES;

/// The position of searched bytes: a log file, and the offset of the first byte.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Region {
    pub file: u64,
    pub offset: u64,
    pub marks: Marks,
}

impl Region {
    /// The whole batch at `at`: with its mark, valid checksums, and a sequence number that is possible at this offset.
    pub fn check(&self, bytes: &[u8], at: usize) -> Result<BatchHeader, BatchError> {
        let header = self.header(bytes, at)?;
        let end = header.batch_bytes().min(bytes.len() - at);
        batch::verify_payload(&header, &bytes[at + HEADER_BYTES..at + end])?;
        Ok(header)
    }

    fn header(&self, bytes: &[u8], at: usize) -> Result<BatchHeader, BatchError> {
        let (rest, offset) = (&bytes[at..], self.offset + at as u64);
        if rest.len() >= MARK_BYTES && !self.marks.fits(offset, rest) {
            return Err(BatchError::Magic { have: u32_at(rest, 0) });
        }
        let header = BatchHeader::parse_stored(rest)?;
        let first_sequence = header.first_sequence;
        let before = offset.saturating_sub(FILE_HEADER_BYTES);
        if first_sequence > self.file.saturating_add(messages_max(before)) {
            let (field, need) = ("first_sequence", "one that is possible at this offset");
            return Err(BatchError::Field { offset: 16, field, need, have: first_sequence });
        }
        Ok(header)
    }

    /// The header of the bad batch at `at`, if it is valid or can be corrected: it gives the end of the batch.
    fn header_of_bad(&self, bytes: &[u8], at: usize, expected: u64) -> Option<BatchHeader> {
        let rest = &bytes[at..];
        let found = BatchHeader::parse_stored(rest).ok();
        found.or_else(|| (!self.marks.are_proof()).then(|| correct(rest, expected)).flatten())
    }

    /// The first offset after the bad batch at `at` that may begin a batch: bodies of known length are skipped.
    fn after_bad(&self, bytes: &[u8], mut at: usize, mut expected: u64) -> usize {
        let bad = at;
        while at < bytes.len() {
            let region = Self { offset: self.offset + at as u64, ..*self };
            match region.step_after_bad(&bytes[at..], at == bad, expected) {
                Some(header) => (at, expected) = (at + header.batch_bytes(), header.next_sequence()),
                None => break,
            }
        }
        at.max(bad + 1)
    }

    /// The header of the batch at the start of `bytes` if the batch is bad (the first one is) and its length is known.
    pub fn step_after_bad(&self, bytes: &[u8], is_first: bool, expected: u64) -> Option<BatchHeader> {
        if !is_first && self.check(bytes, 0).is_ok() {
            return None;
        }
        self.header_of_bad(bytes, 0, expected)
    }

    /// Whether the bytes at `end` continue a batch that ends there: see the module.
    fn is_continued(&self, bytes: &[u8], end: usize, next_sequence: u64) -> bool {
        let rest = bytes.get(end..).unwrap_or_default();
        if rest.iter().take(HEADER_BYTES).all(|byte| *byte == 0) {
            return true;
        }
        let Ok(header) = self.header(bytes, end) else {
            // The first part of a header: an unfinished append.
            let offset = self.offset + end as u64;
            return rest.len() < HEADER_BYTES
                && rest.len() >= 24
                && self.marks.fits(offset, rest)
                && u64_at(rest, 16) == next_sequence;
        };
        header.first_sequence == next_sequence
    }
}

/// Most messages in so many bytes.
fn messages_max(bytes: u64) -> u64 {
    (bytes / HEADER_BYTES as u64).saturating_mul(MAX_BATCH_MESSAGES as u64)
}

/// The header at the start of `bytes` with one bit corrected, if it then has the expected number and its payload is valid.
fn correct(bytes: &[u8], expected: u64) -> Option<BatchHeader> {
    let mut head = *bytes.first_chunk::<HEADER_BYTES>()?;
    (MARK_BYTES * 8..HEADER_BYTES * 8).find_map(|bit| {
        head[bit / 8] ^= 1 << (bit % 8);
        let header = BatchHeader::parse_stored(&head);
        head[bit / 8] ^= 1 << (bit % 8);
        let header = header.ok().filter(|header| header.first_sequence == expected)?;
        let payload = bytes.get(HEADER_BYTES..header.batch_bytes())?;
        batch::verify_payload(&header, payload).ok().map(|()| header)
    })
}

/// Bounds of the sequence number of a batch after damage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AfterDamage {
    /// The sequence number at which the damage begins.
    pub expected: u64,
    /// The offset at which it begins.
    pub offset: u64,
}

impl AfterDamage {
    /// For a search for any batch.
    const ANY: Self = Self { expected: u64::MAX, offset: 0 };

    fn is_any(&self) -> bool {
        self.expected == u64::MAX
    }

    fn sequences(&self, offset: u64) -> RangeInclusive<u64> {
        if self.is_any() {
            return 0..=u64::MAX;
        }
        self.expected..=self.expected.saturating_add(messages_max(offset - self.offset))
    }
}

/// Searches for whole batches after damage.
#[derive(Clone, Debug)]
pub(crate) struct Search {
    /// Bytes of bad payloads that may still be checked and then searched for other batches.
    budget: usize,
}

impl Default for Search {
    fn default() -> Self {
        Self { budget: SEARCH_BYTES }
    }
}

impl Search {
    /// The next whole batch after the bad one at `bad`; `expected` is the sequence number at which the damage begins.
    pub fn next(
        &mut self,
        region: Region,
        bytes: &[u8],
        bad: usize,
        expected: u64,
    ) -> Option<(usize, BatchHeader)> {
        let after = AfterDamage { expected, offset: region.offset + bad as u64 };
        let from = region.after_bad(bytes, bad, expected);
        self.next_before(region, bytes, from..bytes.len(), after).ok()
    }

    /// The first whole batch, with any sequence number.
    pub fn first(&mut self, region: Region, bytes: &[u8]) -> Option<(usize, BatchHeader)> {
        self.next_before(region, bytes, 0..bytes.len(), AfterDamage::ANY).ok()
    }

    /// [`Search::next`] for batches that begin within a range; else the first offset that was not searched.
    pub fn next_before(
        &mut self,
        region: Region,
        bytes: &[u8],
        range: Range<usize>,
        after: AfterDamage,
    ) -> Result<(usize, BatchHeader), usize> {
        let mut at = range.start;
        while let Some(found) = next_marked(region, bytes, at..range.end) {
            at = found;
            at += match region.header(bytes, at) {
                Ok(header) if after.sequences(region.offset + at as u64).contains(&header.first_sequence) => {
                    match is_batch((region, after.is_any()), bytes, at, &header) {
                        true => return Ok((at, header)),
                        false => self.step_after(&header, bytes.len() - at),
                    }
                }
                _ => 1,
            };
        }
        Err(at.max(range.end))
    }

    /// Bytes to skip after a valid header with a bad payload. The header may be part of a message, so its payload may
    /// contain batches. But in a file full of such headers, every byte would be checked once for each header before it.
    /// So when the budget is used up, the whole payload is skipped.
    fn step_after(&mut self, header: &BatchHeader, have: usize) -> usize {
        let bytes = header.batch_bytes();
        if bytes > have {
            // Nothing was checked: the payload is incomplete.
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

/// Whether a valid header, found by searching, begins a batch.
fn is_batch((region, is_any): (Region, bool), bytes: &[u8], at: usize, header: &BatchHeader) -> bool {
    let end = at + header.batch_bytes();
    let Some(payload) = bytes.get(at + HEADER_BYTES..end) else { return false };
    batch::verify_payload(header, payload).is_ok()
        && (is_any || region.marks.are_proof() || region.is_continued(bytes, end, header.next_sequence()))
}

/// The first offset in a range with the mark of a batch.
fn next_marked(region: Region, bytes: &[u8], range: Range<usize>) -> Option<usize> {
    let end = range.end.min((bytes.len() + 1).saturating_sub(MARK_BYTES));
    match region.marks {
        Marks::Magic => {
            let magic = batch::MAGIC.to_le_bytes();
            let starts = bytes.get(range.start..(end + MARK_BYTES - 1).min(bytes.len()))?;
            starts.windows(MARK_BYTES).position(|window| window == magic).map(|at| range.start + at)
        }
        Marks::Keyed(_) => {
            (range.start..end).find(|&at| region.marks.fits(region.offset + at as u64, &bytes[at..]))
        }
        Marks::Unknown => (range.start..end).find(|&at| bytes[at] != 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_batches::one_batch;

    fn next(search: &mut Search, bytes: &[u8]) -> Option<(usize, BatchHeader)> {
        search.next(Region { file: 0, offset: 64, marks: Marks::Magic }, bytes, 0, 0)
    }

    /// Headers that each claim the next mebibyte as payload, and a whole batch after them.
    fn forged(headers: usize) -> Vec<u8> {
        let forged = one_batch(1, 1 << 20);
        let mut bytes = vec![0xff; 10];
        for _ in 0..headers {
            bytes.extend_from_slice(&forged[..HEADER_BYTES]);
        }
        bytes.extend(one_batch(2, 50));
        bytes.resize(bytes.len() + (2 << 20), 0);
        bytes
    }

    #[test]
    fn a_search_reads_payloads_of_forged_headers_until_its_budget_is_used_up() {
        let few = forged(20);
        let mut search = Search::default();
        assert_eq!(next(&mut search, &few).map(|(_, header)| header.first_sequence), Some(2));
        assert!(search.budget < SEARCH_BYTES);
        let mut many = forged(10_000);
        many.extend(one_batch(3, 50));
        let mut search = Search::default();
        assert_eq!(next(&mut search, &many).map(|(_, header)| header.first_sequence), Some(3));
        assert!(search.budget < 2 << 20);
    }
}
