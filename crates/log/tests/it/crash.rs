//! Kills and power cuts in every operation, full and failing disks: acknowledged messages are there, in order, once.

use crate::support::{self, *};
use proptest::prelude::*;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use tapedb_codec::batch::BatchBuilder;
use tapedb_log::sim::{SimStorage, Stop};
use tapedb_log::{Durability, Log, LogError, LogOptions, SharedWriter, Storage, SymbolFile};

/// Appends batches of these sizes until something fails; returns the end of what was acknowledged.
fn work(disk: &SimStorage, durability: Durability, sizes: &[(u64, usize)]) -> u64 {
    let Ok((mut writer, _)) = writer(disk, options(durability, 2_000)) else { return 0 };
    for &(count, body_bytes) in sizes {
        if append(&mut writer, count, body_bytes).is_err() {
            return writer.log().next_sequence();
        }
    }
    writer.next_sequence()
}

/// Everything acknowledged is there in order and once; the writer continues after it.
fn check_recovered(disk: &SimStorage, durability: Durability, acknowledged: u64, seed: u64) {
    let (mut writer, recovery) = writer(disk, options(durability, 2_000)).unwrap();
    let found = read_all(writer.log());
    assert!(
        found.sequences.len() as u64 >= acknowledged,
        "seed {seed}: {acknowledged} acknowledged; {recovery}"
    );
    assert!(found.sequences.iter().copied().eq(0..found.sequences.len() as u64), "seed {seed}: {recovery}");
    assert!(recovery.damaged.is_empty() && found.damaged.is_empty(), "seed {seed}: {recovery}");
    for _ in 0..30 {
        append(&mut writer, 3, 40).unwrap();
    }
    let (_, again) = support::writer(disk, options(durability, 2_000)).unwrap();
    assert_eq!(
        (again.is_clean(), again.messages),
        (true, found.sequences.len() as u64 + 90),
        "seed {seed}: {again}"
    );
    assert_eq!(read_all(&reader(disk).0).sequences, read_all(writer.log()).sequences);
}

fn crash_everywhere(durability: Durability, stop: Stop) {
    let sizes: Vec<_> = (0..40).map(|i| (1 + i % 4, 8 + 37 * (i as usize % 7))).collect();
    let calm = SimStorage::new(0);
    work(&calm, durability, &sizes);
    assert!(calm.paths().len() > 6, "the work must roll files");
    for operation in 1..=calm.operations() {
        for round in 0..4 {
            let seed = operation * 4 + round;
            let disk = SimStorage::new(seed);
            disk.crash_at(operation);
            let acknowledged = work(&disk, durability, &sizes);
            disk.restart(stop);
            check_recovered(&disk, durability, acknowledged, seed);
        }
    }
}

#[test]
fn async_survives_a_kill_in_every_operation() {
    crash_everywhere(Durability::Async, Stop::Kill);
}

#[test]
fn sync_survives_a_kill_in_every_operation() {
    crash_everywhere(Durability::Sync, Stop::Kill);
}

#[test]
fn sync_survives_a_power_cut_in_every_operation() {
    crash_everywhere(Durability::Sync, Stop::Power);
}

/// Appends, rolls and trims until something fails; returns the end of what was acknowledged, and the beginning after the
/// last trim.
fn work_and_trim(disk: &SimStorage, durability: Durability) -> (u64, u64) {
    let Ok((writer, _)) = writer(disk, options(durability, 2_000)) else { return (0, 0) };
    let shared = SharedWriter::new(writer);
    let mut begin = 0;
    for round in 0..50 {
        let mut batch = batch(shared.log().next_sequence(), 1 + round % 4, 8 + 37 * (round as usize % 7));
        let mut done = shared.append(&mut batch).is_ok();
        if done && round % 5 == 4 {
            done = shared.roll().is_ok();
        }
        if done && round % 7 == 6 {
            let files = shared.log().complete_files();
            begin = files[files.len() / 2].next_sequence;
            done = shared.trim(begin).is_ok();
        }
        if !done {
            break;
        }
    }
    (shared.log().next_sequence(), begin)
}

/// Nothing acknowledged and not trimmed is lost, nothing trimmed comes back.
fn check_trimmed(disk: &SimStorage, durability: Durability, (acknowledged, begin): (u64, u64), seed: u64) {
    let options = LogOptions { first_sequence: begin, ..options(durability, 2_000) };
    let (mut writer, recovery) = writer(disk, options).unwrap();
    assert!(recovery.damaged.is_empty(), "seed {seed}: {recovery}");
    let found = read_all(writer.log());
    let end = writer.next_sequence();
    assert!(found.sequences.iter().copied().eq(begin..end), "seed {seed}: from {begin}; {recovery}");
    assert!(end >= acknowledged, "seed {seed}: {acknowledged} acknowledged; {recovery}");
    let number = |path: &Path| path.file_stem().unwrap().to_str().unwrap().parse::<u64>().unwrap();
    assert!(disk.paths().iter().all(|path| number(path) >= begin), "seed {seed}: {:?}", disk.paths());
    append(&mut writer, 3, 40).unwrap();
    let (log, again) = reader_from(disk, begin);
    assert!(again.is_clean() && log.next_sequence() == end + 3, "seed {seed}: {again}");
    assert_eq!(read_all(&log), read_all(writer.log()));
}

