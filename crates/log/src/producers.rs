//! The last batch of each producer: by it one that is sent again is known.
//!
//! The table is kept in memory and found again by scanning the last log file; what older files say is in the file
//! `producers`, which is written before a log file is rolled. So it survives that log files are sealed and removed.

use crate::error::LogError;
use crate::files::LogDir;
use crate::format::{FILE_HEADER_BYTES, FileHeader, FileKind, HEADER, at, index_crc, put, u32_at, u64_at};
use crate::storage::{Storage, read_all};
use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::path::Path;
use tapedb_codec::batch::BatchHeader;

/// Producers that are remembered: those who appended last.
pub const PRODUCERS_MAX: usize = 4096;

const FILE: &str = "producers";
const DRAFT: &str = "producers.tmp";
/// Bytes of one producer in the file.
const ENTRY_BYTES: usize = 32;
const FILE_MAX: u64 = FILE_HEADER_BYTES + (PRODUCERS_MAX * ENTRY_BYTES) as u64;

/// The last batch of a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastBatch {
    pub(crate) number: u64,
    pub(crate) first_sequence: u64,
    pub(crate) next_sequence: u64,
}

/// The last batch of each producer. Always true: there are at most [`PRODUCERS_MAX`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Producers {
    last: HashMap<u64, LastBatch>,
    /// Whether it has changed since it was written.
    changed: bool,
}

impl Producers {
    /// Notes a batch that is in the log.
    pub(crate) fn note(&mut self, header: &BatchHeader) {
        if header.producer == 0 {
            return;
        }
        let Range { start: first_sequence, end: next_sequence } = header.sequences();
        let batch = LastBatch { number: header.producer_number, first_sequence, next_sequence };
        self.add(header.producer, batch);
    }

    /// Takes over what another table says.
    pub(crate) fn extend(&mut self, other: &Self) {
        other.last.iter().for_each(|(producer, batch)| self.add(*producer, *batch));
    }

    /// Forgets batches that are not in the log, which ends before `next_sequence`: a power cut took them.
    pub(crate) fn end_at(&mut self, next_sequence: u64) {
        self.last.retain(|_, batch| batch.next_sequence <= next_sequence);
    }

    /// The sequence numbers of a batch that is in the log; of one before the producer's last the empty range where that
    /// begins. `None`: it is new.
    pub(crate) fn sequences(&self, header: &BatchHeader) -> Option<Range<u64>> {
        let last = self.last.get(&header.producer).filter(|_| header.producer != 0)?;
        match header.producer_number {
            number if number == last.number => Some(last.first_sequence..last.next_sequence),
            number if number < last.number => Some(last.first_sequence..last.first_sequence),
            _ => None,
        }
    }

    /// The last batch of a producer.
    pub(crate) fn last(&self, producer: u64) -> Option<LastBatch> {
        self.last.get(&producer).copied()
    }

    fn add(&mut self, producer: u64, batch: LastBatch) {
        if self.last.get(&producer).is_some_and(|known| known.number >= batch.number) {
            return;
        }
        self.changed = true;
        self.last.insert(producer, batch);
        if self.last.len() > PRODUCERS_MAX {
            let oldest = self.last.iter().min_by_key(|(_, batch)| batch.next_sequence);
            if let Some(oldest) = oldest.map(|(producer, _)| *producer) {
                self.last.remove(&oldest);
            }
        }
    }

    /// Reads the file; without a good one nothing is known.
    pub(crate) fn read(dir: &LogDir) -> Self {
        let file = dir.storage.open_read(&dir.path.join(FILE));
        let content = file.and_then(|file| read_all(&*file, FILE_MAX)).unwrap_or_default();
        Self::parse(&content, &FileHeader::new(dir.stream_id, dir.space, 0)).unwrap_or_default()
    }

    /// Writes the file if there is something new to say, whole or not at all, and puts it on the disk.
    pub(crate) fn write(&mut self, dir: &LogDir) -> Result<(), LogError> {
        if !self.changed {
            return Ok(());
        }
        let path = dir.path.join(FILE);
        let bytes = self.bytes(&FileHeader::new(dir.stream_id, dir.space, 0));
        replace(&*dir.storage, &dir.path, &path, &bytes).map_err(|e| LogError::io("write", &path, e))?;
        self.changed = false;
        Ok(())
    }

