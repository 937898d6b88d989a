//! The last batch of each producer, by which batches that are sent again are recognized.
//!
//! The table is in memory and is rebuilt by scanning the last log file. The batches of older files are in the file
//! `producers`, which is written before a log file is rolled, so they survive the removal of log files.
//!
//! A producer that is a request ([`REQUEST`]) ends when it is stored. There are many of them, so they have a table of their own, and never
//! push out a producer that goes on.

use crate::directory::LogDir;
use crate::error::LogError;
use crate::format::{
    FILE_HEADER_BYTES, FileHeader, FileKind, HEADER, PRODUCERS_DRAFT, PRODUCERS_FILE, at, index_crc,
};
use crate::storage::{read_all, replace};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::ops::Range;
use tapedb_codec::batch::BatchHeader;
use tapedb_codec::bytes::{put, u32_at, u64_at};

/// Number of producers in the table: those that appended last.
pub const PRODUCERS_MAX: usize = 65_536;

/// Number of requests in the table: those that were appended last.
pub const REQUESTS_MAX: usize = 65_536;

/// Bit of the producer number of a batch that is part of a request.
pub const REQUEST: u64 = 1 << 63;

/// The version that is written: it has the content of each batch, to tell it from another with its number.
const VERSION: u16 = 2;
/// Bytes of one producer in the file, and in one of version 1.
const ENTRY_BYTES: usize = 40;
const ENTRY_BYTES_1: usize = 32;
const FILE_MAX: u64 = FILE_HEADER_BYTES + ((PRODUCERS_MAX + REQUESTS_MAX) * ENTRY_BYTES) as u64;

/// In the file, for a batch of which only the number is known: no payload has so many bytes.
const UNKNOWN: Content = Content { bytes: u32::MAX, crc: 0 };

/// The last batch of a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastBatch {
    pub(crate) number: u64,
    pub(crate) first_sequence: u64,
    pub(crate) next_sequence: u64,
    pub(crate) content: Option<Content>,
}

/// Identifies a batch among others with its number: length and checksum of the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    bytes: u32,
    crc: u32,
}

impl Content {
    fn of(header: &BatchHeader) -> Self {
        Self { bytes: header.payload_len, crc: header.payload_crc }
    }
}

/// Whether a batch that a producer sends is stored already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Receipt {
    /// It is new.
    New,
    /// It is in the log, with these sequence numbers; for a batch before the producer's last one, the empty range at the
    /// beginning of that.
    Stored(Range<u64>),
    /// Another batch with its number is in the log.
    Conflict,
}

/// The last batch of each producer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Producers {
    lasting: Newest,
    requests: Newest,
    /// Whether the table has changed since it was written.
    changed: bool,
}

/// The producers that appended last. Always true: there are at most `most`, and `by_age` has each of them under the sequence number
/// after its last batch, which no two batches of a log share.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Newest {
    last: HashMap<u64, LastBatch>,
    by_age: BTreeMap<u64, u64>,
    most: usize,
}

impl Newest {
    fn new(most: usize) -> Self {
        Self { last: HashMap::new(), by_age: BTreeMap::new(), most }
    }

    /// Whether the batch is newer than what was recorded of its producer.
    fn add(&mut self, producer: u64, batch: LastBatch) -> bool {
        match self.last.get(&producer) {
            Some(last) if last.number >= batch.number => return false,
            Some(last) => drop(self.by_age.remove(&last.next_sequence)),
            None => {}
        }
        self.last.insert(producer, batch);
        if let Some(other) = self.by_age.insert(batch.next_sequence, producer)
            && other != producer
        {
            // Only in a damaged file: two producers with one batch.
            self.last.remove(&other);
        }
        while self.last.len() > self.most
            && let Some((_, oldest)) = self.by_age.pop_first()
        {
            self.last.remove(&oldest);
        }
        true
    }

    fn end_at(&mut self, next_sequence: u64) {
        self.last.retain(|_, batch| batch.next_sequence <= next_sequence);
        self.by_age.retain(|end, _| *end <= next_sequence);
    }
}

impl Default for Producers {
    fn default() -> Self {
        Self { lasting: Newest::new(PRODUCERS_MAX), requests: Newest::new(REQUESTS_MAX), changed: false }
    }
}

impl Producers {
    /// Records a batch that is in the log.
    pub(crate) fn record(&mut self, header: &BatchHeader) {
        if header.producer == 0 {
            return;
        }
        let Range { start: first_sequence, end: next_sequence } = header.sequences();
        let content = Some(Content::of(header));
        let batch = LastBatch { number: header.producer_number, first_sequence, next_sequence, content };
        self.add(header.producer, batch);
    }

    /// Adds the batches of another table.
    pub(crate) fn extend(&mut self, other: &Self) {
        let newest = [&other.lasting, &other.requests];
        newest
            .iter()
            .flat_map(|newest| &newest.last)
            .for_each(|(producer, batch)| self.add(*producer, *batch));
    }