fn crash_everywhere_with_trims(durability: Durability, stop: Stop) {
    let calm = SimStorage::new(0);
    let (acknowledged, begin) = work_and_trim(&calm, durability);
    assert!(begin > 20 && acknowledged > begin, "{acknowledged} from {begin}");
    for operation in 1..=calm.operations() {
        for round in 0..4 {
            let seed = operation * 4 + round;
            let disk = SimStorage::new(seed);
            disk.crash_at(operation);
            let owed = work_and_trim(&disk, durability);
            disk.restart(stop);
            check_trimmed(&disk, durability, owed, seed);
        }
    }
}

#[test]
fn trims_and_rolls_survive_a_kill_in_every_operation() {
    crash_everywhere_with_trims(Durability::Async, Stop::Kill);
    crash_everywhere_with_trims(Durability::Sync, Stop::Kill);
}

#[test]
fn trims_and_rolls_survive_a_power_cut_in_every_operation() {
    crash_everywhere_with_trims(Durability::Sync, Stop::Power);
}

#[test]
fn a_trim_that_fails_half_way_is_finished_by_the_next_opening() {
    let calm = SimStorage::new(0);
    work_and_trim(&calm, Durability::Sync);
    for operation in 1..=calm.operations() {
        let disk = SimStorage::new(operation);
        disk.fail_at(operation, ErrorKind::PermissionDenied);
        let owed = work_and_trim(&disk, Durability::Sync);
        disk.restart(Stop::Kill);
        check_trimmed(&disk, Durability::Sync, owed, operation);
    }
}

/// A power cut may take a whole unsynced log, but the numbers of trimmed messages are not used again.
#[test]
fn an_async_log_never_begins_before_what_was_trimmed() {
    for seed in 0..200 {
        let disk = SimStorage::new(seed);
        let (_, begin) = work_and_trim(&disk, Durability::Async);
        disk.restart(Stop::Power);
        let options = LogOptions { first_sequence: begin, ..options(Durability::Async, 2_000) };
        let (mut writer, recovery) = writer(&disk, options).unwrap();
        let found = read_all(writer.log());
        assert!(found.sequences.is_sorted_by(|a, b| a < b) && found.sequences.iter().all(|&s| s >= begin));
        let lost: u64 = recovery.damaged.iter().filter_map(|damage| damage.count).sum();
        let reach = recovery.next_sequence - begin;
        assert_eq!(found.sequences.len() as u64 + lost, reach, "seed {seed}: {recovery}");
        assert!(append(&mut writer, 1, 8).unwrap().start >= begin);
    }
}

#[test]
fn async_opens_after_a_power_cut_and_reports_what_is_lost() {
    for seed in 0..300 {
        let disk = SimStorage::new(seed);
        let sizes = vec![(3, 50); 60];
        work(&disk, Durability::Async, &sizes);
        disk.restart(Stop::Power);
        let (mut writer, recovery) = writer(&disk, options(Durability::Async, 2_000)).unwrap();
        let found = read_all(writer.log());
        assert!(found.sequences.is_sorted_by(|a, b| a < b), "seed {seed}");
        let lost: u64 = recovery.damaged.iter().filter_map(|damage| damage.count).sum();
        let reach = recovery.next_sequence - recovery.first_sequence;
        assert_eq!(found.sequences.len() as u64 + lost, reach, "seed {seed}: {recovery}");
        append(&mut writer, 1, 8).unwrap();
    }
}

#[test]
fn every_operation_may_fail_once() {
    for durability in [Durability::Async, Durability::Sync] {
        for (operation, kind) in (1..150).flat_map(|n| [(n, ErrorKind::StorageFull), (n, ErrorKind::Other)]) {
            let disk = SimStorage::new(operation);
            let Ok((mut writer, _)) = writer(&disk, options(durability, 2_000)) else { continue };
            disk.fail_at(operation, kind);
            for _ in 0..40 {
                let before = writer.next_sequence();
                match append(&mut writer, 2, 60) {
                    Ok(sequences) => assert_eq!(sequences, before..before + 2),
                    Err(LogError::Poisoned { .. }) => {
                        writer = support::writer(&disk, options(durability, 2_000)).unwrap().0;
                    }
                    Err(error) => {
                        assert_eq!(matches!(error, LogError::Full { .. }), kind == ErrorKind::StorageFull);
                        assert_eq!(writer.next_sequence(), before);
                    }
                }
            }
            let found = read_all(writer.log());
            assert!(found.sequences.iter().copied().eq(0..writer.next_sequence()), "operation {operation}");
            // A fault that has not occurred yet would hit the next opening.
            disk.restart(Stop::Kill);
            let (_, recovery) = support::writer(&disk, options(durability, 2_000)).unwrap();
            assert!(recovery.is_clean(), "operation {operation}: {recovery}");
        }
    }
}

