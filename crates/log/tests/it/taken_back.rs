//! A write that was taken back, because it failed, does not come back after a power cut.

use crate::support::*;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Arc, Mutex};
use tapedb_log::sim::{SimStorage, Stop};
use tapedb_log::{Durability, LogError, LogWriter, SharedWriter, SymbolFile};

const DURABLE: [Durability; 2] = [Durability::Async, Durability::Sync];

/// The next operation of the disk fails; a write leaves a first part, which may be all of it.
fn fail_next(disk: &SimStorage, kind: ErrorKind) {
    disk.fail_at(disk.operations() + 1, kind);
}

fn symbols_path() -> &'static Path {
    Path::new("/symbols")
}

fn symbols(disk: &SimStorage, durability: Durability) -> SymbolFile {
    SymbolFile::open_rw(disk, symbols_path(), STREAM, durability).unwrap().0
}

fn names(file: &SymbolFile) -> Vec<String> {
    file.dictionary().names_from(0).map(str::to_owned).collect()
}

/// A writer of a log whose directory and first file are on the disk, as those of a stream.
fn log(disk: &SimStorage, durability: Durability) -> LogWriter {
    drop(writer(disk, options(Durability::Sync, 100_000)).unwrap());
    writer(disk, options(durability, 100_000)).unwrap().0
}

#[test]
fn a_refused_batch_is_not_in_the_log_after_a_power_cut() {
    for (seed, durability) in (0..1_000).flat_map(|seed| DURABLE.map(|durability| (seed, durability))) {
        let disk = SimStorage::new(seed);
        let mut writer = log(&disk, durability);
        append(&mut writer, 1, 8).unwrap();
        fail_next(&disk, ErrorKind::StorageFull);
        assert!(matches!(append(&mut writer, 1, 8), Err(LogError::Full { .. })));
        disk.restart(Stop::Power);
        let found = read_all(&reader(&disk).0).sequences;
        assert!([&[0][..], &[]].contains(&&found[..]), "seed {seed}, {durability:?}: {found:?}");
    }
}

/// Another batch gets its sequence numbers and its place.
#[test]
fn a_refused_batch_does_not_take_the_place_of_a_later_one() {
    for (seed, durability) in (0..1_000).flat_map(|seed| DURABLE.map(|durability| (seed, durability))) {
        let disk = SimStorage::new(seed);
        let mut writer = log(&disk, durability);
        fail_next(&disk, ErrorKind::Other);
        // It says that it is message 7, and would be message 0.
        assert!(matches!(writer.append(&mut batch(7, 1, 8)), Err(LogError::Io { .. })));
        append(&mut writer, 1, 8).unwrap();
        disk.restart(Stop::Power);
        read_all(&reader(&disk).0);
    }
}

#[test]
fn a_writer_that_cannot_sync_what_it_took_back_stops() {
    for durability in DURABLE {
        let disk = SimStorage::new(1);
        let (mut writer, _) = writer(&disk, options(durability, 100_000)).unwrap();
        append(&mut writer, 1, 8).unwrap();
        // The write finds no space, and the sync after the truncation fails.
        disk.set_capacity(Some(0));
        disk.fail_at(disk.operations() + 3, ErrorKind::Other);
        assert!(matches!(append(&mut writer, 1, 8), Err(LogError::Poisoned { .. })), "{durability:?}");
        disk.set_capacity(None);
        assert!(matches!(append(&mut writer, 1, 8), Err(LogError::Poisoned { .. })));
        assert_eq!(read_all(writer.log()).sequences, [0]);
    }
}

/// The system reports to one of two syncs that it could not write: to the one after the write that was taken back.
#[test]
fn a_sync_beside_one_that_failed_acknowledges_nothing() {
    let disk = SimStorage::new(2);
    let (writer, _) = writer(&disk, options(Durability::Sync, 100_000)).unwrap();
    let shared = Arc::new(SharedWriter::new(writer));
    let (other, faulty, failed) = (Arc::clone(&shared), disk.clone(), Arc::new(Mutex::new(false)));
    let done = Arc::clone(&failed);
    disk.during_sync(Some(Arc::new(move || {
        faulty.set_capacity(Some(0));
        faulty.fail_at(faulty.operations() + 3, ErrorKind::Other);
        let error = other.try_turn(&mut batch(1, 1, 8)).unwrap().write().unwrap_err();
        assert!(matches!(error, LogError::Poisoned { .. }), "{error}");
        *done.lock().unwrap() = true;
    })));
    let ticket = shared.turn(&mut batch(0, 1, 8)).write().unwrap().unlock();
    assert!(matches!(shared.commit(ticket), Err(LogError::Poisoned { .. })));
    assert!(*failed.lock().unwrap());
    disk.during_sync(None);
    assert_eq!(shared.log().next_sequence(), 0, "it may not be on the disk");
}