    /// Removes batches that a power cut has taken from the log, which ends before `next_sequence`.
    pub(crate) fn end_at(&mut self, next_sequence: u64) {
        self.lasting.end_at(next_sequence);
        self.requests.end_at(next_sequence);
    }

    /// Whether a batch is stored.
    pub(crate) fn receipt(&self, header: &BatchHeader) -> Receipt {
        let last = self.newest(header.producer_number).last.get(&header.producer);
        let Some(last) = last.filter(|_| header.producer != 0) else {
            return Receipt::New;
        };
        let is_other = || last.content.is_some_and(|content| content != Content::of(header));
        match header.producer_number {
            number if number == last.number && is_other() => Receipt::Conflict,
            number if number == last.number => Receipt::Stored(last.first_sequence..last.next_sequence),
            number if number < last.number => Receipt::Stored(last.first_sequence..last.first_sequence),
            _ => Receipt::New,
        }
    }

    /// The last batch of a producer that is no request.
    pub(crate) fn last(&self, producer: u64) -> Option<LastBatch> {
        self.lasting.last.get(&producer).copied()
    }

    /// The last batch of a request.
    pub(crate) fn last_of_request(&self, producer: u64) -> Option<LastBatch> {
        self.requests.last.get(&producer).copied()
    }

    /// Those of the kind of a producer number.
    fn newest(&self, number: u64) -> &Newest {
        if number & REQUEST == 0 { &self.lasting } else { &self.requests }
    }

    fn add(&mut self, producer: u64, batch: LastBatch) {
        let newest = if batch.number & REQUEST == 0 { &mut self.lasting } else { &mut self.requests };
        self.changed |= newest.add(producer, batch);
    }

    /// Reads the file; a missing or damaged one gives an empty table.
    pub(crate) fn read(dir: &LogDir) -> Self {
        let file = dir.storage.open_read(&dir.path.join(PRODUCERS_FILE));
        let content = file.and_then(|file| read_all(&*file, FILE_MAX)).unwrap_or_default();
        Self::parse(&content, &FileHeader::new(dir.stream_id, dir.space, 0)).unwrap_or_default()
    }

    /// Whether the file is missing, or valid and of this log.
    pub(crate) fn is_sound(dir: &LogDir) -> bool {
        let file = match dir.storage.open_read(&dir.path.join(PRODUCERS_FILE)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return true,
            file => file,
        };
        let content = file.and_then(|file| read_all(&*file, FILE_MAX)).unwrap_or_default();
        Self::parse(&content, &FileHeader::new(dir.stream_id, dir.space, 0)).is_some()
    }

    /// Writes and syncs the file if the table has changed, whole or not at all.
    pub(crate) fn write(&mut self, dir: &LogDir) -> Result<(), LogError> {
        if !self.changed {
            return Ok(());
        }
        let path = dir.path.join(PRODUCERS_FILE);
        let header = FileHeader { version: VERSION, ..FileHeader::new(dir.stream_id, dir.space, 0) };
        let bytes = self.bytes(&header);
        replace(&*dir.storage, (&dir.path, PRODUCERS_DRAFT), &path, &bytes)
            .map_err(|e| LogError::io("write", &path, e))?;
        self.changed = false;
        Ok(())
    }

    fn bytes(&self, header: &FileHeader) -> Vec<u8> {
        let mut out = header.open_bytes(FileKind::Producers).to_vec();
        let mut entries: Vec<_> = self.lasting.last.iter().chain(&self.requests.last).collect();
        put(&mut out, at::GRANULE_COUNT, &(entries.len() as u32).to_le_bytes());
        entries.sort_unstable_by_key(|(producer, batch)| (**producer, batch.number));
        for (producer, LastBatch { number, first_sequence, next_sequence, content }) in entries {
            for field in [producer, number, first_sequence, next_sequence] {
                out.extend_from_slice(&field.to_le_bytes());
            }
            let Content { bytes, crc } = content.unwrap_or(UNKNOWN);
            out.extend_from_slice(&bytes.to_le_bytes());
            out.extend_from_slice(&crc.to_le_bytes());
        }
        let checksum = index_crc(&out);
        put(&mut out, at::HEADER_CRC, &checksum.to_le_bytes());
        out
    }

