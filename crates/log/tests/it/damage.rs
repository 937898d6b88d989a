//! Flipped bits and random bytes are found and reported, and only the batches they hit cannot be read.

use crate::support::{self, *};
use proptest::prelude::*;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use tapedb_log::sim::SimStorage;
use tapedb_log::{
    DiskStorage, Durability, Found, Log, LogError, LogOptions, LogWriter, Reason, Storage, SymbolFile, Walk,
    scan_bytes,
};

const BATCHES: u64 = 24;
const PER_BATCH: u64 = 3;
const ALL: u64 = BATCHES * PER_BATCH;

/// Several files, the older ones with an index; small enough to break every byte.
fn log_on_disk() -> SimStorage {
    let disk = SimStorage::new(1);
    let (mut writer, _) = writer(&disk, options(Durability::Sync, 1_200)).unwrap();
    for _ in 0..BATCHES {
        append(&mut writer, PER_BATCH, 16).unwrap();
    }
    disk
}

fn copy(disk: &SimStorage) -> SimStorage {
    let twin = SimStorage::new(2);
    for path in disk.paths() {
        twin.set_content(&path, &disk.content(&path).unwrap());
    }
    twin
}

fn flip(disk: &SimStorage, path: &Path, byte: usize, bit: usize) -> SimStorage {
    let twin = copy(disk);
    let mut content = twin.content(path).unwrap();
    content[byte] ^= 1 << bit;
    twin.set_content(path, &content);
    twin
}

/// At most the batch that was hit is missing, and the damage is reported.
fn check_flip(disk: &SimStorage, what: &str) {
    let (log, by_reader) = reader(disk);
    let seen = read_all(&log);
    assert!(seen.sequences.len() as u64 >= ALL - PER_BATCH, "{what}: {by_reader}");
    let (mut writer, recovery) = writer(disk, options(Durability::Sync, 1_200)).unwrap();
    let found = read_all(writer.log());
    assert_eq!(found.sequences, seen.sequences, "{what}: {recovery}");
    let missing = ALL - found.sequences.len() as u64;
    assert!(missing == 0 || missing == PER_BATCH, "{what}: {missing} missing; {recovery}");
    let named = !recovery.is_clean() || !recovery.indexes_rebuilt.is_empty() || !found.damaged.is_empty();
    // A reader with an index does not check marks, and loses nothing by a wrong one; a walk checks them.
    assert!(named || missing == 0 && is_found_by_walk(disk), "{what}: not reported");
    append(&mut writer, 1, 8).unwrap();
}

/// Whether a walk through the files finds anything.
fn is_found_by_walk(disk: &SimStorage) -> bool {
    let mut walk = Walk::open(Arc::new(disk.clone()), dir(), STREAM, SPACE).unwrap();
    while let Some(found) = walk.next_found() {
        if !matches!(found, Found::File { .. } | Found::Batch(_) | Found::Preallocated { .. }) {
            return true;
        }
    }
    false
}

#[test]
fn a_flipped_bit_in_any_byte_of_any_file_costs_one_batch_at_most() {
    let disk = log_on_disk();
    let paths = disk.paths();
    assert!(paths.iter().filter(|p| p.extension().is_some_and(|e| e == "idx")).count() >= 2);
    for path in &paths {
        for byte in 0..disk.content(path).unwrap().len() {
            let bit = byte % 8;
            check_flip(&flip(&disk, path, byte, bit), &format!("{} byte {byte} bit {bit}", path.display()));
        }
    }
}

/// The same without indexes: everything is found by scanning.
#[test]
fn the_same_without_indexes() {
    let disk = log_on_disk();
    let logs: Vec<_> =
        disk.paths().into_iter().filter(|p| p.extension().is_some_and(|e| e == "log")).collect();
    let bare = SimStorage::new(3);
    for path in &logs {
        bare.set_content(path, &disk.content(path).unwrap());
    }
    for path in &logs {
        for byte in 0..bare.content(path).unwrap().len() {
            check_flip(&flip(&bare, path, byte, 7 - byte % 8), &format!("{} byte {byte}", path.display()));
        }
    }
}