#[test]
fn a_full_disk_stops_writing_until_there_is_free_space() {
    let disk = SimStorage::new(5);
    let (mut writer, _) = writer(&disk, options(Durability::Sync, 2_000)).unwrap();
    disk.set_capacity(Some(9_000));
    while append(&mut writer, 2, 60).is_ok() {}
    let end = writer.next_sequence();
    for _ in 0..3 {
        assert!(matches!(append(&mut writer, 2, 60), Err(LogError::Full { .. })));
    }
    assert!(read_all(writer.log()).sequences.into_iter().eq(0..end));
    disk.set_capacity(None);
    assert_eq!(append(&mut writer, 2, 60).unwrap(), end..end + 2);
    drop(writer);
    let (_, recovery) = support::writer(&disk, options(Durability::Sync, 2_000)).unwrap();
    assert_eq!((recovery.is_clean(), recovery.messages), (true, end + 2), "{recovery}");
}

#[test]
fn a_write_that_cannot_be_undone_poisons_the_writer() {
    let disk = SimStorage::new(6);
    let (mut writer, _) = writer(&disk, options(Durability::Async, 100_000)).unwrap();
    append(&mut writer, 2, 60).unwrap();
    disk.fail_truncate(true);
    disk.fail_at(disk.operations() + 1, ErrorKind::Other);
    assert!(matches!(append(&mut writer, 2, 60), Err(LogError::Poisoned { .. })));
    assert!(matches!(append(&mut writer, 2, 60), Err(LogError::Poisoned { .. })));
    assert_eq!(read_all(writer.log()).sequences, [0, 1]);
    disk.fail_truncate(false);
    let (mut writer, _) = support::writer(&disk, options(Durability::Async, 100_000)).unwrap();
    assert_eq!(append(&mut writer, 1, 8).unwrap(), 2..3);
}

/// Messages that a killed process wrote but did not sync are visible after the next opening: from then on they must stay.
#[test]
fn what_a_reopened_sync_log_shows_survives_a_power_cut() {
    for seed in 0..50 {
        let disk = SimStorage::new(seed);
        let (mut writer, _) = writer(&disk, options(Durability::Sync, 100_000)).unwrap();
        for first in [0, 2, 4] {
            writer.append_no_sync(&mut batch(first, 2, 60)).unwrap();
        }
        disk.restart(Stop::Kill);
        let (writer, recovery) = support::writer(&disk, options(Durability::Sync, 100_000)).unwrap();
        assert_eq!((recovery.messages, writer.log().next_sequence()), (6, 6));
        disk.restart(Stop::Power);
        assert_eq!(read_all(&reader(&disk).0).sequences, [0, 1, 2, 3, 4, 5], "seed {seed}");
    }
}

/// A kill in any operation, an opening, a power cut: what was visible after the opening is still there.
#[test]
fn sync_survives_a_kill_and_then_a_power_cut() {
    let sizes = vec![(3, 200); 12];
    let calm = SimStorage::new(0);
    work(&calm, Durability::Sync, &sizes);
    for operation in 1..=calm.operations() {
        let disk = SimStorage::new(operation);
        disk.crash_at(operation);
        work(&disk, Durability::Sync, &sizes);
        disk.restart(Stop::Kill);
        let (writer, _) = writer(&disk, options(Durability::Sync, 2_000)).unwrap();
        let visible = writer.next_sequence();
        disk.restart(Stop::Power);
        check_recovered(&disk, Durability::Sync, visible, operation);
    }
}

/// Every message has a symbol of its own.
#[test]
fn a_power_cut_takes_only_names_that_the_last_file_uses() {
    for seed in 0..200 {
        let disk = SimStorage::new(seed);
        let path = Path::new("/symbols");
        // As in a stream that has been created.
        disk.create_dir(dir()).unwrap();
        disk.sync_dir(Path::new("/")).unwrap();
        let (mut symbols, _) = SymbolFile::open_rw(&disk, path, STREAM, Durability::Async).unwrap();
        let (mut writer, _) = writer(&disk, options(Durability::Async, 1_000)).unwrap();
        writer.sync_symbols(&symbols);
        for number in 0..60u32 {
            assert_eq!(symbols.append(&[&format!("S{number}")]).unwrap(), number..number + 1);
            let (mut builder, mut batch) = (BatchBuilder::new(), Vec::new());
            builder.push_bytes(number.into(), number, 0, &[0; 40]).unwrap();
            builder.finish(1, &mut batch);
            writer.append(&mut batch).unwrap();
        }
        disk.restart(Stop::Power);
        let (symbols, _) = SymbolFile::open_rw(&disk, path, STREAM, Durability::Async).unwrap();
        // Message and symbol numbers are the same; a file begins with the number in its name.
        let last = reader(&disk).0.snapshot().iter().next_back().map_or(0, |granule| granule.file);
        assert!(u64::from(symbols.dictionary().len()) >= last, "seed {seed}");
    }
}