    fn parse(bytes: &[u8], header: &FileHeader) -> Option<Self> {
        let (head, entries) = bytes.split_at_checked(HEADER)?;
        let found = FileHeader::decode(head);
        let entry_bytes = if found.version < VERSION { ENTRY_BYTES_1 } else { ENTRY_BYTES };
        let whole = head.starts_with(FileKind::Producers.magic())
            && u32_at(head, at::HEADER_CRC) == index_crc(bytes)
            && found.version <= VERSION
            && found.is_of(header)
            && entries.len() == u32_at(head, at::GRANULE_COUNT) as usize * entry_bytes;
        let entry = |entry: &[u8]| {
            let [producer, number, first_sequence, next_sequence] =
                [0, 8, 16, 24].map(|at| u64_at(entry, at));
            let content = (entry.len() == ENTRY_BYTES)
                .then(|| Content { bytes: u32_at(entry, 32), crc: u32_at(entry, 36) })
                .filter(|content| *content != UNKNOWN);
            (producer, LastBatch { number, first_sequence, next_sequence, content })
        };
        whole.then(|| {
            let mut producers = Self::default();
            entries
                .chunks_exact(entry_bytes)
                .map(entry)
                .for_each(|(producer, batch)| producers.add(producer, batch));
            producers.changed = false;
            producers
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(producer: u64, producer_number: u64, first_sequence: u64) -> BatchHeader {
        BatchHeader { producer, producer_number, first_sequence, count: 10, ..BatchHeader::default() }
    }

    #[test]
    fn stored_batches_are_recognized_by_number_and_content() {
        let mut producers = Producers::default();
        producers.record(&header(7, 1, 0));
        producers.record(&header(7, 2, 10));
        producers.record(&header(0, 0, 20));
        assert_eq!(producers.receipt(&header(7, 2, 0)), Receipt::Stored(10..20));
        assert_eq!(producers.receipt(&header(7, 1, 0)), Receipt::Stored(10..10));
        for other in [
            BatchHeader { payload_crc: 5, ..header(7, 2, 0) },
            BatchHeader { payload_len: 5, ..header(7, 2, 0) },
        ] {
            assert_eq!(producers.receipt(&other), Receipt::Conflict);
        }
        for new in [header(7, 3, 0), header(8, 1, 0), header(0, 0, 0)] {
            assert_eq!(producers.receipt(&new), Receipt::New);
        }
        producers.end_at(19);
        assert_eq!(producers.receipt(&header(7, 2, 0)), Receipt::New);
    }

    #[test]
    fn a_file_of_version_1_has_only_numbers() {
        let owner = FileHeader::new(7, 1, 0);
        let mut bytes = owner.open_bytes(FileKind::Producers).to_vec();
        put(&mut bytes, at::GRANULE_COUNT, &1_u32.to_le_bytes());
        [5_u64, 3, 42, 44].iter().for_each(|field| bytes.extend_from_slice(&field.to_le_bytes()));
        let checksum = index_crc(&bytes);
        put(&mut bytes, at::HEADER_CRC, &checksum.to_le_bytes());
        let producers = Producers::parse(&bytes, &owner).unwrap();
        assert_eq!(producers.receipt(&header(5, 3, 0)), Receipt::Stored(42..44));
        // The content stays unknown when the file is written again.
        let owner = FileHeader { version: VERSION, ..owner };
        let again = Producers::parse(&producers.bytes(&owner), &owner).unwrap();
        assert_eq!(again, producers);
    }

    #[test]
    fn the_newest_producers_stay() {
        let mut producers = Producers::default();
        for producer in 1..=PRODUCERS_MAX as u64 + 3 {
            producers.record(&header(producer, 1, producer * 10));
        }
        assert_eq!(producers.lasting.last.len(), PRODUCERS_MAX);
        assert_eq!((producers.last(3), producers.last(4).is_some()), (None, true));
        // One that appends again is new again.
        producers.record(&header(4, 2, 1 << 30));
        producers.record(&header(1 << 40, 1, 2 << 30));
        assert_eq!((producers.last(4).is_some(), producers.last(5)), (true, None));
    }

    #[test]
    fn requests_never_push_out_producers_that_go_on() {
        let mut producers = Producers::default();
        producers.record(&header(1, 7, 0));
        for request in 1..=REQUESTS_MAX as u64 + 3 {
            producers.record(&header(request, REQUEST | 10, request * 10));
        }
        assert_eq!(producers.last(1).map(|last| last.number), Some(7));
        assert_eq!(producers.last_of_request(3), None);
        assert_eq!(producers.last_of_request(4).map(|last| last.number), Some(REQUEST | 10));
        assert_eq!(producers.receipt(&header(1, 8, 0)), Receipt::New);
        let owner = FileHeader { version: VERSION, ..FileHeader::new(7, 1, 0) };
        let bytes = producers.bytes(&owner);
        assert!(bytes.len() as u64 <= FILE_MAX);
        let read = Producers::parse(&bytes, &owner).unwrap();
        assert_eq!(read, Producers { changed: false, ..producers });
    }

    #[test]
    fn a_file_is_used_only_whole_and_for_its_own_log() {
        let mut producers = Producers::default();
        producers.record(&header(0x0123_4567_89ab_cdef, 3, 42));
        let owner = FileHeader { version: VERSION, ..FileHeader::new(7, 1, 0) };
        let bytes = producers.bytes(&owner);
        assert_eq!(
            Producers::parse(&bytes, &owner).unwrap(),
            Producers { changed: false, ..producers.clone() }
        );
        assert!(Producers::parse(&bytes, &FileHeader::new(7, 2, 0)).is_none());
        for bit in 0..bytes.len() * 8 {
            let mut broken = bytes.clone();
            broken[bit / 8] ^= 1 << (bit % 8);
            assert!(Producers::parse(&broken, &owner).is_none(), "bit {bit}");
        }
    }
}
