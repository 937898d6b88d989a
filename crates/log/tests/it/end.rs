//! The end record of a closed log: damage at the end is not taken for an unfinished append.

use crate::support::{self, *};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tapedb_log::sim::SimStorage;
use tapedb_log::{Durability, LogOptions, LogWriter, Reason, Storage, Walk};

fn options() -> LogOptions {
    support::options(Durability::Async, 900)
}

/// A log of several files that was closed.
fn closed(batches: u64) -> SimStorage {
    let disk = SimStorage::new(1);
    let mut writer = open(&disk).0;
    for _ in 0..batches {
        append(&mut writer, 3, 16).unwrap();
    }
    writer.close().unwrap();
    drop(writer);
    disk
}

fn open(disk: &SimStorage) -> (LogWriter, tapedb_log::Recovery) {
    writer(disk, options()).unwrap()
}

fn with(disk: &SimStorage, path: &Path, content: &[u8]) -> SimStorage {
    let twin = SimStorage::new(2);
    for other in disk.paths() {
        twin.set_content(&other, &disk.content(&other).unwrap());
    }
    twin.set_content(path, content);
    twin
}

/// What a walk finds that an undamaged closed log does not have, except for an unfinished append.
fn faults(disk: &SimStorage) -> Vec<String> {
    use tapedb_log::Found;
    let mut walk = Walk::open(Arc::new(disk.clone()), dir(), STREAM, SPACE).unwrap();
    let mut faults = Vec::new();
    while let Some(found) = walk.next_found() {
        if !matches!(
            found,
            Found::File { .. } | Found::Batch(_) | Found::Preallocated { .. } | Found::Unfinished(_)
        ) {
            faults.push(format!("{found:?}"));
        }
    }
    faults
}

fn last_log(disk: &SimStorage) -> PathBuf {
    disk.paths().into_iter().rfind(|path| path.extension().is_some_and(|e| e == "log")).unwrap()
}

#[test]
fn every_flipped_byte_of_a_closed_log_is_found() {
    for batches in [0, 1, 3, 14] {
        let disk = closed(batches);
        assert_eq!(faults(&disk), [""; 0], "{batches} batches");
        for path in disk.paths() {
            let content = disk.content(&path).unwrap();
            for at in 0..content.len() {
                for mask in [1, 0x80, 0xff] {
                    let mut broken = content.clone();
                    broken[at] ^= mask;
                    let broken = with(&disk, &path, &broken);
                    assert!(!faults(&broken).is_empty(), "{batches} batches, {}, byte {at}", path.display());
                }
            }
        }
    }
}

#[test]
fn every_cut_of_a_closed_log_is_found_and_no_number_is_used_twice() {
    for batches in [0, 1, 3, 14] {
        let disk = closed(batches);
        let path = last_log(&disk);
        let content = disk.content(&path).unwrap();
        let used = scan_end(&content);
        for len in 0..used {
            for filled in [len, used] {
                let mut broken = content[..len].to_vec();
                // A file system leaves zeros for a lost page.
                broken.resize(filled, 0);
                if broken == content[..used] {
                    continue;
                }
                let broken = with(&disk, &path, &broken);
                assert!(!faults(&broken).is_empty(), "{batches} batches, {len} bytes");
                let (_, by_reader) = reader(&broken);
                let (mut writer, recovery) = open(&broken);
                assert_eq!(by_reader.next_sequence, recovery.next_sequence);
                assert!(batches == 0 || !recovery.damaged.is_empty(), "{recovery}");
                assert_eq!(append(&mut writer, 2, 8).unwrap().start, batches * 3, "{len} bytes");
                let found = read_all(writer.log()).sequences;
                assert_eq!(found[found.len() - 2..], [batches * 3, batches * 3 + 1]);
            }
        }
    }
}

fn scan_end(content: &[u8]) -> usize {
    tapedb_log::scan_bytes(content).end as usize
}

#[test]
fn a_missing_last_file_is_found() {
    let disk = closed(14);
    disk.remove(&last_log(&disk)).unwrap();
    assert!(faults(&disk).iter().any(|fault| fault.contains("Gone")), "{:?}", faults(&disk));
    let (mut writer, recovery) = open(&disk);
    assert_eq!(recovery.damaged.last().unwrap().reason, Reason::Gone);
    assert_eq!(append(&mut writer, 1, 8).unwrap().start, 42);
}

/// Even a file without any batch left is complete when the next one begins.
#[test]
fn a_file_that_has_lost_all_its_batches_is_followed_by_another() {
    let disk = closed(3);
    let path = last_log(&disk);
    let content = disk.content(&path).unwrap();
    for len in [0, 10, 64] {
        let disk = with(&disk, &path, &content[..len]);
        let writer = tapedb_log::SharedWriter::new(open(&disk).0);
        assert!(writer.roll().unwrap() && !writer.roll().unwrap());
        let complete = writer.log().complete_files();
        assert_eq!(complete.iter().map(|file| file.next_sequence).collect::<Vec<_>>(), [9], "{len} bytes");
    }
}

/// After the recorded end an append may be torn; before it, damage is damage.
#[test]
fn a_torn_append_after_the_end_is_cut_and_damage_before_it_stays() {
    let disk = closed(3);
    let path = last_log(&disk);
    let end = scan_end(&disk.content(&path).unwrap());
    let (mut writer, _) = open(&disk);
    append(&mut writer, 1, 8).unwrap();
    drop(writer);
    let content = disk.content(&path).unwrap();
    for len in end..scan_end(&content) {
        let torn = with(&disk, &path, &content[..len]);
        assert!(faults(&torn).is_empty(), "{len} bytes");
        let (writer, recovery) = open(&torn);
        assert!(recovery.damaged.is_empty() && recovery.cut.len() == usize::from(len > end), "{recovery}");
        assert_eq!(writer.next_sequence(), 9);
    }
    // The last batch before the end, and the torn one after it.
    let mut broken = content[..end + 20].to_vec();
    broken[end - 3] ^= 1;
    let broken = with(&disk, &path, &broken);
    assert!(!faults(&broken).is_empty());
    let (writer, recovery) = open(&broken);
    assert_eq!((recovery.damaged.len(), recovery.damaged[0].count), (1, Some(3)), "{recovery}");
    assert_eq!(writer.next_sequence(), 9);
    assert_eq!(broken.content(&path).unwrap().len(), end + 20, "damaged bytes stay");
}

#[test]
fn closing_again_writes_nothing_and_write_errors_are_reported() {
    let disk = closed(2);
    let before = disk.operations();
    let (mut writer, _) = open(&disk);
    let opened = disk.operations();
    writer.close().unwrap();
    assert_eq!(disk.operations(), opened, "{before}");
    let mut failures = 0;
    for operation in 1..7 {
        append(&mut writer, 1, 8).unwrap();
        disk.fail_at(disk.operations() + operation, std::io::ErrorKind::StorageFull);
        failures += usize::from(writer.close().is_err());
        disk.make_readable();
        assert!(faults(&disk).is_empty(), "operation {operation}");
    }
    assert!(failures >= 3, "{failures}");
    writer.close().unwrap();
    assert!(faults(&disk).is_empty());
}