/// Messages and body bytes of each append.
fn appends() -> impl Strategy<Value = Vec<(u64, usize)>> {
    prop::collection::vec((1..9u64, 8..400usize), 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn random_work_survives_random_crashes(
        seed in any::<u64>(),
        rounds in prop::collection::vec((1..200u64, appends()), 1..5),
        power in any::<bool>(),
    ) {
        let (durability, stop) =
            if power { (Durability::Sync, Stop::Power) } else { (Durability::Async, Stop::Kill) };
        let disk = SimStorage::new(seed);
        let mut acknowledged = 0;
        for (operations, sizes) in rounds {
            disk.crash_at(disk.operations() + operations);
            acknowledged = work(&disk, durability, &sizes).max(acknowledged);
            disk.restart(stop);
            check_recovered(&disk, durability, acknowledged, seed);
            acknowledged = writer(&disk, options(durability, 2_000)).unwrap().0.next_sequence();
        }
    }
}

#[test]
fn preallocated_space_is_no_unfinished_append() {
    let disk = SimStorage::new(5);
    let open = || writer(&disk, options(Durability::Async, 1 << 20)).unwrap();
    let (mut first, _) = open();
    let follower = Log::open(Arc::new(disk.clone()), dir(), STREAM, SPACE, 0).unwrap().0;
    for number in 0..30 {
        append(&mut first, 2, 40).unwrap();
        assert!(follower.refresh().unwrap() && !follower.refresh().unwrap());
        assert_eq!(read_all(&follower).sequences.len(), 2 * (number + 1));
    }
    assert!(follower.preallocated_bytes().unwrap() > 1_000);
    assert_eq!(follower.preallocated_bytes().unwrap(), first.log().preallocated_bytes().unwrap());
    disk.stop();
    drop(first);
    disk.restart(Stop::Kill);

    let log = disk.paths().into_iter().find(|path| path.extension().is_some_and(|e| e == "log")).unwrap();
    let preallocated = disk.content(&log).unwrap();
    let used = preallocated.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    assert!(preallocated.len() > used + 1_000, "nothing was preallocated");
    assert!(reader(&disk).1.is_clean());
    let (mut second, recovery) = open();
    assert!(recovery.is_clean() && recovery.messages == 60, "{recovery}");
    assert_eq!(disk.content(&log).unwrap().len(), used);
    append(&mut second, 1, 40).unwrap();
    drop(second);
    drop(open());

    // An unfinished append before preallocated space.
    let mut torn = disk.content(&log).unwrap();
    let begun = &batch(61, 3, 40)[..batch(61, 3, 40).len() - 20];
    torn.extend_from_slice(begun);
    torn.resize(torn.len() + 5_000, 0);
    disk.set_content(&log, &torn);
    let (third, recovery) = open();
    assert_eq!(
        (recovery.cut.len(), recovery.cut[0].bytes, recovery.messages),
        (1, begun.len() as u64, 61),
        "{recovery}"
    );
    assert_eq!(read_all(third.log()).sequences.len(), 61);
}

#[test]
fn preallocated_space_at_the_end_of_an_older_file_loses_nothing() {
    let disk = SimStorage::new(6);
    let open = || writer(&disk, options(Durability::Async, 1_000)).unwrap();
    let (mut first, _) = open();
    for _ in 0..20 {
        append(&mut first, 2, 40).unwrap();
    }
    drop(first);
    drop(open());
    let log = disk.paths().into_iter().find(|path| path.extension().is_some_and(|e| e == "log")).unwrap();
    let whole = disk.content(&log).unwrap();
    disk.set_content(&log, &[&whole[..], &[0; 700]].concat());
    let (found, recovery) = reader(&disk);
    assert!(recovery.damaged.is_empty() && recovery.messages == 40, "{recovery}");
    assert_eq!(read_all(&found).sequences.len(), 40);
    let (second, recovery) = open();
    assert!(recovery.damaged.is_empty() && recovery.messages == 40, "{recovery}");
    assert_eq!(disk.content(&log).unwrap(), whole);
    drop(second);
    assert!(open().1.indexes_rebuilt.is_empty());
}