#[test]
fn damage_in_the_middle_stays_and_is_reported() {
    let disk = SimStorage::new(4);
    let (mut writer, _) = writer(&disk, options(Durability::Sync, 1 << 20)).unwrap();
    let bytes = batch(0, 2, 30).len();
    for _ in 0..5 {
        append(&mut writer, 2, 30).unwrap();
    }
    drop(writer);
    // Opening cuts preallocated space off.
    drop(support::writer(&disk, options(Durability::Sync, 1 << 20)).unwrap());
    let path = dir().join("00000000000000000000.log");
    let hit = 64 + 2 * bytes + 90;
    let broken = flip(&disk, &path, hit, 3);
    let (writer, recovery) = support::writer(&broken, options(Durability::Sync, 1 << 20)).unwrap();
    let damage = recovery.damaged[0];
    assert_eq!((damage.offset, damage.bytes), ((64 + 2 * bytes) as u64, bytes as u64));
    assert_eq!((damage.first_sequence, damage.count), (4, Some(2)));
    assert!(recovery.to_string().contains("messages 4 to 5 cannot be read"), "{recovery}");
    assert_eq!(broken.content(&path).unwrap().len(), disk.content(&path).unwrap().len());
    let found = read_all(writer.log());
    assert_eq!(found.sequences, [0, 1, 2, 3, 6, 7, 8, 9]);
    let met = read_on(writer.log(), 5, 1 << 20);
    assert_eq!((met.sequences, met.damaged.len()), (vec![6, 7, 8, 9], 1));
}

#[test]
fn a_repeated_batch_is_reported_and_read_once() {
    let disk = log_on_disk();
    // Opening cuts preallocated space off.
    drop(writer(&disk, options(Durability::Sync, 1_200)).unwrap());
    let path = disk.paths().into_iter().rfind(|p| p.extension().is_some_and(|e| e == "log")).unwrap();
    let mut content = disk.content(&path).unwrap();
    let last = scan_bytes(&content).granules[0];
    let again = content[last.offset as usize..last.end() as usize].to_vec();
    content.extend_from_slice(&again);
    disk.set_content(&path, &content);
    let (writer, recovery) = writer(&disk, options(Durability::Sync, 1_200)).unwrap();
    // It is not at its offset, so it is no batch.
    assert!(recovery.damaged.is_empty() && recovery.cut[0].bytes == again.len() as u64, "{recovery}");
    assert!(read_all(writer.log()).sequences.into_iter().eq(0..ALL));
}

#[test]
fn a_missing_file_is_a_gap() {
    let disk = log_on_disk();
    let logs: Vec<_> =
        disk.paths().into_iter().filter(|p| p.extension().is_some_and(|e| e == "log")).collect();
    let twin = SimStorage::new(9);
    for path in disk.paths().iter().filter(|path| **path != logs[1]) {
        twin.set_content(path, &disk.content(path).unwrap());
    }
    let (writer, recovery) = writer(&twin, options(Durability::Sync, 1_200)).unwrap();
    let found = read_all(writer.log());
    let lost = ALL - found.sequences.len() as u64;
    assert_eq!((recovery.damaged.len(), recovery.damaged[0].reason), (1, Reason::Gap), "{recovery}");
    assert_eq!(recovery.damaged[0].count, Some(lost));
}

fn numbers(disk: &SimStorage, extension: &str) -> Vec<u64> {
    let ours = disk.paths().into_iter().filter(|path| path.extension().is_some_and(|e| e == extension));
    ours.map(|path| path.file_stem().unwrap().to_str().unwrap().parse().unwrap()).collect()
}