    fn bytes(&self, header: &FileHeader) -> Vec<u8> {
        let mut out = header.open_bytes(FileKind::Producers).to_vec();
        put(&mut out, at::GRANULE_COUNT, &(self.last.len() as u32).to_le_bytes());
        let mut entries: Vec<_> = self.last.iter().collect();
        entries.sort_unstable_by_key(|(producer, _)| **producer);
        for (producer, LastBatch { number, first_sequence, next_sequence }) in entries {
            for field in [producer, number, first_sequence, next_sequence] {
                out.extend_from_slice(&field.to_le_bytes());
            }
        }
        let checksum = index_crc(&out);
        put(&mut out, at::HEADER_CRC, &checksum.to_le_bytes());
        out
    }

    fn parse(bytes: &[u8], header: &FileHeader) -> Option<Self> {
        let (head, entries) = bytes.split_at_checked(HEADER)?;
        let (entries, rest) = entries.as_chunks::<ENTRY_BYTES>();
        let whole = head.starts_with(FileKind::Producers.magic())
            && u32_at(head, at::HEADER_CRC) == index_crc(bytes)
            && FileHeader::decode(head) == *header
            && entries.len() == u32_at(head, at::GRANULE_COUNT) as usize
            && rest.is_empty();
        let entry = |entry: &[u8; ENTRY_BYTES]| {
            let [producer, number, first_sequence, next_sequence] =
                [0, 8, 16, 24].map(|at| u64_at(entry, at));
            (producer, LastBatch { number, first_sequence, next_sequence })
        };
        whole.then(|| Self { last: entries.iter().map(entry).collect(), changed: false })
    }
}

fn replace(storage: &dyn Storage, dir: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let draft = dir.join(DRAFT);
    storage.write(&draft, bytes)?;
    storage.sync_file(&draft)?;
    storage.rename(&draft, path)?;
    storage.sync_dir(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(producer: u64, producer_number: u64, first_sequence: u64) -> BatchHeader {
        BatchHeader { producer, producer_number, first_sequence, count: 10, ..BatchHeader::default() }
    }

    #[test]
    fn batches_that_are_there_are_known_by_their_number() {
        let mut producers = Producers::default();
        producers.note(&header(7, 1, 0));
        producers.note(&header(7, 2, 10));
        producers.note(&header(0, 0, 20));
        assert_eq!(producers.sequences(&header(7, 2, 0)), Some(10..20));
        assert_eq!(producers.sequences(&header(7, 1, 0)), Some(10..10));
        assert_eq!(
            (producers.sequences(&header(7, 3, 0)), producers.sequences(&header(8, 1, 0))),
            (None, None)
        );
        assert_eq!(producers.sequences(&header(0, 0, 0)), None);
        producers.end_at(19);
        assert_eq!(producers.sequences(&header(7, 2, 0)), None);
    }

    #[test]
    fn the_newest_are_remembered() {
        let mut producers = Producers::default();
        for producer in 1..=PRODUCERS_MAX as u64 + 3 {
            producers.note(&header(producer, 1, producer * 10));
        }
        assert_eq!(producers.last.len(), PRODUCERS_MAX);
        assert_eq!((producers.last(3), producers.last(4).is_some()), (None, true));
    }

    #[test]
    fn a_file_is_believed_only_whole_and_for_its_own_log() {
        let mut producers = Producers::default();
        producers.note(&header(0x0123_4567_89ab_cdef, 3, 42));
        let owner = FileHeader::new(7, 1, 0);
        let bytes = producers.bytes(&owner);
        assert_eq!(Producers::parse(&bytes, &owner).unwrap().last, producers.last);
        assert!(Producers::parse(&bytes, &FileHeader::new(7, 2, 0)).is_none());
        for bit in 0..bytes.len() * 8 {
            let mut broken = bytes.clone();
            broken[bit / 8] ^= 1 << (bit % 8);
            assert!(Producers::parse(&broken, &owner).is_none(), "bit {bit}");
        }
    }
}