/// What another sync covers is acknowledged, and the batch that was taken back can be written again.
#[test]
fn a_write_that_is_taken_back_beside_a_sync_fails_alone() {
    let disk = SimStorage::new(3);
    let (writer, _) = writer(&disk, options(Durability::Sync, 100_000)).unwrap();
    let shared = Arc::new(SharedWriter::new(writer));
    let (other, faulty) = (Arc::clone(&shared), disk.clone());
    disk.during_sync(Some(Arc::new(move || {
        // The sync of what is taken back calls this again, and the turn is taken.
        let mut refused = batch(1, 1, 8);
        if let Some(turn) = other.try_turn(&mut refused) {
            fail_next(&faulty, ErrorKind::StorageFull);
            assert!(matches!(turn.write(), Err(LogError::Full { .. })));
        }
    })));
    let ticket = shared.turn(&mut batch(0, 1, 8)).write().unwrap().unlock();
    assert_eq!(shared.commit(ticket).unwrap().sequences, 0..1);
    disk.during_sync(None);
    assert_eq!(shared.append(&mut batch(1, 1, 8)).unwrap().sequences, 1..2);
    disk.restart(Stop::Power);
    assert_eq!(read_all(&reader(&disk).0).sequences, [0, 1]);
}

/// Else messages of the symbol that gets the id next would have the wrong symbol.
#[test]
fn a_refused_name_has_no_id_after_a_power_cut() {
    for (seed, durability) in (0..1_000).flat_map(|seed| DURABLE.map(|durability| (seed, durability))) {
        let disk = SimStorage::new(seed);
        let mut file = symbols(&disk, durability);
        file.append(&["A"]).unwrap();
        fail_next(&disk, ErrorKind::StorageFull);
        assert!(matches!(file.append(&["refused"]), Err(LogError::Full { .. })));
        if seed % 2 == 0 {
            assert_eq!(file.append(&["B"]).unwrap(), 1..2);
        }
        disk.restart(Stop::Power);
        let found = names(&symbols(&disk, durability));
        assert!(found.iter().all(|name| name != "refused"), "seed {seed}, {durability:?}: {found:?}");
    }
}

#[test]
fn a_rename_that_failed_leaves_the_old_name_after_a_power_cut() {
    for (seed, durability) in (0..1_000).flat_map(|seed| DURABLE.map(|durability| (seed, durability))) {
        let disk = SimStorage::new(seed);
        let mut file = symbols(&disk, Durability::Sync);
        file.append(&["A"]).unwrap();
        let mut file = match durability {
            Durability::Sync => file,
            _ => symbols(&disk, durability),
        };
        fail_next(&disk, ErrorKind::Other);
        assert!(matches!(file.rename(0, "B"), Err(LogError::Io { .. })));
        disk.restart(Stop::Power);
        assert_eq!(names(&symbols(&disk, durability)), ["A"], "seed {seed}, {durability:?}");
    }
}

/// The next sync would succeed without the names that the failed one dropped.
#[test]
fn names_that_a_failed_sync_dropped_are_never_called_synced() {
    for durability in DURABLE {
        let disk = SimStorage::new(4);
        let mut file = symbols(&disk, durability);
        let (mut writer, _) = writer(&disk, options(Durability::Async, 300)).unwrap();
        writer.sync_symbols(&file);
        file.append(&["A"]).unwrap();
        fail_next(&disk, ErrorKind::Other);
        assert!(matches!(file.sync(), Err(LogError::Poisoned { .. })));
        assert!(matches!(file.sync(), Err(LogError::Poisoned { .. })));
        assert!(matches!(file.append(&["B"]), Err(LogError::Poisoned { .. })));
        assert!(matches!(file.rename(0, "C"), Err(LogError::Poisoned { .. })));
        // The log that uses them is not rolled.
        let appended = (0..20).try_for_each(|_| append(&mut writer, 1, 60).map(drop));
        assert!(matches!(appended, Err(LogError::Poisoned { .. })));
        assert_eq!(writer.log().files(), [0]);
    }
}

/// The space that rolls first gets the error; the other spaces of the stream must not roll either.
#[test]
fn a_sync_of_names_that_failed_in_one_space_fails_in_all() {
    let disk = SimStorage::new(5);
    let mut file = symbols(&disk, Durability::Async);
    let (mut writer, _) = writer(&disk, options(Durability::Async, 300)).unwrap();
    writer.sync_symbols(&file);
    file.append(&["A"]).unwrap();
    append(&mut writer, 1, 200).unwrap();
    // Before the sync preallocated space is cut off.
    let rolled = (1..=3).find(|operation| {
        disk.fail_at(disk.operations() + operation, ErrorKind::Other);
        matches!(append(&mut writer, 1, 200), Err(LogError::Poisoned { .. }))
    });
    assert!(rolled.is_some());
    assert!(matches!(file.sync(), Err(LogError::Poisoned { .. })));
    assert!(matches!(file.append(&["B"]), Err(LogError::Poisoned { .. })));
}

/// The system can still read what it could not write.
#[test]
fn names_that_were_read_after_a_failed_sync_are_on_the_disk() {
    let disk = SimStorage::new(6);
    let mut file = symbols(&disk, Durability::Sync);
    file.append(&["A"]).unwrap();
    disk.fail_at(disk.operations() + 2, ErrorKind::Other);
    assert!(matches!(file.append(&["B"]), Err(LogError::Poisoned { .. })));
    drop(file);
    assert_eq!(names(&symbols(&disk, Durability::Sync)), ["A", "B"]);
    disk.restart(Stop::Power);
    assert_eq!(names(&symbols(&disk, Durability::Sync)), ["A", "B"]);
}