/// For every `first_sequence`: files that end before it are ignored by readers and removed by writers, and everything from
/// there on is read.
#[test]
fn a_log_begins_with_first_sequence() {
    let whole = log_on_disk();
    let files = numbers(&whole, "log");
    for first_sequence in 0..ALL + 5 {
        let disk = copy(&whole);
        let (log, by_reader) = reader_from(&disk, first_sequence);
        assert!(by_reader.is_clean() && numbers(&disk, "log") == files, "{by_reader}");
        let late = LogOptions { first_sequence, ..options(Durability::Sync, 1_200) };
        let (mut writer, recovery) = writer(&disk, late).unwrap();
        assert!(recovery.is_clean(), "{recovery}");
        let mut left: Vec<u64> = files.iter().copied().filter(|file| *file > first_sequence).collect();
        left.extend(files.iter().copied().rfind(|&file| file <= first_sequence && first_sequence < ALL));
        left.extend((first_sequence >= ALL).then_some(first_sequence));
        left.sort_unstable();
        assert_eq!(numbers(&disk, "log"), left, "from {first_sequence}");
        assert_eq!(numbers(&disk, "idx"), left[..left.len() - 1]);
        for log in [&log, writer.log()] {
            assert_eq!(
                (log.first_sequence(), log.next_sequence()),
                (first_sequence, ALL.max(first_sequence))
            );
            let found = read_on(log, first_sequence, 1).sequences;
            let begin = first_sequence / PER_BATCH * PER_BATCH;
            assert!(found.into_iter().eq(begin..ALL.max(begin)), "from {first_sequence}");
        }
        let end = ALL.max(first_sequence);
        assert_eq!(append(&mut writer, 1, 8).unwrap(), end..end + 1);
        assert!(log.refresh().unwrap());
        assert_eq!(log.next_sequence(), end + 1);
    }
}

#[test]
fn old_files_are_removed_only_if_they_are_of_this_log() {
    let disk = log_on_disk();
    let (files, indexes) = (numbers(&disk, "log"), numbers(&disk, "idx"));
    let path = dir().join(format!("{:020}.log", files[1]));
    let mut content = disk.content(&path).unwrap();
    content[..64].copy_from_slice(&header_of(STREAM + 1, files[1]));
    disk.set_content(&path, &content);
    let late = LogOptions { first_sequence: files[2], ..options(Durability::Sync, 1_200) };
    assert!(matches!(writer(&disk, late), Err(LogError::Foreign { .. })));
    assert!(numbers(&disk, "log").contains(&files[1]));
    // An index without a log file is removed.
    disk.remove(&path).unwrap();
    let (_, recovery) = writer(&disk, late).unwrap();
    assert!(recovery.is_clean() && numbers(&disk, "idx") == indexes[2..], "{recovery}");
}

/// The header of a log file.
fn header_of(stream_id: u64, first_sequence: u64) -> Vec<u8> {
    let disk = SimStorage::new(1);
    let options = LogOptions { first_sequence, ..LogOptions::new(stream_id, SPACE) };
    LogWriter::open(Arc::new(disk.clone()), dir(), options).unwrap();
    disk.content(&disk.paths()[0]).unwrap()
}

#[test]
fn a_missing_first_file_is_a_gap() {
    let disk = log_on_disk();
    let files = numbers(&disk, "log");
    disk.remove(&dir().join(format!("{:020}.log", files[0]))).unwrap();
    for first_sequence in [0, 1, files[1] - 1, files[1]] {
        let late = LogOptions { first_sequence, ..options(Durability::Sync, 1_200) };
        let (writer, recovery) = writer(&disk, late).unwrap();
        let (log, by_reader) = reader_from(&disk, first_sequence);
        for (log, recovery) in [(writer.log(), recovery), (&log, by_reader)] {
            let gaps: Vec<_> =
                recovery.damaged.iter().map(|d| (d.first_sequence, d.count, d.reason)).collect();
            let lost = files[1] - first_sequence;
            let expected = [(first_sequence, Some(lost), Reason::Gap)];
            assert_eq!(gaps, expected[..usize::from(lost > 0)], "{recovery}");
            let found = read_on(log, first_sequence, 1 << 20);
            assert!(found.sequences.into_iter().eq(files[1]..ALL));
            assert_eq!(found.damaged.len(), usize::from(lost > 0));
        }
    }
}

#[test]
fn files_of_another_stream_are_refused_and_unknown_files_ignored() {
    let disk = log_on_disk();
    disk.set_content(&dir().join("notes.txt"), b"mine");
    disk.set_content(&dir().join("1.log"), b"mine");
    disk.set_content(&dir().join("00000000000000000000.idx.tmp"), b"left over");
    let (_, recovery) = writer(&disk, options(Durability::Sync, 1_200)).unwrap();
    assert!(recovery.is_clean());
    assert!(disk.content(&dir().join("1.log")).is_some());
    assert!(disk.content(&dir().join("00000000000000000000.idx.tmp")).is_none());
    let other = Log::open(Arc::new(disk), dir(), STREAM + 1, SPACE, 0);
    assert!(matches!(other, Err(LogError::Foreign { .. })));
}

/// Sparse files: reading them whole would exhaust the memory.
#[test]
fn files_longer_than_the_limit_are_refused() {
    const TEBIBYTE: u64 = 1 << 40;
    let dir = tempfile::tempdir().unwrap();
    let space = dir.path().join("0");
    let open = || LogWriter::open(Arc::new(DiskStorage), &space, options(Durability::Async, 300));
    let (mut writer, _) = open().unwrap();
    for _ in 0..6 {
        append(&mut writer, 2, 60).unwrap();
    }
    drop(writer);
    let mut logs: Vec<_> = std::fs::read_dir(&space).unwrap().map(|entry| entry.unwrap().path()).collect();
    logs.retain(|path| path.extension().is_some_and(|e| e == "log"));
    logs.sort();
    let grow = |path: &Path| File::options().write(true).open(path).unwrap().set_len(TEBIBYTE).unwrap();

    grow(&logs[0].with_extension("idx"));
    let (_, recovery) = open().unwrap();
    assert_eq!((recovery.indexes_rebuilt.len(), recovery.messages), (1, 12), "{recovery}");

    let symbols = dir.path().join("symbols");
    SymbolFile::open_rw(&DiskStorage, &symbols, STREAM, Durability::Async).unwrap();
    grow(&symbols);
    let refused = SymbolFile::open_rw(&DiskStorage, &symbols, STREAM, Durability::Async).map(|_| ());
    assert!(refused.unwrap_err().to_string().contains("longer than 16 Mi names can be"));

    for path in [&logs[0], logs.last().unwrap()] {
        grow(path);
        let refused = open().map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains("longer than a log file can be"), "{refused}");
        assert!(Log::open(Arc::new(DiskStorage), &space, STREAM, SPACE, 0).is_err());
    }
}

proptest! {
    #[test]
    fn random_bytes_as_a_log_file(bytes in prop::collection::vec(any::<u8>(), 0..2_000)) {
        let scan = scan_bytes(&bytes);
        prop_assert_eq!(scan.batches, 0);
        let disk = SimStorage::new(1);
        disk.set_content(&dir().join("00000000000000000000.log"), &bytes);
        let (mut writer, recovery) = writer(&disk, options(Durability::Async, 5_000)).unwrap();
        prop_assert_eq!((recovery.messages, recovery.is_clean()), (0, bytes.is_empty()));
        append(&mut writer, 2, 20).unwrap();
        prop_assert_eq!(read_all(writer.log()).sequences, [0, 1]);
    }

    /// Whole batches in any order, repeated, with changed, cut and inserted bytes: a bounded run of the fuzz target.
    #[test]
    fn shuffled_and_broken_batches_never_panic(
        pieces in prop::collection::vec((0..40u64, 1..5u64, prop::collection::vec(any::<u8>(), 0..6)), 0..12),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = log_on_disk().content(&dir().join("00000000000000000000.log")).unwrap();
        for (first, count, junk) in pieces {
            let mut batch = batch(first, count, 8);
            tapedb_codec::batch::assign_sequence(&mut batch, first).unwrap();
            bytes.extend(batch.into_iter().chain(junk));
        }
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes.truncate(cut.index(bytes.len() + 1).max(bytes.len() / 2));
        let scan = scan_bytes(&bytes);
        let mut end = 0;
        for granule in &scan.granules {
            prop_assert!(granule.offset >= end && granule.end() <= bytes.len() as u64);
            end = granule.end();
        }
        let disk = SimStorage::new(1);
        disk.set_content(&dir().join("00000000000000000000.log"), &bytes);
        let (writer, recovery) = writer(&disk, options(Durability::Async, 1_200)).unwrap();
        let found = read_all(writer.log());
        prop_assert!(found.sequences.is_sorted_by(|a, b| a < b));
        prop_assert_eq!(found.sequences.len() as u64, recovery.messages);
        prop_assert_eq!(recovery.messages, scan.granules.iter().map(|g| g.count).sum::<u64>());
    }
}
